"""Ratings from the results of many games; the order of the games does not matter to them.

Bradley and Terry for two players, Plackett and Luce for more, Nash averaging and a list of cycles
of three for what no ladder can show. `results` is an array (G,) of `arena.GAME_RESULT` everywhere.
"""

from typing import NamedTuple

import numpy as np

from splendor_env.core.random import check_seed
from splendor_env.core.state import SplendorError
from splendor_env.evaluation.statistics import (
    Z_95,
    cluster_bootstrap_interval,
)

ELO_PER_LOGIT = 400 / np.log(10)
"""Elo points for each unit of the natural logarithm of the odds."""

_VIRTUAL_GAMES = 0.5
"""Drawn games that each pair which met has played besides."""
_MAX_STEP = 1.0
"""Longest step of Newton's method, in logits: far from the solution the full one overshoots."""
_MAX_NUM_STEPS = 500
_TOLERANCE = 1e-9
_ORDERS_OF_SAMPLE = 4
_LEAST_SHARE = 1e-3
_LEAST_WEIGHT = 1e-5
_SLACK = 1e-6
_BARRIERS = 10.0 ** -np.arange(11)


class Ratings(NamedTuple):
    """Ratings (K,) float64 and their 95 % intervals."""

    rating: np.ndarray
    low: np.ndarray
    high: np.ndarray


class PairShares(NamedTuple):
    """What agent i won against agent j, each (K, K) float64; NaN where they did not meet.

    `low` and `high` are the ends of a 95 % interval, `cluster_bootstrap_interval`; `games` counts.
    """

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    games: np.ndarray


# Two players.


def bradley_terry(
    wins: np.ndarray, games: np.ndarray, anchor: int = 0, anchor_rating: float = 0.0
) -> np.ndarray:
    """Ratings on the Elo scale that make what happened likeliest (Bradley and Terry 1952).

    An agent rated d points higher is promised the share 1 / (1 + 10^(-d / 400)). Shared victories
    count as parts of a win. Half a drawn game is added for every pair that met: else an agent that
    won or lost all its games would have no finite rating. Of two agents alone, 1,000 wins in 1,000
    games become 1,441 points.

    Args:
        wins: (K, K), victories of agent i over agent j.
        games: (K, K), games between them, symmetric; the diagonal is not looked at.
        anchor: The agent whose rating is given.
        anchor_rating: That rating.

    Returns:
        (K,) float64.

    Raises:
        SplendorError: Fewer than two agents, agents that no chain of games links, or no such
            anchor.
    """
    wins, games = np.asarray(wins, np.float64), np.asarray(games, np.float64)
    _check_linked(games, anchor)
    pairs = np.argwhere(np.triu(games, 1))
    first, second = pairs.T
    rating, _ = _fit(wins[first, second], wins[second, first], pairs, anchor)
    return rating + anchor_rating


def rate_pairs(
    results: np.ndarray, num_agents: int, anchor: int = 0, anchor_rating: float = 0.0
) -> Ratings:
    """`bradley_terry` of games of two, with 95 % intervals.

    The standard errors are those of the observed information, in which the half game that is added
    to every pair counts too: so a shutout has a wide interval. Games of one deal are taken as
    independent, as nearly they are: seats swapped, their shares correlate by -0.05 to 0.07. The
    anchor's interval is its rating; that of the others is of the difference.

    Args:
        results: (G,) GAME_RESULT of two players; games of an agent with itself do not count.
        num_agents: K.
        anchor, anchor_rating: See `bradley_terry`.

    Raises:
        SplendorError: See `bradley_terry`; or games of more than two, or of unknown agents.
    """
    first, second, share = _sort_pairs(results, num_agents)
    is_pair = first != second
    pair_id = first[is_pair] * num_agents + second[is_pair]
    met, pair = np.unique(pair_id, return_inverse=True)
    pairs = np.stack(np.divmod(met, num_agents), 1)
    games = np.zeros((num_agents, num_agents))
    games[pairs[:, 0], pairs[:, 1]] = games[pairs[:, 1], pairs[:, 0]] = 1
    _check_linked(games, anchor)
    wins = np.bincount(pair, share[is_pair], len(met))
    losses = np.bincount(pair, 1 - share[is_pair], len(met))
    rating, error = _fit(wins, losses, pairs, anchor)
    rating = rating + anchor_rating
    return Ratings(rating, rating - Z_95 * error, rating + Z_95 * error)


def pair_shares(results: np.ndarray, num_agents: int, *, seed: int = 0) -> PairShares:
    """Every agent's share against every other in games of two.

    Raises:
        SplendorError: Games of more than two, or of unknown agents.
    """
    shape = (num_agents, num_agents)
    nothing = np.full(shape, np.nan)
    shares = PairShares(nothing, nothing.copy(), nothing.copy(), np.zeros(shape))
    first, second, share = _sort_pairs(results, num_agents)
    for i in range(num_agents):
        for j in range(i + 1, num_agents):
            is_pair = (first == i) & (second == j)
            shares.games[i, j] = shares.games[j, i] = is_pair.sum()
            if is_pair.any():
                low, high = cluster_bootstrap_interval(
                    share[is_pair], results["deal"][is_pair], seed=seed
                )
                mean = share[is_pair].mean()
                shares.share[i, j], shares.share[j, i] = mean, 1 - mean
                shares.low[i, j], shares.low[j, i] = low, 1 - high
                shares.high[i, j], shares.high[j, i] = high, 1 - low
    return shares


def _sort_pairs(results: np.ndarray, num_agents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower and the higher agent of each game (G,), and the share of the lower one."""
    agents = results["agents"].astype(np.int64)
    _check_agents(agents, num_agents)
    if (agents[:, 2:] >= 0).any():
        raise SplendorError("games of two players are wanted, not of more")
    agents = agents[:, :2]
    lower_seat = agents.argmin(1)
    share = results["share"][np.arange(len(results)), lower_seat]
    return agents.min(1), agents.max(1), share


def _check_agents(agents: np.ndarray, num_agents: int) -> None:
    if len(agents) == 0:
        raise SplendorError("there are no games to rate")
    if agents.max() >= num_agents:
        raise SplendorError(f"agent {agents.max()} in the results, but only {num_agents} agents")


def _check_linked(games: np.ndarray, anchor: int) -> None:
    """Refuse agents who cannot be compared with the anchor by any chain of games."""
    num_agents = len(games)
    if num_agents < 2:
        raise SplendorError(f"ratings need at least two agents, not {num_agents}")
    if not 0 <= anchor < num_agents:
        raise SplendorError(f"the anchor must be 0 to {num_agents - 1}, not {anchor!r}")
    is_linked = np.arange(num_agents) == anchor
    for _ in range(num_agents):
        is_linked |= (games[is_linked] > 0).any(0)
    if not is_linked.all():
        raise SplendorError(
            f"no chain of games links agents {np.flatnonzero(~is_linked).tolist()} with agents "
            f"{np.flatnonzero(is_linked).tolist()}: they cannot be rated on one scale"
        )


def _fit(
    wins: np.ndarray, losses: np.ndarray, pairs: np.ndarray, anchor: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ratings (K,) and their standard errors for results (P,) of pairs (P, 2): Newton's method.

    The likelihood is concave in the ratings, and the anchor's is kept at 0.
    """
    num_agents = int(pairs.max()) + 1
    # What each rating adds to the difference of each pair.
    sign = np.zeros((len(pairs), num_agents))
    sign[np.arange(len(pairs)), pairs[:, 0]] = 1
    sign[np.arange(len(pairs)), pairs[:, 1]] = -1
    sign = np.delete(sign, anchor, 1)
    games = wins + losses + _VIRTUAL_GAMES
    wins = wins + _VIRTUAL_GAMES / 2
    logit = np.zeros(num_agents - 1)
    information = np.eye(num_agents - 1)
    for _ in range(_MAX_NUM_STEPS):
        promised = 1 / (1 + np.exp(-sign @ logit))
        information = sign.T @ (sign * (games * promised * (1 - promised))[:, None])
        step = np.linalg.solve(information, (wins - games * promised) @ sign)
        longest = abs(step).max()
        logit += step * min(1, _MAX_STEP / max(longest, _TOLERANCE))
        if longest < _TOLERANCE:
            break
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    rating = np.insert(ELO_PER_LOGIT * logit, anchor, 0)
    return rating, np.insert(ELO_PER_LOGIT * error, anchor, 0)


# Three and four players.


def plackett_luce(
    results: np.ndarray,
    num_agents: int,
    *,
    num_orders: int = 20,
    num_samples: int = 30,
    seed: int = 0,
) -> Ratings:
    """Ratings by finishing ranks at tables of different agents, by openskill's `PlackettLuce`.

    openskill (Weng and Lin 2011) looks at one game after the other, and its answer depends on their
    order. So the rating is the mean over `num_orders` random ones. The interval is 1.96 standard
    deviations over `num_samples` resamples of the deals, each rated as the mean over four orders.
    The resamples have virtual games too, about one for each agent: one of its tables, at which it
    wins and the others share the second place. So a shutout is not certain.
    The interval holds the chance of the games, and more of the order than is left in the rating. So
    with 30 deals or more it is somewhat too wide, by about a tenth in simulations of three agents.
    Few deals make it too narrow: with 10 it held the mean rating in 90 % of them, with 20 in 93 %,
    with 30 in 95 %. openskill's own `sigma`, which knows neither deals nor orders, is not used.

    A game takes about 20 microseconds in each order: 10,000 games take half a minute.

    Args:
        results: (G,) GAME_RESULT, for ranks see `finishing_ranks`.
        num_agents: K.
        num_orders: Orders for the rating.
        num_samples: Resamples for the intervals.
        seed: Of orders and resamples.

    Returns:
        On openskill's scale, on which an agent starts at 25.

    Raises:
        SplendorError: openskill is missing; an agent twice at a table; agents that no chain of
            tables links.
    """
    agents = results["agents"].astype(np.int64)
    _check_agents(agents, num_agents)
    met = np.zeros((num_agents, num_agents))
    for row in agents:
        seated = row[row >= 0]
        met[seated[:, None], seated] += 1
        if len(set(seated.tolist())) < len(seated):
            raise SplendorError(f"an agent sits twice at a table: agents {seated.tolist()}")
    _check_linked(met, 0)
    tables = [
        (row[row >= 0].tolist(), rank[row >= 0].tolist())
        for row, rank in zip(agents, finishing_ranks(results), strict=True)
    ]
    rng = np.random.default_rng(check_seed(seed))
    rating = _rate_in_orders(tables, np.arange(len(tables)), num_agents, num_orders, rng)
    _, deal = np.unique(results["deal"], return_inverse=True)
    games_of_deal = np.split(np.argsort(deal, kind="stable"), np.cumsum(np.bincount(deal))[:-1])
    resampled = []
    for _ in range(num_samples):
        drawn = rng.integers(len(games_of_deal), size=len(games_of_deal))
        games = np.concatenate([games_of_deal[index] for index in drawn])
        virtual = _virtual_tables(agents, num_agents, rng)
        games = np.append(games, len(tables) + np.arange(len(virtual)))
        resampled.append(
            _rate_in_orders(tables + virtual, games, num_agents, _ORDERS_OF_SAMPLE, rng)
        )
    spread = Z_95 * np.std(resampled, 0, ddof=1)
    return Ratings(rating, rating - spread, rating + spread)


def finishing_ranks(results: np.ndarray) -> np.ndarray:
    """Each seat's rank (G, 4) int64, 1 for the best; meaningless where nobody sits.

    Whoever has a share of the victory is first, so without a result all are, and after a forfeit
    all but the offender, who is last. The rest is ranked by points, then by fewer cards; equal ones
    share the better rank.
    """
    score = results["points"].astype(np.float64) * 128 - results["num_cards"]
    score[results["share"] > 0] = np.inf
    is_offender = results["offender"][:, None] == np.arange(score.shape[1])
    score[is_offender | (results["agents"] < 0)] = -np.inf
    return 1 + (score[:, None, :] > score[:, :, None]).sum(2)


def _virtual_tables(
    agents: np.ndarray, num_agents: int, rng: np.random.Generator
) -> list[tuple[list[int], list[int]]]:
    """Tables (agents, ranks) of `agents` (G, 4) drawn anew, one on average won by each agent."""
    tables = []
    for winner in range(num_agents):
        with_winner = np.flatnonzero((agents == winner).any(1))
        for index in rng.choice(with_winner, rng.poisson(1)):
            row = agents[index]
            seated = row[row >= 0].tolist()
            tables.append((seated, [1 if agent == winner else 2 for agent in seated]))
    return tables


def _rate_in_orders(
    tables: list[tuple[list[int], list[int]]],
    games: np.ndarray,
    num_agents: int,
    num_orders: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """The `mu` (K,) of openskill after these games of `tables` (agents, ranks), over all orders."""
    try:
        from openskill.models import PlackettLuce
    except ModuleNotFoundError as error:
        raise SplendorError(
            f"ratings for more than two players need the extra `train` ({error})"
        ) from error
    model = PlackettLuce(tau=0.0)  # agents do not change from game to game
    sums = np.zeros(num_agents)
    for _ in range(num_orders):
        ratings = [model.rating() for _ in range(num_agents)]
        for index in rng.permutation(games):
            agents, ranks = tables[index]
            rated = model.rate([[ratings[agent]] for agent in agents], ranks=ranks)
            for agent, team in zip(agents, rated, strict=True):
                ratings[agent] = team[0]
        sums += [rating.mu for rating in ratings]
    return sums / num_orders


# What no ladder can show.


def nash_average(share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mixture of agents that nobody beats, and what every agent scores against it.

    Nash averaging (Balduzzi et al. 2018, "Re-evaluating evaluation"): the maximum-entropy Nash
    equilibrium of the zero-sum game in which two choose an agent each and are paid its log-odds.
    Copies of an agent share its weight, and weak agents that all are beaten alike change nothing,
    while both change a rating. An agent's skill is at most 0, and 0 within the mixture.

    Args:
        share: (K, K), of agent i against agent j; the diagonal is not looked at, opposite entries
            are averaged, and shares are kept within 0.001 and 0.999.

    Returns:
        The weights (K,), with sum 1, and the skills (K,) on the Elo scale.

    Raises:
        SplendorError: Pairs that have not met (NaN).
    """
    share = np.asarray(share, np.float64).copy()
    np.fill_diagonal(share, 0.5)
    if np.isnan(share).any():
        pair = np.argwhere(np.isnan(share))[0].tolist()
        raise SplendorError(f"Nash averaging needs all pairs; agents {pair} have not met")
    share = np.clip((share + 1 - share.T) / 2, _LEAST_SHARE, 1 - _LEAST_SHARE)
    payoff = np.log(share / (1 - share))
    weight = _maximize_entropy(payoff)
    weight[weight < _LEAST_WEIGHT] = 0
    weight /= weight.sum()
    return weight, ELO_PER_LOGIT * payoff @ weight


def _maximize_entropy(payoff: np.ndarray) -> np.ndarray:
    """The weights (K,) of most entropy against which no row of `payoff` scores above `_SLACK`.

    The weights are softmax(-payoff' price) for the prices (K,) of these constraints that minimize
    the dual, log sum exp(-payoff' price) + slack sum(price). Newton's method with a logarithmic
    barrier finds them (Boyd and Vandenberghe, "Convex Optimization", chapters 5 and 11). Without
    the slack the prices of agents that do not belong to the mixture would grow without end.
    """
    price = np.ones(len(payoff))
    for barrier in _BARRIERS:
        for _ in range(_MAX_NUM_STEPS):
            weight = _softmax(-price @ payoff)
            # In relative changes of the prices, which may differ by orders of magnitude.
            scaled = price[:, None] * (payoff - (payoff @ weight)[:, None])
            curvature = (scaled * weight) @ scaled.T + barrier * np.eye(len(payoff))
            gradient = price * (_SLACK - payoff @ weight) - barrier
            step = -np.linalg.solve(curvature, gradient)
            slope = float(gradient @ step)
            if slope > -_TOLERANCE * barrier:
                break
            size = min(1.0, 0.95 / max(-step.min(), 0.95))
            most = _dual(payoff, price, barrier)
            while (
                _dual(payoff, price * (1 + size * step), barrier) > most + 1e-4 * size * slope
                and size > _TOLERANCE
            ):
                size /= 2
            price = price * (1 + size * step)
    return _softmax(-price @ payoff)


def _dual(payoff: np.ndarray, price: np.ndarray, barrier: float) -> float:
    """What `_maximize_entropy` minimizes."""
    logits = -price @ payoff
    log_sum = logits.max() + np.log(np.exp(logits - logits.max()).sum())
    return float(log_sum + _SLACK * price.sum() - barrier * np.log(price).sum())


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponential = np.exp(logits - logits.max())
    return exponential / exponential.sum()


def cycles_of_three(shares: PairShares) -> list[tuple[int, int, int]]:
    """Triples in which the first beats the second, the second the third, and the third the first.

    One agent beats another where the whole interval of its share is above one half. The lowest
    agent of a triple comes first. Longer cycles are not looked for: where all pairs are decided
    they have one of three within.
    """
    beats = shares.low > 0.5
    return [
        (i, j, k)
        for i, j, k in np.argwhere(
            beats[:, :, None] & beats[None, :, :] & beats.T[:, None, :]
        ).tolist()
        if i < min(j, k)
    ]
