"""A slow, plain solver: max-n over every move and every card that may be drawn."""

import numpy as np

from splendor_env.core.batch import (
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.cards import CARD_LEVEL
from splendor_env.core.state import EndReason


class Solver:
    """Exact values of small positions.

    Args:
        rules: The variant.
        last: Whether a seat that does not care takes the last of its best actions, else the first.
    """

    def __init__(self, rules, *, last=False):
        self.rules = rules
        self.last = last
        self.known = {}

    def values(self, games):
        """Legal actions and, for each, the shares (N,) that it leads to."""
        return {action: self.after(games, action) for action in self.legal(games)}

    def legal(self, games):
        mask = np.zeros((1, 78), np.int8)
        write_action_masks(games, self.rules, mask)
        return np.flatnonzero(mask[0]).tolist()

    def after(self, games, action):
        """Mean over the cards that the action may turn up, all equally likely."""
        after = self.step(games, action, -1)
        levels = np.flatnonzero(after["deck_size"][0] < games["deck_size"][0])
        if not len(levels):
            return self.solve(after)
        cards = [int(card) for card in games["deck"][0, levels[0]] if card >= 0]
        assert len(cards) == games["deck_size"][0, levels[0]]
        assert {int(CARD_LEVEL[card]) for card in cards} == {int(levels[0])}
        return np.mean([self.solve(self.step(games, action, card)) for card in cards], axis=0)

    def step(self, games, action, draw):
        after = games.copy()
        step_games(after, np.array([action], np.int32), self.rules, draw)
        return after

    def solve(self, games):
        """Shares (N,) with the best play of every seat for itself."""
        shares = np.zeros((1, self.rules.num_players))
        if games["end_reason"][0] != EndReason.RUNNING:
            write_victory_shares(games, self.rules, shares)
            return shares[0]
        key = self.key(games)
        if key not in self.known:
            seat = games["player"][0]
            best = None
            for action in self.legal(games):
                value = self.after(games, action)
                margin = value[seat] - (-1 if best is None else best[seat])
                if margin > 1e-12 or (self.last and margin > -1e-12):
                    best = value
            self.known[key] = best
        return self.known[key]

    def key(self, games):
        plain = games.copy()
        plain["seed"] = 0
        plain["deck"] = -1  # a set: its order means nothing
        deck = tuple(sorted(int(card) for card in games["deck"].ravel()))
        return plain.tobytes(), deck


def solve_root(games, rules):
    """The mover's exact share after each legal action.

    Also checks that it does not depend on what a seat does that does not care.
    """
    seat = int(games["player"][0])
    first, last = (Solver(rules, last=last).values(games) for last in (False, True))
    for action, value in first.items():
        assert abs(value.sum() - 1) < 1e-9
        assert abs(value[seat] - last[action][seat]) < 1e-9, action
    return {action: value[seat] for action, value in first.items()}
