"""The command `splendor`: reads arguments, calls the parts, prints. It knows no rule of the game.

What only one command needs is imported there, so that `splendor --help` is quick.
"""

import importlib
import json
import os
import secrets
import shlex
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from splendor_env import PRESETS, SplendorError, __version__
from splendor_env.core.state import check_rules, resolve_rules

if TYPE_CHECKING:
    from splendor_env.evaluation import MatchResult
    from splendor_env.evaluation.match import SprtResult
    from splendor_env.terminal import RecordedGame

_REPORT_GAMES = 1000
"""Games against each opponent in the evaluation after training."""
_REPORT_SEED = 2**31
"""Away from the seeds of training, 2**40 and more, and from the small ones of `evaluate`."""
_STDOUT, _STDERR = 1, 2
"""File descriptors."""

app = typer.Typer(
    help="The board game Splendor for reinforcement learning: train, evaluate, play.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# Typer does not export the base of its usage errors, which older versions take from Click.
_UsageError: Any = typer.BadParameter.__bases__[0]


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code: 2 for a user's mistake, told in one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for agents in the working folder
    try:
        return app(arguments or ["--help"], prog_name="splendor", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except SplendorError as error:
        message = str(error)
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "splendor"
        message = f"{error.format_message().rstrip('.')}; see `{command} --help`"
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an integer") from None


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"splendor_env {__version__}")
        raise typer.Exit


def _epilog(*examples: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  splendor {example}" for example in examples)


_Players = Annotated[
    int, typer.Option(parser=_integer, metavar="N", help="Number of players, 2 to 4.")
]
_Preset = Annotated[
    str, typer.Option(metavar="PRESET", help="Rules; `splendor presets` lists them.")
]
_Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to FILE too.")
]


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options that stand before the command."""


@app.command(
    epilog=_epilog(
        "train configs/quickstart.toml",
        "train configs/quickstart.toml --set seed=1 --set learning_rate=1e-4",
        "train runs/quickstart --resume",
        "train runs/quickstart --resume --set total_steps=8e6",
    )
)
def train(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="A TOML file, or the folder of a run: without --resume, a new run is made with "
            "the settings of that one.",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; repeatable."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with an interrupted run: CONFIG is its folder, or a file whose run is in "
            "runs/NAME, by its name or its settings run_name and runs_folder.",
        ),
    ] = False,
) -> None:
    """Train a policy by masked self-play, then evaluate it against random and greedy.

    Weights, logs and `evaluation.json` are written into the folder of the run.
    """
    configs = _training("config")
    if config.is_dir():
        settings = configs.load_run_config(config, changes or [], resume=resume)
        if not resume:
            print(f"a new run with the settings of {config}; to go on with that one: --resume")
    else:
        settings = configs.load_config(config, changes or [])
    run = _training(settings.algorithm).train(settings, resume=resume)
    results = []
    for rules in settings.rules_in_turn():
        against = _evaluate(
            f"ppo:{run}",
            ["random", "greedy"],
            rules,
            rules.num_players,
            _REPORT_GAMES,
            _REPORT_SEED,
        )
        _print_results(against)
        results += against
    _write_json(Path(run, "evaluation.json"), {"results": [asdict(result) for result in results]})
    print(f"run: {run}")


def _training(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"training.{module}")
    except ModuleNotFoundError as error:
        raise SplendorError(
            f"training needs a checkout of the project with its extra `train` installed ({error})"
        ) from error


@app.command(
    epilog=_epilog(
        "evaluate greedy --against random",
        "evaluate ppo:runs/quickstart --against random --against greedy --json out.json",
        "evaluate pretrained --against greedy --players 3 --seats rest",
        "evaluate mcts:sims=200 --against pretrained --jobs 2 --record games.jsonl.gz",
    )
)
def evaluate(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Spec; `splendor agents` lists them.")
    ],
    against: Annotated[
        list[str], typer.Option(metavar="AGENT", help="Plays the other seats; repeatable.")
    ],
    games: Annotated[
        int,
        typer.Option(
            parser=_integer,
            metavar="N",
            help="Games per opponent, rounded up to a multiple of the players.",
        ),
    ] = 1000,
    players: _Players = 2,
    seed: Annotated[
        int, typer.Option(parser=_integer, metavar="N", help="Seed of the deals and the agents.")
    ] = 0,
    rules: _Preset = "standard",
    seats: Annotated[
        str,
        typer.Option(
            metavar="SEATS",
            help="one: AGENT has one seat, copies of the other agent the rest. rest: the other way "
            "round.",
        ),
    ] = "one",
    jobs: Annotated[
        int, typer.Option(parser=_integer, metavar="N", help="Processes; the games stay the same.")
    ] = 1,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add the records of all games to FILE (.jsonl, .jsonl.gz). Games that it has are "
            "not played again: repeat the command to go on after an interruption.",
        ),
    ] = None,
    sprt: Annotated[
        str | None,
        typer.Option(
            metavar="H0:H1",
            help="Stop as soon as a sequential test has decided between two win shares of a seat "
            "of AGENT, as 0.50:0.53, where equals have 1/players; N games at most. It is wrong in "
            "5 % of cases for shares around the middle, in others for shares near 0 or 1.",
        ),
    ] = None,
    json_file: _Json = None,
) -> None:
    """Let an agent play matches, in every seat of every deal, and state its win share.

    A shared victory counts as its share, a truncated game as 1/players; equals have 1/players. The
    first interval is Wilson's at 95 %, the second a bootstrap that draws whole deals. No agent can
    see decks or the other seats' secret reserves.
    """
    _check_json(json_file)
    _check_file("--record", record)
    if record is not None and len(against) > 1:
        raise SplendorError(f"--record is for one match, not for {len(against)} opponents")
    options = {"seats": seats, "jobs": jobs, "record": record, "sprt": _hypotheses(sprt)}
    results = _evaluate(agent, against, rules, players, games, seed, **options)
    _print_results(results)
    if sprt is None and results[0].games != games:
        print(f"{results[0].games} games for {games}: every deal is played once from each seat")
    if json_file is not None:
        _write_json(json_file, {"results": [asdict(result) for result in results]})


def _hypotheses(sprt: str | None) -> tuple[float, float] | None:
    """The two win shares of `--sprt`."""
    if sprt is None:
        return None
    try:
        low, high = map(float, sprt.split(":"))
    except ValueError:
        raise SplendorError(f"--sprt must be two win shares as 0.50:0.53, not {sprt!r}") from None
    return low, high


def _evaluate(
    agent: str,
    against: list[str],
    rules: Any,
    players: int,
    games: int,
    seed: int,
    **options: Any,
) -> "list[MatchResult]":
    from rich.progress import Progress

    from splendor_env.agents import make_agent
    from splendor_env.evaluation import play_specs

    rules = resolve_rules(rules, players)
    for spec in against:
        make_agent(spec)  # a mistake in the last one must not cost the games before it
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        results = []
        for opponent in against:
            task = progress.add_task(f"against {opponent}")
            results.append(
                play_specs(
                    agent,
                    opponent,
                    rules,
                    games,
                    seed,
                    lambda done, total, task=task: progress.update(
                        task, completed=done, total=total
                    ),
                    **options,
                )
            )
    return results


def _print_results(results: "list[MatchResult]") -> None:
    """One column for each opponent."""
    first = results[0]
    seats = "" if first.seats == "one" else " in all seats but one"
    print(f"{first.agent}{seats}: {first.players} players, {first.rules} rules, seed {first.seed}")
    table = Table("against")
    for result in results:
        table.add_column(result.against, justify="right", overflow="fold")

    def add_row(label: str, cells: Iterable[object]) -> None:
        table.add_row(label, *map(str, cells))

    add_row("games", (result.games for result in results))
    add_row("win share", (f"{result.win_share:.1%}" for result in results))
    add_row("95 % interval", (_interval(result) for result in results))
    add_row("95 % by deals", (_bootstrap_interval(result) for result in results))
    add_row("ties", (result.ties for result in results))
    add_row("rounds", (f"{result.rounds:.1f}" for result in results))
    add_row("points", (f"{result.points:.1f}" for result in results))
    add_row("points of others", (f"{result.points_against:.1f}" for result in results))
    add_row("cards", (f"{result.cards:.1f}" for result in results))
    add_row("cards of others", (f"{result.cards_against:.1f}" for result in results))
    add_row("nobles", (f"{result.nobles:.2f}" for result in results))
    add_row("nobles of others", (f"{result.nobles_against:.2f}" for result in results))
    add_row("ms per decision", (f"{1e3 * one.seconds_per_decision:.3g}" for one in results))
    add_row("ms of others", (f"{1e3 * one.seconds_per_decision_against:.3g}" for one in results))
    add_row("truncated", (result.truncated for result in results))
    add_row("illegal", (result.illegal for result in results))
    add_row("illegal by others", (result.illegal_against for result in results))
    add_row("failed", (result.failed for result in results))
    add_row("failed by others", (result.failed_against for result in results))
    table.add_section()
    for seat in range(first.players):
        in_seat = [result.by_seat[seat] for result in results]
        add_row(f"in seat {seat}", (f"{one.win_share:.1%} ({_interval(one)})" for one in in_seat))
    _console().print(table)
    for result in results:
        if result.sprt is not None:
            _print_sprt(result.against, result.sprt)
        if result.first_illegal is not None:
            print(f"first illegal action against {result.against}: {result.first_illegal}")
        if result.first_failure is not None:
            print(f"first failure against {result.against}: {result.first_failure}")


def _print_sprt(against: str, sprt: "SprtResult") -> None:
    accepted = {"accept": sprt.h1, "reject": sprt.h0, None: None}[sprt.decision]
    outcome = "not decided" if accepted is None else f"decided for {accepted:.1%}"
    print(
        f"sequential test against {against}, {sprt.h0:.1%} or {sprt.h1:.1%}, wrong in "
        f"{sprt.error_rate:.0%}: {outcome} after {sprt.deals} deals (log likelihood ratio "
        f"{sprt.llr:.2f}, bounds {sprt.lower:.2f} and {sprt.upper:.2f})"
    )


def _console() -> Console:
    # Paths and specs may hold brackets and colons, which are no markup.
    return Console(markup=False, emoji=False)


def _interval(result: Any) -> str:
    return f"{result.low:.1%} to {result.high:.1%}"


def _bootstrap_interval(result: "MatchResult") -> str:
    return f"{result.bootstrap_low:.1%} to {result.bootstrap_high:.1%}"


def _check_json(path: Path | None) -> None:
    _check_file("--json", path)


def _check_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written before the work is done."""
    if path is None:
        return
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SplendorError(f"{option} must be a file in a writable folder, not {str(path)!r}")


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@app.command(epilog=_epilog("export runs/quickstart runs/quickstart.onnx"))
def export(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CKPT", help="Folder of a policy, or of its run.")
    ],
    file: Annotated[Path, typer.Argument(metavar="OUT.onnx", help="The file to write.")],
) -> None:
    """Write a trained policy as an ONNX file, which plays without torch.

    OUT.json beside it says how the policy was trained; `onnx:OUT.onnx` needs both.
    """
    about = _training("export").export_policy(checkpoint, file)
    parity = about["parity"]
    print(f"wrote {file} ({about['size']:,} bytes) and {file.with_suffix('.json').name}")
    print(
        f"largest difference from torch in {parity['positions']:,} positions: "
        f"logits {parity['logits']:.1e}, win shares {parity['win_shares']:.1e}"
    )
    print(f"play it: splendor evaluate {shlex.quote(f'onnx:{file}')} --against greedy", end="")
    print(_game_options(about["rules"], about["num_players"]))


def _game_options(rules: dict[str, int], num_players: list[int]) -> str:
    """The options that let a policy play what it was trained for, as far as a preset is it."""
    players = 2 if 2 in num_players else num_players[0]
    options = "" if players == 2 else f" --players {players}"
    for name, preset in PRESETS.items():
        if rules.items() <= preset(players)._asdict().items():
            return options if name == "standard" else f"{options} --rules {name}"
    return options


@app.command(
    epilog=_epilog(
        "play",
        "play --against pretrained:ms=100",
        "play --against pretrained --against mcts:sims=200 --players 3 --seat 1",
        "play --against person --target 21",
        "play --resume",
    )
)
def play(
    game: Annotated[
        Path | None,
        typer.Argument(
            metavar="GAME", help="With --resume: the file of that game, by default the latest."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AGENT",
            help="Spec of the agent in all other seats, by default greedy; or one for each of them "
            "in turn. `person` is somebody else at this terminal.",
        ),
    ] = None,
    players: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="N", help="Number of players, 2 (default) to 4."),
    ] = None,
    seat: Annotated[
        int | None,
        typer.Option(
            parser=_integer, metavar="N", help="Your seat, by default 0, which moves first."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="N", help="Seed of the deal; by default a new one."),
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET", help="Rules, by default standard; `splendor presets` lists them."
        ),
    ] = None,
    target: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="N", help="Points that end the game; 15 by rule."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Ask before a turn becomes final.")
    ] = True,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the game here; by default in a new file in the user's folder for state.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the record of the finished game to FILE (.jsonl)."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a game that was left or interrupted.")
    ] = False,
) -> None:
    """Play in the terminal. `help` during the game explains the moves.

    The game is kept after every move, so that quitting, Ctrl-C or a crash lose nothing.
    """
    from splendor_env import terminal

    _check_file("--record", record)
    agent_seed = secrets.randbits(32) if seed is None else seed
    deal_seed = secrets.randbits(64) if seed is None else seed
    saved = None
    if resume:
        chosen = {"--players": players, "--seat": seat, "--seed": seed, "--rules": rules}
        for option, value in (chosen | {"--target": target, "--save": save}).items():
            if value is not None:
                raise SplendorError(f"{option} is for a new game, not for --resume")
        path = terminal.latest_game() if game is None else game
        saved = terminal.load_game(path)
        variant, seats = saved.shown.rules, _seats_of_saved(saved.seats, against, path)
    else:
        if game is not None:
            raise SplendorError(f"to go on with {str(game)!r}: splendor play --resume {game}")
        variant = resolve_rules("standard" if rules is None else rules, players)
        if target is not None:
            variant = check_rules(variant._replace(target_points=target))
        seats = _seats_of_new(variant.num_players, 0 if seat is None else seat, against)
        _check_file("--save", save)
        if save is not None and save.exists():
            raise SplendorError(f"--save: there is a file {str(save)!r}; go on by --resume {save}")
        path = terminal.new_path() if save is None else save
    table = terminal.Table(
        _console(),
        variant,
        seats,
        seed=deal_seed,
        agent_seed=agent_seed,
        path=path,
        record=record,
        confirm=confirm,
    )
    if saved is not None:
        table.go_on(saved)
    table.play()


def _seats_of_new(players: int, seat: int, against: list[str] | None) -> list[str]:
    """Who sits where, by spec."""
    from splendor_env.terminal import PERSON

    if not 0 <= seat < players:
        raise SplendorError(f"seat must be 0 to {players - 1}, not {seat}")
    others = _one_for_each(against or ["greedy"], players - 1)
    return [*others[:seat], PERSON, *others[seat:]]


def _seats_of_saved(seats: list[str], against: list[str] | None, path: Path) -> list[str]:
    """The same of a saved game, in which other agents may take over."""
    from splendor_env.terminal import PERSON, runs_code

    if against is None:
        for seat, spec in enumerate(seats):
            if spec != PERSON and runs_code(spec):
                raise SplendorError(
                    f"{path}: {spec!r} in seat {seat} runs a program; to allow it, give the "
                    "agents by --against"
                )
        return seats
    others = iter(_one_for_each(against, sum(spec != PERSON for spec in seats)))
    return [PERSON if spec == PERSON else next(others) for spec in seats]


def _one_for_each(against: list[str], number: int) -> list[str]:
    if len(against) not in (1, number):
        raise SplendorError(f"--against: {len(against)} agents for {number} seats; give 1 or all")
    return against * number if len(against) == 1 else against


@app.command(
    epilog=_epilog(
        "replay games.jsonl --game 3",
        "replay games.jsonl --verify",
        "replay games.jsonl --view 0 --out seen.jsonl",
        "replay games.jsonl --gif game.gif",
    )
)
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Records, .jsonl or .jsonl.gz.")],
    game: Annotated[
        int | None,
        typer.Option(
            parser=_integer, metavar="N", help="The game in line N; by default the first, or all."
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="T", help="Print this turn alone; 0 is the deal."),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Print every turn.")] = False,
    view: Annotated[
        int | None,
        typer.Option(
            parser=_integer,
            metavar="SEAT",
            help="Show the secrets of this seat; by default what everybody saw.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a copy with what SEAT of --view knows, no more."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check all games by the rules; exit code 1 if one is wrong."),
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw one turn, by default the last, as PNG."),
    ] = None,
    gif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the game as an animation.")
    ] = None,
) -> None:
    """Step through a recorded game, check records, draw them, or remove what a seat did not know.

    In steps: Enter or `next`, `back`, the number of a turn, `end`, `quit`.
    """
    tasks = {
        "--verify": verify,
        "--out": out is not None,
        "--png": png is not None,
        "--gif": gif is not None,
        "--all": show_all,
    }
    asked = [option for option, is_asked in tasks.items() if is_asked]
    if len(asked) > 1:
        raise SplendorError(f"{asked[0]} and {asked[1]} exclude each other")
    if turn is not None and asked and png is None:
        raise SplendorError(f"--turn is for --png or by itself, not for {asked[0]}")
    if verify and game is not None:
        raise SplendorError("--verify is for all games of a file, not for --game")
    for option, path in {"--out": out, "--png": png, "--gif": gif}.items():
        if path is not None and path.resolve() == file.resolve():
            raise SplendorError(f"{option} must be another file than {str(file)!r}")
    if verify:
        _verify_records(file)
        return
    if out is not None:
        _write_view(file, out, view, game)
        return
    shown = _recorded_game(file, 1 if game is None else game, view)
    if png is not None:
        _write_png(shown, png, shown.num_turns if turn is None else shown.check_turn(turn))
    elif gif is not None:
        _write_gif(shown, gif)
    else:
        _print_replay(shown, turn, show_all)


def _recorded_game(file: Path, number: int, view: int | None) -> "RecordedGame":
    from splendor_env.terminal import RecordedGame

    count = 0
    for count, record in enumerate(_records(file), 1):
        if count == number:
            try:
                return RecordedGame(record, view)
            except SplendorError as error:
                raise SplendorError(f"{file}, line {number}: {error}") from None
    raise SplendorError(f"--game must be 1 to {count}, not {number}: {file} has {count} games")


def _records(file: Path) -> Iterable[dict[str, Any]]:
    from splendor_env.record import read_records

    return read_records(file, allow_unfinished=True)


def _print_replay(shown: "RecordedGame", turn: int | None, show_all: bool) -> None:
    from splendor_env.terminal import coloured, step_through

    if turn is None and not show_all:
        step_through(_console(), shown)
        return
    turns = range(shown.num_turns + 1) if turn is None else [shown.check_turn(turn)]
    for number in turns:
        _console().print(coloured(shown.page(number)))


def _verify_records(file: Path) -> None:
    """Print what is wrong, and end with exit code 1 if anything is."""
    from rich.progress import Progress

    from splendor_env.record import RecordError, verify_file

    if not file.is_file():
        raise SplendorError(f"there is no file {str(file)!r}")
    num_right = num_partly = 0
    faults: list[str] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("verify", total=None)
        try:
            for found in verify_file(file):
                if isinstance(found, RecordError):
                    faults.append(str(found))
                else:
                    num_right += 1
                    num_partly += bool(found)
                number = num_right + len(faults)
                progress.update(task, completed=number, description=f"{number:,} games")
        except RecordError as error:
            faults.append(str(error))
    for fault in faults:
        print(fault)
    print(f"{num_right:,} of {num_right + len(faults):,} games agree with the rules")
    if num_partly:
        print(f"{num_partly:,} of them are redacted, and can be checked in part only")
    if faults:
        raise typer.Exit(1)


def _write_view(file: Path, out: Path, view: int | None, game: int | None) -> None:
    """Write what a seat knew."""
    from splendor_env.record import redact, write_records

    if view is None:
        raise SplendorError("--out needs --view: the seat whose knowledge shall be left")
    _check_file("--out", out)
    deals: list[str] = []

    def redacted() -> Iterable[dict[str, Any]]:
        for number, record in enumerate(_records(file), 1):
            if game in (None, number):
                try:
                    yield redact(record, view)
                except SplendorError as error:
                    raise SplendorError(f"{file}, line {number}: {error}") from None
                deals.append(json.dumps([record["rules"], record["deal"]]))
        if not deals:
            raise SplendorError(f"{file} has no game" + f" {game}" * (game is not None))

    write_records(out, redacted())
    print(f"wrote {out}, what seat {view} knew: games {len(deals):,}, deals {len(set(deals)):,}")
    print(
        "Beware: from a guessable seed a deal can be made again, and games of one deal betray each "
        "other's secrets; publish one game of each deal, and keep the seeds."
    )


def _write_png(shown: "RecordedGame", path: Path, turn: int) -> None:
    from splendor_env.render.image import write_png

    _check_file("--png", path)
    write_png(path, _picture(shown, turn))
    print(f"wrote {path}: turn {turn} of {shown.num_turns}, {path.stat().st_size:,} bytes")


def _write_gif(shown: "RecordedGame", path: Path) -> None:
    from splendor_env.render.image import write_gif

    _check_file("--gif", path)
    write_gif(path, [_picture(shown, turn) for turn in range(shown.num_turns + 1)])
    print(f"wrote {path}: {shown.num_turns} turns, {path.stat().st_size:,} bytes")


def _picture(shown: "RecordedGame", turn: int) -> Any:
    from splendor_env.render.image import board_image

    position, rules = shown.position(turn), shown.shown.rules
    note, forfeited_by = shown.note(turn), shown.forfeited_by(turn)
    return board_image(position, rules, shown.viewer, note=note, forfeited_by=forfeited_by)


@app.command(epilog=_epilog("engine --agent greedy", "engine --agent onnx:run.onnx --seed 7"))
def engine(
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Spec of the agent that answers.")],
    seed: Annotated[
        int, typer.Option(parser=_integer, metavar="N", help="Seed of the agent and hidden cards.")
    ] = 0,
) -> None:
    """Let another program's arena play with an agent, by the lines of docs/protocol.md.

    Reads messages from standard input and answers on standard output, where nothing else appears.
    """
    from splendor_env.agents.engine import Engine

    # What an agent or its libraries print must not come between the lines.
    with os.fdopen(os.dup(_STDOUT), "wb", 0) as answers:
        os.dup2(_STDERR, _STDOUT)
        try:
            Engine(agent, seed).serve(sys.stdin.buffer, answers)
        finally:
            sys.stdout.flush()
            os.dup2(answers.fileno(), _STDOUT)


@app.command(
    epilog=_epilog(
        "serve --open", "serve --port 8080 --agent mine=onnx:run.onnx --record web.jsonl"
    )
)
def serve(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen. The default can be reached from this machine alone.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(parser=_integer, metavar="N", help="0 takes one that is free.")
    ] = 8000,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AGENT",
            help="Offer this one too, by a name that visitors see in place of its spec; "
            "repeatable. Without NAME= they see the spec.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Answer browsers that call this machine NAME, in place of an address; repeatable.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the record of each game that is over to FILE."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Play, watch and review games in the browser. Needs the extra `web`.

    Several games at once, each seat a person or an agent. Games under way are gone when the server
    ends.
    """
    try:
        from splendor_env.web.server import serve as serve_tables
    except ModuleNotFoundError as error:
        raise SplendorError(f"the web table needs the extra `web` ({error})") from error
    _check_file("--record", record)
    serve_tables(
        host,
        port,
        agent or [],
        allowed_hosts=allow_host or [],
        record=record,
        open_page=open_page,
        version=__version__,
    )


@app.command(epilog=_epilog("bench", "bench --players 2 --json bench.json"))
def bench(
    players: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of players, separated by commas.")
    ] = "2,3,4",
    json_file: _Json = None,
) -> None:
    """Measure the speed of the engine on one core of this machine."""
    from splendor_env.bench import machine, measure_engine, measure_start

    if not all(number.strip() in ("2", "3", "4") for number in players.split(",")):
        raise SplendorError(f"--players must be 2, 3 or 4, or several as 2,3,4, not {players!r}")
    _check_json(json_file)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    start = measure_start()
    counts = sorted({int(number) for number in players.split(",")})
    figures = {str(count): measure_engine(count) | start for count in counts}
    table = Table()
    table.add_column("players")
    for count in figures:
        table.add_column(count, justify="right")
    for key in figures[str(counts[0])]:
        table.add_row(key, *(_figure(figures[count][key]) for count in figures))
    _console().print(table)
    if json_file is not None:
        _write_json(json_file, figures | {"machine": about})


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


@app.command(epilog=_epilog("puzzles pretrained", "puzzles mcts:sims=200 --players 2 --show"))
def puzzles(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Spec; `splendor agents` lists them.")
    ],
    players: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="N", help="Only puzzles for N players."),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(parser=_integer, metavar="N", help="Choices in each puzzle, averaged."),
    ] = 8,
    seed: Annotated[
        int, typer.Option(parser=_integer, metavar="N", help="Seed of the agent and hidden cards.")
    ] = 0,
    show: Annotated[bool, typer.Option("--show", help="Print the boards of those failed.")] = False,
    json_file: _Json = None,
) -> None:
    """Ask an agent for its move in positions whose best moves are proven.

    The scores by kind of position tell where it is weak. A puzzle counts as failed if any choice
    was not a best one. In round 100, the last, a game that nobody wins is shared by all seats.
    """
    from splendor_env.agents import make_agent
    from splendor_env.evaluation.puzzles import load_puzzles, solve

    _check_json(json_file)
    result = solve(make_agent(agent, seed), seed, repeats, players)
    print(
        f"{agent}: puzzles of version {result.version}, {result.repeats} choices in each, "
        f"seed {result.seed}"
    )
    table = Table("kind")
    for title in ("puzzles", "solved", "random agent"):
        table.add_column(title, justify="right")
    for one in result.by_kind:
        table.add_row(one.kind, str(one.puzzles), f"{one.solved:.0%}", f"{one.random:.0%}")
    table.add_section()
    table.add_row("all", str(len(result.answers)), f"{result.solved:.0%}", f"{result.random:.0%}")
    _console().print(table)
    games = {puzzle.name: puzzle.game() for puzzle in load_puzzles(players)[1]}
    for answer in result.answers:
        if answer.solved == 1:
            continue
        chosen = ", ".join(
            move if count == repeats else f"{move} ({count} of {repeats})"
            for move, count in answer.chosen.items()
        )
        name = f"{answer.kind}, {answer.players} players, {answer.name}"
        print(f"failed: {name}: {chosen}; best: {' or '.join(answer.best)}")
        if show:
            game = games[answer.name]
            print(f"\n{game.board(game.player)}\n")
    if json_file is not None:
        _write_json(json_file, asdict(result) | {"agent": agent})


@app.command(
    epilog=_epilog(
        "exploit greedy --minutes 10",
        "exploit ppo:runs/quickstart --minutes 30 --seeds 2 --json exploit.json",
    )
)
def exploit(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Spec; `splendor agents` lists them.")
    ],
    minutes: Annotated[
        float, typer.Option(metavar="M", help="Of training, for each of the seeds.")
    ],
    players: _Players = 2,
    rules: _Preset = "standard",
    games: Annotated[
        int,
        typer.Option(
            parser=_integer,
            metavar="N",
            help="Games in the report; each checkpoint is tried on a sixth as many others.",
        ),
    ] = 2400,
    seed: Annotated[
        int,
        typer.Option(
            parser=_integer, metavar="N", help="Of the first training and of the reported deals."
        ),
    ] = 0,
    seeds: Annotated[
        int, typer.Option(parser=_integer, metavar="K", help="Trainings; the best is reported.")
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(parser=_integer, metavar="N", help="Cores for training; by default all."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="ppo:DIRECTORY whose weights training starts from; by default AGENT's own if it "
            "is one.",
        ),
    ] = None,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Start from new weights in any case.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the responder there: ppo:FOLDER plays it."),
    ] = None,
    json_file: _Json = None,
) -> None:
    """Train a best responder against a frozen agent and state how much it wins.

    The share is a lower bound on how far the agent can be exploited: more training may find more.
    One responder meets the agent in all other seats, in games that neither the training nor the
    choice of its checkpoint has seen.
    """
    if start is not None and from_scratch:
        raise SplendorError("--start and --from-scratch exclude each other")
    if start is None and agent.startswith("ppo:") and not from_scratch:
        start = agent
    _check_json(json_file)
    training = _training("exploit")
    found = training.exploit(
        agent,
        resolve_rules(rules, players),
        minutes,
        seed=seed,
        num_seeds=seeds,
        start=start,
        num_games=games,
        num_threads=(os.cpu_count() or 1) if threads is None else threads,
        save=save,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(training.describe(found))
    if json_file is not None:
        _write_json(json_file, asdict(found))


@app.command(
    epilog=_epilog("league configs/league.toml", "league configs/league.toml --report-only")
)
def league(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file.")],
    report_only: Annotated[
        bool,
        typer.Option("--report-only", help="Play nothing, make the report from the records."),
    ] = False,
    ladder_file: Annotated[
        Path | None,
        typer.Option(
            "--write-ladder", metavar="FILE", help="Write the ratings too, for `splendor agents`."
        ),
    ] = None,
) -> None:
    """Let agents play each other and write a report: page, pictures and JSON.

    All goes into leagues/NAME: each game into records/, from which an interrupted league goes on
    and the report can be made again. Progress is shown by game with one process, else by match.
    """
    from rich.progress import Progress

    from splendor_env.bench import machine
    from splendor_env.evaluation.league import load_league, play_league, write_ladder

    _check_file("--write-ladder", ladder_file)
    settings = load_league(config)
    command = ["splendor", "league", str(config)] + ["--report-only"] * report_only
    about = {"command": shlex.join(command), "splendor_env": __version__} | {
        key: str(value) for key, value in machine().items() if key in ("cpu", "cores", "system")
    }
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("games")
        report = play_league(
            settings,
            about,
            report_only=report_only,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    for table in report["tables"].values():
        _print_ladder(table)
    if ladder_file is not None:
        write_ladder(report, ladder_file)
    print(f"report: {settings.path / 'report.html'}")


def _print_ladder(table: dict[str, Any]) -> None:
    shown = Table(f"{table['players']} players")
    for title in ("rating (95 %)", "win share"):
        shown.add_column(title, justify="right")
    for row in table["ladder"]:
        rating = _rating_text([row[key] for key in ("rating", "low", "high")], table["digits"])
        shown.add_row(row["agent"], rating, f"{row['win_share']:.1%}")
    _console().print(shown)


@app.command(epilog=_epilog("agents", "evaluate greedy --against random"))
def agents(json_file: _Json = None) -> None:
    """List the kinds of agents that `evaluate` and `play` take, and how strong some are."""
    from splendor_env.agents import agent_specs
    from splendor_env.evaluation.league import read_ladder

    _check_json(json_file)
    kinds, ladder = agent_specs(), read_ladder()
    _print_list("agent", kinds)
    if ladder is not None:
        _print_ratings(ladder)
    if json_file is not None:
        _write_json(json_file, {"agents": kinds, "ladder": ladder})


def _print_ratings(ladder: dict[str, Any]) -> None:
    """One row for each agent, one column for each number of players."""
    tables = ladder["tables"]
    shown = Table()
    shown.add_column("rating (95 %)", overflow="fold")
    for players in tables:
        shown.add_column(f"{players} players", justify="right")
    for spec in next(iter(tables.values()))["agents"]:
        ratings = (
            _rating_text(table["agents"][spec], table["digits"]) for table in tables.values()
        )
        # On two lines, else 80 columns are too few.
        shown.add_row(spec, *(text.replace(" ", "\n", 1) for text in ratings))
    _console().print(shown)
    for players, table in tables.items():
        print(f"{players} players: {table['scale']}")
    print(f"{ladder['games']:,} games, rules {ladder['rules']}, {ladder['written']}")


def _rating_text(rating: list[float], digits: int) -> str:
    """A rating with its interval."""
    value, low, high = (f"{number:.{digits}f}" for number in rating)
    return f"{value} ({low} to {high})"


@app.command(epilog=_epilog("presets", "evaluate greedy --against random --rules rulebook_2014"))
def presets() -> None:
    """List the rule presets that `--rules` takes."""
    from splendor_env.evaluation.league import read_ladder

    _print_list("preset", {name: preset.__doc__ or "" for name, preset in PRESETS.items()})
    ladder = read_ladder()
    if ladder is not None:
        print(f"The ratings of `splendor agents` are for {ladder['rules']}.")


def _print_list(kind: str, lines: dict[str, str]) -> None:
    table = Table(kind, "meaning")
    for name, line in lines.items():
        table.add_row(name, line)
    _console().print(table)


if __name__ == "__main__":
    sys.exit(main())
