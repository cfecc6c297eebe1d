"""The search against an exhaustive solver on small end games."""

import numpy as np
import pytest

from splendor_env import Game
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.search.evaluators import NetworkEvaluator, RolloutEvaluator
from splendor_env.search.mcts import Search, Settings

from .exhaustive import solve_root
from .puzzles import PUZZLES

NUM_SIMULATIONS = 3000


@pytest.fixture(scope="module", params=PUZZLES)
def puzzle(request):
    game = Game.from_dict(PUZZLES[request.param])
    return game, solve_root(game.games, game.rules)


def know_nothing(observation):
    """A network without an opinion: only the ends of games tell the search anything."""
    shares = np.full((len(observation), 4), 0.25, np.float32)
    return np.zeros((len(observation), NUM_ACTIONS), np.float32), shares


EVALUATORS = {
    "rollouts": RolloutEvaluator(),
    "guess": RolloutEvaluator(num_decisions=0),
    "network": NetworkEvaluator(lambda rules: know_nothing),
}


def test_puzzles_have_good_and_bad_moves(puzzle):
    _, value = puzzle
    assert max(value.values()) > min(value.values()) + 0.1


@pytest.mark.parametrize("gumbel", [False, True])
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_search_chooses_as_good_a_move_as_there_is(puzzle, evaluator, gumbel):
    game, value = puzzle
    settings = Settings(num_simulations=NUM_SIMULATIONS, gumbel=gumbel)
    result = Search(EVALUATORS[evaluator], settings).run(game.games, game.rules)
    action = int(result.action[0])
    assert value[action] > max(value.values()) - 1e-9, ACTION_NAMES[action]


def test_puzzles_are_many_and_for_all_numbers_of_players():
    rules = [Game.from_dict(position).rules for position in PUZZLES.values()]
    assert len(rules) >= 12
    assert {rule.num_players for rule in rules} == {2, 3, 4}
