"""Masked PPO in self-play on `Batch`: `splendor train configs/quickstart.toml`.

Games are played by the current network in all seats, in a part of them against past selves. After
some decisions of every game the network learns from all those that it made itself: the clipped
objective of Schulman et al. 2017 for the policy, cross-entropy with the lambda-returns for the
expected shares of the victory. There is no discount: what is estimated is who wins.

docs/training.md explains the figures and lists what a run keeps in its folder.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import Rules, SplendorError
from splendor_env.evaluation import play_match
from training import learner as learning
from training import loop
from training.config import PPOConfig, setting
from training.networks import NETWORKS, NetworkSizes, masked_log_probs
from training.opponents import Pool
from training.policy_agent import PolicyAgent
from training.rollout import Rollout, SelfPlay
from training.run import EVALUATION_SEED, TRAINING_SEED


@dataclass(frozen=True)
class Config(PPOConfig, loop.LoopConfig):
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

    def __post_init__(self) -> None:
        super().__post_init__()
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


def train(
    config: Config,
    resume: bool = False,
    on_evaluation: loop.OnEvaluation = lambda step, evaluation: None,
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
        SplendorError: Nothing to resume, or not by these settings; no such weights to start from;
            another process trains in the folder; or the training diverged, which leaves the last
            good checkpoint.
        SystemExit: After a signal, with status 128 + its number.
    """
    with loop.held(config, resume, _FIXED) as (run, config):
        _Run(config, run, resume, on_evaluation).go()
    return run


class _Run(loop.Loop["Config", "Learner"]):
    """One call of `train`."""

    def __init__(
        self, config: Config, run: Path, resume: bool, on_evaluation: loop.OnEvaluation
    ) -> None:
        super().__init__(config, run, Learner(config), on_evaluation)
        self.tables = {rules: _Table(config, rules) for rules in self.rules_in_turn}
        reached = loop.last_resume_file(run)[0] if resume else 0
        self.pool = Pool(config, run / "opponents", reached)
        self.restore(resume)

    def describe(self) -> str:
        """See `Loop`."""
        learning_rate = self.config.learning_rate * (1 - self.progress())
        return (
            f"learning rate from {learning_rate:.2g}, {len(self.pool.steps)} past selves, "
            f"{self.config.precision}"
        )

    def update(self, rules: Rules) -> tuple[int, dict[str, float]]:
        """See `Loop`."""
        table = self.tables[rules]
        self._play(table)
        statistics = self.learner.update(table.rollout, self.progress())
        return int(table.rollout.is_learner.sum()), statistics

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

    def tidy(self) -> None:
        """See `Loop`: a past self may be due."""
        if self.pool.is_due(self.step):
            self.pool.add(self.step, self.learner.network)

    def compare(self) -> dict[str, float]:
        """See `Loop`: against the past self of about half as many steps."""
        if not self.pool.steps:
            return {}
        middle = min(self.pool.steps, key=lambda step: abs(step - self.step / 2))
        past = PolicyAgent(self.pool.networks[self.pool.steps.index(middle)], "past")
        agent, seed = PolicyAgent(self.learner.network, "learner"), EVALUATION_SEED + self.step
        return {
            f"past{self.suffix(rules)}": play_match(
                agent, past, rules, self.config.eval_games, seed
            ).win_share
            for rules in self.rules_in_turn
        }

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """See `Loop`."""
        tensors, values = super().state()
        values["pool"] = self.pool.state()
        for index, games in enumerate(self._all_games()):
            for key, value in games.state().items():
                if isinstance(value, np.ndarray):
                    tensors[f"games.{index}.{key}"] = torch.from_numpy(value)
                else:
                    values[f"games.{index}.{key}"] = value
        return tensors, values

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """See `Loop`."""
        super().load_state(tensors, values)
        self.pool.load_state(values["pool"])
        for index, games in enumerate(self._all_games()):
            prefix = f"games.{index}."
            state: dict[str, Any] = {
                key.removeprefix(prefix): value
                for key, value in values.items()
                if key.startswith(prefix)
            }
            arrays = learning.tensors_of(prefix.removesuffix("."), tensors)
            games.load_state(state | {key: tensor.numpy() for key, tensor in arrays.items()})

    def after_saving(self) -> None:
        """See `Loop`."""
        self.pool.delete_dropped()

    def _all_games(self) -> list[SelfPlay]:
        return [games for table in self.tables.values() for games in table.games]


class _Table:
    """The games of one number of players, shared among the threads, and room for a rollout."""

    def __init__(self, config: Config, rules: Rules) -> None:
        self.rules = rules
        dtype = getattr(torch, config.precision)
        self.rollout = Rollout(config.rollout_steps, config.num_games, rules.num_players, dtype)
        seed = np.uint64(TRAINING_SEED + config.seed)
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


class Learner(learning.Learner["Config"]):
    """Learns from rollouts by PPO."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.precision, config.num_threads)

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """Learn from a finished rollout and say how it went.

        Args:
            rollout: What was played since the last update.
            progress: Part of the training that is done, from 0 to 1.
        """
        config = self.config
        learning_rate = config.learning_rate * (1 - progress)
        ent_coef = config.ent_coef * (1 - progress)
        data = _Data(rollout)
        if len(data.rows) == 0:  # past selves may have made all the decisions of a tiny rollout
            return {}
        num_batches = max(1, round(len(data.rows) / config.batch_size))
        totals = np.zeros(len(_STATISTICS))
        for _ in range(config.num_epochs):
            order = self.generator.permutation(data.rows)
            for batch in np.array_split(order, num_batches):
                totals += self.step(
                    lambda rows: self._loss(data, ent_coef, rows), batch, learning_rate
                )
        averages = totals / (num_batches * config.num_epochs)
        return {
            **dict(zip(_STATISTICS, averages.tolist(), strict=True)),
            "explained_variance": data.explained_variance(),
            "learning_rate": learning_rate,
        }

    def _loss(
        self, data: "_Data", ent_coef: float, rows: np.ndarray
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `learner.Loss`."""
        config = self.config
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
        with torch.no_grad():
            approx_kl = (ratio - 1 - log_ratio).mean()
            clip_fraction = ((ratio - 1).abs() > config.clip_coef).float().mean()
            statistics = torch.stack((policy_loss, value_loss, entropy, approx_kl, clip_fraction))
        return loss, statistics


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
