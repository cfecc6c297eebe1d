"""Speed of the engine on this machine: what `splendor bench` runs and prints."""

from splendor_env.core import observation, rules
from splendor_env.core._jit import jit
from splendor_env.core.batch import write_action_mask
from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import EndReason
from splendor_env.heuristics import choose_random


@jit
def play_random_games(games, rules_, num_games, seed):
    """Play `num_games` random games, one after the other in games[0]; return the decisions."""
    game = games[0]
    num_decisions = 0
    for index in range(num_games):
        rules.deal(game, rules_, hash_seed(seed, SEED_STREAM, index))
        while game.end_reason == EndReason.RUNNING:
            action = choose_random(game, rules_, seed, num_decisions)
            rules.step(game, action, rules_, -1)
            num_decisions += 1
    return num_decisions


@jit
def play_random_games_observed(games, rules_, num_games, seed, observation_, action_mask):
    """The same with the observation (D,) and the mask (A,) of the mover written out each time."""
    game = games[0]
    num_decisions = 0
    for index in range(num_games):
        rules.deal(game, rules_, hash_seed(seed, SEED_STREAM, index))
        while game.end_reason == EndReason.RUNNING:
            write_action_mask(game, rules_, action_mask)
            observation.observe(game, rules_, game.player, observation_)
            action = choose_random(game, rules_, seed, num_decisions)
            rules.step(game, action, rules_, -1)
            num_decisions += 1
    return num_decisions
