"""The tree of a search: arrays of nodes, and the compiled steps down and up.

A tree belongs to one observer, the seat to move at its root, and its nodes are what this seat may
have seen since: statistics only, never positions. Each simulation copies the root's record, draws
anew what the observer cannot see, and steps down the tree from there. A node is reached from its
parent by an action and an outcome: the card that the observer sees turned up, if any.

Values are shares of the victory by absolute seat. An edge keeps the value of the seat that moves
there; nothing is ever negated (max-n: Luckhardt and Irani 1986). Nothing here knows how a leaf is
evaluated.
"""

from typing import NamedTuple

import numpy as np

from splendor_env.core import hidden, rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    NUM_ACTIONS,
    RESERVE,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.cards import CARD_LEVEL
from splendor_env.core.random import HIDDEN_STREAM, hash_seed
from splendor_env.core.state import GAME, MARKET_SLOTS, MAX_PLAYERS, EndReason, Phase

NODE = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("hash", np.uint64),  # of what the observer sees, where it is to move; else 0
                ("value", np.float64, MAX_PLAYERS),  # sum over the visits, by seat
                ("visits", np.int32),
                ("next_sibling", np.int32),  # next node of the same edge, or -1
                ("outcome", np.int8),  # by which the node was reached, see `_outcome`
                ("is_expanded", np.int8),  # its prior is known
                ("prior", np.float32, NUM_ACTIONS),  # not negative, of any sum
                ("edge_visits", np.int32, NUM_ACTIONS),
                ("edge_value", np.float32, NUM_ACTIONS),  # sum, of the seat that moves here
                ("child", np.int32, NUM_ACTIONS),  # first node of each edge, or -1
            ],
            align=True,
        ),
    )
)
"""One node. A tree is an array of them, the root first, parents before children."""

MAX_DEPTH = 128
"""Decisions from the root to a leaf; a deeper position is evaluated and not kept."""

UNSTORED = -1
"""In place of a node: the position has none."""

_CANONICAL = np.uint64(0)
"""Seed of the hidden cards in the hash of a position: any, but always the same."""


class Selection(NamedTuple):
    """How a simulation chooses its way; all values are win shares from 0 to 1."""

    c_puct: float = 0.6
    """Weight of the prior in a choice."""
    fpu_reduction: float = 0.1
    """What an action without visits is worth less than its node: first-play urgency."""
    num_outcomes: int = 8
    """Sampled outcomes that an edge may have."""
    widening: float = 1.0
    """An edge with n visits has at most 1 + widening sqrt(n) of them."""


class Forest(NamedTuple):
    """Trees of a search over B games, with M places for nodes in each, and room to work in."""

    nodes: np.ndarray
    """(B, M) NODE."""
    num_nodes: np.ndarray
    """(B,) int32."""
    roots: np.ndarray
    """(B,) GAME."""
    seeds: np.ndarray
    """(B,) uint64 from which each tree's hidden cards and draws come."""
    num_simulations: np.ndarray
    """(B,) int64 made so far from these seeds."""

    def rows(self, start: int, end: int) -> "Forest":
        """Some of the trees, as views."""
        return Forest(*(field[start:end] for field in self))


def new_forest(num_trees: int, num_places: int) -> Forest:
    """Arrays for so many trees, nothing set."""
    return Forest(
        nodes=np.zeros((num_trees, num_places), NODE),
        num_nodes=np.zeros(num_trees, np.int32),
        roots=np.zeros(num_trees, GAME),
        seeds=np.zeros(num_trees, np.uint64),
        num_simulations=np.zeros(num_trees, np.int64),
    )


@jit
def hash_information(game, rules_, observer, scratch):
    """Hash of all that `observer` sees, equal however the rest is; `scratch` (1,) GAME is used."""
    scratch[0] = game
    copy = scratch[0]
    hidden.determinize(copy, rules_, observer, _CANONICAL)
    return hidden.position_hash(copy)


@jit
def hash_roots(games, rules_, out):
    """Write into `out` (B,) the hash of what the seat to move in each of `games` (B,) sees."""
    scratch = games[:1].copy()
    for i in range(games.shape[0]):
        out[i] = hash_information(games[i], rules_, games[i].player, scratch)


@jit
def start_tree(nodes, information_hash):
    """Make `nodes` (M,) a tree of a root alone."""
    _clear(nodes[0], 0, information_hash)


@jit
def _clear(node, outcome, information_hash):
    node.hash = information_hash
    node.visits = 0
    node.next_sibling = -1
    node.outcome = outcome
    node.is_expanded = 0
    for seat in range(MAX_PLAYERS):
        node.value[seat] = 0.0
    for action in range(NUM_ACTIONS):
        node.prior[action] = 0.0
        node.edge_visits[action] = 0
        node.edge_value[action] = 0.0
        node.child[action] = -1


@jit
def begin(roots, index, rules_, seed, simulation, leaf):
    """Put root `index` into `leaf` (1,) GAME with its hidden part drawn for this simulation."""
    leaf[0] = roots[index]
    game = leaf[0]
    hidden.determinize(game, rules_, game.player, hash_seed(seed, HIDDEN_STREAM, simulation))


@jit
def descend(
    nodes, num_nodes, observer, rules_, selection, forced, leaf, scratch, path, start, length
):
    """Step from a node to one that is over, not expanded, new or without a place.

    Counts the visits on the way: until the value comes back, a visit counts as lost, which keeps
    other simulations away.

    Args:
        nodes: (M,) NODE, mutated.
        num_nodes: (1,) int32, mutated.
        observer: Seat whose tree this is.
        rules_: The variant.
        selection: `Selection`.
        forced: Action to take at the start if it is legal, or -1.
        leaf: (1,) GAME, the position of the start; becomes that of the leaf.
        scratch: (1,) GAME, overwritten.
        path: (MAX_DEPTH, 3) int32, node, action and seat of each decision, from `length` on.
        start: Index of the node to start from, already counted as visited.
        length: Decisions made before it.

    Returns:
        The leaf's node or UNSTORED, and the decisions made from the root.
    """
    game = leaf[0]
    index = start
    legal = np.empty(NUM_ACTIONS, np.int64)
    while game.end_reason == EndReason.RUNNING and nodes[index].is_expanded and length < MAX_DEPTH:
        node = nodes[index]
        low, high = rules.legal_actions(game, rules_)
        if forced >= 0 and rules.contains(low, high, forced):
            action = np.int64(forced)
        else:
            action = select_action(node, low, high, game.player, selection, legal)
        forced = -1
        path[length, 0] = index
        path[length, 1] = action
        path[length, 2] = game.player
        length += 1
        draw = _choose_draw(nodes, node, action, game, selection)
        outcome = _step(game, action, rules_, draw, observer)
        node.edge_visits[action] += 1
        index = _visit_child(
            nodes, num_nodes, index, action, outcome, observer, rules_, selection, game, scratch
        )
        if index == UNSTORED:
            break
    return index, length


@jit
def select_action(node, low, high, player, selection, legal):
    """The legal action of the highest upper bound (PUCT: Rosin 2011, Silver et al. 2017).

    The prior counts over the legal actions only; one that has no positive sum there is taken for
    uniform. At least one action must be legal. `legal` (A,) int64 is overwritten.
    """
    num_legal = rules.list_actions(low, high, legal)
    prior_sum = 0.0
    visits = 0
    for index in range(num_legal):
        prior_sum += node.prior[legal[index]]
        visits += node.edge_visits[legal[index]]
    # Written so that a NaN is uniform too.
    scale, base = 0.0, 1.0 / num_legal
    if prior_sum > 0.0 and prior_sum < np.inf:
        scale, base = 1.0 / prior_sum, 0.0
    exploration = selection.c_puct * np.sqrt(visits + 1.0)
    first_value = node.value[player] / max(node.visits, 1) - selection.fpu_reduction
    best_action, best_bound = np.int64(-1), -np.inf
    for index in range(num_legal):
        action = legal[index]
        num = node.edge_visits[action]
        value = node.edge_value[action] / num if num > 0 else first_value
        bound = value + exploration * (node.prior[action] * scale + base) / (1.0 + num)
        if bound > best_bound:
            best_action, best_bound = action, bound
    return best_action


@jit
def _choose_draw(nodes, node, action, game, selection):
    """Card to impose on a step: that of the outcome visited least, or -1 for a new one.

    An outcome that is impossible with this simulation's hidden cards is left out.
    """
    child = np.int64(node.child[action])
    num_children = 0
    draw, fewest = -1, 0
    while child >= 0:
        num_children += 1
        card = np.int64(nodes[child].outcome) - 1
        is_fewer = draw < 0 or nodes[child].visits < fewest
        if card >= 0 and is_fewer and _is_in_deck(game, card):
            draw, fewest = card, nodes[child].visits
        child = np.int64(nodes[child].next_sibling)
    allowed = 1.0 + selection.widening * np.sqrt(np.float64(node.edge_visits[action]))
    return -1 if num_children < min(allowed, selection.num_outcomes) else draw


@jit
def _is_in_deck(game, card):
    level = CARD_LEVEL[card]
    for index in range(game.deck_size[level]):
        if game.deck[level, index] == card:
            return True
    return False


@jit
def _step(game, action, rules_, draw, observer):
    """Make a step; return its outcome: 1 + the card that the observer sees turned up, or 0.

    Such a card refills the market, is the observer's own blind reserve, or is another seat's secret
    reserve that is bought. Another seat's blind reserve shows nothing.
    """
    mover = np.int64(game.player)
    pending = np.int64(game.pending)
    card = np.int64(-1)
    if game.phase == Phase.PLAY and BUY_RESERVED <= action < RETURN:
        slot = action - BUY_RESERVED
        if hidden.is_secret(game, rules_, mover, slot, observer):
            card = np.int64(game.reserved[mover, slot])
    is_play = game.phase == Phase.PLAY
    hand = rules.hand_size(game, mover)
    rules.step(game, action, rules_, draw)
    if not is_play:
        action = pending if pending >= 0 and game.pending < 0 else -1
    elif game.pending >= 0:
        action = -1  # still to be paid for
    place = -1
    if RESERVE <= action < RESERVE_DECK:
        place = action - RESERVE
    elif RESERVE_DECK <= action < BUY and mover == observer:
        card = np.int64(game.reserved[mover, hand])
    elif BUY <= action < BUY_RESERVED:
        place = action - BUY
    if place >= 0:
        card = np.int64(game.market[place // MARKET_SLOTS, place % MARKET_SLOTS])
    return card + 1


@jit
def _visit_child(
    nodes, num_nodes, parent, action, outcome, observer, rules_, selection, game, scratch
):
    """The node of an outcome, its visit counted; made if there is a place, else UNSTORED."""
    last = np.int64(-1)
    child = np.int64(nodes[parent].child[action])
    num_children = 0
    while child >= 0:
        if nodes[child].outcome == outcome:
            nodes[child].visits += 1
            return child
        num_children += 1
        last = child
        child = np.int64(nodes[child].next_sibling)
    if num_children >= selection.num_outcomes or num_nodes[0] >= nodes.shape[0]:
        return np.int64(UNSTORED)
    child = np.int64(num_nodes[0])
    num_nodes[0] += 1
    information_hash = np.uint64(0)
    if game.player == observer and game.end_reason == EndReason.RUNNING:
        information_hash = hash_information(game, rules_, observer, scratch)
    _clear(nodes[child], outcome, information_hash)
    nodes[child].visits = 1
    if last < 0:
        nodes[parent].child[action] = child
    else:
        nodes[last].next_sibling = child
    return child


@jit
def back_up(nodes, path, length, leaf_node, value):
    """Add `value` (N,) of a leaf to the leaf's node and to all edges and nodes of its path."""
    if leaf_node != UNSTORED:
        _add_value(nodes[leaf_node], value)
    for step in range(length):
        node = nodes[path[step, 0]]
        _add_value(node, value)
        node.edge_value[path[step, 1]] += np.float32(value[path[step, 2]])


@jit
def _add_value(node, value):
    for seat in range(value.shape[0]):
        node.value[seat] += value[seat]


@jit
def expand(node, logits, low, high):
    """Set the prior from `logits` (A,), by the softmax over the actions legal now.

    Logits of which one is NaN or infinitely high give a prior of zero, hence a uniform choice.
    """
    node.is_expanded = 1
    highest = -np.inf
    is_usable = True
    for action in range(NUM_ACTIONS):
        if rules.contains(low, high, action):
            is_usable &= logits[action] < np.inf  # not so for a NaN
            highest = max(highest, logits[action])
    for action in range(NUM_ACTIONS):
        prior = np.float32(0.0)
        # Actions that other hidden cards would make legal keep theirs.
        if is_usable and highest > -np.inf and logits[action] > -np.inf:
            prior = np.float32(np.exp(min(np.float64(logits[action] - highest), 0.0)))
        node.prior[action] = prior


def find_root(nodes: np.ndarray, information_hash: np.uint64) -> int:
    """The most visited of `nodes` (n,) with this hash, or -1."""
    found = np.flatnonzero(nodes["hash"] == information_hash)
    return int(found[nodes["visits"][found].argmax()]) if len(found) else -1


@jit
def copy_subtree(nodes, start, out, queue):
    """Copy node `start` and all below it into `out` (M,), breadth first; return their number.

    Args:
        nodes: (n,) NODE.
        start: Index of the new root.
        out: (M,) NODE; what does not fit is left out.
        queue: (M,) int32, overwritten.
    """
    out[0] = nodes[start]
    out[0].next_sibling = -1
    out[0].outcome = 0
    queue[0] = start
    size = 1
    done = 0
    while done < size:
        node = nodes[queue[done]]
        parent = out[done]
        for action in range(NUM_ACTIONS):
            child = np.int64(node.child[action])
            last = np.int64(-1)
            parent.child[action] = -1
            while child >= 0 and size < out.shape[0]:
                out[size] = nodes[child]
                out[size].next_sibling = -1
                if last < 0:
                    parent.child[action] = size
                else:
                    out[last].next_sibling = size
                last = size
                queue[size] = child
                size += 1
                child = np.int64(nodes[child].next_sibling)
        done += 1
    return size
