"""Intervals for what a finite number of games says."""

from math import sqrt

Z_95 = 1.959963984540054
"""Standard deviations of a normal variable that hold 95 % of it."""


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
