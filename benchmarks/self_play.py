"""What strong play looks like: an agent against itself, beside figures of people and programs.

    python benchmarks/self_play.py --figure docs/figures/self_play.png
    python benchmarks/self_play.py --agent racer --players 2 --games 1000

One agent has all seats. `pretrained` plays the likeliest action, so that all chance is that of the
deals, each of which is played once. The table is Markdown. A winner's figures are means over the
games that were not cut short; of a shared victory each winner counts as its share.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import BUY, RESERVE, RESERVE_DECK, RETURN
from splendor_env.core.cards import CARD_LEVEL, CARD_POINTS, NUM_LEVELS
from splendor_env.core.gems import gold_of
from splendor_env.core.state import (
    MAX_PLAYERS,
    EndReason,
    Phase,
    Rules,
    SplendorError,
    standard,
)
from splendor_env.evaluation.arena import Games, Seating
from splendor_env.evaluation.report import count_ends, shares_by_seat, spread
from splendor_env.evaluation.workers import play_specs_games
from training.figures import new_figure, write_figure

COUNTS = np.dtype(
    (
        np.record,
        [
            ("turns", np.int64, MAX_PLAYERS),
            ("cards", np.int64, (MAX_PLAYERS, NUM_LEVELS)),  # bought
            ("worthless", np.int64, MAX_PLAYERS),  # cards of no points among them
            ("reserves", np.int64, MAX_PLAYERS),
            ("blind", np.int64, MAX_PLAYERS),  # reserves from a deck among them
            ("gold_taken", np.int64, MAX_PLAYERS),
            ("gold_spent", np.int64, MAX_PLAYERS),
        ],
    )
)
"""What one game has had of each, by seat."""

SOURCES = (
    'Trace Studio, "Splendor by the Numbers", 2026: tens of thousands of games of bots '
    "(trace-studio.github.io/research/splendor-technical-report)",
    "Board Game Arena: a tournament in Japan, 2021, 168 games of two people "
    "(note.com/hpiero/n/nc038f04219c1)",
    "World Boardgaming Championships 2017: 112 games of four people "
    "(boardgamers.org/yearbook17/spd.html)",
    "spendee, online: 6,589 games of two, 542 of three, 176 of four "
    "(78782.diarynote.jp/201708301011386427)",
    "Dominion Strategy forum, user 1726: over 7,000 online games",
    "M. Candocia's network of 2018 against itself: 1,808 games of four, computed from its table "
    "(github.com/mcandocia/splendor_ai)",
    "lapidary-ai against itself (README of github.com/inclement/lapidary-ai)",
    "effective-splendor: 64 games of a search against a heuristic and 64 of two searches, computed "
    "from its match reports",
)
ELSEWHERE = {
    "Rounds": "bots about 27 [1]; networks 29.3 [7] and, with four players, 28.7 to 29.8 [6]; "
    "searches, two players, 30.0 and 30.9 [8]; the shortest online game 19 [5]",
    "Seats' shares of the victories, %": "first seat: bots 57.5 with two players, 37.5 with four "
    '[1]; two people "almost 50:50" [2]; four people won 20, 29, 31 and 32 of 112 games [3]; a '
    "network 24.0, 27.0, 24.7, 24.3 [6]",
    "Shared victories": 'bots: "essentially nonexistent" [1]',
    "Points of the winner": "bots about 16 [1]",
    "Points of the runner-up": "bots about 11 [1]",
    "Cards of the winner": "bots about 15 [1]; online, at the end, 13.0, 11.9, 11.1, and 9.3 of "
    "those rated 2000 or more with two players [4]",
    "of levels 1, 2, 3": "bots 8.7, 5.0, 1.1 [1]",
    "without points": "bots about 54 % [1]",
    "Nobles of the winner": "bots at a full table about 1.7 [1]; online 0.87, 0.92, 0.84 [4]",
    "Nobles of another seat": "bots at a full table 0.4 [1]",
}
"""By row of the table. The numbers in brackets are those of `SOURCES`, from 1."""

_SIDES = ("seat", "winner")
"""Whose cards are shown by level: any seat's, and the winner's."""
_COLORS = {2: "#1f5f99", 3: "#c8553d", 4: "#3c8d5a"}
_LEVEL_COLORS = ("#9dc3a0", "#e8c268", "#8fb4d9")


def play(spec: str, rules_: Rules, num_games: int, seed: int, jobs: int) -> Games:
    """Let an agent play as many deals against itself."""
    seats = np.zeros((num_games, rules_.num_players), np.int16)
    seating = Seating(seats, np.arange(num_games))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{rules_.num_players} players")
        return play_specs_games(
            [spec],
            seating,
            rules_,
            seed,
            jobs=jobs,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )


def count(games: Games, rules_: Rules) -> np.ndarray:
    """(G,) COUNTS of the games, which are played once more for it."""
    start = np.cumsum([0, *map(len, games.actions)])
    counts = np.zeros(len(games.deals), COUNTS)
    _count(games.deals.copy(), np.concatenate(games.actions), start, rules_, counts)
    return counts


@jit
def _count(games, actions, start, rules_, out):
    """Play games (G,), mutated, and add what happens to `out` (G,) COUNTS.

    Args:
        games: As dealt.
        actions: (T,) int8, of one game after the other.
        start: (G + 1,) int64, where each game's actions begin.
        rules_: The variant.
        out: Zeros.
    """
    for i in range(games.shape[0]):
        game, counts = games[i], out[i]
        for position in range(start[i], start[i + 1]):
            action = np.int64(actions[position])
            seat, phase, gold = np.int64(game.player), game.phase, gold_of(game.bank)
            if phase == Phase.PLAY:
                counts.turns[seat] += 1
                if BUY <= action < RETURN:
                    card = rules.card_bought(game, action)
                    counts.cards[seat, CARD_LEVEL[card]] += 1
                    counts.worthless[seat] += CARD_POINTS[card] == 0
                elif RESERVE <= action < BUY:
                    counts.reserves[seat] += 1
                    counts.blind[seat] += action >= RESERVE_DECK
            rules.step(game, action, rules_, -1)
            taken = gold - gold_of(game.bank)
            if taken > 0:
                counts.gold_taken[seat] += taken
            elif phase != Phase.RETURN:
                counts.gold_spent[seat] -= taken


def tabulate(results: np.ndarray, counts: np.ndarray, num_players: int) -> dict[str, Any]:
    """The figures of games with so many players.

    Args:
        results: (G,) GAME_RESULT.
        counts: (G,) COUNTS.
        num_players: N.

    Returns:
        `rounds` (G,); `ends` and `seats` as the report of a league has them; `points` of the
        `winner`, `other` (seats that have not won) and the `runner_up`; and for `seat` (any),
        `winner` and `other`, by name, means of `num_cards`, `nobles`, `turns`, `reserves`, `blind`,
        `gold_taken`, `gold_spent`, `worthless`, and by level (3,) `cards`.
    """
    share = results["share"][:, :num_players]
    has_result = np.isin(results["end_reason"], (EndReason.TARGET, EndReason.STALEMATE))
    sides = {
        "seat": np.ones_like(share),
        "winner": np.where(has_result[:, None], share, 0),
        "other": np.where(has_result[:, None], share == 0, 0.0),  # floats: sums of int8 overflow
    }
    values = {name: results[name] for name in ("num_cards", "nobles", "points")}
    values |= {name: counts[name] for name in COUNTS.names or ()}
    table: dict[str, Any] = {
        side: {
            name: np.tensordot(weight, value[:, :num_players], 2) / max(weight.sum(), 1)
            for name, value in values.items()
        }
        for side, weight in sides.items()
    }
    by_points = np.sort(results["points"][has_result, :num_players], 1)
    return table | {
        "players": num_players,
        "rounds": results["rounds"],
        "ends": count_ends(results),
        "seats": shares_by_seat(results, np.ones(share.shape, bool)),
        "runner_up": float(by_points[:, -2].mean()) if len(by_points) else 0.0,
    }


def rows(table: Mapping[str, Any]) -> dict[str, str]:
    """What the Markdown says of one number of players, by the name of the row."""
    seat, winner, other, ends = (table[key] for key in ("seat", "winner", "other", "ends"))
    rounds = spread(table["rounds"])
    levels = {side: ", ".join(f"{mean:.1f}" for mean in table[side]["cards"]) for side in _SIDES}
    of_reserves = max(seat["reserves"], 1e-9)
    return {
        "Games": f"{ends['games']:,}",
        "Rounds": f"{rounds['mean']:.1f} ({rounds['p5']:.0f} to {rounds['p95']:.0f})",
        "Seats' shares of the victories, %": ", ".join(
            f"{100 * one['win_share']:.1f} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"
            for one in table["seats"]
        ),
        "Shared victories": _percent(ends["ties"] / ends["games"]),
        "Cut short": str(ends["truncated"] + ends["stalemates"]),
        "Points of the winner": f"{winner['points']:.1f}",
        "Points of the runner-up": f"{table['runner_up']:.1f}",
        "Cards of a seat": f"{seat['num_cards']:.1f} ({levels['seat']})",
        "Cards of the winner": f"{winner['num_cards']:.1f}",
        "of levels 1, 2, 3": levels["winner"],
        "without points": _percent(winner["worthless"] / max(winner["num_cards"], 1e-9)),
        "Nobles of the winner": f"{winner['nobles']:.2f}",
        "Nobles of another seat": f"{other['nobles']:.2f}",
        "Reserves in a game": f"{seat['reserves'] * table['players']:.1f}",
        "Reserves of the winner, of another seat": f"{winner['reserves']:.1f}, "
        f"{other['reserves']:.1f}",
        "Reserves, of all turns": _percent(seat["reserves"] / seat["turns"]),
        "Blind, of all reserves": _percent(seat["blind"] / of_reserves),
        "Gold that a seat takes, spends": f"{seat['gold_taken']:.1f}, {seat['gold_spent']:.1f}",
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def markdown(tables: Sequence[Mapping[str, Any]]) -> str:
    """All tables as one, a column for each number of players, with what others have found."""
    columns = [rows(table) for table in tables]
    titles = [f"{table['players']} players" for table in tables]
    lines = [f"| | {' | '.join(titles)} | Elsewhere |", "|---" * (len(titles) + 2) + "|"]
    for name in columns[0]:
        cells = [column[name] for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {ELSEWHERE.get(name, '')} |")
    sources = [f"{number}. {source}" for number, source in enumerate(SOURCES, 1)]
    return "\n".join([*lines, "", *sources])


def draw(path: Path, tables: Sequence[Mapping[str, Any]], name: str) -> None:
    """Draw rounds, seats and cards as PNG."""
    figure = new_figure(12, 3.8)
    of_rounds, of_seats, of_cards = figure.subplots(1, 3)
    ticks: dict[float, str] = {}
    for place, table in enumerate(tables):
        players, color = table["players"], _COLORS[table["players"]]
        games = np.bincount(table["rounds"]) / len(table["rounds"])
        longest = int(np.percentile(table["rounds"], 99.9))  # a few go on to the limit
        number = np.arange(table["rounds"].min(), longest + 1)
        of_rounds.plot(number, games[number], ".-", color=color, label=f"{players} players")
        x = place * (MAX_PLAYERS + 1) + np.arange(players)
        share, low, high = (
            100 * np.array([seat[key] for seat in table["seats"]])
            for key in ("win_share", "low", "high")
        )
        of_seats.errorbar(x, share, (share - low, high - share), fmt="o", color=color, capsize=3)
        of_seats.hlines(100 / players, x[0] - 0.4, x[-1] + 0.4, color="#999999", linestyle=":")
        ticks |= dict(zip(x.tolist(), "1234", strict=False))
        for offset, side in enumerate(_SIDES):
            bottom = 0.0
            for level, cards in enumerate(table[side]["cards"]):
                label = f"level {level + 1}" if place == offset == 0 else None
                at = place + 0.42 * offset
                of_cards.bar(at, cards, 0.38, bottom, color=_LEVEL_COLORS[level], label=label)
                if cards >= 0.5:
                    middle = bottom + cards / 2
                    of_cards.text(at, middle, f"{cards:.1f}", ha="center", va="center", fontsize=8)
                bottom += cards
    of_rounds.set(xlabel="rounds", ylabel="share of the games", title="length of a game")
    of_rounds.locator_params("x", integer=True)
    of_rounds.legend(frameon=False)
    of_seats.set_xticks(list(ticks), list(ticks.values()))
    of_seats.set(xlabel="seat, by turn", ylabel="%", title="shares of the victories, 95 %")
    sides = [f"{side}\n{table['players']}p" for table in tables for side in _SIDES]
    of_cards.set_xticks([i + 0.42 * k for i in range(len(tables)) for k in (0, 1)], sides)
    of_cards.set(ylabel="cards bought", title="cards of a seat, and of the winner")
    of_cards.legend(frameon=False, fontsize="small", loc="upper right", ncols=NUM_LEVELS)
    of_cards.margins(y=0.18)
    for axes in (of_rounds, of_seats, of_cards):
        axes.spines[["top", "right"]].set_visible(False)
    games = " and ".join(dict.fromkeys(f"{len(table['rounds']):,}" for table in tables))
    figure.suptitle(f"{name} against itself, {games} games for each number of players")
    write_figure(figure, path)


def main() -> None:
    """Play, count, print the table and draw."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--agent", default="pretrained", help="a spec")
    parser.add_argument("--players", type=int, nargs="+", choices=(2, 3, 4), default=[2, 3, 4])
    parser.add_argument("--games", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--figure", type=Path, help="a PNG file to draw into")
    options = parser.parse_args()
    tables = []
    for num_players in options.players:
        print(f"{num_players} players", file=sys.stderr, flush=True)
        rules_ = standard(num_players)
        try:
            games = play(options.agent, rules_, options.games, options.seed, options.jobs)
        except SplendorError as error:
            raise SystemExit(f"error: {error}") from error
        tables.append(tabulate(games.results, count(games, rules_), num_players))
    print(f"{options.agent} against itself, seed {options.seed}\n")
    print(markdown(tables))
    if options.figure is not None:
        draw(options.figure, tables, options.agent)


if __name__ == "__main__":
    main()
