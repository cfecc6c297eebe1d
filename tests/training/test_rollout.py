import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from splendor_env.core.actions import BUY, NUM_ACTIONS, PASS, RETURN
from splendor_env.core.batch import Batch, write_victory_shares
from splendor_env.core.state import MAX_PLAYERS, EndReason, rulebook_2014, standard
from training.networks import NetworkSizes, PolicyNetwork, masked_log_probs
from training.rollout import Rollout, SelfPlay, sample_actions, write_advantages

SIZES = NetworkSizes("mlp", 16, 1, 0, 8)


def make_network(seed):
    """A network with a taste of its own, by which no action becomes rare."""
    generator = torch.Generator().manual_seed(seed)
    network = PolicyNetwork(SIZES).requires_grad_(False)
    for parameter in network.parameters():
        parameter += torch.randn(parameter.shape, generator=generator) * 0.1
    return network


def network_that_plays(lowest):
    """A network that always chooses the legal action of the lowest, or highest, index."""
    network = make_network(0)
    network.action_logits.weight.zero_()
    network.action_logits.bias[:] = torch.arange(NUM_ACTIONS) * (-100.0 if lowest else 100.0)
    return network


NETWORK = make_network(1)
NETWORK.action_logits.bias[BUY:RETURN] += 4  # so that some games end before the round limit
LOWEST, HIGHEST = network_that_plays(lowest=True), network_that_plays(lowest=False)


def infer(network, observation):
    return network(observation)


def collect(games, rollout, past=None, weights=None, network=NETWORK, columns=slice(None)):
    past = {} if past is None else past
    weights = np.full(len(past), 1 / max(len(past), 1)) if weights is None else weights
    games.collect(network, past, np.asarray(weights, np.float64), infer, rollout, columns)


def short_rules(num_players):
    """Games that soon end, by the target or the round limit, with turns of several decisions."""
    return rulebook_2014(num_players, target_points=1, token_limit=7, max_rounds=8)


# Advantages


def expected_advantages(rollout_like, gae_lambda):
    """The same by definition, forward in time, one decision after the other."""
    player, value, is_last, share, last_player, last_value = rollout_like
    num_steps, num_games, num_players = share.shape

    def by_seat(seen, observer):
        return np.array([seen[(seat - observer) % num_players] for seat in range(num_players)])

    advantage = np.zeros((num_steps, num_games))
    value_target = np.zeros((num_steps, num_games, MAX_PLAYERS))
    for game in range(num_games):

        def follow(t, game=game):
            """The seat's next decision of this game, or None, and what is thought of it then."""
            seat, later = player[t, game], t
            while not is_last[later, game]:
                later += 1
                if later == num_steps:
                    return None, by_seat(last_value[game].astype(float), last_player[game])
                if player[later, game] == seat:
                    return later, by_seat(value[later, game].astype(float), seat)
            return None, share[later, game].astype(float)

        def lambda_return(t):
            later, estimate = follow(t)
            if later is None:
                return estimate
            return (1 - gae_lambda) * estimate + gae_lambda * lambda_return(later)

        for t in range(num_steps):
            seat = player[t, game]
            target = lambda_return(t)
            for other in range(num_players):
                value_target[t, game, (other - seat) % num_players] = target[other]
            weight, here = 1.0, t
            while here is not None:
                later, estimate = follow(here)
                advantage[t, game] += weight * (estimate[seat] - float(value[here, game, 0]))
                weight, here = weight * gae_lambda, later
    return advantage, value_target


def random_decisions(num_steps, num_games, num_players, seed):
    """Arbitrary games: any seat follows any, and some ends come one right after the other."""
    rng = np.random.default_rng(seed)

    def shares(*shape):
        part = rng.random((*shape, num_players)) ** 3 + 1e-3
        return (part / part.sum(-1, keepdims=True)).astype(np.float32)

    def as_seen(shares_):
        absent = np.zeros((*shares_.shape[:-1], MAX_PLAYERS - num_players), np.float32)
        return np.concatenate((shares_, absent), -1)

    shape = (num_steps, num_games)
    return (
        rng.integers(0, num_players, shape).astype(np.int8),
        as_seen(shares(*shape)),
        rng.random(shape) < rng.choice([0.0, 0.1, 0.5]),
        shares(*shape),
        rng.integers(0, num_players, num_games).astype(np.int8),
        as_seen(shares(num_games)),
    )


def advantages(rollout_like, gae_lambda):
    player, value = rollout_like[:2]
    advantage = np.full(player.shape, np.nan, np.float32)
    value_target = np.zeros(value.shape, np.float32)
    write_advantages(*rollout_like, gae_lambda, advantage, value_target)
    return advantage, value_target


def decisions(rollout):
    """The arguments of `write_advantages`."""
    names = ("player", "value", "is_last", "share", "last_player", "last_value")
    return tuple(getattr(rollout, name) for name in names)


@settings(max_examples=150, deadline=None)
@given(
    num_steps=st.integers(1, 14),
    num_games=st.integers(1, 3),
    num_players=st.integers(2, 4),
    gae_lambda=st.sampled_from([0.0, 0.3, 0.95, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_advantages_follow_their_definition(num_steps, num_games, num_players, gae_lambda, seed):
    rollout_like = random_decisions(num_steps, num_games, num_players, seed)
    advantage, value_target = advantages(rollout_like, gae_lambda)
    expected, expected_target = expected_advantages(rollout_like, gae_lambda)
    np.testing.assert_allclose(advantage, expected, atol=1e-5)
    np.testing.assert_allclose(value_target, expected_target, atol=1e-5)
    np.testing.assert_allclose(value_target.sum(-1), 1, atol=1e-5)
    assert (value_target[..., num_players:] == 0).all()


def played_rollout(num_players, num_games=8):
    rollout = Rollout(40 * num_players, num_games, num_players)
    collect(SelfPlay(short_rules(num_players), num_games, 0, seed=3), rollout)
    return rollout


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.9, 1.0])
def test_advantages_of_games_played_follow_their_definition(num_players, gae_lambda):
    rollout = played_rollout(num_players)
    has_followed = rollout.player[1:] == rollout.player[:-1]
    assert (has_followed & ~rollout.is_last[:-1]).any()  # a turn of several decisions
    assert rollout.is_last[:-1].any() and not rollout.is_last[-1].all()
    rollout.finish(gae_lambda)
    expected, expected_target = expected_advantages(decisions(rollout), gae_lambda)
    np.testing.assert_allclose(rollout.advantage, expected, atol=1e-5)
    np.testing.assert_allclose(rollout.value_target, expected_target, atol=1e-5)
    np.testing.assert_allclose(rollout.value_target.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_with_lambda_1_the_targets_are_the_results(num_players):
    rollout = played_rollout(num_players)
    rollout.finish(1.0)
    num_checked = 0
    for game in range(rollout.player.shape[1]):
        start = 0
        for end in np.flatnonzero(rollout.is_last[:, game]):
            for t in range(start, end + 1):
                result = np.roll(rollout.share[end, game], -rollout.player[t, game])
                target = rollout.value_target[t, game]
                np.testing.assert_allclose(target[:num_players], result, atol=1e-6)
                advantage = result[0] - rollout.value[t, game, 0]
                assert rollout.advantage[t, game] == pytest.approx(advantage, abs=1e-6)
                num_checked += 1
            start = end + 1
    assert num_checked > 50


def test_with_lambda_0_the_target_is_the_next_own_value():
    # Seats 0 1 1 0 | 1 0 ... cut off when seat 1 is to move; columns are "mine" and "the other's".
    player = np.array([[0], [1], [1], [0], [1], [0]], np.int8)
    mine = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], np.float32)
    value = np.zeros((6, 1, 4), np.float32)
    value[:, 0, 0], value[:, 0, 1] = mine, 1 - mine
    is_last = np.array([[False], [False], [False], [True], [False], [False]])
    share = np.zeros((6, 1, 2), np.float32)
    share[3, 0] = 0, 1
    last_value = np.array([[0.7, 0.3, 0, 0]], np.float32)
    rollout_like = (player, value, is_last, share, np.array([1], np.int8), last_value)
    _, target = advantages(rollout_like, 0.0)
    # t = 2 is the last decision of seat 1, which the move of seat 0 then pays.
    np.testing.assert_allclose(target[:, 0, 0], [0.4, 0.3, 1.0, 0.0, 0.7, 0.3], atol=1e-6)
    np.testing.assert_allclose(target[..., :2].sum(-1), 1, atol=1e-6)
    _, target = advantages(rollout_like, 1.0)
    np.testing.assert_allclose(target[:, 0, 0], [0, 1, 1, 0, 0.7, 0.3], atol=1e-6)


def test_parts_of_the_games_are_finished_alone():
    rollout = played_rollout(3)
    rollout.finish(0.9)
    advantage, value_target = rollout.advantage.copy(), rollout.value_target.copy()
    rollout.advantage[:] = np.nan
    rollout.value_target[:] = 0
    rollout.finish(0.9, slice(2, 5))
    assert np.isnan(rollout.advantage[:, [0, 1, 5]]).all()
    np.testing.assert_array_equal(rollout.advantage[:, 2:5], advantage[:, 2:5])
    np.testing.assert_array_equal(rollout.value_target[:, 2:5], value_target[:, 2:5])


# Sampling


def sample(logits, action_mask, seed=0, position=0):
    num_rows = len(logits)
    action, log_prob = np.full(num_rows, -7, np.int64), np.full(num_rows, np.nan, np.float32)
    sample_actions(logits, action_mask, np.uint64(seed), position, action, log_prob)
    return action, log_prob


def test_frequencies_are_those_of_the_softmax():
    rng = np.random.default_rng(0)
    num_draws = 200_000
    logits = rng.normal(size=NUM_ACTIONS).astype(np.float32) * 2
    action_mask = (rng.random(NUM_ACTIONS) < 0.3).astype(np.int8)
    logits[np.argmin(action_mask)] = 20
    action, log_prob = sample(
        np.tile(logits, (num_draws, 1)), np.tile(action_mask, (num_draws, 1)), seed=5
    )
    legal = np.flatnonzero(action_mask)
    probs = np.exp(logits[legal].astype(float))
    probs /= probs.sum()
    count = np.bincount(action, minlength=NUM_ACTIONS)
    assert count.sum() == count[legal].sum()
    chi_square = ((count[legal] - num_draws * probs) ** 2 / (num_draws * probs)).sum()
    degrees = len(legal) - 1
    assert abs(chi_square - degrees) < 4 * (2 * degrees) ** 0.5
    np.testing.assert_allclose(log_prob, np.log(probs)[np.searchsorted(legal, action)], atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    density=st.sampled_from([0.02, 0.2, 1.0]),
    seed=st.integers(0, 2**64 - 1),
    position=st.integers(0, 2**40),
)
def test_actions_are_legal_and_known_by_their_probability(scale, density, seed, position):
    rng = np.random.default_rng(seed)
    shape = (40, NUM_ACTIONS)
    logits = (rng.choice([rng.normal(), -1, 1], shape) * scale).astype(np.float32)
    action_mask = (rng.random(shape) < density).astype(np.int8)
    action_mask[np.arange(40), rng.integers(0, NUM_ACTIONS, 40)] = 1
    action, log_prob = sample(logits, action_mask, seed, position)
    assert action_mask[np.arange(40), action].all()
    log_probs = masked_log_probs(torch.from_numpy(logits), torch.from_numpy(action_mask)).numpy()
    expected = log_probs[np.arange(40), action]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=2e-5 * max(scale, 1))
    assert (log_prob <= 1e-5).all()


def test_a_draw_depends_on_seed_and_position_alone():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(100, NUM_ACTIONS)).astype(np.float32)
    action_mask = np.ones(logits.shape, np.int8)
    action, log_prob = sample(logits, action_mask, seed=3, position=50)
    again, _ = sample(logits, action_mask, seed=3, position=50)
    np.testing.assert_array_equal(action, again)
    part, part_log_prob = sample(logits[30:], action_mask[30:], seed=3, position=80)
    np.testing.assert_array_equal(action[30:], part)
    np.testing.assert_array_equal(log_prob[30:], part_log_prob)
    assert (sample(logits, action_mask, seed=4, position=50)[0] != action).any()
    assert (sample(logits, action_mask, seed=3, position=150)[0] != action).any()


@pytest.mark.parametrize("logit", [-1e4, 0, 1e4])
def test_a_single_legal_action_is_certain(logit):
    logits = np.zeros((1, NUM_ACTIONS), np.float32)
    logits[0, [0, PASS]] = -logit
    logits[0, 40] = logit
    action_mask = np.zeros((1, NUM_ACTIONS), np.int8)
    action_mask[0, 40] = 1
    action, log_prob = sample(logits, action_mask)
    assert (action[0], log_prob[0]) == (40, 0)


def test_huge_logits_choose_the_best():
    logits = np.full((1000, NUM_ACTIONS), -1e4, np.float32)
    logits[:, [0, 50]] = 1e4
    logits[:, 60] = 2e4
    action_mask = np.ones(logits.shape, np.int8)
    action_mask[:, 60] = 0
    action, log_prob = sample(logits, action_mask)
    assert set(action) == {0, 50}
    np.testing.assert_allclose(log_prob, -np.log(2), rtol=1e-6)


# Games


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_stored_is_what_the_movers_saw_and_won(num_players, dtype):
    rules, num_games, num_steps, seed = short_rules(num_players), 20, 40 * num_players, 11
    games = SelfPlay(rules, num_games, 0, seed)
    batch = Batch(rules, num_games, auto_reset=False, check=True)
    batch.reset(seed)
    ends = set()
    for _ in range(2):  # the second goes on where the first stopped
        rollout = Rollout(num_steps, num_games, num_players, dtype)

        def infer_float(network, observation, dtype=dtype):
            assert observation.dtype == dtype
            return network(observation.float())

        games.collect(NETWORK, {}, np.zeros(0), infer_float, rollout)
        assert rollout.observation.dtype == dtype
        for t in range(num_steps):
            expected = torch.from_numpy(batch.observation).to(dtype)
            assert torch.equal(rollout.observation[t], expected)
            np.testing.assert_array_equal(rollout.action_mask[t], batch.action_mask)
            np.testing.assert_array_equal(rollout.player[t], batch.player)
            batch.step(rollout.action[t])
            is_over = batch.games["end_reason"] != EndReason.RUNNING
            np.testing.assert_array_equal(rollout.is_last[t], is_over)
            share = np.zeros((num_games, num_players), np.float32)
            write_victory_shares(batch.games, rules, share)
            np.testing.assert_allclose(rollout.share[t][is_over], share[is_over], atol=1e-6)
            ends |= set(batch.games["end_reason"][is_over].tolist())
            batch.reset_where(is_over)
        np.testing.assert_array_equal(rollout.last_player, batch.player)
        last = torch.from_numpy(batch.observation).to(dtype)
        np.testing.assert_allclose(
            rollout.last_value, NETWORK(last.float())[1].softmax(1), atol=1e-6
        )
    assert {EndReason.TARGET, EndReason.ROUND_LIMIT} <= ends


def test_values_and_probabilities_are_those_of_the_network():
    rollout = played_rollout(3)
    logits, value = NETWORK(rollout.observation.flatten(0, 1))
    action_mask = torch.from_numpy(rollout.action_mask).flatten(0, 1)
    action = torch.from_numpy(rollout.action).flatten()
    log_prob = masked_log_probs(logits, action_mask).gather(1, action[:, None])[:, 0]
    np.testing.assert_allclose(rollout.log_prob.ravel(), log_prob, atol=1e-5)
    np.testing.assert_allclose(rollout.value.reshape(-1, 4), value.softmax(1), atol=1e-6)
    np.testing.assert_allclose(rollout.value.sum(-1), 1, atol=1e-5)
    assert (rollout.value[..., 3:] == 0).all()
    assert action_mask.gather(1, action[:, None]).all()


@pytest.mark.parametrize("num_collects", [1, 3])
def test_every_action_is_a_draw_of_its_own(num_collects):
    games, rollout = SelfPlay(short_rules(3), 8, 0, 9), Rollout(30, 8, 3)
    for _ in range(num_collects):
        collect(games, rollout)
    for t in range(30):
        logits = NETWORK(rollout.observation[t])[0].numpy()
        position = ((num_collects - 1) * 30 + t) * 8
        action, log_prob = sample(logits, rollout.action_mask[t], seed=9, position=position)
        np.testing.assert_array_equal(rollout.action[t], action)
        np.testing.assert_array_equal(rollout.log_prob[t], log_prob)


def contents(rollout):
    arrays = {name: array for name, array in vars(rollout).items() if name != "observation"}
    return arrays | {"observation": rollout.observation.float().numpy()}


def assert_equal_rollouts(one, other):
    for name, array in contents(one).items():
        np.testing.assert_array_equal(array, contents(other)[name], err_msg=name)


POOL = {100: LOWEST, 200: HIGHEST}


@pytest.mark.parametrize("past", [{}, POOL], ids=["alone", "with past selves"])
def test_equal_seeds_play_equal_games(past):
    rollouts = []
    for seed in (7, 7, 8):
        games = SelfPlay(short_rules(3), 8, 4, seed)
        rollout = Rollout(40, 8, 3)
        for _ in range(2):
            collect(games, rollout, past)
        rollouts.append(rollout)
    assert_equal_rollouts(*rollouts[:2])
    assert (rollouts[0].action != rollouts[2].action).any()


def test_games_side_by_side_in_one_rollout_do_not_meet():
    together, alone = Rollout(30, 10, 2), Rollout(30, 4, 2)
    for seed, columns in ((1, slice(0, 6)), (2, slice(6, 10))):
        num_games = columns.stop - columns.start
        games = SelfPlay(short_rules(2), num_games, num_games // 2, seed)
        collect(games, together, POOL, columns=columns)
    collect(SelfPlay(short_rules(2), 4, 2, 2), alone, POOL)
    for name, array in contents(alone).items():
        one = contents(together)[name]
        one = one[6:] if name.startswith("last_") else one[:, 6:]
        np.testing.assert_array_equal(one, array, err_msg=name)


@pytest.mark.parametrize("num_players", [2, 4])
def test_games_go_on_bit_for_bit_from_a_state(num_players):
    def start():
        return SelfPlay(short_rules(num_players), 10, 6, 5), Rollout(30, 10, num_players)

    games, rollout = start()
    collect(games, rollout, POOL)
    state = games.state()
    # As a file would keep it: arrays as copies, the rest as JSON.
    arrays = {key: value.copy() for key, value in state.items() if isinstance(value, np.ndarray)}
    rest = json.dumps({key: value for key, value in state.items() if key not in arrays})
    assert set(arrays) == {"games", "is_past", "opponent", "is_new", "is_scored"}
    again, other = start()
    collect(again, other)  # other games, which are forgotten
    again.load_state(arrays | json.loads(rest))
    past = POOL | {300: make_network(2)}
    for _ in range(3):
        collect(games, rollout, past)
        collect(again, other, past)
        assert_equal_rollouts(rollout, other)
        assert games.results == again.results


# Past selves


def test_without_past_selves_all_is_learnt_from():
    for num_past, past in ((0, POOL), (8, {})):
        games, rollout = SelfPlay(short_rules(2), 8, num_past, 0), Rollout(40, 8, 2)
        collect(games, rollout, past)
        assert rollout.is_learner.all() and not games.results
        assert not games.state()["is_past"].any()


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("num_with_past", [4, 8, 16])
def test_the_number_of_games_with_past_selves(num_players, num_with_past):
    games = SelfPlay(short_rules(num_players), 16, num_with_past, 0)
    rollout = Rollout(40, 16, num_players)
    collect(games, rollout)  # before there are any
    assert rollout.is_learner.all()
    for _ in range(2):
        collect(games, rollout, POOL)
        num_past = games.state()["is_past"].sum(1)
        assert (num_past > 0).sum() == num_with_past
        assert num_past.max() < num_players
        assert (~rollout.is_learner).any(0).sum() == num_with_past


def finished_games(rollout):
    """(column, first and last decision) of each game that began and ended in the rollout."""
    for column in range(rollout.player.shape[1]):
        start = 0
        for end in np.flatnonzero(rollout.is_last[:, column]):
            yield column, slice(start, end + 1), end
            start = end + 1


def lowest_and_highest(action_mask):
    return action_mask.argmax(-1), NUM_ACTIONS - 1 - action_mask[..., ::-1].argmax(-1)


def opponents_of_finished_games(rollout, num_players):
    """For each finished game its end, who is a past self (N,), and which: 100, 200 or 0 for none.

    Read off the moves: 100 plays the lowest legal action, 200 the highest.
    """
    lowest, highest = lowest_and_highest(rollout.action_mask)
    for column, during, end in finished_games(rollout):
        player, is_learner = rollout.player[during, column], rollout.is_learner[during, column]
        is_past = np.zeros(num_players, bool)
        for seat in range(num_players):
            [is_past[seat]] = set(~is_learner[player == seat])  # the same for the whole game
        action = rollout.action[during, column][~is_learner]
        is_lowest = (action == lowest[during, column][~is_learner]).all()
        is_highest = (action == highest[during, column][~is_learner]).all()
        assert is_lowest or is_highest
        assert not is_past.any() or is_lowest != is_highest
        yield column, end, is_past, (100 if is_lowest else 200) if is_past.any() else 0


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_past_selves_play_their_seats_and_are_scored(num_players):
    num_games = 60
    games = SelfPlay(short_rules(num_players), num_games, num_games // 2, 1)
    rollout = Rollout(150 * num_players, num_games, num_players)
    collect(games, rollout, POOL, [0.3, 0.7])
    scores = {100: [], 200: []}
    seats, by_column = [], {}
    for column, end, is_past, step in opponents_of_finished_games(rollout, num_players):
        assert is_past.any() == (column >= num_games // 2)
        if step:
            share = rollout.share[end, column]
            past, current = share[is_past].mean(), share[~is_past].mean()
            scores[step].append(current / (past + current))
            seats.append(is_past)
            by_column.setdefault(column, []).append((step, tuple(is_past)))
    expected = [(step, np.mean(score), len(score)) for step, score in scores.items()]
    assert games.results == [
        (step, pytest.approx(score, abs=1e-6), count) for step, score, count in expected
    ]

    # Opponents are drawn by their weights, again for each game, and so are the seats.
    num_finished = len(seats)
    assert num_finished > 100
    assert len(scores[200]) / num_finished == pytest.approx(0.7, abs=0.13)
    num_past = np.sum(seats, 1)
    for number in range(1, num_players):
        assert np.mean(num_past == number) == pytest.approx(1 / (num_players - 1), abs=0.15)
    assert np.mean(seats, 0) == pytest.approx(np.full(num_players, 0.5), abs=0.15)
    several = [one for one in by_column.values() if len(one) > 2]
    assert any(len({step for step, _ in one}) == 2 for one in several)
    assert any(len({is_past for _, is_past in one}) > 1 for one in several)


def test_the_learner_is_not_swayed_by_the_past():
    games, rollout = SelfPlay(short_rules(3), 20, 10, 2), Rollout(40, 20, 3)
    collect(games, rollout, {100: LOWEST}, network=HIGHEST)
    lowest, highest = lowest_and_highest(rollout.action_mask)
    chosen = np.where(rollout.is_learner, highest, lowest)
    np.testing.assert_array_equal(rollout.action, chosen)
    assert (lowest != highest).any()
    np.testing.assert_allclose(rollout.log_prob, 0, atol=1e-6)
    # The value is the learner's own, also where a past self moves.
    value = HIGHEST(rollout.observation.flatten(0, 1))[1].softmax(1)
    np.testing.assert_allclose(rollout.value.reshape(-1, 4), value, atol=1e-6)


def test_who_leaves_the_pool_is_replaced_at_once():
    games, rollout = SelfPlay(standard(3), 40, 20, 3), Rollout(2, 40, 3)
    collect(games, rollout, POOL)
    before = games.state()
    assert set(before["opponent"][20:]) == {100, 200} and (before["opponent"][:20] == -1).all()
    collect(games, rollout, {200: HIGHEST, 300: LOWEST}, network=HIGHEST)
    assert not rollout.is_last.any()
    after = games.state()
    assert set(after["opponent"][20:]) == {200, 300}
    stays = before["opponent"] == 200
    np.testing.assert_array_equal(after["opponent"][stays], 200)
    np.testing.assert_array_equal(after["is_past"], before["is_past"])
    lowest, highest = lowest_and_highest(rollout.action_mask)
    plays_lowest = ~rollout.is_learner & (after["opponent"] == 300)
    np.testing.assert_array_equal(rollout.action, np.where(plays_lowest, lowest, highest))
    assert games.results == []


def test_games_whose_seats_changed_under_way_are_not_scored():
    games, rollout = SelfPlay(short_rules(2), 30, 30, 4), Rollout(7, 30, 2)
    collect(games, rollout)  # nobody to meet yet
    started = ~rollout.is_last[-1]
    scored, finished = 0, np.zeros(30, np.int64)
    while finished.min() < 2:
        collect(games, rollout, POOL)
        scored += sum(count for _, _, count in games.results)
        finished += rollout.is_last.sum(0)
    assert started.any()
    assert scored == finished.sum() - started.sum()


def test_results_are_those_since_the_last_collect_began():
    games, rollout = SelfPlay(short_rules(2), 30, 30, 4), Rollout(60, 30, 2)
    counts = []
    for _ in range(3):
        collect(games, rollout, POOL)
        counts.append(sum(count for _, _, count in games.results))
        assert counts[-1] == rollout.is_last.sum()
    assert min(counts) > 0
    collect(games, Rollout(1, 30, 2), {300: NETWORK})
    assert {step for step, _, _ in games.results} <= {300}
