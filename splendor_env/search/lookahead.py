"""One step ahead: every legal action tried, a few draws each, judged by a network. No tree.

The choice is the highest log p + c Q: the policy's own probability p of an action, and Q, the share
that its seat may expect afterwards. All positions after all actions of all games go through the
network together. It is the cheapest search, and a policy lags its value: for a network after PPO it
was worth more than 150 Elo.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from splendor_env.core import rules as core_rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import observe_movers
from splendor_env.core.hidden import determinize
from splendor_env.core.observation import OBSERVATION_SIZE, observe
from splendor_env.core.random import HIDDEN_STREAM, hash_seed
from splendor_env.core.state import GAME, EndReason, Rules
from splendor_env.search.evaluators import Evaluate
from splendor_env.search.policy import log_softmax
from splendor_env.search.tree import hash_information

_ROWS_AT_ONCE = 1 << 14
"""Positions that go through the network in one call: the observations take 50 MB."""


@jit
def step_all(games, game_index, actions, sample, rules_, seed, after, shares, observation):
    """Make R steps, each from a copy of a game without what its mover cannot see.

    Args:
        games: (B,) GAME.
        game_index: (R,) int64.
        actions: (R,) int64, legal.
        sample: (R,) int64: steps of one game with equal numbers imagine the same hidden cards.
        rules_: The variant.
        seed: uint64 of these cards.
        after: (R,) GAME, written.
        shares: (R,) float64, written: the mover's exact share where the game is over, else NaN.
        observation: (R, D) float32, written: what the seat to move then sees; zero after the end.
    """
    value = np.empty(rules_.num_players)
    scratch = games[:1].copy()
    previous = np.int64(-1)
    game_seed = seed
    for row in range(game_index.shape[0]):
        game = games[game_index[row]]
        mover = np.int64(game.player)
        if game_index[row] != previous:
            previous = game_index[row]
            game_seed = hash_seed(seed, 0, hash_information(game, rules_, mover, scratch))
        after[row] = game
        copy = after[row]
        determinize(copy, rules_, mover, hash_seed(game_seed, HIDDEN_STREAM, sample[row]))
        core_rules.step(copy, actions[row], rules_, -1)
        if copy.end_reason != EndReason.RUNNING:
            core_rules.victory_shares(copy, rules_, value)
            shares[row] = value[mover]
            observation[row, :] = 0
        else:
            shares[row] = np.nan
            observe(copy, rules_, copy.player, observation[row])


class Lookahead(NamedTuple):
    """What one step ahead shows of B games."""

    scores: np.ndarray
    """(B, A) float64, log p + c Q; -inf for illegal actions. A target for training by softmax."""
    q: np.ndarray
    """(B, A) float64, the mover's mean share after each action; 0 for illegal ones."""
    value: np.ndarray
    """(B, 4) float32, what the network itself expects, by seat as seen."""


class LookaheadAgent:
    """Plays by `lookahead`.

    Args:
        name: Of the agent.
        evaluate_for: Gives the network for the rules of a game; see `Evaluate`.
        num_samples: Imagined draws for each action.
        c_q: Weight of the value against the logarithm of the probability. With 100, a hundredth
            of the victory outweighs a factor of 2.7 between probabilities.
        seed: Of the draws.
    """

    def __init__(
        self,
        name: str,
        evaluate_for: Callable[[Rules], Evaluate],
        *,
        num_samples: int = 2,
        c_q: float = 100.0,
        seed: int = 0,
    ) -> None:
        self.name = name
        self._evaluate_for = evaluate_for
        self._num_samples = num_samples
        self._c_q = c_q
        self._seed = np.uint64(seed % 2**64)

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        scores = self.scores(games, rules)
        return scores.argmax(1).astype(np.int32)

    def scores(self, games: np.ndarray, rules: Rules) -> np.ndarray:
        """Log p + c Q of every action (B, A); -inf for illegal ones."""
        return self.look(games, rules).scores

    def look(self, games: np.ndarray, rules: Rules) -> Lookahead:
        """All that is found about games (B,) GAME, none of which is over."""
        games = np.ascontiguousarray(games)
        evaluate = self._evaluate_for(rules)
        observation, mask = observe_movers(games, rules)
        logits, value = map(np.asarray, evaluate(observation))
        log_prior = log_softmax(np.asarray(logits, np.float64), mask == 1)
        q = self._q(games, rules, mask, evaluate)
        scores = np.where(mask == 1, log_prior + self._c_q * q, -np.inf)
        return Lookahead(scores, q, value)

    def _q(
        self, games: np.ndarray, rules: Rules, mask: np.ndarray, evaluate: Evaluate
    ) -> np.ndarray:
        """The mover's mean share after each legal action (B, A), 0 for the others."""
        num_players = rules.num_players
        num_samples = self._num_samples
        index, action = (np.repeat(part, num_samples) for part in np.nonzero(mask))
        sample = np.tile(np.arange(num_samples), len(index) // num_samples)
        sums = np.zeros((len(games), NUM_ACTIONS))
        for start in range(0, len(index), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            number = len(index[rows])
            after = np.zeros(number, GAME)
            share = np.empty(number)
            observation = np.empty((number, OBSERVATION_SIZE), np.float32)
            step_all(
                games,
                index[rows],
                action[rows],
                sample[rows],
                rules,
                self._seed,
                after,
                share,
                observation,
            )
            is_open = np.isnan(share)
            if is_open.any():
                seen = np.asarray(evaluate(observation[is_open])[1], np.float64)[:, :num_players]
                offset = (games["player"][index[rows]] - after["player"])[is_open] % num_players
                sum_ = seen.sum(1)
                own = seen[np.arange(len(seen)), offset]
                usable = (sum_ > 0) & (sum_ < np.inf)
                share[is_open] = np.where(usable, own / np.where(usable, sum_, 1), 1 / num_players)
            np.add.at(sums, (index[rows], action[rows]), share)
        return sums / num_samples
