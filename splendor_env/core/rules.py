"""The rules: deal, legal actions, one step, the result. One function for each rule.

Implements the base game for 2 to 4 players: one action a turn (take, reserve, buy, or a forced
pass), then the token limit, then nobles, then the end of the game. Rulings where the sources are
silent: fewer than three tokens may be taken (`take_fewer`); a return stops exactly at the limit;
gold is paid only for what is missing unless `payment` is a choice, and then the bought card's slot
refills after the payment; a pass is legal only when nothing else is; passes all round end the
game; after `max_rounds` it is truncated; target comes before stalemate before round limit.

Functions take one record, mutate it where they say so, and do not check legality: `Game`, `Batch`
and the environments do.
"""

import numpy as np

from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    DONE,
    LEGAL_TAKES,
    NOBLE,
    NUM_MARKET,
    PASS,
    PAY_GOLD,
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKE_ALIKE,
    TAKEN_GEMS,
    WORD_BITS,
)
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_POINTS,
    LEVEL_SIZE,
    LEVEL_START,
    NOBLE_COST,
    NUM_LEVELS,
    NUM_NOBLES,
)
from splendor_env.core.gems import (
    GEM,
    GOLD,
    NO_GEMS,
    NUM_COLORS,
    ONE_EACH,
    covers,
    floor_subtract,
    gold_of,
    nonempty,
    total,
)
from splendor_env.core.random import NOBLE_STREAM, draw_below
from splendor_env.core.state import (
    MARKET_SLOTS,
    MAX_NOBLES,
    MAX_PLAYERS,
    MAX_RESERVED,
    EndReason,
    Payment,
    Phase,
)

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_TOKENS_PER_COLOR = np.array([0, 0, 4, 5, 7], np.uint64)


@jit
def deal(game, rules, seed):
    """Set up a new game in `game`, its draws hashed from `seed` (uint64)."""
    game.seed = seed
    game.bank = (
        _TOKENS_PER_COLOR[rules.num_players] * ONE_EACH + np.uint64(rules.gold_tokens) * GEM[GOLD]
    )
    game.payment = NO_GEMS
    for seat in range(MAX_PLAYERS):
        game.tokens[seat] = NO_GEMS
        game.bonuses[seat] = NO_GEMS
        game.points[seat] = 0
        game.num_cards[seat] = 0
        for slot in range(MAX_RESERVED):
            game.reserved[seat, slot] = -1
            game.reserved_blind[seat, slot] = 0
    for level in range(NUM_LEVELS):
        size = LEVEL_SIZE[level]
        for index in range(game.deck.shape[1]):
            game.deck[level, index] = LEVEL_START[level] + index if index < size else -1
        game.deck_size[level] = size
        for slot in range(MARKET_SLOTS):
            game.market[level, slot] = _draw_card(game, level, -1)
    _deal_nobles(game, rules.num_nobles)
    game.player = 0
    game.phase = Phase.PLAY
    game.rounds = 1
    game.passes = 0
    game.pending = -1
    game.end_reason = EndReason.RUNNING


@jit
def _deal_nobles(game, num_nobles):
    chosen = 0  # bit set of nobles
    for slot in range(MAX_NOBLES):
        game.nobles[slot] = -1
        game.noble_owner[slot] = -1
        if slot < num_nobles:
            left = NUM_NOBLES - slot
            skip = draw_below(game.seed, NOBLE_STREAM, left, left)
            noble = 0
            while skip > 0 or chosen >> noble & 1:
                skip -= 1 - (chosen >> noble & 1)
                noble += 1
            game.nobles[slot] = noble
            chosen |= 1 << noble


@jit
def _draw_card(game, level, draw):
    """Take a card from a deck: `draw` if it is one, else by hash; -1 from an empty deck."""
    size = np.int64(game.deck_size[level])
    if size == 0:
        return np.int64(-1)
    index = np.int64(0)
    if draw < 0:
        index = draw_below(game.seed, level, size, size)
    else:
        while game.deck[level, index] != draw and index < size - 1:
            index += 1
    card = np.int64(game.deck[level, index])
    game.deck[level, index] = game.deck[level, size - 1]
    game.deck[level, size - 1] = -1
    game.deck_size[level] = size - 1
    return card


# Predicates that the legal set and the step share.


@jit
def gold_needed(card, bonuses, tokens):
    """Gold that must be added to the bonuses and coloured tokens of a seat to buy `card`."""
    return total(floor_subtract(floor_subtract(CARD_COST[card], bonuses), tokens))


@jit
def cheapest_payment(cost, bonuses, tokens):
    """Packed tokens that pay for `cost`: colours first, gold for what is missing."""
    due = floor_subtract(cost, bonuses)
    missing = floor_subtract(due, tokens)
    return due - missing + np.uint64(total(missing)) * GEM[GOLD]


@jit
def qualifying_nobles(game):
    """Bit set, by slot, of the nobles in the row whom the mover's bonuses bring."""
    slots = 0
    for slot in range(MAX_NOBLES):
        noble = game.nobles[slot]
        if (
            noble >= 0
            and game.noble_owner[slot] < 0
            and covers(game.bonuses[game.player], NOBLE_COST[noble])
        ):
            slots |= 1 << slot
    return slots


@jit
def card_at(game, seat, place):
    """Card in a place within reach of `seat`, see `NUM_PLACES`; -1 where there is none."""
    if place >= NUM_MARKET:
        return np.int64(game.reserved[seat, place - NUM_MARKET])
    return np.int64(game.market[place // MARKET_SLOTS, place % MARKET_SLOTS])


@jit
def card_bought(game, action):
    """Card that a buy action of the mover is about."""
    return card_at(game, game.player, action - BUY)


@jit
def possible_swaps(game):
    """Bit set of the colours of which one pledged token can still be replaced by gold.

    Colours come in ascending order, so that one payment has one path: the highest colour swapped
    so far is where the pledge falls short of the cheapest payment.
    """
    seat = game.player
    card = card_bought(game, game.pending)
    cheapest = cheapest_payment(CARD_COST[card], game.bonuses[seat], game.tokens[seat])
    if gold_of(game.tokens[seat]) == gold_of(game.payment):
        return 0
    swapped = nonempty(floor_subtract(cheapest, game.payment))
    colors = nonempty(game.payment)
    for color in range(NUM_COLORS):
        if swapped >> (color + 1) != 0:
            colors &= ~(1 << color)
    return colors


@jit
def hand_size(game, seat):
    """Number of reserved cards in a hand."""
    size = 0
    while size < MAX_RESERVED and game.reserved[seat, size] >= 0:
        size += 1
    return size


@jit
def legal_actions(game, rules):
    """Legal actions as two uint64 bit sets: actions 0 to 63, and 64 up. Both empty at the end."""
    if game.end_reason != EndReason.RUNNING:
        return _NONE, _NONE
    if game.phase == Phase.PLAY:
        return _legal_plays(game, rules)
    tokens = game.tokens[game.player]
    low, high = _NONE, _NONE
    if game.phase == Phase.RETURN:
        held = np.uint64(nonempty(tokens) | ((gold_of(tokens) > 0) << GOLD))
        low = held << np.uint64(RETURN)
        high = held >> np.uint64(WORD_BITS - RETURN)
    elif game.phase == Phase.NOBLE:
        high = np.uint64(qualifying_nobles(game)) << np.uint64(NOBLE - WORD_BITS)
    else:
        high = np.uint64(possible_swaps(game)) << np.uint64(PAY_GOLD - WORD_BITS)
        high |= _ONE << np.uint64(DONE - WORD_BITS)
    return low, high


@jit
def _legal_plays(game, rules):
    seat = game.player
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    gold = gold_of(tokens)
    can_reserve = np.uint64(hand_size(game, seat) < rules.reserve_limit)

    plays = LEGAL_TAKES[rules.take_fewer, nonempty(game.bank)]
    below_minimum = np.uint64(rules.take_two_minimum - 1) * ONE_EACH
    plays |= np.uint64(nonempty(floor_subtract(game.bank, below_minimum))) << np.uint64(TAKE_ALIKE)
    for level in range(NUM_LEVELS):
        plays |= (can_reserve & np.uint64(game.deck_size[level] > 0)) << np.uint64(
            RESERVE_DECK + level
        )
        for slot in range(MARKET_SLOTS):
            card = game.market[level, slot]
            if card >= 0:
                place = level * MARKET_SLOTS + slot
                plays |= can_reserve << np.uint64(RESERVE + place)
                is_affordable = np.uint64(gold_needed(card, bonuses, tokens) <= gold)
                plays |= is_affordable << np.uint64(BUY + place)
    for slot in range(MAX_RESERVED):
        card = game.reserved[seat, slot]
        if card >= 0 and gold_needed(card, bonuses, tokens) <= gold:
            plays |= _ONE << np.uint64(BUY_RESERVED + slot)
    if plays == _NONE:
        return _NONE, _ONE << np.uint64(PASS - WORD_BITS)
    return plays, _NONE


@jit
def is_legal(game, action, rules):
    """Whether `action` (any integer) is legal."""
    low, high = legal_actions(game, rules)
    return 0 <= action <= PASS and contains(low, high, action)


@jit
def contains(low, high, action):
    """Whether a set of actions, as `legal_actions` gives it, holds `action` (0 to PASS)."""
    if action < WORD_BITS:
        return (low >> np.uint64(action)) & _ONE != _NONE
    return (high >> np.uint64(action - WORD_BITS)) & _ONE != _NONE


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_DE_BRUIJN_SHIFT = np.uint64(58)
_BIT_INDEX = np.zeros(64, np.int64)
for _bit in range(64):
    _BIT_INDEX[((int(_DE_BRUIJN) << _bit) % 2**64) >> 58] = _bit
_BIT_INDEX.setflags(write=False)
"""Index of a single bit, by the top six bits of its product with the de Bruijn sequence."""


@jit
def list_actions(low, high, out):
    """Write the actions of a set into `out` (A,) int64, in ascending order; return their number."""
    return _append_bits(high, WORD_BITS, _append_bits(low, 0, 0, out), out)


@jit
def _append_bits(bits, first, size, out):
    while bits != _NONE:
        lowest = bits & (~bits + _ONE)
        out[size] = first + _BIT_INDEX[(lowest * _DE_BRUIJN) >> _DE_BRUIJN_SHIFT]
        size += 1
        bits &= bits - _ONE
    return size


@jit
def step(game, action, rules, draw):
    """Apply one legal action to `game`.

    Args:
        game: The record, mutated.
        action: A legal action; not checked.
        rules: The variant the game was dealt with.
        draw: Card that a refill or blind reserve turns up, or -1 to draw by the game's seed.
    """
    if game.phase == Phase.PLAY:
        game.passes = game.passes + 1 if action == PASS else 0
        if action < RESERVE:
            _move_from_bank(game, TAKEN_GEMS[action])
        elif action < BUY:
            _reserve(game, action, draw)
        elif action < RETURN:
            _buy(game, action, rules, draw)
        if game.phase == Phase.PLAY:
            _limit_tokens(game, rules)
    elif game.phase == Phase.PAY:
        _pay(game, action, draw)
        if game.phase == Phase.PLAY:
            _limit_tokens(game, rules)
    elif game.phase == Phase.RETURN:
        _move_to_bank(game, GEM[action - RETURN])
        _limit_tokens(game, rules)
    else:
        _welcome_noble(game, action - NOBLE, rules)
        _end_turn(game, rules)


@jit
def _move_from_bank(game, gems):
    game.bank -= gems
    game.tokens[game.player] += gems


@jit
def _move_to_bank(game, gems):
    game.bank += gems
    game.tokens[game.player] -= gems


@jit
def _reserve(game, action, draw):
    seat = game.player
    slot = hand_size(game, seat)
    if action >= RESERVE_DECK:
        game.reserved[seat, slot] = _draw_card(game, action - RESERVE_DECK, draw)
        game.reserved_blind[seat, slot] = 1
    else:
        place = action - RESERVE
        level, market_slot = place // MARKET_SLOTS, place % MARKET_SLOTS
        game.reserved[seat, slot] = game.market[level, market_slot]
        game.reserved_blind[seat, slot] = 0
        game.market[level, market_slot] = _draw_card(game, level, draw)
    if gold_of(game.bank) > 0:
        _move_from_bank(game, GEM[GOLD])


@jit
def _buy(game, action, rules, draw):
    seat = game.player
    card = card_bought(game, action)
    game.pending = action
    game.payment = cheapest_payment(CARD_COST[card], game.bonuses[seat], game.tokens[seat])
    if rules.payment == Payment.CHOICE and possible_swaps(game) != 0:
        game.phase = Phase.PAY
    else:
        _complete_purchase(game, draw)


@jit
def _pay(game, action, draw):
    if action != DONE:
        game.payment = game.payment - GEM[action - PAY_GOLD] + GEM[GOLD]
    if action == DONE or possible_swaps(game) == 0:
        _complete_purchase(game, draw)
        game.phase = Phase.PLAY


@jit
def _complete_purchase(game, draw):
    """Pay, receive the card, and only then refill its slot."""
    seat = game.player
    action = game.pending
    card = card_bought(game, action)
    _move_to_bank(game, game.payment)
    game.bonuses[seat] += GEM[CARD_BONUS[card]]
    game.points[seat] += CARD_POINTS[card]
    game.num_cards[seat] += 1
    if action >= BUY_RESERVED:
        for slot in range(action - BUY_RESERVED, MAX_RESERVED):
            is_last = slot == MAX_RESERVED - 1
            game.reserved[seat, slot] = -1 if is_last else game.reserved[seat, slot + 1]
            game.reserved_blind[seat, slot] = 0 if is_last else game.reserved_blind[seat, slot + 1]
    else:
        place = action - BUY
        level, slot = place // MARKET_SLOTS, place % MARKET_SLOTS
        game.market[level, slot] = _draw_card(game, level, draw)
    game.pending = -1
    game.payment = NO_GEMS


# The end of a turn: token limit, noble, end of the game.


@jit
def _limit_tokens(game, rules):
    if total(game.tokens[game.player]) > rules.token_limit:
        game.phase = Phase.RETURN
    else:
        _visit_of_noble(game, rules)


@jit
def _visit_of_noble(game, rules):
    slots = qualifying_nobles(game)
    if slots & (slots - 1) != 0:
        game.phase = Phase.NOBLE
        return
    if slots != 0:
        slot = 0
        while slots >> slot != 1:
            slot += 1
        _welcome_noble(game, slot, rules)
    _end_turn(game, rules)


@jit
def _welcome_noble(game, slot, rules):
    game.noble_owner[slot] = game.player
    game.points[game.player] += rules.noble_points
    game.passes = 0


@jit
def is_last_round(game, rules):
    """Whether a seat has reached the target, so that the round under way is the last."""
    is_reached = False
    for seat in range(rules.num_players):
        is_reached |= game.points[seat] >= rules.target_points
    return is_reached


@jit
def _end_turn(game, rules):
    game.phase = Phase.PLAY
    is_round_complete = game.player == rules.num_players - 1
    if is_round_complete and is_last_round(game, rules):
        game.end_reason = EndReason.TARGET
    elif game.passes >= rules.num_players:
        game.end_reason = EndReason.STALEMATE
    elif is_round_complete and game.rounds >= rules.max_rounds:
        game.end_reason = EndReason.ROUND_LIMIT
    elif is_round_complete:
        game.player = 0
        game.rounds += 1
    else:
        game.player += 1


@jit
def victory_shares(game, rules, out):
    """Write each seat's share of the victory: 1/k for k winners; 1/N without a result."""
    for seat in range(rules.num_players):
        out[seat] = _victory_share(game, rules, seat)


@jit
def returns(game, rules, out):
    """Write each seat's reward (N s - 1) / (N - 1) for its share s; zero without a result."""
    num_players = rules.num_players
    for seat in range(num_players):
        out[seat] = (num_players * _victory_share(game, rules, seat) - 1) / (num_players - 1)


@jit
def _victory_share(game, rules, seat):
    """Most points win; of those, fewest bought cards; of those, all share."""
    num_players = rules.num_players
    if game.end_reason == EndReason.RUNNING or game.end_reason == EndReason.ROUND_LIMIT:
        return 1 / num_players
    num_better = 0
    num_equal = 0
    for other in range(num_players):
        num_better += _score(game, other) > _score(game, seat)
        num_equal += _score(game, other) == _score(game, seat)
    return 0.0 if num_better > 0 else 1 / num_equal


@jit
def _score(game, seat):
    """A number that orders seats by points, then by fewer bought cards."""
    return np.int64(game.points[seat]) * 128 - np.int64(game.num_cards[seat])
