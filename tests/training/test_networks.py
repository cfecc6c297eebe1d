import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    NUM_ACTIONS,
    NUM_MARKET,
    RESERVE,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.batch import Batch
from splendor_env.core.cards import NUM_LEVELS
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.state import MARKET_SLOTS, MAX_PLAYERS, MAX_RESERVED, Phase, standard
from training.networks import (
    NETWORKS,
    NetworkSizes,
    PolicyNetwork,
    masked_log_probs,
    win_shares,
)

ALL_SIZES = [
    NetworkSizes(network, 16, num_shared, num_separate, 8)
    for network in NETWORKS
    for num_shared, num_separate in ((0, 0), (1, 0), (0, 2), (2, 1))
]


def make_network(sizes, seed=0):
    """A network whose outputs differ clearly, unlike those of a new one."""
    generator = torch.Generator().manual_seed(seed)
    network = PolicyNetwork(sizes).requires_grad_(False)
    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter += noise * 0.5 / parameter.shape[-1] ** 0.5
    return network


def play(num_players, num_games=64, num_steps=40, seed=0):
    """Games of random moves, some steps after the deal."""
    batch = Batch(standard(num_players), num_games, check=True)
    batch.reset(seed)
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        batch.step((rng.random(batch.action_mask.shape) * batch.action_mask).argmax(1))
    return batch


@pytest.fixture(scope="module")
def batches():
    return {num_players: play(num_players) for num_players in (2, 3, 4)}


def observe(batch):
    return torch.from_numpy(batch.observation.copy())


@pytest.mark.parametrize("sizes", ALL_SIZES, ids=str)
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_shapes_and_forward_is_decode_of_encode(sizes, num_players, batches):
    network = make_network(sizes)
    observation = observe(batches[num_players])
    logits, value = network(observation)
    assert logits.shape == (64, NUM_ACTIONS) and value.shape == (64, MAX_PLAYERS)
    assert logits.dtype == value.dtype == torch.float32
    again = network.decode(network.encode(observation), observation)
    assert torch.equal(again[0], logits) and torch.equal(again[1], value)
    assert torch.isfinite(logits).all() and torch.isfinite(value).all()
    assert logits.std(0).min() > 0


@pytest.mark.parametrize("sizes", ALL_SIZES, ids=str)
def test_rows_do_not_depend_on_each_other(sizes, batches):
    network, observation = make_network(sizes), observe(batches[2])
    logits, value = network(observation)
    for row in (0, 17, 63):
        one_logits, one_value = network(observation[row : row + 1])
        torch.testing.assert_close(one_logits[0], logits[row], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one_value[0], value[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", ALL_SIZES, ids=str)
def test_the_number_of_layers_and_their_size(sizes):
    network = PolicyNetwork(sizes)

    def linear(part):
        layers = [layer for layer in part if isinstance(layer, torch.nn.Linear)]
        return [layer.out_features for layer in layers]

    assert linear(network.shared) == [16] * sizes.num_shared_layers
    assert linear(network.policy) == linear(network.value) == [16] * sizes.num_separate_layers
    assert hasattr(network, "cards") == (sizes.network == "cards")
    if sizes.network == "cards":
        assert linear(network.cards)[-1] == sizes.card_size


@pytest.mark.parametrize("network", NETWORKS)
def test_a_new_network_prefers_nothing(network, batches):
    logits, value = PolicyNetwork(NetworkSizes(network, 256, 1, 1, 32))(observe(batches[4]))
    assert logits.detach().abs().max() < 2
    assert win_shares(value).detach().sub(1 / 4).abs().max() < 0.05


@pytest.mark.parametrize("sizes", ALL_SIZES, ids=str)
def test_every_parameter_gets_a_gradient(sizes, batches):
    network = make_network(sizes).requires_grad_(True)
    logits, value = network(observe(batches[4]))
    log_probs = masked_log_probs(logits, torch.from_numpy(batches[4].action_mask))
    (log_probs[:, :RETURN].exp().square().sum() + value.square().sum()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_absent_seats_have_no_share(network, num_players, batches):
    network = make_network(NetworkSizes(network, 16, 1, 1, 8))
    _, value = network(observe(batches[num_players]))
    share = win_shares(value)
    assert (share[:, :num_players] > 0).all()
    assert (share[:, num_players:] == 0).all()
    torch.testing.assert_close(share.sum(1), torch.ones(64))
    # A cross-entropy with targets of 0 for the absent is finite.
    target = torch.zeros(64, MAX_PLAYERS)
    target[:, 0] = 1
    assert torch.isfinite((target * value.log_softmax(1)).sum(1)).all()


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_probabilities_are_those_of_the_legal_actions(scale, batches):
    generator = torch.Generator().manual_seed(0)
    action_mask = torch.from_numpy(batches[3].action_mask)
    logits = torch.randn(64, NUM_ACTIONS, generator=generator) * scale
    logits[:, BUY] += 10 * scale  # often illegal
    log_probs = masked_log_probs(logits, action_mask)
    is_legal = action_mask.bool()
    for row in range(64):
        legal = is_legal[row]
        expected = logits[row, legal].double().log_softmax(0)
        torch.testing.assert_close(
            log_probs[row, legal].double(), expected, rtol=1e-4, atol=1e-4 * max(scale, 1)
        )
    assert (log_probs[~is_legal] < -0.9e9).all()
    probs = log_probs.exp()
    assert (probs[~is_legal] == 0).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(64))
    entropy = -(probs * log_probs).sum(1)
    assert torch.isfinite(entropy).all() and (entropy >= 0).all()
    assert (entropy <= is_legal.sum(1).float().log() + 1e-4).all()


def test_one_legal_action_is_certain():
    action_mask = torch.zeros(1, NUM_ACTIONS, dtype=torch.int8)
    action_mask[0, 5] = 1
    logits = torch.full((1, NUM_ACTIONS), 50.0)
    logits[0, 5] = -50
    log_probs = masked_log_probs(logits, action_mask)
    assert log_probs[0, 5] == 0
    assert -(log_probs.exp() * log_probs).sum() == 0


def test_illegal_logits_get_no_gradient(batches):
    action_mask = torch.from_numpy(batches[2].action_mask)
    logits = torch.randn(64, NUM_ACTIONS, generator=torch.Generator().manual_seed(0))
    logits.requires_grad_(True)
    log_probs = masked_log_probs(logits, action_mask)
    entropy = -(log_probs.exp() * log_probs).sum(1)
    chosen = log_probs.gather(1, action_mask.long().argmax(1, keepdim=True))
    [gradient] = torch.autograd.grad(entropy.sum() + chosen.sum(), logits)
    assert torch.isfinite(gradient).all()
    assert (gradient[action_mask == 0] == 0).all()
    has_choice = action_mask.sum(1) > 1
    assert (gradient[has_choice] != 0).any(1).all()


def forget_slots(network):
    """Let the logits of the cards' actions come from the cards alone."""
    for start, end in ((RESERVE, RESERVE_DECK), (BUY, RETURN)):
        network.action_logits.weight[start:end] = 0
        network.action_logits.bias[start:end] = 0


CARDS = NetworkSizes("cards", 16, 1, 1, 8)


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("knows_slots", [False, True])
def test_cards_that_change_their_slots_take_their_ratings_along(num_players, knows_slots, batches):
    network = make_network(CARDS)
    if not knows_slots:
        forget_slots(network)
    batch = batches[num_players]
    games = batch.games[batch.games["phase"] == Phase.PLAY]
    still, moved = Batch(batch.rules, len(games)), Batch(batch.rules, len(games))
    still.games[:] = moved.games[:] = games
    rng = np.random.default_rng(0)
    place = np.empty((len(games), NUM_LEVELS, MARKET_SLOTS), np.int64)  # from where a card came
    for row in range(len(games)):
        for level in range(NUM_LEVELS):
            slots = rng.permutation(MARKET_SLOTS)
            moved.games["market"][row, level] = games["market"][row, level, slots]
            place[row, level] = level * MARKET_SLOTS + slots
    still.refresh()
    moved.refresh()
    place = torch.from_numpy(place.reshape(len(games), NUM_MARKET))
    assert (place != torch.arange(NUM_MARKET)).any(1).all()

    source = torch.arange(NUM_ACTIONS).repeat(len(games), 1)
    source[:, RESERVE:RESERVE_DECK] = RESERVE + place
    source[:, BUY:BUY_RESERVED] = BUY + place
    mask = torch.from_numpy(still.action_mask).gather(1, source)
    assert torch.equal(mask, torch.from_numpy(moved.action_mask))

    before, after = observe(still), observe(moved)
    assert not torch.equal(before, after)
    logits, value = network(before)
    moved_logits, moved_value = network(after)
    torch.testing.assert_close(moved_value, value, rtol=1e-4, atol=1e-4)
    if knows_slots:  # what the network adds for a place itself stays there
        logits = logits - network.action_logits(network.encode(before)[0])
        moved_logits = moved_logits - network.action_logits(network.encode(after)[0])
    torch.testing.assert_close(moved_logits, logits.gather(1, source), rtol=1e-4, atol=1e-4)
    assert (moved_logits - logits).abs().amax(1).median() > 1e-2


def test_own_reserves_that_change_their_places_take_their_ratings_along(batches):
    network = make_network(CARDS)
    forget_slots(network)
    batch = play(2, num_games=256, num_steps=60, seed=1)
    games = batch.games
    rows = np.arange(len(games))
    reserved = games["reserved"][rows, games["player"]]
    blind = games["reserved_blind"][rows, games["player"]]
    # Where both or neither have been seen, else it is not the card alone that moves.
    can_swap = (reserved[:, 1] >= 0) & (blind[:, 0] == blind[:, 1])
    rows = rows[can_swap & (games["phase"] == Phase.PLAY)]
    assert len(rows) > 20
    still, moved = Batch(batch.rules, len(rows)), Batch(batch.rules, len(rows))
    still.games[:] = moved.games[:] = games[rows]
    for row, player in enumerate(games["player"][rows]):
        moved.games["reserved"][row, player, :2] = reserved[rows[row], 1::-1]
    still.refresh()
    moved.refresh()
    source = torch.arange(NUM_ACTIONS)
    source[BUY_RESERVED : BUY_RESERVED + 2] = torch.tensor([BUY_RESERVED + 1, BUY_RESERVED])
    logits, value = network(observe(still))
    moved_logits, moved_value = network(observe(moved))
    torch.testing.assert_close(moved_value, value, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(moved_logits, logits[:, source], rtol=1e-4, atol=1e-4)
    assert (moved_logits - logits).abs().amax(1).median() > 1e-2


def test_ratings_go_to_the_actions_of_their_cards():
    network = PolicyNetwork(CARDS).requires_grad_(False)
    for parameter in network.parameters():
        parameter.zero_()
    network.card_queries.bias[0] = 1  # reserving: the first number of each card
    network.card_queries.bias[CARDS.card_size + 1] = 1  # buying: the second one
    cards = torch.zeros(1, NUM_MARKET + MAX_RESERVED, CARDS.card_size)
    cards[0, :, 0] = 1 + torch.arange(NUM_MARKET + MAX_RESERVED)
    cards[0, :, 1] = 101 + torch.arange(NUM_MARKET + MAX_RESERVED)
    latent = torch.zeros(1, CARDS.layer_size)
    logits, _ = network.decode((latent, latent, cards), torch.zeros(1, OBSERVATION_SIZE))
    expected = torch.zeros(NUM_ACTIONS)
    expected[RESERVE : RESERVE + 12] = 1.0 + torch.arange(12)
    expected[BUY : BUY + 12] = 101.0 + torch.arange(12)
    expected[BUY_RESERVED : BUY_RESERVED + 3] = 101.0 + 12 + torch.arange(3)
    assert torch.equal(logits[0], expected)


def test_the_cards_of_the_network_are_those_of_the_market_and_the_own_reserves(batches):
    network = make_network(CARDS)
    observation = observe(play(2, num_steps=60, seed=1))
    *_, cards = network.encode(observation)
    fields = view_observation(observation.numpy())
    rows = np.concatenate((fields["market"], fields["own_reserved"]), 1)
    torch.testing.assert_close(cards, network.cards(torch.from_numpy(rows)))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("num_players", [2, 4])
def test_bfloat16_differs_little(network, num_players, batches):
    network = make_network(NetworkSizes(network, 64, 1, 1, 16))
    observation = observe(batches[num_players])
    logits, value = network(observation)
    rounded = observation.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        latent = network.encode(rounded)
    assert all(part.dtype == torch.bfloat16 for part in latent)
    near_logits, near_value = network.decode(latent, rounded)
    assert near_logits.dtype == near_value.dtype == torch.float32
    action_mask = torch.from_numpy(batches[num_players].action_mask)
    probs = masked_log_probs(logits, action_mask).exp()
    near_probs = masked_log_probs(near_logits, action_mask).exp()
    assert (near_probs - probs).abs().max() < 0.05
    assert (win_shares(near_value) - win_shares(value)).abs().max() < 0.05
    assert torch.equal(win_shares(near_value) == 0, win_shares(value) == 0)
