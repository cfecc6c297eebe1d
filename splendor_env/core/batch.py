"""Many games at once: preallocated arrays and one compiled call for a step of all of them.

Also the array forms of the core functions, for Python callers: a call on an array of games costs
about a microsecond, records pass only between compiled functions.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splendor_env.core import hidden, observation, rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS, WORD_BITS
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import SEED_STREAM, check_seed, hash_seed
from splendor_env.core.state import (
    GAME,
    EndReason,
    IllegalActionError,
    Rules,
    SplendorError,
    check_rules,
)


@jit
def deal_games(games, rules_, seed):
    """Deal every game of `games` (B,): game i from the i-th seed derived from `seed` (uint64)."""
    for i in range(games.shape[0]):
        rules.deal(games[i], rules_, hash_seed(seed, SEED_STREAM, i))


@jit
def deal_numbered(games, rules_, seed, numbers):
    """Deal `games[i]` as `deal_games` would the game with the index `numbers[i]` (B,) int64."""
    for i in range(games.shape[0]):
        rules.deal(games[i], rules_, hash_seed(seed, SEED_STREAM, numbers[i]))


@jit
def deal_each(games, rules_, seeds):
    """Deal each of `games` (B,) from its own seed (B,) uint64, as `deal_games` would it alone."""
    for i in range(games.shape[0]):
        rules.deal(games[i], rules_, hash_seed(seeds[i], SEED_STREAM, 0))


@jit
def step_games(games, actions, rules_, draw):
    """Apply actions (B,) to games (B,); -1 leaves a game alone. `draw` as in `rules.step`."""
    for i in range(games.shape[0]):
        if actions[i] >= 0:
            rules.step(games[i], actions[i], rules_, draw)


@jit
def observe_games(games, rules_, observers, out):
    """Write what seat `observers[i]` sees of `games[i]` into `out` (B, D) float32."""
    for i in range(games.shape[0]):
        observation.observe(games[i], rules_, observers[i], out[i])


@jit
def write_action_masks(games, rules_, out):
    """Write the legal actions of each seat to move into `out` (B, A) int8, 0 or 1."""
    for i in range(games.shape[0]):
        write_action_mask(games[i], rules_, out[i])


@jit
def write_action_mask(game, rules_, out):
    """Write the legal actions of the seat to move into `out` (A,) int8; all 0 after the end."""
    low, high = rules.legal_actions(game, rules_)
    for action in range(WORD_BITS):
        out[action] = np.int8((low >> np.uint64(action)) & np.uint64(1))
    for action in range(WORD_BITS, NUM_ACTIONS):
        out[action] = np.int8((high >> np.uint64(action - WORD_BITS)) & np.uint64(1))


@jit
def hash_seeds(seeds, stream, positions, out):
    """Write `hash_seed` of seeds (B,) uint64 and positions (B,) int64 into `out` (B,) uint64."""
    for i in range(seeds.shape[0]):
        out[i] = hash_seed(seeds[i], stream, positions[i])


def observe_movers(games: np.ndarray, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """What the seat to move sees of each of `games` (B,), and its legal actions.

    Returns:
        (B, D) float32 and (B, A) int8, new arrays.
    """
    games = np.ascontiguousarray(games)
    observation = np.empty((len(games), OBSERVATION_SIZE), np.float32)
    action_mask = np.empty((len(games), NUM_ACTIONS), np.int8)
    observe_games(games, rules, np.ascontiguousarray(games["player"]), observation)
    write_action_masks(games, rules, action_mask)
    return observation, action_mask


@jit
def determinize_games(games, rules_, observers, seeds):
    """In each game replace what seat `observers[i]` cannot see by a draw from `seeds[i]`."""
    for i in range(games.shape[0]):
        hidden.determinize(games[i], rules_, observers[i], seeds[i])


@jit
def hash_positions(games, out):
    """Write the stable hash of each position into `out` (B,) uint64."""
    for i in range(games.shape[0]):
        out[i] = hidden.position_hash(games[i])


@jit
def write_returns(games, rules_, out):
    """Write the rewards (B, N) of finished games; zero where there is no result."""
    for i in range(games.shape[0]):
        rules.returns(games[i], rules_, out[i])


@jit
def write_victory_shares(games, rules_, out):
    """Write the shares of the victory (B, N); 1/N where there is no result."""
    for i in range(games.shape[0]):
        rules.victory_shares(games[i], rules_, out[i])


@jit
def _refresh(games, rows, rules_, observation_, action_mask, player):
    for row in rows:
        game = games[row]
        observation.observe(game, rules_, game.player, observation_[row])
        write_action_mask(game, rules_, action_mask[row])
        player[row] = game.player


@jit
def _find_illegal(games, actions, rules_):
    """Index of the first game whose action is illegal (-1 is allowed), or -1."""
    for i in range(games.shape[0]):
        if actions[i] != -1 and not rules.is_legal(games[i], actions[i], rules_):
            return i
    return -1


@jit
def _step(
    games,
    actions,
    rules_,
    auto_reset,
    observation_,
    final_observation,
    action_mask,
    player,
    reward,
    terminated,
    truncated,
):
    """`Batch.step` on a slice of rows."""
    for i in range(games.shape[0]):
        game = games[i]
        reward[i, :] = 0
        if auto_reset:
            terminated[i] = False
            truncated[i] = False
        if actions[i] < 0:
            continue
        rules.step(game, actions[i], rules_, -1)
        if game.end_reason != EndReason.RUNNING:
            truncated[i] = game.end_reason == EndReason.ROUND_LIMIT
            terminated[i] = not truncated[i]
            rules.returns(game, rules_, reward[i])
            if auto_reset:
                observation.observe(game, rules_, game.player, final_observation[i])
                rules.deal(game, rules_, hash_seed(game.seed, SEED_STREAM, 0))
        observation.observe(game, rules_, game.player, observation_[i])
        write_action_mask(game, rules_, action_mask[i])
        player[i] = game.player


class Batch:
    """B games that advance together.

    Attributes (all owned by the batch and overwritten by the next call; copy what must stay):
        rules: Rules, the same for every game, hence one player count.
        games: (B,) GAME, the games themselves.
        observation: (B, D) float32, what the seat to move sees.
        action_mask: (B, A) int8, its legal actions; all 0 only for a game that is over.
        player: (B,) int8, the seat to move.
        reward: (B, N) float32, of the last step, by seat; not zero only when a game ends.
        terminated, truncated: (B,) bool, whether the last step ended the game, by a result or by
            the round limit.
        final_observation: (B, D) float32, with `auto_reset` the end of the game that the last
            step finished, seen by the seat that acted last; elsewhere stale.

    Args:
        rules: The variant.
        num_games: B.
        threads: Rows are shared among this many threads. Results do not depend on it.
        check: Refuse illegal actions before anything changes.
        auto_reset: Deal a new game in place of one that ended, in the same step. Without it a
            finished game waits, and only -1 may be its action, until `reset_where`.

    Raises:
        SplendorError: Nonsense rules, no games or no threads.
    """

    def __init__(
        self,
        rules: Rules,
        num_games: int,
        *,
        threads: int = 1,
        check: bool = False,
        auto_reset: bool = True,
    ) -> None:
        self.rules = check_rules(rules)
        for name, value in (("num_games", num_games), ("threads", threads)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise SplendorError(f"{name} must be an integer of at least 1, not {value!r}")
        self.num_games = num_games
        self.check = check
        self.auto_reset = auto_reset
        self.games = np.zeros(num_games, GAME)
        self.observation = np.zeros((num_games, OBSERVATION_SIZE), np.float32)
        self.final_observation = np.zeros_like(self.observation)
        self.action_mask = np.zeros((num_games, NUM_ACTIONS), np.int8)
        self.player = np.zeros(num_games, np.int8)
        self.reward = np.zeros((num_games, rules.num_players), np.float32)
        self.terminated = np.zeros(num_games, np.bool_)
        self.truncated = np.zeros(num_games, np.bool_)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._slices = [
            slice(num_games * k // threads, num_games * (k + 1) // threads) for k in range(threads)
        ]
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Deal all games anew from `seed` (64 bits): game i does not depend on how many there are.

        Raises:
            SplendorError: Not such a seed.
        """
        deal_games(self.games, self.rules, check_seed(seed))
        self.reward[:] = 0
        self.terminated[:] = False
        self.truncated[:] = False
        self.refresh()

    def reset_where(self, rows: np.ndarray) -> None:
        """Deal the next game in the given rows ((B,) bool, or indices)."""
        rows = np.arange(self.num_games)[rows]
        games = self.games[rows]
        deal_each(games, self.rules, games["seed"].copy())
        self.games[rows] = games
        self.reward[rows] = 0
        self.terminated[rows] = False
        self.truncated[rows] = False
        self.refresh(rows)

    def refresh(self, rows: np.ndarray | slice = slice(None)) -> None:
        """Recompute observation, action_mask and player after `games` was changed from outside."""
        rows = np.arange(self.num_games)[rows]
        _refresh(self.games, rows, self.rules, self.observation, self.action_mask, self.player)

    def step(self, actions: np.ndarray) -> None:
        """Apply `actions` (B,) int32, one for the seat to move in each game; -1 skips a game.

        Raises:
            SplendorError: Not B integers.
            IllegalActionError: With `check`, and then no game has changed.
        """
        actions = np.asarray(actions)
        if actions.shape != (self.num_games,) or actions.dtype.kind not in "iu":
            raise SplendorError(
                f"actions must be {self.num_games} integers, not {actions.dtype} of shape "
                f"{actions.shape}"
            )
        if self.check:
            # As int64 a huge uint64 would pass for -1.
            limited = np.minimum(actions, NUM_ACTIONS).astype(np.int64)
            illegal = _find_illegal(self.games, limited, self.rules)
            if illegal >= 0:
                raise IllegalActionError(
                    illegal_action_message(int(actions[illegal]), self.action_mask[illegal])
                    + f" (game {illegal} of the batch)"
                )
        actions = actions.astype(np.int32)
        if self._pool is None:
            self._step_rows(self._slices[0], actions)
        else:
            list(self._pool.map(lambda rows: self._step_rows(rows, actions), self._slices))

    def _step_rows(self, rows: slice, actions: np.ndarray) -> None:
        _step(
            self.games[rows],
            actions[rows],
            self.rules,
            self.auto_reset,
            self.observation[rows],
            self.final_observation[rows],
            self.action_mask[rows],
            self.player[rows],
            self.reward[rows],
            self.terminated[rows],
            self.truncated[rows],
        )

    def observe(self, seat: int | np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """What a seat, or one seat for each game (B,), sees: (B, D) float32, new unless `out`.

        Raises:
            SplendorError: There is no such seat.
        """
        observers = np.broadcast_to(np.asarray(seat), self.num_games)
        if not np.isin(observers, np.arange(self.rules.num_players)).all():
            raise SplendorError(f"seat must be 0 to {self.rules.num_players - 1}, not {seat!r}")
        if out is None:
            out = np.empty_like(self.observation)
        observe_games(self.games, self.rules, observers.astype(np.int8), out)
        return out


def illegal_action_message(action: object, action_mask: np.ndarray) -> str:
    """What is wrong with an action and what would be legal."""
    legal = [ACTION_NAMES[index] for index in np.flatnonzero(action_mask)]
    in_range = isinstance(action, int | np.integer) and 0 <= action < NUM_ACTIONS
    name = f" ({ACTION_NAMES[int(action)]!r})" if in_range else ""  # type: ignore[call-overload]
    return f"illegal action {action!r}{name}; legal: {', '.join(legal) or 'none, the game is over'}"
