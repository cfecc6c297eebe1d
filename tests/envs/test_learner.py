import numpy as np
import pytest

from splendor_env.agents.builtin import GreedyAgent
from splendor_env.core.actions import NUM_ACTIONS, PASS
from splendor_env.core.batch import observe_games, write_action_masks, write_returns
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import EndReason, IllegalActionError, SplendorError, standard
from splendor_env.envs.learner import LearnerGames

every_player_count = pytest.mark.parametrize("num_players", [2, 3, 4])


class Recorder:
    """Plays a legal action that depends on what its seat sees, and keeps what it was asked."""

    def __init__(self, name="recorder"):
        self.name = name
        self.games, self.game_ids, self.actions = [], [], []

    def act(self, games, rules, game_id):
        seen = np.empty((len(games), OBSERVATION_SIZE), np.float32)
        mask = np.empty((len(games), NUM_ACTIONS), np.int8)
        observe_games(games, rules, games["player"].copy(), seen)
        write_action_masks(games, rules, mask)
        rank = (seen.astype(np.float64).sum(1) * 1000).astype(np.int64) % mask.sum(1)
        actions = (np.cumsum(mask, axis=1) > rank[:, None]).argmax(1)
        self.games += [game.copy() for game in games]
        self.game_ids += game_id.tolist()
        self.actions += actions.tolist()
        return actions


class Stubborn:
    name = "stubborn"

    def __init__(self, answer):
        self.answer = answer

    def act(self, games, rules, game_id):
        return self.answer(len(games))


def dealt(rules, num_games=1, opponents="random", seat="rotating", seed=0, **kwargs):
    games = LearnerGames(rules, num_games, opponents, seat=seat, **kwargs)
    games.deal(np.arange(num_games), np.arange(num_games, dtype=np.uint64) + np.uint64(seed))
    return games


def play_out(games, rng):
    """Random learners to the end of every game; yields after each step."""
    while (rows := np.flatnonzero(~(games.terminated | games.truncated))).size:
        mask = games.action_mask[rows]
        games.step(rows, (rng.random(mask.shape) * mask).argmax(1))
        yield rows


@every_player_count
def test_the_learner_gets_what_the_rules_pay_whoever_moved_last(num_players):
    rules = standard(num_players, target_points=5)
    games = dealt(rules, 60, seat="rotating")
    total = np.zeros(60)
    for rows in play_out(games, np.random.default_rng(0)):
        total[rows] += games.reward[rows]
    paid = np.zeros((60, num_players))
    write_returns(games.games, rules, paid)
    np.testing.assert_allclose(total, paid[np.arange(60), games.seat], atol=1e-7)
    last = games.games["player"]
    assert (last != games.seat).any()
    assert (last == games.seat).any()


def test_the_end_is_seen_by_the_learner_with_only_the_pass_set():
    rules = standard(3, target_points=4)
    games = dealt(rules, 30)
    for _ in play_out(games, np.random.default_rng(1)):
        pass
    own = np.empty((30, OBSERVATION_SIZE), np.float32)
    observe_games(games.games, rules, games.seat, own)
    np.testing.assert_array_equal(games.observation, own)
    assert (games.action_mask.sum(1) == 1).all()
    assert games.action_mask[:, PASS].all()


def test_round_limit_is_truncated_only_and_pays_nothing():
    """B40."""
    games = dealt(standard(2, max_rounds=3), 20)
    for _ in play_out(games, np.random.default_rng(0)):
        assert (games.reward == 0).all()
    assert games.truncated.all()
    assert not games.terminated.any()


@every_player_count
def test_rotating_seats_are_even(num_players):
    """B61: by row, over consecutive seeds, and in each row from game to game."""
    games = dealt(standard(num_players), 12)
    assert (np.bincount(games.seat) == 12 // num_players).all()
    for _ in range(num_players):
        before = games.seat.copy()
        games.deal(np.arange(12))
        np.testing.assert_array_equal(games.seat, (before + 1) % num_players)


def test_random_seats_and_weighted_opponents_are_drawn_by_frequency():
    pool = [Recorder("a"), Recorder("b")]
    games = LearnerGames(standard(3), 3000, pool, weights=[1, 3], seat="random")
    games.deal(np.arange(3000), np.arange(3000, dtype=np.uint64))
    assert np.abs(np.bincount(games.seat) / 3000 - 1 / 3).max() < 0.04
    names = [name for row in games.about(np.arange(3000))["opponents"] for name in row]
    assert abs(names.count("b") / len(names) - 0.75) < 0.03


def test_opponents_move_by_what_they_see():
    """B57: own seat to move, and other actions in other positions."""
    recorder = Recorder()
    games = dealt(standard(3), 8, recorder)
    for _ in play_out(games, np.random.default_rng(0)):
        pass
    assert len(set(recorder.actions)) > 10
    by_id = {}
    for game, game_id in zip(recorder.games, recorder.game_ids, strict=True):
        assert by_id.setdefault(game_id, int(game.player)) == game.player
    assert len(by_id) == 16  # a name for each pair of game and seat


def test_opponents_never_see_the_seed_or_what_is_hidden():
    recorder = Recorder()
    rules = standard(2, hide_reserves=1)
    num_games = 40
    games = dealt(rules, num_games, recorder, seat=0)
    num_secret = num_equal = 0
    rng = np.random.default_rng(0)
    for _ in range(25):
        rows = np.flatnonzero(~(games.terminated | games.truncated))
        recorder.games.clear()
        recorder.game_ids.clear()
        mask = games.action_mask[rows]
        games.step(rows, (rng.random(mask.shape) * mask).argmax(1))
        for shown, game_id in zip(recorder.games, recorder.game_ids, strict=True):
            true = games.games[game_id // 2 % num_games]
            assert shown.seed not in games.games["seed"]
            assert shown.seed != hash_seed(true.seed, SEED_STREAM, 0)
            held = true.reserved[0] >= 0
            secret = held & (shown.reserved[0] >= 0)
            num_secret += secret.sum()
            num_equal += (shown.reserved[0] == true.reserved[0])[secret].sum()
    assert num_secret > 100
    assert num_equal / num_secret < 0.2


def test_new_opponents_come_with_the_next_game():
    games = dealt(standard(2), 4, Recorder("old"))
    games.set_opponents([Recorder("new")])
    games.deal(np.array([1]))
    names = [row[0] for row in games.about(np.arange(4))["opponents"]]
    assert names == ["old", "new", "old", "old"]


def test_opponents_are_named_clockwise():
    games = dealt(standard(4), 8, [Recorder("a"), Recorder("b"), GreedyAgent()])
    about = games.about(np.arange(8))
    for row in range(8):
        seats = [(games.seat[row] + offset) % 4 for offset in (1, 2, 3)]
        names = [games._agents[games._opponent[row, seat]].name for seat in seats]
        assert about["opponents"][row] == tuple(names)


def test_forfeit_is_a_loss_by_illegal_action():
    games = dealt(standard(3), 2)
    seen = games.observation.copy()
    games.forfeit(np.array([1]))
    assert games.reward.tolist() == [0, -1]
    assert games.terminated.tolist() == [False, True]
    assert games.about(np.array([1]))["end_reason"] == ["illegal_action"]
    assert games.about(np.array([1]))["winners"] == [[]]
    np.testing.assert_array_equal(games.observation, seen)


def test_winners_are_the_seats_that_the_rules_name():
    rules = standard(2, target_points=3)
    games = dealt(rules, 40)
    for _ in play_out(games, np.random.default_rng(2)):
        pass
    about = games.about(np.arange(40))
    for row in np.flatnonzero(games.terminated):
        assert about["end_reason"][row] == EndReason(games.games["end_reason"][row]).name.lower()
        assert (games.seat[row] in about["winners"][row]) == (games.reward[row] >= 0)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"num_games": 0}, "at least 1, not 0"),
        ({"num_games": 1.5}, "at least 1, not 1.5"),
        ({"seat": 2}, "'rotating', 'random' or 0 to 1, not 2"),
        ({"seat": "first"}, "not 'first'"),
        ({"opponents": []}, "at least one agent or spec"),
        ({"opponents": [3]}, "agents or their specs, not 3"),
        ({"opponents": "nobody"}, "unknown agent 'nobody'"),
        ({"weights": [1, 2]}, "1 opponents do not fit 2 weights"),
        ({"weights": [0]}, "not all of them 0"),
        ({"weights": [float("nan")]}, "at least 0"),
    ],
)
def test_arguments_out_of_range_are_named(kwargs, match):
    with pytest.raises(SplendorError, match=match):
        LearnerGames(**({"rules": standard(2), "num_games": 2, "opponents": "random"} | kwargs))


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (lambda n: np.full(n, NUM_ACTIONS), IllegalActionError, "'stubborn': illegal action 78"),
        (lambda n: np.full(n, PASS), IllegalActionError, "'stubborn': illegal action 77"),
        (lambda n: np.zeros(n + 1, int), SplendorError, "1 integers, not with int64 of shape"),
        (lambda n: np.zeros(n), SplendorError, "integers, not with float64"),
    ],
)
def test_bad_answers_of_opponents_are_refused(answer, error, match):
    with pytest.raises(error, match=match):
        dealt(standard(2), 1, Stubborn(answer), seat=1)
