"""From the results of a league to its report: figures as JSON, pictures, one page of HTML.

`tabulate` computes every figure, once; the pictures and the page show nothing else. What a figure
means is said on the page (page.py) and in docs/evaluation.md.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from splendor_env.core.state import EndReason, Rules
from splendor_env.evaluation import page, pictures
from splendor_env.evaluation.calibration import Calibration
from splendor_env.evaluation.ratings import (
    Ratings,
    cycles_of_three,
    nash_average,
    pair_shares,
    plackett_luce,
    rate_pairs,
)
from splendor_env.evaluation.statistics import cluster_bootstrap_interval

REPORT_VERSION = 1
"""Rises when report.json changes its form."""

MIXED = -1


class Match(NamedTuple):
    """One match of a league: one agent against copies of another, or mixed tables of all."""

    one: int
    """Index of the agent that has one seat; `MIXED` at mixed tables."""
    rest: int
    """Index of the agent in all other seats; `MIXED` at mixed tables."""
    results: np.ndarray
    """(G,) GAME_RESULT, whose `agents` are indices into all agents of the league."""


def tabulate(
    agents: Sequence[str],
    matches: Sequence[Match],
    rules: Rules,
    anchor: int,
    calibrations: dict[str, Calibration],
) -> dict[str, Any]:
    """All figures for one number of players, ready for JSON.

    Args:
        agents: Names.
        matches: Of two players, each pair once; else each pair both ways, and mixed tables.
        rules: By which all of them were played.
        anchor: Index of the agent whose rating is the zero of the scale.
        calibrations: By name, of agents that expect shares of the victory.

    Returns:
        `players`, `rules` (its fields), `games` and the counts of `ties`, `truncated`,
        `stalemates`, `illegal` and `failed` among them.
        `scale`: what a rating is, and `digits`: decimals to show.
        `ladder`: a row for each agent, best first: `agent`, `rating`, `low`, `high`, `win_share`
            (of one against copies of another agent, mean over these); with 2 players
            `nash_weight`, `nash_skill`; else `rest_share` (of copies together against one).
        `cycles_of_three`: only with 2 players: three agents each of which beats the next, and the
            last the first.
        `mixed_deals`: only with 3 and 4 players: deals on which the ratings rest.
        `seats`: a share for each seat over all games: `seat`, `games`, `win_share`, `low`, `high`.
        `pairs`: `one`, `rest`, and of `one` the share and the counts, and `by_seat`.
        `agents`: for each agent, over all its games and seats: `by_seat`, the mean and both ends of
            the middle 90 % of `rounds`, `points`, `cards` and `nobles`, `illegal`, `failed`,
            `decisions`, `seconds_per_decision`.
        `calibration`: for each agent that expects shares, bins of `decisions` with the mean
            `expected` and `observed` share, the ends `low` and `high` of the interval of the
            latter, and `error`, the mean distance of the two.
    """
    players = rules.num_players
    results = np.concatenate([match.results for match in matches])
    pairs = [_pair(agents, match, players) for match in matches if match.one != MIXED]
    table = {
        "players": players,
        "rules": rules._asdict(),
        **count_ends(results),
        "seats": shares_by_seat(results, np.ones((len(results), players), bool)),
        "pairs": pairs,
        "agents": [_agent(name, index, results, players) for index, name in enumerate(agents)],
        "calibration": {name: _bins(one) for name, one in calibrations.items()},
    }
    if players == 2:
        return table | _rate_two(agents, results, anchor)
    mixed = np.concatenate([match.results for match in matches if match.one == MIXED])
    return table | _rate_many(agents, mixed, pairs)


def _rate_two(agents: Sequence[str], results: np.ndarray, anchor: int) -> dict[str, Any]:
    ratings = rate_pairs(results, len(agents), anchor)
    shares = pair_shares(results, len(agents))
    nash_weight, nash_skill = nash_average(shares.share)
    met = np.where(np.eye(len(agents), dtype=bool), np.nan, shares.share)
    columns = {
        "win_share": np.nanmean(met, 1),
        "nash_weight": nash_weight,
        "nash_skill": nash_skill,
    }
    return {
        "scale": f"Elo by a Bradley-Terry fit, {agents[anchor]} = 0",
        "digits": 0,
        "ladder": _ladder(agents, ratings, columns),
        "cycles_of_three": [
            [agents[index] for index in cycle] for cycle in cycles_of_three(shares)
        ],
    }


def _rate_many(
    agents: Sequence[str], mixed: np.ndarray, pairs: list[dict[str, Any]]
) -> dict[str, Any]:
    alone = [[pair["win_share"] for pair in pairs if pair["one"] == name] for name in agents]
    facing = [[pair["win_share"] for pair in pairs if pair["rest"] == name] for name in agents]
    columns = {"win_share": np.mean(alone, 1), "rest_share": 1 - np.mean(facing, 1)}
    return {
        "scale": "Plackett-Luce by openskill at mixed tables, an unknown agent = 25",
        "digits": 1,
        "ladder": _ladder(agents, plackett_luce(mixed, len(agents)), columns),
        "mixed_deals": len(np.unique(mixed["deal"])),
    }


def _ladder(
    agents: Sequence[str], ratings: Ratings, columns: dict[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Rows by agent, the best rating first."""
    columns = {"rating": ratings.rating, "low": ratings.low, "high": ratings.high} | columns
    return [
        {"agent": agents[index]} | {key: float(values[index]) for key, values in columns.items()}
        for index in np.argsort(-ratings.rating, kind="stable")
    ]


def count_ends(results: np.ndarray) -> dict[str, int]:
    """Of `results` (G,) GAME_RESULT: games, and how many ended otherwise than with one winner."""
    is_forfeited = results["offender"] >= 0
    has_result = np.isin(results["end_reason"], (EndReason.TARGET, EndReason.STALEMATE))
    return {
        "games": len(results),
        "ties": int((has_result & ~is_forfeited & (results["share"].max(1) < 1)).sum()),
        "truncated": int((~is_forfeited & (results["end_reason"] == EndReason.ROUND_LIMIT)).sum()),
        "stalemates": int((~is_forfeited & (results["end_reason"] == EndReason.STALEMATE)).sum()),
        "illegal": int((is_forfeited & ~results["has_failed"]).sum()),
        "failed": int((is_forfeited & results["has_failed"]).sum()),
    }


def _share(share: np.ndarray, deal: np.ndarray) -> dict[str, float]:
    """A mean share of the victory with its interval, games of one deal taken together."""
    low, high = cluster_bootstrap_interval(share, deal)
    return {"win_share": float(share.mean()), "low": low, "high": high}


def shares_by_seat(results: np.ndarray, is_his: np.ndarray) -> list[dict[str, Any]]:
    """Of `results` (G,) GAME_RESULT each seat's share over the games in which `is_his` (G, N)."""
    rows = []
    for seat in range(is_his.shape[1]):
        chosen = results[is_his[:, seat]]
        share = _share(chosen["share"][:, seat], chosen["deal"])
        rows.append({"seat": seat, "games": len(chosen)} | share)
    return rows


def _pair(agents: Sequence[str], match: Match, players: int) -> dict[str, Any]:
    results = match.results
    is_one = results["agents"][:, :players] == match.one
    return {
        "one": agents[match.one],
        "rest": agents[match.rest],
        **count_ends(results),
        **_share(results["share"][:, :players][is_one], results["deal"]),
        "by_seat": shares_by_seat(results, is_one),
    }


def _agent(name: str, index: int, results: np.ndarray, players: int) -> dict[str, Any]:
    is_his = results["agents"][:, :players] == index
    game, seat = np.nonzero(is_his)
    is_offender = (results["offender"] >= 0) & (
        results["agents"][np.arange(len(results)), results["offender"]] == index
    )
    decisions = int(results["decisions"][game, seat].sum())
    return {
        "agent": name,
        "games": int(is_his.any(1).sum()),
        "by_seat": shares_by_seat(results, is_his),
        "rounds": spread(results["rounds"][is_his.any(1)]),
        "points": spread(results["points"][game, seat]),
        "cards": spread(results["num_cards"][game, seat]),
        "nobles": spread(results["nobles"][game, seat]),
        "illegal": int((is_offender & ~results["has_failed"]).sum()),
        "failed": int((is_offender & results["has_failed"]).sum()),
        "decisions": decisions,
        "seconds_per_decision": float(results["seconds"][game, seat].sum() / max(decisions, 1)),
    }


def spread(values: np.ndarray) -> dict[str, float]:
    """Mean and both ends of the middle 90 % of some numbers."""
    low, high = np.percentile(values, (5, 95))
    return {"mean": float(values.mean()), "p5": float(low), "p95": float(high)}


def _bins(calibration: Calibration) -> dict[str, Any]:
    return {
        "error": calibration.error,
        "decisions": calibration.num_decisions.tolist(),
        "expected": calibration.expected.tolist(),
        "observed": calibration.observed.tolist(),
        "low": calibration.low.tolist(),
        "high": calibration.high.tolist(),
    }


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.json, report.html and the pictures, as KIND_Np.png, into a folder.

    Args:
        report: `version`, `about` (the league, a text for each of its keys), `written_by` and each
            of the list `played_by` (likewise, of the calls that made the report and the games),
            `agents` (name: spec), `calibration_games` (looked at in each match, at most) and
            `tables`, by number of players, each from `tabulate`.
        folder: Exists.
    """
    drawn = {
        f"{name}_{players}p": content
        for players, table in report["tables"].items()
        for name, content in pictures.draw_all(table).items()
    }
    for name, content in drawn.items():
        (folder / f"{name}.png").write_bytes(content)
    (folder / "report.html").write_text(page.render(report, drawn), encoding="utf-8")
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    (folder / "report.json").write_text(text, encoding="utf-8")
