"""Agents for tests by spec, such as `tests.web.agents:failing`; see `TestAgent`."""

import time

import numpy as np

from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import write_action_masks
from splendor_env.core.state import SplendorError

PRIVATE = "/home/somebody/engine.py: no such file"

ended = []
"""What agents `telling` were told of games that are over: (id, result)."""


class TestAgent:
    """Makes the first legal move, but for the case that its name says.

    `telling` keeps what it is told; `nan` answers with what is no number.
    """

    def __init__(self, name):
        self.name = name
        self.asked = []
        if name == "telling":
            self.end_games = self._end_games
        if name == "nan":
            self.evaluate = self._evaluate

    def act(self, games, rules, game_id):
        self.asked += game_id.tolist()
        if self.name == "failing":
            raise RuntimeError("it has failed")
        if self.name == "private":
            raise SplendorError(PRIVATE)
        if self.name == "slow":
            time.sleep(1.0)
        mask = np.zeros((len(games), NUM_ACTIONS), np.int8)
        write_action_masks(games, rules, mask)
        is_legal = self.name != "illegal"
        return (mask if is_legal else 1 - mask).argmax(1).astype(np.int32)

    def _end_games(self, game_id, results):
        ended.extend(zip(game_id.tolist(), results, strict=True))

    def _evaluate(self, observation):
        size = len(observation)
        return np.full((size, NUM_ACTIONS), np.nan), np.full((size, 4), np.nan)


def make_agent(argument, seed):
    return TestAgent(argument)
