"""Information-set Monte Carlo tree search over many games at once, and the agent that plays it.

A simulation imagines what the searching seat cannot see (Cowling, Powley and Whitehouse 2012),
walks down the tree by PUCT, asks an evaluator about the position it reaches and adds the value for
every seat along its way. With few simulations the root does not use PUCT: its best candidates are
taken in turn and halved (Danihelka et al. 2022, "Policy improvement by planning with Gumbel").
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import write_action_masks
from splendor_env.core.random import hash_seed
from splendor_env.core.state import EndReason, Rules, SplendorError
from splendor_env.search.evaluators import Evaluator, NetworkEvaluator
from splendor_env.search.policy import improve, log_normalized, softmax
from splendor_env.search.tree import (
    Forest,
    Selection,
    copy_subtree,
    find_root,
    hash_roots,
    new_forest,
    start_tree,
    write_root_edges,
)

GUMBEL_LIMIT = 64
"""Most simulations of rollouts with which, by default, the root halves its candidates."""

_TREE_STREAM = 8
_NOISE_STREAM = 9
_NODES_AT_ONCE = 1 << 18
"""Places in the trees that are searched together: 105 MB."""
_NODES_KEPT = 1 << 18
"""Nodes kept between decisions; of the games not asked about for longest they are dropped."""
_SIMULATIONS_BEFORE_A_LOOK = 8
"""At the clock, at the least."""


@dataclass(frozen=True)
class Settings:
    """What a search does.

    Attributes:
        num_simulations: In each game for each decision; those of a kept tree come on top.
        milliseconds: If not 0, the time for each decision of one game in place of their number.
        selection: Below the root, and at the root without Gumbel.
        gumbel: Whether the root halves its candidates; None: if a network judges, or with at most
            `GUMBEL_LIMIT` simulations. Many rollouts are better spent by PUCT, whose means over
            more visits do not depend on luck as much.
        num_candidates: Actions that the halving starts with.
        gumbel_scale: Of the noise on the root's logits: 1 to explore in training, 0 to play.
        c_visit, c_scale: Weight of values against logarithms of priors, see `policy.improve`.
        threads: The games are shared among these; a single game is searched by each of them, in
            trees that are added up.
        max_nodes: Places of a tree. When it is full it is used, but grows no more.
        reuse: Keep trees between the decisions of a game.
    """

    num_simulations: int = 200
    milliseconds: float = 0.0
    selection: Selection = field(default_factory=Selection)
    gumbel: bool | None = None
    num_candidates: int = 16
    gumbel_scale: float = 0.0
    c_visit: float = 50.0
    c_scale: float = 1.0
    threads: int = 1
    max_nodes: int = 1 << 16
    reuse: bool = True


class SearchResult(NamedTuple):
    """What a search says of B games, by action and by absolute seat."""

    visits: np.ndarray
    """(B, A) int64, of each action."""
    q: np.ndarray
    """(B, A) float64, the mover's mean share after each action; 0 without visits."""
    policy: np.ndarray
    """(B, A) float64, the improved policy: a target for training."""
    value: np.ndarray
    """(B, N) float64, each seat's mean share over all simulations."""
    action: np.ndarray
    """(B,) int32, the choice."""


class Search:
    """Searches games, and keeps the trees of those that it may be asked about again.

    Attributes:
        is_gumbel: Whether the root halves its candidates.

    Args:
        evaluator: Judges leaves.
        settings: What to do.
        seed: Of all imagined cards and noise. The answer about a game is a function of the seed, of
            what its mover sees and of the tree kept from before; not so with `milliseconds`.

    Raises:
        SplendorError: A setting is out of range.
    """

    def __init__(self, evaluator: Evaluator, settings: Settings, seed: int = 0) -> None:
        lowest = {"num_simulations": 1, "num_candidates": 1, "threads": 1, "max_nodes": 2}
        for name, least in lowest.items():
            if getattr(settings, name) < least:
                raise SplendorError(f"{name} must be at least {least}")
        self.evaluator = evaluator
        self.settings = settings
        self.is_gumbel = settings.gumbel
        if settings.gumbel is None:
            is_small = not settings.milliseconds and settings.num_simulations <= GUMBEL_LIMIT
            self.is_gumbel = is_small or isinstance(evaluator, NetworkEvaluator)
        self._seed = np.uint64(seed % 2**64)
        self._rules: Rules | None = None
        self._kept: dict[int, list[_Tree]] = {}
        self._forest = new_forest(0, 0)
        self._pool = ThreadPoolExecutor(settings.threads) if settings.threads > 1 else None

    def run(
        self,
        games: np.ndarray,
        rules: Rules,
        game_id: np.ndarray | None = None,
        *,
        allowed: np.ndarray | None = None,
    ) -> SearchResult:
        """Search for the seat to move in each of `games` (B,) GAME.

        Args:
            games: What their movers cannot see has no influence.
            rules: The variant.
            game_id: (B,) int64, to find again what was searched before; None keeps nothing.
            allowed: (B, A) bool, of which actions the choice must be one; None: of the legal ones.
                Below the root all actions stay possible. A root that uses PUCT looks at the others
                too, and its `value` is that of the unrestricted choice.

        Raises:
            SplendorError: One of the games is over, or has no legal action among those allowed.
        """
        games = np.ascontiguousarray(games)
        if (games["end_reason"] != EndReason.RUNNING).any():
            raise SplendorError("there is nothing to search in a game that is over")
        if rules != self._rules:
            self._kept.clear()
            self._rules = rules
        settings = self.settings
        num_new = settings.max_nodes if settings.milliseconds else settings.num_simulations + 1
        num_places = min(settings.max_nodes, max(2, num_new))
        at_once = max(1, _NODES_AT_ONCE // num_places)
        results = []
        for start in range(0, len(games), at_once):
            rows = slice(start, start + at_once)
            ids = None if game_id is None or not settings.reuse else game_id[rows]
            of_rows = None if allowed is None else allowed[rows]
            results.append(self._run(games[rows], rules, ids, num_places, of_rows))
        return SearchResult(*map(np.concatenate, zip(*results, strict=True)))

    def forget(self, game_id: Sequence[int] | np.ndarray) -> None:
        """Drop what is kept of these games."""
        for key in game_id:
            self._kept.pop(int(key), None)

    def best_lines(self, game_id: int, number: int, length: int) -> list[list[int]]:
        """How play may go on by what is kept of a game since its last search.

        Args:
            game_id: Of the game; if nothing is kept of it there are no lines.
            number: Lines at most, each with another first action, the most visited one first.
            length: Actions of a line at most. Each is the most visited one after the most visited
                outcome of the action before.
        """
        trees = self._kept.get(game_id, [])
        return [
            _line(tree.nodes, edge, length)
            for tree in trees[:1]
            for edge in _edges_by_visits(tree.nodes, 0)[:number]
        ]

    def _run(
        self,
        games: np.ndarray,
        rules: Rules,
        game_id: np.ndarray | None,
        num_places: int,
        allowed: np.ndarray | None,
    ) -> SearchResult:
        settings = self.settings
        num_copies = settings.threads if len(games) == 1 else 1
        forest = self._plant(games.repeat(num_copies), game_id, num_copies, num_places)
        num_trees = len(forest.roots)
        mask = np.empty((num_trees, NUM_ACTIONS), np.int8)
        write_action_masks(forest.roots, rules, mask)
        legal = mask == 1
        if allowed is not None:
            legal &= allowed.repeat(num_copies, axis=0)
            if not legal.any(1).all():
                raise SplendorError("a game has no legal action among those allowed")
        threads = min(settings.threads, num_trees)
        cuts = [num_trees * k // threads for k in range(threads + 1)]
        parts = [
            _Part(self, rules, forest.rows(start, end), legal[start:end])
            for start, end in pairwise(cuts)
        ]
        if self._pool is None or threads == 1:
            for part in parts:
                part.search()
        else:
            list(self._pool.map(_Part.search, parts))
        if game_id is not None:
            self._keep(forest, game_id, num_copies)
        return _summarize(parts, self, rules.num_players, num_copies)

    def _plant(
        self, roots: np.ndarray, game_id: np.ndarray | None, num_copies: int, num_places: int
    ) -> Forest:
        """A tree for each of `roots`: what is kept of it from before, else a root alone."""
        num_trees = len(roots)
        hashes = np.empty(num_trees, np.uint64)
        hash_roots(roots, self._rules, hashes)
        found: list[tuple[_Tree, int] | None] = [None] * num_trees
        if game_id is not None:
            for row, key in enumerate(np.repeat(game_id, num_copies)):
                found[row] = self._find(int(key), row % num_copies, hashes[row])
        most_kept = max(
            (int(kept.nodes["visits"][start]) for kept, start in filter(None, found)), default=0
        )
        num_places = min(num_places + most_kept, self.settings.max_nodes)
        forest = self._room(num_trees, num_places)
        forest.roots[:] = roots
        forest.num_simulations[:] = 0
        write_tree_seeds(hashes, self._seed, num_copies, forest.seeds)
        queue = np.empty(num_places, np.int32)
        for row, kept in enumerate(found):
            if kept is None:
                start_tree(forest.nodes[row], hashes[row])
                forest.num_nodes[row] = 1
            else:
                forest.num_nodes[row] = copy_subtree(
                    *kept[0], kept[1], forest.nodes[row], forest.priors[row], queue
                )
        return forest

    def _room(self, num_trees: int, num_places: int) -> Forest:
        """Trees with this much room; the memory is used again and again."""
        trees, places = self._forest.nodes.shape
        if num_trees > trees or num_places > places:
            self._forest = new_forest(0, 0)  # frees the memory before asking for more
            self._forest = new_forest(max(trees, num_trees), max(places, num_places))
        forest = self._forest.rows(0, num_trees)
        return forest._replace(
            nodes=forest.nodes[:, :num_places], priors=forest.priors[:, :num_places]
        )

    def _find(self, key: int, copy: int, information_hash: np.uint64) -> "tuple[_Tree, int] | None":
        """The nodes kept of a game, and which of them is this position."""
        trees = self._kept.get(key, [])
        if copy >= len(trees):
            return None
        start = find_root(trees[copy].nodes, information_hash)
        return None if start < 0 else (trees[copy], start)

    def _keep(self, forest: Forest, game_id: np.ndarray, num_copies: int) -> None:
        for index, key in enumerate(game_id):
            self._kept.pop(int(key), None)  # to become the youngest
            self._kept[int(key)] = [
                _Tree(
                    forest.nodes[row, : forest.num_nodes[row]].copy(),
                    forest.priors[row, : forest.num_nodes[row]].copy(),
                )
                for row in range(index * num_copies, (index + 1) * num_copies)
            ]
        number = sum(len(kept.nodes) for trees in self._kept.values() for kept in trees)
        while number > _NODES_KEPT:
            oldest = self._kept.pop(next(iter(self._kept)))
            number -= sum(len(kept.nodes) for kept in oldest)


class _Tree(NamedTuple):
    """What is kept of a search: nodes (n,) NODE and their priors (n, A)."""

    nodes: np.ndarray
    priors: np.ndarray


def _edges_by_visits(nodes: np.ndarray, parent: int) -> list[int]:
    """The edges that start at a node, each as its first node, the most visited one first."""
    edges = _chain(nodes["next_edge"], nodes["first_edge"][parent])
    return sorted(edges, key=lambda edge: -nodes["edge_visits"][edge])


def _line(nodes: np.ndarray, edge: int, length: int) -> list[int]:
    """The actions of the most visited way that begins with an edge."""
    line: list[int] = []
    edges = [edge]
    while edges and len(line) < length:
        line.append(int(nodes["action"][edges[0]]))
        outcomes = _chain(nodes["next_outcome"], edges[0])
        child = max(outcomes, key=lambda outcome: nodes["visits"][outcome])
        edges = _edges_by_visits(nodes, child)
    return line


def _chain(following: np.ndarray, first: int) -> list[int]:
    """The indices from `first` on, each followed by what stands at it, up to -1."""
    chain: list[int] = []
    while first >= 0:
        chain.append(int(first))
        first = following[first]
    return chain


@jit
def write_tree_seeds(hashes, seed, num_copies, out):
    """Write into `out` (B,) each tree's seed, from what its mover sees and which copy it is."""
    for row in range(out.shape[0]):
        out[row] = hash_seed(hash_seed(seed, _TREE_STREAM, hashes[row]), 0, row % num_copies)


class _Part:
    """The trees of one thread, and what their roots say."""

    def __init__(self, search: Search, rules: Rules, forest: Forest, legal: np.ndarray) -> None:
        self.evaluator = search.evaluator
        self.settings = search.settings
        self.is_gumbel = search.is_gumbel
        self.rules = rules
        self.forest = forest
        self.legal = legal
        self.root = forest.nodes[:, 0]
        self.mover = forest.roots["player"]
        self.noise = np.zeros(legal.shape)
        self.kept_visits, _ = self.edges()

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Visits (B, A) int64 of the roots' legal actions, and sums of their values, float64."""
        visits = np.empty(self.legal.shape, np.int64)
        value = np.empty(self.legal.shape)
        write_root_edges(self.forest.nodes, visits, value)
        return np.where(self.legal, visits, 0), value

    @property
    def prior(self) -> np.ndarray:
        """Of the roots (B, A)."""
        return self.forest.priors[:, 0]

    def search(self) -> None:
        """Make all simulations."""
        self.evaluator.expand_roots(self.forest, self.rules)
        settings = self.settings
        if self.is_gumbel:
            self._halve()
        elif settings.milliseconds:
            self._in_time(self._simulate, settings.milliseconds)
        else:
            self._simulate(settings.num_simulations)

    def _simulate(self, number: int) -> None:
        self._follow(np.full((len(self.mover), number), -1, np.int16))

    def _follow(self, plan: np.ndarray) -> None:
        self.evaluator.simulate(self.forest, self.rules, self.settings.selection, plan)

    def _in_time(
        self, simulate: Callable[[int], None], milliseconds: float, multiple: int = 1
    ) -> int:
        """Simulate for the time of all games, looking at the clock ever more often.

        Args:
            simulate: Makes so many simulations in each game.
            milliseconds: For each game.
            multiple: The number is always one of this.

        Returns:
            Simulations made in each game.
        """
        least = -(-_SIMULATIONS_BEFORE_A_LOOK // multiple) * multiple
        start = time.perf_counter()
        end = start + milliseconds / 1000 * len(self.mover)
        made, number = 0, least
        while True:
            simulate(number)
            made += number
            now = time.perf_counter()
            possible = int((end - now) / (now - start) * made)
            if possible < least:
                return made
            number = max(least, possible // 2 // multiple * multiple)

    def _halve(self) -> None:
        """Sequential halving: half of the candidates stay after each of equally long phases."""
        settings, num_legal = self.settings, self.legal.sum(1)
        self._draw_noise()
        num_candidates = settings.num_candidates
        if not settings.milliseconds:
            num_candidates = min(num_candidates, settings.num_simulations)
        num_phases = max(1, (num_candidates - 1).bit_length())
        in_play = self.legal
        left = settings.num_simulations
        for phase in range(num_phases):
            candidates = np.minimum(max(1, num_candidates >> phase), num_legal)
            most = int(candidates.max())
            ranked = np.where(in_play, self.scores(), -np.inf)
            turns = _Turns(np.argsort(-ranked, axis=1, kind="stable"), candidates)
            if settings.milliseconds:
                number = self._in_time(
                    lambda count, turns=turns: self._follow(turns.take(count)),
                    settings.milliseconds / num_phases,
                    most,
                )
            else:
                each = max(1, settings.num_simulations // (num_phases * most))
                number = left if phase == num_phases - 1 else min(left, each * most)
                if number == 0:
                    break
                left -= number
                self._follow(turns.take(number))
            in_play = np.zeros_like(self.legal)
            np.put_along_axis(in_play, turns.first(min(number, most)), True, 1)

    def _draw_noise(self) -> None:
        scale = self.settings.gumbel_scale
        if scale > 0:
            for row, seed in enumerate(self.forest.seeds):
                generator = np.random.default_rng([int(seed), _NOISE_STREAM])
                self.noise[row] = scale * generator.gumbel(size=NUM_ACTIONS)

    def scores(self) -> np.ndarray:
        """By which the candidates are ranked (B, A)."""
        visits, values = self.edges()
        value = self.root["value"][np.arange(len(self.mover)), self.mover]
        return self.noise + improve(
            log_normalized(self.prior, self.legal),
            visits,
            values / np.maximum(visits, 1),
            value / self.root["visits"],
            self.legal,
            self.settings.c_visit,
            self.settings.c_scale,
        )


class _Turns:
    """Candidates of each game that take turns.

    Args:
        order: (B, A) actions, the candidates first.
        candidates: (B,) how many they are.
    """

    def __init__(self, order: np.ndarray, candidates: np.ndarray) -> None:
        self.order = order
        self.candidates = candidates
        self.taken = 0

    def take(self, number: int) -> np.ndarray:
        """Actions (B, number) int16 of the next simulations."""
        turn = np.arange(self.taken, self.taken + number) % self.candidates[:, None]
        self.taken += number
        return np.take_along_axis(self.order, turn, 1).astype(np.int16)

    def first(self, number: int) -> np.ndarray:
        """Actions (B, number) that had the first turns."""
        turn = np.arange(number) % self.candidates[:, None]
        return np.take_along_axis(self.order, turn, 1)


def _summarize(
    parts: list[_Part], search: Search, num_players: int, num_copies: int
) -> SearchResult:
    """Add up the copies of each game, and choose."""
    settings = search.settings

    def by_game(arrays: Iterable[np.ndarray]) -> np.ndarray:
        array = np.concatenate(list(arrays))
        return array.reshape(-1, num_copies, *array.shape[1:])

    legal = by_game(part.legal for part in parts)[:, 0]
    mover = by_game(part.mover for part in parts)[:, 0]
    all_visits, all_values = zip(*(part.edges() for part in parts), strict=True)
    visits = by_game(all_visits).sum(1)
    q = by_game(all_values).sum(1) / np.maximum(visits, 1)
    root_visits = by_game(part.root["visits"] for part in parts).sum(1)
    value = by_game(part.root["value"] for part in parts).sum(1)[:, :num_players]
    value = value / root_visits[:, None]
    scores = improve(
        log_normalized(by_game(part.prior for part in parts)[:, 0], legal),
        visits,
        q,
        value[np.arange(len(mover)), mover],
        legal,
        settings.c_visit,
        settings.c_scale,
    )
    if search.is_gumbel:
        noise = by_game(part.noise for part in parts)[:, 0]
        new_visits = visits - by_game(part.kept_visits for part in parts).sum(1)
        new_visits[~legal] = -1
        is_most = new_visits == new_visits.max(1, keepdims=True)
        ranked = np.where(is_most, scores + noise, -np.inf)
    else:
        ranked = np.where(legal, visits + q / 2, -1)  # a tie is broken by value
    return SearchResult(visits, q, softmax(scores), value, ranked.argmax(1).astype(np.int32))


class SearchAgent:
    """Plays by a search.

    Args:
        name: Of the agent.
        search: The search.
    """

    def __init__(self, name: str, search: Search) -> None:
        self.name = name
        self.search = search

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        return self.search.run(games, rules, game_id).action

    def end_games(self, game_id: np.ndarray, results: Sequence[object]) -> None:
        """See `Agent`: what is kept of these games is dropped."""
        self.search.forget(game_id)
