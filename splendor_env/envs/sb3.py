"""Stable-Baselines3's vector environment: `SplendorVectorEnv` in the form that SB3 asks for.

The only module of the package that needs stable-baselines3 (the extra `train`).
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from splendor_env.agents import Agent
from splendor_env.core.random import SEED_STREAM, check_seed, hash_seed
from splendor_env.core.state import Rules
from splendor_env.envs.vector import SplendorVectorEnv


class SplendorVecEnv(VecEnv):
    """B games for one learner, to be trained by `sb3_contrib.MaskablePPO`.

    Observations are (B, D) float32, what the learner's seat sees; masks come from
    `action_masks()`, as MaskablePPO asks for them. The learner's seat moves on by one from game to
    game in each row, the opponents are drawn anew for each game and play inside. The reward is the
    learner's zero-sum share of the victory when the game ends, else 0. A game that ends is followed
    at once by the next one; its `infos` entry then has what `SplendorVectorEnv` says of an end, and

        terminal_observation: (D,) float32, the end as the learner's seat sees it.
        TimeLimit.truncated: bool, whether the round limit ended it.
        episode: {"r": reward, "l": decisions of the learner, "t": seconds since construction}.

    Args:
        rules: The variant.
        num_envs: B.
        opponents: Agents, or their specs, to draw the other seats from.
        weights: Relative frequency of each of them, equal if not given.
        seed: Of the games, until `seed()` sets another.

    Raises:
        SplendorError: An argument has a value that is not allowed.
    """

    render_mode = None

    def __init__(
        self,
        rules: Rules,
        num_envs: int,
        opponents: Sequence[str | Agent],
        weights: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        self._env = SplendorVectorEnv(num_envs, rules=rules, opponents=opponents, mask_in="info")
        self._env.set_opponents(opponents, weights)
        super().__init__(
            num_envs, self._env.single_observation_space, self._env.single_action_space
        )
        self._actions = np.zeros(num_envs, np.int64)
        self._length = np.zeros(num_envs, np.int64)
        self._start = time.monotonic()
        self.seed(seed)

    def set_opponents(
        self, opponents: Sequence[str | Agent], weights: Sequence[float] | None = None
    ) -> None:
        """Draw the opponents of games dealt from now on from these; games in play keep theirs.

        Raises:
            SplendorError: No opponents, or weights that do not fit them.
        """
        self._env.set_opponents(opponents, weights)

    def reset(self) -> np.ndarray:
        """Deal all games, by the seed if `seed()` was called since; returns (B, D) float32."""
        seed = self._seeds[0]
        # Hashed, as rows of neighbouring seeds would else share most of their games.
        seeds = seed if seed is None else _derive_seeds(seed, self.num_envs)
        observation, _ = self._env.reset(seed=seeds)
        self._reset_seeds()
        self._reset_options()
        self._length[:] = 0
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the learner's actions (B,) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play on to the learner's next decision in each game.

        Returns:
            Observation (B, D) float32, reward (B,) float32, done (B,) bool, and B infos. All are
            new: SB3 keeps them past the next step.

        Raises:
            IllegalActionError: An action is illegal, and then no game has changed.
        """
        observation, reward, terminated, truncated, info = self._env.step(self._actions)
        self._length += 1
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(done):
            final = info["final_info"]
            infos[row] = {
                key: values[row] for key, values in final.items() if not key.startswith("_")
            }
            infos[row] |= {
                "terminal_observation": info["final_obs"][row],
                "TimeLimit.truncated": bool(truncated[row]),
                "episode": {
                    "r": float(reward[row]),
                    "l": int(self._length[row]),
                    "t": round(time.monotonic() - self._start, 6),
                },
            }
        self._length[done] = 0
        return observation, reward, done, infos

    def action_masks(self) -> np.ndarray:
        """The learner's legal actions, (B, A) bool; never all false."""
        return self._env.action_masks().astype(np.bool_)

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


def _derive_seeds(seed: int, num_envs: int) -> list[int]:
    return [int(hash_seed(check_seed(seed), SEED_STREAM, row)) for row in range(num_envs)]
