"""Games between agents: any seating, every seat in turn, nobody able to peek by mistake.

A deal depends on the seed and its own number alone: all who play the same numbers meet the same
deals. All games that wait for the same agent are answered in one call. `workers` plays in several
processes, `files` keeps the games.

An agent is shown copies without what its seat cannot see, and nothing in them leads back to the
match's seed. This keeps honest agents honest. It does not stop one that sets out to cheat: a small
seed can be guessed, the games of a deal share the order of its cards, and an agent that is no
program of its own runs in the process that holds the true games.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from splendor_env.agents import Agent
from splendor_env.agents.registry import failure_of
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import (
    deal_numbered,
    determinize_games,
    hash_seeds,
    illegal_action_message,
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.random import HIDDEN_STREAM, check_seed, secret_key
from splendor_env.core.state import (
    GAME,
    MAX_PLAYERS,
    EndReason,
    Rules,
    SplendorError,
    check_rules,
)

GAME_RESULT = np.dtype(
    [
        ("deal", np.int64),  # number of the deal
        ("agents", np.int16, MAX_PLAYERS),  # index of the agent by seat, or -1
        ("share", np.float64, MAX_PLAYERS),  # of the victory, by seat
        ("points", np.int8, MAX_PLAYERS),  # prestige, by seat
        ("num_cards", np.int8, MAX_PLAYERS),  # bought, by seat
        ("nobles", np.int8, MAX_PLAYERS),  # won, by seat
        ("rounds", np.int16),  # begun
        ("end_reason", np.int8),  # EndReason; RUNNING where forfeited
        ("offender", np.int8),  # seat that has forfeited, or -1
        ("has_failed", np.bool_),  # forfeited without any action, else by an illegal one
        ("decisions", np.int32, MAX_PLAYERS),  # asked for, by seat
        ("seconds", np.float64, MAX_PLAYERS),  # spent on them, by seat
    ]
)
"""One game as a row of a table. Unused seats hold zero, or -1 in `agents`.

The share of k winners is 1/k each; 1/N where truncated. A seat that forfeits has 0, the others
share. The time of a call of `act` is split evenly among its games.
"""

MAX_GAMES = 1_000_000
"""All games of a match lie in memory at once."""

MAX_GAMES_AT_ONCE = 1024
"""Games under way, if nothing else is asked for."""

_MAX_NAMED = 5
"""Games named in a message."""

Progress = Callable[[int, int], None]
"""Called with the games finished and the games in all."""


class Seating(NamedTuple):
    """Who sits where in G games of N seats."""

    seats: np.ndarray
    """(G, N) int16, index of the agent in each seat; seat 0 moves first."""
    deal: np.ndarray
    """(G,) int64, number of the deal."""


class Games(NamedTuple):
    """G finished games."""

    results: np.ndarray
    """(G,) GAME_RESULT."""
    deals: np.ndarray
    """(G,) GAME, as dealt."""
    actions: list[np.ndarray]
    """Of each game (T,) int8, the legal ones."""
    notes: dict[int, str]
    """What went wrong in the forfeited games, by index."""


def one_against_rest(rules: Rules, num_games: int) -> Seating:
    """Seat agent 0 once in every seat of each deal, agent 1 in all others.

    Args:
        rules: Says how many play.
        num_games: At least this many; see `num_deals_of`.

    Raises:
        SplendorError: Not such a number.
    """
    num_players = rules.num_players
    num_deals = num_deals_of(num_games, num_players)
    rotations = 1 - np.eye(num_players, dtype=np.int16)
    return Seating(np.tile(rotations, (num_deals, 1)), np.repeat(np.arange(num_deals), num_players))


def mixed_tables(num_agents: int, rules: Rules, num_games: int, seed: int) -> Seating:
    """Seat N different agents at each deal, drawn at random, in all N rotations.

    The numbers of deals that two agents play differ by one at most. More games begin with the same
    tables.

    Args:
        num_agents: Agents to draw from.
        rules: Says how many play.
        num_games: As for `one_against_rest`.
        seed: Of the draw, 64 bits.

    Raises:
        SplendorError: Fewer agents than seats, or not such a number.
    """
    num_players = rules.num_players
    if num_agents < num_players:
        raise SplendorError(
            f"a mixed table of {num_players} needs as many different agents, not {num_agents}"
        )
    num_deals = num_deals_of(num_games, num_players)
    generator = np.random.default_rng(int(check_seed(seed)))
    num_played = np.zeros(num_agents, np.int64)
    rotations = (np.arange(num_players)[:, None] + np.arange(num_players)) % num_players
    seats = np.empty((num_deals, num_players, num_players), np.int16)
    for deal in range(num_deals):
        fewest_first = np.lexsort((generator.random(num_agents), num_played))
        table = generator.permutation(fewest_first[:num_players])
        num_played[table] += 1
        seats[deal] = table[rotations]
    return Seating(seats.reshape(-1, num_players), np.repeat(np.arange(num_deals), num_players))


def num_deals_of(num_games: object, num_players: int) -> int:
    """How many deals it takes to play so many games, each deal once for every seat.

    Raises:
        SplendorError: Not an integer from 1 to `MAX_GAMES`, rounded down to whole deals.
    """
    most = MAX_GAMES // num_players * num_players
    is_integer = isinstance(num_games, int | np.integer) and not isinstance(num_games, bool)
    if not is_integer or not 1 <= num_games <= most:  # type: ignore[operator]
        raise SplendorError(f"games must be an integer 1 to {most}, not {num_games!r}")
    return -(-int(num_games) // num_players)  # type: ignore[call-overload]


def play_games(
    agents: Sequence[Agent],
    seating: Seating,
    rules: Rules,
    seed: int = 0,
    *,
    games_at_once: int = MAX_GAMES_AT_ONCE,
    progress: Progress | None = None,
) -> Games:
    """Play every game of a seating in this process.

    Args:
        agents: They get copies of the games in which all that the mover cannot see is drawn anew,
            and a `game_id` for each pair of game and seat, so that the copies of one agent in one
            game do not share what they know.
        seating: Who plays which deal.
        rules: The variant, the same for all games.
        seed: 64 bits. Equal seeds give equal deals.
        games_at_once: Games under way, hence the most that one `act` is asked about. The results
            do not depend on it as long as the agents' choices do not.
        progress: Called whenever games have finished.

    Raises:
        SplendorError: An argument is out of range, or an agent has raised an exception or does not
            answer with B integers.
    """
    rules = check_rules(rules)
    seating = check_seating(seating, len(agents), rules)
    if games_at_once < 1:
        raise SplendorError(f"games_at_once must be at least 1, not {games_at_once}")
    play = Play(agents, seating, rules, check_seed(seed), np.arange(len(seating.deal)))
    return play.run(games_at_once, progress)


def check_seating(seating: Seating, num_agents: int, rules: Rules) -> Seating:
    """The seating as arrays of its types.

    Raises:
        SplendorError: It is none for so many agents and these rules.
    """
    seats, deal = np.asarray(seating.seats), np.asarray(seating.deal)
    if not 1 <= len(deal) <= MAX_GAMES:
        raise SplendorError(f"a seating must have 1 to {MAX_GAMES} games, not {len(deal)}")
    are_integers = seats.dtype.kind in "iu" and deal.dtype.kind in "iu"
    if not are_integers or seats.shape != (len(deal), rules.num_players) or deal.ndim != 1:
        raise SplendorError(
            f"a seating of {rules.num_players} players must be (G, {rules.num_players}) integers "
            f"and (G,) integers, not {seats.dtype} {seats.shape} and {deal.dtype} {deal.shape}"
        )
    if seats.min() < 0 or seats.max() >= num_agents or deal.min() < 0:
        raise SplendorError(f"seats must hold 0 to {num_agents - 1}, and deals count from 0")
    return Seating(seats.astype(np.int16), deal.astype(np.int64))


def ask(agent: Agent, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
    """The answer (B,) int64 of an agent, an integer for each game but maybe no legal action.

    Raises:
        SplendorError: The agent has raised an exception, or answers with something else.
    """
    try:
        actions = np.asarray(agent.act(games, rules, game_id))
    except SplendorError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        named = ", ".join(map(str, game_id[:_MAX_NAMED]))
        more = f" and {len(game_id) - _MAX_NAMED} more" if len(game_id) > _MAX_NAMED else ""
        raise SplendorError(
            f"agent {agent.name!r} has raised {type(error).__name__}: {error} "
            f"({Path(frame.filename).name}, line {frame.lineno}), asked about game_id {named}{more}"
        ) from error
    if actions.shape != game_id.shape or actions.dtype.kind not in "iu":
        raise SplendorError(
            f"agent {agent.name!r} must answer with {len(game_id)} integers, "
            f"not with {actions.dtype} of shape {actions.shape}"
        )
    return actions.astype(np.int64)


class Play:
    """Some games of a match, from their deals to their ends; a game is known by its `number`."""

    def __init__(
        self,
        agents: Sequence[Agent],
        seating: Seating,
        rules: Rules,
        seed: np.uint64,
        number: np.ndarray,
    ) -> None:
        num_games = len(number)
        deal = seating.deal[number]
        self.agents = agents
        self.rules = rules
        self.number = number
        self.seats = seating.seats[number]
        self.deals = np.zeros(num_games, GAME)
        deal_numbered(self.deals, rules, seed, deal)
        self.games = self.deals.copy()
        self.is_over = np.zeros(num_games, np.bool_)
        self.num_decisions = np.zeros(num_games, np.int64)
        # By deal, not by game: in every seat the same agent meets the same imagined cards.
        self.hidden_seed = np.empty(num_games, np.uint64)
        key = np.full(num_games, secret_key(seed))
        hash_seeds(key, HIDDEN_STREAM, deal, self.hidden_seed)
        self.results = np.zeros(num_games, GAME_RESULT)
        self.results["deal"] = deal
        self.results["agents"] = -1
        self.results["agents"][:, : rules.num_players] = self.seats
        self.results["offender"] = -1
        self.notes: dict[int, str] = {}
        self._rows_acted: list[np.ndarray] = []  # of each call of `act`
        self._actions: list[np.ndarray] = []

    def run(self, games_at_once: int, progress: Progress | None) -> Games:
        """Play every game to its end, at most `games_at_once` at a time."""
        num_games = len(self.games)
        under_way = np.arange(min(games_at_once, num_games))
        num_started = len(under_way)
        while len(under_way):
            for agent in range(len(self.agents)):
                self._act(agent, under_way[self._agent_to_move(under_way) == agent])
            is_over = self.is_over[under_way]
            if not is_over.any():
                continue
            self._finish(under_way[is_over])
            num_next = min(int(is_over.sum()), num_games - num_started)
            next_games = np.arange(num_started, num_started + num_next)
            under_way = np.concatenate((under_way[~is_over], next_games))
            num_started += num_next
            if progress is not None:
                progress(num_started - len(under_way), num_games)
        notes = dict(sorted(self.notes.items()))
        return Games(self.results, self.deals, self._actions_by_game(), notes)

    def _agent_to_move(self, rows: np.ndarray) -> np.ndarray:
        """Who decides in these games; -1 where the game is over."""
        agent = self.seats[rows, self.games["player"][rows]]
        return np.where(self.is_over[rows], -1, agent)

    def _act(self, agent: int, rows: np.ndarray) -> None:
        """Let one agent decide once in each of these games."""
        if len(rows) == 0:
            return
        games = self.games[rows]
        player = games["player"].copy()
        actions = self._ask(agent, rows, games)
        mask = np.empty((len(rows), NUM_ACTIONS), np.int8)
        write_action_masks(games, self.rules, mask)
        in_range = (actions >= 0) & (actions < NUM_ACTIONS)
        is_legal = in_range & (mask[np.arange(len(rows)), np.where(in_range, actions, 0)] == 1)
        step_games(games, np.where(is_legal, actions, -1).astype(np.int32), self.rules, -1)
        self.games[rows] = games
        self.is_over[rows] = ~is_legal | (games["end_reason"] != EndReason.RUNNING)
        self.num_decisions[rows] += 1
        self.results["decisions"][rows, player] += 1
        self._rows_acted.append(rows[is_legal].astype(np.int32))
        self._actions.append(actions[is_legal].astype(np.int8))
        for index in np.flatnonzero(~is_legal):
            row, seat = rows[index], player[index]
            self.results["offender"][row] = seat
            self._note(agent, row, seat, int(actions[index]), mask[index])

    def _ask(self, agent: int, rows: np.ndarray, games: np.ndarray) -> np.ndarray:
        """The agent's actions (B,) for copies of the games without the mover's unknowns."""
        shown = games.copy()
        player = games["player"].copy()
        seeds = np.empty(len(rows), np.uint64)
        hash_seeds(self.hidden_seed[rows], HIDDEN_STREAM, self.num_decisions[rows], seeds)
        determinize_games(shown, self.rules, player, seeds)
        start = time.perf_counter()
        actions = ask(self.agents[agent], shown, self.rules, self._game_id(rows, player))
        seconds = time.perf_counter() - start
        self.results["seconds"][rows, player] += seconds / len(rows)
        return actions

    def _game_id(self, rows: Any, seats: Any) -> Any:
        """A number for each pair of game and seat."""
        return self.number[rows] * self.rules.num_players + seats

    def _note(self, agent: int, row: int, seat: int, action: int, mask: np.ndarray) -> None:
        """Keep why a game is forfeited."""
        failure = failure_of(self.agents[agent], int(self._game_id(row, seat)), action)
        self.results["has_failed"][row] = failure is not None
        note = illegal_action_message(action, mask) if failure is None else failure
        self.notes[int(self.number[row])] = note

    def _finish(self, rows: np.ndarray) -> None:
        """Note the outcome of these games and tell it to those agents that want to know."""
        results = self.results[rows]
        _write_outcomes(self.games[rows], self.rules, results)
        self.results[rows] = results
        tells = [getattr(agent, "end_games", None) for agent in self.agents]
        if not any(tells):
            return
        ends = [_describe_end(result, self.rules.num_players) for result in results]
        for agent, tell in enumerate(tells):
            of_agent, seats = np.nonzero(self.seats[rows] == agent)
            if tell is not None and len(seats):
                tell(self._game_id(rows[of_agent], seats), [ends[index] for index in of_agent])

    def _actions_by_game(self) -> list[np.ndarray]:
        rows, actions = np.concatenate(self._rows_acted), np.concatenate(self._actions)
        by_game = actions[np.argsort(rows, kind="stable")]
        num_actions = np.bincount(rows, minlength=len(self.games))
        return np.split(by_game, np.cumsum(num_actions)[:-1])


def _write_outcomes(games: np.ndarray, rules: Rules, results: np.ndarray) -> None:
    """Write what the last positions of games (B,) say into `results`, whose offenders are known."""
    num_players = rules.num_players
    share = np.zeros((len(games), num_players))
    write_victory_shares(games, rules, share)
    is_forfeited = results["offender"] >= 0
    share[is_forfeited] = 1 / (num_players - 1)
    share[is_forfeited, results["offender"][is_forfeited]] = 0
    results["share"][:, :num_players] = share
    for field in ("points", "num_cards", "rounds", "end_reason"):
        results[field] = games[field]
    owner = games["noble_owner"]
    results["nobles"] = (owner[:, :, None] == np.arange(MAX_PLAYERS)).sum(1)


def _describe_end(result: np.void, num_players: int) -> dict[str, Any]:
    """What `Agent.end_games` is told."""
    is_forfeited = result["offender"] >= 0
    end_reason = EndReason(result["end_reason"])
    has_winner = is_forfeited or end_reason != EndReason.ROUND_LIMIT
    return {
        "end_reason": "forfeit" if is_forfeited else end_reason.name.lower(),
        "rounds": int(result["rounds"]),
        "points": result["points"][:num_players].tolist(),
        "winners": np.flatnonzero(result["share"]).tolist() if has_winner else [],
    }
