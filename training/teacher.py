"""Games in which a search chooses the moves, and what it teaches about them: for expert iteration.

Axes: B games, N seats, A actions, D decisions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch, observe_movers
from splendor_env.core.state import GAME, MAX_PLAYERS, Rules
from splendor_env.search.evaluators import Evaluate, NetworkEvaluator
from splendor_env.search.lookahead import LookaheadAgent
from splendor_env.search.mcts import Search, SearchResult, Settings
from splendor_env.search.policy import log_softmax, softmax
from training.rollout import write_advantages

LONGEST = 512
"""Decisions of a game that are remembered; of a longer one, and there are hardly any, the last."""

_LOWEST = -30.0
"""Logarithm of the least probability in a target."""

_SMALLEST = 1e-30
"""In place of a divisor of 0."""


class Lessons(NamedTuple):
    """What is learned from D decisions of finished games."""

    games: np.ndarray
    """(D,) GAME, before each decision."""
    log_policy: np.ndarray
    """(D, A) float16, logarithm of the improved policy over the legal actions."""
    best: np.ndarray
    """(D,) int8, the action that the search thinks best, whatever it explored."""
    value: np.ndarray
    """(D, 4) float32, lambda-returns of the shares of the victory by seat as seen."""
    points: np.ndarray
    """(D, 4) float32, prestige points in the end by seat as seen; 0 for absent seats."""
    rounds: np.ndarray
    """(D,) float32, rounds still played."""
    is_full: np.ndarray
    """(D,) bool, whether the full teacher decided: the policy is learned from those alone."""


def no_lessons(number: int) -> Lessons:
    """Room for so many."""
    return Lessons(
        games=np.zeros(number, GAME),
        log_policy=np.zeros((number, NUM_ACTIONS), np.float16),
        best=np.zeros(number, np.int8),
        value=np.zeros((number, MAX_PLAYERS), np.float32),
        points=np.zeros((number, MAX_PLAYERS), np.float32),
        rounds=np.zeros(number, np.float32),
        is_full=np.zeros(number, np.bool_),
    )


class Window:
    """The last decisions taught, in a ring.

    Attributes:
        size: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._lessons = no_lessons(most)
        self._next = 0
        self.size = 0

    def add(self, lessons: Lessons) -> None:
        """Take these in, in place of the oldest ones."""
        most = len(self._lessons.games)
        number = len(lessons.games)
        places = (self._next + np.arange(number)) % most
        for kept, new in zip(self._lessons, lessons, strict=True):
            kept[places[-most:]] = new[-most:]
        self._next = (self._next + number) % most
        self.size = min(most, self.size + number)

    def take(self, rows: np.ndarray) -> Lessons:
        """Copies of those in these places, from 0 up to `size`."""
        return Lessons(*(kept[rows] for kept in self._lessons))


class Taught(NamedTuple):
    """What a teacher says of B positions."""

    log_policy: np.ndarray
    """(B, A) float, logarithm of the improved policy; low, but finite, for illegal actions."""
    best: np.ndarray
    """(B,) the action it thinks best."""
    value: np.ndarray
    """(B, 4) float32, expected shares by seat as seen."""
    action: np.ndarray
    """(B,) the move to play, some noise included."""


Teacher = Callable[[np.ndarray, Rules], Taught]
"""Asked about games (B,) GAME that are not over."""


def search_teacher(
    evaluate: Evaluate, num_simulations: int, temperature: float, gumbel_scale: float, seed: int
) -> Teacher:
    """A Gumbel search on a network.

    The search looks around by a softened policy, but what improves is the policy itself: log p +
    sigma Q with the p of temperature 1. Else each round would flatten what the ones before have
    taught.

    Args:
        evaluate: The network.
        num_simulations: For each decision.
        temperature: Of the network's policy as a prior, see `NetworkEvaluator`.
        gumbel_scale: Of the noise that chooses the root's candidates and among them.
        seed: Of the searches; equal positions get equal answers.
    """
    settings = Settings(
        num_simulations=num_simulations, gumbel=True, gumbel_scale=gumbel_scale, reuse=False
    )
    search = Search(
        NetworkEvaluator(lambda rules: evaluate, temperature=temperature), settings, seed
    )

    def teach(games: np.ndarray, rules: Rules) -> Taught:
        result = search.run(games, rules)
        best = np.where(result.visits > 0, result.policy, -1).argmax(1)
        value = seen_values(result, games["player"])
        observation, mask = observe_movers(games, rules)
        log_prior = log_softmax(np.asarray(evaluate(observation)[0], np.float64), mask == 1)
        sharper = np.log(np.maximum(result.policy, _SMALLEST)) + (1 - 1 / temperature) * log_prior
        return Taught(_lifted(log_softmax(sharper, mask == 1)), best, value, result.action)

    return teach


def lookahead_teacher(evaluate: Evaluate, gumbel_scale: float, seed: int) -> Teacher:
    """One step ahead: see `splendor_env.search.lookahead`.

    Args:
        evaluate: The network.
        gumbel_scale: Of the noise on the choice: with 1 it is a draw from the improved policy.
        seed: Of the imagined draws, and of the noise.
    """
    agent = LookaheadAgent("teacher", lambda rules: evaluate, seed=seed)
    generator = np.random.default_rng(seed)

    def teach(games: np.ndarray, rules: Rules) -> Taught:
        found = agent.look(games, rules)
        policy = softmax(found.scores)
        value = with_own_share(found.value, (policy * found.q).sum(1))
        noise = gumbel_scale * generator.gumbel(size=policy.shape)
        best = found.scores.argmax(1)
        return Taught(
            _lifted(np.log(np.maximum(policy, _SMALLEST))),
            best,
            value,
            (found.scores + noise).argmax(1),
        )

    return teach


def seen_values(result: SearchResult, player: np.ndarray) -> np.ndarray:
    """What a search expects of positions, (B, 4) float32 by seat as seen.

    The mover's own share is the mean of Q under the improved policy, over the actions with visits:
    the mean over all simulations would count its excursions too.
    """
    num_players = result.value.shape[1]
    row = np.arange(len(player))[:, None]
    seat = (player.astype(np.int64)[:, None] + np.arange(num_players)) % num_players
    value = np.zeros((len(player), MAX_PLAYERS), np.float32)
    value[:, :num_players] = result.value[row, seat]
    weight = np.where(result.visits > 0, result.policy, 0)
    return with_own_share(value, (weight * result.q).sum(1) / weight.sum(1))


def with_own_share(value: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Values (B, 4) with another share (B,) of the mover.

    The others share the rest in the same proportion as before.
    """
    rest = value[:, 1:].sum(1)
    scaled = value * ((1 - own) / np.maximum(rest, _SMALLEST))[:, None]
    scaled[:, 0] = own
    return scaled.astype(np.float32)


def _lifted(log_policy: np.ndarray) -> np.ndarray:
    return np.maximum(log_policy, _LOWEST)


class TaughtGames:
    """B games under way, in which a search on a network moves for all seats.

    Args:
        rules: The variant.
        num_games: B.
        seed: Of deals, and of which decisions are taught.
    """

    def __init__(self, rules: Rules, num_games: int, seed: int) -> None:
        self._batch = Batch(rules, num_games, auto_reset=False)
        self._batch.reset(seed)
        self._action = np.zeros(num_games, np.int32)
        self._generator = np.random.default_rng(seed)
        self._now = 0  # place of the next decision in the rings below
        self._start = np.zeros(num_games, np.int64)  # decisions made before each game began
        shape = (LONGEST, num_games)
        self._games = np.zeros(shape, GAME)
        self._log_policy = np.zeros((*shape, NUM_ACTIONS), np.float16)
        self._best = np.zeros(shape, np.int8)
        self._value = np.zeros((*shape, MAX_PLAYERS), np.float32)
        self._player = np.zeros(shape, np.int8)
        self._is_full = np.zeros(shape, np.bool_)

    def play(
        self,
        full: Teacher,
        fast: Teacher,
        num_steps: int,
        *,
        full_share: float = 1.0,
        td_lambda: float = 1.0,
    ) -> Lessons:
        """Make decisions in every game; the lessons of those games that end meanwhile.

        A part of the decisions, drawn by chance, is made by `full`, and only those teach the
        policy; the others play on, and with them there are several times as many games to learn the
        value from (playout-cap randomisation: Wu 2019, "Accelerating Self-Play Learning in Go").

        Args:
            full, fast: Who decides.
            num_steps: Decisions in each game.
            full_share: Part of the decisions that `full` makes.
            td_lambda: Of the lambda-returns: 1 for the results of games alone.
        """
        lessons = []
        for _ in range(num_steps):
            is_full = self._generator.random(self._batch.num_games) < full_share
            self._decide(full, np.flatnonzero(is_full), True)
            self._decide(fast, np.flatnonzero(~is_full), False)
            ended = self._step()
            lessons += [self._finish(game, td_lambda) for game in ended]
            self._batch.reset_where(ended)
        if not lessons:
            return no_lessons(0)
        return Lessons(*map(np.concatenate, zip(*lessons, strict=True)))

    def _decide(self, teacher: Teacher, rows: np.ndarray, is_full: bool) -> None:
        """Ask about these games (b,), and remember the answers."""
        if len(rows) == 0:
            return
        games = self._batch.games[rows]
        taught = teacher(games, self._batch.rules)
        place = self._now % LONGEST, rows
        self._games[place] = games
        self._log_policy[place] = taught.log_policy
        self._best[place] = taught.best
        self._value[place] = taught.value
        self._player[place] = games["player"]
        self._is_full[place] = is_full
        self._action[rows] = taught.action

    def _step(self) -> np.ndarray:
        """Make the moves that were found; the rows of the games that are over (they wait)."""
        self._batch.step(self._action)
        self._now += 1
        return np.flatnonzero(self._batch.terminated | self._batch.truncated)

    def _finish(self, game: int, td_lambda: float) -> Lessons:
        """The lessons of a game that is just over."""
        num_players = self._batch.rules.num_players
        end = self._batch.games[game]
        place = np.arange(max(self._start[game], self._now - LONGEST), self._now) % LONGEST, game
        self._start[game] = self._now
        number = len(place[0])
        is_last = np.zeros((number, 1), np.bool_)
        is_last[-1] = True
        share = np.zeros((number, 1, num_players), np.float32)
        share[-1, 0] = (self._batch.reward[game] * (num_players - 1) + 1) / num_players
        value = np.zeros((number, 1, MAX_PLAYERS), np.float32)
        write_advantages(
            self._player[place][:, None],
            self._value[place][:, None],
            is_last,
            share,
            np.zeros(1, np.int8),  # the game is over: nobody's turn, and nothing is expected
            np.zeros((1, MAX_PLAYERS), np.float32),
            td_lambda,
            np.empty((number, 1), np.float32),
            value,
        )
        player = self._player[place].astype(np.int64)
        seat = (player[:, None] + np.arange(num_players)) % num_players
        points = np.zeros((number, MAX_PLAYERS), np.float32)
        points[:, :num_players] = end["points"][seat]
        games = self._games[place]
        return Lessons(
            games=games,
            log_policy=self._log_policy[place],
            best=self._best[place],
            value=value[:, 0],
            points=points,
            rounds=(end["rounds"] - games["rounds"]).astype(np.float32),
            is_full=self._is_full[place],
        )
