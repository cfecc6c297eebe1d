"""Agents for tests by spec: `tests.web.agents:failing`, `illegal` and `slow`."""

import time

import numpy as np


class TestAgent:
    def __init__(self, name):
        self.name = name

    def act(self, games, rules, game_id):
        if self.name == "failing":
            raise RuntimeError("it has failed")
        if self.name == "slow":
            time.sleep(1.0)
        return np.full(len(games), 77 if self.name == "illegal" else 0, np.int32)


def make_agent(argument, seed):
    return TestAgent(argument)
