"""What a leaf is worth and which actions look good there: rollouts, or a network.

Both serve one interface, `Evaluator`. Rollouts stay inside one compiled call for each tree; a
network is asked about the leaves of all trees at once.
"""

from collections.abc import Callable
from typing import Protocol

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
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKEN_GEMS,
)
from splendor_env.core.cards import CARD_BONUS, CARD_COST, CARD_LEVEL, CARD_POINTS, NOBLE_COST
from splendor_env.core.gems import GOLD, NUM_COLORS, count, floor_subtract, gold_of, nonempty, total
from splendor_env.core.observation import OBSERVATION_SIZE, observe
from splendor_env.core.random import CHOICE_STREAM, hash_seed
from splendor_env.core.state import (
    GAME,
    MARKET_SLOTS,
    MAX_NOBLES,
    EndReason,
    Phase,
    Rules,
)
from splendor_env.heuristics import choose_racer
from splendor_env.search import tree
from splendor_env.search.tree import MAX_DEPTH, UNSTORED, Forest, Selection

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Observation (B, D) float32 of the seat to move -> logits (B, A), and shares of the victory (B, 4)
by seat as seen."""

_ROLLOUT_STREAM = 7
_BEFORE_ALL = np.uint64(2**64 - 1)
"""In place of the number of a simulation, for what is asked about a root before them."""
_BEST_HEURISTIC = 2.0
"""Added to the logit of what the best heuristic would do."""

_FEATURES = (
    "points",
    "their square",
    "target reached",
    "bonuses",
    "colours among them",
    "tokens",
    "tokens above seven",
    "reserved cards",
    "points of the best plan",
    "points of all plans",
    "points of the best affordable card",
    "bonuses' help with the cards of levels 2 and 3",
    "points of all nobles in sight",
    "points of the nearest noble",
    "turns until its move",
    "has moved in this round",
)
NUM_FEATURES = len(_FEATURES)
# fmt: off
_WEIGHTS_2 = (
    (
        5.808, 2.961, 0.529, 0.403, 0.049, 0.082, -0.100, -0.077,
        0.280, 0.111, -0.137, 0.066, 0.575, 1.042, 0.052, -0.462,
    ),
    (
        1.485, 0.685, 0.529, -0.477, -0.150, 0.031, -0.013, -0.291,
        0.247, -0.037, 0.251, -0.053, -0.590, -0.608, -0.078, -0.696,
    ),
)
_WEIGHTS_3 = (
    (
        5.233, 3.857, 0.815, 0.525, 0.039, 0.102, -0.065, 0.060,
        0.169, 0.090, -0.082, 0.067, 0.877, 0.633, 0.004, -0.369,
    ),
    (
        1.528, 0.022, 0.815, -0.603, -0.119, 0.042, -0.086, -0.313,
        0.389, -0.029, 0.187, -0.053, -0.847, -0.111, 0.018, -0.857,
    ),
)
_WEIGHTS_4 = (
    (
        6.497, 3.491, 1.130, 0.501, 0.023, 0.094, -0.043, 0.154,
        0.269, 0.061, -0.079, 0.045, 0.936, 1.381, 0.002, -0.374,
    ),
    (
        1.615, 0.021, 1.130, -0.618, 0.020, 0.032, -0.118, -0.244,
        0.293, 0.014, 0.212, -0.040, -0.873, -1.129, -0.017, -0.667,
    ),
)
# fmt: on
_NO_WEIGHTS = ((0.0,) * NUM_FEATURES,) * 2
_WEIGHTS = np.array((_NO_WEIGHTS, _NO_WEIGHTS, _WEIGHTS_2, _WEIGHTS_3, _WEIGHTS_4))
"""(5, 2, F) by number of players: how well a seat stands is its features' sum with these weights,
of which the second counts as the leader nears the target. The softmax over the seats is its share.
From `benchmarks/fit_search_values.py`."""
_CARD_DISCOUNT = 0.78 ** np.arange(100)
"""What a card is worth now, by the tokens still missing; those the bank lacks count more."""
_NOBLE_DISCOUNT = 0.6 ** np.arange(20)
"""What a noble is worth now, by the bonuses still missing."""


@jit
def write_features(game, rules_, seat, out):
    """Write into `out` (F,) float64 what `_FEATURES` says of a seat."""
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    best, all_plans = 0.0, 0.0
    saved, affordable = 0, 0
    for place in range(NUM_PLACES):
        card = rules.card_at(game, seat, place)
        if card < 0:
            continue
        due, _, needed = _price(game, card, tokens, bonuses)
        points = np.int64(CARD_POINTS[card])
        if needed == 0:
            affordable = max(affordable, points)
        plan = points * _CARD_DISCOUNT[needed]
        best = max(best, plan)
        all_plans += plan
        if CARD_LEVEL[card] > 0:
            saved += total(CARD_COST[card]) - total(due)
    nobles, nearest = 0.0, 0.0
    for slot in range(MAX_NOBLES):
        if game.nobles[slot] >= 0 and game.noble_owner[slot] < 0:
            away = total(floor_subtract(NOBLE_COST[game.nobles[slot]], bonuses))
            nobles += _NOBLE_DISCOUNT[away]
            nearest = max(nearest, _NOBLE_DISCOUNT[away])
    share = np.int64(game.points[seat]) / rules_.target_points
    out[0] = share
    out[1] = share * share
    out[2] = share >= 1.0
    out[3] = total(bonuses)
    out[4] = num_colors(bonuses)
    out[5] = total(tokens)
    out[6] = max(0, total(tokens) - 7)
    out[7] = rules.hand_size(game, seat)
    out[8] = best
    out[9] = all_plans
    out[10] = affordable
    out[11] = saved
    out[12] = nobles * rules_.noble_points
    out[13] = nearest * rules_.noble_points
    out[14] = (seat - game.player) % rules_.num_players
    out[15] = seat < game.player


@jit
def _price(game, card, tokens, bonuses):
    """What a seat has to pay for a card, what of it is missing, and how far away that is.

    The last is the number of tokens still to collect; those that the bank lacks count more.
    """
    due = floor_subtract(CARD_COST[card], bonuses)
    missing = floor_subtract(due, tokens)
    needed = max(0, total(missing) - gold_of(tokens))
    if needed > 0:
        needed += _NOT_IN_BANK * total(floor_subtract(missing, game.bank))
    return due, missing, needed


@jit
def num_colors(gems):
    """How many of the ordinary colours there are."""
    colors = nonempty(gems)
    number = 0
    for color in range(NUM_COLORS):
        number += colors >> color & 1
    return number


@jit
def stage_of(game, rules_):
    """How near the game is to its end, 0 to 1: the leader's points as a share of the target."""
    most_points = 0
    for seat in range(rules_.num_players):
        most_points = max(most_points, np.int64(game.points[seat]))
    return min(most_points / rules_.target_points, 1.0)


@jit
def write_scores(game, rules_, features, out):
    """Write into `out` (N,) float64 how well each seat stands; `features` (F,) is overwritten."""
    stage = stage_of(game, rules_)
    weights = _WEIGHTS[rules_.num_players]
    for seat in range(rules_.num_players):
        write_features(game, rules_, seat, features)
        score = 0.0
        for index in range(NUM_FEATURES):
            score += features[index] * (weights[0, index] + stage * weights[1, index])
        out[seat] = score


@jit
def write_shares(game, rules_, features, out):
    """Write into `out` (N,) each seat's share of the victory: exact at the end, else guessed."""
    if game.end_reason != EndReason.RUNNING:
        rules.victory_shares(game, rules_, out)
        return
    write_scores(game, rules_, features, out)
    highest = out[0]
    for seat in range(1, rules_.num_players):
        highest = max(highest, out[seat])
    sum_ = 0.0
    for seat in range(rules_.num_players):
        out[seat] = np.exp(out[seat] - highest)
        sum_ += out[seat]
    for seat in range(rules_.num_players):
        out[seat] /= sum_


@jit
def write_logits(game, rules_, sharpness, scratch, features, scores, out):
    """Write into `out` (A,) what the mover's share is after each legal action, as a logit.

    A card that would be turned up stays unknown: its place counts as empty.
    """
    low, high = rules.legal_actions(game, rules_)
    mover = np.int64(game.player)
    scratch[0] = game
    for action in range(NUM_ACTIONS):
        if not rules.contains(low, high, action):
            out[action] = -np.inf
            continue
        scratch[0] = game
        after = scratch[0]
        place = -1
        if RESERVE <= action < RESERVE_DECK:
            place = action - RESERVE
        elif BUY <= action < BUY_RESERVED:
            place = action - BUY
        hand = rules.hand_size(after, mover)
        rules.step(after, action, rules_, -1)
        if RESERVE_DECK <= action < BUY:
            after.reserved[mover, hand] = -1
        if place >= 0 and after.pending < 0:
            after.market[place // MARKET_SLOTS, place % MARKET_SLOTS] = -1
        write_shares(after, rules_, features, scores)
        share = min(max(scores[mover], 1e-4), 1.0 - 1e-4)
        out[action] = sharpness * np.log(share / (1.0 - share))
    out[choose_racer(game, rules_)] += _BEST_HEURISTIC


@jit
def choose_fast(game, rules_, seed, position, worth):
    """A sensible action in half a microsecond, for rollouts; some chance is in it.

    Buy the affordable card that is worth most, if none to be saved for is worth much more; else
    take tokens for the best plan, then for the second; reserve the best card if no token helps.
    Weights were tuned against `greedy`, which it beats.

    Args:
        game: The record, not mutated.
        rules_: The variant.
        seed, position: Of the chance.
        worth: (5,) float64, overwritten.
    """
    seat = np.int64(game.player)
    low, high = rules.legal_actions(game, rules_)
    if game.phase != Phase.PLAY:
        return _choose_in_turn(game, seat, high)
    _write_worth_of_bonuses(game, rules_, seat, worth)
    tokens, bonuses = game.tokens[seat], game.bonuses[seat]
    best, best_place, best_missing = 0.0, -1, _NOTHING
    second, second_missing = 0.0, _NOTHING
    buy, buy_place = -np.inf, -1
    noise = hash_seed(seed, CHOICE_STREAM, position)
    for place in range(NUM_PLACES):
        card = rules.card_at(game, seat, place)
        if card < 0:
            continue
        due, missing, needed = _price(game, card, tokens, bonuses)
        points = np.int64(CARD_POINTS[card])
        factor = 1.0 + _NOISE * np.float64(noise & _THREE)
        noise >>= _TWO
        value = (points + worth[CARD_BONUS[card]]) * factor
        if needed == 0:
            net = value - _PER_TOKEN * total(due)
            if game.points[seat] + points >= rules_.target_points:
                net += _WIN
            if net > buy:
                buy, buy_place = net, place
        plan = value * _PLAN_DISCOUNT[10 * needed + total(due)]
        if plan > best:
            second, second_missing = best, best_missing
            best, best_place, best_missing = plan, place, missing
        elif plan > second:
            second, second_missing = plan, missing
    if buy_place >= 0 and (buy >= _WAIT * best or buy_place == best_place):
        return BUY + buy_place
    take, gain = _choose_take(low, rules_.token_limit - total(tokens), best_missing, second_missing)
    if gain > 0:
        return take
    if 0 <= best_place < NUM_MARKET and rules.contains(low, high, RESERVE + best_place):
        return RESERVE + best_place
    if take >= 0:
        return take
    action = 0
    while not rules.contains(low, high, action):
        action += 1
    return action


_NOTHING, _TWO, _THREE = np.uint64(0), np.uint64(2), np.uint64(3)
_EARLY_BONUS = 1.0
_BONUS = 0.9
_NOBLE = 0.85
_PER_BONUS_AWAY = 0.6
_NOISE = 0.1
_PER_TOKEN = 0.05
_WAIT = 0.6
_SECOND_PLAN = 0.75
_PER_EXCESS = 5.0
_NOT_IN_BANK = 2
_WIN = 100.0
_PLAN_DISCOUNT = 0.8 ** (np.arange(1000) / 10)
"""By ten times the tokens missing plus the tokens to be paid."""


@jit
def _write_worth_of_bonuses(game, rules_, seat, out):
    """Write into `out` (5,) the points that one more bonus of each colour is worth to a seat."""
    stage = stage_of(game, rules_)
    for color in range(NUM_COLORS):
        out[color] = _EARLY_BONUS * (1.0 - stage) + _BONUS
    for slot in range(MAX_NOBLES):
        if game.nobles[slot] < 0 or game.noble_owner[slot] >= 0:
            continue
        missing = floor_subtract(NOBLE_COST[game.nobles[slot]], game.bonuses[seat])
        away = total(missing)
        gain = _NOBLE * rules_.noble_points
        if away > 1:
            gain *= _PER_BONUS_AWAY ** (away - 1) - _PER_BONUS_AWAY**away
        for color in range(NUM_COLORS):
            if count(missing, color) > 0:
                out[color] += gain


@jit
def _choose_take(low, room, missing, second_missing):
    """The take that helps a plan most, then another one, and what it is worth; -1 if none."""
    best_take, best_gain = -1, -np.inf
    for action in range(RESERVE):
        if not rules.contains(low, np.uint64(0), action):
            continue
        taken = TAKEN_GEMS[action]
        size = total(taken)
        gain = 4.0 * (total(missing) - total(floor_subtract(missing, taken)))
        second = total(second_missing) - total(floor_subtract(second_missing, taken))
        gain += _SECOND_PLAN * second + size - _PER_EXCESS * max(0, size - room)
        if gain > best_gain:
            best_take, best_gain = action, gain
    return best_take, best_gain


@jit
def _choose_in_turn(game, seat, high):
    """The first noble, the cheapest payment, the return of the token least scarce."""
    if game.phase == Phase.NOBLE:
        noble = NOBLE
        while not rules.contains(np.uint64(0), high, noble):
            noble += 1
        return noble
    if game.phase == Phase.PAY:
        return DONE
    most, color_of_most = -1, 0
    for color in range(GOLD):
        held = count(game.tokens[seat], color)
        if held == 0:
            continue
        number = held + count(game.bonuses[seat], color)
        if number > most:
            most, color_of_most = number, color
    return RETURN + (color_of_most if most >= 0 else GOLD)


@jit
def roll_out(game, rules_, seed, num_decisions, worth, features, out):
    """Play on in `game`, mutated, for some decisions; write the shares (N,) then to `out`.

    `worth` (5,) and `features` (F,) float64 are overwritten.
    """
    for position in range(num_decisions):
        if game.end_reason != EndReason.RUNNING:
            break
        rules.step(game, choose_fast(game, rules_, seed, position, worth), rules_, -1)
    write_shares(game, rules_, features, out)


@jit
def run_rollouts(forest_, rules_, selection, num_decisions, sharpness, plan):
    """Make simulations in each of B trees, evaluated by rollouts.

    Args:
        forest_: `Forest` of B trees, mutated.
        rules_: The variant.
        selection: `Selection`.
        num_decisions: Length of a rollout.
        sharpness: See `write_logits`.
        plan: (B, S) int16, the root's action in each simulation, -1 for a free choice.
    """
    leaf = forest_.roots[:1].copy()
    scratch = forest_.roots[:1].copy()
    path = np.empty((MAX_DEPTH, 3), np.int32)
    legal = np.empty(NUM_ACTIONS, np.int64)
    value = np.empty(rules_.num_players)
    logits = np.empty(NUM_ACTIONS)
    worth = np.empty(NUM_COLORS)
    features = np.empty(NUM_FEATURES)
    for row in range(plan.shape[0]):
        observer = np.int64(forest_.roots[row].player)
        nodes, priors = forest_.nodes[row], forest_.priors[row]
        seed = forest_.seeds[row]
        for simulation in range(plan.shape[1]):
            number = forest_.num_simulations[row]
            forest_.num_simulations[row] += 1
            tree.begin(forest_.roots, row, rules_, seed, number, leaf)
            nodes[0].visits += 1
            index, length = np.int64(0), 0
            forced = plan[row, simulation]
            while True:
                index, length = tree.descend(
                    nodes,
                    priors,
                    forest_.num_nodes[row : row + 1],
                    observer,
                    rules_,
                    selection,
                    forced,
                    leaf,
                    scratch,
                    path,
                    index,
                    length,
                )
                game = leaf[0]
                if index == UNSTORED or game.end_reason != EndReason.RUNNING:
                    break
                node = nodes[index]
                # The first visit has no use for a prior, and many nodes have no second one.
                if node.is_expanded or (node.visits < 2 and index > 0):
                    break
                write_logits(game, rules_, sharpness, scratch, features, value, logits)
                low, high = rules.legal_actions(game, rules_)
                tree.expand(node, priors[index], logits, low, high, legal)
            roll_out(
                leaf[0],
                rules_,
                hash_seed(seed, _ROLLOUT_STREAM, number),
                num_decisions,
                worth,
                features,
                value,
            )
            tree.back_up(nodes, path, length, index, value)


@jit
def expand_roots_by_heuristic(forest_, rules_, num_decisions, sharpness):
    """Give each root that has no prior yet one, and a first value by one rollout."""
    leaf = forest_.roots[:1].copy()
    scratch = forest_.roots[:1].copy()
    path = np.empty((1, 3), np.int32)
    legal = np.empty(NUM_ACTIONS, np.int64)
    value = np.empty(rules_.num_players)
    logits = np.empty(NUM_ACTIONS)
    worth = np.empty(NUM_COLORS)
    features = np.empty(NUM_FEATURES)
    for row in range(forest_.roots.shape[0]):
        node = forest_.nodes[row, 0]
        if node.is_expanded:
            continue
        seed = forest_.seeds[row]
        tree.begin(forest_.roots, row, rules_, seed, _BEFORE_ALL, leaf)
        write_logits(leaf[0], rules_, sharpness, scratch, features, value, logits)
        low, high = rules.legal_actions(leaf[0], rules_)
        tree.expand(node, forest_.priors[row, 0], logits, low, high, legal)
        node.visits += 1
        roll_out(leaf[0], rules_, seed, num_decisions, worth, features, value)
        tree.back_up(forest_.nodes[row], path, 0, np.int64(0), value)


@jit
def gather_leaves(forest_, rules_, selection, plan, start, each, leaves, paths, ends, observation):
    """Walk down for L simulations in each of B trees and write what the seats to move there see.

    The arrays that are written have room for at least B * L leaves; those of a tree are together.

    Args:
        forest_: `Forest` of B trees, mutated.
        rules_: The variant.
        selection: `Selection`.
        plan: (B, S) int16, see `run_rollouts`.
        start: The first of the columns of `plan` to walk.
        each: How many these are, L.
        leaves: (B * L,) GAME, written.
        paths: (B * L, MAX_DEPTH, 3) int32, written.
        ends: (B * L, 2) int64: the leaf's node, and the length of the path; written.
        observation: (B * L, D) float32, written; zero where the game is over.
    """
    leaf = leaves[:1].copy()
    scratch = leaves[:1].copy()
    place = 0
    for row in range(plan.shape[0]):
        observer = np.int64(forest_.roots[row].player)
        for column in range(start, start + each):
            number = forest_.num_simulations[row]
            forest_.num_simulations[row] += 1
            tree.begin(forest_.roots, row, rules_, forest_.seeds[row], number, leaf)
            forest_.nodes[row, 0].visits += 1
            index, length = tree.descend(
                forest_.nodes[row],
                forest_.priors[row],
                forest_.num_nodes[row : row + 1],
                observer,
                rules_,
                selection,
                plan[row, column],
                leaf,
                scratch,
                paths[place],
                np.int64(0),
                0,
            )
            ends[place, 0] = index
            ends[place, 1] = length
            leaves[place] = leaf[0]
            game = leaf[0]
            if game.end_reason == EndReason.RUNNING:
                observe(game, rules_, game.player, observation[place])
            else:
                observation[place, :] = 0
            place += 1


@jit
def take_back(forest_, rules_, each, temperature, leaves, paths, ends, logits, shares):
    """Put what a network said of the leaves of `gather_leaves` into the trees.

    Args:
        forest_: `Forest` of B trees, mutated.
        rules_: The variant.
        each: Leaves of each tree, L.
        temperature: By which the logits are divided.
        leaves, paths, ends: As written by `gather_leaves`.
        logits: (B * L, A) float32.
        shares: (B * L, 4) float32 by seat as seen by the mover.
    """
    value = np.empty(rules_.num_players)
    legal = np.empty(NUM_ACTIONS, np.int64)
    softened = np.empty(NUM_ACTIONS, np.float32)
    for row in range(forest_.roots.shape[0]):
        nodes = forest_.nodes[row]
        for place in range(row * each, (row + 1) * each):
            game = leaves[place]
            index, length = ends[place, 0], ends[place, 1]
            if game.end_reason != EndReason.RUNNING:
                rules.victory_shares(game, rules_, value)
            else:
                _by_seat(shares[place], game.player, value)
                if index != UNSTORED and not nodes[index].is_expanded:
                    low, high = rules.legal_actions(game, rules_)
                    prior = forest_.priors[row, index]
                    for action in range(NUM_ACTIONS):
                        softened[action] = logits[place, action] / temperature
                    tree.expand(nodes[index], prior, softened, low, high, legal)
            tree.back_up(nodes, paths[place], length, index, value)


@jit
def _by_seat(shares, player, out):
    """Write shares seen by `player`, itself first, into `out` (N,) by seat, with a sum of 1."""
    num_players = out.shape[0]
    sum_ = 0.0
    for offset in range(num_players):
        share = np.float64(shares[offset])
        out[(player + offset) % num_players] = share
        sum_ += share
    for seat in range(num_players):
        # Written so that a NaN, like a sum of zero, is an even share.
        out[seat] = out[seat] / sum_ if 0.0 < sum_ < np.inf else 1.0 / num_players


class Evaluator(Protocol):
    """Judges leaves for `Search`."""

    def expand_roots(self, forest: Forest, rules_: Rules) -> None:
        """Give every root that has no prior one, and a first value."""
        ...

    def simulate(
        self, forest: Forest, rules_: Rules, selection: Selection, plan: np.ndarray
    ) -> None:
        """Make simulations in every tree: `plan` (B, S) int16 has the root's action, or -1."""
        ...


class RolloutEvaluator:
    """Plays on by a quick heuristic for some decisions, then guesses who will win.

    Args:
        num_decisions: Length of a rollout; 0 guesses at once.
        sharpness: Of the prior: the power to which the odds of a guess are raised.
    """

    def __init__(self, num_decisions: int = 6, sharpness: float = 1.0) -> None:
        self.num_decisions = num_decisions
        self.sharpness = sharpness

    def expand_roots(self, forest: Forest, rules_: Rules) -> None:
        """See `Evaluator`."""
        expand_roots_by_heuristic(forest, rules_, self.num_decisions, self.sharpness)

    def simulate(
        self, forest: Forest, rules_: Rules, selection: Selection, plan: np.ndarray
    ) -> None:
        """See `Evaluator`."""
        run_rollouts(forest, rules_, selection, self.num_decisions, self.sharpness, plan)


class NetworkEvaluator:
    """Asks a network, once for all trees and, when there are few, for several leaves of each.

    Args:
        evaluate_for: Gives the network for the rules of a game; see `Evaluate`. Called by several
            threads where the search has several.
        batch_size: Leaves to gather at once where there are fewer games than that.
        temperature: By which the policy's logits are divided to be a prior. A policy that was
            trained to choose leaves next to nothing for the moves that it does not choose, and a
            search would never look at them; above 1 it does.
    """

    def __init__(
        self,
        evaluate_for: Callable[[Rules], Evaluate],
        batch_size: int = 8,
        temperature: float = 1.0,
    ) -> None:
        self.evaluate_for = evaluate_for
        self.batch_size = batch_size
        self.temperature = np.float32(temperature)

    def expand_roots(self, forest: Forest, rules_: Rules) -> None:
        """See `Evaluator`."""
        rows = np.flatnonzero(forest.nodes["is_expanded"][:, 0] == 0)
        if len(rows):
            alone = forest._replace(nodes=forest.nodes[:, :1], priors=forest.priors[:, :1])
            some = Forest(*(field[rows] for field in alone))
            self.simulate(some, rules_, Selection(), np.full((len(rows), 1), -1, np.int16))
            forest.nodes[rows, 0] = some.nodes[:, 0]
            forest.priors[rows, 0] = some.priors[:, 0]

    def simulate(
        self, forest: Forest, rules_: Rules, selection: Selection, plan: np.ndarray
    ) -> None:
        """See `Evaluator`."""
        num_trees, num_simulations = plan.shape
        at_once = max(1, min(self.batch_size // num_trees, num_simulations))
        evaluate = self.evaluate_for(rules_)
        size = num_trees * at_once
        leaves = np.zeros(size, GAME)
        paths = np.empty((size, MAX_DEPTH, 3), np.int32)
        ends = np.empty((size, 2), np.int64)
        observation = np.empty((size, OBSERVATION_SIZE), np.float32)
        for start in range(0, num_simulations, at_once):
            each = min(at_once, num_simulations - start)
            rows = num_trees * each
            gather_leaves(
                forest, rules_, selection, plan, start, each, leaves, paths, ends, observation
            )
            logits, shares = map(
                np.asarray, self.judge(leaves[:rows], rules_, observation[:rows], evaluate)
            )
            take_back(forest, rules_, each, self.temperature, leaves, paths, ends, logits, shares)

    def judge(
        self, leaves: np.ndarray, rules_: Rules, observation: np.ndarray, evaluate: Callable
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logits (B, A) and shares (B, 4) of `leaves` (B,) GAME, by what `evaluate_for` gave."""
        return evaluate(observation)


class PositionEvaluator(NetworkEvaluator):
    """Asks a judge that reads positions themselves, with hidden cards as imagined.

    Args:
        evaluate_for: Gives for the rules of a game what answers (B,) GAME as `Evaluate` would;
            games that are over are among them, and what it says of those is not used.
        batch_size, temperature: See `NetworkEvaluator`.
    """

    def judge(
        self, leaves: np.ndarray, rules_: Rules, observation: np.ndarray, evaluate: Callable
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `NetworkEvaluator`."""
        return evaluate(leaves)
