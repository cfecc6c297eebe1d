"""Masked PPO in self-play on `Batch`: `python -m training.ppo configs/quickstart.toml`.

Games are played by the current network in all seats, in a part of them against past selves. After
some decisions of every game the network learns from all those that it made itself: the clipped
objective of Schulman et al. 2017 for the policy, cross-entropy with the lambda-returns for the
expected shares of the victory. There is no discount: what is estimated is who wins.

docs/training.md explains the figures and lists what a run keeps in its folder.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors
import safetensors.torch
import torch
from rich.progress import Progress

from splendor_env.agents.layouts import layouts
from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import Rules, SplendorError
from training import run as runs
from training.checkpoint import (
    check_layouts,
    metadata,
    remove_leftovers,
    save_policy,
    state_version,
    write_atomically,
)
from training.config import DivergedError, RunConfig, load_config, load_run_config, setting
from training.diagnostics import draw_calibration, draw_diagnostics, play_self, summarize
from training.networks import NETWORKS, NetworkSizes, PolicyNetwork, masked_log_probs
from training.opponents import Pool
from training.policy_agent import PolicyAgent
from training.rollout import Rollout, SelfPlay
from training.trackers import check_trackers, make_trackers, parse_trackers

R = TypeVar("R")


@dataclass(frozen=True)
class Config(RunConfig):
    """PPO on `Batch`. A step is one decision that is learned from.

    Raises:
        SplendorError: A value of the wrong type or out of its range.
    """

    algorithm: str = setting("ppo", choices=("ppo",))
    num_games: int = setting(1024, 1, 65_536)  # at once, of each number of players
    rollout_steps: int = setting(32, 2, 65_536)  # decisions per game between two updates
    network: str = setting("cards", choices=NETWORKS)
    learning_rate: float = setting(1e-3, 0, 1)  # falls linearly to 0 at total_steps
    batch_size: int = setting(2048, 2)  # about: an update's decisions are split evenly
    ent_coef: float = setting(0.02, 0, 1)  # falls linearly to 0 at total_steps
    past_share: float = setting(0.2, 0, 1)  # part of the games in which past selves take seats
    precision: str = setting("auto", choices=("auto", "float32", "bfloat16"))  # of hidden layers
    trackers: str = ""  # of "wandb,mlflow"; TensorBoard's files are always written

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_trackers(self.trackers)
        if self.num_games < self.num_threads:
            raise SplendorError(
                f"num_games {self.num_games} must be at least num_threads = {self.num_threads}"
            )


_FIXED = (
    "seed",
    "rules",
    "num_players",
    "num_games",
    "num_threads",
    "past_share",
    "precision",
    *NetworkSizes._fields,
)
"""Settings that a resumed run cannot change."""

_RESUME = ".safetensors"
_BROKEN = (safetensors.SafetensorError, LookupError, ValueError, TypeError, RuntimeError)
"""What reading a file may raise that is not what was written."""


def train(
    config: Config,
    resume: bool = False,
    on_evaluation: Callable[[int, dict[str, float]], None] = lambda step, evaluation: None,
) -> Path:
    """Train a policy and return the folder of the run, which then holds its last checkpoint.

    A new run does not touch an old one: where the folder exists, a number is added to its name.
    SIGINT, SIGTERM and SIGHUP save all that is needed to go on, and exit. Torch is left with one
    thread.

    Args:
        config: The settings.
        resume: Go on with the run in `config.run_folder`, exactly as if it had not stopped.
        on_evaluation: Called with the step and the shares of the victories after each evaluation.
            What it raises ends the run.

    Raises:
        SplendorError: Nothing to resume, or not by these settings; another process trains in the
            folder; or the training diverged, which leaves the last good checkpoint.
        SystemExit: After a signal, with status 128 + its number.
    """
    check_trackers(config.trackers)  # before there is a folder
    if config.precision == "auto":
        before = load_run_config(config.run_folder) if resume else None
        precision = before.precision if isinstance(before, Config) else faster_precision()
        config = replace(config, precision=precision)
    run = runs.check_run(config, _FIXED) if resume else runs.make_run(config)
    config = replace(config, run_name=run.name, runs_folder=str(run.parent))
    torch.set_flush_denormal(True)  # numbers next to 0 are many times slower
    try:
        with runs.lock(run):
            remove_leftovers(run)
            _Run(config, run, resume, on_evaluation).go()
    finally:
        torch.set_flush_denormal(False)
    return run


def faster_precision() -> str:
    """Either bfloat16, where the processor has instructions to multiply it, or float32.

    With them the hidden layers are three times as fast, without them slower.
    """
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # old releases have none
    has_instructions = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    return "bfloat16" if has_instructions else "float32"


class _Run:
    """One call of `train`: the loop, and what happens between two updates."""

    def __init__(
        self,
        config: Config,
        run: Path,
        resume: bool,
        on_evaluation: Callable[[int, dict[str, float]], None],
    ) -> None:
        self.config = config
        self.run = run
        self.on_evaluation = on_evaluation
        self.step, self.num_updates, self.minutes = 0, 0, 0.0
        self.statistics: list[dict[str, float]] = []  # of the updates since the last evaluation
        self.learner = Learner(config)
        self.tables = [_Table(config, rules) for rules in config.rules_in_turn()]
        chance = [1 / table.rules.num_players for table in self.tables]
        self.metrics = runs.Metrics(run, chance)
        if resume:
            self.step, path = runs.last_resume_file(run, _RESUME)
            self.pool = Pool(config, run / "opponents", self.step)
            self._load(path)
        else:
            self.pool = Pool(config, run / "opponents", 0)
        self.metrics.keep_until(self.step)
        rows = self.metrics.rows
        self.evaluated = int(rows[-1]["step"]) if rows else 0
        self.evaluation = runs.shares(rows[-1]) if rows else {}
        if self.evaluated == self.step:
            self.statistics = []  # they were saved before the evaluation
        self.saved = self.step

    def go(self) -> None:
        """Train until `total_steps` or a signal."""
        config = self.config
        self.trackers = []
        try:
            if self.step and runs.check_finished(self.run, self.step, config.total_steps):
                return
            self.trackers = make_trackers(config.trackers, self.run, config, resumed_at=self.step)
            runs.write_settings(self.run, config)
            learning_rate = config.learning_rate * (1 - self.progress())
            runs.console.print(
                f"training {self.run}: steps {self.step:,} to {config.total_steps:,}, learning "
                f"rate from {learning_rate:.2g}, {len(self.pool.steps)} past selves, "
                f"{config.precision}"
            )
            with (
                runs.caught_signals() as caught,
                runs.progress_bar(config.total_steps, self.step) as bar,
            ):
                self._between_updates(bar)  # an evaluation may have been broken off
                while self.step < config.total_steps and not caught:
                    self._update(bar)
                    self._between_updates(bar)
            if self.step < config.total_steps:
                self._save()
                runs.exit_stopped(self.run, self.step, caught[0])
        finally:
            for tracker in self.trackers:
                tracker.close()
            self.learner.close()

    def progress(self) -> float:
        """Part of the training that is done, from 0 to 1."""
        return min(1.0, self.step / self.config.total_steps)

    def _update(self, bar: Progress) -> None:
        """Play on at the next table, and learn from it."""
        start, before = time.monotonic(), self.step
        table = self.tables[self.num_updates % len(self.tables)]
        self._play(table)
        statistics = self.learner.update(table.rollout, self.progress())
        self.num_updates += 1
        self.step += int(table.rollout.is_learner.sum())
        self._check_sanity(statistics)
        seconds = time.monotonic() - start
        statistics["steps_per_second"] = (self.step - before) / seconds
        self.minutes += seconds / 60
        statistics = {f"{key}{self._suffix(table)}": value for key, value in statistics.items()}
        self.statistics.append(statistics)
        figures = {f"train/{key}": value for key, value in statistics.items()}
        for tracker in self.trackers:
            tracker.log(figures, self.step)
        speed = self.step / (self.minutes * 60)
        bar.update(
            bar.task_ids[0],
            completed=min(self.step, self.config.total_steps),
            status=f"{speed:,.0f} steps/s  {runs.as_text(self.evaluation)}",
        )

    def _play(self, table: "_Table") -> None:
        """Fill the table's rollout, and remember how the past selves fared."""
        past = dict(zip(self.pool.steps, self.pool.networks, strict=True))
        weights = self.pool.weights()

        def play(games: SelfPlay, columns: slice) -> None:
            learner, rollout = self.learner, table.rollout
            games.collect(learner.network, past, weights, learner.infer, rollout, columns)
            rollout.finish(self.config.gae_lambda, columns)

        self.learner.map(play, table.games, table.columns)
        for games in table.games:
            for result in games.results:
                self.pool.record(*result)

    def _check_sanity(self, statistics: dict[str, float]) -> None:
        is_sane = all(np.isfinite(value) for value in statistics.values())
        if not is_sane or not all(one.isfinite().all() for one in self.learner.parameters):
            raise DivergedError(
                f"the training diverged: at step {self.step:,} losses or weights are NaN or "
                f"infinite; nothing is saved since step {self.saved:,}; "
                "try a smaller learning_rate"
            )

    def _between_updates(self, bar: Progress) -> None:
        """Past selves, checkpoints and evaluations that are due."""
        config, step = self.config, self.step
        if step == 0:
            return
        if self.pool.is_due(step):
            self.pool.add(step, self.learner.network)
        is_over = step >= config.total_steps
        is_evaluation_due = step - self.evaluated >= config.eval_every or is_over
        is_save_due = step - self.saved >= config.checkpoint_every
        if self.saved < step and (is_save_due or is_evaluation_due):
            self._save()  # before the evaluation: what breaks that off costs no training
        if self.evaluated < step and is_evaluation_due:
            self._evaluate(bar.console.print)

    def _evaluate(self, show: Callable[[str], None]) -> None:
        """Measure the arg-max policy, watch the sampled one; nothing is chosen by the outcome."""
        start = time.monotonic()
        num_games, seed = self.config.eval_games, runs.EVALUATION_SEED + self.step
        network, evaluation, facts = self.learner.network, {}, {}
        past = []
        if self.pool.steps:
            middle = min(self.pool.steps, key=lambda step: abs(step - self.step / 2))
            past = [PolicyAgent(self.pool.networks[self.pool.steps.index(middle)], "past")]
        for table in self.tables:
            suffix = self._suffix(table)
            shares = runs.evaluate(network, past, table.rules, num_games, seed)
            evaluation |= {f"{name}{suffix}": share for name, share in shares.items()}
            games = play_self(network, table.rules, num_games, seed)
            facts |= {f"{name}{suffix}": value for name, value in summarize(games).items()}
            with runs.tell_once("drawing"):
                draw_calibration(self.run / f"calibration{suffix}.png", games)
        seconds = time.monotonic() - start
        self.minutes += seconds / 60
        shares = {f"win_share_{name}": share for name, share in evaluation.items()}
        row = {"step": self.step, "minutes": round(self.minutes, 2)}
        for key, value in (shares | _means(self.statistics) | facts).items():
            row[key] = float(f"{value:.6g}")
        self.metrics.append(row)
        with runs.tell_once("drawing"):
            draw_diagnostics(self.run / "diagnostics.png", self.metrics.rows)
        self.evaluated, self.evaluation, self.statistics = self.step, evaluation, []
        self._save_policy()
        for tracker in self.trackers:
            tracker.log(
                {f"eval/{key}": value for key, value in (shares | facts).items()}, self.step
            )
        show(
            f"step {self.step:,}  {self.minutes:.1f} min  {runs.as_text(evaluation)}  "
            f"(at least {num_games} games each, {seconds:.1f} s)"
        )
        self.on_evaluation(self.step, evaluation)

    def _suffix(self, table: "_Table") -> str:
        """What the names of figures end in: nothing for a single number of players."""
        return f"_{table.rules.num_players}p" if len(self.tables) > 1 else ""

    def _save_policy(self) -> None:
        save_policy(
            self.run / "policy",
            self.learner.network,
            [table.rules for table in self.tables],
            algorithm=self.config.algorithm,
            step=self.step,
            evaluation=self.evaluation if self.evaluated == self.step else {},
        )

    def _save(self) -> None:
        """Write the policy for others, then all that is needed to go on."""
        tensors, values = self.learner.state()
        values |= {
            "layouts": layouts(),
            "state_version": state_version(),
            "num_updates": self.num_updates,
            "minutes": self.minutes,
            "statistics": self.statistics,
            "pool": self.pool.state(),
        }
        for index, games in enumerate(self._all_games()):
            for key, value in games.state().items():
                if isinstance(value, np.ndarray):
                    tensors[f"games.{index}.{key}"] = torch.from_numpy(value)
                else:
                    values[f"games.{index}.{key}"] = value
        path = self.run / f"resume-{self.step:012d}{_RESUME}"
        try:
            self._save_policy()
            write_atomically(path, safetensors.torch.save(tensors, {"values": json.dumps(values)}))
        except OSError as error:
            raise SplendorError(
                f"cannot write {path}: {error}; nothing is saved since step {self.saved:,}"
            ) from error
        for old in runs.resume_files(self.run, _RESUME):
            if old != path:
                old.unlink(missing_ok=True)
        self.pool.delete_dropped()
        self.saved = self.step

    def _load(self, path: Path) -> None:
        try:
            content = runs.read(path)
            tensors = safetensors.torch.load(content)
            values = json.loads(metadata(content)["values"])
            check_layouts(values["layouts"], path)
            if values["state_version"] != state_version():
                raise SplendorError(f"{path} was made by a program with other records of games")
            self.learner.load_state(tensors, values)
            self.num_updates, self.minutes = values["num_updates"], values["minutes"]
            self.statistics = values["statistics"]
            self.pool.load_state(values["pool"])
            for index, games in enumerate(self._all_games()):
                prefix = f"games.{index}."
                state: dict[str, Any] = {
                    key.removeprefix(prefix): value
                    for key, value in values.items()
                    if key.startswith(prefix)
                }
                state |= {
                    key.removeprefix(prefix): tensor.numpy()
                    for key, tensor in tensors.items()
                    if key.startswith(prefix)
                }
                games.load_state(state)
        except SplendorError:
            raise
        except _BROKEN as error:
            raise SplendorError(f"cannot resume from {path}: {error!r}") from error

    def _all_games(self) -> list[SelfPlay]:
        return [games for table in self.tables for games in table.games]


def _means(statistics: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the updates that have it."""
    keys = dict.fromkeys(key for one in statistics for key in one)
    return {key: float(np.mean([one[key] for one in statistics if key in one])) for key in keys}


class _Table:
    """The games of one number of players, shared among the threads, and room for a rollout."""

    def __init__(self, config: Config, rules: Rules) -> None:
        self.rules = rules
        dtype = getattr(torch, config.precision)
        self.rollout = Rollout(config.rollout_steps, config.num_games, rules.num_players, dtype)
        seed = np.uint64(runs.TRAINING_SEED + config.seed)
        threads = config.num_threads
        num_past = round(config.past_share * config.num_games)
        bounds, past_bounds = (
            [number * thread // threads for thread in range(threads + 1)]
            for number in (config.num_games, num_past)
        )
        self.columns = [slice(*pair) for pair in pairwise(bounds)]
        self.games = [
            SelfPlay(
                rules,
                columns.stop - columns.start,
                end - start,
                int(hash_seed(seed, SEED_STREAM, rules.num_players * 256 + thread)),
            )
            for thread, (columns, (start, end)) in enumerate(
                zip(self.columns, pairwise(past_bounds), strict=True)
            )
        ]


class Learner:
    """The network, its optimiser, and the threads that share the work.

    Each thread runs torch on itself alone: on two cores two such threads waste less than torch's
    own, which wait for each other in every operation. Results depend on the number of threads but
    not on their speed.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        torch.set_num_threads(1)
        generator_state = torch.get_rng_state()
        torch.manual_seed(config.seed)
        self.network = PolicyNetwork(config.network_sizes())
        torch.set_rng_state(generator_state)
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, eps=1e-5, fused=True)
        self.generator = np.random.default_rng(config.seed)
        self._dtype = getattr(torch, config.precision)
        self._pool = ThreadPoolExecutor(
            config.num_threads, initializer=torch.set_num_threads, initargs=(1,)
        )

    def map(self, function: Callable[..., R], *items: Iterable[Any]) -> list[R]:
        """`function` of each item, one thread for each."""
        if self._config.num_threads == 1:
            return list(map(function, *items))
        return list(self._pool.map(function, *items))

    def infer(
        self, network: PolicyNetwork, observation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, A) and of the value (B, 4), float32, for observations (B, D).

        The hidden layers are computed in the precision of the config.
        """
        with torch.autocast("cpu", torch.bfloat16, enabled=self._dtype == torch.bfloat16):
            latent = network.encode(observation)
        return network.decode(latent, observation)

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from a finished rollout and say how it went.

        Args:
            rollout: What was played since the last update.
            progress: Part of the training that is done, from 0 to 1.
        """
        config = self._config
        learning_rate = config.learning_rate * (1 - progress)
        ent_coef = config.ent_coef * (1 - progress)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        data = _Data(rollout)
        if len(data.rows) == 0:  # past selves may have made all the decisions of a tiny rollout
            return {}
        num_batches = max(1, round(len(data.rows) / config.batch_size))
        totals = np.zeros(len(_STATISTICS))
        for _ in range(config.num_epochs):
            order = self.generator.permutation(data.rows)
            for batch in np.array_split(order, num_batches):
                totals += self._step(data, batch, ent_coef)
        averages = totals / (num_batches * config.num_epochs)
        return {
            **dict(zip(_STATISTICS, averages.tolist(), strict=True)),
            "explained_variance": data.explained_variance(),
            "learning_rate": learning_rate,
        }

    def _step(self, data: "_Data", batch: np.ndarray, ent_coef: float) -> np.ndarray:
        """One step of the optimiser; every thread takes its part of the batch."""
        parts = [part for part in np.array_split(batch, self._config.num_threads) if len(part)]
        weights = [len(part) / len(batch) for part in parts]
        same = [(data, ent_coef)] * len(parts)
        results = self.map(self._gradient, *zip(*same, strict=True), parts, weights)
        for index, parameter in enumerate(self.parameters):
            gradient = results[0][0][index]
            for other in results[1:]:
                gradient += other[0][index]
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(self.parameters, self._config.max_grad_norm)
        self.optimizer.step()
        return sum(statistics for _, statistics in results)  # type: ignore[return-value]

    def _gradient(
        self, data: "_Data", ent_coef: float, rows: np.ndarray, weight: float
    ) -> tuple[list[torch.Tensor], np.ndarray]:
        """Gradient of the loss on these rows (b,), and the statistics, both times `weight`."""
        config = self._config
        index = torch.from_numpy(rows)
        action = data.action[index]
        advantage = data.advantage[index]
        logits, value_logits = self.infer(self.network, data.observation[index])
        log_probs = masked_log_probs(logits, data.action_mask[index])
        log_ratio = log_probs.gather(1, action[:, None])[:, 0] - data.log_prob[index]
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
        policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        value_loss = -(data.value_target[index] * value_logits.log_softmax(1)).sum(1).mean()
        loss = policy_loss - ent_coef * entropy + config.vf_coef * value_loss
        gradient = torch.autograd.grad(loss * weight, self.parameters)
        with torch.no_grad():
            approx_kl = (ratio - 1 - log_ratio).mean()
            clip_fraction = ((ratio - 1).abs() > config.clip_coef).float().mean()
            statistics = torch.stack((policy_loss, value_loss, entropy, approx_kl, clip_fraction))
        return list(gradient), statistics.numpy() * weight

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Weights, optimiser and generator, as tensors and as JSON's types."""
        tensors = {f"network.{key}": value for key, value in self.network.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": value for key, value in state.items()}
        return tensors, {"generator": self.generator.bit_generator.state}

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        states: dict[int, dict[str, torch.Tensor]] = {}
        weights = {}
        for name, tensor in tensors.items():
            kind, _, key = name.partition(".")
            if kind == "network":
                weights[key] = tensor
            elif kind == "optimizer":
                index, _, key = key.partition(".")
                states.setdefault(int(index), {})[key] = tensor
        self.network.load_state_dict(weights)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        self.generator.bit_generator.state = values["generator"]

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()


_STATISTICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


class _Data:
    """A rollout's decisions in one row each, as tensors on the same memory."""

    def __init__(self, rollout: Rollout) -> None:
        self.rows = np.flatnonzero(rollout.is_learner)
        self.observation = rollout.observation.flatten(0, 1)
        self.action_mask = torch.from_numpy(rollout.action_mask).flatten(0, 1)
        self.action = torch.from_numpy(rollout.action).flatten()
        self.log_prob = torch.from_numpy(rollout.log_prob).flatten()
        self.value_target = torch.from_numpy(rollout.value_target).flatten(0, 1)
        self._value = rollout.value[..., 0].ravel()
        advantage = rollout.advantage.ravel()
        own = advantage[self.rows]
        self.advantage = torch.from_numpy((advantage - own.mean()) / (own.std() + 1e-8))

    def explained_variance(self) -> float:
        """Part of the variance of the lambda-returns that the value has foreseen; 1 is all.

        The returns contain the value: `value_explained` of the diagnostics is about results.
        """
        target = self.value_target[:, 0].numpy()[self.rows]
        return float(1 - (target - self._value[self.rows]).var() / max(target.var(), 1e-8))


def main(arguments: list[str]) -> None:
    """`python -m training.ppo CONFIG [key=value ...] [--resume]`."""
    settings = [argument for argument in arguments if argument != "--resume"]
    if not settings:
        raise SystemExit(main.__doc__)
    try:
        config = load_config(settings[0], settings[1:])
        if not isinstance(config, Config):
            raise SplendorError(f"{settings[0]} is for algorithm {config.algorithm!r}")
        train(config, resume="--resume" in arguments)
    except SplendorError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    from training.ppo import main  # the class `Config` of this module, not of `__main__`

    main(sys.argv[1:])
