"""A masked random game through PettingZoo's AEC API, and a count of what was illegal (nothing).

    python examples/random_match.py --games 20 --players 3

What is special here: the mask is part of the observation, an agent stays selected until its turn is
over (returning tokens, choosing a noble), and every agent is paid at the end of the game.
"""

import argparse
import sys
from collections import Counter

from splendor_env import IllegalActionError
from splendor_env.envs import aec


def main() -> int:
    """Play the games; 1 if an action taken from a mask was illegal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--steps", type=int, help="stop after this many decisions")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    # `raw_env` raises on an illegal action; `env` would end the game for the offender.
    env = aec.raw_env(num_players=options.players)
    for index, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(options.seed + index)
    num_decisions = num_illegal = num_games = 0
    wins: Counter[str] = Counter()
    for game in range(options.games):
        env.reset(seed=options.seed + game)
        returns = dict.fromkeys(env.agents, 0.0)
        for agent in env.agent_iter():
            observation, reward, termination, truncation, info = env.last()
            returns[agent] += reward  # what has come since this agent acted last
            if termination or truncation:
                env.step(None)
                continue
            # Only the agent to move has legal actions. Sampling by an empty mask answers 0.
            action = env.action_space(agent).sample(observation["action_mask"])
            try:
                env.step(action)
            except IllegalActionError as error:
                print(error, file=sys.stderr)
                num_illegal += 1
                break
            num_decisions += 1
            if num_decisions == options.steps:
                break
        else:
            num_games += 1
            wins.update(info["winners"])
            assert abs(sum(returns.values())) < 1e-9, "the rewards of a game add up to zero"
        if num_illegal or num_decisions == options.steps:
            break
    print(f"games {num_games}, decisions {num_decisions}, illegal actions {num_illegal}")
    print("wins:", ", ".join(f"{agent} {wins[agent]}" for agent in env.possible_agents))
    return int(num_illegal > 0)


if __name__ == "__main__":
    sys.exit(main())
