"""Compiled choosers: the random agent and the greedy baseline.

Each chooses for one record, usable inside searches and batches, and has a form for arrays. They
read only what the mover may see: never the seed, a deck's content or another seat's reserves.
"""

import numpy as np

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    DONE,
    NOBLE,
    NUM_MARKET,
    PASS,
    PAY_GOLD,
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKEN_GEMS,
)
from splendor_env.core.cards import CARD_BONUS, CARD_COST, CARD_POINTS, NOBLE_COST
from splendor_env.core.gems import GEM, GOLD, covers, floor_subtract, gold_of, total
from splendor_env.core.random import CHOICE_STREAM, draw_below
from splendor_env.core.state import MARKET_SLOTS, MAX_NOBLES, MAX_RESERVED

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_WORD = 64

# Weights of the greedy baseline, in prestige points.
_PER_BONUS = 0.9
_SECOND_PLAN = 0.2
_DENIAL = 0.25
_PER_RESERVE = 0.8
_PER_EXCESS = 0.1
_WIN = 100.0
_NOT_IN_BANK = 4
_NOBLE_DISCOUNT = 0.55 ** np.arange(10)
"""What a noble is worth now, by the bonuses still missing."""
_DISCOUNT = 0.75 ** np.arange(85)
"""What a card is worth now, by the tokens still missing; those the bank lacks count extra."""


@jit
def choose_random(game, rules_, seed, position):
    """A uniformly random legal action, hashed from `seed` and `position`."""
    low, high = rules.legal_actions(game, rules_)
    num_low = _count_bits(low)
    skip = draw_below(seed, CHOICE_STREAM, position, num_low + _count_bits(high))
    if skip < num_low:
        return _select_bit(low, skip)
    return _WORD + _select_bit(high, skip - num_low)


@jit
def _count_bits(bits):
    num_bits = 0
    while bits != _ZERO:
        bits &= bits - _ONE
        num_bits += 1
    return num_bits


@jit
def _select_bit(bits, skip):
    """Index of the set bit above `skip` lower ones."""
    for _ in range(skip):
        bits &= bits - _ONE
    index = 0
    for width in (32, 16, 8, 4, 2, 1):
        if bits & ((_ONE << np.uint64(width)) - _ONE) == _ZERO:
            bits >>= np.uint64(width)
            index += width
    return index


@jit
def choose_random_in(games, rules_, seed, position, out):
    """Write a random legal action for each of `games` (B,) into `out` (B,); uses B positions."""
    for i in range(games.shape[0]):
        out[i] = choose_random(games[i], rules_, seed, position + i)


@jit
def choose_greedy_in(games, rules_, out):
    """Write the greedy action for each of `games` (B,) into `out` (B,)."""
    for i in range(games.shape[0]):
        out[i] = choose_greedy(games[i], rules_)


@jit
def choose_greedy(game, rules_):
    """The legal action after which the mover's own position scores best.

    The score, in prestige points, is: points; bonuses; progress to nobles; and the two most
    valuable cards within reach, each discounted by the turns until it can be paid. Buying or
    reserving a card also earns a part of what its absence costs the opponent who wants it most.
    Takes, returns, gold payments and reserves are all decided by this one score.
    """
    low, high = rules.legal_actions(game, rules_)
    best_action, best_score = -1, -1e9
    for action in range(PASS + 1):
        word = low if action < _WORD else high
        if (word >> np.uint64(action % _WORD)) & _ONE != _ZERO:
            score = _score_action(game, action, rules_)
            if score > best_score:
                best_action, best_score = action, score
    return best_action


@jit
def _score_action(game, action, rules_):
    seat = game.player
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    num_reserved = rules.hand_size(game, seat)
    points = np.int64(game.points[seat])
    removed = -1  # place of the card that leaves the mover's reach, as counted by `_card_at`
    gain = 0.0
    if action < RESERVE:
        tokens += TAKEN_GEMS[action]
    elif action < BUY:
        num_reserved += 1
        if gold_of(game.bank) > 0:
            tokens += GEM[GOLD]
        if action < RESERVE_DECK:
            gain += _DENIAL * _loss_of_opponents(game, action - RESERVE, rules_)
    elif action < RETURN:
        removed = action - BUY
        card = rules.card_bought(game, action)
        tokens -= rules.cheapest_payment(CARD_COST[card], bonuses, tokens)
        bonuses += GEM[CARD_BONUS[card]]
        points += CARD_POINTS[card]
        num_reserved -= action >= BUY_RESERVED
        if action < BUY_RESERVED:
            gain += _DENIAL * _loss_of_opponents(game, action - BUY, rules_)
    elif action < NOBLE:
        tokens -= GEM[action - RETURN]
    elif action < PAY_GOLD:
        return -_distance_of_opponents(game, action - NOBLE, rules_)
    elif action < PASS:
        removed = game.pending - BUY
        card = rules.card_bought(game, game.pending)
        payment = game.payment
        if action != DONE:
            payment = payment - GEM[action - PAY_GOLD] + GEM[GOLD]
        tokens -= payment
        bonuses += GEM[CARD_BONUS[card]]
    excess = max(0, total(tokens) - rules_.token_limit)
    if points + _points_of_noble(game, bonuses, rules_) >= rules_.target_points:
        gain += _WIN
    return (
        gain
        + points
        + _score_position(game, seat, tokens, bonuses, removed, rules_)
        - _PER_RESERVE * num_reserved
        - _PER_EXCESS * excess
    )


@jit
def _points_of_noble(game, bonuses, rules_):
    """Points of the noble that these bonuses bring at the end of the turn."""
    for slot in range(MAX_NOBLES):
        is_there = game.nobles[slot] >= 0 and game.noble_owner[slot] < 0
        if is_there and covers(bonuses, NOBLE_COST[game.nobles[slot]]):
            return rules_.noble_points
    return 0


@jit
def _score_position(game, seat, tokens, bonuses, removed, rules_):
    """Bonuses, nobles in sight and the two best plans of a seat with these tokens and bonuses."""
    best, second = 0.0, 0.0
    for place in range(NUM_MARKET + MAX_RESERVED):
        card = _card_at(game, seat, place)
        if card >= 0 and place != removed:
            plan = _value_of_plan(game, card, tokens, bonuses, rules_)
            if plan > best:
                best, second = plan, best
            elif plan > second:
                second = plan
    return _value_of_bonuses(game, bonuses, rules_) + best + _SECOND_PLAN * second


@jit
def _card_at(game, seat, place):
    """Card in a place: the market by level and slot, then the seat's reserves; or -1."""
    if place >= NUM_MARKET:
        return np.int64(game.reserved[seat, place - NUM_MARKET])
    return np.int64(game.market[place // MARKET_SLOTS, place % MARKET_SLOTS])


@jit
def _value_of_bonuses(game, bonuses, rules_):
    value = _PER_BONUS * total(bonuses)
    for slot in range(MAX_NOBLES):
        if game.nobles[slot] >= 0 and game.noble_owner[slot] < 0:
            missing = total(floor_subtract(NOBLE_COST[game.nobles[slot]], bonuses))
            value += rules_.noble_points * _NOBLE_DISCOUNT[missing]
    return value


@jit
def _value_of_plan(game, card, tokens, bonuses, rules_):
    """What a card adds once it is bought, discounted by the tokens still to collect for it."""
    after = bonuses + GEM[CARD_BONUS[card]]
    worth = (
        CARD_POINTS[card]
        + _value_of_bonuses(game, after, rules_)
        - _value_of_bonuses(game, bonuses, rules_)
    )
    missing = floor_subtract(floor_subtract(CARD_COST[card], bonuses), tokens)
    not_in_bank = total(floor_subtract(missing, game.bank))
    needed = max(0, total(missing) - gold_of(tokens)) + _NOT_IN_BANK * not_in_bank
    return worth * _DISCOUNT[needed]


@jit
def _loss_of_opponents(game, place, rules_):
    """The most that any opponent's best face-up plan loses with the card in `place`."""
    loss = 0.0
    for seat in range(rules_.num_players):
        if seat == game.player:
            continue
        best, best_place, second = 0.0, -1, 0.0
        for other in range(NUM_MARKET):
            card = _card_at(game, seat, other)
            if card < 0:
                continue
            plan = _value_of_plan(game, card, game.tokens[seat], game.bonuses[seat], rules_)
            if plan > best:
                best, best_place, second = plan, other, best
            elif plan > second:
                second = plan
        if best_place == place:
            loss = max(loss, best - second)
    return loss


@jit
def _distance_of_opponents(game, slot, rules_):
    """Bonuses that the nearest opponent still needs for the noble in `slot`."""
    nearest = 99
    for seat in range(rules_.num_players):
        if seat != game.player:
            missing = total(floor_subtract(NOBLE_COST[game.nobles[slot]], game.bonuses[seat]))
            nearest = min(nearest, missing)
    return nearest
