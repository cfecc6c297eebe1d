"""Positions with proven best moves: where an agent is weak, which a win rate does not tell.

They lie in `data/puzzles.json`. "Best" is exact: against the best play of all other seats, each
listed move wins the largest share of the victory and every other legal move less; a test proves it
by exhaustive search. No draw matters: decks are empty, or the game is over after the turn. Some
games end with their round because it is the last that the rules allow; then all seats share.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from splendor_env.agents import Agent
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import determinize_games
from splendor_env.core.random import HIDDEN_STREAM, check_seed, hash_seed
from splendor_env.core.state import MAX_PLAYERS, Rules, SplendorError
from splendor_env.evaluation.arena import ask
from splendor_env.game import Game

MAX_REPEATS = 1000
"""All positions of all repeats lie in memory at once."""


@dataclass(frozen=True)
class Puzzle:
    """One decision.

    Attributes:
        name: What the position is about; unique.
        kind: What it asks for, such as "block".
        position: As `Game.from_dict` takes it.
        best: All best moves in notation.
    """

    name: str
    kind: str
    position: dict[str, Any]
    best: tuple[str, ...]

    def game(self) -> Game:
        """A new game in the position."""
        return Game.from_dict(self.position)


@dataclass(frozen=True)
class Answer:
    """What an agent has chosen in one puzzle.

    Attributes:
        name, kind, best: Of the puzzle.
        players: Seats.
        chosen: How often each move was chosen; "none" for no action or an illegal one.
        solved: Part of the choices that were best.
        random: Part of the legal moves that are: the score of the agent "random".
    """

    name: str
    kind: str
    players: int
    best: tuple[str, ...]
    chosen: dict[str, int]
    solved: float
    random: float


@dataclass(frozen=True)
class KindScore:
    """Means over the puzzles of one kind: `solved` by the agent, and what "random" would."""

    kind: str
    puzzles: int
    solved: float
    random: float


@dataclass(frozen=True)
class PuzzleResult:
    """How an agent did.

    Attributes:
        agent: Its name.
        version: Of the set of puzzles; results of different versions cannot be compared.
        seed: Of the cards that the agent cannot see.
        repeats: Choices in each puzzle.
        solved, random: Means over all puzzles.
        by_kind: The same for each kind.
        answers: One for each puzzle.
    """

    agent: str
    version: int
    seed: int
    repeats: int
    solved: float
    random: float
    by_kind: tuple[KindScore, ...]
    answers: tuple[Answer, ...]


def load_puzzles(num_players: int | None = None) -> tuple[int, list[Puzzle]]:
    """The version of the set and its puzzles, all or those for `num_players`.

    Raises:
        SplendorError: There is none for this number.
    """
    text = resources.files("splendor_env").joinpath("data", "puzzles.json").read_text("utf-8")
    content = json.loads(text)
    puzzles = [
        Puzzle(one["name"], one["kind"], one["position"], tuple(one["best"]))
        for one in content["puzzles"]
        if num_players in (None, len(one["position"]["seats"]))
    ]
    if not puzzles:
        raise SplendorError(f"there are puzzles for 2 to {MAX_PLAYERS} players, not {num_players}")
    return content["version"], puzzles


def solve(
    agent: Agent, seed: int = 0, repeats: int = 8, num_players: int | None = None
) -> PuzzleResult:
    """Ask the agent for one decision in each puzzle, several times over.

    Args:
        agent: Gets copies of the games in which all that the mover cannot see is drawn anew, as in
            the arena; all puzzles by the same rules in one call.
        seed: Of these draws.
        repeats: Choices in each puzzle, 1 to `MAX_REPEATS`: they average an agent that chooses at
            random.
        num_players: Ask only the puzzles for so many.

    Raises:
        SplendorError: An argument is out of range, or the agent has raised an exception or does not
            answer with integers.
    """
    if not 1 <= repeats <= MAX_REPEATS:
        raise SplendorError(f"repeats must be 1 to {MAX_REPEATS}, not {repeats}")
    check_seed(seed)
    version, puzzles = load_puzzles(num_players)
    games = [puzzle.game() for puzzle in puzzles]
    actions = np.empty((len(puzzles), repeats), np.int64)
    by_rules: dict[Rules, list[int]] = {}
    for index, game in enumerate(games):
        by_rules.setdefault(game.rules, []).append(index)
    for rules, indices in by_rules.items():
        actions[indices] = _ask(agent, games, rules, indices, seed, repeats)
    answers = tuple(
        _answer(puzzle, game, chosen)
        for puzzle, game, chosen in zip(puzzles, games, actions, strict=True)
    )
    kinds = dict.fromkeys(puzzle.kind for puzzle in puzzles)
    by_kind = []
    for kind in kinds:
        own = [answer for answer in answers if answer.kind == kind]
        by_kind.append(KindScore(kind, len(own), *_means(own)))
    return PuzzleResult(
        agent.name, version, seed, repeats, *_means(answers), tuple(by_kind), answers
    )


def _ask(
    agent: Agent, games: Sequence[Game], rules: Rules, indices: list[int], seed: int, repeats: int
) -> np.ndarray:
    """The agent's actions (len(indices), repeats)."""
    puzzle = np.repeat(indices, repeats)
    shown = np.concatenate([games[index].games for index in puzzle])
    places = puzzle * repeats + np.tile(np.arange(repeats), len(indices))
    seeds = np.array(
        [hash_seed(np.uint64(seed), HIDDEN_STREAM, place) for place in places], np.uint64
    )
    determinize_games(shown, rules, shown["player"].copy(), seeds)
    actions = ask(agent, shown, rules, places * MAX_PLAYERS + shown["player"])
    return actions.reshape(len(indices), repeats)


def _answer(puzzle: Puzzle, game: Game, actions: np.ndarray) -> Answer:
    mask = game.action_mask
    moves = [
        ACTION_NAMES[action] if 0 <= action < NUM_ACTIONS and mask[action] else "none"
        for action in actions
    ]
    return Answer(
        name=puzzle.name,
        kind=puzzle.kind,
        players=game.rules.num_players,
        best=puzzle.best,
        chosen=dict(Counter(moves).most_common()),
        solved=sum(move in puzzle.best for move in moves) / len(moves),
        random=len(puzzle.best) / int(mask.sum()),
    )


def _means(answers: Iterable[Answer]) -> tuple[float, float]:
    pairs = [(answer.solved, answer.random) for answer in answers]
    solved, random = np.mean(pairs, 0).tolist()
    return solved, random
