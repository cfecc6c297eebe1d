"""Compiled choosers: random, the greedy baseline, and the planners `builder` and `racer`.

Each chooses for one record, usable inside searches and batches, and has a form for arrays. They
read only what the mover may see: never the seed, a deck's content or a reserve it has not seen.
"""

import numpy as np

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    DONE,
    NOBLE,
    NUM_ACTIONS,
    NUM_MARKET,
    NUM_PLACES,
    PASS,
    PAY_GOLD,
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKEN_GEMS,
    WORD_BITS,
)
from splendor_env.core.cards import CARD_BONUS, CARD_COST, CARD_POINTS, NOBLE_COST
from splendor_env.core.gems import (
    GEM,
    GOLD,
    NUM_COLORS,
    count,
    covers,
    floor_subtract,
    gold_of,
    total,
)
from splendor_env.core.hidden import is_secret
from splendor_env.core.random import CHOICE_STREAM, draw_below
from splendor_env.core.state import MAX_NOBLES, MAX_PLAYERS

_ZERO = np.uint64(0)
_ONE = np.uint64(1)

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
    return WORD_BITS + _select_bit(high, skip - num_low)


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
    legal = np.empty(NUM_ACTIONS, np.int64)
    best_action, best_score = np.int64(-1), -np.inf
    for index in range(rules.list_actions(low, high, legal)):
        score = _score_action(game, legal[index], rules_)
        if score > best_score:
            best_action, best_score = legal[index], score
    return best_action


@jit
def _score_action(game, action, rules_):
    seat = game.player
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    num_reserved = rules.hand_size(game, seat)
    points = np.int64(game.points[seat])
    removed = -1  # place of the card that leaves the mover's reach, as counted by `NUM_PLACES`
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
    for place in range(NUM_PLACES):
        card = rules.card_at(game, seat, place)
        if card >= 0 and place != removed:
            plan = _value_of_plan(game, card, tokens, bonuses, rules_)
            if plan > best:
                best, second = plan, best
            elif plan > second:
                second = plan
    return _value_of_bonuses(game, bonuses, rules_) + best + _SECOND_PLAN * second


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
            card = rules.card_at(game, seat, other)
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


# The planners: one way to value a position, with two characters.


_STYLE = (
    # Name, of the builder, of the racer.
    ("bonus_early", 0.9, 0.8),  # of a bonus when nobody has points
    ("bonus_late", 0.3, 0.2),  # of a bonus when a seat has reached the target
    ("use", 0.05, 0.04),  # more for a bonus, for each card in reach that costs its colour
    ("use_per_point", 0.03, 0.025),  # more again for each point of such a card
    ("noble", 1.0, 0.8),  # share of a noble's points that counts before it comes
    ("noble_patience", 0.55, 0.5),  # factor for each bonus that a noble still misses
    ("late_points", 1.0, 1.0),  # share by which points count more once the target is reached
    ("high_points", 0.0, 0.1),  # share by which a card's points count more, for each of its points
    ("finish", 3.0, 3.0),  # more for a card that reaches the target
    ("token_delay", 0.3, 0.3),  # delay for each token still to collect
    ("color_delay", 0.05, 0.05),  # delay for each of these of one colour, beyond the first
    ("scarce_delay", 0.5, 0.5),  # delay for each of these that the bank lacks
    ("purchase_delay", 0.0, 0.2),  # delay of the second card of a plan by the purchase of the first
    ("plan", 0.7, 0.6),  # share of what a plan promises that counts before its purchases
    ("sequel", 0.0, 0.5),  # share of the second card of a plan; 0 plans single cards
    ("second", 0.3, 0.0),  # share of the second-best single plan
    ("third", 0.1, 0.0),  # share of the third-best
    ("breadth", 0.0, 0.05),  # share of all single plans together
    ("market_risk", 0.85, 0.8),  # factor for a face-up card that cannot be bought yet
    ("rival_risk", 0.8, 0.8),  # factor for a face-up card that an opponent can buy now
    ("gold", 0.15, 0.15),  # of a gold token
    ("token", 0.02, 0.02),  # of any other token
    ("reserve", 0.5, 0.5),  # cost of each reserved card in the hand
    ("full_hand", 0.4, 0.4),  # cost of holding as many as the rules allow
    ("denial", 0.25, 0.25),  # share of what an opponent loses with a card
    ("threat", 4.0, 4.0),  # cost of each opponent who reaches the target with its next purchase
)
"""Weights of the planners. Values are in prestige points unless a line says otherwise.

A delay is the negative logarithm of a factor: what is 0.2 away is worth exp(-0.2) of itself.
"""
_STYLES = np.array(
    [tuple(row[column] for row in _STYLE) for column in (1, 2)],
    np.dtype((np.record, [(row[0], np.float64) for row in _STYLE])),
)
_BUILDER, _RACER = 0, 1

_DECIDED = 100.0
"""A game won or lost by this turn, in points: more than all else."""
_SHARED = 0.4
_OVERTAKEN = -0.5
"""The share of it if the game ends in a tie, and if a seat that still moves can do better."""
_NUM_FIRST = 3
"""Cards tried as the first of a sequence of two."""
_NOTHING = -1
_NOW, _AFTER = 0, 1


_TABLE = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("progress", np.float64),  # of the nearest seat to the target, 0 to 1
                ("noble_value", np.float64, 16),  # points, by the bonuses a noble still misses
                ("bonus_value", np.float64, NUM_COLORS),  # points, by colour
                ("is_wanted", np.int8, NUM_MARKET),  # 1: an opponent can buy the face-up card now
                ("loss", np.float64, NUM_MARKET),  # points an opponent's plans lose with the card
                # Most points after the next purchase of a seat, by which place, most without it.
                ("reach", np.int64, (MAX_PLAYERS, 3)),
                # What a plan is worth still, by the tokens to collect for it, by those of one
                # colour beyond the first, and by those that the bank lacks.
                ("token_factor", np.float64, 32),
                ("color_factor", np.float64, 32),
                ("scarce_factor", np.float64, 32),
                ("card", np.int64, NUM_PLACES),  # -1 where there is none
                # Now, and after the purchase that is considered: the worth of each card in points,
                # and packed what the mover has to pay for it.
                ("worth", np.float64, (2, NUM_PLACES)),
                ("due", np.uint64, (2, NUM_PLACES)),
                ("plan", np.float64, NUM_PLACES),  # points, room to work in
            ],
            align=True,
        ),
    )
)
"""What a planner knows before it compares actions. Places count as in `NUM_PLACES`."""


@jit
def choose_builder(game, rules_):
    """The legal action that serves an engine of bonuses and nobles best.

    A bonus is worth the more, the more cards in reach cost its colour, and the more points these
    have; nobles count by the bonuses still missing. Cards are planned one by one: the best three
    count, each discounted by the tokens to collect for it (more for several of one colour or for
    those the bank lacks), and for cards that others may take first. Tokens are taken and returned
    for these plans, cards reserved if a plan gains more by it than a place in the hand costs.
    Near the end points count more and bonuses less. Both planners win when they can, reckon with
    what seats that still move can reach, and buy or reserve a card also to keep an opponent from
    it: a part of what the opponent's plans lose counts as gain, a win prevented most of all.
    """
    return _choose_planned(game, rules_, _STYLES[_BUILDER])


@jit
def choose_racer(game, rules_):
    """The legal action that serves the best sequence of two purchases, with an eye for points.

    Each of the most promising cards is tried as the next one, and with its bonus, and what would be
    left of the tokens, every other card as the one after it. The worth of both, the second delayed
    by the first, is what a position promises. So a cheap card counts by the dear one that it
    helps to buy, and tokens by both; cards with many points count more than proportionally. What a
    bonus is good for beyond these two counts as for the builder, but less, and so do nobles.
    Reserves, returns, payment, the end of the game and denial are decided as by it, by these plans.
    """
    return _choose_planned(game, rules_, _STYLES[_RACER])


@jit
def choose_builder_in(games, rules_, out):
    """Write the builder's action for each of `games` (B,) into `out` (B,)."""
    for i in range(games.shape[0]):
        out[i] = choose_builder(games[i], rules_)


@jit
def choose_racer_in(games, rules_, out):
    """Write the racer's action for each of `games` (B,) into `out` (B,)."""
    for i in range(games.shape[0]):
        out[i] = choose_racer(games[i], rules_)


@jit
def _choose_planned(game, rules_, style):
    low, high = rules.legal_actions(game, rules_)
    seat = game.player
    tables = np.zeros(1, _TABLE)  # a record does not keep its array alive: this name must
    _survey(game, rules_, style, tables[0])
    bonuses, points = game.bonuses[seat], np.int64(game.points[seat])
    _write_worth(game, _NOW, bonuses, points, tables[0], rules_, style)
    legal = np.empty(NUM_ACTIONS, np.int64)
    best_action, best_score = np.int64(-1), -np.inf
    for index in range(rules.list_actions(low, high, legal)):
        score = _score_planned(game, legal[index], tables[0], rules_, style)
        if score > best_score:
            best_action, best_score = legal[index], score
    return best_action


@jit
def _survey(game, rules_, style, table):
    """Fill the `_TABLE` of a position, which is all zero."""
    seat = game.player
    most = 0
    for other in range(rules_.num_players):
        most = max(most, np.int64(game.points[other]))
        if other != seat:
            _write_reach(game, other, rules_, table)
    table.progress = min(1.0, most / rules_.target_points)
    noble_value = rules_.noble_points * style.noble
    for missing in range(table.noble_value.shape[0]):
        table.noble_value[missing] = noble_value
        noble_value *= style.noble_patience
    for color in range(NUM_COLORS):
        late = table.progress * (style.bonus_late - style.bonus_early)
        table.bonus_value[color] = style.bonus_early + late
    _write_powers(np.exp(-style.token_delay), table.token_factor)
    _write_powers(np.exp(-style.color_delay), table.color_factor)
    _write_powers(np.exp(-style.scarce_delay), table.scarce_factor)
    for place in range(NUM_PLACES):
        card = rules.card_at(game, seat, place)
        table.card[place] = card
        if card >= 0:
            due = floor_subtract(CARD_COST[card], game.bonuses[seat])
            use = style.use + style.use_per_point * CARD_POINTS[card]
            for color in range(NUM_COLORS):
                if count(due, color) > 0:
                    table.bonus_value[color] += use * (1 - table.progress)
    for other in range(rules_.num_players):
        if other != seat:
            _add_loss(game, other, table, rules_, style)


@jit
def _write_powers(base, out):
    power = 1.0
    for exponent in range(out.shape[0]):
        out[exponent] = power
        power *= base


@jit
def _write_reach(game, seat, rules_, table):
    """How many points an opponent can have after its next purchase, as far as the mover sees."""
    reach = table.reach[seat]
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    reach[0] = reach[2] = game.points[seat]
    reach[1] = _NOTHING
    for place in range(NUM_PLACES):
        card = rules.card_at(game, seat, place)
        is_hidden = place >= NUM_MARKET and is_secret(
            game, rules_, seat, place - NUM_MARKET, game.player
        )
        if card < 0 or is_hidden or rules.gold_needed(card, bonuses, tokens) > gold_of(tokens):
            continue
        if place < NUM_MARKET:
            table.is_wanted[place] = 1
        after = bonuses + GEM[CARD_BONUS[card]]
        points = game.points[seat] + CARD_POINTS[card] + _points_of_noble(game, after, rules_)
        if points > reach[0]:
            reach[2] = reach[0]
            reach[0], reach[1] = points, place
        elif points > reach[2]:
            reach[2] = points


@jit
def _add_loss(game, seat, table, rules_, style):
    """Raise `table.loss` to what an opponent's best face-up plan is worth more than its second."""
    tokens, bonuses, points = game.tokens[seat], game.bonuses[seat], np.int64(game.points[seat])
    best, best_place, second = 0.0, _NOTHING, 0.0
    for place in range(NUM_MARKET):
        card = rules.card_at(game, seat, place)
        if card >= 0:
            worth = _worth_of_card(game, card, bonuses, points, table, rules_, style)
            due = floor_subtract(CARD_COST[card], bonuses)
            plan = worth * _discount(due, tokens, game.bank, table)
            if plan > best:
                best, best_place, second = plan, place, best
            elif plan > second:
                second = plan
    if best_place >= 0:
        table.loss[best_place] = max(table.loss[best_place], best - second)


@jit
def _worth_of_card(game, card, bonuses, points, table, rules_, style):
    """What a seat with these bonuses and points gains by a card once it has it."""
    after = bonuses + GEM[CARD_BONUS[card]]
    card_points = np.int64(CARD_POINTS[card])
    worth = (
        card_points * (1 + style.late_points * table.progress + style.high_points * card_points)
        + table.bonus_value[CARD_BONUS[card]]
        + _value_of_nobles(game, after, table)
        - _value_of_nobles(game, bonuses, table)
    )
    if points + card_points + _points_of_noble(game, after, rules_) >= rules_.target_points:
        worth += style.finish
    return worth


@jit
def _value_of_nobles(game, bonuses, table):
    value = 0.0
    for slot in range(MAX_NOBLES):
        if game.nobles[slot] >= 0 and game.noble_owner[slot] < 0:
            missing = floor_subtract(NOBLE_COST[game.nobles[slot]], bonuses)
            value += table.noble_value[total(missing)]
    return value


@jit
def _discount(due, tokens, bank, table):
    """The factor for what is still to collect before `due` can be paid."""
    missing = floor_subtract(due, tokens)
    gold = gold_of(tokens)
    needed = total(missing) - gold
    if needed <= 0:
        return 1.0
    largest = 0
    for color in range(NUM_COLORS):
        largest = max(largest, count(missing, color))
    not_in_bank = max(0, total(floor_subtract(missing, bank)) - gold)
    return (
        table.token_factor[needed]
        * table.color_factor[max(0, largest - gold - 1)]
        * table.scarce_factor[not_in_bank]
    )


@jit
def _write_worth(game, when, bonuses, points, table, rules_, style):
    """Write what the card in every place is worth (0 without one) and costs with these bonuses."""
    for place in range(NUM_PLACES):
        card = table.card[place]
        table.worth[when, place] = 0.0
        if card >= 0:
            worth = _worth_of_card(game, card, bonuses, points, table, rules_, style)
            table.worth[when, place] = worth
            table.due[when, place] = floor_subtract(CARD_COST[card], bonuses)


@jit
def _score_planned(game, action, table, rules_, style):
    """What an action gains and what the position after it promises the mover."""
    seat = game.player
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    num_reserved = rules.hand_size(game, seat)
    points, num_cards = np.int64(game.points[seat]), np.int64(game.num_cards[seat])
    bought, reserved = _NOTHING, _NOTHING  # places
    if action < RESERVE:
        tokens += TAKEN_GEMS[action]
    elif action < BUY:
        num_reserved += 1
        if gold_of(game.bank) > 0:
            tokens += GEM[GOLD]
        if action < RESERVE_DECK:
            reserved = action - RESERVE
    elif action < RETURN:
        bought = action - BUY
        card = table.card[bought]
        tokens -= rules.cheapest_payment(CARD_COST[card], bonuses, tokens)
    elif action < NOBLE:
        tokens -= GEM[action - RETURN]
    elif action < PAY_GOLD:
        return -1.0 * _distance_of_opponents(game, action - NOBLE, rules_)
    elif action < PASS:
        bought = game.pending - BUY
        payment = game.payment
        if action != DONE:
            payment = payment - GEM[action - PAY_GOLD] + GEM[GOLD]
        tokens -= payment
    gain = 0.0
    when = _NOW
    if bought >= 0:
        card = table.card[bought]
        bonuses += GEM[CARD_BONUS[card]]
        points += CARD_POINTS[card]
        num_cards += 1
        num_reserved -= bought >= NUM_MARKET
        gain += table.bonus_value[CARD_BONUS[card]]
        when = _AFTER
        _write_worth(game, when, bonuses, points, table, rules_, style)
    gone = max(bought, reserved)  # at most one of them is a place
    if 0 <= gone < NUM_MARKET:
        gain += style.denial * table.loss[gone]
    points += _points_of_noble(game, bonuses, rules_)
    gain += _score_end(game, points, num_cards, gone, table, rules_, style)
    gain += points * (1 + style.late_points * table.progress) - style.reserve * num_reserved
    if num_reserved >= rules_.reserve_limit:
        gain -= style.full_hand
    gain += _value_of_nobles(game, bonuses, table)
    return gain + _value_of_rest(game, tokens, when, bought, reserved, table, rules_, style)


@jit
def _score_end(game, points, num_cards, gone, table, rules_, style):
    """What this turn decides: the game may end after it, or an opponent may end it."""
    seat = game.player
    is_last_round = points >= rules_.target_points or rules.is_last_round(game, rules_)
    share, threat = 1.0, 0.0
    for other in range(rules_.num_players):
        if other == seat:
            continue
        there, cards_there = np.int64(game.points[other]), np.int64(game.num_cards[other])
        reach = table.reach[other, 2 if gone >= 0 and table.reach[other, 1] == gone else 0]
        if not is_last_round:
            if reach >= rules_.target_points:
                threat += style.threat
                # Whoever sits behind the mover leaves it no further turn.
                share = _OVERTAKEN if other > seat else share
            continue
        if there > points or (there == points and cards_there < num_cards):
            return -_DECIDED
        if there == points and cards_there == num_cards:
            share = min(share, _SHARED)
        if (
            other > seat
            and reach > max(there, points - 1)
            and (reach > points or cards_there + 1 < num_cards)
        ):
            share = _OVERTAKEN
    if not is_last_round:
        share = min(share, 0.0)
    return _DECIDED * share - threat


@jit
def _value_of_rest(game, tokens, when, bought, reserved, table, rules_, style):
    """Plans and tokens after the returns that keep most of them."""
    value = _value_of_plans(game, tokens, when, bought, reserved, table, style)
    for _ in range(total(tokens) - rules_.token_limit):
        value, returned = -1e9, 0
        for color in range(NUM_COLORS + 1):
            if count(tokens, color) > 0:
                rest = tokens - GEM[color]
                kept = _value_of_plans(game, rest, when, bought, reserved, table, style)
                if kept > value:
                    value, returned = kept, color
        tokens -= GEM[returned]
    return value


@jit
def _value_of_plans(game, tokens, when, bought, reserved, table, style):
    """What tokens promise, now or after a purchase; a place may be `bought` or `reserved`."""
    worth, due, plan = table.worth[when], table.due[when], table.plan
    breadth = 0.0
    for place in range(NUM_PLACES):
        plan[place] = 0.0
        if place != bought and worth[place] > 0:
            discount = _discount(due[place], tokens, game.bank, table)
            if discount < 1 and place < NUM_MARKET and place != reserved:
                discount *= style.market_risk
            plan[place] = worth[place] * discount * _safety(place, reserved, table, style)
            breadth += plan[place]
    if style.sequel > 0:
        best = _best_sequence(tokens, game.bank, when, bought, reserved, table, style)
    else:
        best = _best_three(plan, style)
    gold = gold_of(tokens)
    return (
        style.plan * (best + style.breadth * breadth)
        + style.gold * gold
        + style.token * (total(tokens) - gold)
    )


@jit
def _safety(place, reserved, table, style):
    """The factor for a card that an opponent can buy now."""
    is_exposed = place < NUM_MARKET and place != reserved and table.is_wanted[place] != 0
    return style.rival_risk if is_exposed else 1.0


@jit
def _best_three(plan, style):
    best, second, third = 0.0, 0.0, 0.0
    for value in plan:
        if value > best:
            best, second, third = value, best, second
        elif value > second:
            second, third = value, second
        elif value > third:
            third = value
    return best + style.second * second + style.third * third


@jit
def _best_sequence(tokens, bank, when, bought, reserved, table, style):
    """The most that one card, as in `table.plan`, and then another one promise."""
    worth, due, plan = table.worth[when], table.due[when], table.plan
    gold = gold_of(tokens)
    purchase_factor = style.sequel * np.exp(-style.purchase_delay)
    best = 0.0
    tried = 0  # bit set of places
    for _ in range(_NUM_FIRST):
        first = _NOTHING
        for place in range(NUM_PLACES):
            is_new = plan[place] > 0 and tried >> place & 1 == 0
            if is_new and (first < 0 or plan[place] > plan[first]):
                first = place
        if first < 0:
            break
        tried |= 1 << first
        missing = total(floor_subtract(due[first], tokens))
        rest = floor_subtract(tokens, due[first] + np.uint64(missing) * GEM[GOLD])
        bonus = GEM[CARD_BONUS[table.card[first]]]
        factor = purchase_factor * table.token_factor[max(0, missing - gold)]
        sequel = 0.0
        for place in range(NUM_PLACES):
            most = worth[place] * factor
            if place != bought and place != first and most > sequel:
                most *= _discount(floor_subtract(due[place], bonus), rest, bank, table)
                if place < NUM_MARKET and place != reserved:
                    most *= style.market_risk * _safety(place, reserved, table, style)
                sequel = max(sequel, most)
        best = max(best, plan[first] + sequel)
    return best
