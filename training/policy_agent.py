"""A trained policy as an agent: `ppo:DIRECTORY`."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from splendor_env.agents.layouts import PolicyWarning, rule_differences
from splendor_env.core.batch import observe_movers
from splendor_env.core.state import Rules
from training.checkpoint import load_policy
from training.networks import PolicyNetwork, masked_log_probs, win_shares


class PolicyAgent:
    """Plays the likeliest legal action of a network, or draws by its probabilities.

    It sees what `observe` shows the mover, so it needs no determinized games.

    Args:
        network: Gives the logits.
        name: Of the agent.
        sample: Draw by the probabilities of the network.
        seed: Of these draws.
        about: The content of the policy's `policy.json`: then a `PolicyWarning` tells once of
            playing by rules, or with a number of players, that it was not trained for.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        name: str,
        *,
        sample: bool = False,
        seed: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.name = name
        self._sample = sample
        self._about = about
        self._generator = torch.Generator().manual_seed(seed % 2**63)

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        self._check_rules(rules)
        observation, action_mask = observe_movers(games, rules)
        with torch.inference_mode():
            logits, _ = self.network(torch.from_numpy(observation))
            log_probs = masked_log_probs(logits, torch.from_numpy(action_mask))
            if self._sample:
                # The arg-max after adding Gumbel noise is a draw by the softmax.
                noise = torch.empty_like(logits).exponential_(generator=self._generator)
                log_probs -= noise.log()
            return log_probs.argmax(1).numpy().astype(np.int32)

    def evaluate(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the network says of positions (B, D) float32, as `OnnxAgent.evaluate` says it."""
        with torch.inference_mode():
            logits, value_logits = self.network(torch.from_numpy(observation))
            return logits.numpy(), win_shares(value_logits).numpy()

    def _check_rules(self, rules: Rules) -> None:
        if self._about is None:
            return
        differences = rule_differences(self._about["rules"], self._about["num_players"], rules)
        if differences:
            self._about = None  # once is enough
            message = f"{self.name} was trained for {differences}"
            warnings.warn(message, PolicyWarning, stacklevel=3)


def make_agent(argument: str, seed: int = 0) -> PolicyAgent:
    """The agent of the spec `ppo:ARGUMENT`: a policy's folder, or that of its run.

    Raises:
        SplendorError: No usable policy there.
    """
    network, about = load_policy(argument)
    return PolicyAgent(network, f"ppo:{argument}", seed=seed, about=about)
