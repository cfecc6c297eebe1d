"""Masked PPO in one file, in the manner of CleanRL: settings, network, loop, nothing hidden.

    python examples/cleanrl_style_ppo.py --steps 300000 --seed 1

What is special here:
- The masks are stored in the rollout, and the update masks by the same ones. Otherwise the
  ratio of the new to the old probability is one of two different policies.
- The environment plays the opponents, so consecutive rows belong to the learner's own decisions
  and plain GAE is right.
- Autoreset mode SAME_STEP: the observation after an end is already the next game's; the end itself
  is in `infos["final_obs"]`, needed only to bootstrap a truncated game.
"""

import argparse
import sys
import time
from dataclasses import dataclass, fields

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

from splendor_env.agents import make_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import observe_movers
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import standard
from splendor_env.envs.vector import SplendorVectorEnv
from splendor_env.evaluation import play_match

EVALUATION_SEED = 10**6
"""The deals of the evaluations: always these, and none of the training's."""


@dataclass(frozen=True)
class Args:
    """Settings; each is an option of the command line."""

    steps: int = 300_000  # decisions of the learner, in all
    seed: int = 1
    num_players: int = 2
    opponents: str = "random"
    num_envs: int = 64
    num_steps: int = 64  # decisions per game and iteration
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    hidden: int = 128
    eval_games: int = 500
    logdir: str = "runs/cleanrl_style_ppo"

    @property
    def batch_size(self) -> int:
        """Decisions per iteration."""
        return self.num_envs * self.num_steps


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """A linear layer, orthogonal at the start."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    """Actor and critic; plays in `play_match` too, through `act`."""

    name = "ppo"

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(layer(OBSERVATION_SIZE, hidden), nn.ReLU())
        self.actor = nn.Sequential(
            layer(hidden, hidden), nn.ReLU(), layer(hidden, NUM_ACTIONS, 0.01)
        )
        self.critic = nn.Sequential(layer(hidden, hidden), nn.ReLU(), layer(hidden, 1, 1.0))

    def value(self, observation: torch.Tensor) -> torch.Tensor:
        """(B,) for observations (B, D)."""
        return self.critic(self.body(observation)).squeeze(-1)

    def forward(
        self, observation: torch.Tensor, mask: torch.Tensor
    ) -> tuple[Categorical, torch.Tensor]:
        """Distribution over the legal actions, and the value (B,)."""
        body = self.body(observation)
        # A mask is never empty, so -inf is safe; a finite floor would hide a mistake.
        logits = self.actor(body).masked_fill(mask == 0, -torch.inf)
        return Categorical(logits=logits), self.critic(body).squeeze(-1)

    @torch.no_grad()
    def act(self, games, rules, game_id) -> np.ndarray:
        """The likeliest legal action for the seat to move: see `splendor_env.agents.Agent`."""
        observation, mask = observe_movers(games, rules)
        policy, _ = self(torch.from_numpy(observation), torch.from_numpy(mask))
        return policy.probs.argmax(1).numpy().astype(np.int32)


def entropy_of(policy: Categorical) -> torch.Tensor:
    """(B,); the infinite logits of illegal actions count as zero."""
    return -(policy.probs * policy.logits.clamp(min=-1e9)).sum(-1)


def evaluate(agent: Agent, args: Args) -> float:
    """Win share against random over the fixed deals, each played from every seat."""
    opponent = make_agent("random", EVALUATION_SEED)
    rules = standard(args.num_players)
    result = play_match(agent, opponent, rules, args.eval_games, EVALUATION_SEED)
    assert result.illegal == 0
    return result.win_share


def main(args: Args) -> tuple[float, float]:
    """Train; the win shares before and after."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # small matrices: a second thread mostly waits
    envs = SplendorVectorEnv(
        args.num_envs,
        num_players=args.num_players,
        opponents=args.opponents,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    agent = Agent(args.hidden)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    writer = SummaryWriter(f"{args.logdir}/seed_{args.seed}")
    before = evaluate(agent, args)
    print(f"before: win share against random {before:.1%} ({args.eval_games} games)", flush=True)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, OBSERVATION_SIZE))
    masks = torch.zeros((*shape, NUM_ACTIONS), dtype=torch.int8)
    actions = torch.zeros(shape, dtype=torch.int64)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))

    start, global_step = time.monotonic(), 0
    returns_of_games: list[float] = []
    next_obs, _ = envs.reset(seed=args.seed)
    num_iterations = max(1, args.steps // args.batch_size)
    for iteration in range(num_iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / num_iterations)
        for step in range(args.num_steps):
            obs[step] = torch.from_numpy(next_obs["observation"])
            masks[step] = torch.from_numpy(next_obs["action_mask"])
            with torch.no_grad():
                policy, values[step] = agent(obs[step], masks[step])
            actions[step] = policy.sample()
            logprobs[step] = policy.log_prob(actions[step])
            next_obs, reward, terminated, truncated, infos = envs.step(actions[step].numpy())
            over = terminated | truncated
            returns_of_games += reward[over].tolist()  # nothing is paid before the end
            for row in np.flatnonzero(truncated):
                final = torch.from_numpy(infos["final_obs"][row]["observation"])
                with torch.no_grad():
                    reward[row] += args.gamma * agent.value(final).item()
            rewards[step] = torch.from_numpy(reward)
            dones[step] = torch.from_numpy(over)
        global_step += args.batch_size

        # dones[t] says that the game of row t ended with its action: nothing flows over that line.
        with torch.no_grad():
            next_value = agent.value(torch.from_numpy(next_obs["observation"]))
        advantages = torch.zeros(shape)
        last = torch.zeros(args.num_envs)
        for step in reversed(range(args.num_steps)):
            goes_on = 1 - dones[step]
            delta = rewards[step] + args.gamma * goes_on * next_value - values[step]
            last = delta + args.gamma * args.gae_lambda * goes_on * last
            advantages[step], next_value = last, values[step]
        returns = advantages + values

        flat_obs, flat_masks = obs.flatten(0, 1), masks.flatten(0, 1)
        flat = [x.flatten() for x in (actions, logprobs, advantages, returns)]
        for _ in range(args.update_epochs):
            for rows in torch.randperm(args.batch_size).chunk(args.num_minibatches):
                action, old_logprob, advantage, target = (x[rows] for x in flat)
                policy, value = agent(flat_obs[rows], flat_masks[rows])
                logratio = policy.log_prob(action) - old_logprob
                ratio = logratio.exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = 0.5 * (value - target).square().mean()
                entropy = entropy_of(policy).mean()
                loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        speed = global_step / (time.monotonic() - start)
        scalars = {
            "charts/learning_rate": optimizer.param_groups[0]["lr"],
            "charts/SPS": speed,
            "charts/episodic_return": float(np.mean(returns_of_games[-200:] or [0.0])),
            "losses/policy_loss": policy_loss.item(),
            "losses/value_loss": value_loss.item(),
            "losses/entropy": entropy.item(),
            "losses/approx_kl": (ratio - 1 - logratio).mean().item(),
            "losses/clipfrac": ((ratio - 1).abs() > args.clip_coef).float().mean().item(),
        }
        for name, value in scalars.items():
            writer.add_scalar(name, value, global_step)
        if iteration % 10 == 0:
            mean = scalars["charts/episodic_return"]
            print(f"step {global_step:>8}  return {mean:+.2f}  {speed:,.0f} steps/s", flush=True)
    writer.close()
    after = evaluate(agent, args)
    print(f"after {global_step} steps: win share against random {after:.1%}")
    return before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in fields(Args):
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=field.type, default=field.default)
    args = Args(**vars(parser.parse_args()))
    before, after = main(args)
    # A run that is long enough to learn and does not is a failure.
    sys.exit(int(args.steps >= 100_000 and after <= before))
