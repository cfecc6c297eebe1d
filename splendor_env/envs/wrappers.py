"""Other forms of the observation, as PettingZoo wrappers around `aec.env()` or `aec.raw_env()`.

Each shows a seat what it sees anyway, for any seat at any time, and leaves actions, rewards, ends
and the place of the mask (`mask_in`) as they are. No rule and no feature is computed here.
"""

import string
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import BaseWrapper

from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.cards import NUM_LEVELS
from splendor_env.core.gems import NUM_COLORS
from splendor_env.core.observation import OBSERVATION_LAYOUT, view_observation
from splendor_env.core.state import MARKET_SLOTS, MAX_PLAYERS, MAX_RESERVED, SplendorError
from splendor_env.envs.aec import raw_env
from splendor_env.game import NotationError, parse_move
from splendor_env.render.text import board_text

_SHAPE = {field.name: field.shape for field in OBSERVATION_LAYOUT}
_CARD = _SHAPE["pending_card"][0]
_CARD_ROW = _SHAPE["market"][1]
_NUM_MARKET = NUM_LEVELS * MARKET_SLOTS
_MARKET_ROWS = slice(0, _NUM_MARKET)
_OWN_ROWS = slice(_NUM_MARKET, _NUM_MARKET + MAX_RESERVED)
_MISSING = _CARD + NUM_COLORS
_AFFORDABLE = _MISSING + MAX_PLAYERS
_IN_MARKET = _CARD_ROW
_OWNER = _IN_MARKET + 1
_CLOSED = _OWNER + MAX_PLAYERS

_GLOBAL_FIELDS = (
    *("bank", "deck_size", "round", "is_last_round", "num_players", "phase", "passes"),
    *("pending_card", "payment"),
)

ENTITY_SHAPES = {
    "cards": (_NUM_MARKET + MAX_PLAYERS * MAX_RESERVED, _CLOSED + 1),
    "nobles": _SHAPE["nobles"],
    "seats": (MAX_PLAYERS, _SHAPE["seats"][1] + 2),
    "global": (sum(_SHAPE[name][0] for name in _GLOBAL_FIELDS),),
}
"""Shape of each part of `entities`."""

MAX_TEXT_LENGTH = 8192
"""Characters of a `TextObservation`, twice what any position needs."""
_CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
_NO_ACTIONS = np.zeros(NUM_ACTIONS, np.int8)


def entities(observation: np.ndarray) -> dict[str, np.ndarray]:
    """The same observation as rows of cards, nobles and seats, all of it and nothing else.

    A row of zeros is an empty place, so `rows.any(-1)` is the mask for attention. Values are those
    of `OBSERVATION_LAYOUT`; seats are as seen, the observing one first.

    Args:
        observation: (..., D) of any environment here, single or batched.

    Returns:
        New float32 arrays, each (..., *its shape):

        cards (24, 33): the market by level and slot (0 to 11), own reserves (12 to 14), those of
            the opponents clockwise (15 to 23). Columns 0 to 26 are those of `market`; of an
            opponent's reserve only its owner's are filled. Then whether it lies in the market
            (27), whose reserve it is by seat (28 to 31), and whether it is closed (32): an own
            reserve that nobody else has seen, an opponent's of which this seat sees only the level.
        nobles (5, 15): as in the layout.
        seats (4, 20): as in the layout, then whether the seat decides now and whether it begins
            each round.
        global (39,): bank, deck_size, round, is_last_round, num_players, phase, passes,
            pending_card, payment.
    """
    view = view_observation(observation)
    return {
        "cards": _card_rows(view),
        "nobles": view["nobles"].copy(),
        "seats": np.concatenate(
            (view["seats"], view["mover"][..., np.newaxis], view["first_seat"][..., np.newaxis]), -1
        ),
        "global": np.concatenate([view[name] for name in _GLOBAL_FIELDS], -1),
    }


def _card_rows(view: Mapping[str, np.ndarray]) -> np.ndarray:
    market, own, others = view["market"], view["own_reserved"], view["opponents_reserved"]
    cards = np.zeros((*market.shape[:-2], *ENTITY_SHAPES["cards"]), np.float32)
    cards[..., _MARKET_ROWS, :_CARD_ROW] = market
    cards[..., _MARKET_ROWS, _IN_MARKET] = market.any(-1)
    cards[..., _OWN_ROWS, :_CARD_ROW] = own
    cards[..., _OWN_ROWS, _OWNER] = own.any(-1)
    cards[..., _OWN_ROWS, _CLOSED] = view["own_reserved_blind"]
    for seat in range(1, MAX_PLAYERS):
        rows = cards[..., _NUM_MARKET + seat * MAX_RESERVED :, :][..., :MAX_RESERVED, :]
        seen = others[..., seat - 1, :, :]
        rows[..., :_CARD] = seen[..., :_CARD]
        rows[..., _MISSING + seat] = seen[..., _CARD]
        rows[..., _AFFORDABLE + seat] = seen[..., _CARD + 1]
        is_there = seen.any(-1)
        rows[..., _OWNER + seat] = is_there
        # Every card has a cost.
        rows[..., _CLOSED] = is_there & ~seen[..., :NUM_COLORS].any(-1)
    return cards


class _Wrapper(BaseWrapper):
    """What both have in common: the environment inside must be ours."""

    def __init__(self, env: AECEnv) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, raw_env):
            raise SplendorError(
                f"{type(self).__name__} needs an AEC environment of Splendor, not {env}"
            )
        self._inner = inner

    def observation_space(self, agent: str) -> spaces.Space:
        """The same object at every call."""
        return self.observation_spaces[agent]


class EntityObservation(_Wrapper):
    """`entities` in place of the flat observation.

    `{"observation": {"cards", "nobles", "seats", "global"}, "action_mask"}`, with
    `mask_in="info"` the inner dictionary alone. Shapes are `ENTITY_SHAPES`.

    Args:
        env: `aec.env()` or `aec.raw_env()`, wrapped or not.

    Raises:
        SplendorError: Another environment.
    """

    def __init__(self, env: AECEnv) -> None:
        super().__init__(env)
        self.observation_spaces = {agent: self._space() for agent in env.possible_agents}

    def _space(self) -> spaces.Dict:
        rows = spaces.Dict(
            {name: spaces.Box(0, 1, shape, np.float32) for name, shape in ENTITY_SHAPES.items()}
        )
        if self._inner.mask_in == "info":
            return rows
        mask = spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        return spaces.Dict({"observation": rows, "action_mask": mask})

    def observe(self, agent: str) -> dict[str, Any]:
        """What a seat sees now, as new arrays."""
        seen: Any = self.env.observe(agent)
        if self._inner.mask_in == "info":
            return entities(seen)
        return {"observation": entities(seen["observation"]), "action_mask": seen["action_mask"]}


class TextObservation(_Wrapper):
    """The table in words, for language models: `{"text", "action_mask"}`.

    The text is the board with this seat's own secrets only (`render.text.board_text`), then, if it
    is to move, its legal moves, one a line: `  48  buy 1-4`. `parse_answer` turns an answer into
    an action. With `mask_in="info"` the dictionary holds the text alone.

    The key is not "observation" and the observation never a bare string because PettingZoo's
    `api_test` asks what stands there for a NumPy dtype. In the space the text is a
    `gymnasium.spaces.Text` of printable ASCII and line breaks: sampling from it gives noise.

    Args:
        env: `aec.env()` or `aec.raw_env()`, wrapped or not.

    Raises:
        SplendorError: Another environment.
    """

    def __init__(self, env: AECEnv) -> None:
        super().__init__(env)
        self.observation_spaces = {agent: self._space() for agent in env.possible_agents}

    def _space(self) -> spaces.Dict:
        parts: dict[str, spaces.Space] = {"text": spaces.Text(MAX_TEXT_LENGTH, charset=_CHARACTERS)}
        if self._inner.mask_in == "obs":
            parts["action_mask"] = spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        return spaces.Dict(parts)

    def observe(self, agent: str) -> dict[str, Any]:
        """What a seat sees now, in words."""
        seen: Any = self.env.observe(agent)  # first: it says so where there is no game yet
        if self._inner.mask_in == "obs":
            mask = seen["action_mask"]
            return {"text": self._text(agent, mask), "action_mask": mask}
        info = self._inner.infos.get(agent, {})
        return {"text": self._text(agent, info.get("action_mask", _NO_ACTIONS))}

    def _text(self, agent: str, mask: np.ndarray) -> str:
        inner = self._inner
        seat = inner.possible_agents.index(agent)
        board = board_text(inner.game, inner.rules, seat)
        is_over = inner.terminations.get(agent, True) or inner.truncations.get(agent, True)
        if is_over:
            last = ["The game is over."]
        elif mask.any():
            moves = [f"{action:>4}  {ACTION_NAMES[action]}" for action in np.flatnonzero(mask)]
            last = ["Your legal moves:", *moves]
        else:
            last = ["You are not to move."]
        return "\n".join([board, "", *last])


def parse_answer(text: str) -> int:
    """The action that an answer names: in notation (`Game.push` reads the same) or by its number.

    Whether it is legal is for the mask to say.

    Raises:
        NotationError: It names none.
    """
    text = text.strip()
    if not text.isdecimal():
        return parse_move(text)
    if int(text) >= NUM_ACTIONS:
        raise NotationError(f"actions are numbered 0 to {NUM_ACTIONS - 1}, not {text}")
    return int(text)
