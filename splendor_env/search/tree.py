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
    WORD_BITS,
)
from splendor_env.core.cards import CARD_LEVEL
from splendor_env.core.random import HIDDEN_STREAM, hash_seed
from splendor_env.core.state import GAME, MARKET_SLOTS, MAX_PLAYERS, EndReason, Phase

NODE = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("hash", np.uint64),  # of what the observer sees; 0 before the second visit or
                # where another seat is to move.
                ("value", np.float64, MAX_PLAYERS),  # sum over the visits, by seat
                ("visits", np.int32),
                ("next_outcome", np.int32),  # next node by the same action, or -1
                ("outcome", np.int8),  # by which the node was reached, see `_step`
                ("is_expanded", np.int8),  # its prior is known
                # Of the edges that start here.
                ("first_edge", np.int32),  # or -1
                ("tried", np.uint64, 2),  # their actions as a set
                ("next_action", np.int8),  # the likeliest not yet tried, or -1
                ("next_prior", np.float32),
                # Of the edge that leads here, for the first of its nodes.
                ("action", np.int8),
                ("edge_prior", np.float32),
                ("edge_visits", np.int32),
                ("edge_value", np.float32),  # sum, of the seat that moves along it
                ("next_edge", np.int32),  # another one from the same node, or -1
            ],
            align=True,
        ),
    )
)
"""One node. A tree is an array of them, the root first, parents before children.

An edge is known by the first node that it led to, which keeps what belongs to the edge. So a node
needs room for the actions that were tried, not for all; the priors of all actions lie in an array
of their own, read when one is tried for the first time. That keeps what a simulation reads small:
most of its time would go into waiting for memory.
"""

MAX_DEPTH = 128
"""Decisions from the root to a leaf; a deeper position is evaluated and not kept."""

UNSTORED = -1
"""In place of a node or an edge: there is none."""

_ONE = np.uint64(1)

_CANONICAL = np.uint64(0)
"""Seed of the hidden cards in the hash of a position: any, but always the same."""


class Selection(NamedTuple):
    """How a simulation chooses its way; all values are win shares from 0 to 1."""

    c_puct: float = 0.6
    """Weight of the prior in a choice."""
    fpu_reduction: float = 0.1
    """What an action without visits is worth less than its node: first-play urgency."""
    num_outcomes: int = 4
    """Sampled outcomes that an edge may have."""
    widening: float = 1.0
    """An edge with n visits has at most 1 + widening sqrt(n) of them."""


class Forest(NamedTuple):
    """Trees of a search over B games, with M places for nodes in each, and room to work in."""

    nodes: np.ndarray
    """(B, M) NODE."""
    priors: np.ndarray
    """(B, M, A) float32; over the actions legal when a node was expanded the sum is 1."""
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
        priors=np.zeros((num_trees, num_places, NUM_ACTIONS), np.float32),
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
    _clear(nodes[0], -1, 0)
    nodes[0].hash = information_hash


@jit
def _clear(node, action, outcome):
    node.hash = 0
    for seat in range(MAX_PLAYERS):
        node.value[seat] = 0.0
    node.visits = 0
    node.next_outcome = -1
    node.outcome = outcome
    node.is_expanded = 0
    node.first_edge = -1
    node.tried[0] = 0
    node.tried[1] = 0
    node.next_action = -1
    node.action = action
    node.edge_visits = 0
    node.edge_value = 0.0
    node.next_edge = -1


@jit
def begin(roots, index, rules_, seed, simulation, leaf):
    """Put root `index` into `leaf` (1,) GAME with its hidden part drawn for this simulation."""
    leaf[0] = roots[index]
    game = leaf[0]
    hidden.determinize(game, rules_, game.player, hash_seed(seed, HIDDEN_STREAM, simulation))


@jit
def descend(
    nodes,
    priors,
    num_nodes,
    observer,
    rules_,
    selection,
    forced,
    leaf,
    scratch,
    path,
    start,
    length,
):
    """Step from a node to one that is over, not expanded, new or without a place.

    Counts the visits on the way: until the value comes back, a visit counts as lost, which keeps
    other simulations away.

    Args:
        nodes: (M,) NODE, mutated.
        priors: (M, A) float32.
        num_nodes: (1,) int32, mutated.
        observer: Seat whose tree this is.
        rules_: The variant.
        selection: `Selection`.
        forced: Action to take at the start if it is legal, or -1.
        leaf: (1,) GAME, the position of the start; becomes that of the leaf.
        scratch: (1,) GAME, overwritten.
        path: (MAX_DEPTH, 3) int32, node, edge and seat of each decision, from `length` on.
        start: Index of the node to start from, already counted as visited.
        length: Decisions made before it.

    Returns:
        The leaf's node or UNSTORED, and the decisions made from the root.
    """
    game = leaf[0]
    index = start
    legal = np.empty(NUM_ACTIONS, np.int64)
    while game.end_reason == EndReason.RUNNING and nodes[index].is_expanded and length < MAX_DEPTH:
        low, high = rules.legal_actions(game, rules_)
        if forced >= 0 and rules.contains(low, high, forced):
            action = np.int64(forced)
            edge = _edge_of(nodes, index, action)
        else:
            action, edge = select(
                nodes,
                index,
                priors[index],
                num_nodes[0] < nodes.shape[0],
                low,
                high,
                game.player,
                selection,
                legal,
            )
        is_new = edge == UNSTORED
        forced = -1
        path[length, 0] = index
        path[length, 2] = game.player
        draw = _choose_draw(nodes, edge, game, selection)
        outcome = _step(game, action, rules_, draw, observer)
        child, edge = _visit_child(
            nodes,
            num_nodes,
            index,
            action,
            edge,
            outcome,
            observer,
            rules_,
            selection,
            game,
            scratch,
        )
        path[length, 1] = edge
        length += 1
        if is_new and edge != UNSTORED:
            nodes[edge].edge_prior = priors[index, action]
            _find_next_action(nodes[index], priors[index], low, high, legal)
        index = child
        if index == UNSTORED:
            break
    return index, length


@jit
def _edge_of(nodes, index, action):
    edge = np.int64(nodes[index].first_edge)
    while edge >= 0 and nodes[edge].action != action:
        edge = np.int64(nodes[edge].next_edge)
    return edge


@jit
def select(nodes, index, prior, has_room, low, high, player, selection, legal):
    """The legal action of the highest upper bound (PUCT: Rosin 2011, Silver et al. 2017).

    Args:
        nodes: (M,) NODE.
        index: Of the node.
        prior: (A,) float32, of the node.
        has_room: Whether the tree can grow; else an action that was tried is preferred.
        low, high: The legal actions, at least one.
        player: Seat to move.
        selection: `Selection`.
        legal: (A,) int64, overwritten.

    Returns:
        The action, and its edge or UNSTORED if it has not been tried.
    """
    node = nodes[index]
    visits = max(node.visits, 1)
    exploration = selection.c_puct * np.sqrt(np.float64(visits))
    best_action, best_edge, best_bound = np.int64(-1), np.int64(UNSTORED), -np.inf
    edge = np.int64(node.first_edge)
    while edge >= 0:
        tried = nodes[edge]
        action = np.int64(tried.action)
        if rules.contains(low, high, action):
            bound = tried.edge_value / tried.edge_visits
            bound += exploration * tried.edge_prior / (1.0 + tried.edge_visits)
            if bound > best_bound:
                best_action, best_edge, best_bound = action, edge, bound
        edge = np.int64(tried.next_edge)
    # Of those not tried the likeliest has the highest bound. With other hidden cards than last time
    # it may be illegal, or another one legal that was not.
    untried = (low & ~node.tried[0]) | (high & ~node.tried[1])
    if untried != 0 and not (node.next_action >= 0 and rules.contains(low, high, node.next_action)):
        _find_next_action(node, prior, low, high, legal)
    if untried != 0 and (has_room or best_edge == UNSTORED):
        first_value = node.value[player] / visits - selection.fpu_reduction
        if first_value + exploration * node.next_prior > best_bound:
            return np.int64(node.next_action), np.int64(UNSTORED)
    return best_action, best_edge


@jit
def _find_next_action(node, prior, low, high, legal):
    highest, likeliest = np.float32(-1.0), np.int64(-1)
    for place in range(rules.list_actions(low & ~node.tried[0], high & ~node.tried[1], legal)):
        if prior[legal[place]] > highest:
            highest, likeliest = prior[legal[place]], legal[place]
    node.next_action = likeliest
    node.next_prior = highest


@jit
def _choose_draw(nodes, edge, game, selection):
    """Card to impose on a step: that of the outcome visited least, or -1 for a new one.

    An outcome that is impossible with this simulation's hidden cards is left out.
    """
    if edge == UNSTORED:
        return -1
    num_children = 0
    draw, fewest = -1, 0
    child = edge
    while child >= 0:
        num_children += 1
        card = np.int64(nodes[child].outcome) - 1
        is_fewer = draw < 0 or nodes[child].visits < fewest
        if card >= 0 and is_fewer and _is_in_deck(game, card):
            draw, fewest = card, nodes[child].visits
        child = np.int64(nodes[child].next_outcome)
    allowed = 1.0 + selection.widening * np.sqrt(np.float64(nodes[edge].edge_visits))
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
    nodes, num_nodes, parent, action, edge, outcome, observer, rules_, selection, game, scratch
):
    """Count a visit of an edge and of the node of an outcome, which is made if there is a place.

    Returns:
        The node and the edge, each UNSTORED where it has no place.
    """
    num_children = 0
    last, child = np.int64(UNSTORED), edge
    if edge != UNSTORED:
        nodes[edge].edge_visits += 1
    while child >= 0:
        node = nodes[child]
        if node.outcome == outcome:
            node.visits += 1
            # Many nodes have one visit only, and from those there is nothing to keep.
            is_turn = game.player == observer and game.end_reason == EndReason.RUNNING
            if is_turn and node.hash == 0:
                node.hash = hash_information(game, rules_, observer, scratch)
            return child, edge
        num_children += 1
        last = child
        child = np.int64(node.next_outcome)
    if num_children >= selection.num_outcomes or num_nodes[0] >= nodes.shape[0]:
        return np.int64(UNSTORED), edge
    child = np.int64(num_nodes[0])
    num_nodes[0] += 1
    _clear(nodes[child], action, outcome)
    nodes[child].visits = 1
    if edge != UNSTORED:
        nodes[last].next_outcome = child
        return child, edge
    nodes[child].edge_visits = 1
    nodes[child].next_edge = nodes[parent].first_edge
    nodes[parent].first_edge = child
    _add_to_set(nodes[parent].tried, action)
    return child, child


@jit
def _add_to_set(words, action):
    words[action // WORD_BITS] |= _ONE << np.uint64(action % WORD_BITS)


@jit
def back_up(nodes, path, length, leaf_node, value):
    """Add `value` (N,) of a leaf to the leaf's node and to all edges and nodes of its path."""
    if leaf_node != UNSTORED:
        _add_value(nodes[leaf_node], value)
    for step in range(length):
        _add_value(nodes[path[step, 0]], value)
        if path[step, 1] != UNSTORED:
            nodes[path[step, 1]].edge_value += np.float32(value[path[step, 2]])


@jit
def _add_value(node, value):
    for seat in range(value.shape[0]):
        node.value[seat] += value[seat]


@jit
def expand(node, prior, logits, low, high, legal):
    """Set the prior (A,) of a node from `logits` (A,): the softmax over the actions legal now.

    Where one of these logits is NaN or infinitely high, or all are infinitely low, it is uniform.
    A reserved card whose purchase only other hidden cards make legal has a prior by the same scale.
    `legal` (A,) int64 is overwritten.
    """
    node.is_expanded = 1
    num_legal = rules.list_actions(low, high, legal)
    highest = -np.inf
    is_usable = True
    for place in range(num_legal):
        is_usable &= logits[legal[place]] < np.inf  # not so for a NaN
        highest = max(highest, logits[legal[place]])
    if not is_usable or highest == -np.inf:
        prior[:] = 1.0 / num_legal
        _find_next_action(node, prior, low, high, legal)
        return
    prior[:] = 0.0
    for action in range(BUY_RESERVED, RETURN):
        if logits[action] > -np.inf:
            prior[action] = np.exp(min(logits[action] - highest, 0.0))
    sum_ = 0.0
    for place in range(num_legal):
        prior[legal[place]] = np.exp(logits[legal[place]] - highest)
        sum_ += prior[legal[place]]
    for action in range(NUM_ACTIONS):
        prior[action] /= sum_
    _find_next_action(node, prior, low, high, legal)


@jit
def write_root_edges(nodes, visits, value):
    """Write what the edges of each root of `nodes` (B, M) know, zero where there is none.

    Args:
        nodes: (B, M) NODE.
        visits: (B, A) int64, written.
        value: (B, A) float64, written: sums over the visits.
    """
    visits[:] = 0
    value[:] = 0.0
    for row in range(nodes.shape[0]):
        edge = np.int64(nodes[row, 0].first_edge)
        while edge >= 0:
            node = nodes[row, edge]
            visits[row, node.action] = node.edge_visits
            value[row, node.action] = node.edge_value
            edge = np.int64(node.next_edge)


def find_root(nodes: np.ndarray, information_hash: np.uint64) -> int:
    """The most visited of `nodes` (n,) with this hash, or -1."""
    found = np.flatnonzero(nodes["hash"] == information_hash)
    return int(found[nodes["visits"][found].argmax()]) if len(found) else -1


@jit
def copy_subtree(nodes, priors, start, out, out_priors, queue):
    """Copy node `start` and all below it, breadth first; return their number.

    Args:
        nodes: (n,) NODE.
        priors: (n, A) float32.
        start: Index of the new root.
        out: (M,) NODE; what does not fit is left out.
        out_priors: (M, A) float32.
        queue: (M,) int32, overwritten.
    """
    out[0] = nodes[start]
    out_priors[0] = priors[start]
    _clear_links(out[0])
    queue[0] = start
    size = 1
    for done in range(out.shape[0]):
        if done == size:
            break
        parent = out[done]
        last_edge = np.int64(-1)
        edge = np.int64(nodes[queue[done]].first_edge)
        while edge >= 0 and size < out.shape[0]:
            if last_edge < 0:
                parent.first_edge = size
            else:
                out[last_edge].next_edge = size
            last_edge = size
            _add_to_set(parent.tried, np.int64(nodes[edge].action))
            child = edge
            while child >= 0 and size < out.shape[0]:
                out[size] = nodes[child]
                out_priors[size] = priors[child]
                _clear_links(out[size])
                if size > last_edge:
                    out[size - 1].next_outcome = size
                queue[size] = child
                size += 1
                child = np.int64(nodes[child].next_outcome)
            edge = np.int64(nodes[edge].next_edge)
    return size


@jit
def _clear_links(node):
    node.next_outcome = -1
    node.next_edge = -1
    node.first_edge = -1
    node.tried[0] = 0
    node.tried[1] = 0
