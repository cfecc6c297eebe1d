"""What games teach: seats, order, returns, and what search and lookahead say of positions."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch")

from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import (
    observe_movers,
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import EndReason, standard
from splendor_env.search.evaluators import NetworkEvaluator
from splendor_env.search.lookahead import LookaheadAgent
from splendor_env.search.mcts import Search, SearchResult, Settings
from splendor_env.search.policy import softmax
from tests.training.positions import random_positions
from training import teacher as teaching
from training.teacher import (
    Lessons,
    Taught,
    TaughtGames,
    Window,
    lookahead_teacher,
    no_lessons,
    search_teacher,
    seen_values,
    with_own_share,
)


def short(num_players):
    """Rules by which random play ends soon, sometimes by a result and sometimes without one."""
    return standard(num_players, target_points=1, max_rounds=12)


def legal_actions(games, rules):
    mask = np.empty((len(games), NUM_ACTIONS), np.int8)
    write_action_masks(games, rules, mask)
    return mask == 1


class RandomTeacher:
    """Random legal moves and random opinions, and all that was asked and answered."""

    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)
        self.trace = []

    def __call__(self, games, rules):
        scores = np.where(legal_actions(games, rules), self.generator.random((len(games), 78)), -1)
        value = np.zeros((len(games), 4), np.float32)
        value[:, : rules.num_players] = self.generator.dirichlet(
            np.ones(rules.num_players), len(games)
        )
        log_policy = -self.generator.random((len(games), 78)).astype(np.float16)
        best = self.generator.integers(78, size=len(games))
        self.trace.append((games.copy(), Taught(log_policy, best, value, scores.argmax(1))))
        return Taught(log_policy, best, value, scores.argmax(1))


class Decision:
    """One of a trace, and what follows from it."""

    def __init__(self, game, taught, row, rules, time):
        self.game, self.rules, self.time = game.copy(), rules, time
        self.log_policy, self.best, self.value, self.action = (part[row] for part in taught)
        self.mover = int(game[0]["player"])
        self.after = game.copy()
        step_games(self.after, np.array([self.action], np.int32), rules, -1)

    @property
    def is_last(self):
        return self.after[0]["end_reason"] != EndReason.RUNNING

    def seen(self, by_seat):
        """Numbers by seat as the mover sees them, 0 for absent seats."""
        row = np.zeros(4)
        row[: self.rules.num_players] = np.roll(by_seat[: self.rules.num_players], -self.mover)
        return row

    def final_shares(self):
        shares = np.empty((1, self.rules.num_players))
        write_victory_shares(self.after, self.rules, shares)
        return shares[0]


def finished_games(rules, teacher):
    """The decisions of each game that the teacher's trace has seen to its end."""
    games, finished = {}, []
    for time, (positions, taught) in enumerate(teacher.trace):
        for row in range(len(positions)):
            key = int(positions[row]["seed"])
            decision = Decision(positions[row : row + 1], taught, row, rules, time)
            games.setdefault(key, []).append(decision)
            if decision.is_last:
                finished.append(games.pop(key))
    return finished


def play(rules, num_games=6, num_steps=120, seed=3, **settings):
    teacher = RandomTeacher()
    games = TaughtGames(rules, num_games, seed)
    return games.play(teacher, teacher, num_steps, **settings), finished_games(rules, teacher)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_lessons_are_the_decisions_of_finished_games_in_order(num_players):
    lessons, finished = play(short(num_players))
    decisions = [(decision, game[-1].after[0]) for game in finished for decision in game]
    assert len(finished) > 6 and len(lessons.games) == len(decisions)
    for row, (decision, end) in enumerate(decisions):
        assert lessons.games[row].tobytes() == decision.game[0].tobytes()
        assert (lessons.log_policy[row] == decision.log_policy).all()
        assert lessons.best[row] == decision.best
        assert lessons.points[row].tolist() == decision.seen(end["points"]).tolist()
        assert lessons.rounds[row] == int(end["rounds"]) - int(decision.game[0]["rounds"])
    for part, empty in zip(lessons, no_lessons(1), strict=True):
        assert part.dtype == empty.dtype and part.shape[1:] == empty.shape[1:]
    for game in finished:
        for before, after in pairwise(game):
            assert before.after[0].tobytes() == after.game[0].tobytes()


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_lambda_1_gives_the_final_shares_as_each_mover_sees_them(num_players):
    lessons, finished = play(short(num_players), td_lambda=1.0)
    expected = [one.seen(game[-1].final_shares()) for game in finished for one in game]
    np.testing.assert_array_equal(lessons.value, np.array(expected, np.float32))
    ends = {tuple(game[-1].final_shares()) for game in finished}
    assert any(1 in shares for shares in ends)
    assert any(0 < max(shares) < 1 for shares in ends)  # shared


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_lambda_0_gives_what_the_teacher_says_at_the_seats_next_decision(num_players):
    lessons, finished = play(short(num_players), td_lambda=0.0)
    expected = []
    for game in finished:
        for index, decision in enumerate(game):
            own = [one.value for one in game[index + 1 :] if one.mover == decision.mover]
            expected.append(own[0] if own else decision.seen(game[-1].final_shares()))
    np.testing.assert_array_equal(lessons.value, np.array(expected, np.float32))


def test_a_lambda_between_mixes_value_and_return_of_the_next_decision():
    lessons, finished = play(short(3), td_lambda=0.75)
    expected = []
    for game in finished:
        returns = {}  # of each seat's decision after this one, with the value there
        rows = []
        for decision in reversed(game):
            end = decision.seen(game[-1].final_shares())
            value, later = returns.get(decision.mover, (end, end))
            rows.append(0.25 * value + 0.75 * later)
            returns[decision.mover] = decision.value, rows[-1]
        expected += reversed(rows)
    np.testing.assert_allclose(lessons.value, expected, atol=1e-6)
    np.testing.assert_allclose(lessons.value.sum(1), 1, atol=1e-6)


def test_lessons_come_only_when_a_game_is_over():
    teacher, games = RandomTeacher(), TaughtGames(short(2), 4, 1)
    numbers = [len(games.play(teacher, teacher, 1).games) for _ in range(60)]
    expected = np.zeros(60, int)
    for game in finished_games(short(2), teacher):
        expected[game[-1].time] += len(game)
    assert numbers == expected.tolist()
    assert numbers[0] == 0 and any(numbers)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_lessons_say_whether_the_full_teacher_has_decided(share):
    full, fast = RandomTeacher(1), RandomTeacher(2)
    games = TaughtGames(short(2), 8, 5)
    lessons = games.play(full, fast, 120, full_share=share, td_lambda=1.0)
    said = {}
    for is_full, teacher in ((True, full), (False, fast)):
        for positions, taught in teacher.trace:
            for row, game in enumerate(positions):
                said[game.tobytes()] = is_full, taught.best[row], taught.log_policy[row]
    assert len(said) == 8 * 120  # each decision is made by one of them
    assert sum(is_full for is_full, *_ in said.values()) == pytest.approx(share * 960, abs=60)
    assert len(lessons.games) > 480
    for row, game in enumerate(lessons.games):
        is_full, best, log_policy = said[game.tobytes()]
        assert lessons.is_full[row] == is_full and lessons.best[row] == best
        assert (lessons.log_policy[row] == log_policy).all()
    shares = [1.0, 0.5, 0.0]
    assert np.isin(lessons.value[:, :2], shares).all() and (lessons.value[:, 2:] == 0).all()


def test_of_a_game_longer_than_the_memory_the_last_decisions_are_lessons(monkeypatch):
    whole, finished = play(short(3), td_lambda=1.0)
    monkeypatch.setattr(teaching, "LONGEST", 10)
    lessons, same = play(short(3), td_lambda=1.0)
    lengths = [len(game) for game in finished]
    assert lengths == [len(game) for game in same] and max(lengths) > 20 and min(lengths) < 40
    kept = np.concatenate([np.arange(n) >= n - 10 for n in lengths])
    for part, longer in zip(lessons, whole, strict=True):
        np.testing.assert_array_equal(part, longer[kept])


def test_a_seed_repeats_and_another_one_deals_others():
    (first, _), (same, _), (other, _) = (play(short(2), seed=seed) for seed in (3, 3, 4))
    for one, two in zip(first, same, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not set(first.games["seed"]) & set(other.games["seed"])


def test_without_a_finished_game_there_are_no_lessons():
    lessons, finished = play(short(2), num_steps=2)
    assert finished == []
    assert [part.shape for part in lessons] == [part.shape for part in no_lessons(0)]


def result_of(value, visits, policy, q):
    """A search's result: one game, its first actions as given."""

    def wide(numbers, dtype):
        row = np.zeros((1, NUM_ACTIONS), dtype)
        row[0, : len(numbers)] = numbers
        return row

    return SearchResult(
        wide(visits, np.int64),
        wide(q, np.float64),
        wide(policy, np.float64),
        np.array([value]),
        np.zeros(1, np.int32),
    )


@pytest.mark.parametrize(
    ("value", "player", "expected"),
    [
        ([0.7, 0.3], 0, [0.4, 0.6, 0, 0]),
        ([0.7, 0.3], 1, [0.4, 0.6, 0, 0]),
        ([0.3, 0.5, 0.2], 1, [0.4, 0.24, 0.36, 0]),
        ([0.3, 0.5, 0.2], 2, [0.4, 0.225, 0.375, 0]),
        ([0.1, 0.2, 0.3, 0.4], 3, [0.4, 0.1, 0.2, 0.3]),
    ],
)
def test_seen_values_have_the_mean_of_q_over_the_visited_actions(value, player, expected):
    """The mover's share is (0.6 * 0.5 + 0.2 * 0.1) / 0.8; the others keep their proportion."""
    result = result_of(value, [3, 1, 0], [0.6, 0.2, 0.2], [0.5, 0.1, 0.9])
    seen = seen_values(result, np.array([player], np.int8))
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, [expected], atol=1e-6)


def test_with_own_share_the_others_share_the_rest_as_before():
    value = np.array([[0.5, 0.3, 0.2, 0], [0.2, 0.8, 0, 0], [1, 0, 0, 0], [1, 1e-20, 0, 0]])
    found = with_own_share(value.astype(np.float32), np.array([0.75, 0.0, 1.0, 0.9]))
    expected = [[0.75, 0.15, 0.1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0.9, 0.1, 0, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.dtype == np.float32


def network_of(num_players, seed=0):
    """Opinions that depend on all that is seen."""
    generator = np.random.default_rng(seed)
    weights = generator.normal(0, 0.5, (OBSERVATION_SIZE, NUM_ACTIONS + 4)).astype(np.float32)

    def evaluate(observation):
        outputs = observation @ weights
        value = np.zeros((len(observation), 4), np.float32)
        value[:, :num_players] = softmax(outputs[:, NUM_ACTIONS : NUM_ACTIONS + num_players])
        return outputs[:, :NUM_ACTIONS], value

    return evaluate


TEACHERS = {
    "search": lambda evaluate, scale, seed: search_teacher(evaluate, 4, 1.5, scale, seed),
    "lookahead": lookahead_teacher,
}


@pytest.mark.parametrize("kind", TEACHERS)
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_a_teacher_says_something_sensible(kind, num_players):
    rules = standard(num_players)
    games = random_positions(rules, 12, 9)
    legal, row = legal_actions(games, rules), np.arange(len(games))
    taught = TEACHERS[kind](network_of(num_players), 1.0, 5)(games.copy(), rules)
    np.testing.assert_allclose(np.exp(taught.log_policy).sum(1), 1, atol=1e-9)
    assert (taught.log_policy[~legal] <= -29.99).all() and np.isfinite(taught.log_policy).all()
    assert legal[row, taught.best].all() and legal[row, taught.action].all()
    np.testing.assert_allclose(taught.value.sum(1), 1, atol=1e-5)
    assert (taught.value[:, num_players:] == 0).all() and (taught.value >= 0).all()
    assert taught.value.shape == (len(games), 4) and taught.value.dtype == np.float32


@pytest.mark.parametrize("kind", TEACHERS)
def test_a_teacher_repeats_by_its_seed_and_explores_by_its_noise(kind):
    rules, evaluate = standard(2), network_of(2)
    games = random_positions(rules, 40, 9)

    def ask(scale, seed):
        return TEACHERS[kind](evaluate, scale, seed)(games, rules)

    for one, two in zip(ask(1.0, 5), ask(1.0, 5), strict=True):
        np.testing.assert_array_equal(one, two)
    assert (ask(10.0, 5).action != ask(10.0, 6).action).any()
    assert (ask(0.0, 5).action == ask(0.0, 5).best).mean() > 0.9
    assert (ask(10.0, 5).action != ask(10.0, 5).best).any()


@pytest.mark.parametrize("kind", TEACHERS)
def test_a_teacher_does_not_look_at_what_the_mover_cannot_see(kind):
    rules = standard(2)
    games = random_positions(rules, 12, 9)
    other = games.copy()
    other["seed"] += 1
    first, second = (
        TEACHERS[kind](network_of(2), 1.0, 5)(asked, rules) for asked in (games, other)
    )
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_lookahead_teacher_says_what_lookahead_finds():
    rules, evaluate = standard(3), network_of(3)
    games = random_positions(rules, 12, 9)
    found = LookaheadAgent("same", lambda rules: evaluate, seed=5).look(games, rules)
    taught = lookahead_teacher(evaluate, 0.0, 5)(games, rules)
    assert (taught.action == found.scores.argmax(1)).all()
    assert (taught.best == taught.action).all()
    policy = softmax(found.scores)
    np.testing.assert_allclose(taught.value[:, 0], (policy * found.q).sum(1), atol=1e-6)
    ours = evaluate(observe_movers(games, rules)[0])[1]
    np.testing.assert_array_equal(found.value, ours)
    proportion = taught.value[:, 1] / taught.value[:, 2]
    np.testing.assert_allclose(proportion, ours[:, 1] / ours[:, 2], rtol=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_search_teacher_improves_the_policy_itself_whatever_the_prior(temperature):
    """By as much as the search improves the prior that it looks around by."""
    rules, evaluate = standard(3), network_of(3)
    games = random_positions(rules, 12, 9)
    legal = legal_actions(games, rules)
    settings = Settings(num_simulations=8, gumbel=True, gumbel_scale=0.5, reuse=False)
    evaluator = NetworkEvaluator(lambda rules: evaluate, temperature=temperature)
    found = Search(evaluator, settings, 5).run(games, rules)
    logits = np.where(legal, evaluate(observe_movers(games, rules)[0])[0], -np.inf)
    policy, prior = softmax(logits), softmax(logits / temperature)
    expected = np.where(legal, policy * found.policy / np.where(legal, prior, 1), 0)
    expected /= expected.sum(1, keepdims=True)
    taught = search_teacher(evaluate, 8, temperature, 0.5, 5)(games, rules)
    np.testing.assert_allclose(np.exp(taught.log_policy), expected, atol=1e-6)
    np.testing.assert_array_equal(taught.action, found.action)
    np.testing.assert_array_equal(taught.value, seen_values(found, games["player"]))
    visited = np.where(found.visits > 0, found.policy, 0)
    np.testing.assert_array_equal(taught.best, visited.argmax(1))


def numbered(first, number):
    """Lessons whose every part says which one it is."""
    lessons = no_lessons(number)
    for part in lessons:
        values = np.arange(first, first + number).reshape(-1, *[1] * (part.ndim - 1))
        if part.dtype.names:
            part["seed"] = values
        else:
            part[:] = values
    return lessons


def content(window):
    taken = window.take(np.arange(window.size))
    numbers = taken.games["seed"].astype(int)
    for part in (taken.log_policy[:, 5], taken.best, taken.value[:, 3], taken.points[:, 0]):
        np.testing.assert_array_equal(part, numbers)
    np.testing.assert_array_equal(taken.rounds, numbers)
    return numbers.tolist()


def test_a_window_keeps_the_last_lessons():
    window = Window(5)
    assert window.size == 0
    for first, number, expected in (
        (0, 3, [0, 1, 2]),
        (3, 0, [0, 1, 2]),
        (3, 4, [2, 3, 4, 5, 6]),
        (7, 5, [7, 8, 9, 10, 11]),
        (12, 13, [20, 21, 22, 23, 24]),
        (25, 1, [21, 22, 23, 24, 25]),
    ):
        window.add(numbered(first, number))
        assert sorted(content(window)) == expected
        assert window.size == len(expected)


def test_what_a_window_gives_is_a_copy_in_the_order_asked_for():
    window = Window(4)
    window.add(numbered(0, 4))
    taken = window.take(np.array([2, 0, 2]))
    assert isinstance(taken, Lessons) and taken.rounds.tolist() == [2, 0, 2]
    taken.rounds[:] = 9
    assert content(window) == [0, 1, 2, 3]
