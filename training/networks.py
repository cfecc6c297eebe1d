"""The network that chooses: a plain torch module, which SB3 trains as it is."""

from typing import NamedTuple

import torch
from torch import nn


class NetworkSizes(NamedTuple):
    """What is needed to build a `PolicyNetwork` before its weights are loaded."""

    observation_size: int
    num_actions: int
    layer_size: int
    num_shared_layers: int
    num_separate_layers: int


class PolicyNetwork(nn.Module):
    """A perceptron with ReLU: shared hidden layers, then some for the policy, some for the value.

    The names of the methods and of `latent_dim_*` are those that SB3 asks of the part of a policy
    between observation and outputs: `sb3_ppo` puts this network there.
    """

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.latent_dim_pi, self.latent_dim_vf = sizes.num_actions, 1
        num_shared, num_separate = sizes.num_shared_layers, sizes.num_separate_layers
        features = sizes.layer_size if num_shared else sizes.observation_size
        latent = sizes.layer_size if num_separate else features
        self.shared = _hidden_layers(sizes.observation_size, sizes.layer_size, num_shared)
        self.policy = _hidden_layers(features, sizes.layer_size, num_separate)
        self.policy.append(_linear(latent, sizes.num_actions, 0.01))
        self.value = _hidden_layers(features, sizes.layer_size, num_separate)
        self.value.append(_linear(latent, 1, 1.0))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """From observations (B, D) float32 to logits (B, A), illegal ones too, and value (B, 1)."""
        features = self.shared(observation)
        return self.policy(features), self.value(features)

    def forward_actor(self, observation: torch.Tensor) -> torch.Tensor:
        """The logits alone."""
        return self.policy(self.shared(observation))

    def forward_critic(self, observation: torch.Tensor) -> torch.Tensor:
        """The value alone."""
        return self.value(self.shared(observation))


def _hidden_layers(input_size: int, layer_size: int, num_layers: int) -> nn.Sequential:
    layers = nn.Sequential()
    for index in range(num_layers):
        layers.append(_linear(layer_size if index else input_size, layer_size, 2**0.5))
        layers.append(nn.ReLU())
    return layers


def _linear(input_size: int, output_size: int, gain: float) -> nn.Linear:
    layer = nn.Linear(input_size, output_size)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
