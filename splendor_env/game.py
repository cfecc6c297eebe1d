"""One game for people: legal moves, push and undo, notation, any position by name, clear errors.

>>> from splendor_env import Game
>>> game = Game(num_players=2, seed=7)
>>> game.push("take W U G")
>>> game.player, game.undo(), game.player
(1, 'take W U G', 0)
"""

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import (
    deal_games,
    determinize_games,
    hash_positions,
    illegal_action_message,
    observe_games,
    step_games,
    write_action_masks,
    write_returns,
    write_victory_shares,
)
from splendor_env.core.gems import COLOR_LETTERS
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import check_seed
from splendor_env.core.state import (
    GAME,
    EndReason,
    IllegalActionError,
    Phase,
    Rules,
    SplendorError,
    resolve_rules,
)
from splendor_env.position import card_id, describe, describe_seen, set_up

_LOWER_CASE = {name.lower(): action for action, name in enumerate(ACTION_NAMES)}
_EXAMPLES = (
    "'take W U G', 'take R R', 'reserve 2-3', 'reserve deck 1', 'buy 1-4', 'buy reserved 2', "
    "'return gold', 'noble 2', 'pay gold for R', 'done', 'pass'"
)


class NotationError(SplendorError):
    """A text that is not the notation of any action."""


def parse_move(text: str) -> int:
    """The action that a text names; case, spacing and the order of colours taken do not matter.

    Raises:
        NotationError: It names none.
    """
    words = text.lower().split()
    if words[:1] == ["take"]:
        letters = COLOR_LETTERS.lower()
        words[1:] = sorted(words[1:], key=lambda word: (letters + word).index(word))
    action = _LOWER_CASE.get(" ".join(words))
    if action is None:
        raise NotationError(f"cannot read move {text!r}; moves look like {_EXAMPLES}")
    return action


class Game:
    """One game of Splendor.

    Args:
        rules: A preset's name, or the rules themselves.
        num_players: 2 to 4; None takes it from `rules`, 2 for a preset.
        seed: 64 bits that fix the deal and every draw; None takes them from the operating system.

    Attributes:
        rules: The variant.
        games: (1,) GAME, the position as the core takes it. Set it with `games[:] = ...`.
        history: The moves pushed so far, in notation.

    Raises:
        SplendorError: An argument has a value that is not allowed.
    """

    def __init__(
        self,
        rules: Rules | str = "standard",
        num_players: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.rules = resolve_rules(rules, num_players)
        self.games = np.zeros(1, GAME)
        self.history: list[str] = []
        self._earlier: list[np.ndarray] = []
        deal_games(
            self.games, self.rules, check_seed(secrets.randbits(64) if seed is None else seed)
        )

    @property
    def player(self) -> int:
        """Seat to move; of the last move once the game is over."""
        return int(self.games["player"][0])

    @property
    def phase(self) -> Phase:
        """What that seat decides now."""
        return Phase(self.games["phase"][0])

    @property
    def rounds(self) -> int:
        """Rounds begun."""
        return int(self.games["rounds"][0])

    @property
    def points(self) -> list[int]:
        """Prestige points by seat."""
        return self.games["points"][0, : self.rules.num_players].tolist()

    @property
    def end_reason(self) -> EndReason:
        """Why the game is over, or `EndReason.RUNNING`."""
        return EndReason(self.games["end_reason"][0])

    @property
    def is_over(self) -> bool:
        """Whether no further move is possible."""
        return self.end_reason != EndReason.RUNNING

    @property
    def returns(self) -> list[float]:
        """Reward by seat, zero while the game runs and after the round limit."""
        out = np.zeros((1, self.rules.num_players))
        write_returns(self.games, self.rules, out)
        return out[0].tolist()

    @property
    def winners(self) -> list[int]:
        """Seats that share the victory; none while the game runs and after the round limit."""
        if self.end_reason in (EndReason.RUNNING, EndReason.ROUND_LIMIT):
            return []
        out = np.zeros((1, self.rules.num_players))
        write_victory_shares(self.games, self.rules, out)
        return np.flatnonzero(out[0]).tolist()

    @property
    def action_mask(self) -> np.ndarray:
        """(A,) int8, 1 for a legal action of the seat to move."""
        mask = np.zeros((1, NUM_ACTIONS), np.int8)
        write_action_masks(self.games, self.rules, mask)
        return mask[0]

    @property
    def legal_actions(self) -> list[int]:
        """Legal actions in ascending order."""
        return np.flatnonzero(self.action_mask).tolist()

    @property
    def legal_moves(self) -> list[str]:
        """The same in notation."""
        return [ACTION_NAMES[action] for action in self.legal_actions]

    def observe(self, seat: int | None = None) -> np.ndarray:
        """(D,) float32, what a seat sees; by default the one to move."""
        out = np.empty((1, OBSERVATION_SIZE), np.float32)
        observer = self.player if seat is None else self._check_seat(seat)
        observe_games(self.games, self.rules, np.array([observer], np.int8), out)
        return out[0]

    def push(self, move: str | int, draw: str | int | None = None) -> None:
        """Make a move, given in notation or as an action.

        Args:
            move: A legal move.
            draw: Card (a name such as "W00021", or 0 to 89) that a refill or blind reserve turns
                up, in place of the one that the seed decides.

        Raises:
            NotationError: `move` cannot be read.
            IllegalActionError: It is not legal.
            SplendorError: `draw` is not a card that this move can turn up.
            In each case the game stays as it was.
        """
        action = parse_move(move) if isinstance(move, str) else move
        mask = self.action_mask
        is_index = isinstance(action, int | np.integer) and 0 <= action < NUM_ACTIONS
        if not is_index or not mask[action]:
            raise IllegalActionError(illegal_action_message(action, mask))
        after = self.games.copy()
        card = -1 if draw is None else card_id(draw)
        step_games(after, np.array([action], np.int32), self.rules, card)
        if draw is not None and not (card in self.games["deck"] and card not in after["deck"]):
            raise SplendorError(f"{ACTION_NAMES[action]!r} cannot turn up card {draw!r}")
        self._earlier.append(self.games.copy())
        self.history.append(ACTION_NAMES[action])
        self.games[:] = after

    def undo(self) -> str:
        """Take the last move back and return it.

        Raises:
            SplendorError: There is none.
        """
        if not self._earlier:
            raise SplendorError("no move to undo")
        self.games[:] = self._earlier.pop()
        return self.history.pop()

    def copy(self) -> "Game":
        """An independent game in the same position, with the same future."""
        twin = object.__new__(Game)
        twin.rules = self.rules
        twin.games = self.games.copy()
        twin.history = self.history.copy()
        twin._earlier = self._earlier.copy()
        return twin

    def determinize(self, seat: int, seed: int) -> "Game":
        """A copy, without history, in which all that `seat` cannot see is drawn from `seed`."""
        twin = self.copy()
        twin.history, twin._earlier = [], []
        observer = np.array([self._check_seat(seat)], np.int8)
        determinize_games(twin.games, self.rules, observer, np.array([check_seed(seed)]))
        return twin

    def position_hash(self) -> int:
        """64 bits that are equal for equal positions, in every process and on every machine.

        Covers the table and the set of undrawn cards, not the order in which they will come.
        """
        out = np.zeros(1, np.uint64)
        hash_positions(self.games, out)
        return int(out[0])

    def board(self, viewer: int | None = None) -> str:
        """The board as text with the secrets of seat `viewer`; None sees nobody's."""
        from splendor_env.render.text import board_text

        seat = None if viewer is None else self._check_seat(viewer)
        return board_text(self.games[0], self.rules, seat)

    def __str__(self) -> str:
        return self.board()

    def __repr__(self) -> str:
        state = self.end_reason.name.lower() if self.is_over else f"seat {self.player} to move"
        return f"<Game of {self.rules.num_players}, round {self.rounds}, {state}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Game):
            return NotImplemented
        return self.rules == other.rules and bool((self.games == other.games).all())

    __hash__ = None  # type: ignore[assignment]

    def _check_seat(self, seat: int) -> int:
        is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
        if not is_integer or not 0 <= seat < self.rules.num_players:
            raise SplendorError(f"seat must be 0 to {self.rules.num_players - 1}, not {seat!r}")
        return int(seat)

    def to_dict(self) -> dict[str, Any]:
        """The whole position by name, ready for JSON; `from_dict` reads it.

        It holds the secrets of all seats and the seed.
        """
        return describe(self.games[0], self.rules)

    def seen_by(self, seat: int) -> dict[str, Any]:
        """The position by name as a seat sees it, ready for JSON; `from_dict` reads it.

        It has no `seed`, the cards that others have reserved in secret are None with their
        `level`, and instead of `decks` there is `unseen`: by level, all cards that this seat has
        not seen, whether they lie in a deck or in such a reserve.
        """
        return describe_seen(self.games[0], self.rules, self._check_seat(seat))

    @classmethod
    def from_dict(cls, position: Mapping[str, Any]) -> "Game":
        """Set up any position by name, as `to_dict` and `seen_by` write it.

        What is left out has a default; what a seat has not seen is drawn from `seed`.

        Defaults: standard rules for as many players as `seats` (2 if there are none either), seat
        0 to play in round 1, empty-handed seats, the tokens that no seat holds in the bank, decks
        of all cards not named elsewhere, market slots drawn from those decks and nobles dealt by
        `seed` (0). `rules` may be a preset's name or changes of the standard, cards, nobles and
        colours go by name, and counts left out are zero:

            >>> game = Game.from_dict({
            ...     "market": {"1-1": "W00021"},
            ...     "nobles": ["00044"],
            ...     "seats": [{"tokens": {"R": 2, "K": 1}, "bonuses": {"R": 4, "K": 3}}, {}],
            ... })
            >>> "buy 1-1" in game.legal_moves
            True

        Raises:
            SplendorError: An unknown key or name, a card in two places, counts that the rules
                cannot have, or a phase that contradicts the position.
        """
        rules, games = set_up(position)
        game = cls(rules, seed=0)
        game.games[:] = games
        return game
