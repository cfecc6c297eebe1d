"""A table in the terminal: play with agents and people, and step through recorded games.

Knows lines, colours and where games are kept; no rule of the game and no option of the command.
"""

import os
import re
import secrets
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from splendor_env.agents import make_agent
from splendor_env.agents.analysis import analyse, choose, shown_to_mover
from splendor_env.core.actions import BUY, RESERVE_DECK
from splendor_env.core.cards import NOBLE_COST
from splendor_env.core.gems import total
from splendor_env.core.rules import hand_size
from splendor_env.core.state import IllegalActionError, Phase, Rules, SplendorError
from splendor_env.game import Game, parse_move
from splendor_env.record import (
    RecordError,
    Replay,
    append_records,
    read_records,
    record_game,
    replay,
    write_records,
)
from splendor_env.render.text import board_text, count_text, decision_text, draw_text, gems_text

PERSON = "person"
"""Seat of somebody at the terminal, where otherwise the spec of an agent stands."""

_STYLES = {
    "W": "black on bright_white",
    "U": "bright_white on blue",
    "G": "bright_white on green4",
    "R": "bright_white on dark_orange3",
    "K": "bright_white on grey30",
    "gold": "black on yellow3",
}
_GEM = re.compile(r"\b([WUGRK])\d*\b|\b(gold)\b(?: \d+)?")
_STRONG = re.compile(r"can buy|buy: (?=gold)|^> .*", re.MULTILINE)
_HINTS_SHOWN = 5

GREETING = "W white, U blue, G green, R red, K black; gold is any. Type help for more."

HELP = """\
Type the number of a move or the move itself:
  take W U G      three different tokens (or two, or one); W U G R K are the colours
  take R R        two alike
  reserve 2-3     the third card of level 2; `reserve deck 1` the top of a deck
  buy 1-4         a face-up card; `buy reserved 2` from your hand
  return gold     one token above the limit; noble 2; pay gold for R; done; pass
Or: undo (the last decision of a turn that you have not confirmed), hint (or `hint AGENT`), board
(and the last moves), hand (your reserved cards), abandon (the game is lost), help, quit.
Under a card stands what you lack for it after your bonuses and tokens. `3: W2 K2` means that you
have gold in place of one of these four. Nobles ask for cards that you have bought, not for tokens.
"""


def coloured(text: str) -> Text:
    """The text with a colour behind each gem; its letter stays for those who see no colours.

    Names in a record may come from anywhere, so nothing that steers a terminal is let through.
    """
    shown = Text("".join(char if char.isprintable() or char == "\n" else "?" for char in text))
    for match in _STRONG.finditer(shown.plain):
        shown.stylize("bold", *match.span())
    for match in _GEM.finditer(shown.plain):
        shown.stylize(_STYLES[match[1] or match[2]], *match.span())
    return shown


# Where games are kept.


def games_folder() -> Path:
    """The user's folder for the games of `play`, or `splendor-games` here if there can be none."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state, "splendor_env", "games")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = Path("splendor-games")
    folder.mkdir(exist_ok=True)
    return folder


def new_path() -> Path:
    """A file for a new game, named by the time."""
    name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(2)}.jsonl"
    return games_folder() / name


def latest_game() -> Path:
    """The file of the unfinished game that was played last.

    Raises:
        SplendorError: There is none, or the file of a later one cannot be read.
    """
    folder = games_folder()
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True):
        if next(read_records(path, allow_unfinished=True), {}).get("result") is None:
            return path
    raise SplendorError(f"there is no unfinished game in {folder}")


class SavedGame(NamedTuple):
    """What the file of an unfinished game says."""

    shown: Replay
    seats: list[str]
    final: int  # decisions that cannot be taken back


def load_game(path: Path) -> SavedGame:
    """Read what a `Table` has kept, and check it against the rules.

    Raises:
        SplendorError: The file cannot be read, is torn, or is another one.
    """
    records = list(islice(read_records(path, allow_unfinished=True), 2))
    about = records[0].get("about", {}).get("play") if len(records) == 1 else None
    final = about.get("final") if isinstance(about, dict) else None
    if type(final) is not int or "viewer" in records[0]:
        raise SplendorError(f"{path} is no saved game of `splendor play`")
    if records[0]["result"] is not None:
        raise SplendorError(f"the game in {path} is over; `splendor replay` shows it")
    try:
        shown = replay(records[0])
    except RecordError as error:
        raise SplendorError(f"{path}: {error}") from None
    seats = records[0]["seats"]
    open_turn = set(shown.positions["player"][final : len(shown.actions)].tolist())
    if not 0 <= final <= len(shown.actions) or any(seats[seat] != PERSON for seat in open_turn):
        raise SplendorError(f"{path}: about.play.final cannot be {final}")
    return SavedGame(shown, seats, final)


def runs_code(spec: str) -> bool:
    """Whether an agent starts a program or somebody's module, which no file may ask for."""
    kind = spec.partition(":")[0]
    source = spec.partition("eval=")[2].partition(",")[0]
    return kind == "external" or "." in kind or (bool(source) and runs_code(source))


# Play.


class Table:
    """One game at a terminal, kept in a file after every decision.

    A turn of a person is final once it is confirmed; until then each of its decisions can be taken
    back, and the cards that it has turned up are not shown.

    Args:
        console: Where to print; lines are read from standard input.
        rules: The variant.
        seats: `PERSON` or the spec of an agent, by seat.
        seed: Of the deal.
        agent_seed: Of the agents.
        path: The file that keeps the game.
        record: A file that gets the record of the finished game; else it stays in `path`.
        confirm: Ask before a turn becomes final.

    Raises:
        SplendorError: There is no such agent, or an argument has a value that is not allowed.
    """

    def __init__(
        self,
        console: Console,
        rules: Rules,
        seats: Sequence[str],
        *,
        seed: int,
        agent_seed: int,
        path: Path,
        record: Path | None = None,
        confirm: bool = True,
    ) -> None:
        self.game = Game(rules, seed=seed)
        self._console = console
        self._seats = list(seats)
        self._agents = [None if spec == PERSON else make_agent(spec, agent_seed) for spec in seats]
        self._agent_seed = agent_seed
        self._path = path
        self._record = record
        self._confirm = confirm
        people = [seat for seat, spec in enumerate(seats) if spec == PERSON]
        self._viewer = people[0] if len(people) == 1 else None
        """Who alone looks at the screen."""
        self._positions = [self.game.games.copy()]
        self._draws: list[int] = []
        self._final = 0
        self._advisers: dict[str, Any] = {}

    def go_on(self, saved: SavedGame) -> None:
        """Take up a saved game; cards not yet drawn then come by this table's own seed."""
        shown = saved.shown
        seed = self.game.games["seed"].copy()
        self.game.games[:] = shown.positions[:1]
        self.game.games["seed"] = seed
        self._positions = [self.game.games.copy()]
        for action, draw in zip(shown.actions.tolist(), shown.draws.tolist(), strict=True):
            self._push(action, draw if draw >= 0 else None)
        self._final = saved.final
        self._say(self._last_moves())

    def play(self) -> None:
        """Until the game is over or somebody leaves.

        Raises:
            SplendorError: An agent has failed.
            KeyboardInterrupt: By Ctrl-C, after a line about the saved game.
        """
        self._say(f"This game is kept in {self._path} after every move.", has_path=True)
        self._say(GREETING)
        try:
            is_over = self._play()
        except KeyboardInterrupt:
            self._console.print()
            self._say_how_to_go_on()
            raise
        if not is_over:
            self._say_how_to_go_on()

    def _play(self) -> bool:
        """Whether the game has come to its end."""
        while True:
            if self._is_turn_complete():
                if not self._ask_to_confirm():
                    return False
            elif self.game.is_over:
                self._finish()
                return True
            elif self._agents[self.game.player] is not None:
                self._let_agent_move(self._agents[self.game.player])
            else:
                answer = self._ask_for_decision()
                if answer is not None:
                    return answer == "abandon"

    def _say(self, text: str, *, has_path: bool = False) -> None:
        # A path that is broken over lines cannot be copied.
        self._console.print(coloured(text), soft_wrap=has_path)

    def _read(self, prompt: str) -> str:
        """A line; the end of the input is `quit`."""
        try:
            return " ".join(input(prompt).split())
        except EOFError:
            self._console.print()
            return "quit"

    def _say_how_to_go_on(self) -> None:
        if self._path.exists():
            self._say(f"Go on with: splendor play --resume {self._path}", has_path=True)

    # What has happened.

    def _push(self, move: str | int, draw: int | None = None) -> None:
        self.game.push(move, draw)
        before, after = self._positions[-1]["deck"], self.game.games["deck"]
        drawn = np.setdiff1d(before, after)
        self._draws.append(int(drawn[-1]) if drawn.size else -1)
        self._positions.append(self.game.games.copy())

    def _undo(self) -> None:
        self.game.undo()
        self._positions.pop()
        self._draws.pop()
        self._save()

    def _name(self, seat: int) -> str:
        if seat == self._viewer:
            return f"Seat {seat} (you)"
        return f"Seat {seat}" + ("" if self._agents[seat] is None else f" ({self._seats[seat]})")

    def _deed(self, index: int) -> str:
        before, after = self._positions[index : index + 2]
        return decision_text(before[0], after[0], parse_move(self.game.history[index]))

    def _turned_up(self, index: int) -> str:
        before, after = self._positions[index : index + 2]
        action = parse_move(self.game.history[index])
        return draw_text(before[0], after[0], action, self._viewer)

    def _sentence(self, index: int) -> str:
        """A decision that is final."""
        seat = int(self._positions[index]["player"][0])
        parts = [f"{self._name(seat)} {self._deed(index)}", self._turned_up(index)]
        return "; ".join(filter(None, parts)) + "."

    def _last_moves(self) -> str:
        """The last turn of everybody."""
        players = [int(position["player"][0]) for position in self._positions[: self._final]]
        seats: set[int] = set()
        first = self._final
        while first > 0:
            seat = players[first - 1]
            if seat in seats and seat != players[first]:
                break
            seats.add(seat)
            first -= 1
        return "\n".join(self._sentence(index) for index in range(first, self._final))

    def _save(self) -> None:
        """Keep the game; of one that is over, but not confirmed, all but the last decision."""
        number = len(self.game.history) - self.game.is_over
        about = {"play": {"final": min(self._final, number)}}
        try:
            write_records(self._path, [self._recorded(number, about=about, unfinished=True)])
        except RecordError as error:
            self._say(f"This game is NOT kept: {error}")

    def _recorded(self, number: int, **options: Any) -> dict[str, Any]:
        actions = [parse_move(move) for move in self.game.history[:number]]
        deal, draws = self._positions[0], self._draws[:number]
        return record_game(deal, actions, self.game.rules, self._seats, draws=draws, **options)

    # Turns.

    def _let_agent_move(self, agent: Any) -> None:
        """Push the agent's move, chosen without what its seat cannot see."""
        game = self.game
        thinks = Text(f"{self._name(game.player)} thinks")
        is_seen = self._console.is_terminal
        with self._console.status(thinks) if is_seen else nullcontext():
            action = choose(agent, shown_to_mover(game), game.player)
        self._push(action)
        self._final = len(game.history)
        self._say(self._sentence(self._final - 1))
        if not game.is_over:
            self._save()

    def _is_turn_complete(self) -> bool:
        """Whether a person's turn waits for becoming final."""
        if len(self.game.history) == self._final:
            return False
        return self.game.is_over or self.game.player != self._positions[self._final]["player"][0]

    def _ask_to_confirm(self) -> bool:
        """Make the turn final or take its last decision back; False if the person leaves."""
        decisions = range(self._final, len(self.game.history))
        if self._confirm:
            seat = int(self._positions[self._final]["player"][0])
            self._say(f"{self._name(seat)} {', then '.join(map(self._deed, decisions))}.")
            while True:
                line = self._read("Enter to confirm, undo to take back > ").lower()
                if line == "undo":
                    self._undo()
                    return True
                if line == "quit":
                    return False
                if line in ("", "y", "yes", "ok", "confirm"):
                    break
                self._say("Press Enter, or type undo or quit.")
        self._final = len(self.game.history)
        if not self.game.is_over:
            self._save()
        for index in decisions:
            turned_up = self._turned_up(index)
            if not self._confirm:
                self._say(self._sentence(index))
            elif turned_up:  # what was done has been said
                self._say(f"{turned_up[0].upper()}{turned_up[1:]}.")
        return True

    def _ask_for_decision(self) -> str | None:
        """Read lines until one changes the game; "quit" or "abandon" if it ends here."""
        self._show()
        while True:
            line = self._read(self._prompt())
            command, _, argument = line.partition(" ")
            command = command.lower()
            try:
                if command == "quit":
                    return "quit"
                if command == "abandon" and self._abandon():
                    return "abandon"
                if command == "undo":
                    if len(self.game.history) > self._final:
                        self._undo()
                        return None
                    self._say("There is nothing to undo: what has been confirmed is final.")
                elif command == "help":
                    self._say(HELP)
                elif command == "board":
                    self._say(self._last_moves())
                    self._show()
                elif command == "hand":
                    self._show_hand()
                elif command == "hint":
                    self._hint(argument)
                elif command not in ("", "abandon"):
                    self._push_typed(line)
                    self._save()
                    return None
            except IllegalActionError:
                self._say(f"Not possible now: {line}")  # what is possible stands above
            except SplendorError as error:
                self._say(str(error))

    def _push_typed(self, line: str) -> None:
        numbered = {str(number): move for number, move in enumerate(self.game.legal_moves, 1)}
        if line.isdecimal() and line not in numbered:
            raise SplendorError(f"moves are numbered 1 to {len(numbered)}, not {line}")
        self._push(numbered.get(line, line))

    def _prompt(self) -> str:
        held = int(total(self.game.games["tokens"][0, self.game.player]))
        return f"tokens {held}/{self.game.rules.token_limit} > "

    def _show(self) -> None:
        """The board, what is to be decided, and the choices."""
        game, player = self.game, self.game.player
        moves = numbered(game.legal_moves)
        board = board_text(self._visible(), game.rules, self._viewer, player)
        self._say("\n".join(filter(None, [f"\n{board}\n", self._question(), moves])))

    def _visible(self) -> np.record:
        """The position without the cards that came up in the open turn: undo would be a peek."""
        game, start = self.game.games.copy()[0], self._positions[self._final][0]
        game.market[game.market != start.market] = -1
        for index in range(self._final, len(self.game.history)):
            if RESERVE_DECK <= parse_move(self.game.history[index]) < BUY:
                game.reserved[game.player, hand_size(start, game.player)] = -1
        return game

    def _question(self) -> str:
        """What a turn of several decisions asks for; empty at its beginning."""
        game, rules = self.game.games[0], self.game.rules
        if game.phase == Phase.RETURN:
            held = int(total(game.tokens[game.player]))
            return (
                f"Return {held - rules.token_limit} of your {held} tokens, one at a time; "
                f"the limit is {rules.token_limit}:"
            )
        if game.phase == Phase.NOBLE:
            asked = "; ".join(
                f"{move} ({gems_text(NOBLE_COST[int(game.nobles[int(move.split()[1]) - 1])])})"
                for move in self.game.legal_moves
            )
            points = count_text(rules.noble_points, "point")
            return f"Several nobles would visit you, each worth {points}. Choose one: {asked}"
        if game.phase == Phase.PAY:
            return (
                f"You pay with {gems_text(game.payment)}. Put gold in place of a colour, or type "
                "done:"
            )
        return ""

    def _show_hand(self) -> None:
        """The player's own reserved cards, where others look on too."""
        game, player = self.game, self.game.player
        lines = iter(board_text(self._visible(), game.rules, player, player).splitlines())
        for line in lines:
            if f"Seat {player} (you)" in line:
                break
        hand = list(takewhile(lambda line: line.startswith("    "), lines))
        self._say("\n".join(hand) or "You have reserved no card.")
        if self._viewer is None and self._console.is_terminal:
            self._read("Enter to hide them > ")
            self._console.clear()
            self._show()

    def _hint(self, spec: str) -> None:
        """What an agent would do here.

        Raises:
            SplendorError: There is no such agent, it has failed, or it would see a card that the
                person has not seen: undo would be a peek.
        """
        if any(card >= 0 for card in self._draws[self._final :]):
            raise SplendorError(
                "No hint in this turn: an agent would see the card that it has turned up."
            )
        if not spec:
            spec = "pretrained"
            with suppress(SplendorError):
                self._adviser(spec)
            spec = spec if spec in self._advisers else "racer"
        agent = self._adviser(spec)
        try:
            found = analyse(agent, shown_to_mover(self.game))
        except Exception as error:  # whatever an agent does, the game goes on
            raise SplendorError(f"{spec} has failed: {error}") from error
        told = found["choice"]
        if found["win_shares"] or len(found["moves"]) > 1:
            moves = found["moves"][:_HINTS_SHOWN]
            told = ", ".join(f"{one['move']} {one['probability']:.0%}" for one in moves)
        self._say(f"{spec}: {told}")
        if found["win_shares"]:
            shares = enumerate(found["win_shares"])
            self._say(
                "win shares: " + ", ".join(f"seat {seat} {share:.0%}" for seat, share in shares)
            )

    def _adviser(self, spec: str) -> Any:
        if spec not in self._advisers:
            self._advisers[spec] = make_agent(spec, self._agent_seed)
        return self._advisers[spec]

    def _abandon(self) -> bool:
        """Ask, and end the game as lost by the seat to move."""
        player = self.game.player
        question = f"Seat {player} then forfeits this game. Type abandon once more > "
        if self._read(question).lower() != "abandon":
            return False
        forfeit = {"seat": player, "reason": "failed", "detail": "abandoned by a person"}
        self._keep(self._recorded(len(self.game.history), forfeit=forfeit))
        return True

    def _finish(self) -> None:
        game = self.game
        self._say(f"\n{board_text(game.games[0], game.rules, self._viewer)}")
        if self._viewer is not None:
            self._say(f"\n{_farewell(game, self._viewer)}")
        self._keep(self._recorded(len(game.history)))

    def _keep(self, record: dict[str, Any]) -> None:
        """Write the record of a game that is over."""
        write_records(self._path, [record])
        path = self._path
        if self._record is not None:
            append_records(self._record, [record])
            path.unlink()
            path = self._record
        self._say(f"The record of this game: {path}", has_path=True)


def numbered(moves: Sequence[str]) -> str:
    """The moves with their numbers from 1, in three columns."""
    cells = [f"{number:3} {move:<20}" for number, move in enumerate(moves, 1)]
    return "\n".join(
        "".join(cells[start : start + 3]).rstrip() for start in range(0, len(cells), 3)
    )


def _farewell(game: Game, seat: int) -> str:
    if seat not in game.winners:
        return "You have not won." if game.winners else "Nobody has won."
    return "You have won." if len(game.winners) == 1 else "You share the victory."


# Replay.


class RecordedGame:
    """A verified record, turn by turn.

    Args:
        record: Of the game.
        viewer: Seat whose secrets are shown; None shows what everybody saw. In a redacted record
            it is the one that was left.
    """

    def __init__(self, record: dict[str, Any], viewer: int | None) -> None:
        self.shown = replay(record)
        self._record = record
        self.viewer = self.shown.viewer if viewer is None else viewer
        if self.shown.viewer not in (None, self.viewer):
            raise SplendorError(
                f"this record holds what seat {self.shown.viewer} saw, not seat {viewer}"
            )
        players = self.shown.rules.num_players
        if self.viewer is not None and not 0 <= self.viewer < players:
            raise SplendorError(f"the seat must be 0 to {players - 1}, not {self.viewer}")
        self.num_turns = int(self.shown.turn[-1]) + 1 if len(self.shown.turn) else 0
        self._ends = np.searchsorted(self.shown.turn, np.arange(self.num_turns + 1))

    def check_turn(self, turn: int) -> int:
        """The turn itself: 0 is the deal.

        Raises:
            SplendorError: There is no such turn.
        """
        if not 0 <= turn <= self.num_turns:
            raise SplendorError(f"the turn must be 0 to {self.num_turns}, not {turn}")
        return turn

    def position(self, turn: int) -> Any:
        """After a turn."""
        return self.shown.positions[int(self._ends[turn])]

    def deeds(self, turn: int) -> list[str]:
        """A sentence about each decision of a turn."""
        if turn == 0:
            return ["The deal."]
        shown, seats = self.shown, self._record["seats"]
        sentences = []
        for index in range(self._ends[turn - 1], self._ends[turn]):
            before, after = shown.positions[index : index + 2]
            action = int(shown.actions[index])
            name = f"Seat {before.player} ({seats[before.player]})"
            parts = [
                f"{name} {decision_text(before, after, action)}",
                draw_text(before, after, action, self.viewer),
            ]
            sentences.append("; ".join(filter(None, parts)) + ".")
        return sentences

    def note(self, turn: int) -> str:
        """A line for a picture: what was done in the turn."""
        if turn == 0:
            return "The deal."
        first, end = self._ends[turn - 1 : turn + 1]
        positions = self.shown.positions
        deeds = [
            decision_text(positions[i], positions[i + 1], int(self.shown.actions[i]))
            for i in range(first, end)
        ]
        return f"Turn {turn}: seat {positions['player'][first]} {', '.join(deeds)}."

    def page(self, turn: int) -> str:
        """What was done in a turn, and the board after it."""
        board = board_text(
            self.position(turn),
            self.shown.rules,
            self.viewer,
            forfeited_by=self.forfeited_by(turn),
        )
        lines = [f"Turn {turn} of {self.num_turns}", *self.deeds(turn), *self._end(turn)]
        return "\n".join([*lines, "", board, ""])

    def forfeited_by(self, turn: int) -> int | None:
        """The seat that has given the game up after a turn."""
        forfeit = (self._record["result"] or {}).get("forfeit")
        return forfeit["seat"] if forfeit is not None and turn == self.num_turns else None

    def _end(self, turn: int) -> list[str]:
        """How a game ends that does not end by the rules."""
        result = self._record["result"]
        if turn < self.num_turns:
            return []
        if result is None:
            return ["The record ends here; the game goes on."]
        if "forfeit" not in result:
            return []
        forfeit = result["forfeit"]
        detail = f": {forfeit['detail']}" if forfeit["detail"] else ""
        return [f"Seat {forfeit['seat']} forfeits the game ({forfeit['reason']}{detail})."]


def step_through(console: Console, game: RecordedGame) -> None:
    """Show a game turn by turn, as lines ask for it."""
    turn = 0
    while True:
        console.print(coloured(game.page(turn)))
        try:
            line = input("next, back, a turn's number, end, quit > ").strip().lower()
        except EOFError:
            console.print()
            return
        if line in ("q", "quit"):
            return
        if line in ("", "n", "next"):
            turn = min(turn + 1, game.num_turns)
        elif line in ("b", "back"):
            turn = max(turn - 1, 0)
        elif line in ("e", "end"):
            turn = game.num_turns
        elif line.isdecimal() and int(line) <= game.num_turns:
            turn = int(line)
        else:
            console.print(f"Turns are 0 to {game.num_turns}; 0 is the deal.")
