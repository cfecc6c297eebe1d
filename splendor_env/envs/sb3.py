"""Stable-Baselines3's vector environment: many games at once, one learner seat in each.

The only module of the package that needs stable-baselines3 (the extra `train`). It steps a
`core.batch.Batch`; the other seats are played inside, by agents drawn anew for each game, until
the learner decides again or its game is over. So the learner's next observation, reward and value
always belong to its own next decision, and the GAE of a single-agent trainer is right.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from splendor_env.agents import Agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch, observe_games
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import Rules, SplendorError


class SplendorVecEnv(VecEnv):
    """B games for one learner, to be trained by `sb3_contrib.MaskablePPO`.

    Observations are (B, D) float32, what the learner's seat sees; masks come from
    `action_masks()`, as MaskablePPO asks for them. The learner's seat moves on by one from game to
    game in each row. The reward is the learner's own of `Batch.reward`: its zero-sum share of the
    victory when the game ends, else 0. A game that ends is followed at once by the next one; its
    `infos` entry then has

        terminal_observation: (D,) float32, the end as the learner's seat sees it.
        TimeLimit.truncated: bool, whether the round limit ended it.
        episode: {"r": reward, "l": decisions of the learner, "t": seconds since construction}.
        seat: int, the learner's.
        opponents: tuple of str, names of the agents in the other seats, clockwise.

    Args:
        rules: The variant.
        num_envs: B.
        opponents: Agents to draw the other seats from. They are given the games as they are:
            an agent must choose by what its seat sees, as `observe` gives it and as the
            heuristics do. (The arena, where anything may play, hides the rest first.)
        weights: Relative frequency of each of them, equal if not given.
        seed: Of the deals and of the draws of opponents, until `seed()` sets another.

    Raises:
        SplendorError: Nonsense rules, weights or number of games.
    """

    render_mode = None

    def __init__(
        self,
        rules: Rules,
        num_envs: int,
        opponents: Sequence[Agent],
        weights: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        if num_envs < 1:
            raise SplendorError(f"num_envs must be at least 1, not {num_envs!r}")
        self._batch = Batch(rules, num_envs, check=True, auto_reset=False)
        super().__init__(
            num_envs,
            spaces.Box(0, 1, (OBSERVATION_SIZE,), np.float32),
            spaces.Discrete(NUM_ACTIONS),
        )
        self._rows = np.arange(num_envs)
        self._seat = np.zeros(num_envs, np.int8)
        self._opponent = np.empty((num_envs, rules.num_players), object)
        self._game_id = np.arange(num_envs)
        self._length = np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int32)
        self._start = time.monotonic()
        self._rng = np.random.default_rng(seed)
        self.seed(seed)
        self.set_opponents(opponents, weights)

    def set_opponents(
        self, opponents: Sequence[Agent], weights: Sequence[float] | None = None
    ) -> None:
        """Draw the opponents of games dealt from now on from these; games in play keep theirs.

        Raises:
            SplendorError: No opponents, or weights that do not fit them.
        """
        weight = np.ones(len(opponents)) if weights is None else np.asarray(weights, np.float64)
        if len(opponents) == 0 or weight.shape != (len(opponents),):
            raise SplendorError(f"{len(opponents)} opponents do not fit {weight.size} weights")
        if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
            raise SplendorError(f"weights must be at least 0, not all of them 0: {weights!r}")
        self._pool = np.empty(len(opponents), object)
        self._pool[:] = opponents
        self._weight = weight / weight.sum()

    def reset(self) -> np.ndarray:
        """Deal all games, by the seed if `seed()` was called since; returns (B, D) float32."""
        seed = self._seeds[0]
        if seed is None:
            self._batch.reset_where(self._rows)
            self._game_id += self.num_envs
        else:
            self._batch.reset(seed)
            self._rng = np.random.default_rng(seed)
            self._game_id = self._rows.copy()
            self._seat[:] = self._rows % self._batch.rules.num_players
        self._reset_seeds()
        self._reset_options()
        self._opponent[:] = self._draw_opponents(self.num_envs)
        self._length[:] = 0
        self._play_opponents()
        return self._batch.observation.copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the learner's actions (B,) for `step_wait`."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play on to the learner's next decision in each game.

        Returns:
            Observation (B, D) float32, reward (B,) float32, done (B,) bool, and B infos. All are
            new: SB3 keeps them past the next step.

        Raises:
            SplendorError: Not one integer for each game.
            IllegalActionError: An action is illegal, and then no game has changed.
        """
        actions = self._actions
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise SplendorError(
                f"actions must be {self.num_envs} integers, not {actions.dtype} {actions.shape}"
            )
        # The core leaves a game alone at -1, which the learner may not.
        self._batch.step(np.where(actions < 0, NUM_ACTIONS, actions))
        self._length += 1
        reward, done, infos = self._play_opponents()
        return self._batch.observation.copy(), reward, done, infos

    def action_masks(self) -> np.ndarray:
        """The learner's legal actions, (B, A) bool; never all false."""
        return self._batch.action_mask.astype(np.bool_)

    def _play_opponents(self) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step until the learner is to move everywhere; what that brings, as in `step_wait`."""
        batch = self._batch
        reward = np.zeros(self.num_envs, np.float32)
        done = np.zeros(self.num_envs, np.bool_)
        infos: list[dict[str, Any]] = [{} for _ in self._rows]
        while True:
            # A new game cannot end before the learner's first decision: the round is completed.
            reward += batch.reward[self._rows, self._seat]
            over = np.flatnonzero(batch.terminated | batch.truncated)
            if over.size:
                self._fill_infos(over, reward, infos)
                done[over] = True
                self._deal_next(over)
            waiting = np.flatnonzero(batch.player != self._seat)
            if waiting.size == 0:
                return reward, done, infos
            actions = np.full(self.num_envs, -1, np.int32)
            for agent, rows in self._group_by_agent(waiting):
                # By game and seat: copies of an agent in one game do not share what they know.
                game_id = self._game_id[rows] * batch.rules.num_players + batch.player[rows]
                actions[rows] = agent.act(batch.games[rows], batch.rules, game_id)
            batch.step(actions)

    def _group_by_agent(self, rows: np.ndarray) -> list[tuple[Agent, list[int]]]:
        """The agents to move in these rows, each with its rows."""
        groups: dict[int, tuple[Agent, list[int]]] = {}
        to_move = self._opponent[rows, self._batch.player[rows]]
        for row, agent in zip(rows.tolist(), to_move, strict=True):
            groups.setdefault(id(agent), (agent, []))[1].append(row)
        return list(groups.values())

    def _fill_infos(self, rows: np.ndarray, reward: np.ndarray, infos: list) -> None:
        final = np.empty((rows.size, OBSERVATION_SIZE), np.float32)
        observe_games(self._batch.games[rows], self._batch.rules, self._seat[rows], final)
        seconds = round(time.monotonic() - self._start, 6)
        num_players = self._batch.rules.num_players
        for row, observation in zip(rows, final, strict=True):
            seat = int(self._seat[row])
            others = [(seat + offset) % num_players for offset in range(1, num_players)]
            infos[row] |= {
                "terminal_observation": observation,
                "TimeLimit.truncated": bool(self._batch.truncated[row]),
                "episode": {
                    "r": float(reward[row]),
                    "l": int(self._length[row]),
                    "t": seconds,
                },
                "seat": seat,
                "opponents": tuple(agent.name for agent in self._opponent[row, others]),
            }

    def _deal_next(self, rows: np.ndarray) -> None:
        self._batch.reset_where(rows)
        self._game_id[rows] += self.num_envs
        self._seat[rows] = (self._seat[rows] + 1) % self._batch.rules.num_players
        self._opponent[rows] = self._draw_opponents(rows.size)
        self._length[rows] = 0

    def _draw_opponents(self, num_games: int) -> np.ndarray:
        """An agent for every seat (num_games, N); the one for the learner's is not used."""
        shape = (num_games, self._batch.rules.num_players)
        return self._pool[self._rng.choice(len(self._pool), shape, p=self._weight)]

    # What VecEnv asks for besides: every row is the same environment.

    def close(self) -> None:
        """Nothing to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute, once for each of the rows `indices`."""
        value = getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not possible for single rows.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"{attr_name!r} cannot be set: the games share one environment")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """`action_masks` of each of the rows `indices`, (A,) bool.

        Raises:
            AttributeError: Any other method.
        """
        if method_name != "action_masks" or method_args or method_kwargs:
            raise AttributeError(f"no method {method_name!r} for one game; there is action_masks")
        action_mask = self.action_masks()
        return [action_mask[row] for row in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No row is wrapped in anything."""
        return [False for _ in self._get_indices(indices)]
