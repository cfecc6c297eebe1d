"""How much variance the luck of the draw explains, and whether taking it out changes the mean.

    python benchmarks/luck.py --games 1500

Each agent plays one against copies of the other, in every seat of each deal; an agent against
itself is seen from the first seat alone, since over all seats its share is exactly 1/N. `plain` and
`controlled` are win shares with 95 % intervals, `variance` is what is left of it, and `z` is the
difference of the two means in its own standard errors: beyond 4 something would be wrong. The last
column is the correlation between two games of a deal.
"""

import argparse
import time

import numpy as np

from splendor_env.agents import make_agent
from splendor_env.core.state import Rules, standard
from splendor_env.evaluation.arena import Seating, one_against_rest, play_games
from splendor_env.evaluation.luck import controlled_mean, luck_of
from splendor_env.evaluation.statistics import cluster_bootstrap_interval, cluster_sums

PAIRS = (("greedy", "racer"), ("racer", "racer"), ("greedy", "greedy"), ("pretrained", "greedy"))


def play(spec: str, other: str, rules: Rules, num_games: int, seed: int) -> dict[str, np.ndarray]:
    """The share and the luck of `spec` in each game (G,), and the deal."""
    agents = [make_agent(spec, seed), make_agent(other, seed)]
    if spec == other:
        seats = np.ones((num_games, rules.num_players), np.int16)
        seats[:, 0] = 0
        seating = Seating(seats, np.arange(num_games))
    else:
        seating = one_against_rest(rules, num_games)
    games = play_games(agents, seating, rules, seed)
    is_own = games.results["agents"][:, : rules.num_players] == 0
    luck = luck_of(games.deals, games.actions, None, rules)
    return {
        "share": games.results["share"][:, : rules.num_players][is_own],
        "luck": luck[is_own],
        "deal": games.results["deal"],
    }


def correlation_within_deals(share: np.ndarray, deal: np.ndarray) -> float:
    """Mean correlation between two games of a deal; NaN where deals have one game."""
    per_deal = len(deal) // len(np.unique(deal))
    if per_deal == 1:
        return np.nan
    centered = share - share.mean()
    ratio = (cluster_sums(centered, deal) ** 2).sum() / (centered**2).sum()
    return float(ratio - 1) / (per_deal - 1)


def main() -> None:
    """Play and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=1500)
    parser.add_argument("--players", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("agent, players         plain                 controlled            variance     z  deal")
    for num_players in options.players:
        for spec, other in PAIRS:
            rules = standard(num_players)
            start = time.perf_counter()
            games = play(spec, other, rules, options.games, options.seed)
            share, luck, deal = games["share"], games["luck"], games["deal"]
            low, high = cluster_bootstrap_interval(share, deal)
            result = controlled_mean(share, luck, deal)
            removed = cluster_sums(luck, deal) * result.coefficient
            z_score = removed.sum() / np.sqrt((removed**2).sum())
            print(
                f"{spec} - {other}, {num_players}".ljust(23)
                + f"{100 * share.mean():4.1f} % [{100 * low:4.1f}, {100 * high:4.1f}]   "
                f"{100 * result.mean:4.1f} % [{100 * result.low:4.1f}, {100 * result.high:4.1f}]   "
                f"{100 * result.variance_ratio:5.1f} %  {z_score:5.2f} "
                f"{correlation_within_deals(share, deal):5.2f}   "
                f"({time.perf_counter() - start:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
