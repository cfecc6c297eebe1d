"""Positions that the render tests share."""

import numpy as np

from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.batch import Batch, deal_games, determinize_games, step_games
from splendor_env.core.state import GAME, EndReason, Rules

MARKET = [[0, 8, 16, 39], [40, 46, 52, 64], [70, 74, 78, 86]]
"""Card ids by level and slot of the market of `opening`. Its decks may hold them too."""


def opening(rules: Rules) -> np.record:
    """A dealt game with a fixed market and the first nobles, whatever was drawn."""
    games = np.zeros(1, GAME)
    deal_games(games, rules, np.uint64(1))
    game = games[0]
    game.market = MARKET
    game.nobles[: rules.num_nobles] = range(rules.num_nobles)
    return game


def with_blind_reserve(rules: Rules) -> np.record:
    """An opening in which seat 1 holds card 46 (as in 2-2) face down, 86 (3-4) openly."""
    game = opening(rules)
    game.reserved[1, :2] = [46, 86]
    game.reserved_blind[1, 0] = 1
    return game


def over(rules: Rules, reason: EndReason, points: list[int], num_cards: list[int]) -> np.record:
    """A finished game with a given score."""
    game = opening(rules)
    game.end_reason = reason
    game.points[: rules.num_players] = points
    game.num_cards[: rules.num_players] = num_cards
    return game


def play(game: np.record, rules: Rules, *actions: str) -> np.record:
    """Apply actions, by their notation, to `game` and return it."""
    games = np.array([game], GAME)
    for action in actions:
        step_games(games, np.array([ACTION_NAMES.index(action)], np.int32), rules, -1)
    return games[0]


def random_games(rules: Rules, num_games: int = 20, num_plies: int = 70) -> np.ndarray:
    """Games after random legal actions, none of them over at once."""
    batch = Batch(rules, num_games)
    batch.reset(7)
    rng = np.random.default_rng(0)
    for _ in range(num_plies):
        batch.step((rng.random(batch.action_mask.shape) * batch.action_mask).argmax(1))
    return batch.games


def redealt(games: np.ndarray, rules: Rules, observer: int) -> np.ndarray:
    """Copies that differ only in what `observer` (-1: a spectator) cannot see."""
    games = games.copy()
    observers = np.full(len(games), observer, np.int8)
    determinize_games(games, rules, observers, np.arange(len(games), dtype=np.uint64))
    return games
