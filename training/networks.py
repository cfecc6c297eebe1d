"""The networks that choose and judge: plain torch modules.

Each maps observations (B, D) float32 to the logits of all actions (B, A), illegal ones included,
and to the logits of the value (B, 4): who will win, by seat as seen, so the mover comes first.
`masked_log_probs` and `win_shares` turn them into distributions; nobody else masks anything.
"""

from typing import NamedTuple

import torch
from torch import nn

from splendor_env.core.actions import (
    BUY,
    NUM_ACTIONS,
    NUM_MARKET,
    RESERVE,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.observation import OBSERVATION_LAYOUT, OBSERVATION_OFFSET, OBSERVATION_SIZE
from splendor_env.core.state import MAX_PLAYERS, MAX_RESERVED

NETWORKS = ("mlp", "cards")

_CARD_FIELDS = ("market", "own_reserved")
_SHAPE = {field.name: field.shape for field in OBSERVATION_LAYOUT}
_NUM_CARDS = NUM_MARKET + MAX_RESERVED
_CARD_ROW = _SHAPE["market"][1]
_CARDS_START = OBSERVATION_OFFSET["market"]
_CARDS_END = _CARDS_START + _NUM_CARDS * _CARD_ROW
assert OBSERVATION_OFFSET["own_reserved"] == _CARDS_START + NUM_MARKET * _CARD_ROW
_PRESENT = slice(
    OBSERVATION_OFFSET["seats"],
    OBSERVATION_OFFSET["seats"] + MAX_PLAYERS * _SHAPE["seats"][1],
    _SHAPE["seats"][1],
)
"""Columns that say which seats, as seen, take part."""


class NetworkSizes(NamedTuple):
    """What is needed to build a network before its weights are loaded."""

    network: str
    """"mlp" or "cards"."""
    layer_size: int
    num_shared_layers: int
    """Hidden layers of policy and value together,"""
    num_separate_layers: int
    """and then of each of them."""
    card_size: int
    """Numbers that describe a card inside of the network "cards"."""


class PolicyNetwork(nn.Module):
    """Shared hidden layers with ReLU, then some for the policy, some for the value.

    "mlp" reads the observation as one row. "cards" looks at each card of the market and of the
    own reserves through one encoder, gives its layers the mean and the maximum of all cards beside
    the rest of the observation, and rates buying or reserving a card by that card's own encoding.
    """

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        self.sizes = sizes
        layer_size, num_separate = sizes.layer_size, sizes.num_separate_layers
        self.has_cards = sizes.network == "cards"
        if self.has_cards:
            card_size = sizes.card_size
            self.cards = nn.Sequential(
                _linear(_CARD_ROW, card_size, 2**0.5),
                nn.ReLU(),
                _linear(card_size, card_size, 2**0.5),
                nn.ReLU(),
            )
            inputs = OBSERVATION_SIZE - _NUM_CARDS * _CARD_ROW + 2 * card_size
        else:
            inputs = OBSERVATION_SIZE
        self.shared = _hidden_layers(inputs, layer_size, sizes.num_shared_layers)
        features = layer_size if sizes.num_shared_layers else inputs
        latent = layer_size if num_separate else features
        self.policy = _hidden_layers(features, layer_size, num_separate)
        self.value = _hidden_layers(features, layer_size, num_separate)
        self.action_logits = _linear(latent, NUM_ACTIONS, 0.01)
        self.value_logits = _linear(latent, MAX_PLAYERS, 0.01)
        if self.has_cards:
            self.card_queries = _linear(latent, 2 * sizes.card_size, 0.1)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the actions (B, A) and of the value (B, 4)."""
        return self.decode(self.encode(observation), observation)

    def encode(self, observation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """All hidden layers: nearly all of the work, which bears a low precision."""
        if not self.has_cards:
            features = self.shared(observation)
            return self.policy(features), self.value(features)
        rows = observation[:, _CARDS_START:_CARDS_END].unflatten(1, (_NUM_CARDS, _CARD_ROW))
        cards = self.cards(rows)
        inputs = (
            observation[:, :_CARDS_START],
            observation[:, _CARDS_END:],
            cards.mean(1),
            cards.amax(1),
        )
        features = self.shared(torch.cat(inputs, 1))
        return self.policy(features), self.value(features), cards

    def decode(
        self, latent: tuple[torch.Tensor, ...], observation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """From what `encode` gave to the logits, in the precision of the weights."""
        policy, value, *cards = (part.to(self.action_logits.weight.dtype) for part in latent)
        logits = self.action_logits(policy)
        if cards:
            logits = logits + self._rate_cards(policy, *cards)
        absent = observation[:, _PRESENT] == 0
        return logits, self.value_logits(value).masked_fill(absent, _IMPOSSIBLE)

    def _rate_cards(self, policy: torch.Tensor, cards: torch.Tensor) -> torch.Tensor:
        """What each card's own encoding adds to the logits of reserving and buying it (B, A)."""
        queries = self.card_queries(policy).unflatten(1, (2, -1))
        reserve, buy = (queries @ cards.transpose(1, 2)).unbind(1)
        no_card = policy.new_zeros(1).expand(len(policy), 1)
        ratings = (
            no_card.expand(-1, RESERVE),
            reserve[:, :NUM_MARKET],
            no_card.expand(-1, BUY - RESERVE_DECK),
            buy,
            no_card.expand(-1, NUM_ACTIONS - RETURN),
        )
        return torch.cat(ratings, 1)


_IMPOSSIBLE = -1e9
"""Logit of what cannot be: finite, so that 0 times its logarithm is 0 and not NaN."""


def masked_log_probs(logits: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
    """Logarithms of the probabilities (B, A) over the legal actions; about -1e9 elsewhere."""
    return logits.masked_fill(action_mask == 0, _IMPOSSIBLE).log_softmax(1)


def win_shares(value_logits: torch.Tensor) -> torch.Tensor:
    """Expected shares of the victory (B, 4), the mover's first; absent seats have none."""
    return value_logits.softmax(1)


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
