"""Which recipe gives the strongest policy in the same time? Trains by each and plays matches.

    python benchmarks/recipes.py networks.jsonl --set networks --minutes 2 --threads 2
    python benchmarks/recipes.py teacher.jsonl --set teacher --minutes 60 --seeds 3
    python benchmarks/recipes.py tuning.jsonl --set targets --minutes 20 --start runs/ppo_2p

A recipe is one or more stages, each for a share of the minutes; a later one starts from the policy
of the one before. With `--start` all recipes start from that policy in place of their PPO.

A training ends by `max_minutes`: learning rate and all else that follows its progress follow the
time. Stages of expert iteration that last less than an hour have fewer games at once, a smaller
window, a shorter warm-up and a mean over fewer batches, in proportion; see `shrunk`. The order of
the recipes is reversed from seed to seed: a drift of the machine is fair to all.

What plays is a run's last network, of expert iteration the averaged one, whether it has passed the
gate or not. The reference is the policy of `--start`, or the one of the first recipe with the same
seed. Matches are on deals that no training has used.

Trainings and matches are added to the file as soon as they are over, and what the file has is not
made again: after an interruption the same command goes on. Recipes, and sets in the same file, that
begin with the same stage share its training. Policies are kept beside the file, in the folder
`FILE-policies`.
"""

import argparse
import importlib
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kept import Kept, digest
from splendor_env.agents import Agent, make_agent
from splendor_env.bench import machine
from splendor_env.core.state import SplendorError, standard
from splendor_env.evaluation import play_match
from training import expert_iteration
from training.checkpoint import git_commit, load_policy
from training.config import RunConfig, load_config
from training.policy_agent import PolicyAgent
from training.run import Metrics

BASELINES = ("greedy", "racer")
MATCH_SEED = 3 * 2**40
"""No deal of a training, of its evaluations or of a report."""
NEVER = 10**9
"""Steps until something that does not happen."""

_ROOT = Path(__file__).parents[1]


class Stage(NamedTuple):
    """A training, as a part of a recipe."""

    base: str
    """A config file from the root of the repository, or an algorithm with its defaults."""
    settings: Mapping[str, Any]
    """What differs from that."""
    share: float
    """Of the recipe's time."""


Recipe = tuple[Stage, ...]


def _quickstart(**settings: Any) -> Recipe:
    return (Stage("configs/quickstart.toml", settings, 1.0),)


def _after_ppo(settings: Mapping[str, Any], share: float = 0.5) -> Recipe:
    """PPO for this share of the time, then expert iteration."""
    stages = Stage("ppo", {}, share), Stage("expert_iteration", settings, 1 - share)
    return tuple(stage for stage in stages if stage.share)


def _simulations(number: int) -> dict[str, Any]:
    return {"first_simulations": number, "num_simulations": number}


def _each(**values: Sequence[Any]) -> dict[str, Recipe]:
    """The defaults, and a recipe for each other value of each setting."""
    default = expert_iteration.Config()
    return {"defaults": _after_ppo({})} | {
        f"{key} {value}": _after_ppo({key: value})
        for key in values
        for value in values[key]
        if value != getattr(default, key)
    }


_ONE_STEP = {"lookahead_share": 1.0}

SETS: dict[str, dict[str, Recipe]] = {
    "networks": {
        "mlp, layers of 256": _quickstart(network="mlp"),
        "mlp, layers of 512": _quickstart(network="mlp", layer_size=512),
        "cards of 32": _quickstart(network="cards"),
        "cards of 64": _quickstart(network="cards", card_size=64),
    },
    "start": {
        "PPO": _after_ppo({}, 1),
        "75 % PPO, one step ahead": _after_ppo(_ONE_STEP, 0.75),
        "50 % PPO, one step ahead": _after_ppo(_ONE_STEP, 0.5),
        "25 % PPO, one step ahead": _after_ppo(_ONE_STEP, 0.25),
        "one step ahead": _after_ppo(_ONE_STEP, 0),
        "50 % PPO, 16 simulations": _after_ppo(_simulations(16), 0.5),
    },
    "teacher": {
        "one step ahead": _after_ppo(_ONE_STEP),
        **{
            f"{number} simulations": _after_ppo(_simulations(number))
            for number in (16, 32, 64, 200)
        },
        "200 simulations for a quarter, else 16": _after_ppo(
            {**_simulations(200), "full_share": 0.25, "fast_simulations": 16}
        ),
        "one step ahead, then 32 simulations": _after_ppo(
            {**_simulations(32), "lookahead_share": 0.5}
        ),
    },
    "targets": _each(
        policy_target=("best", "improved", "reverse"),
        td_lambda=(0.5, 0.9, 1.0),
        gumbel_scale=(0.0, 0.5, 1.0),
        ema_decay=(0.0, 0.999),
        replay_ratio=(2.0, 5.0, 10.0),
    ),
    "auxiliary": _each(aux_coef=(0.0, 0.1, 0.3)),
}
"""Recipes by name, by the name of their set."""

ABOUT_THE_START = ("networks", "start")
"""The sets for which `--start` makes no sense."""


def configure(
    stage: Stage, minutes: float, seed: int, options: argparse.Namespace, sizes: Mapping[str, Any]
) -> RunConfig:
    """The settings of a stage that lasts so long, with networks of these sizes."""
    if stage.base.endswith(".toml"):
        config = load_config(_ROOT / stage.base)
    else:
        config = importlib.import_module(f"training.{stage.base}").Config()
    settings: dict[str, Any] = {
        "run_name": "run",
        "seed": seed,
        "num_players": options.players,
        "num_threads": options.threads,
        "total_steps": NEVER,
        "max_minutes": float(minutes),
        "eval_every": NEVER,
        "eval_games": 2,  # at the end
        "checkpoint_every": NEVER,
    }
    config = replace(config, **(settings | dict(sizes) | dict(stage.settings)))
    if isinstance(config, expert_iteration.Config):
        config = replace(config, gate_games=1, **shrunk(config, minutes))
    return config


def shrunk(config: expert_iteration.Config, minutes: float) -> dict[str, Any]:
    """What makes expert iteration slow to begin, for less than an hour.

    No lesson comes before the first games are over, and those under way in the end are lost; a mean
    over more batches than there are would hardly leave the start.
    """
    part = min(1.0, minutes / 60)
    window_size = max(20_000, round(part * config.window_size))
    return {
        "num_games": max(128 * config.num_threads, round(part * config.num_games)),
        "window_size": window_size,
        "warm_up": window_size // 8,
        "ema_decay": max(0.0, 1 - (1 - config.ema_decay) / part),
    }


class Policy(NamedTuple):
    """A policy on disk, and the trainings that have led to it."""

    name: str
    folder: Path
    trainings: tuple[dict[str, Any], ...] = ()


class Comparison:
    """Trainings and matches by the options of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._kept = Kept(options.file)
        self._policies = options.file.with_name(f"{options.file.name}-policies")
        self._compiled: set[str] = set()
        self.start: Policy | None = None
        self._sizes: dict[str, Any] = {}
        if options.start is not None:
            network, about = load_policy(options.start)
            self.start = Policy(about["sha256"][:16], options.start)
            self._sizes = network.sizes._asdict()

    def train(self, recipe: Recipe, seed: int) -> Policy:
        """Go through the stages."""
        policy = self.start
        for stage in recipe:
            policy = self._go_on(policy, stage, seed)
        assert policy is not None
        return policy

    def _go_on(self, before: Policy | None, stage: Stage, seed: int) -> Policy:
        minutes = self._options.minutes * stage.share
        config = configure(stage, minutes, seed, self._options, self._sizes)
        key = {
            "training": asdict(config),
            "after": None if before is None else before.name,
        }
        folder = self._policies / digest(key)
        if before is not None:
            config = replace(config, **{"start": str(before.folder)})
        training = self._kept.get(key, lambda: self._train(config, folder))
        earlier = () if before is None else before.trainings
        return Policy(folder.name, folder, (*earlier, training))

    def _train(self, config: RunConfig, folder: Path) -> dict[str, Any]:
        """One stage; its policy goes to the folder."""
        with tempfile.TemporaryDirectory() as runs_folder:
            config = replace(config, runs_folder=runs_folder)
            self._compile(config)
            start = time.process_time()
            try:
                run = _trainer(config).train(config)
            except SystemExit as signal:  # what the trainer has saved is gone with the folder
                print("the same command goes on, with this training anew", file=sys.stderr)
                raise SystemExit(signal.code) from None
            core_minutes = (time.process_time() - start) / 60
            shutil.rmtree(folder, ignore_errors=True)
            newest = run / "newest"
            shutil.copytree(newest if newest.exists() else run / "policy", folder)
            last = Metrics(run, []).rows[-1]
        return {
            "minutes": last["minutes"],
            "core_minutes": core_minutes,
            "steps": int(last["step"]),
            "made_by": machine() | {"commit": git_commit()},
        }

    def _compile(self, config: RunConfig) -> None:
        """Run everything once before the time counts."""
        if config.algorithm in self._compiled:
            return
        small: dict[str, Any] = {
            "num_games": 8 * config.num_threads,
            "total_steps": 1000,
            "max_minutes": 0.0,
        }
        if isinstance(config, expert_iteration.Config):
            both = {"lookahead_share": 1.0, "full_share": 0.5, "fast_simulations": 2}
            small |= {**both, "warm_up": 1, "gate_games": 1}
        _trainer(config).train(replace(config, run_name="compiles", **small))
        self._compiled.add(config.algorithm)

    def play(self, policy: Policy, opponent: Policy | str) -> dict[str, Any]:
        """A match against another policy, or against a built-in agent."""
        options = self._options
        key = {
            "match": policy.name,
            "against": opponent if isinstance(opponent, str) else opponent.name,
            "players": options.players,
            "games": options.games,
            "seed": MATCH_SEED,
        }

        def play() -> dict[str, Any]:
            agents = _agent(policy), _agent(opponent)
            return asdict(play_match(*agents, standard(options.players), options.games, MATCH_SEED))

        return self._kept.get(key, play)


def _trainer(config: RunConfig) -> Any:
    return importlib.import_module(f"training.{config.algorithm}")


def _agent(player: Policy | str) -> Agent:
    if isinstance(player, str):
        return make_agent(player)
    return PolicyAgent(load_policy(player.folder)[0], player.name)


class Row(NamedTuple):
    """Of the table."""

    recipe: str
    seed: int
    trainings: tuple[dict[str, Any], ...]
    matches: list[dict[str, Any] | None]
    """Against the baselines and the reference; None for the reference itself."""


def compare(recipes: Mapping[str, Recipe], options: argparse.Namespace) -> list[Row]:
    """Train by every recipe with every seed, and play; what has been reached goes to stderr."""
    comparison, rows = Comparison(options), []
    for seed in range(options.seeds):
        policies = {}
        for name in list(recipes)[:: 1 if seed % 2 == 0 else -1]:
            print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
            policies[name] = comparison.train(recipes[name], seed)
            shares = [comparison.play(policies[name], other)["win_share"] for other in BASELINES]
            against = ", ".join(map("{:.1%} against {}".format, shares, BASELINES))
            print(f"{name}, seed {seed}: {against}", file=sys.stderr, flush=True)
        reference = comparison.start or policies[next(iter(recipes))]
        for name in recipes:
            policy = policies[name]
            matches = [comparison.play(policy, other) for other in BASELINES]
            is_reference = policy.name == reference.name
            last = None if is_reference else comparison.play(policy, reference)
            rows.append(Row(name, seed, policy.trainings, [*matches, last]))
    return rows


def table(rows: Sequence[Row], reference: str) -> str:
    """Markdown: a line for each recipe and seed, then the means over the seeds."""
    opponents = " | ".join(f"Against {name}" for name in (*BASELINES, reference))
    lines = [
        f"| Recipe | Seed | Minutes | Core-minutes | Decisions | {opponents} |",
        "|---" * (6 + len(BASELINES)) + "|",
    ]
    for row in rows:
        cells = (
            row.recipe,
            row.seed,
            " + ".join(f"{one['minutes']:.2f}" for one in row.trainings),
            " + ".join(f"{one['core_minutes']:.2f}" for one in row.trainings),
            " + ".join(f"{one['steps']:,}" for one in row.trainings),
            *map(_share, row.matches),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    seeds = {row.seed for row in rows}
    if len(seeds) > 1:
        lines += [
            "",
            f"Mean over {len(seeds)} seeds, from the lowest to the highest:",
            "",
            f"| Recipe | {opponents} |",
            "|---" * (2 + len(BASELINES)) + "|",
        ]
        for name in dict.fromkeys(row.recipe for row in rows):
            matches = zip(*(row.matches for row in rows if row.recipe == name), strict=True)
            lines.append(f"| {name} | {' | '.join(map(_mean, matches))} |")
    return "\n".join(lines)


def _share(match: dict[str, Any] | None) -> str:
    if match is None:
        return "is it"
    share, low, high = (100 * match[key] for key in ("win_share", "low", "high"))
    return f"{share:.1f} % [{low:.1f}, {high:.1f}]"


def _mean(matches: Sequence[dict[str, Any] | None]) -> str:
    shares = [100 * match["win_share"] for match in matches if match is not None]
    if not shares:
        return "is it"
    return f"{statistics.mean(shares):.1f} % ({min(shares):.1f} to {max(shares):.1f})"


def without_start(recipe: Recipe) -> Recipe:
    """The stages that can start from a policy, for the whole time."""
    stages = [stage for stage in recipe if stage.base == "expert_iteration"]
    whole = sum(stage.share for stage in stages)
    return tuple(stage._replace(share=stage.share / whole) for stage in stages)


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type of arguments, above 0."""

    def number(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
        return value

    return number


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what the file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("file", type=Path, help="JSON lines, one for each training and match")
    parser.add_argument("--set", choices=list(SETS), required=True, help="of recipes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="recipes of the set")
    parser.add_argument("--minutes", type=_positive(float), default=10, help="of each recipe")
    parser.add_argument("--seeds", type=_positive(int), default=1)
    parser.add_argument("--players", type=int, choices=(2, 3, 4), default=2)
    parser.add_argument("--games", type=_positive(int), default=4000, help="of each match")
    parser.add_argument("--threads", type=_positive(int), default=1)
    parser.add_argument("--start", type=Path, metavar="POLICY", help="in place of PPO")
    options = parser.parse_args(arguments)
    recipes = SETS[options.set]
    if unknown := set(options.only or ()) - set(recipes):
        parser.error(f"no recipe {sorted(unknown)[0]!r} in the set; it has {', '.join(recipes)}")
    recipes = {name: recipes[name] for name in options.only or recipes}
    reference = next(iter(recipes))
    if options.start is not None:
        if options.set in ABOUT_THE_START:
            parser.error(f"the recipes of the set {options.set} do not start from a policy")
        recipes = {name: without_start(recipe) for name, recipe in recipes.items()}
        recipes = {"no training": (), **recipes}
        reference = "the start"
    try:
        rows = compare(recipes, options)
    except SplendorError as error:
        raise SystemExit(f"error: {error}") from error
    print(table(rows, reference))
    command = shlex.join(["benchmarks/recipes.py", *(arguments or sys.argv[1:])])
    print(f"\n`python {command}`")
    makers = [training["made_by"] for row in rows for training in row.trainings]
    for made_by in dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in one.items()) for one in makers
    ):
        print(made_by)


if __name__ == "__main__":
    main()
