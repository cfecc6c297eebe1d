"""Do shares of the victory that were expected come true?"""

from typing import NamedTuple

import numpy as np

from splendor_env.core.state import SplendorError
from splendor_env.evaluation.statistics import wilson_interval

NUM_BINS = 10
"""Equally wide bins of expected win shares."""


class Calibration(NamedTuple):
    """Expected and observed win shares in the bins that are not empty (K,)."""

    num_decisions: np.ndarray
    """In each bin."""
    expected: np.ndarray
    """Mean of what was expected."""
    observed: np.ndarray
    """Mean share that followed."""
    low: np.ndarray
    """95 % interval of `observed`,"""
    high: np.ndarray
    """both ends."""

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of the two over all decisions."""
        return float(np.average(np.abs(self.expected - self.observed), weights=self.num_decisions))


def calibrate(expected: np.ndarray, observed: np.ndarray, game: np.ndarray) -> Calibration:
    """Sort decisions into bins by what was expected and compare it with what came.

    The intervals are clustered by game, as all decisions of a game share one outcome: the variance
    of a bin's mean is that of the sums over games of the deviations from it, and Wilson's interval
    is taken at the number of independent decisions that would have this variance. Where the
    variance is 0 (all outcomes alike, or a single game) the games of the bin are that number.

    Args:
        expected, observed: (T,) shares from 0 to 1.
        game: (T,) integers from 0, equal within a game.

    Raises:
        SplendorError: There are no decisions.
    """
    if len(expected) == 0:
        raise SplendorError("there are no decisions to calibrate by")
    bins = np.minimum((expected * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    kept, bins, count = np.unique(bins, return_inverse=True, return_counts=True)
    num_bins, num_games = len(kept), int(game.max()) + 1

    def by_game(values: np.ndarray | None) -> np.ndarray:
        sums = np.bincount(bins * num_games + game, values, minlength=num_bins * num_games)
        return sums.reshape(num_bins, num_games)

    mean_expected = np.bincount(bins, expected) / count
    # Rounding must not carry a mean of shares beyond 0 or 1.
    mean_observed = np.clip(np.bincount(bins, observed) / count, 0, 1)
    deviation = by_game(observed - mean_observed[bins])
    games_in_bin = (by_game(None) > 0).sum(1)
    intervals = []
    for index in range(num_bins):
        clusters, share = int(games_in_bin[index]), float(mean_observed[index])
        variance = (deviation[index] ** 2).sum() / count[index] ** 2
        variance *= clusters / max(clusters - 1, 1)
        independent = clusters
        if clusters > 1 and variance > 1e-12:
            independent = min(round(share * (1 - share) / variance), int(count[index]))
        intervals.append(wilson_interval(share, max(independent, 1)))
    low, high = np.array(intervals).T
    return Calibration(count, mean_expected, mean_observed, low, high)
