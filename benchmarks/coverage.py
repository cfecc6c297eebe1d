"""Whether intervals and tests hold what they promise, on simulated matches whose truth is known.

    python benchmarks/coverage.py --matches 1000

Simulated are games of an agent that has every seat of a deal once: with a seat effect, one game in
a hundred shared, and games of a deal that are correlated as was measured for two (-0.05). Of 1,000
matches 95 % intervals should hold the truth in 936 to 964 (two standard deviations). Wilson's knows
neither seats nor deals; where these make a mean surer, with four players most, it is too wide.
"""

import argparse
from math import pi, sin
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from splendor_env.evaluation.arena import GAME_RESULT
from splendor_env.evaluation.ratings import rate_pairs
from splendor_env.evaluation.statistics import Sprt, cluster_bootstrap_interval, wilson_interval

SEAT_EFFECT = {
    2: np.array([0.075, -0.075]),
    3: np.array([0.04, 0.0, -0.04]),
    4: np.array([0.12, -0.02, -0.05, -0.05]),
}
"""What a seat adds to the share: the largest that were published."""
CORRELATION = -0.05
TIES = 0.01


class SprtErrors(NamedTuple):
    """Parts of all tests, and the mean number of deals under each hypothesis."""

    accepted_wrongly: float
    rejected_wrongly: float
    undecided: float
    num_deals_0: float
    num_deals_1: float


def simulate_deals(
    rng: np.random.Generator, num_deals: int, mean_by_seat: np.ndarray
) -> np.ndarray:
    """Shares (D, N) of 0, 1/2 and 1 with the means (N,), one game in a hundred shared."""
    num_seats = len(mean_by_seat)
    # Of normal variables whose signs correlate as asked (Sheppard 1899).
    correlation = sin(CORRELATION * pi / 2)
    covariance = np.full((num_seats, num_seats), correlation)
    np.fill_diagonal(covariance, 1)
    latent = rng.standard_normal((num_deals, num_seats)) @ np.linalg.cholesky(covariance).T
    normal = NormalDist()
    is_won = latent < [normal.inv_cdf(mean - TIES / 2) for mean in mean_by_seat]
    is_shared = latent < [normal.inv_cdf(mean + TIES / 2) for mean in mean_by_seat]
    return (is_won.astype(np.float64) + is_shared) / 2


def coverage_of_shares(
    shares: np.ndarray, truth: float, num_samples: int = 2000
) -> dict[str, float]:
    """How many of the intervals of M matches, shares (M, D, N), hold the truth, by method."""
    num_deals, num_seats = shares.shape[1:]
    deal = np.repeat(np.arange(num_deals), num_seats)
    held = {"Wilson": 0, "bootstrap over deals": 0}
    for share in shares:
        low, high = wilson_interval(float(share.mean()), share.size)
        held["Wilson"] += low <= truth <= high
        low, high = cluster_bootstrap_interval(share.ravel(), deal, num_samples=num_samples)
        held["bootstrap over deals"] += low <= truth <= high
    return {method: number / len(shares) for method, number in held.items()}


def sprt_errors(
    rng: np.random.Generator,
    num_players: int,
    *,
    h1: float = 0.53,
    alpha: float = 0.05,
    beta: float = 0.05,
    num_tests: int = 1000,
    num_deals: int = 8000,
) -> SprtErrors:
    """Run tests of `h1` against 0.5 while either is true; none sees more than `num_deals`."""
    accepted, undecided, deals_needed = [], 0, []
    for truth in (0.5, h1):
        tests = []
        for _ in range(num_tests):
            shares = simulate_deals(rng, num_deals, truth + SEAT_EFFECT[num_players])
            test = Sprt(alpha, beta, 0.5, h1)
            test.update(shares.mean(1))
            tests.append(test)
        accepted.append(np.mean([test.decision == "accept" for test in tests]))
        undecided += sum(test.decision is None for test in tests)
        deals_needed.append(np.mean([test.num_deals for test in tests]))
    return SprtErrors(
        float(accepted[0]),
        float(1 - accepted[1]),
        undecided / (2 * num_tests),
        float(deals_needed[0]),
        float(deals_needed[1]),
    )


def coverage_of_ratings(
    rng: np.random.Generator, truth: np.ndarray, num_deals: int, num_matches: int
) -> np.ndarray:
    """How many of the intervals of agents (K,) hold their ratings, the first being the anchor."""
    held = np.zeros(len(truth))
    pairs = np.array(np.triu_indices(len(truth), 1)).T
    results = np.zeros(len(pairs) * num_deals * 2, GAME_RESULT)
    results["agents"] = -1
    results["agents"][:, :2] = (
        np.concatenate((pairs, pairs[:, ::-1]), 1).reshape(-1, 2).repeat(num_deals, 0)
    )
    results["deal"] = np.tile(np.arange(num_deals), 2 * len(pairs))
    for _ in range(num_matches):
        shares = []
        for first, second in pairs:
            promised = 1 / (1 + 10 ** ((truth[second] - truth[first]) / 400))
            # The seat effect vanishes where one always wins.
            effect = SEAT_EFFECT[2] * 4 * promised * (1 - promised)
            share = simulate_deals(rng, num_deals, promised + effect)
            shares += [share[:, 0], 1 - share[:, 1]]
        results["share"][:, 0] = np.concatenate(shares)
        results["share"][:, 1] = 1 - results["share"][:, 0]
        rated = rate_pairs(results, len(truth))
        held += (rated.low <= truth) & (truth <= rated.high)
    return held / num_matches


def main() -> None:
    """Simulate everything and print three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print(f"95 % intervals that hold the truth, of {options.matches} matches each")
    print("players  deals  share  Wilson  bootstrap over deals")
    for num_players in (2, 3, 4):
        for num_deals, truth in (
            (15, 1 / num_players),
            (15, 0.6),
            (50, 0.5),
            (500, 1 / num_players),
            (500, 0.63),
            (500, 0.9),
        ):
            effect = SEAT_EFFECT[num_players] * 4 * truth * (1 - truth)
            shares = simulate_deals(rng, options.matches * num_deals, truth + effect)
            shares = shares.reshape(options.matches, num_deals, num_players)
            held = coverage_of_shares(shares, truth)
            print(
                f"{num_players:7} {num_deals:6} {100 * truth:4.0f} % {100 * held['Wilson']:5.1f} % "
                f"{100 * held['bootstrap over deals']:5.1f} %",
                flush=True,
            )
    print("\nSequential test of 53 against 50 %, alpha = beta = 5 %")
    print("players  accepted at 50 %  rejected at 53 %  undecided  deals needed at either")
    for num_players in (2, 3, 4):
        errors = sprt_errors(rng, num_players, num_tests=options.matches)
        print(
            f"{num_players:7} {100 * errors.accepted_wrongly:15.1f} % "
            f"{100 * errors.rejected_wrongly:15.1f} % {100 * errors.undecided:8.1f} % "
            f"{errors.num_deals_0:12.0f} {errors.num_deals_1:6.0f}",
            flush=True,
        )
    truth = np.array([0.0, 60.0, 200.0, 450.0])
    held = coverage_of_ratings(rng, truth, 200, options.matches)
    print("\nRatings of four agents, all pairs, 200 deals each, the first is the anchor")
    for rating, rate in zip(truth[1:], held[1:], strict=True):
        print(f"{rating:7.0f} is in {100 * rate:.1f} % of the intervals")


if __name__ == "__main__":
    main()
