"""The pictures of a league's report, as PNG, from the report's own figures.

Each function draws one number of players and takes `table`, one entry of the report's "tables" (see
`report.tabulate`). All of them need matplotlib, of the extra `train`.
"""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Table = dict[str, Any]

_WIDTH = 8.0
_DPI = 120
_NUM_COLORS = 128
"""Of the palette of a PNG: a third of the bytes, and nobody sees it."""
_MAX_NAME = 30
_BLUE, _GREY = "#1f5f99", "#7a7a7a"
_SEAT_COLORS = ("#1f5f99", "#c8553d", "#3c8d5a", "#7d5ba6")
_SETTINGS: Any = {
    "text.parse_math": False,  # an agent's name may hold a $
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "xtick.color": "#444444",
    "ytick.color": "#222222",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
}
"""Of matplotlib."""
_STATISTICS = {
    "rounds": "rounds of a game",
    "points": "points",
    "cards": "cards bought",
    "nobles": "nobles",
}


def draw_all(table: Table) -> dict[str, bytes]:
    """The PNG of every picture of a table, by name."""
    import matplotlib

    pictures: dict[str, Callable[[Table], Figure]] = {
        "ladder": _draw_ladder,
        "matrix": _draw_matrix,
        "seats": _draw_seats,
        "games": _draw_games,
    }
    if table["calibration"]:
        pictures["calibration"] = _draw_calibration
    with matplotlib.rc_context(_SETTINGS):
        return {name: _png(draw(table)) for name, draw in pictures.items()}


def _new_figure(height: float, width: float = _WIDTH) -> "Figure":
    """Without pyplot, which would look for a display and keep every figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: "Figure") -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png")
    image = Image.open(content).convert("RGB").quantize(_NUM_COLORS, dither=Image.Dither.NONE)
    small = io.BytesIO()
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."


def _label_rows(axes: "Axes", names: Sequence[str]) -> None:
    """One row for each name, the first on top."""
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params("y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _draw_ladder(table: Table) -> "Figure":
    rows = table["ladder"]
    figure = _new_figure(1.0 + 0.34 * len(rows))
    axes = figure.subplots()
    rating, low, high = (np.array([row[key] for row in rows]) for key in ("rating", "low", "high"))
    place = np.arange(len(rows))
    axes.errorbar(
        rating,
        place,
        xerr=(rating - low, high - rating),
        fmt="o",
        color=_BLUE,
        ecolor=_BLUE,
        elinewidth=1.6,
        capsize=3,
        markersize=6,
    )
    for row, at in zip(rows, place, strict=True):
        axes.annotate(
            f"{row['rating']:.{table['digits']}f}",
            (1.01, at),
            xycoords=("axes fraction", "data"),
            va="center",
            fontweight="bold",
        )
    _label_rows(axes, [row["agent"] for row in rows])
    axes.margins(x=0.06)
    axes.set(xlabel=table["scale"], title=f"{table['players']} players: rating, 95 % intervals")
    return figure


def _draw_matrix(table: Table) -> "Figure":
    names = [row["agent"] for row in table["ladder"]]
    count = len(names)
    place = {name: index for index, name in enumerate(names)}
    share = np.full((count, count), np.nan)
    for pair in table["pairs"]:
        row, column = place[pair["one"]], place[pair["rest"]]
        share[row, column] = pair["win_share"]
        if table["players"] == 2:
            share[column, row] = 1 - pair["win_share"]
    fair = 1 / table["players"]
    figure = _new_figure(1.6 + 0.46 * count)
    axes = figure.subplots()
    # Piecewise linear, so that the fair share is white for any number of players.
    shade = np.where(share < fair, share / fair / 2, 0.5 + (share - fair) / (1 - fair) / 2)
    axes.set_facecolor("#e8e8e8")  # shows where an agent meets itself
    axes.imshow(shade, cmap="RdBu", vmin=-0.15, vmax=1.15, aspect="auto")
    for (row, column), value in np.ndenumerate(share):
        if not np.isnan(value):
            is_dark = abs(shade[row, column] - 0.5) > 0.4
            color = "white" if is_dark else "black"
            text = f"{100 * value:.1f}"
            axes.text(column, row, text, ha="center", va="center", color=color)
    labels = [_short(name) for name in names]
    axes.set_yticks(range(count), labels)
    axes.set_xticks(range(count), labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    others = table["players"] - 1
    against = "against" if others == 1 else f"against {others} copies of"
    axes.set_title(
        f"{table['players']} players: win share in % of one (row) {against} the column; "
        f"even is {100 * fair:.3g}"
    )
    return figure


def _draw_seats(table: Table) -> "Figure":
    rows = {"all games": table["seats"]}
    by_agent = {row["agent"]: row["by_seat"] for row in table["agents"]}
    rows |= {row["agent"]: by_agent[row["agent"]] for row in table["ladder"]}
    players = table["players"]
    figure = _new_figure(1.0 + 0.34 * len(rows))
    axes = figure.subplots()
    axes.axvline(0, color=_GREY, linewidth=0.8)
    for seat in range(players):
        mean = np.array([np.mean([one["win_share"] for one in seats]) for seats in rows.values()])
        value, low, high = (
            100 * (np.array([seats[seat][key] for seats in rows.values()]) - mean)
            for key in ("win_share", "low", "high")
        )
        axes.errorbar(
            value,
            np.arange(len(rows)) + (seat - (players - 1) / 2) * 0.6 / players,
            xerr=(value - low, high - value),
            fmt="o",
            color=_SEAT_COLORS[seat],
            markersize=4,
            elinewidth=1.2,
            label=f"seat {seat}" + (" (moves first)" if seat == 0 else ""),
        )
    _label_rows(axes, list(rows))
    axes.axhline(0.5, color="#bbbbbb", linewidth=0.8)
    axes.set(
        xlabel="percentage points above the own mean over all seats",
        title=f"{players} players: what a seat is worth, 95 % intervals",
    )
    figure.legend(loc="outside lower center", ncols=players, frameon=False)
    return figure


def _draw_games(table: Table) -> "Figure":
    by_agent = {row["agent"]: row for row in table["agents"]}
    rows = [by_agent[row["agent"]] for row in table["ladder"]]
    figure = _new_figure(1.0 + 0.32 * len(rows))
    panels = figure.subplots(1, len(_STATISTICS), sharey=True)
    place = np.arange(len(rows))
    for axes, (key, title) in zip(panels, _STATISTICS.items(), strict=True):
        mean, low, high = (
            np.array([row[key][part] for row in rows]) for part in ("mean", "p5", "p95")
        )
        axes.hlines(place, low, high, color="#a9c4dc", linewidth=5)
        axes.plot(mean, place, "o", color=_BLUE, markersize=5)
        for x, y in zip(mean, place, strict=True):
            axes.annotate(
                f"{x:.1f}", (x, y), xytext=(0, 5), textcoords="offset points", ha="center",
                fontsize=7,
            )  # fmt: skip
        _label_rows(axes, [row["agent"] for row in rows])
        axes.margins(x=0.08)
        axes.locator_params("x", nbins=4, integer=True)
        axes.set_title(title)
    figure.supxlabel(
        f"{table['players']} players: mean, and the middle 90 % of the games", fontsize=9
    )
    return figure


def _draw_calibration(table: Table) -> "Figure":
    agents = table["calibration"]
    per_row = min(len(agents), 3)
    num_rows = -(-len(agents) // per_row)
    figure = _new_figure(3.6 * num_rows, max(3.4, min(2.9 * per_row, _WIDTH)))
    grid = figure.subplots(num_rows, per_row, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(agents) :]:
        axes.set_visible(False)
    for axes, (name, bins) in zip(grid.flat, agents.items(), strict=False):
        expected, observed, low, high = (
            np.array(bins[key]) for key in ("expected", "observed", "low", "high")
        )
        axes.plot((0, 1), (0, 1), color=_GREY, linewidth=0.8, linestyle=":")
        spread = (observed - low, high - observed)
        axes.errorbar(expected, observed, spread, fmt="o", color=_BLUE, markersize=4, capsize=2)
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal")
        axes.set_title(f"{_short(name)}: error {bins['error']:.3f}")
        axes.grid(color="#e4e4e4", linewidth=0.6)
    figure.supxlabel(f"{table['players']} players: share expected before a decision", fontsize=9)
    figure.supylabel("share that followed", fontsize=9)
    return figure
