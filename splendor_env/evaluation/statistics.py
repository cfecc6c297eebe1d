"""What a finite number of games says: intervals for a win share, and a sequential test.

Games of one deal are not independent: they share the cards, and the seats are swapped. Whatever
counts deals instead of games calls them clusters here.
"""

from math import log, sqrt
from typing import Literal

import numpy as np

from splendor_env.core.random import check_seed
from splendor_env.core.state import SplendorError

Z_95 = 1.959963984540054
"""Standard deviations of a normal variable that hold 95 % of it."""

_VIRTUAL_VARIANCE_SUM = 0.5
"""Sum of squared distances from 1/2 of one virtual deal won and one lost."""
_VIRTUAL_SUMS = ((2, 2), (0, 2))
"""Share and games of the two virtual clusters of a bootstrap."""
_RESAMPLES_AT_ONCE = 64


def wilson_interval(share: float, num_games: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval for a win share seen in `num_games` games.

    Shared victories count as fractions of a win, which makes the interval a little too wide.
    """
    z_squared = z * z
    center = share + z_squared / (2 * num_games)
    spread = z * sqrt(share * (1 - share) / num_games + z_squared / (4 * num_games**2))
    scale = 1 + z_squared / num_games
    # In exact arithmetic the share lies inside; rounding must not put a share of 0 or 1 outside.
    low = min(share, (center - spread) / scale)
    high = max(share, (center + spread) / scale)
    return max(0.0, low), min(1.0, high)


def cluster_sums(values: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Sums of `values` (G,) or (G, M) over each cluster, (C,) or (C, M) float64.

    `cluster` (G,) has any integers; clusters come in ascending order.
    """
    _, index = np.unique(cluster, return_inverse=True)
    num_clusters = int(index.max()) + 1 if len(index) else 0
    sums = np.zeros((num_clusters, *values.shape[1:]))
    np.add.at(sums, index, values)
    return sums


def resampled_sums(sums: np.ndarray, num_samples: int, seed: int = 0) -> np.ndarray:
    """Totals of as many clusters as there are, drawn with replacement, many times.

    Args:
        sums: (C, M), what each cluster adds.
        num_samples: S.
        seed: Of the draws.

    Returns:
        (S, M) float64.
    """
    rng = np.random.default_rng(check_seed(seed))
    # Equal clusters are drawn together: deals have few results, which makes this the faster the
    # more of them there are.
    distinct, count = np.unique(sums, axis=0, return_counts=True)
    totals = np.empty((num_samples, sums.shape[1]))
    for start in range(0, num_samples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, num_samples - start)
        times_drawn = rng.multinomial(len(sums), count / len(sums), size)
        totals[start : start + size] = times_drawn.astype(np.float64) @ distinct
    return totals


def cluster_bootstrap_interval(
    share: np.ndarray,
    cluster: np.ndarray,
    *,
    confidence: float = 0.95,
    num_samples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of the mean of `share` when whole clusters are drawn anew.

    To the clusters are added one of two games won and one of two games lost, the two wins and two
    losses of Agresti and Coull (1998), which do the same here: a few deals that happen to be equal
    do not count as certain, and a shutout leaves room for a defeat. Of 95 % intervals about 94 to
    97 % hold the truth in the simulations of benchmarks/coverage.py with 50 deals or more, and up
    to 99 % with 15, as the mean of few games has few values.

    Args:
        share: (G,) in [0, 1], of the victory.
        cluster: (G,) integers, the deal of each game.
        confidence: Part of such intervals that hold the truth.
        num_samples: Resamples.
        seed: Of the resamples; the same interval each time.

    Returns:
        Its ends, in [0, 1]; the mean lies between them.

    Raises:
        SplendorError: No games, arrays of different lengths, or no such confidence.
    """
    share, cluster = np.asarray(share, np.float64), np.asarray(cluster)
    if not 0 < confidence < 1:
        raise SplendorError(f"confidence must be between 0 and 1, not {confidence!r}")
    if len(share) == 0 or share.shape != cluster.shape:
        raise SplendorError(
            f"an interval needs a share and a cluster for each game, not {share.shape} shares and "
            f"{cluster.shape} clusters"
        )
    sums = cluster_sums(np.stack((share, np.ones_like(share)), 1), cluster)
    totals = resampled_sums(np.concatenate((sums, _VIRTUAL_SUMS)), num_samples, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(totals[:, 0] / totals[:, 1], (tail, 1 - tail))
    mean = share.mean()
    return max(0.0, min(float(low), mean)), min(1.0, max(float(high), mean))


class Sprt:
    """Sequential test of whether a mean share is `h1` rather than `h0`, stopped when it is clear.

    Wald's sequential probability ratio test (1945) in its generalized form, as chess engine testing
    uses it: the observations are the mean shares of deals, and what is not known, here their
    variance, is replaced by its likeliest value under each hypothesis. For a normal mean the log
    likelihood ratio after n deals is then n / 2 log(v0 / v1), v being the mean squared distance
    from `h0` and `h1`. To first order that is equation 2.1 of Van den Bergh, "A Practical
    Introduction to the GSPRT", which Fishtest uses; without that step the error rates hold for
    short tests too. Ties and the swapped seats of a deal are in the variance. Two virtual deals,
    one won and one lost, are in it besides, so that a few deals that happen to be equal decide
    nothing.

    The stated rates hold where the shares are not near 0 or 1. With alpha and beta of 5 % and
    hypotheses 3 to 10 points apart, at most 6 % of 2,000 simulated tests of two players erred where
    both hypotheses lie within 0.3 and 0.75. Beyond, the one nearer to 1/2 is left too readily: 0.95
    was accepted at a truth of 0.9 in 9 % of tests, 0.85 at 0.8 in 9.5 %, and 0.05 at 0.1 in 8 %.
    With three and four players no rate was above 6 %.

    A stopped test's own win share is biased outwards: measure it anew on fresh deals.

    Attributes:
        decision: "accept" (for `h1`), "reject" (for `h0`), or None while it is open; stays.
        num_deals: Deals looked at, none after the decision.
        llr: The log likelihood ratio after these.
        lower, upper: The bounds at which it decides, Wald's log(beta / (1 - alpha)) and
            log((1 - beta) / alpha).

    Args:
        alpha: How often `h1` may be accepted although the share is `h0`.
        beta: How often `h1` may be rejected although the share is `h1`.
        h0, h1: Mean shares.

    Raises:
        SplendorError: Numbers that make no test.
    """

    def __init__(
        self, alpha: float = 0.05, beta: float = 0.05, h0: float = 0.5, h1: float = 0.53
    ) -> None:
        if not 0 < alpha < 0.5 or not 0 < beta < 0.5:
            raise SplendorError(f"alpha and beta must be in (0, 0.5), not {alpha!r} and {beta!r}")
        if not 0 <= h0 < h1 <= 1:
            raise SplendorError(f"0 <= h0 < h1 <= 1 must hold, not h0={h0!r} and h1={h1!r}")
        self.h0, self.h1 = h0, h1
        self.lower, self.upper = log(beta / (1 - alpha)), log((1 - beta) / alpha)
        self.decision: Literal["accept", "reject"] | None = None
        self.num_deals = 0
        self.llr = 0.0
        self._sum = 0.0
        self._sum_of_squares = 0.0

    def update(self, shares: np.ndarray) -> Literal["accept", "reject"] | None:
        """Look at the mean shares (D,) of the next deals, one after the other; the decision.

        How deals are split into calls does not matter.
        """
        shares = np.asarray(shares, np.float64)
        if self.decision is not None or len(shares) == 0:
            return self.decision
        num_deals = self.num_deals + np.arange(1, len(shares) + 1)
        sums = self._sum + np.cumsum(shares)
        sums_of_squares = self._sum_of_squares + np.cumsum(shares * shares)
        mean = sums / num_deals
        squared_distances = sums_of_squares - mean * sums + _VIRTUAL_VARIANCE_SUM
        variance = squared_distances / (num_deals + 2)
        variance_0 = variance + (mean - self.h0) ** 2
        variance_1 = variance + (mean - self.h1) ** 2
        llr = num_deals / 2 * np.log(variance_0 / variance_1)
        is_clear = (llr <= self.lower) | (llr >= self.upper)
        last = int(is_clear.argmax()) if is_clear.any() else len(shares) - 1
        self.num_deals = int(num_deals[last])
        self.llr = float(llr[last])
        self._sum, self._sum_of_squares = float(sums[last]), float(sums_of_squares[last])
        if is_clear[last]:
            self.decision = "accept" if self.llr >= self.upper else "reject"
        return self.decision
