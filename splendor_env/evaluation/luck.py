"""The luck of the draw, and win shares from which it is taken out.

Every card that is turned up or reserved blind is drawn uniformly from its deck, and the decks are
known. So what a draw did to everybody's prospects, less what the draws did on average that could
have come, is luck of mean zero, whoever plays and however well the prospects are judged: the sum
over a game is a martingale. Subtracting it is the chance part of the advantage sum (Zinkevich et
al. 2006, "Optimal Unbiased Estimators for Evaluating Agent Performance") and of AIVAT (Burch et al.
2018); the coefficient, fitted here, makes it an ordinary control variate.

No command prints these figures; they are for one's own analysis of games, as of agent 0 here:

    games = play_games(agents, one_against_rest(rules, 1000), rules)
    luck = luck_of(games.deals, games.actions, None, rules)
    index, seat = np.nonzero(games.results["agents"] == 0)
    controlled_mean(games.results["share"][index, seat], luck[index, seat], games.results["deal"])
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.cards import NUM_LEVELS
from splendor_env.core.state import GAME, Rules, SplendorError
from splendor_env.evaluation.statistics import cluster_bootstrap_interval, cluster_sums
from splendor_env.search.evaluators import NUM_FEATURES, write_shares


class ControlledMean(NamedTuple):
    """A mean share without the luck of the draw.

    Attributes:
        mean: Unbiased, like the plain mean; of the same games, not the same number.
        low, high: Its interval, `cluster_bootstrap_interval`.
        coefficient: What was subtracted for each unit of luck, the mean of two.
        variance_ratio: Variance of this mean over that of the plain one: with 0.8 the games count
            like 1 / 0.8 as many.
    """

    mean: float
    low: float
    high: float
    coefficient: float
    variance_ratio: float


def luck_of(
    deals: np.ndarray,
    actions: Sequence[np.ndarray],
    draws: Sequence[np.ndarray] | None,
    rules_: Rules,
) -> np.ndarray:
    """How much the draws of each game raised each seat's share of the victory, as a guess.

    Sums, over all draws, the shares right after the draw less their mean over all cards of the
    deck. They are guessed as the search guesses them (`search.evaluators.write_shares`), with a
    blind reserve known to all: the draw is uniform given the past, so luck has mean zero all the
    same. The cards of the deal, the nobles and the agents' own chance are not in it.

    Args:
        deals: (G,) GAME, before the first action.
        actions: For each game (T,) integers, all of them legal.
        draws: For each game (T,) the card that each action turned up, or -1 for none; None draws
            by the seeds of the deals, as the games themselves did.
        rules_: The variant.

    Returns:
        (G, N) float64; a row sums to zero.

    Raises:
        SplendorError: An illegal action, or arrays that do not belong together.
    """
    length = [len(one) for one in actions]
    if len(deals) != len(length):
        raise SplendorError(f"{len(deals)} deals do not go with the actions of {len(length)} games")
    if draws is not None and [len(one) for one in draws] != length:
        raise SplendorError("draws must be as many as actions, in each game")
    start = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    flat_actions = _join(actions)
    flat_draws = np.full(len(flat_actions), -1) if draws is None else _join(draws)
    luck = np.zeros((len(deals), rules_.num_players))
    illegal = _write_luck(
        deals.astype(GAME, copy=True), flat_actions, flat_draws, start, rules_, luck
    )
    if illegal >= 0:
        game = int(np.searchsorted(start, illegal, "right")) - 1
        raise SplendorError(
            f"action {flat_actions[illegal]} is illegal as number {illegal - start[game]} of game "
            f"{game}"
        )
    return luck


def controlled_mean(
    share: np.ndarray,
    luck: np.ndarray,
    cluster: np.ndarray,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> ControlledMean:
    """The mean of `share` less what luck explains of it.

    The coefficient for one half of the deals is fitted on the other half: fitted on the same games
    it would depend on their luck, and the mean would be biased.

    Args:
        share: (G,) of the victory.
        luck: (G,) of the same seat, a column of `luck_of` for each game.
        cluster: (G,) integers, the deal of each game.
        confidence: See `cluster_bootstrap_interval`.
        seed: Of the resamples.

    Raises:
        SplendorError: No games, or arrays of different lengths.
    """
    share, luck = np.asarray(share, np.float64), np.asarray(luck, np.float64)
    if len(share) == 0 or not share.shape == luck.shape == np.shape(cluster):
        raise SplendorError(
            f"share, luck and cluster must have one value for each game, not {share.shape}, "
            f"{luck.shape} and {np.shape(cluster)}"
        )
    _, deal = np.unique(cluster, return_inverse=True)
    is_odd = deal % 2 == 1
    coefficient = np.where(
        is_odd,
        _coefficient(share[~is_odd], luck[~is_odd], deal[~is_odd]),
        _coefficient(share[is_odd], luck[is_odd], deal[is_odd]),
    )
    controlled = share - coefficient * luck
    low, high = cluster_bootstrap_interval(controlled, deal, confidence=confidence, seed=seed)
    plain_square = (cluster_sums(share - share.mean(), deal) ** 2).sum()
    square = (cluster_sums(controlled - controlled.mean(), deal) ** 2).sum()
    return ControlledMean(
        float(controlled.mean()),
        low,
        high,
        float(coefficient.mean()),
        float(square / plain_square) if plain_square > 0 else 1.0,
    )


def _coefficient(share: np.ndarray, luck: np.ndarray, deal: np.ndarray) -> float:
    """Slope of the deals' shares on their luck, by least squares; 0 without luck."""
    if len(share) == 0:
        return 0.0
    shares = cluster_sums(share - share.mean(), deal)
    lucks = cluster_sums(luck - luck.mean(), deal)
    square = float(lucks @ lucks)
    return float(shares @ lucks) / square if square > 0 else 0.0


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(part, np.int64) for part in parts] + [np.empty(0, np.int64)])


@jit
def _write_luck(games, actions, draws, start, rules_, out):
    """Replay games (G,), mutated, and add the luck of their draws to `out` (G, N).

    Args:
        games: As dealt.
        actions, draws: (T,) int64, of one game after the other; a draw of -1 is by the seed.
        start: (G + 1,) int64, where each game's actions begin.
        rules_: The variant.
        out: Zeros.

    Returns:
        Index in `actions` of the first illegal one, or -1.
    """
    before = games[:1].copy()
    scratch = games[:1].copy()
    features = np.empty(NUM_FEATURES)
    value = np.empty(rules_.num_players)
    for i in range(games.shape[0]):
        game = games[i]
        for position in range(start[i], start[i + 1]):
            action = actions[position]
            if not rules.is_legal(game, action, rules_):
                return position
            before[0] = game
            rules.step(game, action, rules_, draws[position])
            for level in range(NUM_LEVELS):
                size = np.int64(before[0].deck_size[level])
                if game.deck_size[level] == size:
                    continue
                for index in range(size):
                    scratch[0] = before[0]
                    other = scratch[0]
                    rules.step(other, action, rules_, np.int64(before[0].deck[level, index]))
                    write_shares(other, rules_, features, value)
                    for seat in range(rules_.num_players):
                        out[i, seat] -= value[seat] / size
                write_shares(game, rules_, features, value)
                for seat in range(rules_.num_players):
                    out[i, seat] += value[seat]
    return -1
