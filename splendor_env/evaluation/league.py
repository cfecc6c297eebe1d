"""A league: every agent against every other, by a config file, with a report made from the records.

Two players: each pair once, in both seats. Three and four: each pair both ways, one copy against
the rest and the rest against one, and mixed tables. Every match is a file of records, so that an
interrupted league goes on where it was, and every figure can be computed again.
"""

import contextlib
import hashlib
import importlib
import json
import multiprocessing
import platform
import re
import signal
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from splendor_env.agents import make_agent
from splendor_env.agents.onnx import PretrainedAgent
from splendor_env.core.batch import observe_movers
from splendor_env.core.random import check_seed
from splendor_env.core.state import PRESETS, Rules, SplendorError, resolve_rules
from splendor_env.evaluation.arena import MAX_GAMES, Seating, mixed_tables, one_against_rest
from splendor_env.evaluation.calibration import Calibration, calibrate
from splendor_env.evaluation.files import play_to_file, results_of
from splendor_env.evaluation.report import MIXED, REPORT_VERSION, Match, tabulate, write_report
from splendor_env.evaluation.workers import MAX_JOBS, end_with_parent
from splendor_env.record import read_records, replay

LADDER_FILE = Path(__file__).with_name("ladder.json")
"""The ratings that `splendor agents` shows."""

_COUNTS = (2, 3, 4)
_CALIBRATION_GAMES = 48
"""Games of each match, at most, in which agents are asked what they expect."""
_MAX_STEM = 80
_DIGEST_BYTES = 8
_PLAYED_FILE = "played.json"
"""In the league's folder: by which calls its games were played."""


@dataclass(frozen=True)
class LeagueConfig:
    """The settings of a league: one flat TOML file.

    Numbers of games may be one number, or a table by number of players such as
    `{ 2 = 1000, 3 = 600, 4 = 600 }`; each is rounded up to whole deals.

    Raises:
        SplendorError: A value of the wrong type, out of range or none of its choices.
    """

    name: str
    """Of the folder with records and report; the config file's name if the file has none."""
    agents: Mapping[str, str]
    """Spec by name; in the file also a list of specs, which then are their own names."""
    players: tuple[int, ...] = _COUNTS
    rules: str = "standard"
    seed: int = 0
    games_per_pair: Mapping[int, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 1000))
    """In each match of one agent against copies of another."""
    mixed_games: Mapping[int, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 1000))
    """At tables of different agents, for 3 and 4 players."""
    slow: tuple[str, ...] = ()
    """Names of agents whose matches have `slow_games_per_pair` instead."""
    slow_games_per_pair: Mapping[int, int] = field(
        default_factory=lambda: dict.fromkeys(_COUNTS, 200)
    )
    anchor: str = "random"
    """Name of the agent whose rating is 0."""
    jobs: int = 1
    """Matches played at once, each in a process."""
    folder: str = "leagues"
    """Where the league's own folder is."""

    def __post_init__(self) -> None:
        for key in ("name", "folder"):
            value = getattr(self, key)
            _check(key, value, str, "a string")
            if not value or not value.isprintable():
                raise SplendorError(f"{key} must be the name of a folder, not {value!r}")
        if self.name == ".." or Path(self.name).name != self.name:
            raise SplendorError(f"name must be the name of a folder, not {self.name!r}")
        if len(self.agents) < 2:
            raise SplendorError(f"agents must be at least two, not {list(self.agents)!r}")
        for name, spec in self.agents.items():
            _check(f"the spec of agent {name!r}", spec, str, "a string")
            if not name or not name.isprintable():
                raise SplendorError(f"agents must have printable names, not {name!r}")
        specs = list(self.agents.values())
        for spec in specs:
            if specs.count(spec) > 1:
                raise SplendorError(f"agents must have different specs, not {spec!r} twice")
        stems = {_stem(name): name for name in self.agents}
        for name in self.agents:
            if stems[_stem(name)] != name:
                raise SplendorError(
                    f"agents {name!r} and {stems[_stem(name)]!r} need names that differ in letters "
                    "and digits, as files are called after them"
                )
        for count in self.players:
            _check("each of players", count, int, "2, 3 or 4", 2, 4)
        if not self.players or len(set(self.players)) < len(self.players):
            raise SplendorError(
                f"players must be some of 2, 3 and 4, each once, not {list(self.players)!r}"
            )
        if not isinstance(self.rules, str) or self.rules not in PRESETS:
            raise SplendorError(f"rules must be one of {', '.join(PRESETS)}, not {self.rules!r}")
        check_seed(self.seed)
        if max(self.players) > 2 and len(self.agents) < max(self.players):
            raise SplendorError(
                f"mixed tables of {max(self.players)} players need as many agents, not "
                f"{len(self.agents)}"
            )
        for key, name in (*(("slow", name) for name in self.slow), ("anchor", self.anchor)):
            if name not in list(self.agents):  # a list, as the name may be anything
                raise SplendorError(
                    f"{key} must name agents of the league ({', '.join(self.agents)}), not {name!r}"
                )
        _check("jobs", self.jobs, int, f"1 to {MAX_JOBS}", 1, MAX_JOBS)
        for key in ("games_per_pair", "mixed_games", "slow_games_per_pair"):
            for count in self.players:
                if key == "mixed_games" and count == 2:
                    continue
                number = getattr(self, key).get(count)
                meaning = f"1 to {MAX_GAMES}"
                _check(f"{key} for {count} players", number, int, meaning, 1, MAX_GAMES)

    @property
    def path(self) -> Path:
        """The league's folder."""
        return Path(self.folder) / self.name


def load_league(path: str | Path) -> LeagueConfig:
    """Read a config file.

    Raises:
        SplendorError: No such file, not TOML, an unknown key or a bad value.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SplendorError(f"cannot read the config {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SplendorError(f"{path} is not TOML: {error}") from error
    keys = [one.name for one in fields(LeagueConfig)]
    for key in values:
        if key not in keys:
            raise SplendorError(f"unknown setting {key!r}; settings are {', '.join(keys)}")
    if "agents" not in values:
        raise SplendorError(f"{path} names no agents")
    values = {"name": path.stem} | values
    return LeagueConfig(**{key: _convert(key, value) for key, value in values.items()})


def _convert(key: str, value: Any) -> Any:
    """A value as TOML has it, in the form that `LeagueConfig` takes."""
    if key == "agents":
        if isinstance(value, list):
            if len(set(map(str, value))) < len(value):
                raise SplendorError(f"agents must differ, not {value!r}")
            return {str(spec): spec for spec in value}
        _check(key, value, dict, "a list of specs, or a table of names and specs")
    elif key in ("players", "slow"):
        _check(key, value, list, "a list")
        return tuple(value)
    elif key.endswith(("games", "per_pair")):
        if not isinstance(value, dict):
            return dict.fromkeys(_COUNTS, value)
        for count in value:
            if count not in map(str, _COUNTS):
                raise SplendorError(f"{key} must be by 2, 3 or 4 players, not {count!r}")
        return {int(count): number for count, number in value.items()}
    return value


def _check(
    key: str, value: Any, kind: type, meaning: str, low: int | None = None, high: int | None = None
) -> None:
    is_right = isinstance(value, kind) and not isinstance(value, bool)
    if is_right and low is not None and high is not None:
        is_right = low <= value <= high
    if not is_right:
        raise SplendorError(f"{key} must be {meaning}, not {value!r}")


def _stem(name: str) -> str:
    """The name as a part of a file's name, which no system refuses or folds."""
    stem = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
    if len(stem) <= _MAX_STEM:
        return stem
    digest = hashlib.blake2b(stem.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{stem[: _MAX_STEM - len(digest) - 1]}-{digest}"


class _Task(NamedTuple):
    """A match to be played, or read back."""

    path: Path
    agents: tuple[int, ...]
    """Index in the league of each agent of the match."""
    specs: tuple[str, ...]
    seating: Seating
    rules: Rules
    seed: int
    is_slow: bool

    @property
    def is_mixed(self) -> bool:
        return len(self.agents) > 2


class _Expectations(NamedTuple):
    """What an agent expected before T decisions of a match, and what came."""

    expected: np.ndarray
    """(T,) its share of the victory."""
    observed: np.ndarray
    """(T,) the same in the end."""
    game: np.ndarray
    """(T,) number of the game."""


class _Played(NamedTuple):
    """What a match's file says."""

    match: Match
    expectations: dict[int, _Expectations]
    """Of each agent that expects shares, by its index in the league."""


def play_league(
    config: LeagueConfig,
    about: Mapping[str, str],
    *,
    report_only: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Play what is left to play, then write the report into the league's folder.

    Args:
        config: Of the league.
        about: What the report shall say of this call besides versions and commit, such as the
            command and the machine.
        report_only: Play nothing; every match must be there.
        progress: Called with the games done and the games in all: as they finish where `jobs` is 1,
            else after each match.

    Returns:
        The content of report.json.

    Raises:
        SplendorError: An unknown agent, a file of another match, one that is missing, a folder or
            `played.json` that cannot be made or read, no matplotlib or no openskill.
    """
    for package in ("matplotlib", "openskill"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise SplendorError(
                f"the report of a league needs {package}: install the extra `train` ({error})"
            ) from error
    for spec in config.agents.values():
        make_agent(spec)  # a mistake in the last one must not cost the games before it
    tasks = _tasks(config)
    if report_only:
        for task in tasks:
            if not task.path.is_file():
                raise SplendorError(f"{task.path} is missing: run the league without --report-only")
    try:
        (config.path / "records").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SplendorError(f"cannot make the folder {config.path}: {error}") from error
    this_call = dict(about) | _program()
    num_games = sum(len(task.seating.deal) for task in tasks)
    num_done = 0

    def tell(done_of_match: int, games_of_match: int) -> None:
        if progress is not None:
            progress(num_done + done_of_match, num_games)

    played: dict[Path, _Played] = {}
    with _noted(config, this_call, tasks, report_only):
        for task, one in _in_processes(tasks, config.jobs, report_only, tell):
            played[task.path] = one
            num_done += len(task.seating.deal)
            tell(0, 0)
    names = list(config.agents)
    tables = {}
    for count in config.players:
        ours = [played[task.path] for task in tasks if task.rules.num_players == count]
        tables[str(count)] = tabulate(
            names,
            [one.match for one in ours],
            resolve_rules(config.rules, count),
            names.index(config.anchor),
            _calibrations(names, ours),
        )
    report = {
        "version": REPORT_VERSION,
        "about": {
            "league": config.name,
            "rules": config.rules,
            "seed": str(config.seed),
            "rating 0": config.anchor,
        },
        "played_by": _read_calls(config),
        "written_by": this_call | {"written": _now()},
        "config": asdict(config),
        "agents": dict(config.agents),
        "calibration_games": _CALIBRATION_GAMES,
        "tables": tables,
    }
    write_report(report, config.path)
    return report


def _tasks(config: LeagueConfig) -> list[_Task]:
    """All matches, by number of players."""
    names, specs = list(config.agents), tuple(config.agents.values())
    tasks = []
    for count in config.players:
        rules = resolve_rules(config.rules, count)
        folder = config.path / "records"
        for one in range(len(names)):
            for rest in range(len(names)):
                if one == rest or (count == 2 and one > rest):
                    continue
                is_slow = names[one] in config.slow or names[rest] in config.slow
                games = config.slow_games_per_pair if is_slow else config.games_per_pair
                tasks.append(
                    _Task(
                        folder / f"{count}p_{_stem(names[one])}_{_stem(names[rest])}.jsonl.gz",
                        (one, rest),
                        (specs[one], specs[rest]),
                        one_against_rest(rules, games[count]),
                        rules,
                        config.seed,
                        is_slow,
                    )
                )
        if count > 2:
            tasks.append(
                _Task(
                    folder / f"{count}p_mixed.jsonl.gz",
                    tuple(range(len(names))),
                    specs,
                    mixed_tables(len(names), rules, config.mixed_games[count], config.seed),
                    rules,
                    config.seed,
                    bool(config.slow),
                )
            )
    return tasks


@contextlib.contextmanager
def _noted(
    config: LeagueConfig, call: Mapping[str, str], tasks: Sequence[_Task], report_only: bool
) -> Iterator[None]:
    """Note in the league's folder who plays here, unless nothing is left to play."""
    if report_only:
        yield
        return
    before, sizes = _read_calls(config), _sizes(tasks)
    # Before the first game, as a kill may be the end.
    this = dict(call) | {"processes": str(config.jobs), "began": _now()}
    _write_calls(config, [*before, this])
    try:
        yield
    finally:
        if _sizes(tasks) == sizes:
            _write_calls(config, before)


def _sizes(tasks: Sequence[_Task]) -> list[int]:
    return [task.path.stat().st_size if task.path.exists() else 0 for task in tasks]


def _read_calls(config: LeagueConfig) -> list[dict[str, str]]:
    """By which calls the games were played, in order; what each says of itself."""
    path = config.path / _PLAYED_FILE
    if not path.exists():
        return []
    try:
        calls = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SplendorError(f"cannot read {path}: {error}") from error
    is_right = isinstance(calls, list) and all(isinstance(call, dict) and call for call in calls)
    if not is_right or any(not isinstance(text, str) for call in calls for text in call.values()):
        raise SplendorError(f"{path} is not a list of tables of texts")
    return calls


def _write_calls(config: LeagueConfig, calls: Sequence[Mapping[str, str]]) -> None:
    text = json.dumps(calls, indent=1, ensure_ascii=False) + "\n"
    path = config.path / _PLAYED_FILE
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SplendorError(f"cannot write {path}: {error}") from error


def _in_processes(
    tasks: list[_Task], jobs: int, report_only: bool, progress: Callable[[int, int], None]
) -> Iterator[tuple[_Task, _Played]]:
    """Play and read every match, and give them as they are done; progress is of a match."""
    # Mixed tables first: only they can be refused after a change of agents. Then the slow ones, so
    # that no process is left alone with one in the end.
    order = sorted(tasks, key=lambda task: (not task.is_mixed, not task.is_slow))
    if jobs == 1:
        for task in order:
            yield task, _play(task, report_only, progress)
        return
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin_worker)
    try:
        futures = {pool.submit(_play, task, report_only): task for task in order}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise SplendorError(f"a process that plays matches has died ({error})") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _play(
    task: _Task, report_only: bool, progress: Callable[[int, int], None] | None = None
) -> _Played:
    """Play what is missing of a match, then read what its file says."""
    try:
        if not report_only:
            play_to_file(
                task.specs, task.seating, task.rules, task.seed, task.path, progress=progress
            )
        return _read(task)
    except SplendorError as error:
        if not task.is_mixed:
            raise
        raise SplendorError(
            f"{error} (mixed tables change with the agents: if these have changed, remove "
            f"{task.path.with_name('*_mixed.jsonl.gz')} and play them again)"
        ) from error


def _read(task: _Task) -> _Played:
    """What the file of a finished match says."""
    records = list(read_records(task.path))
    results = results_of(records, task.specs)
    order = np.argsort([record["about"]["game"] for record in records])
    records, results = [records[number] for number in order], results[order]
    is_right = np.array_equal(results["deal"], task.seating.deal) and np.array_equal(
        results["agents"][:, : task.rules.num_players], task.seating.seats
    )
    settings = (task.seed, task.rules._asdict())
    if not is_right or any((one["about"]["seed"], one["rules"]) != settings for one in records):
        raise SplendorError(
            f"{task.path} has {len(records)} games, which are not the {len(task.seating.deal)} of "
            "the config"
        )
    sample = np.linspace(0, len(records) - 1, min(_CALIBRATION_GAMES, len(records))).astype(int)
    chosen = [records[number] for number in sample]
    expectations = {}
    for index, spec in zip(task.agents, task.specs, strict=True):
        evaluate = _evaluate_of(spec, task.rules)
        if evaluate is not None:
            expectations[index] = _expectations(spec, evaluate, chosen, task.rules)
    league_index = np.array([*task.agents, -1], np.int16)  # -1 stays -1
    results["agents"] = league_index[results["agents"]]
    one, rest = (MIXED, MIXED) if task.is_mixed else task.agents
    return _Played(Match(one, rest, results), expectations)


def _evaluate_of(spec: str, rules: Rules) -> Callable[[np.ndarray], tuple[np.ndarray, ...]] | None:
    """The network of an agent that is one, see `OnnxAgent.evaluate`."""
    agent: Any = make_agent(spec)
    if isinstance(agent, PretrainedAgent):
        agent = agent.policy(rules.num_players)
    return getattr(agent, "evaluate", None)


def _expectations(
    spec: str,
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    records: Sequence[dict[str, Any]],
    rules: Rules,
) -> _Expectations:
    parts = [(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))]
    for number, record in enumerate(records):
        positions = replay(record).positions[:-1]
        is_own = np.array([seat == spec for seat in record["seats"]])[positions["player"]]
        if is_own.any():
            observation, _ = observe_movers(positions[is_own], rules)
            share = np.array(record["result"]["share"])[positions["player"][is_own]]
            expected = evaluate(observation)[1][:, 0].astype(np.float64)
            parts.append((expected, share, np.full(len(share), number)))
    return _Expectations(*map(np.concatenate, zip(*parts, strict=True)))


def _calibrations(names: Sequence[str], played: Sequence[_Played]) -> dict[str, Calibration]:
    """Of each agent that expects shares, over the matches of one number of players."""
    calibrations = {}
    for index, name in enumerate(names):
        parts = [one.expectations[index] for one in played if index in one.expectations]
        if sum(len(part.game) for part in parts) == 0:
            continue
        game = [part.game + _CALIBRATION_GAMES * number for number, part in enumerate(parts)]
        calibrations[name] = calibrate(
            np.concatenate([part.expected for part in parts]),
            np.concatenate([part.observed for part in parts]),
            np.concatenate(game),
        )
    return calibrations


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _program() -> dict[str, str]:
    """What runs here, in words."""
    packages = ("numpy", "numba", "onnxruntime", "openskill")
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
        "commit": _commit(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the checkout that holds this program, with a "+" if tracked files differ."""
    folder, file = Path(__file__).parent, Path(__file__).name
    # Without the first, an unrelated repository around an installed package would be named.
    commands = (
        ["git", "ls-files", "--error-unmatch", file],
        ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+"],
    )
    text = ""
    for command in commands:
        try:
            text = subprocess.run(
                command, cwd=folder, capture_output=True, check=True, timeout=10, text=True
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return "none"
    return text


def write_ladder(report: Mapping[str, Any], path: Path) -> None:
    """Write what `splendor agents` shows of a league: ratings by spec, small enough to commit."""
    ladder = {
        "written": report["written_by"]["written"],
        "rules": report["about"]["rules"],
        "games": sum(table["games"] for table in report["tables"].values()),
        "tables": {
            players: {
                "scale": table["scale"],
                "digits": table["digits"],
                "agents": {
                    report["agents"][row["agent"]]: [
                        round(row[key], 1) for key in ("rating", "low", "high")
                    ]
                    for row in table["ladder"]
                },
            }
            for players, table in report["tables"].items()
        },
    }
    path.write_text(json.dumps(ladder, indent=1) + "\n", encoding="utf-8")


def read_ladder() -> dict[str, Any] | None:
    """What `write_ladder` has written into the package; None without it."""
    return json.loads(LADDER_FILE.read_text(encoding="utf-8")) if LADDER_FILE.is_file() else None
