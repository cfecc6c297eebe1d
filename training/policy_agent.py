"""A trained policy as an agent: `ppo:DIRECTORY`."""

import warnings
from collections.abc import Mapping

import numpy as np
import torch

from splendor_env.agents.layouts import PolicyWarning
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import observe_games, write_action_masks
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import Rules
from training.checkpoint import load_policy
from training.networks import PolicyNetwork


class PolicyAgent:
    """Plays the likeliest legal action of a network, or draws by its probabilities.

    It sees what `observe` shows the mover, so it needs no determinized games. With `trained_for`,
    those fields of the rules that it was trained for, a `PolicyWarning` tells once of playing by
    others; a field that is not there, such as the players of a policy for all numbers, is free.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        name: str,
        *,
        sample: bool = False,
        seed: int = 0,
        trained_for: Mapping[str, int] | None = None,
    ) -> None:
        self.network = network
        self.name = name
        self._sample = sample
        self._trained_for = dict(trained_for or {})
        self._generator = torch.Generator().manual_seed(seed % 2**63)

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        self._check_rules(rules)
        observation = np.empty((len(games), OBSERVATION_SIZE), np.float32)
        action_mask = np.empty((len(games), NUM_ACTIONS), np.int8)
        games = np.ascontiguousarray(games)
        observe_games(games, rules, np.ascontiguousarray(games["player"]), observation)
        write_action_masks(games, rules, action_mask)
        with torch.inference_mode():
            logits = self.network.forward_actor(torch.from_numpy(observation))
            logits = logits.masked_fill(torch.from_numpy(action_mask) == 0, -torch.inf)
            if self._sample:
                # The arg-max after adding Gumbel noise is a draw by the softmax.
                noise = torch.empty_like(logits).exponential_(generator=self._generator)
                logits -= noise.log()
            return logits.argmax(1).numpy().astype(np.int32)

    def _check_rules(self, rules: Rules) -> None:
        here = rules._asdict()
        differences = [
            f"{key} {value} (here {here.get(key)})"
            for key, value in self._trained_for.items()
            if value != here.get(key)
        ]
        if differences:
            self._trained_for = {}  # once is enough
            message = f"{self.name} was trained for {', '.join(differences)}"
            warnings.warn(message, PolicyWarning, stacklevel=3)


def make_agent(argument: str, seed: int = 0) -> PolicyAgent:
    """The agent of the spec `ppo:ARGUMENT`: a policy's folder, or that of its run.

    Raises:
        SplendorError: No usable policy there.
    """
    network, about = load_policy(argument)
    return PolicyAgent(network, f"ppo:{argument}", seed=seed, trained_for=about.get("rules"))
