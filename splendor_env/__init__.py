"""The board game Splendor, 2 to 4 players, as a fast reinforcement-learning environment."""

from splendor_env.core.state import (
    PRESETS,
    IllegalActionError,
    Rules,
    SplendorError,
    standard,
)
from splendor_env.envs import register_gymnasium, register_pettingzoo
from splendor_env.game import Game, NotationError

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Game",
    "IllegalActionError",
    "NotationError",
    "Rules",
    "SplendorError",
    "__version__",
    "standard",
]

register_gymnasium()
register_pettingzoo()
