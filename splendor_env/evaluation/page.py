"""The report of a league as one page of HTML that asks for nothing from elsewhere.

Whatever a picture shows is in a table beside it too. Names and specs are users' text: all of it
goes through `escape`.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Table = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #f4f4f2; --text: #1d1d1f; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --soft: #26272b; --text: #e6e6e6; --page: #17181b; }
}
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--page);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0.5rem 0; font-size: 1.7rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 2px solid var(--line);
  font-size: 1.35rem; }
h3 { margin: 1.5rem 0 0.5rem; font-size: 1.05rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
figure { margin: 1rem 0; padding: 0.5rem; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; text-align: center; }
img { max-width: 100%; height: auto; vertical-align: middle; }
@media (max-width: 40rem) {
  figure { overflow-x: auto; text-align: left; }
  img { max-width: 40rem; }
}
.table { overflow-x: auto; margin: 0.75rem 0; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
caption { padding: 0.25rem 0; text-align: left; font-weight: 600; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th { text-align: left; }
thead th { background: var(--soft); vertical-align: bottom; }
th.figure { text-align: right; }
td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
ul { margin: 0.5rem 0; padding-left: 1.2rem; font-size: 0.92rem; }
summary { cursor: pointer; }
code { overflow-wrap: anywhere; }
"""

_FEW_DEALS = 30
"""With fewer the intervals of `plackett_luce` are too narrow."""
_COUNTS = ("games", "ties", "truncated", "stalemates", "illegal", "failed")


class Text(str):
    """A cell that is read, not compared: aligned to the left."""


def render(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    """The page of a report.

    Args:
        report: As `report.write_report` takes it.
        pictures: PNGs by name, such as "ladder_2p".
    """
    name = escape(report["about"]["league"])
    sections = {
        "ladder": ("Ladder", _ladder(report, pictures)),
        "shares": ("Who beats whom", _pairs(report, pictures)),
        "seats": ("Seats", _seats(report, pictures)),
        "games": ("Length, points and cards", _games(report, pictures)),
        "calibration": ("Calibration", _calibration(report, pictures)),
        "budgets": ("Agents and their budgets", _budgets(report)),
        "made": ("How this was made", _made(report)),
    }
    links = "".join(f'<a href="#{key}">{title}</a> ' for key, (title, _) in sections.items())
    body = "".join(
        f'<section id="{key}"><h2>{title}</h2>{content}</section>\n'
        for key, (title, content) in sections.items()
    )
    num_games = sum(table["games"] for table in report["tables"].values())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>League {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>League {name}</h1>\n"
        f"<p>{num_games:,} games of Splendor between {len(report['agents'])} agents. Every deal is "
        "played once from each seat, and no agent is shown decks or the secret reserves of "
        "others. A shared victory counts as a share of it, a game truncated by the round limit as "
        "1/players for each. Intervals are at 95 % and take the games of one deal together; they "
        "say how sure the figure is for these agents and rules, not how another training run of "
        "the same method would fare.</p>\n"
        f"<nav>{links}</nav>\n{body}</main>\n</body>\n</html>\n"
    )


def _ladder(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    return "".join(
        f"<h3>{players} players</h3>"
        + _figure(pictures, f"ladder_{players}p", f"ratings of the agents, {players} players")
        + (_ladder_of_two(table) if table["players"] == 2 else _ladder_of_many(table))
        for players, table in report["tables"].items()
    )


def _ladder_of_two(table: Table) -> str:
    rows = [
        (
            Text(row["agent"]),
            *_rating(table, row),
            _percent(row["win_share"]),
            f"{row['nash_weight']:.2f}",
            f"{row['nash_skill']:.0f}",
        )
        for row in table["ladder"]
    ]
    head = ("agent", "rating", "95 %", "mean win share", "Nash weight", "Nash skill")
    cycles = [" beats ".join((*cycle, cycle[0])) for cycle in table["cycles_of_three"]]
    notes = {
        "rating": f"{table['scale']}; a lead of 200 stands for a win share of 76 %. The fit takes "
        "all games at once, so their order does not matter. The agent at 0 has no interval, that "
        "of the others is of the difference from it.",
        "mean win share": "over all opponents, each counted once; it depends on who takes part.",
        "Nash weight": "how often a mixture of agents that none of them beats plays this one; a "
        "weak agent that enters twice does not change it.",
        "Nash skill": "how the agent stands against that mixture, in Elo, 0 at best.",
        "cycles of three": "; ".join(cycles)
        or "no three agents beat each other in a circle, each with its interval above 50 %.",
    }
    return _table(head, rows, "Ratings, 2 players") + _notes(notes)


def _ladder_of_many(table: Table) -> str:
    rest = table["players"] - 1
    rows = [
        (
            Text(row["agent"]),
            *_rating(table, row),
            _percent(row["win_share"]),
            _percent(row["rest_share"]),
        )
        for row in table["ladder"]
    ]
    head = ("agent", "rating", "95 %", f"1 against {rest}", f"{rest} against 1")
    intervals = "The intervals are somewhat too wide."
    if table["mixed_deals"] < _FEW_DEALS:
        intervals = f"The intervals rest on {table['mixed_deals']} deals only and are too narrow."
    notes = {
        "rating": f"{table['scale']}; by finishing ranks, averaged over random orders of games. "
        + intervals,
        f"1 against {rest}": f"win share of one copy against {rest} copies of another agent, "
        f"mean over these; even is {_percent(1 / table['players'])}.",
        f"{rest} against 1": f"what {rest} copies together win against one of another agent, mean "
        f"over these; even is {_percent(rest / table['players'])}. It is another question, as "
        "copies change the table.",
    }
    return _table(head, rows, f"Ratings, {table['players']} players") + _notes(notes)


def _pairs(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    parts = [
        _paragraph(
            "Share of the victory that one copy of an agent has won against copies of another in "
            "the rest of the seats."
        )
    ]
    for players, table in report["tables"].items():
        rows = [
            (
                Text(pair["one"]),
                Text(pair["rest"]),
                _percent(pair["win_share"]),
                _interval(pair),
                *(f"{pair[key]:,}" for key in _COUNTS),
            )
            for pair in table["pairs"]
        ]
        head = ("one", "the rest", "win share", "95 %", *_COUNTS)
        parts += [
            f"<h3>{players} players</h3>",
            _figure(pictures, f"matrix_{players}p", f"matrix of win shares, {players} players"),
            _details(f"All {len(rows)} matches", _table(head, rows, f"Matches, {players} players")),
        ]
    return "".join(parts)


def _seats(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    parts = [
        _paragraph(
            "What the place in the order of moves is worth: the share won from each seat. Every "
            "agent sits in every seat equally often, so nobody's strength is in it."
        )
    ]
    for players, table in report["tables"].items():
        seats = range(table["players"])
        by_seat = {"all games": table["seats"]}
        by_seat |= {row["agent"]: row["by_seat"] for row in table["agents"]}
        rows = [
            (Text(name), *(f"{_percent(one['win_share'])} ({_interval(one)})" for one in rows))
            for name, rows in by_seat.items()
        ]
        head = ("agent", *(f"seat {seat}" for seat in seats))
        parts += [
            f"<h3>{players} players</h3>",
            _figure(pictures, f"seats_{players}p", f"win share by seat, {players} players"),
            _details("The shares", _table(head, rows, f"Win share by seat, {players} players")),
        ]
    return "".join(parts)


def _games(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    keys = ("rounds", "points", "cards", "nobles")
    parts = [
        _paragraph(
            "Over all games that the agent takes part in, won or lost: the mean, and in brackets "
            "the middle 90 %. Rounds are of the game, the rest is per seat of the agent at the end."
        )
    ]
    for players, table in report["tables"].items():
        rows = [
            (Text(row["agent"]), f"{row['games']:,}", *(_spread(row[key]) for key in keys))
            for row in table["agents"]
        ]
        parts += [
            f"<h3>{players} players</h3>",
            _figure(pictures, f"games_{players}p", f"statistics of the games, {players} players"),
            _details(
                "The figures",
                _table(("agent", "games", *keys), rows, f"Games and cards, {players} players"),
            ),
        ]
    return "".join(parts)


def _calibration(report: dict[str, Any], pictures: Mapping[str, bytes]) -> str:
    parts = [
        _paragraph(
            "Where an agent's network expects a share of the victory, did it come true? Over its "
            f"decisions in a sample of up to {report['calibration_games']} games of each of its "
            "matches; on the dotted line expectation and outcome agree. A network that was trained "
            "against itself expects opponents like itself, so against weaker ones it should win "
            "more than it thinks. The error is the mean distance from the line over these "
            "decisions."
        )
    ]
    for players, table in report["tables"].items():
        if not table["calibration"]:
            continue
        parts += [
            f"<h3>{players} players</h3>",
            _figure(pictures, f"calibration_{players}p", f"calibration, {players} players"),
        ]
        for name, bins in table["calibration"].items():
            columns = zip(*(bins[key] for key in _BINS), strict=True)
            rows = [
                (_percent(expected), f"{decisions:,}", _percent(observed), _range(low, high))
                for expected, decisions, observed, low, high in columns
            ]
            head = ("expected", "decisions", "observed", "95 %")
            parts.append(
                _details(f"{name}: the bins", _table(head, rows, f"{name}, {players} players"))
            )
    if len(parts) == 1:
        parts.append(_paragraph("No agent of this league expects shares of the victory."))
    return "".join(parts)


_BINS = ("expected", "decisions", "observed", "low", "high")


def _budgets(report: dict[str, Any]) -> str:
    tables = report["tables"]
    by_agent = {
        name: [
            next(row for row in table["agents"] if row["agent"] == name)
            for table in tables.values()
        ]
        for name in report["agents"]
    }
    rows = [
        (
            Text(name),
            Text(spec),
            *(_seconds(row["seconds_per_decision"]) for row in by_agent[name]),
            *(f"{sum(row[key] for row in by_agent[name]):,}" for key in ("decisions", *_FORFEITS)),
        )
        for name, spec in report["agents"].items()
    ]
    times = (f"time, {players} players" for players in tables)
    head = ("agent", "spec", *times, "decisions", *_FORFEITS)
    return _paragraph(
        "The spec holds the budget of a search. Time is wall time per decision inside the agent "
        "where the games were played, shared evenly among those answered in one call, while as "
        "many matches as there are processes ran at once. Illegal actions and failures lose the "
        "game; both should be 0."
    ) + _table(head, rows, "Agents")


_FORFEITS = ("illegal", "failed")


def _made(report: dict[str, Any]) -> str:
    tables, calls = report["tables"], report["played_by"]
    counts = [
        (Text(f"{players} players"), *(f"{table[key]:,}" for key in _COUNTS))
        for players, table in tables.items()
    ]
    names = list(next(iter(tables.values()))["rules"])
    rules = [
        (Text(name), *(str(table["rules"][name]) for table in tables.values())) for name in names
    ]
    played_by = "".join(
        _texts(call, f"Games played by (call {number} of {len(calls)})")
        for number, call in enumerate(calls, 1)
    ) or _paragraph("By which program and on which machine the games were played was not noted.")
    return (
        _texts(report["about"], "The league")
        + played_by
        + _texts(report["written_by"], "Report written by")
        + _table(("table", *_COUNTS), counts, "Games and how they ended")
        + _details(
            "The rules, field by field",
            _table(("rule", *(f"{players} players" for players in tables)), rules, "Rules"),
        )
        + _paragraph("The same figures for programs are in report.json, each game in records/.")
    )


def _texts(texts: Mapping[str, str], caption: str) -> str:
    return _table(("what", "value"), [(Text(key), Text(texts[key])) for key in texts], caption)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table whose first column names the rows; every text is escaped here."""
    kinds = ["text" if isinstance(cell, Text) else "figure" for cell in rows[0]]
    titles = "".join(
        f'<th scope="col" class="{kind}">{escape(title)}</th>'
        for kind, title in zip(kinds, head, strict=True)
    )
    lines = []
    for first, *cells in rows:
        texts = (
            f'<td class="{kind}">{escape(cell)}</td>'
            for kind, cell in zip(kinds[1:], cells, strict=True)
        )
        name = f'<th scope="row" class="{kinds[0]}">{escape(first)}</th>'
        lines.append(f"<tr>{name}{''.join(texts)}</tr>")
    return (
        f'<div class="table" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def _figure(pictures: Mapping[str, bytes], name: str, alternative: str) -> str:
    content = base64.b64encode(pictures[name]).decode("ascii")
    return (
        f'<figure><img alt="{escape(alternative)}; the table below has the figures" '
        f'src="data:image/png;base64,{content}"></figure>\n'
    )


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>\n"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n"


def _notes(notes: Mapping[str, str]) -> str:
    """What figures mean, a line for each."""
    lines = (f"<li><b>{escape(term)}</b>: {escape(text)}</li>" for term, text in notes.items())
    return f"<ul>{''.join(lines)}</ul>\n"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _range(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _interval(row: Mapping[str, float]) -> str:
    return _range(row["low"], row["high"])


def _rating(table: Table, row: Mapping[str, float]) -> tuple[str, str]:
    rating, low, high = (f"{row[key]:.{table['digits']}f}" for key in ("rating", "low", "high"))
    return rating, f"{low} to {high}"


def _spread(row: Mapping[str, float]) -> str:
    return f"{row['mean']:.1f} ({row['p5']:.0f} to {row['p95']:.0f})"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"
