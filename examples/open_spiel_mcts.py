"""OpenSpiel: its Monte Carlo tree search, in Python, against random seats.

    pip install -e ".[openspiel]"
    python examples/open_spiel_mcts.py --players 3

Importing `splendor_env.envs.openspiel` registers the game "python_splendor". Its chance nodes turn
up single cards, so a search meets every refill of the market as a branch. Not usable:
`pyspiel.MCTSBot` and `pyspiel.ISMCTSBot`, OpenSpiel's searches in C++. They end the process with a
segmentation fault on every game that is written in Python; `check_bot` refuses them.
"""

import argparse
import time

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from splendor_env import SplendorError
from splendor_env.envs.openspiel import check_bot, make_mcts_bot


class LeadEvaluator(mcts.Evaluator):
    """Judges a position by each seat's lead over the average, in points and bought cards.

    OpenSpiel's own random rollouts play some 160 more decisions for each simulation, about 40 ms;
    this takes less than 1 ms.
    """

    def evaluate(self, state):
        """(N,) values that sum to zero, on the scale of the returns."""
        game, num_players = state.games[0], state.num_players()
        worth = game.points[:num_players] + 0.5 * game.num_cards[:num_players]
        return np.clip((worth - worth.mean()) / 15, -1, 1)

    def prior(self, state):
        """Uniform over the legal actions; the true odds at chance nodes."""
        if state.is_chance_node():
            return state.chance_outcomes()
        actions = state.legal_actions()
        return [(action, 1 / len(actions)) for action in actions]


def play(game, bot, seat, budget, rng):
    """Play one game with the bot in `seat`; stop after `budget` decisions of the bot.

    Returns:
        The last state and the number of the bot's decisions.
    """
    state, decisions = game.new_initial_state(), 0
    while not state.is_terminal():
        if state.is_chance_node():
            outcomes, odds = zip(*state.chance_outcomes(), strict=True)
            action = rng.choice(outcomes, p=odds)
        elif state.current_player() != seat:
            action = rng.choice(state.legal_actions())
        elif decisions == budget:
            break
        else:
            # The search looks at the true state: at blind reserves of others too, but never at
            # cards to come. For play without peeking see OpenSpiel's Python ISMCTS.
            action = bot.step(state)
            assert action in state.legal_actions(), f"illegal action {action}"
            decisions += 1
        state.apply_action(int(action))
    return state, decisions


def main():
    """Play until the budget is used, then compare prestige points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="decisions of the search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--simulations", type=int, default=100, help="for each decision")
    arguments = parser.parse_args()

    game = pyspiel.load_game("python_splendor", {"players": arguments.players})
    rng = np.random.RandomState(arguments.seed)
    bot = make_mcts_bot(
        game,
        max_simulations=arguments.simulations,
        evaluator=LeadEvaluator(),
        seed=arguments.seed,
    )
    try:
        crashing = pyspiel.MCTSBot(
            game, pyspiel.RandomRolloutEvaluator(1, 0), 1.4, 10, 1, False, 0, False
        )
        check_bot(crashing)
        raise SystemExit("check_bot let a C++ search pass")
    except SplendorError as error:
        print(f"refused, as it should be: {error}")

    start, left, games = time.perf_counter(), arguments.steps, 0
    own, others = [], []
    while left:
        seat = games % arguments.players
        state, decisions = play(game, bot, seat, left, rng)
        left, games = left - decisions, games + 1
        points = state.games["points"][0, : arguments.players].tolist()
        own.append(points.pop(seat))
        others.append(np.mean(points))
        assert abs(sum(state.returns())) < 1e-9, "returns must sum to zero"
        end = f"returns {state.returns()}" if state.is_terminal() else "stopped"
        print(f"seat {seat}: {own[-1]} points, others {others[-1]:.1f}, {end}")
    seconds = time.perf_counter() - start
    print(
        f"{games} games, {arguments.steps} decisions, {seconds / arguments.steps:.2f} s each; "
        f"points: search {np.mean(own):.1f}, random {np.mean(others):.1f}"
    )
    if arguments.steps >= 100 and np.mean(own) <= np.mean(others):
        raise SystemExit("the search should be ahead of random seats")


if __name__ == "__main__":
    main()
