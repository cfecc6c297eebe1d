"""Games with one learner seat each: what the Gymnasium environments share.

The other seats are played inside, by agents drawn anew for each game, until the learner decides
again or its game is over. So the learner's next observation, reward and value always belong to its
own next decision, and the advantage estimate of a single-agent trainer is right.

Everything about a game follows from its seed: the deal, the seat of the learner, which agents play
the others, the hidden cards these are shown and the moves of the agent "random". Only agents with
a state of their own, random numbers for example, are outside of this.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from splendor_env.agents import Agent, make_agent
from splendor_env.agents.builtin import GreedyAgent
from splendor_env.agents.registry import failure_of
from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS, PASS
from splendor_env.core.batch import (
    deal_each,
    illegal_action_message,
    write_action_mask,
    write_action_masks,
)
from splendor_env.core.hidden import determinize
from splendor_env.core.observation import OBSERVATION_SIZE, observe
from splendor_env.core.random import CHOICE_STREAM, HIDDEN_STREAM, hash_seed
from splendor_env.core.rules import is_legal, returns, step, victory_shares
from splendor_env.core.state import (
    GAME,
    MAX_PLAYERS,
    EndReason,
    IllegalActionError,
    Rules,
    SplendorError,
    check_rules,
)
from splendor_env.heuristics import choose_random

SEATS = ("rotating", "random")


class LearnerGames:
    """B games that, between calls, wait for their learners or are over.

    Attributes (owned by the object and overwritten by the next call; copy what must stay):
        games: (B,) GAME.
        observation: (B, D) float32, what the learner sees, of an end too.
        action_mask: (B, A) int8, its legal actions; only the pass once a game is over.
        seat: (B,) int8, the learner's.
        reward: (B,) float32, what the last call brought it by the rules.
        length: (B,) int64, decisions of the learner in this game.
        terminated, truncated: (B,) bool, whether the game is over.
        is_forfeited: (B,) bool, whether it ended by `forfeit`.

    Args:
        rules: The variant.
        num_games: B.
        opponents: Agents, or their specs, from which each other seat of each game is drawn. They
            get copies of the games in which all that the mover cannot see is drawn anew, and a
            `game_id` for each pair of game and seat.
        weights: Relative frequency of each of them, equal if not given.
        seat: The learner's: a number, "rotating" (a game dealt from seed s begins with seat
            s mod N, then it moves on from game to game), or "random".

    Raises:
        SplendorError: An argument has a value that is not allowed.
    """

    def __init__(
        self,
        rules: Rules,
        num_games: int,
        opponents: str | Agent | Sequence[str | Agent],
        weights: Sequence[float] | None = None,
        *,
        seat: int | str = "rotating",
    ) -> None:
        if not isinstance(num_games, int | np.integer) or num_games < 1:
            raise SplendorError(f"the number of games must be at least 1, not {num_games!r}")
        if seat not in SEATS and seat not in range(rules.num_players):
            raise SplendorError(
                f"seat must be 'rotating', 'random' or 0 to {rules.num_players - 1}, not {seat!r}"
            )
        self.rules = check_rules(rules)
        self.games = np.zeros(num_games, GAME)
        self.observation = np.zeros((num_games, OBSERVATION_SIZE), np.float32)
        self.action_mask = np.zeros((num_games, NUM_ACTIONS), np.int8)
        self.seat = np.zeros(num_games, np.int8)
        self.reward = np.zeros(num_games, np.float32)
        self.length = np.zeros(num_games, np.int64)
        self.terminated = np.zeros(num_games, np.bool_)
        self.truncated = np.zeros(num_games, np.bool_)
        self.is_forfeited = np.zeros(num_games, np.bool_)
        self._seat_rule = seat
        self._game_id = np.arange(num_games)
        self._opponent = np.zeros((num_games, rules.num_players), np.int64)
        self._num_asked = np.zeros(num_games, np.int64)
        self._agents: list[Agent] = []
        self.set_opponents(opponents, weights)

    def set_opponents(
        self,
        opponents: str | Agent | Sequence[str | Agent],
        weights: Sequence[float] | None = None,
    ) -> None:
        """Draw the opponents of games dealt from now on from these; games in play keep theirs.

        Raises:
            SplendorError: No opponents, an unknown spec, or weights that do not fit.
        """
        pool: list[Any] = [opponents]
        if isinstance(opponents, Sequence) and not isinstance(opponents, str):
            pool = list(opponents)
        weight = np.ones(len(pool)) if weights is None else np.asarray(weights, np.float64)
        if not pool:
            raise SplendorError(f"opponents must be at least one agent or spec, not {opponents!r}")
        if weight.shape != (len(pool),):
            raise SplendorError(f"{len(pool)} opponents do not fit {weight.size} weights")
        if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
            raise SplendorError(f"weights must be at least 0, not all of them 0: {weights!r}")
        agents = [_make_opponent(agent, index) for index, agent in enumerate(pool)]
        if self._agents:  # those of games in play follow behind the new ones
            in_play, place = np.unique(self._opponent, return_inverse=True)
            self._opponent = place.reshape(self._opponent.shape) + len(agents)
            agents += [self._agents[index] for index in in_play]
        self._agents = agents
        self._bound = np.cumsum(weight / weight.sum())

    def deal(self, rows: np.ndarray, seeds: np.ndarray | None = None) -> None:
        """Begin new games in the rows (indices) and play to the learners' first decisions.

        Args:
            rows: Which.
            seeds: uint64 for each row; None goes on from the games that are there.
        """
        games = self.games[rows]
        deal_each(games, self.rules, games["seed"].copy() if seeds is None else seeds)
        self.put(rows, games, seeds)

    def put(self, rows: np.ndarray, games: np.ndarray, seeds: np.ndarray | None = None) -> None:
        """Begin from these positions (GAME) in the rows; `seeds` as in `deal`."""
        num_players = self.rules.num_players
        self.games[rows] = games
        draws = np.empty((len(rows), MAX_PLAYERS + 1))
        _write_draws(games["seed"].copy(), draws)
        if self._seat_rule == "random":
            self.seat[rows] = draws[:, MAX_PLAYERS] * num_players
        elif self._seat_rule != "rotating":
            self.seat[rows] = self._seat_rule
        elif seeds is None:
            self.seat[rows] = (self.seat[rows] + 1) % num_players
        else:
            self.seat[rows] = seeds % np.uint64(num_players)
        opponent = np.searchsorted(self._bound, draws[:, :num_players], side="right")
        self._opponent[rows] = np.minimum(opponent, len(self._bound) - 1)
        self._game_id[rows] += len(self.games)
        self._num_asked[rows] = 0
        self.length[rows] = 0
        self.terminated[rows] = False
        self.truncated[rows] = False
        self.is_forfeited[rows] = False
        self._play_opponents(rows)

    def step(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Apply the learners' legal actions (len(rows),) in these running games, and play on."""
        self.length[rows] += 1
        _step_rows(self.games, rows, actions, self.rules)
        self._play_opponents(rows)

    def forfeit(self, rows: np.ndarray) -> None:
        """End these games as lost by the learner: a reward of -1."""
        self.length[rows] += 1
        self.reward[rows] = -1
        self.terminated[rows] = True
        self.is_forfeited[rows] = True
        self.action_mask[rows] = 0
        self.action_mask[rows, PASS] = 1

    def _play_opponents(self, rows: np.ndarray) -> None:
        """Let the others act in these rows until the learner is to move or the game is over."""
        while True:
            waits = np.empty(len(rows), np.bool_)
            _look(
                self.games,
                rows,
                self.rules,
                self.seat,
                self.observation,
                self.action_mask,
                self.reward,
                self.terminated,
                self.truncated,
                waits,
            )
            rows = rows[waits]
            if not len(rows):
                return
            _step_rows(self.games, rows, self._ask(rows), self.rules)

    def _ask(self, rows: np.ndarray) -> np.ndarray:
        """The actions (len(rows),) of the opponents that are to move in these rows."""
        player = self.games["player"][rows]
        opponent = self._opponent[rows, player]
        actions = np.empty(len(rows), np.int32)
        for index in set(opponent.tolist()):
            asked = np.flatnonzero(opponent == index)
            actions[asked] = self._answer(self._agents[index], rows[asked], player[asked])
        return actions

    def _answer(self, agent: Agent, rows: np.ndarray, player: np.ndarray) -> np.ndarray:
        shown = np.empty(len(rows), GAME)
        is_trusted = type(agent) in _TRUSTED
        _show(self.games, rows, self.rules, self._num_asked, is_trusted, shown)
        game_id = self._game_id[rows] * self.rules.num_players + player
        actions = np.asarray(agent.act(shown, self.rules, game_id))
        if actions.shape != rows.shape or actions.dtype.kind not in "iu":
            raise SplendorError(
                f"agent {agent.name!r} must answer with {len(rows)} integers, "
                f"not with {actions.dtype} of shape {actions.shape}"
            )
        wrong = -1 if is_trusted else _find_illegal(self.games, rows, actions, self.rules)
        if wrong >= 0:
            mask = np.empty((1, NUM_ACTIONS), np.int8)
            write_action_masks(self.games[rows[wrong : wrong + 1]], self.rules, mask)
            action = int(actions[wrong])
            failure = failure_of(agent, int(game_id[wrong]), action)
            message = failure or illegal_action_message(action, mask[0])
            raise IllegalActionError(f"agent {agent.name!r}: {message}")
        return actions

    def random_actions(self, rows: np.ndarray) -> np.ndarray:
        """A legal action (len(rows),) int32 for each of these games, by its seed and length."""
        actions = np.empty(len(rows), np.int32)
        position = MAX_PLAYERS + 1 + self.length[rows]  # behind the draws of `put`
        _write_random(self.games[rows], self.rules, position, actions)
        return actions

    def about(self, rows: np.ndarray) -> dict[str, list[Any]]:
        """What these finished games were, for an `info`: lists of plain numbers and names."""
        num_players = self.rules.num_players
        games, seats = self.games[rows], self.seat[rows].tolist()
        shares = np.zeros((len(rows), num_players))
        _write_final_shares(games, self.rules, shares)
        agents = [[self._agents[index].name for index in row] for row in self._opponent[rows]]
        return {
            "winners": [np.flatnonzero(share).tolist() for share in shares],
            "points": games["points"][:, :num_players].tolist(),
            "rounds": games["rounds"].tolist(),
            "end_reason": [_END_NAME[reason] for reason in games["end_reason"].tolist()],
            "seat": seats,
            "opponents": [
                (*names[seat + 1 :], *names[:seat])
                for names, seat in zip(agents, seats, strict=True)
            ],
        }


_END_NAME = {reason: reason.name.lower() for reason in EndReason} | {
    EndReason.RUNNING: "illegal_action"
}


class _RandomOpponent:
    """A uniformly random legal action, drawn by the seed of the position that it is shown."""

    name = "random"

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        actions = np.empty(len(games), np.int32)
        _write_random(games, rules, np.zeros(len(games), np.int64), actions)
        return actions


_TRUSTED = (_RandomOpponent, GreedyAgent)
"""Agents known to choose by what the mover sees: nothing has to be hidden from them."""


def _make_opponent(agent: Any, seed: int) -> Agent:
    if agent == "random":
        return _RandomOpponent()
    if not isinstance(agent, str) and not hasattr(agent, "act"):
        raise SplendorError(f"opponents must be agents or their specs, not {agent!r}")
    return make_agent(agent, seed) if isinstance(agent, str) else agent


@jit
def _step_rows(games, rows, actions, rules):
    for k in range(rows.shape[0]):
        step(games[rows[k]], actions[k], rules, -1)


@jit
def _look(games, rows, rules, seat, observation, action_mask, reward, terminated, truncated, waits):
    """Write what the learners get in these rows where they decide or the game is over.

    `waits` (len(rows),) tells where another seat is to move.
    """
    paid = np.empty(MAX_PLAYERS)
    for k in range(rows.shape[0]):
        row = rows[k]
        game = games[row]
        reward[row] = 0
        is_over = game.end_reason != EndReason.RUNNING
        waits[k] = not is_over and game.player != seat[row]
        if waits[k]:
            continue
        observe(game, rules, seat[row], observation[row])
        write_action_mask(game, rules, action_mask[row])
        if is_over:
            truncated[row] = game.end_reason == EndReason.ROUND_LIMIT
            terminated[row] = not truncated[row]
            action_mask[row, PASS] = 1
            returns(game, rules, paid)
            reward[row] = paid[seat[row]]


@jit
def _show(games, rows, rules, num_asked, is_trusted, out):
    """Write copies of these games, each with a seed of this answer's own, into `out`.

    All that the mover cannot see is drawn anew, unless `is_trusted`.
    """
    for k in range(rows.shape[0]):
        row = rows[k]
        out[k] = games[row]
        seed = hash_seed(games[row].seed, HIDDEN_STREAM, num_asked[row])
        num_asked[row] += 1
        if is_trusted:
            out[k].seed = seed
        else:
            determinize(out[k], rules, out[k].player, seed)


@jit
def _find_illegal(games, rows, actions, rules):
    """Index of the first action that is illegal in its row, or -1."""
    for k in range(rows.shape[0]):
        if not is_legal(games[rows[k]], actions[k], rules):
            return k
    return -1


@jit
def _write_draws(seeds, out):
    """Write uniform numbers in [0, 1) for each game's seed into `out` (B, K)."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = (hash_seed(seeds[i], CHOICE_STREAM, k) >> np.uint64(11)) * 2.0**-53


@jit
def _write_random(games, rules, position, out):
    """Write a random legal action for each game, hashed from its seed and `position` (B,)."""
    for i in range(games.shape[0]):
        out[i] = choose_random(games[i], rules, games[i].seed, position[i])


@jit
def _write_final_shares(games, rules, out):
    """Write the shares of the victory (B, N) of finished games; zero where there is no result."""
    for i in range(games.shape[0]):
        if games[i].end_reason in (EndReason.TARGET, EndReason.STALEMATE):
            victory_shares(games[i], rules, out[i])
