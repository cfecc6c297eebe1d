"""All positions of one game from its deal and its decisions, in one compiled call."""

import numpy as np

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import BUY_RESERVED, PASS
from splendor_env.core.state import EndReason

NO_DRAW = -1
FROM_SEED = -2

_NONE = np.uint64(0)
_ONE = np.uint64(1)


@jit
def replay_game(positions, actions, draws, rules_, unknown):
    """Play `actions` from `positions[0]` on, writing every position that follows.

    Args:
        positions: (T + 1,) GAME. The first is the start; the others are written.
        actions: (T,) int32.
        draws: (T,) int8, the card that each decision turns up, `NO_DRAW`, or `FROM_SEED` to let
            the game's seed decide. What was turned up is written over it.
        rules_: The variant.
        unknown: (90,) bool, cards that stand in for reserves that nobody can name: to be able to
            buy one does not make a pass illegal.

    Returns:
        The number of decisions that could be made, and whether the next is illegal. A next one
        that is legal has turned up something else than `draws` said.
    """
    for t in range(actions.shape[0]):
        positions[t + 1] = positions[t]
        game = positions[t + 1]
        action = actions[t]
        if not (rules.is_legal(game, action, rules_) or _may_pass(game, action, rules_, unknown)):
            return t, True
        asked = draws[t]
        in_decks = _sum_of_decks(game)
        rules.step(game, action, rules_, max(np.int64(asked), -1))
        draws[t] = in_decks - _sum_of_decks(game) - 1
        if asked != FROM_SEED and asked != draws[t]:
            return t, False
    return actions.shape[0], False


@jit
def _may_pass(game, action, rules_, unknown):
    """Whether `action` is a pass and all that is legal is to buy cards that nobody can name."""
    if action != PASS or game.end_reason != EndReason.RUNNING:
        return False
    low, high = rules.legal_actions(game, rules_)
    for slot in range(rules.hand_size(game, game.player)):
        if unknown[game.reserved[game.player, slot]]:
            low &= ~(_ONE << np.uint64(BUY_RESERVED + slot))
    return low == _NONE and high == _NONE


@jit
def _sum_of_decks(game):
    """Sum of card + 1 over all undrawn cards: it falls by that of a card that is drawn."""
    result = 0
    for level in range(game.deck.shape[0]):
        for index in range(game.deck_size[level]):
            result += np.int64(game.deck[level, index]) + 1
    return result
