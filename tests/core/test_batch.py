"""Many games at once: a batch is its single games, and no game loses a token or a card."""

from itertools import product

import numpy as np
import pytest

from splendor_env import PRESETS, Game, IllegalActionError, SplendorError, standard
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import Batch, hash_positions
from splendor_env.core.cards import LEVEL_SIZE
from splendor_env.core.state import GAME, EndReason
from splendor_env.heuristics import choose_greedy_in, choose_random_in

PUBLISHED = (
    "games",
    "observation",
    "final_observation",
    "action_mask",
    "player",
    "reward",
    "terminated",
    "truncated",
)
SHORT = {"target_points": 3, "max_rounds": 12}


def random_actions(batch, ply, seed=1):
    actions = np.zeros(batch.num_games, np.int32)
    choose_random_in(batch.games, batch.rules, np.uint64(seed), ply * batch.num_games, actions)
    return actions


def snapshot(batch):
    return {name: getattr(batch, name).copy() for name in PUBLISHED}


def assert_same(first, second):
    for name in PUBLISHED:
        assert (first[name] == second[name]).all(), name


def counts(gems):
    """(..., 8) counts of packed vectors."""
    return np.ascontiguousarray(gems)[..., np.newaxis].view(np.uint8).astype(np.int64)


def assert_everything_in_one_place(games, rules):
    """Tokens: bank and hands make the deal. Cards: each once among deck, market and hands."""
    num_games = len(games)
    totals = counts(games["bank"]) + counts(games["tokens"]).sum(axis=1)
    piles = {2: 4, 3: 5, 4: 7}[rules.num_players]
    assert (totals == [piles] * 5 + [rules.gold_tokens, 0, 0]).all()
    places = np.concatenate(
        [games[name].reshape(num_games, -1) for name in ("market", "deck", "reserved")], axis=1
    )
    ids = np.sort(places, axis=1)
    assert (np.diff(ids, axis=1)[ids[:, 1:] >= 0] > 0).all()
    num_unbought = (places >= 0).sum(axis=1)
    assert (num_unbought + games["num_cards"].sum(axis=1) == LEVEL_SIZE.sum()).all()
    assert (counts(games["bonuses"]).sum(axis=2) == games["num_cards"]).all()
    assert ((games["deck"] >= 0).sum(axis=2) == games["deck_size"]).all()


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_tokens_and_cards_are_conserved(preset, num_players):
    """At every ply of random games, and a running game always has a legal action. A41."""
    batch = Batch(PRESETS[preset](num_players), 40, auto_reset=False)
    batch.reset(17)
    for ply in range(2_000):
        assert_everything_in_one_place(batch.games, batch.rules)
        is_running = batch.games["end_reason"] == EndReason.RUNNING
        assert (batch.action_mask.any(axis=1) == is_running).all()
        if not is_running.any():
            break
        actions = np.full(batch.num_games, -1, np.int32)
        choosable = np.flatnonzero(is_running)
        chosen = np.zeros(len(choosable), np.int32)
        games = batch.games[choosable]
        choose_random_in(games, batch.rules, np.uint64(3), ply * batch.num_games, chosen)
        actions[choosable] = chosen
        batch.step(actions)
    assert not is_running.any()


@pytest.mark.parametrize(
    ("rules", "num_plies"),
    [(PRESETS["rulebook_2014"](3, **SHORT), 300), (PRESETS["standard"](2, **SHORT), 300)],
)
def test_batch_equals_single_games(rules, num_plies):
    """Step by step, with the next game dealt in the step in which one ended."""
    batch = Batch(rules, 8)
    batch.reset(5)
    singles = [Game(rules) for _ in range(8)]
    for single, game in zip(singles, batch.games, strict=True):
        single.games[:] = game
    num_ended = 0
    for ply in range(num_plies):
        actions = random_actions(batch, ply)
        batch.step(actions)
        for row, single in enumerate(singles):
            single.push(int(actions[row]))
            assert batch.terminated[row] == (
                single.end_reason in (EndReason.TARGET, EndReason.STALEMATE)
            )
            assert batch.truncated[row] == (single.end_reason == EndReason.ROUND_LIMIT)
            assert batch.reward[row].tolist() == np.float32(single.returns).tolist()
            if single.is_over:
                num_ended += 1
                assert (batch.final_observation[row] == single.observe(single.player)).all()
                single.games[:] = batch.games[row]
                assert (single.rounds, single.player, single.is_over) == (1, 0, False)
            assert (batch.games[row] == single.games[0]).all()
            assert (batch.observation[row] == single.observe()).all()
            assert (batch.action_mask[row] == single.action_mask).all()
            assert batch.player[row] == single.player
    assert num_ended >= 16


def test_next_game_follows_from_the_last_seed():
    """Auto-reset and `reset_where` deal the same next game."""
    rules = standard(2, max_rounds=1)
    automatic, by_hand = Batch(rules, 3), Batch(rules, 3, auto_reset=False)
    for ply in range(6):
        actions = random_actions(automatic, ply)
        automatic.step(actions)
        by_hand.step(actions)
        assert (automatic.reward == by_hand.reward).all()
        over = by_hand.terminated | by_hand.truncated
        assert (over == (automatic.terminated | automatic.truncated)).all()
        by_hand.reset_where(over)
        assert (automatic.games == by_hand.games).all()
        assert (automatic.observation == by_hand.observation).all()
    assert len(set(automatic.games["seed"].tolist())) == 3


def test_finished_game_waits_without_auto_reset():
    """Mask empty, -1 leaves it alone, its flags stay until `reset_where`."""
    batch = Batch(standard(2, max_rounds=1), 2, auto_reset=False, check=True)
    take, skip = ACTION_NAMES.index("take W U G"), -1
    batch.step(np.array([take, take]))
    batch.step(np.array([take, skip]))
    assert batch.truncated.tolist() == [True, False]
    assert batch.action_mask.any(axis=1).tolist() == [False, True]
    over = batch.games[0].copy()
    with pytest.raises(IllegalActionError, match="none, the game is over"):
        batch.step(np.array([take, take]))
    batch.step(np.array([skip, take]))
    assert batch.games[0] == over
    assert batch.truncated.tolist() == [True, True]
    batch.reset_where(np.array([0]))
    assert batch.truncated.tolist() == [False, True]
    assert batch.games["end_reason"].tolist() == [EndReason.RUNNING, EndReason.ROUND_LIMIT]
    assert batch.action_mask.any(axis=1).tolist() == [True, False]


def test_reset_where_takes_a_mask_or_indices():
    first, second = (Batch(standard(2), 4) for _ in range(2))
    first.reset_where(np.array([False, True, False, True]))
    second.reset_where(np.array([1, 3]))
    assert_same(snapshot(first), snapshot(second))
    untouched = Batch(standard(2), 4)
    changed = first.games != untouched.games
    assert changed.tolist() == [False, True, False, True]


def test_skipped_row_is_left_alone():
    """-1 changes neither game, observation nor mask, and earns nothing."""
    batch = Batch(standard(3), 3, check=True)
    before = snapshot(batch)
    actions = random_actions(batch, 0)
    actions[1] = -1
    batch.step(actions)
    after = snapshot(batch)
    assert after["games"][1] == before["games"][1]
    assert (after["observation"][1] == before["observation"][1]).all()
    assert (after["action_mask"][1] == before["action_mask"][1]).all()
    assert (after["games"][[0, 2]] != before["games"][[0, 2]]).all()


def test_flags_and_rewards_last_one_step():
    """What ended in one step is not reported again in the next."""
    batch = Batch(standard(2, target_points=1, max_rounds=30), 64)
    num_ends = 0
    for ply in range(300):
        over_before = batch.terminated | batch.truncated
        batch.step(random_actions(batch, ply))
        over = batch.terminated | batch.truncated
        assert not (over & over_before).any()
        assert (batch.reward[~over] == 0).all()
        assert (batch.reward[batch.truncated] == 0).all()
        assert not (batch.terminated & batch.truncated).any()
        assert batch.reward.sum(axis=1) == pytest.approx(0)
        num_ends += int(over.sum())
    assert num_ends > 64


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(threads):
    """Games, observations and all else are the same bytes as with one thread."""
    rules = PRESETS["later_printing"](4, target_points=4)
    one, many = Batch(rules, 50), Batch(rules, 50, threads=threads)
    for batch in (one, many):
        batch.reset(12)
    for ply in range(200):
        actions = random_actions(one, ply)
        one.step(actions)
        many.step(actions)
    assert_same(snapshot(one), snapshot(many))
    assert one.games.tobytes() == many.games.tobytes()
    assert one.observation.tobytes() == many.observation.tobytes()


def test_more_threads_than_games():
    one, many = Batch(standard(2), 2), Batch(standard(2), 2, threads=5)
    actions = random_actions(one, 0)
    one.step(actions)
    many.step(actions)
    assert_same(snapshot(one), snapshot(many))


@pytest.mark.parametrize("action", [ACTION_NAMES.index("pass"), 78, 1_000, -2, -(2**31)])
def test_illegal_action_is_refused_before_anything_changes(action):
    """The message names the action, the game and what is legal. B12."""
    batch = Batch(standard(2), 4, check=True)
    for ply in range(5):
        batch.step(random_actions(batch, ply))
    before = snapshot(batch)
    actions = random_actions(batch, 5)
    actions[2] = action
    with pytest.raises(IllegalActionError) as error:
        batch.step(actions)
    assert_same(before, snapshot(batch))
    message = str(error.value)
    assert f"illegal action {action}" in message
    assert "game 2 of the batch" in message
    for legal in np.flatnonzero(batch.action_mask[2]):
        assert ACTION_NAMES[legal] in message


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.uint8, np.intp])
def test_actions_of_any_integer_type(dtype):
    first, second = (Batch(standard(2), 5, check=True) for _ in range(2))
    actions = random_actions(first, 0)
    first.step(actions)
    second.step(actions.astype(dtype))
    assert_same(snapshot(first), snapshot(second))


def test_actions_that_are_not_contiguous():
    """A strided or unaligned array, or a list, does as well."""
    plain, strided, unaligned, listed = (Batch(standard(2), 6, check=True) for _ in range(4))
    actions = random_actions(plain, 0)
    spaced = np.zeros(12, np.int32)
    spaced[::2] = actions
    buffer = np.zeros(6 * 4 + 1, np.uint8)
    odd = buffer[1:].view(np.int32)
    odd[:] = actions
    assert not odd.flags.aligned
    plain.step(actions)
    strided.step(spaced[::2])
    unaligned.step(odd)
    listed.step(actions.tolist())
    for batch in (strided, unaligned, listed):
        assert_same(snapshot(plain), snapshot(batch))


@pytest.mark.parametrize("action", [2**32, 2**32 + 5, 0.5])
def test_action_that_does_not_fit_is_refused(action):
    """It is illegal, not another action."""
    batch = Batch(standard(2), 1, check=True)
    with pytest.raises(SplendorError):
        batch.step(np.array([action]))


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, None, True])
def test_illegal_seed_is_refused(seed):
    batch = Batch(standard(2), 3)
    before = snapshot(batch)
    with pytest.raises(SplendorError, match="seed must be an integer"):
        batch.reset(seed)
    assert_same(before, snapshot(batch))


def test_nonsense_rules_are_refused():
    with pytest.raises(SplendorError, match="token_limit"):
        Batch(standard(2)._replace(token_limit=0), 3)


def test_same_seed_same_games_different_seed_different_games():
    """Played on with the same actions too. B17."""
    first, second, other = (Batch(standard(2), 6) for _ in range(3))
    for batch, seed in ((first, 21), (second, 21), (other, 22)):
        batch.reset(seed)
    assert (first.games != other.games).all()
    assert len(set(first.games["seed"].tolist())) == 6
    for ply in range(100):
        actions = random_actions(first, ply)
        first.step(actions)
        second.step(actions)
    assert_same(snapshot(first), snapshot(second))


def test_game_does_not_depend_on_how_many_there_are():
    small, large = Batch(standard(3), 2), Batch(standard(3), 9)
    for batch in (small, large):
        batch.reset(30)
    assert (small.games == large.games[:2]).all()
    assert Game(standard(3), seed=30).games[0] == small.games[0]


def test_reset_forgets_the_last_step():
    batch = Batch(standard(2, max_rounds=1), 3)
    for ply in range(2):
        batch.step(random_actions(batch, ply))
    assert batch.truncated.all()
    batch.reset(0)
    fresh = Batch(batch.rules, 3)
    fresh.final_observation[:] = batch.final_observation  # stale is allowed there
    assert_same(snapshot(batch), snapshot(fresh))


def test_refresh_after_games_were_set_from_outside():
    """Observation, mask and mover are those of the new games; other rows stay."""
    batch, source = Batch(standard(2), 3), Batch(standard(2), 3)
    source.reset(99)
    for ply in range(7):
        source.step(random_actions(source, ply))
    stale = snapshot(batch)
    batch.games[1] = source.games[1]
    batch.refresh(np.array([1]))
    assert (batch.observation[1] == source.observation[1]).all()
    assert (batch.action_mask[1] == source.action_mask[1]).all()
    assert batch.player[1] == source.player[1] == 1
    assert (batch.observation[[0, 2]] == stale["observation"][[0, 2]]).all()


def test_observe_for_one_seat_or_a_seat_for_each_game():
    batch = Batch(standard(3), 4)
    for ply in range(9):
        batch.step(random_actions(batch, ply))
    singles = []
    for game in batch.games:
        single = Game(batch.rules)
        single.games[:] = game
        singles.append(single)
    seats = [2, 0, 1, 2]
    expected = [single.observe(seat) for single, seat in zip(singles, seats, strict=True)]
    assert (batch.observe(np.array(seats)) == expected).all()
    out = np.full_like(batch.observation, np.nan)
    assert batch.observe(1, out) is out
    assert (out == [single.observe(1) for single in singles]).all()
    assert (batch.observe(batch.player) == batch.observation).all()


def test_greedy_and_random_batches_share_no_state():
    """A batch stepped between the steps of another changes nothing in it. A40."""
    alone, disturbed, other = (Batch(standard(2), 4) for _ in range(3))
    for ply in range(60):
        actions = random_actions(alone, ply)
        alone.step(actions)
        greedy = np.zeros(4, np.int32)
        choose_greedy_in(other.games, other.rules, greedy)
        other.step(greedy)
        disturbed.step(actions)
    assert_same(snapshot(alone), snapshot(disturbed))


def test_hashes_of_a_batch_are_those_of_its_games():
    batch = Batch(standard(4), 5)
    out = np.zeros(5, np.uint64)
    hash_positions(batch.games, out)
    for game, position_hash in zip(batch.games, out, strict=True):
        single = Game(batch.rules)
        single.games[:] = game
        assert single.position_hash() == position_hash
    assert len(set(out.tolist())) == 5


def test_published_arrays_have_the_documented_types():
    """B29, B22: finite float32 observations, int8 masks of 0 and 1."""
    batch = Batch(standard(4), 6)
    for ply in range(200):
        batch.step(random_actions(batch, ply))
        assert np.isfinite(batch.observation).all()
        assert set(np.unique(batch.action_mask)) <= {0, 1}
    assert batch.games.dtype == GAME
    assert batch.observation.dtype == batch.final_observation.dtype == np.float32
    assert batch.action_mask.dtype == batch.player.dtype == np.int8
    assert batch.action_mask.shape == (6, NUM_ACTIONS)
    assert batch.reward.shape == (6, 4)
    assert batch.terminated.dtype == batch.truncated.dtype == np.bool_


@pytest.mark.parametrize("seat", [2, -1, 100, 0.5])
def test_observing_from_a_seat_that_is_not_there_is_refused(seat):
    with pytest.raises(SplendorError, match="seat must be 0 to 1"):
        Batch(standard(2), 3).observe(seat)


@pytest.mark.parametrize(
    ("num_games", "options"), [(0, {}), (-1, {}), (2.5, {}), (2, {"threads": 0})]
)
def test_a_batch_without_games_or_threads_is_refused(num_games, options):
    with pytest.raises(SplendorError, match="must be an integer of at least 1"):
        Batch(standard(2), num_games, **options)


def test_a_huge_unsigned_action_is_not_taken_for_a_skip():
    batch = Batch(standard(2), 2, check=True)
    with pytest.raises(SplendorError, match="illegal action"):
        batch.step(np.array([2**64 - 1, 0], np.uint64))
