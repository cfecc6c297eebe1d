"""The agents that need nothing but the engine."""

import numpy as np

from splendor_env.core.state import Rules
from splendor_env.heuristics import (
    choose_builder_in,
    choose_greedy_in,
    choose_racer_in,
    choose_random_in,
)


class RandomAgent:
    """A uniformly random legal action."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = np.uint64(seed % 2**64)
        self._position = 0

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        actions = np.empty(len(games), np.int32)
        choose_random_in(games, rules, self._seed, self._position, actions)
        self._position += len(games)
        return actions


class GreedyAgent:
    """The action after which the own position scores best by `heuristics.choose_greedy`."""

    name = "greedy"

    def __init__(self, seed: int = 0) -> None:
        """Make the agent; it is deterministic, `seed` has no effect."""

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        actions = np.empty(len(games), np.int32)
        choose_greedy_in(games, rules, actions)
        return actions


class BuilderAgent:
    """Builds an engine of bonuses that serves the cards in reach: `heuristics.choose_builder`."""

    name = "builder"

    def __init__(self, seed: int = 0) -> None:
        """Make the agent; it is deterministic, `seed` has no effect."""

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        actions = np.empty(len(games), np.int32)
        choose_builder_in(games, rules, actions)
        return actions


class RacerAgent:
    """Plans its next two purchases, with an eye for points: `heuristics.choose_racer`."""

    name = "racer"

    def __init__(self, seed: int = 0) -> None:
        """Make the agent; it is deterministic, `seed` has no effect."""

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        actions = np.empty(len(games), np.int32)
        choose_racer_in(games, rules, actions)
        return actions
