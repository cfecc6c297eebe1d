"""Positions for tests of what is learned from them."""

import numpy as np

from splendor_env.core.batch import Batch


def random_positions(rules, number, num_steps):
    """(number,) GAME of games in which so many random moves were made."""
    batch = Batch(rules, number)
    batch.reset(7)
    generator = np.random.default_rng(7)
    for _ in range(num_steps):
        batch.step((batch.action_mask * generator.random(batch.action_mask.shape)).argmax(1))
    return batch.games.copy()
