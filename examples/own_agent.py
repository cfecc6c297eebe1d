"""An agent of your own, judged by `splendor evaluate`. Its guide is docs/own_agent.md.

    splendor evaluate examples.own_agent:2.0 --against greedy

or, the same: `python examples/own_agent.py`. What is special here: an agent is asked about many
games at once, sees what its seat sees through `observe_games` and `view_observation`, and has no
need to know a rule, since the mask says what is legal.
"""

import argparse
import sys

import numpy as np

from splendor_env import SplendorError
from splendor_env.cli import main as splendor
from splendor_env.core.actions import BUY, BUY_RESERVED, NUM_ACTIONS, TAKEN_GEMS
from splendor_env.core.batch import observe_games, write_action_masks
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.state import Rules

POINTS, MISSING, MISSING_IN_ALL = 10, slice(14, 19), 19
"""Columns of a card's row: docs/reference.md has them all."""
TAKEN = TAKEN_GEMS.view(np.uint8).reshape(-1, 8)[:, :5]
"""(30, 5) the tokens of each take action, by colour."""


class CollectorAgent:
    """Wants the card that is worth most for what it still misses; takes tokens towards it.

    Args:
        per_point: What a prestige point is worth, in cards.
        seed: For ties.
    """

    def __init__(self, per_point: float, seed: int = 0) -> None:
        self.name = f"collector {per_point:g}"
        self._per_point = per_point
        self._rng = np.random.default_rng(seed)

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """A legal action (B,) int32 for the seat to move in each of the games (B,)."""
        seats = np.ascontiguousarray(games["player"])
        observation = np.empty((len(games), OBSERVATION_SIZE), np.float32)
        action_mask = np.empty((len(games), NUM_ACTIONS), np.int8)
        observe_games(games, rules, seats, observation)
        write_action_masks(games, rules, action_mask)

        view = view_observation(observation)
        # (B, 15, columns): the 12 cards of the market, then the own reserves, as the buy actions.
        cards = np.concatenate((view["market"], view["own_reserved"]), 1)
        worth = (1 + self._per_point * 5 * cards[..., POINTS]) * cards.any(-1)
        wish = worth / (1 + 14 * cards[..., MISSING_IN_ALL])
        score = np.zeros((len(games), NUM_ACTIONS))
        score[:, BUY : BUY_RESERVED + 3] = 100 + worth
        # A token is wanted by every card that misses one of its colour.
        demand = (wish[..., np.newaxis] ** 2 * 7 * cards[..., MISSING]).sum(1)  # (B, 5)
        score[:, : len(TAKEN)] = 1 + demand @ TAKEN.T
        score += 1e-6 * self._rng.random(score.shape)
        return np.where(action_mask == 1, score, -np.inf).argmax(1).astype(np.int32)


def make_agent(argument: str, seed: int) -> CollectorAgent:
    """The agent of the spec `examples.own_agent:ARGUMENT`; here the argument is `per_point`."""
    try:
        return CollectorAgent(float(argument or 1), seed)
    except ValueError:
        raise SplendorError(f"the argument must be a number, not {argument!r}") from None


def main() -> int:
    """The command above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", default="1000")
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    sizes = ["--games", options.games, "--seed", options.seed]
    return splendor(["evaluate", "examples.own_agent:2.0", "--against", "greedy", *sizes])


if __name__ == "__main__":
    sys.exit(main())
