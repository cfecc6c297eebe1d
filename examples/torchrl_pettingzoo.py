"""TorchRL: one masked policy in every seat, trained by REINFORCE on each seat's own result.

    pip install torch==2.13.0
    pip install -e . torchrl==0.14.1 tensordict==0.14.3
    python examples/torchrl_pettingzoo.py --players 3

What is special about TorchRL and this game:

* Wrap `raw_env`: an illegal action raises there. `env` works too, but loses the game for it.
* `use_mask=True` is required for games with turns. By default each seat is a group of its own; the
  `group_map` here puts them along one axis, so that one network answers for all. `mask` says which
  seat is to move. Idle seats get an all-true `action_mask` and an action that nobody plays: leave
  both out of a loss. After the last decision of a game, under "next", its seat has an empty mask:
  make no masked distribution of that one.
* All seats are paid in the last step, so a seat's return is the sum of its column of rewards.
  `GAE` along time would mix up positions of different seats; returns need no such care.

Every observation is computed for every seat at each step. For many steps per second use
`SplendorVectorEnv` instead.
"""

import argparse
import time

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import PettingZooWrapper, check_env_specs
from torchrl.modules import MaskedCategorical, ProbabilisticActor

from splendor_env.envs.aec import raw_env

GROUP = "seats"


def make_actor(env):
    """The policy: logits from the observation, then a draw among the legal actions."""
    size = env.observation_spec[GROUP, "observation", "observation"].shape[-1]
    num_actions = env.full_action_spec[GROUP, "action"].space.n
    network = nn.Sequential(nn.Linear(size, 128), nn.Tanh(), nn.Linear(128, num_actions))
    return ProbabilisticActor(
        TensorDictModule(
            network,
            in_keys=[(GROUP, "observation", "observation")],
            out_keys=[(GROUP, "logits")],
        ),
        in_keys={"logits": (GROUP, "logits"), "mask": (GROUP, "action_mask")},
        out_keys=[(GROUP, "action")],
        distribution_class=MaskedCategorical,
        return_log_prob=False,
        spec=env.full_action_spec,
    )


def count_illegal(rollout):
    """Actions of acting seats that their masks forbid."""
    group = rollout[GROUP]
    is_legal = group["action_mask"].gather(-1, group["action"].unsqueeze(-1)).squeeze(-1)
    return int((group["mask"] & ~is_legal).sum())


def loss_of(actor, rollout):
    """REINFORCE: the log-probability of each acting seat's action times its own return."""
    group = rollout[GROUP]
    returns = rollout["next", GROUP, "reward"].sum(0).squeeze(-1)  # (N,)
    log_prob = actor.get_dist(rollout.clone()).log_prob(group["action"])  # (T, N)
    return -(torch.where(group["mask"], log_prob, 0.0) * returns).sum(1).mean()


def main():
    """Check the specs, then play games and learn from each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000, help="decisions, of all seats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--players", type=int, default=3)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)

    game = raw_env(num_players=arguments.players)
    env = PettingZooWrapper(game, use_mask=True, group_map={GROUP: game.possible_agents})
    env.set_seed(arguments.seed)
    check_env_specs(env)
    actor = make_actor(env)
    optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)

    start, steps, games, illegal, lengths = time.perf_counter(), 0, 0, 0, []
    while steps < arguments.steps:
        with torch.no_grad():
            rollout = env.rollout(1000, actor)  # ends with the game: all seats finish at once
        steps += len(rollout)
        illegal += count_illegal(rollout)
        if not bool(rollout["next", "done"][-1].any()):
            continue  # cut off, so without a result
        result = rollout["next", GROUP, "reward"].sum((0, 2))
        assert abs(float(result.sum())) < 1e-5, f"the rewards {result} of a game must sum to zero"
        loss = loss_of(actor, rollout)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        games += 1
        lengths.append(len(rollout))
        if games % 10 == 1:
            print(f"game {games}: {len(rollout)} decisions, result {result.tolist()}")
    seconds = time.perf_counter() - start
    print(
        f"{games} games, {steps} decisions, {steps / seconds:.0f} per second, "
        f"illegal actions: {illegal}"
    )
    if illegal:
        raise SystemExit("a masked policy must not choose illegal actions")


if __name__ == "__main__":
    main()
