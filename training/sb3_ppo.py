"""MaskablePPO of sb3-contrib in self-play: `splendor train configs/sb3_2p.toml`.

The learner's opponents sit inside of its environment, so SB3 sees a game for one player. Of the
files in the run's folder, which docs/training.md lists, it writes no calibration and diagnostics,
and `resume-STEP.pt` in place of safetensors.

Nothing here is unpickled: of `resume-STEP.pt` only tensors are read. SB3's own zip files are not
written, and those of others must not be loaded: `MaskablePPO.load` runs code that they contain.
"""

import io
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.distributions import Distribution

from splendor_env.agents import Agent, make_agent
from splendor_env.agents.layouts import layouts
from splendor_env.core.state import SplendorError
from splendor_env.envs.sb3 import SplendorVecEnv
from splendor_env.evaluation import play_match
from training.checkpoint import (
    check_layouts,
    remove_leftovers,
    save_policy,
    write_atomically,
)
from training.config import DivergedError, PPOConfig, setting
from training.networks import NetworkSizes, PolicyNetwork, win_shares
from training.opponents import Pool
from training.policy_agent import PolicyAgent
from training.run import (
    EVALUATION_SEED,
    TRAINING_SEED,
    Metrics,
    as_text,
    caught_signals,
    check_finished,
    check_run,
    console,
    evaluate,
    exit_stopped,
    last_resume_file,
    lock,
    make_run,
    progress_bar,
    resume_files,
    shares,
    tell_once,
    write_settings,
)

_FIXED = ("rules", "num_players", *NetworkSizes._fields)
"""Settings that a resumed run cannot change."""

_MAX_LOGIT = 1e6
"""SB3 masks an action by setting its logit to -1e8, which must be far below all others."""


@dataclass(frozen=True)
class Config(PPOConfig):
    """MaskablePPO against a mixture of opponents. A step is a decision of the learner.

    Raises:
        SplendorError: A value of the wrong type or out of its range.
    """

    algorithm: str = setting("sb3_ppo", choices=("sb3_ppo",))
    gamma: float = setting(1.0, 0, 1)

    # Relative frequencies with which a seat is given to
    weight_current: float = setting(0.6, 0)  # the learner's policy as of the last update
    weight_past: float = setting(0.2, 0)  # past selves, each as often
    weight_greedy: float = setting(0.15, 0)
    weight_random: float = setting(0.05, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_players == 0:
            raise SplendorError(
                "num_players must be 2, 3 or 4: sb3_ppo trains one number at a time"
            )
        if self.rollout_size % self.batch_size:
            raise SplendorError(
                f"batch_size {self.batch_size} must divide num_games * rollout_steps = "
                f"{self.rollout_size}"
            )
        if self.weight_current + self.weight_past + self.weight_greedy + self.weight_random == 0:
            raise SplendorError("one of the weights of the opponents must be more than 0")


def train(config: Config, resume: bool = False) -> Path:
    """Train a policy and return the folder of the run, which then holds its last checkpoint.

    A new run does not touch an old one: where the folder exists, a number is added to its name.
    SIGINT, SIGTERM and SIGHUP save all that is needed to go on, and exit.

    Args:
        config: The settings.
        resume: Go on with the run in `config.run_folder`.

    Raises:
        SplendorError: Nothing to resume, or not by these settings; another process trains in the
            folder; or the training diverged, which leaves the last good checkpoint.
        SystemExit: After a signal, with status 128 + its number.
    """
    run = check_run(config, _FIXED) if resume else make_run(config)
    config = replace(config, run_name=run.name, runs_folder=str(run.parent))
    with lock(run):
        remove_leftovers(run)
        _train(config, run, resume)
    return run


def _train(config: Config, run: Path, resume: bool) -> None:
    torch.set_num_threads(config.num_threads)
    # Torch's check of every distribution costs time, and the agents check weights when they load.
    Distribution.set_default_validate_args(False)

    step, resume_file = last_resume_file(run, ".pt") if resume else (0, None)
    if resume and check_finished(run, step, config.total_steps):
        return
    opponents = Opponents(config, run / "opponents", step)
    env = SplendorVecEnv(config.rules_in_turn()[0], config.num_games, *opponents.draw())
    model = _make_model(config, env, seed=(config.seed + step) % 2**31)
    env.seed(TRAINING_SEED + config.seed + step)  # after SB3 has set its own
    if resume_file is not None:
        _load_parameters(model, resume_file)
        model.num_timesteps = step
    opponents.update(model.policy)
    write_settings(run, config)
    console.print(
        f"{'resuming' if resume else 'training'} {run}: steps {step:,} to {config.total_steps:,}, "
        f"{len(opponents.pool.steps)} past selves"
    )
    with caught_signals() as caught, progress_bar(config.total_steps, step) as progress:
        callback = _Trainer(config, run, opponents, env, progress, caught)
        model.set_logger(Logger(str(run), [_TensorBoard(str(run))]))
        # SB3 adds the steps already done to this number.
        try:
            model.learn(config.total_steps - step, callback, reset_num_timesteps=False)
            callback.finish()
        finally:
            model.logger.close()
    if caught:
        exit_stopped(run, model.num_timesteps, caught[0])


class Opponents:
    """Whom the learner meets: itself as it is, past selves, and the fixed agents.

    Attributes:
        current: Plays by the learner's weights, as of the last `update`.
        pool: The past selves.
    """

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._config = config
        self.current = PolicyAgent(
            PolicyNetwork(config.network_sizes()), "current", sample=True, seed=config.seed
        )
        self.pool = Pool(config, folder, step)
        self._fixed = [make_agent("greedy", config.seed), make_agent("random", config.seed)]

    def update(self, policy: BasePolicy) -> None:
        """Take over the learner's weights."""
        weights = policy.get_submodule("mlp_extractor.network").state_dict()
        self.current.network.load_state_dict(weights)

    def draw(self) -> tuple[list[Agent], list[float]]:
        """The agents to draw from, and the weight of each."""
        config = self._config
        steps = self.pool.steps
        # New agents at each draw: with the newest step, their choices do not repeat the last ones'.
        seed = config.seed + max(steps, default=0)
        past = [
            PolicyAgent(network, f"step {step}", sample=True, seed=seed + step)
            for step, network in zip(steps, self.pool.networks, strict=True)
        ] or [self.current]
        agents: list[Agent] = [self.current, *past, *self._fixed]
        weights = [config.weight_current] + [config.weight_past / len(past)] * len(past)
        return agents, [*weights, config.weight_greedy, config.weight_random]


class _Trainer(BaseCallback):
    """What happens between SB3's updates: opponents, evaluations, checkpoints, stopping."""

    def __init__(
        self,
        config: Config,
        run: Path,
        opponents: Opponents,
        env: SplendorVecEnv,
        progress: Progress,
        caught: list[int],
    ) -> None:
        super().__init__()
        self._config = config
        self._run = run
        self._opponents = opponents
        self._env = env
        self._progress = progress
        self._caught = caught
        self._evaluation: dict[str, float] = {}
        self._metrics = Metrics(run, [1 / config.num_players])

    def _on_training_start(self) -> None:
        self._start = time.monotonic()
        self._first_step = self._saved = self.num_timesteps
        self._metrics.keep_until(self.num_timesteps)
        last = self._metrics.rows[-1] if self._metrics.rows else {"step": 0, "minutes": 0.0}
        self._evaluated, self._minutes = int(last["step"]), last["minutes"]
        self._evaluation = shares(last)

    def _on_rollout_start(self) -> None:
        """SB3 has just updated the policy: `num_timesteps` are behind it."""
        step = self.num_timesteps
        remaining = max(0.0, 1 - step / self._config.total_steps)
        self.model.ent_coef = self._config.ent_coef * remaining  # type: ignore[attr-defined]
        self._take_over_weights()
        if self._opponents.pool.is_due(step):
            self._opponents.pool.add(step, self._opponents.current.network)
            self._env.set_opponents(*self._opponents.draw())
        if step - self._evaluated >= self._config.eval_every:
            self._evaluate()
        if step - self._saved >= self._config.checkpoint_every:
            self._save()
        self.logger.dump(step)  # else SB3 would put these values after the next rollout

    def _on_step(self) -> bool:
        return not self._caught

    def _on_rollout_end(self) -> None:
        self.logger.record("time/steps_per_second", self._show_status())

    def _show_status(self) -> float:
        """Update the line of the progress bar and return the steps per second."""
        speed = (self.num_timesteps - self._first_step) / (time.monotonic() - self._start)
        self._progress.update(
            self._progress.task_ids[0],
            completed=self.num_timesteps,
            status=f"{speed:,.0f} steps/s  {as_text(self._evaluation)}",
        )
        return speed

    def finish(self) -> None:
        """Evaluate, unless stopped, and save."""
        self._take_over_weights()
        if not self._caught and self._evaluated < self.num_timesteps:
            self._evaluate()
            self._show_status()
        self._save()
        self.logger.dump(self.num_timesteps)

    def _take_over_weights(self) -> None:
        """Give the learner's weights to `current`, from which all else is made, if they are sane.

        Weights may be finite and outputs not.
        """
        self._opponents.update(self.model.policy)
        network = self._opponents.current.network
        with torch.no_grad():
            logits, value = network(torch.as_tensor(self.model._last_obs))  # type: ignore[attr-defined]
        is_sane = all(torch.isfinite(tensor).all() for tensor in (*network.parameters(), value))
        if not is_sane or not (logits.abs() < _MAX_LOGIT).all():  # nor is NaN smaller
            raise DivergedError(
                f"the training diverged: at step {self.num_timesteps:,} weights or outputs are NaN "
                f"or far too large; nothing is saved since step {self._saved:,}; "
                "try a smaller learning_rate"
            )

    def _evaluate(self) -> None:
        """Measure the arg-max policy; nothing is chosen by the outcome."""
        start = time.monotonic()
        step = self.num_timesteps
        [rules], num_games = self._config.rules_in_turn(), self._config.eval_games
        network, seed = self._opponents.current.network, EVALUATION_SEED + step
        self._evaluation = evaluate(network, rules, num_games, seed)
        past = self._opponents.pool.networks
        if past:  # each in turn, as an arg-max policy too
            opponent = PolicyAgent(past[len(self._metrics.rows) % len(past)], "past")
            agent = PolicyAgent(network, "learner")
            match = play_match(agent, opponent, rules, num_games, seed)
            self._evaluation["past"] = match.win_share
        self._evaluated = step
        minutes = self._minutes + (time.monotonic() - self._start) / 60
        train = {
            name: round(float(self.logger.name_to_value[f"train/{name}"]), 5)
            for name in ("entropy_loss", "approx_kl", "clip_fraction", "explained_variance")
            if f"train/{name}" in self.logger.name_to_value
        }
        evaluation = {f"win_share_{name}": share for name, share in self._evaluation.items()}
        self._metrics.append({"step": step, "minutes": round(minutes, 2), **evaluation, **train})
        for name, share in self._evaluation.items():
            self.logger.record(f"eval/win_share_{name}", share)
        self._progress.console.print(
            f"step {step:,}  {minutes:.1f} min  {as_text(self._evaluation)}  "
            f"({num_games} games each, {time.monotonic() - start:.1f} s)"
        )

    def _save(self) -> None:
        step = self.num_timesteps
        network = self._opponents.current.network
        save_policy(
            self._run / "policy",
            network,
            self._config.rules_in_turn(),
            step=step,
            evaluation=self._evaluation if self._evaluated == step else {},
            algorithm=self._config.algorithm,
        )
        content = io.BytesIO()
        torch.save({**self.model.get_parameters(), "layouts": layouts()}, content)
        path = self._run / f"resume-{step:012d}.pt"
        write_atomically(path, content.getvalue())
        for old in resume_files(self._run, ".pt"):
            if old != path:
                old.unlink(missing_ok=True)
        self._opponents.pool.delete_dropped()
        self._saved = step


class _TensorBoard(TensorBoardOutputFormat):
    """Its failures, as of a full disk, are told once and do not end the training."""

    def write(self, *args: Any, **options: Any) -> None:
        """Record figures."""
        with tell_once("TensorBoard", Exception):
            super().write(*args, **options)

    def close(self) -> None:
        """Write all that is left."""
        with tell_once("TensorBoard", Exception):
            super().close()


class _ActorCritic(nn.Module):
    """A `PolicyNetwork` under the names that SB3 asks of the inner part of a policy.

    The value is the mover's expected reward (B, 1), from -1 to 1.
    """

    def __init__(self, sizes: NetworkSizes, num_players: int) -> None:
        super().__init__()
        self.network = PolicyNetwork(sizes)
        self._num_players = num_players

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, A) and value."""
        logits, value_logits = self.network(observation)
        share = win_shares(value_logits)[:, :1]
        return logits, (self._num_players * share - 1) / (self._num_players - 1)

    def forward_actor(self, observation: torch.Tensor) -> torch.Tensor:
        """The logits alone."""
        return self(observation)[0]

    def forward_critic(self, observation: torch.Tensor) -> torch.Tensor:
        """The value alone."""
        return self(observation)[1]


class _Policy(MaskableActorCriticPolicy):
    """SB3's policy around a `PolicyNetwork`, which gives logits and value itself."""

    def __init__(self, *args: Any, config: Config, **kwargs: Any) -> None:
        self._config = config
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        inner = _ActorCritic(self._config.network_sizes(), self._config.num_players)
        self.mlp_extractor = inner  # type: ignore[assignment]
        self.action_net = nn.Identity()  # type: ignore[assignment]
        self.value_net = nn.Identity()  # type: ignore[assignment]
        self.optimizer = torch.optim.Adam(inner.parameters(), lr_schedule(1), eps=1e-5)


def _make_model(config: Config, env: SplendorVecEnv, seed: int) -> MaskablePPO:
    return MaskablePPO(
        _Policy,
        env,
        learning_rate=lambda remaining: config.learning_rate * max(0.0, remaining),
        n_steps=config.rollout_steps,
        batch_size=config.batch_size,
        n_epochs=config.num_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_coef,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"config": config},
        seed=seed,
        device="cpu",
    )


def _load_parameters(model: MaskablePPO, path: Path) -> None:
    try:
        parameters = torch.load(path, weights_only=True)
        check_layouts(parameters.pop("layouts", {}), path)
        model.set_parameters(parameters)
    except Exception as error:  # torch raises many kinds
        raise SplendorError(f"cannot resume from {path}: {error}") from error
