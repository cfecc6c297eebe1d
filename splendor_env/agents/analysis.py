"""One game and one agent: its move, and what it thinks of a position.

Agents are shown what the seat to move sees, as in the arena.
"""

from itertools import count
from typing import Any

import numpy as np

from splendor_env.agents.onnx import PretrainedAgent
from splendor_env.agents.registry import failure_of
from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.batch import observe_movers, write_victory_shares
from splendor_env.core.random import HIDDEN_STREAM, hash_seed, secret_key
from splendor_env.core.state import EndReason, Rules, SplendorError
from splendor_env.game import Game
from splendor_env.search.lookahead import LookaheadAgent
from splendor_env.search.mcts import SearchAgent
from splendor_env.search.policy import log_softmax, softmax

_NUM_LINES = 3
_LINE_LENGTH = 8
_NUMBERS = count(1)
"""Of analyses; their negatives are game ids, which no game at a table has."""
_MOST_SIMULATIONS = 500_000
"""Of all positions of a replay together: some ten seconds to minutes."""


class RefusedError(SplendorError):
    """A question that this module does not put to the agent; the words are its own."""


def shown_to_mover(game: Game) -> Game:
    """A copy in which all that the seat to move cannot see is drawn anew."""
    key = secret_key(game.games["seed"][0])
    seed = hash_seed(key, HIDDEN_STREAM, len(game.history))
    return game.determinize(game.player, int(seed))


def choose(agent: Any, shown: Game, game_id: int) -> int:
    """The agent's action for the seat to move.

    Args:
        agent: The agent.
        shown: Of `shown_to_mover`.
        game_id: The same for all moves of this seat in this game, and for no others.

    Raises:
        SplendorError: It has none, or an illegal one.
    """
    action = int(agent.act(shown.games.copy(), shown.rules, np.array([game_id], np.int64))[0])
    if action not in shown.legal_actions:
        reason = failure_of(agent, game_id, action) or f"illegal action {action}"
        raise SplendorError(f"{agent.name} has failed: {reason}")
    return action


def analyse(agent: Any, shown: Game) -> dict[str, Any]:
    """What an agent thinks of the position of the seat to move.

    Args:
        agent: Any agent; of one that only acts, its move is told.
        shown: Of `shown_to_mover`.

    Returns:
        `choice`, the move that the agent would make; `moves`, likeliest first, each with
        `probability` (of a search, its share of the visits) and the mover's `win_share`
        afterwards; `win_shares` by seat; `lines` of moves. What the agent does not know is None or
        empty.
    """
    game_id = -next(_NUMBERS)
    try:
        return _analyse(agent, shown, game_id)
    finally:
        # By the protocol that is an end without a winner.
        end_game(agent, game_id, ending(shown, "round_limit", []))


def _analyse(agent: Any, shown: Game, game_id: int) -> dict[str, Any]:
    games, rules = shown.games, shown.rules
    observation, mask = observe_movers(games, rules)
    q = np.full(mask.shape, np.nan)
    win_shares: list[float] | None = None
    lines: list[list[int]] = []
    if isinstance(agent, SearchAgent):
        result = agent.search.run(games, rules, np.array([game_id]))
        lines = agent.search.best_lines(game_id, _NUM_LINES, _LINE_LENGTH)
        probability = result.visits / result.visits.sum()
        choice = int(result.action[0])
        q = np.where(result.visits > 0, result.q, np.nan)
        win_shares = result.value[0].tolist()
    elif isinstance(agent, LookaheadAgent):
        probability = softmax(agent.scores(games, rules))
        choice = int(probability.argmax())
    elif (evaluate := _network(agent, rules)) is not None:
        logits, shares = evaluate(observation)
        probability = np.exp(log_softmax(np.asarray(logits, np.float64), mask == 1))
        choice = int(probability.argmax())
        win_shares = _by_seat(shares, games["player"], rules)[0].tolist()
    else:
        probability = np.zeros(mask.shape)
        choice = choose(agent, shown, game_id)
        probability[0, choice] = 1.0
    if not np.isfinite([*probability[0], *(win_shares or [])]).all():
        raise SplendorError(f"{agent.name} has failed: it answers with what is no number")
    actions = np.flatnonzero(probability[0])
    # The last candidates of a search may have equal visits.
    order = np.lexsort((actions != choice, -probability[0, actions]))
    actions = actions[order].tolist()
    return {
        "choice": ACTION_NAMES[choice],
        "moves": [
            {
                "move": ACTION_NAMES[action],
                "probability": float(probability[0, action]),
                "win_share": None if np.isnan(q[0, action]) else float(q[0, action]),
            }
            for action in actions
        ],
        "win_shares": win_shares,
        "lines": [
            [ACTION_NAMES[action] for action in line]
            for line in sorted(lines, key=lambda line: actions.index(line[0]))
        ],
    }


def win_shares(agent: Any, positions: np.ndarray, rules: Rules) -> np.ndarray:
    """Each seat's chances (T, N) in positions (T,) GAME, from what their movers see.

    Raises:
        RefusedError: The agent cannot say, or it would think for too long.
        SplendorError: It answers with what is no number.
    """
    shares = np.empty((len(positions), rules.num_players))
    write_victory_shares(positions, rules, shares)
    is_open = positions["end_reason"] == EndReason.RUNNING
    open_ = positions[is_open]
    if len(open_) == 0:
        return shares
    if isinstance(agent, SearchAgent):
        settings = agent.search.settings
        if settings.milliseconds or settings.num_simulations * len(open_) > _MOST_SIMULATIONS:
            raise RefusedError(f"it would think too long about {len(open_)} positions")
        shares[is_open] = agent.search.run(open_, rules).value
    elif (evaluate := _network(agent, rules)) is not None:
        seen = evaluate(observe_movers(open_, rules)[0])[1]
        shares[is_open] = _by_seat(seen, open_["player"], rules)
    else:
        raise RefusedError("it does not say how likely the seats are to win")
    if not np.isfinite(shares).all():
        raise SplendorError(f"{agent.name} has failed: it answers with what is no number")
    return shares


def end_game(agent: Any, game_id: int, result: dict[str, Any]) -> None:
    """Tell an agent, if it wants to know, that nobody will ask about a game any more."""
    if hasattr(agent, "end_games"):
        agent.end_games(np.array([game_id]), [result])


def ending(game: Game, end_reason: str, winners: list[int]) -> dict[str, Any]:
    """What `Agent.end_games` is told of a game."""
    return {
        "end_reason": end_reason,
        "rounds": game.rounds,
        "points": game.points,
        "winners": winners,
    }


def _network(agent: Any, rules: Rules) -> Any:
    """What evaluates observations for an agent, if anything does."""
    if isinstance(agent, PretrainedAgent):
        return agent.policy(rules.num_players).evaluate
    return getattr(agent, "evaluate", None)


def _by_seat(shares: np.ndarray, player: np.ndarray, rules: Rules) -> np.ndarray:
    """Shares (B, 4), the mover's first, as (B, N) by seat that add up to 1."""
    seat = np.arange(rules.num_players)
    offset = (seat - player[:, None].astype(np.int64)) % rules.num_players
    own = np.take_along_axis(np.asarray(shares, np.float64), offset, 1)
    return own / own.sum(1, keepdims=True)
