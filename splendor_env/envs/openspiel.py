"""Splendor as the OpenSpiel game "python_splendor", registered when this module is imported.

    import pyspiel, splendor_env.envs.openspiel
    game = pyspiel.load_game("python_splendor(players=3,rules=rulebook_2014)")

Parameters: `players` (2 to 4) and `rules` (the name of a preset). Actions are those of
`core.actions`. A game begins with one chance node for each face-up card, by level and slot, and
for each noble; later one follows every move that turns up a card. Outcomes 0 to 89 are the cards,
90 to 99 the nobles, always uniform over what is left. Until chance has answered, the board is that
before the move. The round limit ends a game with 0 for all: OpenSpiel knows no truncation.

The observation tensor is `core.observation`'s, its string the board as that seat sees it; it lacks
what a seat remembers: past moves and, with `hide_reserves`, which face-up cards others took in
hand. The information state is all that a seat has been told, in order: as a string, and as a
tensor of the seat (one-hot), the observation, and the history, one number an event, `code /
NUM_EVENTS`, zero after the last: 1 to 78 an action, then the 100 outcomes, then a card unseen.

Searches: OpenSpiel's C++ `pyspiel.MCTSBot` and `ISMCTSBot` end the process with a segmentation
fault in `step`, on any game written in Python: it releases the interpreter lock and then copies
the state with Python's `copy`. Nothing in a game can stop that, so use `make_mcts_bot` here, and
`check_bot` where bots come from elsewhere. OpenSpiel's Python MCTS looks at the true state, blind
reserves of others included, but not at cards to come; its Python ISMCTS looks at neither.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from splendor_env.core.actions import (
    ACTION_NAMES,
    BUY,
    BUY_RESERVED,
    NUM_ACTIONS,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.batch import (
    deal_games,
    illegal_action_message,
    observe_games,
    step_games,
    write_action_masks,
    write_returns,
)
from splendor_env.core.cards import (
    CARD_LEVEL,
    CARD_NAMES,
    LEVEL_SIZE,
    LEVEL_START,
    NOBLE_NAMES,
    NUM_CARDS,
    NUM_LEVELS,
    NUM_NOBLES,
)
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.state import (
    GAME,
    MARKET_SLOTS,
    MAX_PLAYERS,
    EndReason,
    IllegalActionError,
    Payment,
    Rules,
    SplendorError,
    resolve_rules,
)
from splendor_env.render.text import board_text

try:
    import pyspiel  # pyright: ignore[reportMissingImports]
    from open_spiel.python.algorithms import mcts  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError(
        "splendor_env.envs.openspiel needs the extra `openspiel`: "
        "pip install -e '.[openspiel]' in a checkout"
    ) from error

OUTCOME_NAMES = (*CARD_NAMES, *NOBLE_NAMES)
"""(100,) what each chance outcome turns up."""

_ACTION_EVENT = 1
_OUTCOME_EVENT = _ACTION_EVENT + NUM_ACTIONS
_UNSEEN_EVENT = _OUTCOME_EVENT + len(OUTCOME_NAMES)
NUM_EVENTS = _UNSEEN_EVENT
"""Codes of what a seat is told: 1 to this."""
_EVENT_TEXT = ("", *(f"\n{n}" for n in ACTION_NAMES), *(f" {n}" for n in OUTCOME_NAMES), " ?")

_NUM_MARKET = NUM_LEVELS * MARKET_SLOTS
_NOTHING = -1
_NOBLES = NUM_LEVELS
"""What chance decides on, besides the decks of the levels 0 to 2."""
_MAX_REDRAWS = 1000
"""Hardly any draw contradicts a pass, and passes are rare."""

_GAME_TYPE = pyspiel.GameType(
    short_name="python_splendor",
    long_name="Python Splendor",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=MAX_PLAYERS,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=True,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={"players": 2, "rules": "standard"},
)


def _game_info(rules: Rules) -> pyspiel.GameInfo:
    return pyspiel.GameInfo(
        num_distinct_actions=NUM_ACTIONS,
        max_chance_outcomes=len(OUTCOME_NAMES),
        num_players=rules.num_players,
        min_utility=-1 / (rules.num_players - 1),
        max_utility=1.0,
        utility_sum=0.0,
        max_game_length=_max_decisions(rules),
    )


def _max_decisions(rules: Rules) -> int:
    """An upper bound: each turn one action and what follows it, and choices among nobles.

    At most three tokens go back after a take or reserve; after a purchase, gold can be put in
    place of a colour once for each gold token.
    """
    swaps = rules.gold_tokens if rules.payment == Payment.CHOICE else 0
    turns = rules.max_rounds * rules.num_players
    return turns * (1 + max(3, swaps)) + rules.num_nobles


class SplendorGame(pyspiel.Game):
    """The game with its parameters.

    Attributes:
        rules: The variant.
        empty_table: (1,) GAME before the first card is turned up.

    Raises:
        SplendorError: Unknown preset, or a number of players that is not 2 to 4.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        parameters = _GAME_TYPE.parameter_specification | (params or {})
        rules = resolve_rules(parameters["rules"], parameters["players"])
        super().__init__(_GAME_TYPE, _game_info(rules), parameters)
        self.rules = rules
        self.empty_table = _empty_table(rules)

    def new_initial_state(self) -> "SplendorState":
        """The empty table, chance to turn up the first card."""
        return SplendorState(self)

    def max_chance_nodes_in_history(self) -> int:
        """Every card and every noble of the game is turned up at most once."""
        return NUM_CARDS + self.rules.num_nobles

    def make_py_observer(
        self,
        iig_obs_type: pyspiel.IIGObservationType | None = None,
        params: dict[str, Any] | None = None,
    ) -> "SplendorObserver":
        """An observer: of the observation, or of the information state with perfect recall."""
        # Actions, chance outcomes, and reserved cards that a purchase shows.
        max_events = self.max_game_length() + self.max_chance_nodes_in_history() + NUM_CARDS
        return SplendorObserver(
            iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False), params, max_events
        )


def _empty_table(rules: Rules) -> np.ndarray:
    """A game of which no card and no noble has been turned up yet."""
    games = np.zeros(1, GAME)
    deal_games(games, rules, np.uint64(0))
    games["seed"] = 0  # never used: chance nodes decide every draw
    games["market"] = -1
    games["nobles"] = -1
    games["deck"] = -1
    games["deck_size"] = LEVEL_SIZE
    for level, (start, size) in enumerate(zip(LEVEL_START, LEVEL_SIZE, strict=True)):
        games["deck"][0, level, :size] = np.arange(start, start + size)
    return games


class SplendorState(pyspiel.State):
    """One position of one game.

    `clone` deep-copies every attribute, so there are few.

    Attributes:
        games: (1,) GAME, the position as the core takes it.
    """

    def __init__(self, game: SplendorGame) -> None:
        super().__init__(game)
        self.games = game.empty_table.copy()
        self._num_dealt = 0
        self._source = 0  # what chance decides on next: a deck, _NOBLES or _NOTHING
        self._move = -1  # waits for the card that it turns up
        self._told: tuple[tuple[int, ...], ...] = ((),) * game.rules.num_players  # events by seat

    def current_player(self) -> int:
        """Seat to move, or OpenSpiel's ids for chance and the end."""
        if self._source != _NOTHING:
            return pyspiel.PlayerId.CHANCE
        if self.is_terminal():
            return pyspiel.PlayerId.TERMINAL
        return int(self.games["player"][0])

    def is_terminal(self) -> bool:
        """Whether the game is over."""
        return bool(self.games["end_reason"][0] != EndReason.RUNNING)

    def returns(self) -> list[float]:
        """Reward by seat; zero while the game runs and after the round limit."""
        out = np.zeros((1, self._rules.num_players))
        write_returns(self.games, self._rules, out)
        return out[0].tolist()

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """What can be turned up now, each with the same probability."""
        outcomes = self._outcomes()
        return [(outcome, 1 / len(outcomes)) for outcome in outcomes]

    def resample_from_infostate(self, player_id: int, rng: Callable[[], float]) -> "SplendorState":
        """The game as it may have gone for all that a seat knows: for OpenSpiel's Python ISMCTS.

        Blind reserves that others still hold are drawn anew from the cards the seat has not seen,
        until nobody passes who could have bought one.

        Args:
            player_id: The seat.
            rng: Returns random numbers in [0, 1).

        Raises:
            SplendorError: No such cards were found.
        """
        for _ in range(_MAX_REDRAWS):
            try:
                return self._replay(self._redraw_secrets(player_id, rng))
            except IllegalActionError:
                continue
        raise SplendorError(f"{_MAX_REDRAWS} draws did not agree with what seat {player_id} knows")

    def _redraw_secrets(self, player: int, rng: Callable[[], float]) -> dict[int, int]:
        """Another card for each blind reserve of the others."""
        other: dict[int, int] = {}
        secrets = self._secrets(player)
        for level in range(NUM_LEVELS):
            held = [card for card in secrets if CARD_LEVEL[card] == level]
            unseen = sorted(held + self._deck(level))
            for card in held:
                other[card] = unseen.pop(int(rng() * len(unseen)))
        return other

    def _replay(self, other: dict[int, int]) -> "SplendorState":
        """The same moves from the start, chance turning up other cards."""
        twin = self.get_game().new_initial_state()
        for step in self.full_history():
            is_chance = step.player == pyspiel.PlayerId.CHANCE
            twin.apply_action(other.get(step.action, step.action) if is_chance else step.action)
        return twin

    def board(self, viewer: int | None = None) -> str:
        """The board as text with the secrets of seat `viewer`; None sees nobody's."""
        if self._num_dealt < _NUM_MARKET + self._rules.num_nobles:
            return f"Set-up:{_text(self._told[0])}"
        return board_text(self.games[0], self._rules, viewer)

    @property
    def _rules(self) -> Rules:
        return self.get_game().rules

    def _legal_actions(self, player: int) -> list[int]:
        return np.flatnonzero(self._mask()).tolist()

    def _mask(self) -> np.ndarray:
        mask = np.zeros((1, NUM_ACTIONS), np.int8)
        write_action_masks(self.games, self._rules, mask)
        return mask[0]

    def _outcomes(self) -> list[int]:
        if self._source == _NOBLES:
            chosen = self.games["nobles"][0]
            return [NUM_CARDS + noble for noble in range(NUM_NOBLES) if noble not in chosen]
        return sorted(self._deck(self._source))

    def _deck(self, level: int) -> list[int]:
        return self.games["deck"][0, level, : self.games["deck_size"][0, level]].tolist()

    def _secrets(self, player: int | None = None) -> list[int]:
        """Blind reserves of others, but for one that is being paid for: it has been shown."""
        game = self.games[0]
        is_secret = game.reserved_blind != 0
        if player is not None:
            is_secret[player] = False
        if game.pending >= BUY_RESERVED:
            is_secret[game.player, game.pending - BUY_RESERVED] = False
        return game.reserved[is_secret].tolist()

    def _apply_action(self, action: int) -> None:
        if self._source == _NOTHING:
            self._decide(action)
            return
        outcomes = self._outcomes()
        if action not in outcomes:
            raise IllegalActionError(
                f"chance cannot turn up {action!r}; what is left: "
                + ", ".join(OUTCOME_NAMES[outcome] for outcome in outcomes)
            )
        if self._move < 0:
            self._deal(action)
        else:
            self._draw(action)

    def _deal(self, outcome: int) -> None:
        """Lay a card or noble of the set-up on the table."""
        game = self.games[0]
        place = self._num_dealt
        if self._source == _NOBLES:
            game.nobles[place - _NUM_MARKET] = outcome - NUM_CARDS
        else:
            level = self._source
            game.market[level, place % MARKET_SLOTS] = outcome
            last = game.deck_size[level] - 1
            game.deck[level, self._deck(level).index(outcome)] = game.deck[level, last]
            game.deck[level, last] = -1
            game.deck_size[level] = last
        self._num_dealt += 1
        if self._num_dealt < _NUM_MARKET:
            self._source = self._num_dealt // MARKET_SLOTS
        elif self._num_dealt < _NUM_MARKET + self._rules.num_nobles:
            self._source = _NOBLES
        else:
            self._source = _NOTHING
        self._tell(_OUTCOME_EVENT + outcome)

    def _decide(self, action: int) -> None:
        """Make a move, or keep it until chance has turned up the card that it needs."""
        mask = self._mask()
        if not 0 <= action < NUM_ACTIONS or not mask[action]:
            raise IllegalActionError(illegal_action_message(action, mask))
        game = self.games[0]
        self._tell(_ACTION_EVENT + action)
        if BUY_RESERVED <= action < RETURN:  # shows the card
            self._tell(_OUTCOME_EVENT + int(game.reserved[game.player, action - BUY_RESERVED]))
        after = self._after(action, -1)
        drawn = np.flatnonzero(after["deck_size"][0] != game.deck_size)
        if drawn.size:
            self._source = int(drawn[0])
            self._move = action
        else:
            self.games = after

    def _draw(self, card: int) -> None:
        """Make the move that waits, with the card turned up."""
        owner = int(self.games["player"][0]) if RESERVE_DECK <= self._move < BUY else None
        self.games = self._after(self._move, card)
        self._source = _NOTHING
        self._move = -1
        self._tell(_OUTCOME_EVENT + card, owner)

    def _after(self, action: int, draw: int) -> np.ndarray:
        after = self.games.copy()
        step_games(after, np.array([action], np.int32), self._rules, draw)
        return after

    def _tell(self, event: int, only: int | None = None) -> None:
        """Add to what the seats know; if it concerns one seat only, the others see a card back."""
        self._told = tuple(
            (*known, event if only in (None, seat) else _UNSEEN_EVENT)
            for seat, known in enumerate(self._told)
        )

    def _action_to_string(self, player: int, action: int) -> str:
        if player == pyspiel.PlayerId.CHANCE:
            return OUTCOME_NAMES[action]
        return ACTION_NAMES[action]

    def __str__(self) -> str:
        """The board, and what only its owner or nobody knows."""
        lines = [self.board()]
        if secrets := self._secrets():
            lines.append("Blind reserves: " + " ".join(CARD_NAMES[card] for card in secrets))
        if self._source != _NOTHING:
            what = "a noble" if self._source == _NOBLES else f"a card of level {self._source + 1}"
            move = f" for {ACTION_NAMES[self._move]!r}" if self._move >= 0 else ""
            lines.append(f"Chance turns up {what}{move}.")
        return "\n".join(lines)


def _text(events: tuple[int, ...]) -> str:
    return "".join(_EVENT_TEXT[event] for event in events)


class SplendorObserver:
    """What one seat sees, or, with perfect recall, all it was told.

    Attributes:
        tensor: (D,) float32 of the last `set_from`; with perfect recall the seat and the history
            besides, see the module.
        dict: Its named parts, views: by `core.observation.OBSERVATION_LAYOUT`, or `player` (4,),
            `observation` (D,) and `history`.

    Raises:
        SplendorError: Another kind of observation, or parameters, are asked for.
    """

    def __init__(
        self,
        iig_obs_type: pyspiel.IIGObservationType,
        params: dict[str, Any] | None,
        max_events: int,
    ) -> None:
        if params:
            raise SplendorError(f"observers take no parameters, not {params!r}")
        if (
            not iig_obs_type.public_info
            or iig_obs_type.private_info != pyspiel.PrivateInfoType.SINGLE_PLAYER
        ):
            raise SplendorError(
                "observers show what is public together with what is private to one player, "
                f"not {iig_obs_type}"
            )
        self._is_information_state = iig_obs_type.perfect_recall
        start = MAX_PLAYERS if self._is_information_state else 0
        stop = start + OBSERVATION_SIZE
        self.tensor = np.zeros(stop + (max_events if start else 0), np.float32)
        observation = self.tensor[start:stop]
        self._out = observation[np.newaxis]
        self.dict = view_observation(observation)
        if self._is_information_state:
            self.dict = {
                "player": self.tensor[:start],
                "observation": observation,
                "history": self.tensor[stop:],
            }

    def set_from(self, state: SplendorState, player: int) -> None:
        """Write what `player` sees of `state`, or was told in it, into `tensor`."""
        observer = np.array([player], np.int8)
        observe_games(state.games, state.get_game().rules, observer, self._out)
        if self._is_information_state:
            events = state._told[player]
            self.dict["player"][:] = np.arange(MAX_PLAYERS) == player
            self.dict["history"][:] = 0
            self.dict["history"][: len(events)] = np.array(events) / NUM_EVENTS

    def string_from(self, state: SplendorState, player: int) -> str:
        """The board as `player` sees it; with perfect recall everything it was told, in order."""
        if self._is_information_state:
            return f"{player}:{_text(state._told[player])}"
        return state.board(player)


def make_mcts_bot(
    game: SplendorGame,
    *,
    max_simulations: int = 100,
    uct_c: float = math.sqrt(2),
    evaluator: mcts.Evaluator | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> mcts.MCTSBot:
    """OpenSpiel's MCTS in Python, in place of the one in C++ that crashes on this game.

    Args:
        game: The game that will be played.
        max_simulations: For each move. Rollouts take milliseconds each.
        uct_c: Weight of exploration.
        evaluator: By default one random rollout.
        seed: Of the search and the default evaluator.
        kwargs: Others of `open_spiel.python.algorithms.mcts.MCTSBot`.
    """
    random_state = np.random.RandomState(seed)
    if evaluator is None:
        evaluator = mcts.RandomRolloutEvaluator(n_rollouts=1, random_state=random_state)
    return mcts.MCTSBot(
        game, uct_c, max_simulations, evaluator, random_state=random_state, **kwargs
    )


def check_bot(bot: pyspiel.Bot) -> pyspiel.Bot:
    """Return a bot that can play this game.

    Raises:
        SplendorError: It is one of OpenSpiel's C++ searches, whose `step` would end the process.
    """
    if isinstance(bot, pyspiel.MCTSBot | pyspiel.ISMCTSBot):
        raise SplendorError(
            f"pyspiel.{type(bot).__name__} crashes the process on a game written in Python; use "
            "make_mcts_bot(game) or open_spiel.python.algorithms.mcts (or ismcts)"
        )
    return bot


pyspiel.register_game(_GAME_TYPE, SplendorGame)
