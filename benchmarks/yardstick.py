"""The public networks of cestpasphoto/alpha-zero-general as an agent of ours, for measuring only.

    python benchmarks/yardstick.py ../shared/yardstick --players 2 --agent greedy --games 1000

As a spec: `benchmarks.yardstick:PATH`, a file or the folder of all three, plays the arg-max of the
policy, `mcts:sims=800,eval=benchmarks.yardstick:PATH` our search on its policy and values. Its
rules differ from ours:

- It never holds more than ten tokens. A reserve at ten takes the gold and returns it. Takes above
  ten are masked; with rules that always ask for three, "take W" at nine is take three, return two.
- It never gives tokens back as a turn, and passes only if nothing else is left; as long as our
  rules still allow a take, that pass is to take tokens and return the same ones.
- Of two nobles at once it got both. Here it takes the one in the lowest slot.

These restrict it alone: its opponents play the full official rules, which is an advantage for them
("full rules"; `common_subset.py` keeps them too from takes and reserves after which tokens go back,
but for those above). Opponents' blind reserves are shown as they stand in the
record: the arena has drawn them anew, so the measure is fair.
"""

import argparse
import importlib
import time
from pathlib import Path

import numpy as np

from splendor_env.agents import Agent
from splendor_env.agents import make_agent as make_ours
from splendor_env.core._jit import jit
from splendor_env.core.actions import (
    BUY,
    BUY_RESERVED,
    DONE,
    NOBLE,
    NUM_ACTIONS,
    NUM_MARKET,
    PASS,
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKE_ALIKE,
    TAKE_ONE,
    TAKE_THREE,
    TAKE_TWO,
    TAKEN_GEMS,
)
from splendor_env.core.batch import write_victory_shares
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_NAMES,
    CARD_POINTS,
    NOBLE_COST,
    NUM_CARDS,
    NUM_LEVELS,
)
from splendor_env.core.gems import GEM, GOLD, NO_GEMS, NUM_COLORS, count, covers, gold_of, total
from splendor_env.core.rules import hand_size, legal_actions, qualifying_nobles, step
from splendor_env.core.state import (
    MARKET_SLOTS,
    MAX_RESERVED,
    EndReason,
    Phase,
    Rules,
    SplendorError,
    standard,
)
from splendor_env.evaluation import play_match
from splendor_env.heuristics import choose_greedy

NUM_MOVES = 81
COLUMNS = 7
POINTS = 6
"""Column of points, after the colours and gold."""
DECK_COLORS = "URKWG"
"""Bonus colours of the columns of the deck rows; everywhere else it is W U G R K."""
DECK_ORDER = {
    "U": "00003 10002 00202 10220 01310 10111 10121 00040 02230 02303 05000 53000 20014 06000 "
    "30335 70000 63003 73000",
    "R": "30000 02100 20020 20102 10013 11101 21101 40000 20023 03023 00005 30005 14200 00060 "
    "35303 00700 03630 00730",
    "K": "00300 00210 20200 22010 00131 11110 12110 04000 32200 30302 50000 00530 01420 00006 "
    "33530 00070 00363 00073",
    "W": "03000 00021 02002 02201 31001 01111 01211 00400 00322 23030 00050 00053 00142 60000 "
    "03353 00007 30036 30007",
    "G": "00030 21000 02020 01022 13100 11011 11012 00004 23002 30230 00500 05300 42001 00600 "
    "53033 07000 36300 07300",
}
"""Costs W U G R K by bonus colour: 8 cards of level 1, 6 of level 2, 4 of level 3."""
CARDS_OF_LEVEL = (8, 6, 4)

MOVE_BUY = 0
MOVE_RESERVE = MOVE_BUY + NUM_MARKET
MOVE_RESERVE_DECK = MOVE_RESERVE + NUM_MARKET
MOVE_BUY_RESERVED = MOVE_RESERVE_DECK + NUM_LEVELS
MOVE_TAKE = MOVE_BUY_RESERVED + MAX_RESERVED
MOVE_RETURN = MOVE_TAKE + TAKEN_GEMS.size
MOVE_PASS = NUM_MOVES - 1

_MOST_TOKENS = 10
_FREE_RULES = {"take_fewer", "payment", "hide_reserves", "max_rounds"}
_VALUE_OF_LOSS = {2: -1.0, 3: -0.84, 4: -0.79}
"""What it says of a seat that has lost, by number of players: the zero of the shares."""
_SMALLEST = 1e-3
_ONE = np.uint64(1)


def _deck_places() -> tuple[np.ndarray, np.ndarray]:
    """Column (90,) and value of the bit (90,) of each card in the deck rows."""
    columns, bits = np.zeros(NUM_CARDS, np.int64), np.zeros(NUM_CARDS, np.int64)
    for column, color in enumerate(DECK_COLORS):
        costs = iter(DECK_ORDER[color].split())
        for size in CARDS_OF_LEVEL:
            for index in range(size):
                card = CARD_NAMES.index(color + next(costs))
                columns[card], bits[card] = column, 1 << (7 - index)
    return columns, bits


_DECK_COLUMN, _DECK_BIT = _deck_places()
_TAKES = np.r_[TAKE_ONE:TAKE_ALIKE, TAKE_TWO:TAKE_ONE, TAKE_THREE:TAKE_TWO, TAKE_ALIKE:RESERVE]
"""(30,) our take actions in its order: one, two different, three different, two alike."""


def num_rows(num_players: int) -> int:
    """Rows of its board."""
    return 32 + 10 * num_players + num_players**2


@jit
def write_board(game, rules, board):
    """Write the position, seen by the seat to move, into `board` (R, 7) float32."""
    num_players = rules.num_players
    mover = np.int64(game.player)
    board[:] = 0
    _write_gems(game.bank, board[0])
    plies = (game.rounds - 1) * num_players + mover
    board[0, POINTS] = _signed_byte(plies)
    for level in range(NUM_LEVELS):
        for slot in range(MARKET_SLOTS):
            row = 1 + 2 * (level * MARKET_SLOTS + slot)
            _write_card(game.market[level, slot], board[row], board[row + 1])
        _write_deck(game, level, board[25 + 2 * level], board[26 + 2 * level])
    for seat in range(num_players):
        place = (seat - mover) % num_players  # the mover is its player 0, clockwise from there
        card_points = np.int64(game.points[seat])
        for slot in range(num_players + 1):
            if game.noble_owner[slot] == seat:
                card_points -= rules.noble_points
                row = 32 + 2 * num_players + (num_players + 1) * place + slot
                _write_noble(game.nobles[slot], rules, board[row])
        _write_gems(game.tokens[seat], board[32 + num_players + place])
        row = 32 + 3 * num_players + num_players**2 + place
        _write_gems(game.bonuses[seat], board[row])
        board[row, POINTS] = card_points
        for slot in range(MAX_RESERVED):
            row = 32 + 4 * num_players + num_players**2 + 6 * place + 2 * slot
            _write_card(game.reserved[seat, slot], board[row], board[row + 1])
    for slot in range(num_players + 1):
        if game.noble_owner[slot] < 0:
            _write_noble(game.nobles[slot], rules, board[31 + slot])


@jit
def _signed_byte(value):
    return (value + 128) % 256 - 128


@jit
def _write_gems(gems, row):
    for color in range(NUM_COLORS + 1):
        row[color] = count(gems, color)


@jit
def _write_card(card, cost, gain):
    if card >= 0:
        _write_gems(CARD_COST[card], cost)
        gain[CARD_BONUS[card]] = 1
        gain[POINTS] = CARD_POINTS[card]


@jit
def _write_noble(noble, rules, row):
    if noble >= 0:
        _write_gems(NOBLE_COST[noble], row)
        row[POINTS] = rules.noble_points


@jit
def _write_deck(game, level, num_left, which):
    """Cards left by bonus colour, and which they are as a signed byte."""
    for index in range(game.deck_size[level]):
        card = game.deck[level, index]
        num_left[_DECK_COLUMN[card]] += 1
        which[_DECK_COLUMN[card]] += _DECK_BIT[card]
    for column in range(NUM_COLORS):
        which[column] = _signed_byte(np.int64(which[column]))


@jit
def write_moves(game, rules, is_valid, ours, surplus):
    """Write its moves in a position where a turn begins.

    Args:
        is_valid: (81,) bool, written: what it may choose.
        ours: (81,) int32, written: our action for each valid move.
        surplus: (81,) uint64, written: packed tokens to return after it, in the same turn.
    """
    legal, _ = legal_actions(game, rules)
    num_tokens = total(game.tokens[game.player])
    is_valid[:] = False
    surplus[:] = NO_GEMS
    gold_too_many = GEM[GOLD] if num_tokens >= _MOST_TOKENS and gold_of(game.bank) > 0 else NO_GEMS
    for move in range(MOVE_TAKE):
        if move < MOVE_RESERVE:
            ours[move] = BUY + move - MOVE_BUY
        elif move < MOVE_RESERVE_DECK:
            ours[move] = RESERVE + move - MOVE_RESERVE
            surplus[move] = gold_too_many
        elif move < MOVE_BUY_RESERVED:
            ours[move] = RESERVE_DECK + move - MOVE_RESERVE_DECK
            surplus[move] = gold_too_many
        else:
            ours[move] = BUY_RESERVED + move - MOVE_BUY_RESERVED
        is_valid[move] = (legal >> np.uint64(ours[move])) & _ONE != 0
    for index in range(_TAKES.size):
        move = MOVE_TAKE + index
        taken = TAKEN_GEMS[_TAKES[index]]
        if num_tokens + total(taken) <= _MOST_TOKENS:
            action = _TAKES[index]
            if (legal >> np.uint64(action)) & _ONE == 0 and (
                num_tokens + total(taken) == _MOST_TOKENS
            ):
                action = _first_take_of(taken, legal)
            if action >= 0 and (legal >> np.uint64(action)) & _ONE != 0:
                is_valid[move] = True
                ours[move] = action
                surplus[move] = TAKEN_GEMS[action] - taken
    if not is_valid.any():
        take = _first_take_of(NO_GEMS, legal)
        is_valid[MOVE_PASS] = True
        ours[MOVE_PASS] = PASS if take < 0 else take
        surplus[MOVE_PASS] = NO_GEMS if take < 0 else TAKEN_GEMS[take]


@jit
def _first_take_of(gems, legal):
    """The first legal take that has at least these tokens; -1 if there is none."""
    for index in range(_TAKES.size):
        action = _TAKES[index]
        if (legal >> np.uint64(action)) & _ONE != 0 and covers(TAKEN_GEMS[action], gems):
            return action
    return -1


@jit
def _write_positions(games, rules, board, is_valid, ours, surplus):
    for i in range(games.shape[0]):
        write_board(games[i], rules, board[i])
        write_moves(games[i], rules, is_valid[i], ours[i], surplus[i])


@jit
def _choose_in_turn(game, rules):
    """The bridge's own choice inside a turn, where its rules have nothing to choose.

    A return that no move of it has planned is the gold of a reserve, else what greedy returns.
    """
    seat = game.player
    if game.phase == Phase.PAY:
        return DONE
    if game.phase == Phase.NOBLE:
        slots = qualifying_nobles(game)
        slot = 0
        while slots >> slot & 1 == 0:
            slot += 1
        return NOBLE + slot
    is_one_over = total(game.tokens[seat]) == _MOST_TOKENS + 1
    if is_one_over and gold_of(game.tokens[seat]) > 0 and hand_size(game, seat) > 0:
        return RETURN + GOLD
    return choose_greedy(game, rules)


@jit
def _choose_each_in_turn(games, rules, out):
    for i in range(games.shape[0]):
        out[i] = _choose_in_turn(games[i], rules)


@jit
def _finish_turns(games, rules, out):
    """Play each turn under way to its end; write the first choice into `out` (B,), else -1."""
    for i in range(games.shape[0]):
        game = games[i]
        out[i] = -1
        while game.phase != Phase.PLAY and game.end_reason == EndReason.RUNNING:
            action = _choose_in_turn(game, rules)
            if out[i] < 0:
                out[i] = action
            step(game, action, rules, -1)


class YardstickAgent:
    """Plays the likeliest valid move of a network; no randomness.

    Attributes:
        name: `yardstick`.
        num_moves, num_passes, num_nobles: Turns asked about so far, how many of them were passes,
            and how often two nobles came at once, of which it got one.

    Args:
        path: An ONNX file, or a folder with one for each number of players (`*_2p.onnx`), each
            read when it is first needed.
        num_players: Read this one at once.
        threads: Of onnxruntime.

    Raises:
        SplendorError: No onnxruntime, or no such network.
    """

    def __init__(
        self, path: str | Path, num_players: int | None = None, *, threads: int = 1
    ) -> None:
        self.name = "yardstick"
        self.num_moves = self.num_passes = self.num_nobles = 0
        self._path = Path(path)
        self._threads = threads
        self._sessions = {}
        self._surplus: dict[int, np.uint64] = {}  # by game_id: still to return in this turn
        if num_players is not None:
            self._session(num_players)

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        games = np.ascontiguousarray(games)
        actions = np.empty(len(games), np.int32)
        begins = games["phase"] == Phase.PLAY
        self.num_moves += int(begins.sum())
        self.num_nobles += int((games["phase"] == Phase.NOBLE).sum())
        rows = np.flatnonzero(begins)
        if len(rows):
            log_probability, _, ours, surplus = self._ask(games[rows], rules)
            move = log_probability.argmax(1)
            self.num_passes += int((move == MOVE_PASS).sum())
            actions[rows] = ours[np.arange(len(rows)), move]
            planned = surplus[np.arange(len(rows)), move]
            for index in np.flatnonzero(planned):
                self._surplus[int(game_id[rows[index]])] = planned[index]
        rows = np.flatnonzero(~begins)
        if len(rows):
            chosen = np.empty(len(rows), np.int32)
            _choose_each_in_turn(games[rows], rules, chosen)
            for index in np.flatnonzero(games["phase"][rows] == Phase.RETURN):
                chosen[index] = self._return(int(game_id[rows[index]]), int(chosen[index]))
            actions[rows] = chosen
        return actions

    def _return(self, game_id: int, unplanned: int) -> int:
        """The next token of the plan of this turn, or what is returned without one."""
        gems = self._surplus.pop(game_id, NO_GEMS)
        for color in range(GOLD, -1, -1):
            if count(gems, color) > 0:
                if gems != GEM[color]:
                    self._surplus[game_id] = gems - GEM[color]
                return RETURN + color
        return unplanned

    def evaluate_games(self, games: np.ndarray, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
        """What it says of positions, for a search.

        Takes above ten tokens have no probability. Inside a turn (return, noble, payment) the
        bridge's own choice has all of it, and the value is that of the position when the turn is
        over: it is never asked about the middle of a turn. A game that is over has its result.

        Args:
            games: (B,) GAME, which stay as they are.
            rules: The variant.

        Returns:
            Log-probabilities of our actions (B, A) float32, -inf where there is none, and expected
            shares of the victory (B, N) float32, which add up to 1: the seat to move first, then
            clockwise.
        """
        num_players = rules.num_players
        after = np.ascontiguousarray(games).copy()
        mover = after["player"].astype(np.int64)
        chosen = np.empty(len(after), np.int32)
        _finish_turns(after, rules, chosen)
        log_probability = np.full((len(after), NUM_ACTIONS), -np.inf, np.float32)
        log_probability[np.flatnonzero(chosen >= 0), chosen[chosen >= 0]] = 0
        share = np.zeros((len(after), num_players))  # by seat
        is_over = after["end_reason"] != EndReason.RUNNING
        results = share[is_over]
        write_victory_shares(after[is_over], rules, results)
        share[is_over] = results
        rows = np.flatnonzero(~is_over)
        if len(rows):
            of_moves, value, ours, _ = self._ask(after[rows], rules)
            seat = (after["player"][rows, None] + np.arange(num_players)) % num_players
            seen = np.maximum(value - _VALUE_OF_LOSS[num_players], _SMALLEST)
            share[rows[:, None], seat] = seen / seen.sum(1, keepdims=True)
            row, move = np.nonzero((of_moves > -1e6) & (chosen[rows] < 0)[:, None])
            target = log_probability, (rows[row], ours[row, move])
            np.logaddexp.at(*target, of_moves[row, move])  # several moves may be one action
        seat = (mover[:, None] + np.arange(num_players)) % num_players
        return log_probability, np.take_along_axis(share, seat, 1).astype(np.float32)

    def _ask(self, games: np.ndarray, rules: Rules) -> tuple[np.ndarray, ...]:
        """Log-probabilities (B, 81), values (B, N), our actions (B, 81) and surplus (B, 81)."""
        session = self._session(rules.num_players)
        _check_rules(rules)
        board = np.empty((len(games), num_rows(rules.num_players), COLUMNS), np.float32)
        is_valid = np.empty((len(games), NUM_MOVES), np.bool_)
        ours = np.full((len(games), NUM_MOVES), -1, np.int32)
        surplus = np.empty((len(games), NUM_MOVES), np.uint64)
        _write_positions(games, rules, board, is_valid, ours, surplus)
        inputs = {"board": board, "valid_actions": is_valid}
        log_probability, value = session.run(["pi", "v"], inputs)
        return log_probability, value, ours, surplus

    def _session(self, num_players: int):
        if num_players not in self._sessions:
            try:
                onnxruntime = importlib.import_module("onnxruntime")
            except ImportError as error:
                raise SplendorError(f"the yardstick needs onnxruntime ({error})") from error
            path = self._path
            if path.is_dir():
                path = next(iter(sorted(path.glob(f"*_{num_players}p.onnx"))), path)
            if not path.is_file():
                raise SplendorError(f"no network for {num_players} players in {self._path}")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
            if session.get_inputs()[0].shape[1:] != [num_rows(num_players), COLUMNS]:
                raise SplendorError(f"{path} is not a network for {num_players} players")
            self._sessions[num_players] = session
        return self._sessions[num_players]


def _check_rules(rules: Rules) -> None:
    """Refuse rules that its board cannot say."""
    expected = standard(rules.num_players)._asdict()
    for name, here in rules._asdict().items():
        if name not in _FREE_RULES and here != expected[name]:
            raise SplendorError(f"the yardstick plays {name}={expected[name]}, not {here}")


def make_agent(argument: str, seed: int = 0) -> YardstickAgent:
    """The agent of the spec `benchmarks.yardstick:ARGUMENT`; it is deterministic."""
    return YardstickAgent(argument)


class _Timed:
    """An agent that counts its decisions and the seconds they take."""

    def __init__(self, agent: Agent) -> None:
        self.name = agent.name
        self.agent = agent
        self.seconds, self.num_decisions = 0.0, 0

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        actions = self.agent.act(games, rules, game_id)
        self.seconds += time.perf_counter() - start
        self.num_decisions += len(games)
        return actions

    def seconds_per_decision(self) -> float:
        return self.seconds / max(1, self.num_decisions)


def main() -> None:
    """Play an agent against the yardstick, one in each seat in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="an ONNX file or the folder of all of them")
    parser.add_argument("--agent", default="greedy", help="a spec")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rules = standard(options.players)
    ours = _Timed(make_ours(options.agent, options.seed))
    yardstick = _Timed(YardstickAgent(options.path, options.players))
    warm_up = min(options.games, 20)
    play_match(ours, yardstick, rules, warm_up, options.seed)  # compiles
    print(
        "one of              against             share of victories     par  rounds  illegal  games"
        "  ties  truncated"
    )
    pairings = [(ours, yardstick), (yardstick, ours)]
    if options.players == 2:  # the same games in both
        pairings = pairings[:1]
    for one, others in pairings:
        one.seconds = one.num_decisions = others.seconds = others.num_decisions = 0
        result = play_match(one, others, rules, options.games, options.seed)
        share = f"{result.win_share:.1%} [{result.low:.1%}, {result.high:.1%}]"
        print(
            f"{one.name:20}{others.name:20}{share:21}{1 / options.players:5.1%}  "
            f"{result.rounds:6.1f}  {result.illegal + result.illegal_against:7}  {result.games:5}"
            f"  {result.ties:4}  {result.truncated:9}"
        )
    for side in (ours, yardstick):
        print(f"{side.name}: {side.seconds_per_decision() * 1e6:,.1f} microseconds a decision")
    bridge = yardstick.agent
    print(
        f"yardstick: {bridge.num_moves} turns, {bridge.num_passes} passes, two nobles at once "
        f"{bridge.num_nobles} times"
    )


if __name__ == "__main__":
    main()
