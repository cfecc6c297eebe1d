"""# Splendor.

The board game Splendor as a PettingZoo AEC environment. The rules come from `splendor_env.core`.

| Creation           | `splendor_env.envs.aec.env()`                                       |
|--------------------|---------------------------------------------------------------------|
| Actions            | Discrete                                                            |
| Parallel API       | By `parallel_env()`                                                 |
| Manual Control     | No                                                                  |
| Agents             | `["player_0", "player_1", ...]`, in the order of play               |
| Agents             | 2 to 4                                                              |
| Action Values      | `Discrete(78)`, `core.actions.ACTION_NAMES`                         |
| Observation Shape  | `(746,)` float32, `core.observation.OBSERVATION_LAYOUT`             |
| Observation Values | [0, 1]                                                              |

### Observation Space

A dictionary of `observation`, the table as this seat sees it, itself first, and `action_mask`
(78,) int8, its legal actions. The mask is all zero for a seat that is not to move and after the
end. `observe(agent)` answers for any seat at any time, with new arrays.

### State

`state()`, for centralised critics while training: float32 (848,) in `state_space`, a Box within
[0, 1]. It holds what no single seat may know, so no policy may see it. In a fixed order, seat 0
first, whoever is to move:

| Values     | Meaning                                                                  |
|------------|--------------------------------------------------------------------------|
| 0 to 745   | the observation of player_0, every reserve face up (`view_observation`)  |
| 746 to 835 | by card: whether it is still in its deck                                 |
| 836 to 847 | by seat and slot: whether only its owner has seen the reserved card      |

That is the whole position up to the clipping that `OBSERVATION_LAYOUT` states; the order of the
decks is not in it, since no record holds it.

### Action Space

One index has the same meaning in every position and for every number of players. Returning
tokens, choosing a noble and choosing a payment are decisions of their own: the same agent stays
selected until its turn is over. An illegal action raises `IllegalActionError` in `raw_env()` and
changes nothing; in `env()` it ends the game with -1 for the offender and 0 for the others, and
PettingZoo's wrapper sets both `terminations` and `truncations`. What is no action at all raises in
both.

### Rewards

| Result               | Reward                                                              |
|----------------------|---------------------------------------------------------------------|
| game goes on         | 0                                                                   |
| game over            | (N s - 1) / (N - 1) for a share s of the victory among N seats      |
| `max_cycles` reached | 0 for all, truncated                                                |

All seats finish in the same step. Then each `infos[agent]` has `winners` (agents), `points` (by
seat), `rounds` and `end_reason` ("target", "stalemate", "round_limit"; in `env()` also
"illegal_action").

### Arguments

    env(num_players=None, rules="standard", mask_in="obs", max_cycles=None, render_mode=None)

`num_players`: 2 to 4; 2 if neither it nor a `Rules` says otherwise.
`rules`: a preset's name or a `core.state.Rules`.
`mask_in`: "obs", or "info" for a plain Box observation and the mask in
`infos[agent]["action_mask"]`.
`max_cycles`: rounds after which the game is truncated, in place of the rules' `max_rounds`.
`render_mode`: "ansi" (str), "human" (printed after each step), "rgb_array" (H, W, 3), or None.

### Version History

* v0: Initial version
"""

import operator
import secrets
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.env import ParallelEnv

from splendor_env.core.actions import NUM_ACTIONS, PASS
from splendor_env.core.batch import (
    deal_games,
    illegal_action_message,
    observe_games,
    step_games,
    write_action_masks,
    write_returns,
    write_victory_shares,
)
from splendor_env.core.cards import NUM_CARDS
from splendor_env.core.hidden import is_secret
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import check_seed
from splendor_env.core.state import (
    GAME,
    MAX_PLAYERS,
    MAX_RESERVED,
    EndReason,
    IllegalActionError,
    Rules,
    SplendorError,
    check_rules,
    resolve_rules,
)
from splendor_env.envs import PETTINGZOO_ID

STATE_SIZE = OBSERVATION_SIZE + NUM_CARDS + MAX_PLAYERS * MAX_RESERVED
MASK_PLACES = ("obs", "info")
RENDER_MODES = ("ansi", "human", "rgb_array")
_NO_SEAT = -1
"""Observer for the core's secrecy predicate that owns no seat."""


def env(**kwargs: Any) -> AECEnv:
    """`raw_env` in PettingZoo's usual wrappers: an illegal action loses the game."""
    return _wrap(raw_env(**kwargs))


def parallel_env(**kwargs: Any) -> ParallelEnv:
    """`env` for users of the parallel API: each step takes the action of the seat to move only.

    `infos[agent]["active_agent"]` names that seat, after `reset` it is player_0. Masks are never
    empty: a seat that cannot move has the pass, and what it chooses is ignored.
    """
    return turn_based_aec_to_parallel(_wrap(_IdlersPass(**kwargs)))


def _wrap(inner: AECEnv) -> AECEnv:
    return wrappers.OrderEnforcingWrapper(_LoseIllegal(inner, illegal_reward=-1))


class _LoseIllegal(wrappers.TerminateIllegalWrapper):
    """PettingZoo's wrapper, which also refuses what is no action and says how the game ended."""

    def step(self, action: Any) -> None:
        raw = cast(raw_env, self.unwrapped)
        was_terminated = self._terminated
        agent = self.agent_selection
        if raw.agents and not (self.terminations[agent] or self.truncations[agent]):
            action = raw.check_range(action)
        super().step(action)
        if self._terminated and not was_terminated:
            raw.publish_forfeit()


class raw_env(AECEnv):  # noqa: N801  PettingZoo's name for it
    """One game of Splendor, its seats acting in turn. See the module for all that is in it.

    The first `reset` without a seed takes one from the operating system; later ones go on from
    the last seed, so that a sequence of games is fixed by its first.

    Args:
        num_players: 2 to 4; None takes it from `rules`, 2 for a preset.
        rules: A preset's name, or the rules themselves.
        mask_in: "obs" or "info".
        max_cycles: Replaces `max_rounds` of the rules.
        render_mode: "ansi", "human", "rgb_array" or None.

    Raises:
        SplendorError: An argument has a value that is not allowed.
    """

    metadata = {  # noqa: RUF012  PettingZoo declares it without ClassVar
        "name": PETTINGZOO_ID,
        "render_modes": list(RENDER_MODES),
        "render_fps": 1,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        *,
        num_players: int | None = None,
        rules: Rules | str = "standard",
        mask_in: str = "obs",
        max_cycles: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        if mask_in not in MASK_PLACES:
            raise SplendorError(f"mask_in must be 'obs' or 'info', not {mask_in!r}")
        if render_mode not in (None, *RENDER_MODES):
            raise SplendorError(
                f"render_mode must be None, {', '.join(map(repr, RENDER_MODES))}, "
                f"not {render_mode!r}"
            )
        self.rules = _limit_rounds(resolve_rules(rules, num_players), max_cycles)
        self.mask_in = mask_in
        self.render_mode = render_mode
        self.possible_agents = [f"player_{seat}" for seat in range(self.rules.num_players)]
        self.observation_spaces = {
            agent: _observation_space(mask_in) for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents}
        self.state_space = spaces.Box(0, 1, (STATE_SIZE,), np.float32)

        self._seat = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._is_dealt = False
        # The core works on arrays of games, here of one; the others are buffers for its calls.
        self._games = np.zeros(1, GAME)
        self._mask = np.zeros((1, NUM_ACTIONS), np.int8)
        self._idle_mask = np.zeros(NUM_ACTIONS, np.int8)
        self._action = np.zeros(1, np.int32)
        self._observer = np.zeros(1, np.int8)

        self.agents = []
        self.agent_selection = self.possible_agents[0]
        self.rewards = {}
        self.terminations = {}
        self.truncations = {}
        self.infos = {}
        self._cumulative_rewards = {}

    @property
    def game(self) -> np.record:
        """The record of the game as it stands, with every seat's secrets; not a copy."""
        return self._games[0]

    def observation_space(self, agent: str) -> spaces.Space:
        """The same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """The same object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Deal a new game. Options are ignored: there are none.

        Raises:
            SplendorError: The seed is not an integer of 64 bits.
        """
        deal_games(self._games, self.rules, self._next_seed(seed))
        self._is_dealt = True
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._publish()
        if self.render_mode == "human":
            self.render()

    def _next_seed(self, seed: int | None) -> np.uint64:
        if seed is None:
            # A deal hashes its seed into that of the game, hence the next game is another one.
            return self._games["seed"][0] if self._is_dealt else np.uint64(secrets.randbits(64))
        return check_seed(seed)

    def observe(self, agent: str) -> Any:
        """What a seat sees now, of its own hand too, whoever is to move."""
        if not self._is_dealt:
            raise SplendorError("there is no game yet: call reset() first")
        self._observer[0] = self._seat[agent]
        out = np.empty((1, OBSERVATION_SIZE), np.float32)
        observe_games(self._games, self.rules, self._observer, out)
        if self.mask_in == "info":
            return out[0]
        return {"observation": out[0], "action_mask": self._action_mask(agent)}

    def _action_mask(self, agent: str) -> np.ndarray:
        # A wrapper may have ended the game by setting `terminations`.
        is_to_move = agent == self.agent_selection and not self.terminations.get(agent, True)
        return self._mask[0].copy() if is_to_move else self._idle_mask.copy()

    def state(self) -> np.ndarray:
        """The whole position (848,) float32, new: for critics while training, not for policies."""
        if not self._is_dealt:
            raise SplendorError("there is no game yet: call reset() first")
        game = self._games[0]
        out = np.zeros(STATE_SIZE, np.float32)
        table, in_deck, is_closed = np.split(out, (OBSERVATION_SIZE, OBSERVATION_SIZE + NUM_CARDS))
        in_deck[game.deck[game.deck >= 0]] = 1
        for seat in range(self.rules.num_players):
            for slot in range(MAX_RESERVED):
                place = seat * MAX_RESERVED + slot
                is_closed[place] = is_secret(game, self.rules, seat, slot, _NO_SEAT)
        face_up = self._games.copy()
        face_up["reserved_blind"] = 0
        self._observer[0] = 0
        observe_games(
            face_up, self.rules._replace(hide_reserves=0), self._observer, table[np.newaxis]
        )
        return out

    def step(self, action: Any) -> None:
        """Apply one decision of `agent_selection`; after the end, None.

        Raises:
            IllegalActionError: The action is not a legal one; nothing has changed.
            SplendorError: No game is going on.
            ValueError: The game is over for this agent and the action is not None.
        """
        if not self.agents:
            raise SplendorError("no game is going on: call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._action[0] = self._check(action)
        step_games(self._games, self._action, self.rules, -1)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._publish()
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def _check(self, action: Any) -> int:
        index = self.check_range(action)
        if not self._mask[0, index]:
            raise IllegalActionError(illegal_action_message(action, self._mask[0]))
        return index

    def check_range(self, action: Any) -> int:
        """The action as an int.

        Raises:
            IllegalActionError: It is no integer, or not one of the 78.
        """
        try:
            index = operator.index(action)  # NumPy's integers and 0-d arrays too
        except TypeError:
            index = -1
        if not 0 <= index < NUM_ACTIONS:
            raise IllegalActionError(illegal_action_message(action, self._mask[0]))
        return index

    def publish_forfeit(self) -> None:
        """Say in the infos that the game has ended by an illegal action."""
        self._mask[0] = self._idle_mask
        self.infos = {
            agent: {"action_mask": self._idle_mask.copy()} if self.mask_in == "info" else {}
            for agent in self.agents
        }
        for info in self.infos.values():
            info.update(self._result() | {"winners": [], "end_reason": "illegal_action"})

    def _publish(self) -> None:
        """Copy what the core says into PettingZoo's tables."""
        is_over = self._games["end_reason"][0] != EndReason.RUNNING
        if is_over:
            self._mask[0] = self._idle_mask
            self._end_game()
        else:
            write_action_masks(self._games, self.rules, self._mask)
            self.agent_selection = self.possible_agents[self._games["player"][0]]
        if self.mask_in == "info":
            self.infos = {agent: {"action_mask": self._action_mask(agent)} for agent in self.agents}
        else:
            self.infos = {agent: {} for agent in self.agents}
        if is_over:
            for info in self.infos.values():
                info.update(self._result())

    def _end_game(self) -> None:
        returns = np.zeros((1, self.rules.num_players))
        write_returns(self._games, self.rules, returns)
        self.rewards = dict(zip(self.agents, returns[0].tolist(), strict=True))
        flags = dict.fromkeys(self.agents, True)
        if self._games["end_reason"][0] == EndReason.ROUND_LIMIT:
            self.truncations = flags
        else:
            self.terminations = flags

    def _result(self) -> dict[str, Any]:
        end_reason = EndReason(self._games["end_reason"][0])
        shares = np.zeros((1, self.rules.num_players))
        if end_reason in (EndReason.TARGET, EndReason.STALEMATE):
            write_victory_shares(self._games, self.rules, shares)
        return {
            "winners": [self.possible_agents[seat] for seat in np.flatnonzero(shares)],
            "points": self._games["points"][0, : self.rules.num_players].tolist(),
            "rounds": int(self._games["rounds"][0]),
            "end_reason": end_reason.name.lower(),
        }

    def render(self) -> Any:
        """The board with everything on it: str, None (printed) or (H, W, 3) uint8, by the mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing without a render_mode")
            return None
        if not self._is_dealt:
            raise SplendorError("there is no game yet: call reset() first")
        # Pillow is only imported by those who look.
        if self.render_mode == "rgb_array":
            from splendor_env.render.image import board_image

            return board_image(self._games[0], self.rules)
        from splendor_env.render.text import board_text

        text = board_text(self._games[0], self.rules)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Nothing to release."""


class _IdlersPass(raw_env):
    """Masks of seats that cannot move hold the pass: the parallel converter drops their actions."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._idle_mask[PASS] = 1


def _limit_rounds(rules: Rules, max_cycles: int | None) -> Rules:
    if max_cycles is None:
        return rules
    try:
        return check_rules(rules._replace(max_rounds=max_cycles))
    except SplendorError as error:
        raise SplendorError(f"max_cycles: {error}") from None


def _observation_space(mask_in: str) -> spaces.Space:
    box = spaces.Box(0, 1, (OBSERVATION_SIZE,), np.float32)
    if mask_in == "info":
        return box
    mask = spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
    return spaces.Dict({"observation": box, "action_mask": mask})
