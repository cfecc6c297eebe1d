"""Reward schemes of the learner's environments, computed from the games themselves.

`win`     what the rules pay: (N s - 1) / (N - 1) for a share s of the victory, at the end.
`margin`  at the end, own points less the best other seat's, divided by `target_points` and
          clipped to [-1, 1]. Nothing for a truncated game.
`shaped`  `win` plus potential-based shaping gamma * P(s') - P(s) between the learner's decisions
          s and s', where P is the margin as above but unclipped and P = 0 at a terminated end.
          Such a term changes no optimal policy (Ng, Harada and Russell 1999), and with gamma = 1
          the rewards of a terminated game add up to `win` less P of its first position.

A game forfeited by an illegal action (`illegal="lose"`) has the result -1 in each of them.
"""

import numpy as np

from splendor_env.core.state import SplendorError
from splendor_env.envs.learner import LearnerGames

SCHEMES = ("win", "margin", "shaped")


class Rewards:
    """One scheme over the games of a `LearnerGames`.

    Args:
        scheme: One of `SCHEMES`.
        games: The games; `begin` and `collect` read them after each of their calls.
        gamma: Discount of the learner, for `shaped`.

    Raises:
        SplendorError: Unknown scheme, or gamma outside [0, 1].
    """

    def __init__(self, scheme: str, games: LearnerGames, gamma: float) -> None:
        if scheme not in SCHEMES:
            raise SplendorError(f"reward must be one of {', '.join(SCHEMES)}, not {scheme!r}")
        if not isinstance(gamma, int | float) or not 0 <= gamma <= 1:
            raise SplendorError(f"gamma must be 0 to 1, not {gamma!r}")
        self._scheme = scheme
        self._games = games
        self._gamma = gamma
        self._potential = np.zeros(len(games.seat))

    def begin(self, rows: np.ndarray) -> None:
        """Take note of games that have just begun."""
        if self._scheme == "shaped":
            self._potential[rows] = self._margin(rows)

    def collect(self, rows: np.ndarray) -> np.ndarray:
        """Rewards (len(rows),) float32 of the step that the games in these rows have made."""
        games = self._games
        if self._scheme == "win":
            return games.reward[rows]
        margin = self._margin(rows)
        if self._scheme == "margin":
            paid = np.where(games.terminated[rows], np.clip(margin, -1, 1), 0)
            return np.where(games.is_forfeited[rows], -1, paid).astype(np.float32)
        potential = np.where(games.terminated[rows], 0, margin)
        shaping = self._gamma * potential - self._potential[rows]
        self._potential[rows] = potential
        return (games.reward[rows] + shaping).astype(np.float32)

    def _margin(self, rows: np.ndarray) -> np.ndarray:
        rules = self._games.rules
        points = self._games.games["points"][rows, : rules.num_players].astype(np.float64)
        seat = self._games.seat[rows].astype(np.int64)
        own = points[np.arange(len(rows)), seat]
        points[np.arange(len(rows)), seat] = -np.inf
        return (own - points.max(1)) / rules.target_points
