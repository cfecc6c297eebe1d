"""Simulations per second of the tree search, one thread, from positions of games of greedy.

    python benchmarks/search_speed.py
    python benchmarks/search_speed.py --network policy.onnx

With a network, its leaves of 256 games go through it together; the share is the search's
simulations per second over the bare network's rows per second at that batch size. In one game, as
at a table, only a few leaves go through it at once, chosen without what it says of each other.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from splendor_env.agents import make_agent
from splendor_env.agents.onnx import OnnxAgent
from splendor_env.bench import machine
from splendor_env.core.batch import Batch
from splendor_env.core.state import standard
from splendor_env.search.evaluators import Evaluator, NetworkEvaluator, RolloutEvaluator
from splendor_env.search.mcts import Search, Settings

NUM_GAMES = 256
ROUNDS_BEFORE = 10
REPEATS = 3


def positions(num_players: int, num_games: int = NUM_GAMES) -> Batch:
    """Games in which greedy has played some rounds."""
    batch = Batch(standard(num_players), num_games)
    greedy = make_agent("greedy")
    for _ in range(ROUNDS_BEFORE * num_players):
        batch.step(greedy.act(batch.games, batch.rules, np.arange(num_games)))
    return batch


def rate(count: int, call: Callable[[], object]) -> float:
    """Counts per second of processor time, the best of several calls after one that warms up."""
    call()
    best = np.inf
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return count / best


def search_rate(evaluator: Evaluator, batch: Batch, num_simulations: int, gumbel: bool) -> float:
    """Simulations per second in all games of a batch."""
    settings = Settings(num_simulations=num_simulations, gumbel=gumbel)
    search = Search(evaluator, settings)
    count = num_simulations * len(batch.games)
    return rate(count, lambda: search.run(batch.games, batch.rules))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file as `splendor export` writes it")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    for num_players in (2, 3, 4):
        speed = search_rate(RolloutEvaluator(), positions(num_players), 200, False)
        print(f"{num_players} players, rollouts, 200 simulations: {speed:,.0f} simulations/s")
    if options.network:
        agent = OnnxAgent(options.network)
        batch = positions(agent.about["num_players"][0])
        bare = rate(NUM_GAMES, lambda: agent.evaluate(batch.observation))
        evaluator = NetworkEvaluator(lambda rules: agent.evaluate)
        print(f"bare network, {NUM_GAMES} rows: {bare:,.0f} rows/s")
        for num_simulations, gumbel in ((32, True), (200, False)):
            speed = search_rate(evaluator, batch, num_simulations, gumbel)
            print(
                f"network, {num_simulations} simulations: {speed:,.0f} simulations/s, "
                f"{speed / bare:.0%} of the bare network"
            )
        one = positions(agent.about["num_players"][0], 1)
        for at_once in (1, 4, 8, 16, 32, 64):
            evaluator = NetworkEvaluator(lambda rules: agent.evaluate, at_once)
            speed = search_rate(evaluator, one, 4000, True)
            print(f"network, one game, {at_once} leaves at once: {speed:,.0f} simulations/s")


if __name__ == "__main__":
    main()
