"""Splendor for a learner as Gymnasium environments: many games at once, and one.

`SplendorVectorEnv` is native: its B games advance together in compiled calls, the opponents
answer for all of them at once. `SplendorEnv` is the same with a single game, so the two agree. Both
are registered as "Splendor-v0"; every option is documented at `SplendorVectorEnv`.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from splendor_env.agents import Agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import illegal_action_message
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import check_seed
from splendor_env.core.state import IllegalActionError, Rules, SplendorError, resolve_rules
from splendor_env.envs.learner import LearnerGames
from splendor_env.envs.rewards import Rewards
from splendor_env.game import Game

MASK_PLACES = ("obs", "info")
ILLEGAL = ("raise", "lose", "random")
RENDER_MODES = ("ansi", "human", "rgb_array")


class _LearnerEnv:
    """What one game and many have in common: options, spaces, masks, illegal actions."""

    def __init__(
        self,
        num_games: int,
        num_players: int | None,
        rules: Rules | str,
        opponents: str | Agent | Sequence[str | Agent],
        seat: int | str,
        mask_in: str,
        illegal: str,
        reward: str,
        gamma: float,
    ) -> None:
        if mask_in not in MASK_PLACES:
            raise SplendorError(f"mask_in must be 'obs' or 'info', not {mask_in!r}")
        if illegal not in ILLEGAL:
            raise SplendorError(f"illegal must be one of {', '.join(ILLEGAL)}, not {illegal!r}")
        self.games = LearnerGames(
            resolve_rules(rules, num_players), num_games, opponents, seat=seat
        )
        self.rewards = Rewards(reward, self.games, gamma)
        self.mask_in = mask_in
        self.illegal = illegal
        self.is_dealt = False

    def space(self) -> spaces.Space:
        box = spaces.Box(0, 1, (OBSERVATION_SIZE,), np.float32)
        if self.mask_in == "info":
            return box
        mask = spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        return spaces.Dict({"observation": box, "action_mask": mask})

    def begin(self, rows: np.ndarray, seeds: np.ndarray | None, position: Any = None) -> None:
        """Begin games from seeds, from a position, or (None) the next ones.

        Raises:
            SplendorError: The position is not usable. Where its game ends at once, no game is left.
        """
        games = self.games
        positions = None if position is None else self._positions(position, rows, seeds)
        if seeds is None and not self.is_dealt:
            seeds = np.uint64(secrets.randbits(64)) + rows.astype(np.uint64)
        self.is_dealt = False
        if positions is None:
            games.deal(rows, seeds)
        else:
            games.put(rows, positions, seeds)
        if (games.terminated[rows] | games.truncated[rows]).any():
            raise SplendorError("from this position the game ends before the learner decides")
        self.is_dealt = True
        self.rewards.begin(rows)

    def _positions(self, position: Any, rows: np.ndarray, seeds: np.ndarray | None) -> np.ndarray:
        game = position if isinstance(position, Game) else Game.from_dict(position)
        if game.rules != self.games.rules:
            raise SplendorError(f"the position is of {game.rules}, not of {self.games.rules}")
        positions = np.repeat(game.games, len(rows))
        positions["seed"] = game.games["seed"] + rows.astype(np.uint64) if seeds is None else seeds
        return positions

    def advance(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Apply the actions (len(rows),) of running games; the rewards that they bring."""
        games = self.games
        in_range = (actions >= 0) & (actions < NUM_ACTIONS)
        is_legal = in_range & (games.action_mask[rows, np.where(in_range, actions, 0)] == 1)
        if is_legal.all():
            games.step(rows, actions.astype(np.int32))
            return self.rewards.collect(rows)
        wrong = rows[~is_legal]
        if self.illegal == "raise":
            action = int(actions[~is_legal][0])
            message = illegal_action_message(action, games.action_mask[wrong[0]])
            raise IllegalActionError(message + f" (game {wrong[0]})" * (len(games.seat) > 1))
        if self.illegal == "lose":
            games.step(rows[is_legal], actions[is_legal].astype(np.int32))
            games.forfeit(wrong)
        else:
            chosen = np.where(is_legal, actions, 0).astype(np.int32)
            chosen[~is_legal] = games.random_actions(wrong)
            games.step(rows, chosen)
        return self.rewards.collect(rows)

    def observation(self, rows: np.ndarray | slice = slice(None)) -> Any:
        """New arrays of what the learners see in these rows, in the shape that users get."""
        games = self.games
        observation = games.observation[rows].copy()
        if self.mask_in == "info":
            return observation
        return {"observation": observation, "action_mask": games.action_mask[rows].copy()}

    @staticmethod
    def row_of(observation: Any, row: int) -> Any:
        """One game's part of `observation`."""
        if isinstance(observation, dict):
            return {key: value[row] for key, value in observation.items()}
        return observation[row]

    def check_actions(self, actions: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The actions as an array, if they are integers of this shape and there are games."""
        if not self.is_dealt:
            raise SplendorError("there is no game yet: call reset() first")
        array = np.asarray(actions)
        if array.shape != shape or array.dtype.kind not in "iu":
            what = f"{shape[0]} integers" if shape else "an integer"
            raise SplendorError(
                f"the action must be {what} 0 to {NUM_ACTIONS - 1}, not {actions!r}"
            )
        return array


class SplendorVectorEnv(VectorEnv):
    """B games of Splendor with one learner seat each, opponents inside.

    Observations are what the learner's seat sees at its own decisions, never anything it may not
    know: a dictionary of `observation` (B, D) float32 and `action_mask` (B, A) int8. Rewards
    (B,) float32. `call("action_masks")` gives the masks as a tuple of rows too. Arrays are new at
    every call.

    At the end of a game its info has `winners` (seats), `points` (by seat), `rounds`,
    `end_reason` ("target", "stalemate", "round_limit", "illegal_action"), `seat` and `opponents`
    (names, clockwise). With SAME_STEP that is `final_info`, beside `final_obs`.

    Args:
        num_envs: B.
        num_players: 2 to 4; None takes it from `rules`, 2 for a preset.
        rules: A preset's name, or the rules themselves.
        opponents: An agent or its spec, or several from which each other seat of each game is
            drawn. They see the games with all that is hidden from them drawn anew.
        seat: The learner's: a number, "random", or "rotating": seat s mod N in the game of seed s,
            then one on from game to game.
        mask_in: "obs", or "info" for a plain Box observation and the mask in
            `info["action_mask"]`.
        illegal: What an illegal action does: "raise" (an `IllegalActionError`, nothing changes),
            "lose" (the game ends with -1) or "random" (a random legal one is played instead).
        reward: "win", "margin" or "shaped"; formulas in `splendor_env.envs.rewards`.
        gamma: The learner's discount, for "shaped".
        autoreset_mode: SAME_STEP (default), NEXT_STEP (the action after an end is ignored) or
            DISABLED (`reset(options={"reset_mask": (B,) bool})`).

    Raises:
        SplendorError: An argument has a value that is not allowed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        num_players: int | None = None,
        rules: Rules | str = "standard",
        opponents: str | Agent | Sequence[str | Agent] = "random",
        seat: int | str = "rotating",
        mask_in: str = "obs",
        illegal: str = "raise",
        reward: str = "win",
        gamma: float = 1.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        self._env = _LearnerEnv(
            num_envs, num_players, rules, opponents, seat, mask_in, illegal, reward, gamma
        )
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.single_observation_space = self._env.space()
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rows = np.arange(num_envs)

    @property
    def rules(self) -> Rules:
        """The variant."""
        return self._env.games.rules

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new games.

        Args:
            seed: s gives the games the seeds s, s + 1, ...; or one seed for each game; None goes
                on from the last games, the first time with seeds from the operating system.
            options: `position` (a `Game`, or a dictionary for `Game.from_dict`) to start there,
                without a seed with the future that it has in row 0 and with others in the others;
                `reset_mask` (B,) bool to begin anew only in these rows.

        Raises:
            SplendorError: A seed, position or mask is not usable.
        """
        options = options or {}
        rows = self._rows
        mask = options.get("reset_mask")
        if mask is not None:
            if not isinstance(mask, np.ndarray) or mask.shape != rows.shape or mask.dtype != bool:
                raise SplendorError(f"reset_mask must be an array ({len(rows)},) of bool")
            if not self._env.is_dealt:
                raise SplendorError("there is no game yet: call reset() without reset_mask first")
            rows = np.flatnonzero(mask)
        self._env.begin(rows, self._seeds(seed, rows), options.get("position"))
        return self._env.observation(), self._add_masks({}, rows)

    def _seeds(self, seed: int | Sequence[int | None] | None, rows: np.ndarray) -> Any:
        if seed is None:
            return None
        if isinstance(seed, int | np.integer):
            first = int(check_seed(seed))
            seed = [first + row for row in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise SplendorError(f"{len(seed)} seeds do not fit {self.num_envs} games")
        if all(seed[row] is None for row in rows):
            return None
        return np.array([check_seed(seed[row]) for row in rows], np.uint64)

    def step(
        self, actions: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Apply the learner's actions (B,) and play on to its next decisions.

        Raises:
            IllegalActionError: With `illegal="raise"`, and then no game has changed.
            SplendorError: Before the first reset, or with DISABLED for a game that is over.
        """
        env, games = self._env, self._env.games
        actions = env.check_actions(actions, (self.num_envs,))
        was_over = games.terminated | games.truncated
        if was_over.any() and self.autoreset_mode == AutoresetMode.DISABLED:
            raise SplendorError(
                f"games {np.flatnonzero(was_over).tolist()} are over: reset them by `reset_mask`"
            )
        rows = np.flatnonzero(~was_over)
        reward = np.zeros(self.num_envs, np.float32)
        reward[rows] = env.advance(rows, actions[rows])
        if was_over.any():  # NEXT_STEP
            env.begin(np.flatnonzero(was_over), None)
        terminated, truncated = games.terminated.copy(), games.truncated.copy()
        infos: dict[str, Any] = {}
        over = np.flatnonzero(terminated | truncated)
        if len(over):
            infos = self._columns(over, games.about(over))
        if len(over) and self.autoreset_mode == AutoresetMode.SAME_STEP:
            final = env.observation(over)
            final_obs = [env.row_of(final, index) for index in range(len(over))]
            final_info = self._add_masks(infos, over)
            env.begin(over, None)
            infos = self._columns(over, {"final_obs": final_obs})
            infos |= {"final_info": final_info, "_final_info": infos["_final_obs"].copy()}
        infos = self._add_masks(infos, self._rows)
        return env.observation(), reward, terminated, truncated, infos

    def _columns(self, rows: np.ndarray, values: dict[str, list[Any]]) -> dict[str, Any]:
        """Infos of some rows as Gymnasium batches them: by key (B,), and which rows have it."""
        columns: dict[str, Any] = {}
        for key, column in values.items():
            is_number = isinstance(column[0], int)
            batched = np.zeros(self.num_envs, int) if is_number else np.full(self.num_envs, None)
            for row, value in zip(rows, column, strict=True):
                batched[row] = value
            columns[key] = batched
            columns[f"_{key}"] = self._is_in(rows)
        return columns

    def _add_masks(self, infos: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
        """With `mask_in="info"`, put the masks of these rows in."""
        if self._env.mask_in == "info":
            masks = np.zeros((self.num_envs, NUM_ACTIONS), np.int8)
            masks[rows] = self._env.games.action_mask[rows]
            infos |= {"action_mask": masks, "_action_mask": self._is_in(rows)}
        return infos

    def _is_in(self, rows: np.ndarray) -> np.ndarray:
        is_in = np.zeros(self.num_envs, np.bool_)
        is_in[rows] = True
        return is_in

    def set_opponents(
        self,
        opponents: str | Agent | Sequence[str | Agent],
        weights: Sequence[float] | None = None,
    ) -> None:
        """Draw the opponents of games begun from now on from these; games in play keep theirs.

        Args:
            opponents: As at construction.
            weights: Relative frequency of each of them, equal if not given.

        Raises:
            SplendorError: No opponents, an unknown spec, or weights that do not fit.
        """
        self._env.games.set_opponents(opponents, weights)

    def action_masks(self) -> np.ndarray:
        """The learner's legal actions (B, A) int8, new; never empty."""
        return self._env.games.action_mask.copy()

    @property
    def seat(self) -> np.ndarray:
        """(B,) int8, the learner's seat in each game, new."""
        return self._env.games.seat.copy()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """A method's result or an attribute, such as `action_masks`, by game: a tuple of B."""
        value = getattr(self, name)
        value = value(*args, **kwargs) if callable(value) else value
        return tuple(value) if isinstance(value, np.ndarray) else (value,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute, once for each game."""
        return self.call(name)


class SplendorEnv(gymnasium.Env):
    """One game of Splendor with one learner seat; options as in `SplendorVectorEnv`.

    `action_masks()` gives the legal actions (A,) int8, to be asked before each decision: that is
    what `sb3_contrib.MaskablePPO` does.

    Args:
        render_mode: "ansi" (str), "human" (printed after each step), "rgb_array" ((H, W, 3)
            uint8) or None. The board is drawn as the learner's seat sees it.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 1}  # noqa: RUF012  Gymnasium's

    def __init__(
        self,
        *,
        num_players: int | None = None,
        rules: Rules | str = "standard",
        opponents: str | Agent | Sequence[str | Agent] = "random",
        seat: int | str = "rotating",
        mask_in: str = "obs",
        illegal: str = "raise",
        reward: str = "win",
        gamma: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise SplendorError(
                f"render_mode must be None, {', '.join(map(repr, RENDER_MODES))}, "
                f"not {render_mode!r}"
            )
        self._env = _LearnerEnv(
            1, num_players, rules, opponents, seat, mask_in, illegal, reward, gamma
        )
        self.render_mode = render_mode
        self.observation_space = self._env.space()
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._row = np.zeros(1, np.int64)

    @property
    def rules(self) -> Rules:
        """The variant."""
        return self._env.games.rules

    @property
    def seat(self) -> int:
        """The learner's seat in this game."""
        return int(self._env.games.seat[0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game; `options["position"]` (a `Game` or a dictionary) says where.

        Raises:
            SplendorError: The seed or position is not usable.
        """
        seeds = None if seed is None else np.array([check_seed(seed)])
        super().reset(seed=None if seed is None else int(seed))
        self._env.begin(self._row, seeds, (options or {}).get("position"))
        if self.render_mode == "human":
            self.render()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply the learner's action and play on to its next decision.

        Raises:
            IllegalActionError: With `illegal="raise"`; nothing has changed.
            SplendorError: No game is going on.
        """
        env, games = self._env, self._env.games
        actions = env.check_actions(action, ()).reshape(1)
        if games.terminated[0] or games.truncated[0]:
            raise SplendorError("the game is over: call reset()")
        reward = env.advance(self._row, actions)
        terminated, truncated = bool(games.terminated[0]), bool(games.truncated[0])
        info = self._info()
        if terminated or truncated:
            info |= {key: values[0] for key, values in games.about(self._row).items()}
        if self.render_mode == "human":
            self.render()
        return self._observation(), float(reward[0]), terminated, truncated, info

    def _observation(self) -> Any:
        return self._env.row_of(self._env.observation(), 0)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks()} if self._env.mask_in == "info" else {}

    def action_masks(self) -> np.ndarray:
        """The learner's legal actions (A,) int8, new; only the pass once the game is over."""
        return self._env.games.action_mask[0].copy()

    def render(self) -> Any:
        """The board as the learner sees it: str, None (printed) or an image, by the mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing without a render_mode")
            return None
        if not self._env.is_dealt:
            raise SplendorError("there is no game yet: call reset() first")
        game, rules = self._env.games.games[0], self.rules
        # Pillow is only imported by those who look.
        if self.render_mode == "rgb_array":
            from splendor_env.render.image import board_image

            return board_image(game, rules, self.seat)
        from splendor_env.render.text import board_text

        text = board_text(game, rules, self.seat)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None
