"""Expert iteration: search as teacher, network as student.

`splendor train configs/expert_2p.toml`

Games are played by a small Gumbel search on the network (Danihelka et al. 2022, "Policy improvement
by planning with Gumbel"), many at once. What the searches found, and how the games ended, goes into
a window of the last decisions, and the network learns from that while the next games are played.
The run's policy is the best network so far: one that has beaten the one before in a sequential
test.

docs/training.md explains the figures and lists what a run keeps in its folder.
"""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from splendor_env.core.batch import observe_movers
from splendor_env.core.random import CHOICE_STREAM, SEED_STREAM, hash_seed
from splendor_env.core.state import MAX_PLAYERS, Rules, SplendorError
from splendor_env.evaluation.arena import Seating, one_against_rest, play_games
from splendor_env.evaluation.statistics import Sprt
from training import learner as learning
from training import loop
from training.config import setting
from training.networks import NETWORKS, NetworkSizes, PolicyNetwork, masked_log_probs, win_shares
from training.policy_agent import PolicyAgent
from training.run import EVALUATION_SEED, TRAINING_SEED
from training.teacher import (
    Lessons,
    TaughtGames,
    Teacher,
    Window,
    lookahead_teacher,
    search_teacher,
)


@dataclass(frozen=True)
class Config(loop.LoopConfig):
    """Expert iteration on `Batch` and `splendor_env.search`. A step is one decision learned from.

    Raises:
        SplendorError: A value of the wrong type or out of its range.
    """

    algorithm: str = setting("expert_iteration", choices=("expert_iteration",))
    network: str = setting("cards", choices=NETWORKS)
    num_games: int = setting(512, 1, 65_536)  # at once, of each number of players
    rollout_steps: int = setting(4, 1, 65_536)  # decisions per game between two updates

    lookahead_share: float = setting(0.0, 0, 1)  # part of total_steps taught one step ahead
    first_simulations: int = setting(200, 2, 10_000)  # then a search, of so many simulations,
    num_simulations: int = setting(200, 2, 10_000)  # which grow to so many at total_steps
    full_share: float = setting(1.0, 0.01, 1)  # part of the decisions that teaches the policy
    fast_simulations: int = setting(16, 2, 10_000)  # of the search for each of the others
    temperature: float = setting(2.0, 0.01, 100)  # of the policy as the search's prior
    gumbel_scale: float = setting(0.5, 0, 10)  # of the noise by which the search explores

    policy_target: str = setting("reverse", choices=("reverse", "improved", "best"))
    td_lambda: float = setting(0.9, 0, 1)  # value targets: 1 for results alone, 0 for searches
    window_size: int = setting(250_000, 1)  # decisions that can be learned from
    warm_up: int = setting(20_000, 1)  # decisions before learning begins
    replay_ratio: float = setting(10.0, 0, 100)  # times that each is learned from, on average
    learning_rate: float = setting(3e-4, 0, 1)  # falls linearly to 0 at total_steps
    ema_decay: float = setting(0.999, 0, 1)  # of the mean of the weights, which plays; a batch
    batch_size: int = setting(512, 2)
    vf_coef: float = setting(1.0, 0, 100)
    aux_coef: float = setting(0.0, 0, 100)  # of final points and rounds left

    gate_games: int = setting(2000, 1)  # at most, of a new network against the best

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_games < 4 * self.num_threads:
            raise SplendorError(
                f"num_games {self.num_games} must be at least 4 * num_threads = "
                f"{4 * self.num_threads}"
            )
        if self.warm_up > self.window_size:
            raise SplendorError(
                f"warm_up {self.warm_up} must be at most window_size = {self.window_size}"
            )


_FIXED = ("seed", "rules", "num_players", "precision", *NetworkSizes._fields)
"""Settings that a resumed run cannot change."""

_STATISTICS = ("policy_loss", "value_loss", "entropy", "target_entropy", "agreement", "aux_loss")


def train(
    config: Config,
    resume: bool = False,
    on_evaluation: loop.OnEvaluation = lambda step, evaluation: None,
) -> Path:
    """Train a policy and return the folder of the run, which then holds its best one.

    A new run does not touch an old one: where the folder exists, a number is added to its name.
    SIGINT, SIGTERM and SIGHUP save all that is needed to go on, and exit. Torch is left with one
    thread.

    Args:
        config: The settings.
        resume: Go on with the run in `config.run_folder`. Games and window are not kept: they fill
            up anew before learning goes on.
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


class _Run(loop.Loop[Config, "Learner"]):
    """One call of `train`."""

    def __init__(
        self, config: Config, run: Path, resume: bool, on_evaluation: loop.OnEvaluation
    ) -> None:
        super().__init__(config, run, Learner(config), on_evaluation)
        self.best, self.best_step = deepcopy(self.learner.average), 0
        self._workers = ThreadPoolExecutor(
            config.num_threads, initializer=torch.set_num_threads, initargs=(1,)
        )
        self.restore(resume)
        self.tables = {rules: _Table(config, rules, self.step) for rules in self.rules_in_turn}

    def describe(self) -> str:
        """See `Loop`."""
        learning_rate = self.config.learning_rate * (1 - self.progress())
        number = self.num_simulations()
        teacher = f"{number} simulations" if number else "one step ahead"
        return f"learning rate from {learning_rate:.2g}, {teacher}, {self.config.precision}"

    def update(self, rules: Rules) -> tuple[int, dict[str, float]]:
        """See `Loop`: play on, and meanwhile learn from what was played before."""
        table, config = self.tables[rules], self.config
        player = deepcopy(self.learner.average)

        def evaluate(observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with torch.inference_mode():
                logits, value = self.learner.infer(player, torch.from_numpy(observation))
                return logits.numpy(), win_shares(value).numpy()

        def play(games: TaughtGames, seed: int) -> Lessons:
            def search(num_simulations: int) -> Teacher:
                return search_teacher(
                    evaluate, num_simulations, config.temperature, config.gumbel_scale, seed
                )

            number = self.num_simulations()
            return games.play(
                search(number)
                if number
                else lookahead_teacher(evaluate, config.gumbel_scale, seed),
                search(config.fast_simulations),
                config.rollout_steps,
                full_share=config.full_share,
                td_lambda=config.td_lambda,
            )

        # The first task takes one worker, the games keep the others busy and later that one too.
        learning_done = self._workers.submit(self.learner.learn, table, self.progress())
        seeds = self._seeds(rules, len(table.games))
        lessons = list(self._workers.map(play, table.games, seeds))
        statistics = learning_done.result()
        new = Lessons(*map(np.concatenate, zip(*lessons, strict=True)))
        table.window.add(new)
        table.due += config.replay_ratio * len(new.games) / config.batch_size
        return len(new.games), statistics

    def _seeds(self, rules: Rules, number: int) -> list[int]:
        """Of the searches in each part of the games: others in every update."""
        names = self.num_updates, rules.num_players
        return [_seed_of(self.config, CHOICE_STREAM, *names, part) for part in range(number)]

    def num_simulations(self) -> int:
        """Of the search that teaches now; 0 while one step ahead is enough."""
        config, progress = self.config, self.progress()
        if progress < config.lookahead_share:
            return 0
        done = (progress - config.lookahead_share) / max(1 - config.lookahead_share, 1e-9)
        return round(
            config.first_simulations * (config.num_simulations / config.first_simulations) ** done
        )

    def player(self) -> PolicyNetwork:
        """See `Loop`."""
        return self.learner.average

    def policy(self) -> tuple[PolicyNetwork, int]:
        """See `Loop`."""
        return self.best, self.best_step

    def compare(self) -> dict[str, float]:
        """See `Loop`: the network becomes the best one if it beats that.

        With several numbers of players it must win at one of them at least and lose at none.
        """
        shares, decisions = {}, []
        for rules in self.rules_in_turn:
            seed = EVALUATION_SEED + self.step + _GATE
            test, share = challenge(
                self.learner.average, self.best, rules, self.config.gate_games, seed
            )
            decisions.append(test.decision)
            shares[f"best{self.suffix(rules)}"] = share
        if "accept" in decisions and "reject" not in decisions:
            self.best, self.best_step = deepcopy(self.learner.average), self.step
        return shares

    def policies(self) -> dict[str, tuple[PolicyNetwork, int]]:
        """See `Loop`: the newest network too can be played, exported and gone on from."""
        return super().policies() | {"newest": (self.learner.average, self.step)}

    def start_from(self, network: PolicyNetwork) -> None:
        """See `Loop`."""
        super().start_from(network)
        for other in (self.learner.average, self.best):
            other.load_state_dict(network.state_dict())

    def after_evaluation(self) -> None:
        """See `Loop`: a checkpoint, since the best network may be another one now."""
        self._save()

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """See `Loop`."""
        tensors, values = super().state()
        for name, network in (("best", self.best), ("average", self.learner.average)):
            tensors |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        return tensors, values | {"best_step": self.best_step}

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """See `Loop`."""
        super().load_state(tensors, values)
        self.best.load_state_dict(learning.tensors_of("best", tensors))
        self.learner.average.load_state_dict(learning.tensors_of("average", tensors))
        self.best_step = values["best_step"]

    def close(self) -> None:
        """See `Loop`."""
        super().close()
        self._workers.shutdown()


def challenge(
    challenger: PolicyNetwork, best: PolicyNetwork, rules: Rules, num_games: int, seed: int
) -> tuple[Sprt, float]:
    """A network in one seat against copies of another in all others, until a test has decided.

    Returns:
        The test, and the challenger's share of the victories in the games played for it.
    """
    agents = PolicyAgent(challenger, "challenger"), PolicyAgent(best, "best")
    even = 1 / rules.num_players
    test = Sprt(h0=even, h1=even * (1 + _GAIN))
    seating = one_against_rest(rules, num_games)
    at_once = _DEALS_AT_ONCE * rules.num_players
    shares = []
    for start in range(0, len(seating.deal), at_once):
        part = Seating(*(array[start : start + at_once] for array in seating))
        results = play_games(agents, part, rules, seed).results
        won = np.where(part.seats == 0, results["share"][:, : rules.num_players], 0).sum(1)
        shares.append(won)
        if test.update(won.reshape(-1, rules.num_players).mean(1)) is not None:
            break
    return test, float(np.concatenate(shares).mean())


_DEALS_AT_ONCE = 100
"""Played between two looks at the test."""

_GATE = 2**39
"""Added to the seed of an evaluation for the games against the best network: other deals than those
of any evaluation."""

_GAIN = 0.06
"""By which part of an even share a new best network wins more, in the sequential test."""

_GAMES_PER_TASK = 128
"""About: fewer use the network less well, more leave cores idle at the end of an update."""


class _Table:
    """The games of one number of players, and what they have taught.

    Attributes:
        games: Parts of the games, each of which one worker plays on.
        window: Of the last decisions.
        due: Batches to learn from, a fraction of one included.
    """

    def __init__(self, config: Config, rules: Rules, step: int) -> None:
        self.rules = rules
        self.window = Window(config.window_size)
        self.due = 0.0
        number = max(2 * config.num_threads, round(config.num_games / _GAMES_PER_TASK))
        bounds = [config.num_games * part // number for part in range(number + 1)]
        self.games = [
            TaughtGames(
                rules,
                end - begin,
                # Another step gives other games: those of a run that went on are lost.
                _seed_of(config, SEED_STREAM, step, rules.num_players, part),
            )
            for part, (begin, end) in enumerate(pairwise(bounds))
        ]


def _seed_of(config: Config, stream: int, *numbers: int) -> int:
    """A seed of the run's own for something that these numbers tell from the rest."""
    seed = np.uint64(TRAINING_SEED + config.seed)
    for number in numbers:
        seed = np.uint64(hash_seed(seed, stream, number))
    return int(seed)


class Learner(learning.Learner[Config]):
    """Learns from the window of a table.

    Attributes:
        average: An exponential mean of the network's weights over the last batches (Polyak and
            Juditsky 1992): as strong as if the learning rate had been lowered, without waiting.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.precision, num_threads=1)
        self.average = deepcopy(self.network).requires_grad_(False)

    def make_modules(self) -> dict[str, nn.Module]:
        """See `learner.Learner`: a head for final points by seat as seen, and rounds left."""
        return {"auxiliary": nn.Linear(self.network.value_logits.in_features, MAX_PLAYERS + 1)}

    def learn(self, table: _Table, progress: float) -> dict[str, float]:
        """Learn from what is due, once the window has enough; say how it went.

        Args:
            table: Its window and the number of batches that are due.
            progress: Part of the training that is done, from 0 to 1.
        """
        config = self.config
        if table.window.size < config.warm_up:
            table.due = 0.0
            return {}
        learning_rate = config.learning_rate * (1 - progress)
        number = int(table.due)
        table.due -= number
        totals = np.zeros(len(_STATISTICS))
        for _ in range(number):
            rows = self.generator.integers(table.window.size, size=config.batch_size)
            totals += self.step(
                lambda rows: self._loss(table.window.take(rows), table.rules), rows, learning_rate
            )
            with torch.no_grad():
                for mean, weight in zip(
                    self.average.parameters(), self.network.parameters(), strict=True
                ):
                    mean.lerp_(weight, 1 - config.ema_decay)
        if number == 0:
            return {}
        averages = (totals / number).tolist()
        return {
            **dict(zip(_STATISTICS, averages, strict=True)),
            "learning_rate": learning_rate,
        }

    def _loss(self, lessons: Lessons, rules: Rules) -> tuple[torch.Tensor, torch.Tensor]:
        """See `learner.Loss`.

        The policy's target is the action found best, or the improved policy, by cross-entropy, or
        by the reverse divergence KL(policy || improved). With the last one the targets' noise,
        which is that of Q in log p + sigma Q, averages out; cross-entropy fits the mean of
        softmaxes, which is flatter the noisier the searches are.
        """
        config = self.config
        observations, masks = observe_movers(lessons.games, rules)
        observation, action_mask = torch.from_numpy(observations), torch.from_numpy(masks)
        policy, value, *cards = self.encode(self.network, observation)
        logits, value_logits = self.network.decode((policy, value, *cards), observation)
        log_probs = masked_log_probs(logits, action_mask)
        probs = log_probs.exp()
        target = torch.from_numpy(lessons.log_policy).float()
        entropy = -(probs * log_probs).sum(1).mean()
        best = torch.from_numpy(lessons.best).long()
        if config.policy_target == "best":
            policy_losses = -log_probs.gather(1, best[:, None])[:, 0]
        elif config.policy_target == "improved":
            policy_losses = -(target.exp() * log_probs).sum(1)
        else:
            policy_losses = (probs * (log_probs - target)).sum(1)
        is_full = torch.from_numpy(lessons.is_full).float()
        num_full = is_full.sum().clamp(min=1)
        policy_loss = (is_full * policy_losses).sum() / num_full
        value_target = torch.from_numpy(lessons.value)
        value_loss = -(value_target * value_logits.log_softmax(1)).sum(1).mean()
        guess = self.modules["auxiliary"](value.float())
        truth = np.column_stack((lessons.points / _POINTS, lessons.rounds / _ROUNDS))
        aux_loss = (guess - torch.from_numpy(truth)).square().sum(1).mean()
        loss = policy_loss + config.vf_coef * value_loss + config.aux_coef * aux_loss
        with torch.no_grad():
            target_entropy = -(is_full * (target.exp() * target).sum(1)).sum() / num_full
            agreement = (is_full * (log_probs.argmax(1) == best)).sum() / num_full
            statistics = torch.stack(
                (policy_loss, value_loss, entropy, target_entropy, agreement, aux_loss)
            )
        return loss, statistics


_POINTS, _ROUNDS = 15.0, 30.0
"""Of a typical game: targets of about 1."""
