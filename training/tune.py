"""Search the settings of PPO with Optuna: `python -m training.tune configs/quickstart.toml`.

Each trial is a run of its own, judged by its arg-max policy's share of the victories against
greedy at the end. A trial that lags behind the median of the others is pruned. The study lies in an
SQLite file: the same command goes on with it, and several processes may share it.
"""

import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from splendor_env.core.state import SplendorError
from training.config import DivergedError, PPOConfig, load_config

if TYPE_CHECKING:
    import optuna

Train = Callable[..., Any]
"""As `training.ppo.train`: takes a config and the keyword `on_evaluation`, which it calls with the
step and the win shares of every evaluation, the last included, once the policy is saved, and which
may raise."""


class Range(NamedTuple):
    """Numbers to sample from: evenly, or their logarithms evenly."""

    low: float
    high: float
    log: bool = False


SPACE: dict[str, Range | tuple[int, ...]] = {
    "learning_rate": Range(3e-4, 3e-3, log=True),
    "ent_coef": Range(1e-3, 3e-2, log=True),
    "gae_lambda": Range(0.8, 0.98),
    "clip_coef": Range(0.1, 0.3),
    "vf_coef": Range(0.25, 1.0),
    "num_epochs": (1, 2, 3),
    "rollout_steps": (32, 64, 128),
    "batch_size": (1024, 2048, 4096, 8192),
}
"""The settings that are searched: ranges, or the values to choose from."""

_NOT_JUDGED = ("run_name", "runs_folder", "num_threads", "trackers", *SPACE)
"""Settings in which the runs of one study may differ."""

_NUM_RANDOM_TRIALS = 8
"""Trials before the sampler trusts what it has seen."""
_NUM_UNPRUNED_TRIALS = 4
"""Trials before the median counts."""


def tune(
    config: PPOConfig,
    study_file: Path,
    num_trials: int,
    *,
    train: Train,
    seed: int = 0,
) -> "optuna.Study":
    """Add trials to the study in `study_file`, which is made if there is none.

    The first trial of a new study has the config's own settings, where `SPACE` contains them. Runs
    lie in `runs_folder`/tune-STUDY/trial-NNN, STUDY being the file's name without its suffix.

    Args:
        config: What all trials have in common.
        study_file: An SQLite file.
        num_trials: To add to those that the study has.
        train: Trains by one config.
        seed: Of the sampler.

    Raises:
        SplendorError: Optuna is missing; the file is not that of a study, or of one with other
            settings; or a trial trained without an evaluation.
        KeyboardInterrupt: Stopped; the trial under way counts as failed.
    """
    try:
        import optuna
    except ImportError as error:
        raise SplendorError(f"tuning needs Optuna ({error}): pip install -e '.[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study_file.parent.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            study_name=study_file.stem,
            storage=f"sqlite:///{study_file}",
            load_if_exists=True,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(_NUM_UNPRUNED_TRIALS, n_warmup_steps=2),
        )
    except Exception as error:  # of the file system, of SQLAlchemy, of Optuna
        raise SplendorError(f"cannot open the study {study_file}: {error}") from error
    _check_study(study, config, study_file)
    # A study that goes on must not draw its first settings again.
    study.sampler = optuna.samplers.TPESampler(
        seed=(seed + len(study.trials)) % 2**32, n_startup_trials=_NUM_RANDOM_TRIALS
    )
    if not study.trials:
        study.enqueue_trial(_own_settings(config))
    folder = Path(config.runs_folder) / f"tune-{study_file.stem}"
    config = replace(config, runs_folder=str(folder))
    study.optimize(
        lambda trial: objective(trial, config, train),
        n_trials=num_trials,
        callbacks=[_print_trial],
    )
    return study


def objective(trial: "optuna.Trial", config: PPOConfig, train: Train) -> float:
    """Train with sampled settings; the share of the victories against greedy at the end.

    The policy behind it is the one in the trial's folder, if `train` saves before it evaluates.

    In a run for several numbers of players it is the mean over these, "greedy_2p" and so on.

    Args:
        trial: Samples, and decides after each evaluation whether to prune.
        config: What is not sampled; `max_minutes` gives every trial the same time.
        train: Trains by one config.

    Raises:
        optuna.TrialPruned: The trial lags behind, its training diverged, or the sampled settings
            contradict the others.
        SplendorError: There was no evaluation, or the training failed for another reason.
        KeyboardInterrupt: The training was stopped.
    """
    import optuna

    settings = {key: _suggest(trial, key) for key in SPACE}
    win_shares: list[float] = []

    def on_evaluation(step: int, evaluation: dict[str, float]) -> None:
        shares = [share for name, share in evaluation.items() if name.split("_")[0] == "greedy"]
        win_shares.append(sum(shares) / len(shares))
        # By the number of the evaluation: the median is over trials that report at the same place,
        # and steps differ with the size of the rollout.
        trial.report(win_shares[-1], len(win_shares))
        if trial.should_prune():
            raise optuna.TrialPruned

    def prune(error: SplendorError) -> NoReturn:
        print(f"trial {trial.number}: {error}", file=sys.stderr)
        raise optuna.TrialPruned(str(error)) from error

    try:
        config = replace(config, run_name=f"trial-{trial.number:03d}", **settings)
    except SplendorError as error:
        prune(error)
    try:
        train(config, on_evaluation=on_evaluation)
    except DivergedError as error:
        prune(error)
    except SystemExit as error:  # a signal, which the training answers by saving
        raise KeyboardInterrupt from error
    if not win_shares:
        raise SplendorError("a trial trained without an evaluation: choose a smaller eval_every")
    return win_shares[-1]


def settings_of(params: dict[str, Any]) -> dict[str, Any]:
    """A trial's parameters as it was trained by them."""
    return {key: _rounded(params[key]) for key in SPACE if key in params}


def _suggest(trial: "optuna.Trial", key: str) -> Any:
    space = SPACE[key]
    if isinstance(space, Range):
        return _rounded(trial.suggest_float(key, space.low, space.high, log=space.log))
    return trial.suggest_categorical(key, space)


def _rounded(value: Any) -> Any:
    """Three digits are enough, and can be typed."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _own_settings(config: PPOConfig) -> dict[str, Any]:
    own = {key: getattr(config, key) for key in SPACE}
    return {
        key: own[key]
        for key, space in SPACE.items()
        if (space.low <= own[key] <= space.high if isinstance(space, Range) else own[key] in space)
    }


def _check_study(study: "optuna.Study", config: PPOConfig, study_file: Path) -> None:
    """Results under other settings, of the rules or of the length, cannot be compared."""
    judged = {key: value for key, value in asdict(config).items() if key not in _NOT_JUDGED}
    before = study.user_attrs.get("settings", judged)
    differences = [
        f"{key} = {before.get(key)!r} (here {judged.get(key)!r})"
        for key in before | judged
        if before.get(key) != judged.get(key)
    ]
    if differences:
        raise SplendorError(
            f"the study {study_file} was begun with {', '.join(differences)}: "
            "choose another file for another study"
        )
    study.set_user_attr("settings", judged)


def _print_trial(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    share = f"{trial.value:.1%} against greedy" if trial.value is not None else "no value"
    settings = " ".join(f"{key}={value}" for key, value in settings_of(trial.params).items())
    print(f"trial {trial.number} {trial.state.name.lower()}: {share}  {settings}", flush=True)


def _print_best(study: "optuna.Study", config_file: Path) -> None:
    finished = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    if not finished:
        print("no trial has come to its end yet")
        return
    best = study.best_trial
    print(f"best of {len(study.trials)}: trial {best.number}, {best.value:.1%} against greedy")
    print(f"splendor train {shlex.quote(str(config_file))} with")
    for key, value in settings_of(best.params).items():
        print(f"--set {key}={value}")


_EPILOG = """\b
Examples:
  python -m training.tune configs/quickstart.toml
  python -m training.tune configs/quickstart.toml --trials 20 --set max_minutes=5
  python -m training.tune configs/quickstart.toml --set total_steps=1e6 --set eval_games=1000
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(epilog=_EPILOG)
def main(
    config_file: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A TOML file: what all trials have in common.")
    ],
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="Trials to add to the study.")
    ] = 20,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SQLite file of the study; made, or gone on with. By default NAME.db in the "
            "folder of the runs, where NAME is the config's run_name.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed of the sampler, not of the training.")
    ] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; repeatable."),
    ] = None,
) -> None:
    """Search good settings of PPO, judged by the share of the victories against greedy.

    Stop it at any time: the same command goes on. Trials are runs like others and keep their files
    in tune-STUDY/trial-NNN. Two trials differ by chance too: the share of 200 games is known to
    7 %, and more `eval_games` judge more sharply.
    """
    try:
        from training import ppo

        config = load_config(config_file, changes or [])
        if not isinstance(config, ppo.Config):
            raise SplendorError(f"only ppo can be tuned, not algorithm = {config.algorithm!r}")
        if study is None:
            study = Path(config.runs_folder) / f"{config.run_name}.db"
        _print_best(tune(config, study, trials, train=ppo.train, seed=seed), config_file)
    except SplendorError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app()
