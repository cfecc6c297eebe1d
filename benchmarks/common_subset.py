"""Agents of ours kept to the moves that the public networks have too: the "common subset".

    splendor evaluate benchmarks.common_subset:pretrained --against benchmarks.yardstick:PATH

The rules of the yardstick (see yardstick.py) let nobody hold more than ten tokens. By the full
rules an agent of ours may take more and return some, a choice that its opponent does not have. The
spec `benchmarks.common_subset:SPEC` plays like SPEC without it:

- It does not take tokens that would make it hold more than ten.
- A reserve at ten tokens returns the gold that it took.
- Where that leaves nothing it passes as the networks do: it takes one token and returns the same.

A policy plays the likeliest of the moves that are left, a search searches them alone at its root. A
search by a network expects nobody to make another one later either, as it is with the public
networks, which know none. What values and rollouts expect is still by the full rules, which they
were made for.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from splendor_env.agents import Agent
from splendor_env.agents import make_agent as make_ours
from splendor_env.agents.onnx import PretrainedAgent
from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    NUM_ACTIONS,
    RESERVE,
    RETURN,
    TAKE_ALIKE,
    TAKE_ONE,
    TAKEN_GEMS,
)
from splendor_env.core.batch import observe_movers, write_action_mask
from splendor_env.core.gems import GEM, GOLD, NUM_COLORS, count, total
from splendor_env.core.state import EndReason, Phase, Rules, SplendorError, standard
from splendor_env.evaluation.match import rules_text
from splendor_env.search.evaluators import NetworkEvaluator
from splendor_env.search.lookahead import LookaheadAgent
from splendor_env.search.mcts import SearchAgent

Choose = Callable[[np.ndarray, Rules, np.ndarray, np.ndarray], np.ndarray]
"""Games (B,) GAME, rules, ids (B,) and allowed actions (B, A) bool -> one of them for each (B,)."""

_NOTHING = -1


@jit
def write_common(games, rules, allowed, is_full):
    """Write which actions the other rules have too.

    Args:
        games: (B,) GAME.
        rules: The variant.
        allowed: (B, A) int8, written: 0 or 1. Where every legal action takes too many tokens, those
            that take one.
        is_full: (B,) bool, written: whether a token more, in this turn, is one too many.
    """
    for i in range(games.shape[0]):
        game = games[i]
        write_action_mask(game, rules, allowed[i])
        room = rules.token_limit - total(game.tokens[game.player])
        is_full[i] = game.phase == Phase.PLAY and room == 0
        if game.phase == Phase.PLAY:
            for take in range(RESERVE):
                if total(TAKEN_GEMS[take]) > room:
                    allowed[i, take] = 0
        if not allowed[i].any():
            for color in range(NUM_COLORS):
                allowed[i, TAKE_ONE + color] = count(game.bank, color) > 0


@jit
def forbid(games, rules, logits):
    """Make what the other rules do not have impossible in `logits` (B, A), for any seat.

    Of what is returned only the gold of a reserve at ten is left, where there is gold.
    """
    allowed = np.empty((1, NUM_ACTIONS), np.int8)
    is_full = np.empty(1, np.bool_)
    for i in range(games.shape[0]):
        game = games[i]
        if game.end_reason != EndReason.RUNNING:
            continue
        write_common(games[i : i + 1], rules, allowed, is_full)
        if game.phase == Phase.RETURN and count(game.tokens[game.player], GOLD) > 0:
            allowed[:] = 0
            allowed[0, RETURN + GOLD] = 1
        if allowed.any():
            for action in range(NUM_ACTIONS):
                if not allowed[0, action]:
                    logits[i, action] = -np.inf


class CommonSubsetEvaluator(NetworkEvaluator):
    """Judges like another evaluator, but expects moves alone that the other rules have too.

    Args:
        evaluator: Its values and, for these moves, its priors.
    """

    def __init__(self, evaluator: NetworkEvaluator) -> None:
        super().__init__(evaluator.evaluate_for, evaluator.batch_size, float(evaluator.temperature))
        self._evaluator = evaluator

    def judge(
        self, leaves: np.ndarray, rules_: Rules, observation: np.ndarray, evaluate: Callable
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `NetworkEvaluator`."""
        logits, shares = self._evaluator.judge(leaves, rules_, observation, evaluate)
        logits = np.array(logits)
        forbid(leaves, rules_, logits)
        return logits, shares


class CommonSubsetAgent:
    """Plays like another agent, but for the moves that the other rules do not have.

    Attributes:
        name: That of the agent, with the addition `in the common subset`.

    Args:
        agent: A policy, a look-ahead or a search; it is told the same `game_id`. The evaluator of a
            search by a network is replaced by one that expects the common subset.

    Raises:
        SplendorError: Another kind of agent, which has no second choice to ask for.
    """

    def __init__(self, agent: Agent) -> None:
        self.name = f"{agent.name} in the common subset"
        self._agent = agent
        if isinstance(agent, SearchAgent) and isinstance(agent.search.evaluator, NetworkEvaluator):
            agent.search.evaluator = CommonSubsetEvaluator(agent.search.evaluator)
        self._choose = _choice_of(agent)
        self._to_return: dict[int, int] = {}  # by game_id: colour that goes back in this turn

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`.

        Raises:
            SplendorError: Rules of which this is not the common subset.
        """
        _check_rules(rules)
        games = np.ascontiguousarray(games)
        allowed = np.empty((len(games), NUM_ACTIONS), np.int8)
        is_full = np.empty(len(games), np.bool_)
        write_common(games, rules, allowed, is_full)
        color = np.array([self._to_return.pop(int(key), _NOTHING) for key in game_id], np.int32)
        is_return = (games["phase"] == Phase.RETURN) & (color != _NOTHING)
        actions = RETURN + color
        rows = np.flatnonzero(~is_return)
        if len(rows):
            actions[rows] = self._choose(games[rows], rules, game_id[rows], allowed[rows] == 1)
        has_gold = games["bank"] >= GEM[GOLD]  # the highest byte
        for row in np.flatnonzero(is_full):
            if RESERVE <= actions[row] < BUY and has_gold[row]:
                self._to_return[int(game_id[row])] = GOLD
            elif TAKE_ONE <= actions[row] < TAKE_ALIKE:
                self._to_return[int(game_id[row])] = int(actions[row]) - TAKE_ONE
        return actions

    def end_games(self, game_id: np.ndarray, results: Sequence[Any]) -> None:
        """See `Agent`."""
        for key in game_id:
            self._to_return.pop(int(key), None)
        tell = getattr(self._agent, "end_games", None)
        if tell is not None:
            tell(game_id, results)


def _choice_of(agent: Any) -> Choose:
    """How an agent chooses among some of the legal actions."""
    if isinstance(agent, SearchAgent):
        return lambda games, rules, game_id, allowed: (
            agent.search.run(games, rules, game_id, allowed=allowed).action
        )
    if isinstance(agent, LookaheadAgent):
        return lambda games, rules, game_id, allowed: _best(agent.scores(games, rules), allowed)
    if isinstance(agent, PretrainedAgent):
        return lambda games, rules, game_id, allowed: _likeliest(
            agent.policy(rules.num_players).evaluate, games, rules, allowed
        )
    if callable(getattr(agent, "evaluate", None)):
        return lambda games, rules, game_id, allowed: _likeliest(
            agent.evaluate, games, rules, allowed
        )
    raise SplendorError(
        f"agent {agent.name!r} cannot be kept to the common subset; those that can are pretrained, "
        "onnx:FILE, ppo:DIRECTORY, an agent with `evaluate`, lookahead: and mcts:"
    )


def _likeliest(
    evaluate: Callable, games: np.ndarray, rules: Rules, allowed: np.ndarray
) -> np.ndarray:
    observation, _ = observe_movers(games, rules)
    return _best(np.asarray(evaluate(observation)[0]), allowed)


def _best(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    return np.where(allowed, scores, -np.inf).argmax(1)


def _check_rules(rules: Rules) -> None:
    """Refuse rules that allow something else than what is kept out here."""
    free = {"hide_reserves": rules.hide_reserves, "max_rounds": rules.max_rounds}
    if rules != standard(rules.num_players, **free):
        raise SplendorError(
            f"the common subset is one of the standard rules, not of {rules_text(rules)}"
        )


def make_agent(argument: str, seed: int = 0) -> CommonSubsetAgent:
    """The agent of the spec `benchmarks.common_subset:ARGUMENT`, a spec itself."""
    return CommonSubsetAgent(make_ours(argument, seed))
