"""Self-play games under way, and the decisions made in them: what PPO learns from.

All of it is per seat. A seat's next decision is the next one that it makes itself, perhaps in the
same turn, perhaps three seats later; a game that ends pays every seat at once.

Axes: T decisions of each game, B games, N seats, D features, A actions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import CHOICE_STREAM, hash_seed
from splendor_env.core.state import GAME, MAX_PLAYERS, Rules
from training.config import DivergedError
from training.networks import PolicyNetwork, win_shares

Infer = Callable[[PolicyNetwork, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Network and observations to its two float32 outputs."""


class Rollout:
    """Preallocated arrays for T decisions in each of B games, and what follows from them.

    Attributes:
        observation: (T, B, D) tensor of `dtype`, what the mover sees.
        action_mask: (T, B, A) int8.
        action: (T, B) int64.
        log_prob: (T, B) float32, of the action under the policy that chose it.
        value: (T, B, 4) float32, expected shares of the victory by seat as seen, the mover's first.
        player: (T, B) int8, the mover.
        is_learner: (T, B) bool, false where a past self has moved.
        is_last: (T, B) bool, whether the decision ended its game.
        share: (T, B, N) float32, each seat's share of the victory where it did.
        last_player, last_value: (B,) and (B, 4), whose turn it is after all this, and the value.
        advantage: (T, B) float32, from `finish`.
        value_target: (T, B, 4) float32, from `finish`.
    """

    def __init__(
        self, num_steps: int, num_games: int, num_players: int, dtype: torch.dtype = torch.float32
    ) -> None:
        shape = (num_steps, num_games)
        self.observation = torch.zeros(*shape, OBSERVATION_SIZE, dtype=dtype)
        self.action_mask = np.zeros((*shape, NUM_ACTIONS), np.int8)
        self.action = np.zeros(shape, np.int64)
        self.log_prob = np.zeros(shape, np.float32)
        self.value = np.zeros((*shape, MAX_PLAYERS), np.float32)
        self.player = np.zeros(shape, np.int8)
        self.is_learner = np.zeros(shape, np.bool_)
        self.is_last = np.zeros(shape, np.bool_)
        self.share = np.zeros((*shape, num_players), np.float32)
        self.last_player = np.zeros(num_games, np.int8)
        self.last_value = np.zeros((num_games, MAX_PLAYERS), np.float32)
        self.advantage = np.zeros(shape, np.float32)
        self.value_target = np.zeros((*shape, MAX_PLAYERS), np.float32)

    def finish(self, gae_lambda: float, games: slice = slice(None)) -> None:
        """Fill in advantage and value_target of these games."""
        write_advantages(
            self.player[:, games],
            self.value[:, games],
            self.is_last[:, games],
            self.share[:, games],
            self.last_player[games],
            self.last_value[games],
            gae_lambda,
            self.advantage[:, games],
            self.value_target[:, games],
        )


@jit
def write_advantages(
    player, value, is_last, share, last_player, last_value, gae_lambda, advantage, value_target
):
    """Generalised advantages of each seat over its own decisions, and the lambda-returns.

    The lambda-return is a vector, the shares of all seats: at a decision of seat p it is
    (1 - lambda) times the value at p's next decision plus lambda times the return there; where the
    game ends before, both are its result; where the games are cut off, both are the last value.
    Less the mover's own value it is the advantage of Schulman et al. 2016 with gamma = 1. Shapes as
    in `Rollout`; `advantage` and `value_target` are written.
    """
    num_steps, num_games, num_players = share.shape
    after_value = np.empty((num_players, num_players), np.float32)  # of the seat's next decision
    after_return = np.empty((num_players, num_players), np.float32)
    for game in range(num_games):
        for seat in range(num_players):
            for other in range(num_players):
                seen = (other - last_player[game]) % num_players
                after_value[seat, other] = last_value[game, seen]
                after_return[seat, other] = last_value[game, seen]
        for t in range(num_steps - 1, -1, -1):
            if is_last[t, game]:
                for seat in range(num_players):
                    after_value[seat] = share[t, game]
                    after_return[seat] = share[t, game]
            mover = player[t, game]
            for other in range(num_players):
                seen = (other - mover) % num_players
                target = (1 - gae_lambda) * after_value[mover, other]
                target += gae_lambda * after_return[mover, other]
                value_target[t, game, seen] = target
                after_return[mover, other] = target
                after_value[mover, other] = value[t, game, seen]
            advantage[t, game] = value_target[t, game, 0] - value[t, game, 0]


@jit
def sample_actions(logits, action_mask, seed, position, action, log_prob):
    """Draw an action (B,) from the softmax over the legal ones, with its logarithm (B,).

    Args:
        logits: (B, A) float32.
        action_mask: (B, A) int8.
        seed: uint64; row i draws at `position` + i of its stream.
        position: Draws made from this seed before.
        action: (B,) int64, written; -1 where the logits are NaN.
        log_prob: (B,) float32, written.
    """
    num_games, num_actions = logits.shape
    for row in range(num_games):
        highest = np.float32(-np.inf)
        for index in range(num_actions):
            if action_mask[row, index] and logits[row, index] > highest:
                highest = logits[row, index]
        total = np.float32(0)
        for index in range(num_actions):
            if action_mask[row, index]:
                total += np.exp(logits[row, index] - highest)
        bits = hash_seed(seed, CHOICE_STREAM, position + row)
        left = np.float32(bits >> np.uint64(40)) * np.float32(2.0**-24) * total
        chosen = -1
        for index in range(num_actions):
            if action_mask[row, index] and left >= 0:
                weight = np.exp(logits[row, index] - highest)
                if weight > 0:  # rounding may leave a rest: then it is the last possible one
                    chosen = index
                    left -= weight
        action[row] = chosen
        log_prob[row] = logits[row, chosen] - highest - np.log(total)


class SelfPlay:
    """B games under way, in some of which past selves hold some of the seats.

    Args:
        rules: The variant.
        num_games: B.
        num_past: Games with past selves. Two players: one seat is a past self. More: from one seat
            up to all but one, any number as likely as another.
        seed: Of deals, sampling and opponents.
    """

    def __init__(self, rules: Rules, num_games: int, num_past: int, seed: int) -> None:
        self._batch = Batch(rules, num_games)
        self._batch.reset(seed)
        self._seed = np.uint64(seed)
        self._position = 0  # draws made
        self._generator = np.random.default_rng(seed)
        self._first_past = num_games - num_past  # games from here on have some
        self._is_past = np.zeros((num_games, rules.num_players), np.bool_)
        self._opponent = np.full(num_games, -1)  # training step of the past self
        self._is_new = np.ones(num_games, np.bool_)  # no decision has been made yet
        self._is_scored = np.zeros(num_games, np.bool_)  # the seats were the same from the start on
        self._draw = (np.empty(0, np.int64), np.empty(0))  # past selves and their weights
        self._scores: dict[int, list[float]] = {}
        self.results: list[tuple[int, float, int]] = []
        """Since the last `collect` began: past self, win share against it and number of games."""

    def collect(
        self,
        network: PolicyNetwork,
        past: dict[int, PolicyNetwork],
        weights: np.ndarray,
        infer: Infer,
        rollout: Rollout,
        games: slice = slice(None),
    ) -> None:
        """Play on and write every decision into these games of `rollout`.

        Args:
            network: The current self.
            past: Past selves by training step.
            weights: (P,) how likely each of them is to be drawn.
        """
        batch = self._batch
        self._draw = (np.array(list(past), np.int64), weights)
        self._scores = {step: [0.0, 0.0] for step in past}
        self._replace_missing()
        row = np.arange(batch.num_games)
        with torch.inference_mode():
            for t in range(len(rollout.action)):
                observation = rollout.observation[t, games]
                observation.copy_(torch.from_numpy(batch.observation))
                action_mask = rollout.action_mask[t, games]
                action_mask[:] = batch.action_mask
                rollout.player[t, games] = batch.player
                logits, value = infer(network, observation)
                rollout.value[t, games] = win_shares(value).numpy()
                is_past = self._is_past[row, batch.player]
                rollout.is_learner[t, games] = ~is_past
                for step in np.unique(self._opponent[is_past]):
                    rows = torch.from_numpy(np.flatnonzero(is_past & (self._opponent == step)))
                    logits[rows] = infer(past[int(step)], observation[rows])[0]
                action = rollout.action[t, games]
                sample_actions(
                    logits.numpy(),
                    action_mask,
                    self._seed,
                    self._position,
                    action,
                    rollout.log_prob[t, games],
                )
                self._position += batch.num_games
                if (action < 0).any():
                    raise DivergedError("the training diverged: the network's outputs are NaN")
                batch.step(action)
                is_last = batch.terminated | batch.truncated
                rollout.is_last[t, games] = is_last
                self._is_new[:] = is_last
                num_players = batch.rules.num_players
                share = (batch.reward * (num_players - 1) + 1) / num_players
                rollout.share[t, games] = share
                self._seat_past(np.flatnonzero(is_last), share)
            rollout.last_player[games] = batch.player
            observation = torch.from_numpy(batch.observation).to(rollout.observation.dtype)
            rollout.last_value[games] = win_shares(infer(network, observation)[1]).numpy()
        self.results = [
            (step, score / num_games, int(num_games))
            for step, (score, num_games) in self._scores.items()
            if num_games
        ]

    def _replace_missing(self) -> None:
        """Give games whose past self has left the pool another one; at first, all of them."""
        steps, weights = self._draw
        if len(steps) == 0:
            return
        rows = np.arange(self._first_past, len(self._opponent))
        is_new = self._opponent[rows] < 0
        for row in rows[~np.isin(self._opponent[rows], steps)]:
            self._opponent[row] = self._generator.choice(steps, p=weights)
            self._is_scored[row] = self._is_new[row]
        for row in rows[is_new]:
            self._is_past[row] = self._draw_seats()

    def _seat_past(self, rows: np.ndarray, share: np.ndarray) -> None:
        """Score the games just finished in these rows, and draw who plays the next ones."""
        steps, weights = self._draw
        if len(steps) == 0:
            return
        for row in rows[rows >= self._first_past]:
            if self._is_scored[row]:
                is_past = self._is_past[row]
                past, current = share[row][is_past].mean(), share[row][~is_past].mean()
                score = self._scores[int(self._opponent[row])]
                score[0] += float(current / (past + current))
                score[1] += 1
            self._is_scored[row] = True
            self._opponent[row] = self._generator.choice(steps, p=weights)
            self._is_past[row] = self._draw_seats()

    def _draw_seats(self) -> np.ndarray:
        """(N,) bool, the seats that past selves take."""
        num_players = self._batch.rules.num_players
        num_past = self._generator.integers(1, num_players)
        return self._generator.permutation(num_players) < num_past

    def state(self) -> dict[str, Any]:
        """All that is needed to go on: arrays, numbers and JSON's types."""
        return {
            "games": self._batch.games.view(np.uint8).copy(),
            "is_past": self._is_past.copy(),
            "opponent": self._opponent.copy(),
            "is_new": self._is_new.copy(),
            "is_scored": self._is_scored.copy(),
            "position": self._position,
            "generator": self._generator.bit_generator.state,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._batch.games[:] = state["games"].view(GAME)
        self._batch.refresh()
        self._is_past[:] = state["is_past"]
        self._opponent[:] = state["opponent"]
        self._is_new[:] = state["is_new"]
        self._is_scored[:] = state["is_scored"]
        self._position = state["position"]
        self._generator.bit_generator.state = state["generator"]
