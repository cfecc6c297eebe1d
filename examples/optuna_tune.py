"""Optuna over a few hyper-parameters of a short MaskablePPO run; weak trials are pruned.

    python examples/optuna_tune.py --trials 6 --steps 60000

What is special here: the study lives in an SQLite file, so a second run of the same command goes on
with it (and several may share it); every trial is judged on the same deals, in parts, so that
`MedianPruner` can stop one that lags behind the others at the same step.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy

from splendor_env.agents import make_agent
from splendor_env.core.state import standard
from splendor_env.envs.sb3 import SplendorVecEnv

try:
    import optuna
except ImportError:
    sys.exit("this example needs optuna: pip install optuna")

EVALUATION_SEED = 10**6
NUM_PARTS = 3
"""Evaluations of a trial."""


def environment(num_envs: int, seed: int, *opponents: str) -> SplendorVecEnv:
    """Two players; the opponent is drawn for each game."""
    agents = [make_agent(opponent, seed) for opponent in opponents]
    env = SplendorVecEnv(standard(2), num_envs, agents)
    env.seed(seed)
    return env


def objective(trial: optuna.Trial, steps: int, seed: int, eval_games: int) -> float:
    """The win rate against greedy, too strong to saturate, after `steps` decisions of learning."""
    model = MaskablePPO(
        "MlpPolicy",
        environment(64, seed, "random", "greedy"),
        n_steps=32,
        batch_size=512,
        learning_rate=trial.suggest_float("learning_rate", 1e-4, 5e-3, log=True),
        ent_coef=trial.suggest_float("ent_coef", 1e-4, 3e-2, log=True),
        n_epochs=trial.suggest_int("n_epochs", 1, 5),
        policy_kwargs={"net_arch": [trial.suggest_categorical("layer_size", [64, 128])]},
        seed=seed,
        device="cpu",
    )
    win_rate = 0.0
    for part in range(NUM_PARTS):
        model.learn(max(1, steps // NUM_PARTS), reset_num_timesteps=False)
        returns, _ = evaluate_policy(
            model,
            environment(50, EVALUATION_SEED, "greedy"),
            n_eval_episodes=eval_games,
            return_episode_rewards=True,
            warn=False,
        )
        win_rate = float((np.array(returns) + 1).mean() / 2)
        trial.report(win_rate, part)
        if trial.should_prune():
            raise optuna.TrialPruned
    return win_rate


def main() -> int:
    """Run the trials and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60_000, help="of each trial")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval-games", type=int, default=200)
    parser.add_argument("--storage", type=Path, default=Path("runs/optuna.db"))
    options = parser.parse_args()

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options.storage.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="splendor",
        storage=f"sqlite:///{options.storage}",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=options.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )

    def tell(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        value = f"{trial.value:.1%}" if trial.value is not None else "none"
        settings = ", ".join(
            f"{name}={value:.2g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in trial.params.items()
        )
        print(f"trial {trial.number}: {trial.state.name.lower()}, {value} ({settings})", flush=True)

    study.optimize(
        lambda trial: objective(trial, options.steps, options.seed, options.eval_games),
        n_trials=options.trials,
        callbacks=[tell],
    )
    print(f"best of {len(study.trials)}: {study.best_value:.1%} against greedy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
