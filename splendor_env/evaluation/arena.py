"""Matches: one agent against copies of another, every seat in turn, nobody able to peek.

Each deal is played once for every seat that the agent can have, so that neither a seat nor a deal
favours anyone. A deal depends on the match's seed alone: every pairing meets the same ones. All
games that wait for the same agent are answered in one call.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from splendor_env.agents import Agent, make_agent
from splendor_env.agents.registry import failure_of
from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import (
    deal_games,
    determinize_games,
    illegal_action_message,
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.random import CHOICE_STREAM, HIDDEN_STREAM, check_seed, hash_seed
from splendor_env.core.state import (
    GAME,
    PRESETS,
    EndReason,
    Rules,
    SplendorError,
    check_rules,
    standard,
)
from splendor_env.evaluation.statistics import wilson_interval

_SHARE_UNIT = 12
"""Shares of 1, 1/2, 1/3 and 1/4 are whole multiples of 1/12: their sums are exact."""

_MAX_GAMES = 10_000_000
"""All games of a match lie in memory at once."""

_AGENT, _OPPONENT = 0, 1


@dataclass(frozen=True)
class SeatResult:
    """How the agent did in one seat.

    Attributes:
        seat: 0 moves first.
        games: Games in this seat.
        win_share: Mean share of the victory.
        low, high: Its 95 % Wilson interval.
    """

    seat: int
    games: int
    win_share: float
    low: float
    high: float


@dataclass(frozen=True)
class MatchResult:
    """What a match has shown. Counts are games, means are over all games.

    Attributes:
        agent, against: Names of the agent and of its opponent.
        players: Seats; the opponent has all but one.
        rules: A preset's name, with the fields in which the rules differ from it.
        seed: From which deals and hidden cards were drawn.
        games: Games played: the number asked for, rounded up to a multiple of `players`.
        win_share: Mean share of the victory; 1/k for k winners, 1/players where truncated.
        low, high: Its 95 % Wilson interval.
        ties: Games with a shared victory.
        rounds: Mean number of rounds.
        points, points_against: Mean prestige points of the agent, and of a seat of the opponent.
        truncated, stalemates: Games stopped by the round limit, and by passes all round.
        illegal, illegal_against: Games forfeited by an illegal action of the agent (a share of 0),
            and of the opponent (a share of 0 for that seat, the others share).
        first_illegal: The first such action, by whom and what was legal; None without one.
        failed, failed_against: Games forfeited likewise because the agent, or the opponent, had
            failed to choose any action: a program that crashed, or did not answer in time.
        first_failure: The first such failure, by whom and what happened; None without one.
        by_seat: The agent's results in each seat.
        seconds: Wall time.
    """

    agent: str
    against: str
    players: int
    rules: str
    seed: int
    games: int
    win_share: float
    low: float
    high: float
    ties: int
    rounds: float
    points: float
    points_against: float
    truncated: int
    stalemates: int
    illegal: int
    illegal_against: int
    first_illegal: str | None
    failed: int
    failed_against: int
    first_failure: str | None
    by_seat: tuple[SeatResult, ...]
    seconds: float


def play_match(
    agent: Agent,
    opponent: Agent,
    rules: Rules,
    num_games: int = 1000,
    seed: int = 0,
    *,
    games_at_once: int = 1024,
    progress: Callable[[int, int], None] | None = None,
) -> MatchResult:
    """Let `agent` play against copies of `opponent` in all other seats.

    Args:
        agent: The one judged. Both get copies of the games in which all that the mover cannot see
            is drawn anew, and a `game_id` for each pair of game and seat, so that copies of one
            opponent in one game do not share what they know.
        opponent: Another object than `agent`, even for the same kind of agent.
        rules: The variant, which also says how many play.
        num_games: At least this many, up to 10 million; rounded up to a multiple of the number of
            players.
        seed: 64 bits. Equal seeds give equal deals.
        games_at_once: Games under way, hence the most that one `act` is asked about. The result
            does not depend on it as long as the agents' choices do not.
        progress: Called with the games finished and the games in all.

    Raises:
        SplendorError: An argument is out of range, or an agent does not answer with B integers.
    """
    rules = check_rules(rules)
    is_integer = isinstance(num_games, int | np.integer) and not isinstance(num_games, bool)
    if not is_integer or not 1 <= num_games <= _MAX_GAMES:
        raise SplendorError(f"games must be an integer 1 to {_MAX_GAMES}, not {num_games!r}")
    if games_at_once < 1:
        raise SplendorError(f"games_at_once must be at least 1, not {games_at_once}")
    start = time.perf_counter()
    match = _Match((agent, opponent), rules, int(num_games), seed)
    match.play(games_at_once, progress)
    return match.result(time.perf_counter() - start)


def play_specs(
    agent: str,
    against: str,
    rules: Rules,
    num_games: int = 1000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> MatchResult:
    """`play_match` between newly made agents; the result names them by their specs.

    Raises:
        SplendorError: As `play_match` and `make_agent` do.
    """
    judged, opponent = (
        make_agent(spec, int(hash_seed(check_seed(seed), CHOICE_STREAM, side)) >> 32)
        for side, spec in enumerate((agent, against))
    )
    result = play_match(judged, opponent, rules, num_games, seed, progress=progress)
    return replace(result, agent=agent, against=against)


@jit
def _write_hidden_seeds(seed, deal, num_decisions, out):
    """Write the seed from which each game's hidden cards are drawn for its next decision."""
    for i in range(out.shape[0]):
        out[i] = hash_seed(hash_seed(seed, HIDDEN_STREAM, deal[i]), HIDDEN_STREAM, num_decisions[i])


class _Match:
    """G games, N for each deal: game g is deal g // N with the agent in seat g % N."""

    def __init__(
        self, agents: tuple[Agent, Agent], rules: Rules, num_games: int, seed: int
    ) -> None:
        num_players = rules.num_players
        num_deals = -(-num_games // num_players)
        deals = np.zeros(num_deals, GAME)
        deal_games(deals, rules, check_seed(seed))
        self.agents = agents
        self.rules = rules
        self.seed = seed
        self.games = np.repeat(deals, num_players)
        self.num_games = len(self.games)
        self.deal = np.repeat(np.arange(num_deals), num_players)
        self.agent_seat = np.tile(np.arange(num_players), num_deals)
        self.num_decisions = np.zeros(self.num_games, np.int64)
        self.offender = np.full(self.num_games, -1)  # seat that has forfeited the game
        self.has_failed = np.zeros(self.num_games, np.bool_)  # forfeited without any action
        self.first_illegal: str | None = None
        self.first_failure: str | None = None

    def play(self, games_at_once: int, progress: Callable[[int, int], None] | None) -> None:
        """Play every game to its end, at most `games_at_once` at a time."""
        under_way = np.arange(min(games_at_once, self.num_games))
        num_started = len(under_way)
        while len(under_way):
            for side in (_AGENT, _OPPONENT):
                self._act(side, under_way[self._side_to_move(under_way) == side])
            is_running = (self.games["end_reason"][under_way] == EndReason.RUNNING) & (
                self.offender[under_way] < 0
            )
            self._tell_end(under_way[~is_running])
            under_way = under_way[is_running]
            num_next = min(games_at_once - len(under_way), self.num_games - num_started)
            next_games = np.arange(num_started, num_started + num_next)
            under_way = np.concatenate((under_way, next_games))
            num_started += num_next
            if progress is not None:
                progress(num_started - len(under_way), self.num_games)

    def _side_to_move(self, rows: np.ndarray) -> np.ndarray:
        """Who decides in these games; -1 where the game is over."""
        is_agent = self.games["player"][rows] == self.agent_seat[rows]
        is_over = self.games["end_reason"][rows] != EndReason.RUNNING
        return np.where(is_over, -1, np.where(is_agent, _AGENT, _OPPONENT))

    def _act(self, side: int, rows: np.ndarray) -> None:
        """Let one agent decide once in each of these games."""
        if len(rows) == 0:
            return
        games = self.games[rows]
        actions = self._ask(side, rows, games)
        mask = np.zeros((len(rows), NUM_ACTIONS), np.int8)
        write_action_masks(games, self.rules, mask)
        in_range = (actions >= 0) & (actions < NUM_ACTIONS)
        is_legal = in_range & (mask[np.arange(len(rows)), np.where(in_range, actions, 0)] == 1)
        step_games(games, np.where(is_legal, actions, -1).astype(np.int32), self.rules, -1)
        self.games[rows] = games
        self.num_decisions[rows] += 1
        self.offender[rows[~is_legal]] = games["player"][~is_legal]
        for index in np.flatnonzero(~is_legal):
            self._note(side, rows[index], games[index], int(actions[index]), mask[index])

    def _note(
        self, side: int, row: np.intp, game: np.record, action: int, mask: np.ndarray
    ) -> None:
        """Record why a game is forfeited."""
        agent = self.agents[side]
        failure = failure_of(agent, int(self._game_id(row, game.player)), action)
        if failure is not None:
            self.has_failed[row] = True
            if self.first_failure is None:
                where = f"game {row}, seat {game.player}, round {game.rounds}"
                self.first_failure = f"{agent.name} in {where}: {failure}"
        elif self.first_illegal is None:
            self.first_illegal = f"{agent.name}: {illegal_action_message(action, mask)}"

    def _game_id(self, rows: Any, seats: Any) -> Any:
        """A number for each pair of game and seat."""
        return rows * self.rules.num_players + seats

    def _tell_end(self, rows: np.ndarray) -> None:
        """Tell those agents that want to know how these games ended."""
        listeners = [getattr(agent, "end_games", None) for agent in self.agents]
        if len(rows) == 0 or not any(listeners):
            return
        num_players = self.rules.num_players
        share = self._shares(self.games[rows], self.offender[rows])
        results = [self._describe_end(*pair) for pair in zip(rows, share, strict=True)]
        for seat in range(num_players):
            is_agent = self.agent_seat[rows] == seat
            for side, is_his in ((_AGENT, is_agent), (_OPPONENT, ~is_agent)):
                tell = listeners[side]
                if tell is not None and is_his.any():
                    chosen = [
                        result for result, is_one in zip(results, is_his, strict=True) if is_one
                    ]
                    tell(self._game_id(rows[is_his], seat), chosen)

    def _describe_end(self, row: int, share: np.ndarray) -> dict[str, Any]:
        game = self.games[row]
        is_forfeited = self.offender[row] >= 0
        has_winner = is_forfeited or game.end_reason != EndReason.ROUND_LIMIT
        return {
            "end_reason": "forfeit" if is_forfeited else EndReason(game.end_reason).name.lower(),
            "rounds": int(game.rounds),
            "points": game.points[: self.rules.num_players].tolist(),
            "winners": np.flatnonzero(share).tolist() if has_winner else [],
        }

    def _ask(self, side: int, rows: np.ndarray, games: np.ndarray) -> np.ndarray:
        """The agent's actions (B,) for copies of the games without the mover's unknowns."""
        shown = games.copy()
        seeds = np.empty(len(rows), np.uint64)
        # By deal, not by game: in every seat the same agent meets the same imagined cards.
        _write_hidden_seeds(np.uint64(self.seed), self.deal[rows], self.num_decisions[rows], seeds)
        determinize_games(shown, self.rules, games["player"].copy(), seeds)
        agent = self.agents[side]
        game_id = self._game_id(rows, games["player"])
        actions = np.asarray(agent.act(shown, self.rules, game_id))
        if actions.shape != rows.shape or actions.dtype.kind not in "iu":
            raise SplendorError(
                f"agent {agent.name!r} must answer with {len(rows)} integers, "
                f"not with {actions.dtype} of shape {actions.shape}"
            )
        return actions.astype(np.int64)

    def _shares(self, games: np.ndarray, offender: np.ndarray) -> np.ndarray:
        """Each seat's share (B, N) of each victory in units of 1 / `_SHARE_UNIT`, as integers."""
        share = np.zeros((len(games), self.rules.num_players))
        write_victory_shares(games, self.rules, share)
        forfeited = offender >= 0
        share[forfeited] = 1 / (self.rules.num_players - 1)
        share[forfeited, offender[forfeited]] = 0
        return np.rint(share * _SHARE_UNIT).astype(np.int64)

    def result(self, seconds: float) -> MatchResult:
        """Sum up the finished games."""
        num_players = self.rules.num_players
        row = np.arange(self.num_games)
        share = self._shares(self.games, self.offender)
        own_share = share[row, self.agent_seat]
        points = self.games["points"][:, :num_players].astype(np.int64)
        own_points = points[row, self.agent_seat]
        points_against = (points.sum(1) - own_points) / (num_players - 1)
        end_reason = self.games["end_reason"]
        has_result = np.isin(end_reason, (EndReason.TARGET, EndReason.STALEMATE))
        forfeited = self.offender >= 0
        by_agent = self.offender == self.agent_seat
        by_opponent = forfeited & ~by_agent
        win_share, low, high = _summary(own_share)
        return MatchResult(
            agent=self.agents[_AGENT].name,
            against=self.agents[_OPPONENT].name,
            players=num_players,
            rules=rules_text(self.rules),
            seed=int(self.seed),
            games=self.num_games,
            win_share=win_share,
            low=low,
            high=high,
            ties=int((has_result & (share.max(1) < _SHARE_UNIT)).sum()),
            rounds=float(self.games["rounds"].mean()),
            points=float(own_points.mean()),
            points_against=float(points_against.mean()),
            truncated=int((end_reason == EndReason.ROUND_LIMIT).sum()),
            stalemates=int((end_reason == EndReason.STALEMATE).sum()),
            illegal=int((by_agent & ~self.has_failed).sum()),
            illegal_against=int((by_opponent & ~self.has_failed).sum()),
            first_illegal=self.first_illegal,
            failed=int((by_agent & self.has_failed).sum()),
            failed_against=int((by_opponent & self.has_failed).sum()),
            first_failure=self.first_failure,
            by_seat=tuple(
                SeatResult(
                    seat, self.num_games // num_players, *_summary(own_share[seat::num_players])
                )
                for seat in range(num_players)
            ),
            seconds=seconds,
        )


def _summary(share: np.ndarray) -> tuple[float, float, float]:
    """Mean of integer shares and its interval."""
    win_share = int(share.sum()) / (_SHARE_UNIT * len(share))
    return win_share, *wilson_interval(win_share, len(share))


def rules_text(rules: Rules) -> str:
    """The name of the preset that these rules are, or what they change in the standard."""
    for name, preset in PRESETS.items():
        if rules == preset(rules.num_players):
            return name
    base = standard(rules.num_players)._asdict()
    changes = [f"{name}={value}" for name, value in rules._asdict().items() if value != base[name]]
    return f"standard with {', '.join(changes)}"
