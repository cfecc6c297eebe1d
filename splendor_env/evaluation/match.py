"""Matches: one agent against another, every seat in turn, and the figures that follow."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from splendor_env.agents import Agent
from splendor_env.core.state import (
    PRESETS,
    EndReason,
    Rules,
    SplendorError,
    check_rules,
    standard,
)
from splendor_env.evaluation.arena import (
    Progress,
    Seating,
    one_against_rest,
    play_games,
)
from splendor_env.evaluation.files import play_and_keep
from splendor_env.evaluation.statistics import (
    Sprt,
    cluster_bootstrap_interval,
    wilson_interval,
)

_SHARE_UNIT = 12
"""Shares of 1, 1/2, 1/3 and 1/4 are whole multiples of 1/12: their sums are exact."""

_AGENT, _OPPONENT = 0, 1

_ERROR_RATE = 0.05
"""Of the sequential test, for both errors."""

Seats = Literal["one", "rest"]
"""Which seats the agent has at each table; its opponent has the others."""


@dataclass(frozen=True)
class SeatResult:
    """How the agent did in one seat.

    Attributes:
        seat: 0 moves first.
        games: Games in which it had this seat.
        win_share: Mean share of the victory.
        low, high: Its 95 % Wilson interval.
    """

    seat: int
    games: int
    win_share: float
    low: float
    high: float


@dataclass(frozen=True)
class SprtResult:
    """How a sequential test of the win share has ended; see `Sprt`.

    Attributes:
        h0, h1: The win shares between which it decides.
        decision: "accept" h1, "reject" it, or None where the games did not suffice.
        error_rate: How often either decision may be wrong.
        deals: Deals looked at.
        llr: Log likelihood ratio after these.
        lower, upper: Its bounds, at which the test decides.
    """

    h0: float
    h1: float
    decision: Literal["accept", "reject"] | None
    error_rate: float
    deals: int
    llr: float
    lower: float
    upper: float


@dataclass(frozen=True)
class MatchResult:
    """What a match has shown. Counts are games; means are over all games and seats of a side.

    Attributes:
        agent, against: Names of the agent and of its opponent.
        players: Seats at a table.
        seats: "one" if the agent has one of them and its opponent the rest, or "rest".
        rules: A preset's name, with the fields in which the rules differ from it.
        seed: From which deals and hidden cards were drawn.
        games: Games played: the number asked for, rounded up to a multiple of `players`.
        win_share: Mean share of the victory of a seat of the agent, which is 1/players between
            equals: 1/k for k winners, 1/players where truncated.
        low, high: Its 95 % Wilson interval.
        bootstrap_low, bootstrap_high: The same by drawing deals anew, with all of their games.
        ties: Games with a shared victory.
        rounds: Mean number of rounds.
        points, points_against: Mean prestige points of a seat of the agent, and of its opponent.
        cards, cards_against: Cards bought likewise.
        nobles, nobles_against: Nobles won likewise.
        truncated, stalemates: Games stopped by the round limit, and by passes all round.
        illegal, illegal_against: Games forfeited by an illegal action of the agent (that seat has a
            share of 0, the others share), and of the opponent.
        first_illegal: The first such action, by whom and what was legal; None without one.
        failed, failed_against: Games forfeited likewise because the agent, or the opponent, had
            failed to choose any action: a program that crashed, or did not answer in time.
        first_failure: The first such failure, by whom and what happened; None without one.
        seconds_per_decision, seconds_per_decision_against: Mean time for one decision; many are
            made in one call.
        by_seat: The agent's results in each seat.
        sprt: Of the sequential test that has ended the match; None without one. The win share of a
            match that was ended so is biased outwards.
        seconds: Wall time.
    """

    agent: str
    against: str
    players: int
    seats: Seats
    rules: str
    seed: int
    games: int
    win_share: float
    low: float
    high: float
    bootstrap_low: float
    bootstrap_high: float
    ties: int
    rounds: float
    points: float
    points_against: float
    cards: float
    cards_against: float
    nobles: float
    nobles_against: float
    truncated: int
    stalemates: int
    illegal: int
    illegal_against: int
    first_illegal: str | None
    failed: int
    failed_against: int
    first_failure: str | None
    seconds_per_decision: float
    seconds_per_decision_against: float
    by_seat: tuple[SeatResult, ...]
    sprt: SprtResult | None
    seconds: float


def play_match(
    agent: Agent,
    opponent: Agent,
    rules: Rules,
    num_games: int = 1000,
    seed: int = 0,
    *,
    seats: Seats = "one",
    games_at_once: int = 1024,
    progress: Progress | None = None,
) -> MatchResult:
    """Let `agent` play against `opponent`, each deal once with the odd one out in every seat.

    Args:
        agent: The one judged. See `play_games` for what both get to see.
        opponent: Another object than `agent`, even for the same kind of agent.
        rules: The variant, which also says how many play.
        num_games: At least this many; see `num_deals_of`.
        seed: 64 bits. Equal seeds give equal deals.
        seats: Whether `agent` has "one" seat, copies of `opponent` all others, or the "rest".
        games_at_once: Games under way, hence the most that one `act` is asked about. The result
            does not depend on it as long as the agents' choices do not.
        progress: Called with the games finished and the games in all.

    Raises:
        SplendorError: As `play_games` does.
    """
    start = time.perf_counter()
    rules = check_rules(rules)
    seating = _seating(rules, num_games, seats)
    games = play_games(
        (agent, opponent), seating, rules, seed, games_at_once=games_at_once, progress=progress
    )
    names = (agent.name, opponent.name)
    seconds = time.perf_counter() - start
    return _summarize(games.results, games.notes, names, rules, seed, seats, None, seconds)


def play_specs(
    agent: str,
    against: str,
    rules: Rules,
    num_games: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    seats: Seats = "one",
    jobs: int = 1,
    record: str | os.PathLike[str] | None = None,
    sprt: tuple[float, float] | None = None,
) -> MatchResult:
    """`play_match` between newly made agents; the result names them by their specs.

    Args:
        agent: Spec of the one judged.
        against: Spec of its opponent.
        rules: As for `play_match`, like the rest.
        num_games: At least this many.
        seed: Of the deals and of the agents.
        progress: Called with the games finished and the games in all.
        seats: Of the agent.
        jobs: Processes, see `play_specs_games`.
        record: File for the records of all games, see `play_to_file`.
        sprt: Win shares (h0, h1): end the match when a sequential test has decided between them,
            with `num_games` at most.

    Raises:
        SplendorError: As `play_match`, `make_agent` and `play_to_file` do.
    """
    start = time.perf_counter()
    rules = check_rules(rules)
    specs = (agent, against)
    seating = _seating(rules, num_games, seats)
    test = None if sprt is None else Sprt(_ERROR_RATE, _ERROR_RATE, *sprt)

    def is_decided(results: np.ndarray) -> bool:
        if test is None:
            return False
        whole_deals = results[: len(results) // rules.num_players * rules.num_players]
        share = _agent_share(whole_deals, rules, seats).reshape(-1, rules.num_players).mean(1)
        return test.update(share[test.num_deals :]) is not None

    results, notes = play_and_keep(
        specs, seating, rules, seed, record, jobs=jobs, progress=progress, is_enough=is_decided
    )
    if test is not None:
        is_decided(results)
        results = results[: test.num_deals * rules.num_players]
    seconds = time.perf_counter() - start
    return _summarize(results, notes, specs, rules, seed, seats, test, seconds)


def _seating(rules: Rules, num_games: int, seats: Seats) -> Seating:
    one, deal = one_against_rest(rules, num_games)
    if seats not in ("one", "rest"):
        raise SplendorError(f"seats must be one or rest, not {seats!r}")
    return Seating(one if seats == "one" else 1 - one, deal)


def _summarize(
    results: np.ndarray,
    notes: dict[int, str],
    names: Sequence[str],
    rules: Rules,
    seed: int,
    seats: Seats,
    test: Sprt | None,
    seconds: float,
) -> MatchResult:
    """All figures of a match between agent 0 and agent 1."""
    num_players = rules.num_players
    num_games = len(results)
    side = results["agents"][:, :num_players]
    share = np.rint(results["share"][:, :num_players] * _SHARE_UNIT).astype(np.int64)

    def mean(field: str, of_side: int) -> float:
        values = results[field][:, :num_players]
        return int(values[side == of_side].sum()) / int((side == of_side).sum())

    def forfeits(of_side: int, has_failed: bool) -> int:
        return int((results["has_failed"][offenders == of_side] == has_failed).sum())

    def pace(of_side: int) -> float:
        is_his = results["agents"] == of_side
        num_decisions = int(results["decisions"][is_his].sum())
        return float(results["seconds"][is_his].sum()) / max(num_decisions, 1)

    is_forfeited = results["offender"] >= 0
    offenders = np.where(is_forfeited, side[np.arange(num_games), results["offender"]], -1)
    has_result = np.isin(results["end_reason"], (EndReason.TARGET, EndReason.STALEMATE))
    win_share, low, high = _win_share(
        np.where(side == _AGENT, share, 0).sum(1), 1 if seats == "one" else num_players - 1
    )
    bootstrap_low, bootstrap_high = _bootstrap_interval(results, rules, seats)
    return MatchResult(
        agent=names[_AGENT],
        against=names[_OPPONENT],
        players=num_players,
        seats=seats,
        rules=rules_text(rules),
        seed=int(seed),
        games=num_games,
        win_share=win_share,
        low=low,
        high=high,
        bootstrap_low=bootstrap_low,
        bootstrap_high=bootstrap_high,
        ties=int((has_result & (share.max(1) < _SHARE_UNIT)).sum()),
        rounds=float(results["rounds"].mean()),
        points=mean("points", _AGENT),
        points_against=mean("points", _OPPONENT),
        cards=mean("num_cards", _AGENT),
        cards_against=mean("num_cards", _OPPONENT),
        nobles=mean("nobles", _AGENT),
        nobles_against=mean("nobles", _OPPONENT),
        truncated=int((results["end_reason"] == EndReason.ROUND_LIMIT).sum()),
        stalemates=int((results["end_reason"] == EndReason.STALEMATE).sum()),
        illegal=forfeits(_AGENT, has_failed=False),
        illegal_against=forfeits(_OPPONENT, has_failed=False),
        first_illegal=_first_note(results, notes, names, has_failed=False),
        failed=forfeits(_AGENT, has_failed=True),
        failed_against=forfeits(_OPPONENT, has_failed=True),
        first_failure=_first_note(results, notes, names, has_failed=True),
        seconds_per_decision=pace(_AGENT),
        seconds_per_decision_against=pace(_OPPONENT),
        by_seat=tuple(
            _seat_result(seat, share[side[:, seat] == _AGENT, seat]) for seat in range(num_players)
        ),
        sprt=None if test is None else _sprt_result(test),
        seconds=seconds,
    )


def _agent_share(results: np.ndarray, rules: Rules, seats: Seats) -> np.ndarray:
    """(G,) mean share of the victory of the agent's seats."""
    num_seats = 1 if seats == "one" else rules.num_players - 1
    return np.where(results["agents"] == _AGENT, results["share"], 0).sum(1) / num_seats


def _bootstrap_interval(results: np.ndarray, rules: Rules, seats: Seats) -> tuple[float, float]:
    """Of the mean share of each of the agent's seats, by that of the side with one seat."""
    if seats == "one":
        return cluster_bootstrap_interval(_agent_share(results, rules, seats), results["deal"])
    num_seats = rules.num_players - 1
    share_of_one = 1 - num_seats * _agent_share(results, rules, seats)
    return _of_the_rest(*cluster_bootstrap_interval(share_of_one, results["deal"]), num_seats)


def _of_the_rest(low: float, high: float, num_seats: int) -> tuple[float, float]:
    """What an interval of the share of one seat means for each of the others.

    Theirs cannot be made directly: 0 to 1 are the bounds of a seat's share, 0 to 1 / `num_seats`
    those of the mean over seats, which share one victory.
    """
    return (1 - high) / num_seats, (1 - low) / num_seats


def _sprt_result(test: Sprt) -> SprtResult:
    return SprtResult(
        h0=test.h0,
        h1=test.h1,
        decision=test.decision,
        error_rate=_ERROR_RATE,
        deals=test.num_deals,
        llr=test.llr,
        lower=test.lower,
        upper=test.upper,
    )


def _win_share(share: np.ndarray, num_seats: int) -> tuple[float, float, float]:
    """Mean share of each of an agent's seats and its interval, from integer sums over them."""
    mean = int(share.sum()) / (_SHARE_UNIT * len(share))
    if num_seats == 1:
        return mean, *wilson_interval(mean, len(share))
    return mean / num_seats, *_of_the_rest(*wilson_interval(1 - mean, len(share)), num_seats)


def _seat_result(seat: int, share: np.ndarray) -> SeatResult:
    return SeatResult(seat, len(share), *_win_share(share, 1))


def _first_note(
    results: np.ndarray, notes: dict[int, str], names: Sequence[str], has_failed: bool
) -> str | None:
    """What the first agent that has failed, or else was wrong, did, and where."""
    for number, note in notes.items():
        if number < len(results) and results["has_failed"][number] == has_failed:
            result = results[number]
            name = names[result["agents"][result["offender"]]]
            where = f"game {number}, seat {result['offender']}, round {result['rounds']}"
            return f"{name} in {where}: {note}"
    return None


def rules_text(rules: Rules) -> str:
    """The name of the preset that these rules are, or what they change in the standard."""
    for name, preset in PRESETS.items():
        if rules == preset(rules.num_players):
            return name
    base = standard(rules.num_players)._asdict()
    changes = [f"{name}={value}" for name, value in rules._asdict().items() if value != base[name]]
    return f"standard with {', '.join(changes)}"
