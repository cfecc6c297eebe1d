"""Fits the weights by which rollouts of the search guess who will win; prints them.

    python benchmarks/fit_search_values.py

A conditional logistic regression of the victory shares on the features of every seat, over
positions from games of `racer`, one decision in ten made at random. The
output replaces `_WEIGHTS` in `splendor_env/search/evaluators.py`.
"""

import argparse

import numpy as np

from splendor_env.core import rules
from splendor_env.core._jit import jit
from splendor_env.core.batch import deal_games
from splendor_env.core.random import draw_below, hash_seed
from splendor_env.core.state import GAME, EndReason, Phase, standard
from splendor_env.heuristics import choose_racer, choose_random
from splendor_env.search.evaluators import NUM_FEATURES, stage_of, write_features

RANDOM_PERCENT = 10
PENALTY = 1e-4
_PICK_STREAM, _MIX_STREAM = 21, 22


@jit
def play(games, rules_, seed, every, features, stage, share, game_of):
    """Play all games out; write about one position in `every`, and who won. Returns the number."""
    number = 0
    for i in range(games.shape[0]):
        game = games[i]
        first = number
        own_seed = hash_seed(seed, 0, i)
        step = 0
        while game.end_reason == EndReason.RUNNING:
            is_picked = draw_below(own_seed, _PICK_STREAM, step, every) == 0
            if is_picked and game.phase == Phase.PLAY and number < stage.shape[0]:
                for seat in range(rules_.num_players):
                    write_features(game, rules_, seat, features[number, seat])
                stage[number] = stage_of(game, rules_)
                game_of[number] = i
                number += 1
            if draw_below(own_seed, _MIX_STREAM, step, 100) < RANDOM_PERCENT:
                action = np.int64(choose_random(game, rules_, own_seed, step))
            else:
                action = np.int64(choose_racer(game, rules_))
            rules.step(game, action, rules_, -1)
            step += 1
        for row in range(first, number):
            rules.victory_shares(game, rules_, share[row])
    return number


def fit(inputs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Weights (K,) whose softmax over the seats of inputs (P, N, K) fits shares (P, N): Newton."""
    scale = inputs.std((0, 1)) + 1e-9
    inputs = inputs / scale
    weights = np.zeros(inputs.shape[2])
    for _ in range(20):
        probability = softmax(inputs @ weights)
        mean = np.einsum("pn,pnk->pk", probability, inputs)
        gradient = np.einsum("pn,pnk->k", share - probability, inputs) / len(inputs)
        gradient -= 2 * PENALTY * weights
        flat = (inputs * np.sqrt(probability)[:, :, None]).reshape(-1, len(weights))
        curvature = (flat.T @ flat - mean.T @ mean) / len(inputs)
        curvature += 2 * PENALTY * np.eye(len(weights))
        weights += np.linalg.solve(curvature, gradient)
    return weights / scale


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the seats (P, N)."""
    exponential = np.exp(scores - scores.max(1, keepdims=True))
    return exponential / exponential.sum(1, keepdims=True)


def main() -> None:
    """Play, fit and print for each number of players."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=2**40)  # no deal of a report
    parser.add_argument("--save", help="also as a NumPy file (5, 2, F)")
    options = parser.parse_args()
    table = np.zeros((5, 2, NUM_FEATURES))
    for num_players in (2, 3, 4):
        rules_ = standard(num_players)
        most = options.games * 10
        games = np.zeros(options.games, GAME)
        deal_games(games, rules_, np.uint64(options.seed))
        features = np.zeros((most, num_players, NUM_FEATURES))
        stage, share = np.zeros(most), np.zeros((most, num_players))
        game_of = np.zeros(most, np.int64)
        every = 4 * num_players
        seed = np.uint64(options.seed)
        number = play(games, rules_, seed, every, features, stage, share, game_of)
        features, share, game_of = features[:number], share[:number], game_of[:number]
        inputs = np.concatenate((features, features * stage[:number, None, None]), 2)
        is_test = game_of % 5 == 0
        weights = fit(inputs[~is_test], share[~is_test])
        guess = softmax(inputs[is_test] @ weights)
        loss = -(share[is_test] * np.log(guess)).sum(1).mean()
        print(f"{num_players} players: {number} positions, held-out cross-entropy {loss:.4f}")
        table[num_players] = weights.reshape(2, NUM_FEATURES)
        for row in table[num_players]:
            print("    (" + ", ".join(f"{weight:.3f}" for weight in row) + "),", flush=True)
    if options.save:
        np.save(options.save, table)


if __name__ == "__main__":
    main()
