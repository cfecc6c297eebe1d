"""What a seat cannot see, and how to draw it anew.

Hidden are the order of the decks and the reserves that only their owners have seen. A search or an
agent works on `determinize`d positions and so cannot peek by mistake.
"""

import numpy as np

from splendor_env.core._jit import jit
from splendor_env.core.actions import BUY_RESERVED
from splendor_env.core.cards import CARD_LEVEL, LEVEL_START, NUM_LEVELS
from splendor_env.core.random import HIDDEN_STREAM, draw_below, hash_seed
from splendor_env.core.state import MAX_RESERVED

_ONE = np.uint64(1)


@jit
def is_secret(game, rules, seat, slot, observer):
    """Whether the reserved card of `seat` in `slot` is one that `observer` has not seen.

    A card being paid for has been shown.
    """
    is_shown = seat == game.player and game.pending == BUY_RESERVED + slot
    is_closed = game.reserved_blind[seat, slot] != 0 or rules.hide_reserves != 0
    return seat != observer and is_closed and not is_shown and game.reserved[seat, slot] >= 0


@jit
def determinize(game, rules, observer, seed):
    """Replace, in `game`, all that `observer` cannot see by a uniform draw from `seed`.

    The result depends on what the observer sees and on `seed`, not on what was hidden.
    """
    for level in range(NUM_LEVELS):
        unseen = _collect_unseen(game, rules, observer, level)
        _deal_unseen(game, rules, observer, level, unseen, seed)
    # Not SEED_STREAM: with the seed of the deal that would be the true future.
    game.seed = hash_seed(seed, HIDDEN_STREAM, NUM_LEVELS * 64)


@jit
def _collect_unseen(game, rules, observer, level):
    """Bit set, counted from the level's first card, of the deck and the secret reserves."""
    unseen = np.uint64(0)
    for index in range(game.deck_size[level]):
        unseen |= _ONE << np.uint64(game.deck[level, index] - LEVEL_START[level])
    for seat in range(rules.num_players):
        for slot in range(MAX_RESERVED):
            if _is_secret_of_level(game, rules, seat, slot, observer, level):
                unseen |= _ONE << np.uint64(game.reserved[seat, slot] - LEVEL_START[level])
    return unseen


@jit
def _is_secret_of_level(game, rules, seat, slot, observer, level):
    return (
        is_secret(game, rules, seat, slot, observer)
        and CARD_LEVEL[game.reserved[seat, slot]] == level
    )


@jit
def _deal_unseen(game, rules, observer, level, unseen, seed):
    """Lay the unseen cards out in ascending order, deal the secret reserves, keep the deck."""
    size = 0
    for place in range(game.deck.shape[1]):
        if (unseen >> np.uint64(place)) & _ONE != 0:
            game.deck[level, size] = LEVEL_START[level] + place
            size += 1
    for seat in range(rules.num_players):
        for slot in range(MAX_RESERVED):
            if _is_secret_of_level(game, rules, seat, slot, observer, level):
                index = draw_below(seed, HIDDEN_STREAM, level * 64 + size, size)
                size -= 1
                game.reserved[seat, slot] = game.deck[level, index]
                game.deck[level, index] = game.deck[level, size]
                game.deck[level, size] = -1


@jit
def position_hash(game):
    """A stable uint64 of the position: equal tables give equal hashes on every machine.

    Covers every field but the seed, and the decks as sets: not what will be drawn.
    """
    bits = hash_seed(game.bank, 0, game.payment)
    for seat in range(game.tokens.shape[0]):
        bits = hash_seed(bits, seat, game.tokens[seat])
        bits = hash_seed(bits, seat, game.bonuses[seat])
        score = np.int64(game.points[seat]) * 256 + np.int64(game.num_cards[seat])
        bits = hash_seed(bits, seat, np.uint64(score))
        for slot in range(MAX_RESERVED):
            card = np.int64(game.reserved[seat, slot]) + 1
            bits = hash_seed(bits, slot, np.uint64(card * 2 + game.reserved_blind[seat, slot]))
    for level in range(NUM_LEVELS):
        deck = np.uint64(0)
        for index in range(game.deck_size[level]):
            deck |= _ONE << np.uint64(game.deck[level, index] - LEVEL_START[level])
        bits = hash_seed(bits, level, deck)
        for slot in range(game.market.shape[1]):
            bits = hash_seed(bits, slot, np.uint64(np.int64(game.market[level, slot]) + 1))
    for slot in range(game.nobles.shape[0]):
        noble = np.int64(game.nobles[slot]) + 1
        owner = np.int64(game.noble_owner[slot]) + 1
        bits = hash_seed(bits, slot, np.uint64(noble * 8 + owner))
    turn = np.int64(game.player) + (np.int64(game.phase) << 8) + (np.int64(game.rounds) << 16)
    rest = (np.int64(game.pending) + 1 << 8) + (np.int64(game.end_reason) << 16) + game.passes
    return hash_seed(hash_seed(bits, 0, np.uint64(turn)), 0, np.uint64(rest))
