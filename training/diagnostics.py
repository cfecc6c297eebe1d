"""Is a self-play policy sane? How it plays against itself, and whether its value is calibrated.

`play_self` plays, `summarize` counts, the two `draw_` functions show. Nothing here judges or is fed
back into the training.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from splendor_env.core._jit import jit
from splendor_env.core.actions import ACTION_RANGES
from splendor_env.core.batch import (
    deal_games,
    observe_movers,
    step_games,
    write_victory_shares,
)
from splendor_env.core.random import CHOICE_STREAM, check_seed, hash_seed
from splendor_env.core.state import GAME, EndReason, Rules, SplendorError, check_rules
from splendor_env.evaluation.calibration import NUM_BINS, calibrate
from training.figures import new_figure, write_figure
from training.networks import PolicyNetwork, masked_log_probs, win_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACTION_COLUMNS = {
    "take three different": "action_take_three",
    "take two different": "action_take_two",
    "take one": "action_take_one",
    "take two alike": "action_take_alike",
    "reserve a face-up card": "action_reserve",
    "reserve the top of a deck": "action_reserve_deck",
    "buy a face-up card": "action_buy",
    "buy a reserved card": "action_buy_reserved",
    "return a token": "action_return",
    "choose a noble": "action_noble",
    "pay one gold in place of a colour": "action_pay_gold",
    "finish paying": "action_done",
    "pass": "action_pass",
}
"""Column of each kind of action: its share of all decisions."""

PANELS = {
    "entropy of the policy (nats)": ("entropy", "target_entropy", "self_play_entropy"),
    "agreement with the teacher's best move": ("agreement",),
    "approximate KL divergence of an update": ("approx_kl",),
    "clip fraction": ("clip_fraction",),
    "explained variance of the value": ("explained_variance", "value_explained"),
    "policy loss": ("policy_loss",),
    "value loss": ("value_loss",),
    "auxiliary loss": ("aux_loss",),
    "learning rate": ("learning_rate",),
    "steps per second": ("steps_per_second",),
    "calibration error (win share)": ("calibration_error",),
    "rounds": ("rounds",),
    "cards per seat": ("cards",),
    "nobles per seat": ("nobles",),
    "points of the winner": ("winner_points",),
    "first seat's share of the victories": ("first_seat_share",),
    "share of games cut short": ("truncated", "stalemates"),
}
"""Title of each panel of `draw_diagnostics`: the columns that it shows."""

_SUFFIXES = ("", "_2p", "_3p", "_4p")
"""Of the columns in a run for several numbers of players."""

_PANELS_PER_ROW = 4
_WIDTH, _HEIGHT = 3.4, 2.4
"""Inches for a panel with its texts."""


class Games(NamedTuple):
    """Finished games of a policy against itself: G games of N seats, T decisions in all."""

    games: np.ndarray
    """(G,) GAME, as they ended."""
    share: np.ndarray
    """(G, N) float64, each seat's share of the victory."""
    game: np.ndarray
    """(T,) int64, the game of each decision; those of one game are in their order."""
    player: np.ndarray
    """(T,) int8, who decided."""
    action: np.ndarray
    """(T,) int64."""
    predicted: np.ndarray
    """(T,) float64, the share of the victory that the decider expected just before."""
    entropy: np.ndarray
    """(T,) float64, of its choice, in nats."""

    @property
    def observed(self) -> np.ndarray:
        """(T,) float64, the share that the decider got in the end."""
        return self.share[self.game, self.player]


def play_self(network: PolicyNetwork, rules: Rules, num_games: int, seed: int) -> Games:
    """Let a policy, sampled by its probabilities, play all seats of full games.

    All running games are decided in one call of the network. A game depends on `seed` and its
    index, not on how many are played beside it.

    Raises:
        SplendorError: Nonsense rules, no games, not a seed of 64 bits, or outputs that are NaN.
    """
    rules = check_rules(rules)
    if num_games < 1:
        raise SplendorError(f"num_games must be at least 1, not {num_games!r}")
    core_seed = check_seed(seed)
    device = next(network.parameters()).device
    games = np.zeros(num_games, GAME)
    deal_games(games, rules, core_seed)
    running = np.arange(num_games)
    decisions: list[tuple[np.ndarray, ...]] = []
    while len(running):
        now = games[running]
        player = now["player"].copy()
        observation, action_mask = observe_movers(now, rules)
        with torch.inference_mode():
            logits, value_logits = network(torch.from_numpy(observation).to(device))
            logits, value_logits = logits.cpu().double(), value_logits.cpu().double()
            log_probs = masked_log_probs(logits, torch.from_numpy(action_mask)).numpy()
            predicted = win_shares(value_logits)[:, 0].numpy()
        if not (np.isfinite(log_probs).all() and np.isfinite(predicted).all()):
            raise SplendorError("the network's outputs are not finite")
        probs = np.exp(log_probs)
        # Every running game has had as many decisions as there are entries.
        action = _draw(probs, core_seed, running, len(decisions))
        decisions.append((running, player, action, predicted, -(probs * log_probs).sum(1)))
        step_games(now, action.astype(np.int32), rules, -1)
        games[running] = now
        running = running[now["end_reason"] == EndReason.RUNNING]
    share = np.zeros((num_games, rules.num_players))
    write_victory_shares(games, rules, share)
    return Games(games, share, *map(np.concatenate, zip(*decisions, strict=True)))


def _draw(probs: np.ndarray, seed: np.uint64, game: np.ndarray, num_decisions: int) -> np.ndarray:
    """Actions (B,) int64, drawn by the probabilities (B, A)."""
    uniform = np.empty(len(game))
    _write_uniform(seed, game, num_decisions, uniform)
    cumulated = probs.cumsum(1)
    return (cumulated <= uniform[:, None] * cumulated[:, -1:]).sum(1)


@jit
def _write_uniform(seed, game, num_decisions, out):
    """Write a number in [0, 1) for each game's next decision into `out` (B,)."""
    for i in range(out.shape[0]):
        bits = hash_seed(hash_seed(seed, CHOICE_STREAM, game[i]), CHOICE_STREAM, num_decisions)
        out[i] = np.float64(bits >> np.uint64(11)) * 2.0**-53


def summarize(games: Games) -> dict[str, float]:
    """How the games went, by column of the metrics.

    Returns:
        rounds: mean number.
        cards, nobles: mean number per seat at the end.
        winner_points: mean of the most points of a seat.
        first_seat_share: of the victories; 1/N is even.
        truncated, stalemates: shares of the games that ended by the round limit, by passes.
        self_play_entropy: of the policy, in nats, mean over all decisions, forced ones included.
        calibration_error: see `Calibration.error`; all decisions count, those of truncated games
            with a share of 1/N.
        value_explained: how much of the variance of the outcomes the value has foreseen, mean over
            all decisions: 1 is all; 0 is as good as the mean outcome, or that there is no variance.
            The trainer's `explained_variance` is another: it is against lambda-returns, which are
            made of the value itself, and so is higher.
        action_...: share of all decisions, for each of `ACTION_COLUMNS`.
    """
    num_players = games.share.shape[1]
    end = games.games
    observed = games.observed
    variance = observed.var()
    missed = (observed - games.predicted).var()
    starts = [start for start, _ in ACTION_RANGES.values()]
    kind = np.searchsorted(starts, games.action, side="right") - 1
    frequency = np.bincount(kind, minlength=len(starts)) / len(kind)
    columns = [ACTION_COLUMNS[name] for name in ACTION_RANGES]
    return {
        "rounds": float(end["rounds"].mean()),
        "cards": float(end["num_cards"][:, :num_players].mean()),
        "nobles": float((end["noble_owner"] >= 0).sum(1).mean() / num_players),
        "winner_points": float(end["points"][:, :num_players].max(1).mean()),
        "first_seat_share": float(games.share[:, 0].mean()),
        "truncated": float((end["end_reason"] == EndReason.ROUND_LIMIT).mean()),
        "stalemates": float((end["end_reason"] == EndReason.STALEMATE).mean()),
        "self_play_entropy": float(games.entropy.mean()),
        "calibration_error": calibrate(games.predicted, observed, games.game).error,
        "value_explained": float(1 - missed / variance) if variance else 0.0,
        **dict(zip(columns, frequency.tolist(), strict=True)),
    }


def draw_calibration(path: Path, games: Games) -> None:
    """Draw predicted against observed win shares, with 95 % intervals clustered by game, as PNG.

    Under it the distribution of the predictions. See `calibrate`.
    """
    calibration = calibrate(games.predicted, games.observed, games.game)
    figure = new_figure(5, 6)
    axes, below = figure.subplots(2, sharex=True, height_ratios=(4, 1))
    axes.plot((0, 1), (0, 1), color="grey", linewidth=0.8, linestyle=":")
    spread = (
        calibration.observed - calibration.low,
        calibration.high - calibration.observed,
    )
    axes.errorbar(
        calibration.expected, calibration.observed, spread, fmt="o", markersize=4, capsize=2
    )
    axes.set(
        ylabel="share of the victory that followed",
        xlim=(0, 1),
        ylim=(-0.02, 1.02),
        title=f"{len(games.games):,} games against itself, calibration error "
        f"{calibration.error:.3f}",
    )
    below.hist(games.predicted, bins=5 * NUM_BINS, range=(0, 1), color="grey")
    below.set(xlabel="predicted share, before each decision", ylabel="decisions")
    write_figure(figure, path)


def draw_diagnostics(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Draw each of `PANELS` and the kinds of actions over the training, as PNG.

    Panels without a value are left out; if there are none at all, nothing is written.

    Args:
        path: The file.
        rows: Rows of the metrics, each with "step"; other columns may be missing in any row. A
            column may have a suffix of `_2p`, `_3p` or `_4p`: these share the column's panel.
    """
    panels = {}
    for title, columns in PANELS.items():
        suffixed = [column + suffix for suffix in _SUFFIXES for column in columns]
        if any(column in row for row in rows for column in suffixed):
            panels[title] = suffixed
    areas = {}
    for suffix in _SUFFIXES:
        columns = [column + suffix for column in ACTION_COLUMNS.values()]
        complete = [row for row in rows if all(column in row for column in columns)]
        if complete:
            areas[suffix] = complete
    num_panel_rows = -(-len(panels) // _PANELS_PER_ROW)
    num_rows = num_panel_rows + len(areas)
    if num_rows == 0:
        return
    width, height = _WIDTH * _PANELS_PER_ROW, _HEIGHT * num_rows
    figure = new_figure(width, height, is_tight=False)
    grid = figure.add_gridspec(
        num_rows,
        _PANELS_PER_ROW,
        left=0.55 / width,
        right=1 - 2 / width,  # of which the names of the actions need most
        bottom=0.5 / height,
        top=1 - 0.3 / height,
        wspace=0.25,
        hspace=0.35,
    )
    for index, (title, columns) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[divmod(index, _PANELS_PER_ROW)])
        _draw_lines(axes, columns, rows)
        _finish(axes, title)
    for index, (suffix, complete) in enumerate(areas.items()):
        _draw_actions(figure.add_subplot(grid[num_panel_rows + index, :]), complete, suffix)
    figure.supxlabel("million steps", fontsize="small", y=0.1 / height)
    write_figure(figure, path)


def _draw_lines(axes: "Axes", columns: Sequence[str], rows: Sequence[Mapping[str, float]]) -> None:
    lines = []
    for column in columns:
        points = [(row["step"] / 1e6, row[column]) for row in rows if column in row]
        if points:
            lines += axes.plot(*zip(*points, strict=True), marker=".", markersize=3, label=column)
    if len(lines) > 1:
        axes.legend(fontsize="x-small")


def _draw_actions(axes: "Axes", rows: Sequence[Mapping[str, float]], suffix: str) -> None:
    import matplotlib

    used = {
        name: [row[column + suffix] for row in rows]
        for name, column in ACTION_COLUMNS.items()
        if any(row[column + suffix] for row in rows)
    }
    steps = [row["step"] / 1e6 for row in rows]
    if len(steps) == 1:  # an area needs a width
        steps = [0.0, *steps]
        used = {name: values * 2 for name, values in used.items()}
    palette = matplotlib.colormaps["tab20"]
    colors = [palette(index) for index, name in enumerate(ACTION_COLUMNS) if name in used]
    axes.stackplot(steps, *used.values(), labels=list(used), colors=colors)
    axes.set(xlim=(steps[0], steps[-1]) if steps[0] < steps[-1] else None, ylim=(0, 1))
    title = f"kinds of actions, share of the decisions {suffix.removeprefix('_')}"
    _finish(axes, title.strip())
    axes.legend(
        reverse=True, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False
    )


def _finish(axes: "Axes", title: str) -> None:
    """Few ticks with short labels and a title at a fixed place: else they take most of the time."""
    axes.set_title(title, fontsize="small", y=1)
    axes.tick_params(labelsize="small")
    axes.locator_params(nbins=4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
