"""How strong the agents that come along are: matches against the public networks and heuristics.

    python benchmarks/strength.py strength.jsonl --jobs 2
    python benchmarks/strength.py trial.jsonl --only policy --players 2 --games 100

One of ours against one, two or three of the other, each deal once from every seat. A match is added
to the file as soon as it is over, and one that the file has is not played again: after an
interruption the same command goes on. The table of all of them is printed as Markdown at the end.

`policy` and `search` meet the public networks (see yardstick.py), first by the full rules, then in
the common subset (see common_subset.py); `baselines` are the heuristics. An agent that searches by
the clock depends on the machine, so the machine and its load stand beside each match; and as some
games are searched in one call, its time for each is what they take together, split evenly.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from benchmarks.kept import Kept
from splendor_env.agents.fingerprint import fingerprint
from splendor_env.agents.onnx import PRETRAINED_FOLDER
from splendor_env.bench import machine
from splendor_env.core.state import SplendorError, standard
from splendor_env.evaluation import play_specs
from splendor_env.evaluation.arena import num_deals_of

NETWORKS = Path(__file__).parents[2] / "shared" / "yardstick"
POLICY = "pretrained"
SEARCH = "pretrained:ms=50"
RIVAL_SEARCH = "mcts:sims=800,eval="
BASELINES = ("greedy", "builder", "racer")
GAMES = {
    "policy": {2: 2400, 3: 2001, 4: 2000},
    "baselines": {2: 2400, 3: 2001, 4: 2000},
    "search": {2: 400, 3: 300, 4: 300},
}
"""Games of each match, by kind and number of players; the kinds that take hours last."""
REPORT_SEED = 1000
"""Of deals that no training has used: those have seeds from 2**40 on."""

_COMMON_SUBSET = "benchmarks.common_subset:"
_YARDSTICK = "benchmarks.yardstick:"


class Match(NamedTuple):
    """One row of the table."""

    kind: str
    """A key of `GAMES`."""
    agent: str
    """Spec of ours."""
    against: str
    """Spec of the other."""
    players: int
    games: int
    seed: int
    is_common: bool = False
    """Whether our agent, and the search of the other one, is kept to the common subset."""

    @property
    def specs(self) -> tuple[str, str]:
        """Those that play."""
        if not self.is_common:
            return self.agent, self.against
        # Their policy has no other moves; a search by it may try what their rules do not have.
        is_search = not self.against.startswith(_YARDSTICK)
        against = f"{_COMMON_SUBSET}{self.against}" if is_search else self.against
        return f"{_COMMON_SUBSET}{self.agent}", against

    @property
    def key(self) -> dict[str, Any]:
        """By which a finished match is found again."""
        return {
            "specs": [_public(spec) for spec in self.specs],
            "made_from": [_made_from(spec, self.players) for spec in self.specs],
            "players": self.players,
            "games": num_deals_of(self.games, self.players) * self.players,
            "seed": self.seed,
        }


def _made_from(spec: str, players: int) -> str:
    """The fingerprint of a spec, and of the one within it, as far as so many players matter."""
    if spec.startswith(_COMMON_SUBSET):
        inner = spec.removeprefix(_COMMON_SUBSET)
        return f"{fingerprint(_COMMON_SUBSET)} {_made_from(inner, players)}"
    # Of `pretrained` all networks would count, and a new one for two players throw away all games.
    kind, _, options = spec.partition(":")
    if kind != "pretrained":
        return fingerprint(spec)
    network = f"onnx:{PRETRAINED_FOLDER / f'{players}p.onnx'}"
    return fingerprint(f"mcts:{options},eval={network}" if options else network)


def plan(
    kinds: Sequence[str], players: Sequence[int], games: int | None, seed: int, networks: Path
) -> list[Match]:
    """All matches; says on stderr what is left out for want of a network."""
    matches = []
    for kind in kinds:
        for num_players in players:
            size = GAMES[kind][num_players] if games is None else games
            if kind == "baselines":
                pairs = [(POLICY, other, False) for other in BASELINES]
            else:
                file = next(iter(sorted(networks.glob(f"*_{num_players}p.onnx"))), None)
                if file is None:
                    _say(f"{kind}, {num_players} players: skipped, no network in {networks}")
                    continue
                # The file itself, not its folder: a fingerprint has its content.
                network = f"{_YARDSTICK}{file}"
                agent = POLICY if kind == "policy" else SEARCH
                other = network if kind == "policy" else f"{RIVAL_SEARCH}{network}"
                pairs = [(agent, other, is_common) for is_common in (False, True)]
            matches += [
                Match(kind, agent, other, num_players, size, seed, is_common)
                for agent, other, is_common in pairs
            ]
    return matches


def play(match: Match, jobs: int) -> dict[str, Any]:
    """Play a match, and say how it went and on what."""
    rules, load = standard(match.players), _load()
    play_specs(*match.specs, rules, match.players, match.seed)  # compiles
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(_title(match))
        result = play_specs(
            *match.specs,
            rules,
            match.games,
            match.seed,
            lambda done, total: progress.update(task, completed=done, total=total),
            jobs=jobs,
        )
    specs = dict(zip(("agent", "against"), match.key["specs"], strict=True))
    return {
        "jobs": jobs,
        "load": [load, _load()],
        "machine": machine(),
        "result": asdict(result) | specs,
    }


def _load() -> float | None:
    """Processes that wanted a core in the last minute, on average; None where nobody counts."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def table(finished: Sequence[tuple[Match, dict[str, Any]]]) -> str:
    """Markdown. Intervals are Wilson's; times are those of a decision."""
    lines = [
        "| Agent | Against | Players | Rules | Win share, 95 % interval | Times an even share "
        "| Games | ms, its / theirs | Rounds | Illegal, its / theirs | Cut short "
        "| Load, processes |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for match, row in finished:
        one = row["result"]
        share, low, high = (100 * one[key] for key in ("win_share", "low", "high"))
        illegal = [one["illegal"] + one["failed"], one["illegal_against"] + one["failed_against"]]
        seconds = (one["seconds_per_decision"], one["seconds_per_decision_against"])
        load = ["?" if value is None else f"{value:.1f}" for value in row["load"]]
        cells = (
            match.agent,
            _public(match.against),
            match.players,
            "common" if match.is_common else "full",
            f"{share:.1f} % [{low:.1f}, {high:.1f}]",
            f"{one['win_share'] * match.players:.2f}",
            f"{one['games']:,}",
            " / ".join(f"{1000 * value:.3g}" for value in seconds),
            f"{one['rounds']:.1f}",
            " / ".join(map(str, illegal)),
            one["truncated"] + one["stalemates"],
            f"{' to '.join(load)}, {row['jobs']}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _public(spec: str) -> str:
    """The spec without the folder of this machine."""
    before, yardstick, _ = spec.partition(_YARDSTICK)
    return f"{before}{yardstick}PATH" if yardstick else spec


def _title(match: Match) -> str:
    rules = ", common subset" if match.is_common else ""
    return f"{match.agent} against {_public(match.against)}, {match.players} players{rules}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play what the file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("file", type=Path, help="JSON lines, one for each match")
    parser.add_argument("--only", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--players", type=int, nargs="+", choices=(2, 3, 4), default=[2, 3, 4])
    parser.add_argument("--games", type=int, help="of every match, for trying")
    parser.add_argument("--seed", type=int, default=REPORT_SEED)
    parser.add_argument("--jobs", type=int, default=1, help="processes of a match")
    parser.add_argument("--networks", type=Path, default=NETWORKS, help="folder of the public ones")
    options = parser.parse_args(arguments)
    matches = plan(options.only, options.players, options.games, options.seed, options.networks)

    def finish(match: Match) -> dict[str, Any]:
        _say(_title(match))
        return play(match, options.jobs)

    try:
        kept = Kept(options.file)
        finished = [(match, kept.get(match.key, partial(finish, match))) for match in matches]
    except SplendorError as error:
        raise SystemExit(f"error: {error}") from error
    print(table(finished))
    print(f"\nseed {options.seed}")
    for used in dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in row["machine"].items()) for _, row in finished
    ):
        print(used)


if __name__ == "__main__":
    main()
