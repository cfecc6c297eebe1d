"""A network, its optimiser, and the threads that share its work: what every trainer of ours has."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from training.config import RunConfig
from training.networks import PolicyNetwork

C = TypeVar("C", bound=RunConfig)
R = TypeVar("R")

Loss = Callable[[np.ndarray], tuple[torch.Tensor, torch.Tensor]]
"""Rows (b,) of the data to the loss of their mean and to statistics (S,) likewise."""


def faster_precision() -> str:
    """Either bfloat16, where the processor has instructions to multiply it, or float32.

    With them the hidden layers are three times as fast, without them slower.
    """
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # old releases have none
    has_instructions = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    return "bfloat16" if has_instructions else "float32"


class Learner(Generic[C]):
    """The network, its optimiser, and the threads that share the work.

    Each thread runs torch on itself alone: on two cores two such threads waste less than torch's
    own, which wait for each other in every operation. Results depend on the number of threads but
    not on their speed.

    Args:
        config: Of the run.
        precision: "float32" or "bfloat16", of the hidden layers.
        num_threads: Among which the gradient of a batch, and what is given to `map`, are shared.
    """

    def __init__(self, config: C, precision: str, num_threads: int) -> None:
        self.config = config
        self._num_threads = num_threads
        torch.set_num_threads(1)
        generator_state = torch.get_rng_state()
        torch.manual_seed(config.seed)
        self.network = PolicyNetwork(config.network_sizes())
        self.modules: dict[str, nn.Module] = {"network": self.network, **self.make_modules()}
        torch.set_rng_state(generator_state)
        self.parameters = [one for module in self.modules.values() for one in module.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, eps=1e-5, fused=True)
        self.generator = np.random.default_rng(config.seed)
        self._dtype = getattr(torch, precision)
        self._pool = ThreadPoolExecutor(
            num_threads, initializer=torch.set_num_threads, initargs=(1,)
        )

    def make_modules(self) -> dict[str, nn.Module]:
        """What learns beside the network and is no part of the policy, by name."""
        return {}

    def map(self, function: Callable[..., R], *items: Iterable[Any]) -> list[R]:
        """`function` of each item, shared among the threads."""
        if self._num_threads == 1:
            return list(map(function, *items))
        return list(self._pool.map(function, *items))

    def encode(self, network: PolicyNetwork, observation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The hidden layers of a network, in the precision of the config."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._dtype == torch.bfloat16):
            return network.encode(observation)

    def infer(
        self, network: PolicyNetwork, observation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, A) and of the value (B, 4), float32, for observations (B, D)."""
        return network.decode(self.encode(network, observation), observation)

    def step(self, loss: Loss, batch: np.ndarray, learning_rate: float) -> np.ndarray:
        """One step of the optimiser on rows (b,); every thread takes its part of them.

        Returns:
            The statistics of `loss`, as means over the batch.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate

        def gradient(rows: np.ndarray) -> tuple[tuple[torch.Tensor, ...], np.ndarray]:
            weight = len(rows) / len(batch)
            its_loss, statistics = loss(rows)
            parts = torch.autograd.grad(its_loss * weight, self.parameters)
            return parts, statistics.detach().numpy() * weight

        parts = [part for part in np.array_split(batch, self._num_threads) if len(part)]
        gradients, statistics = zip(*self.map(gradient, parts), strict=True)
        for parameter, *shares in zip(self.parameters, *gradients, strict=True):
            parameter.grad = shares[0]
            for share in shares[1:]:
                parameter.grad += share
        torch.nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.optimizer.step()
        return sum(statistics)  # type: ignore[return-value]

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Weights, optimiser and generator, as tensors and as JSON's types."""
        tensors = {
            f"{name}.{key}": value
            for name, module in self.modules.items()
            for key, value in module.state_dict().items()
        }
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": value for key, value in state.items()}
        return tensors, {"generator": self.generator.bit_generator.state}

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Go on from what `state` gave; other tensors do not matter."""
        for name, module in self.modules.items():
            module.load_state_dict(tensors_of(name, tensors))
        states: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors_of("optimizer", tensors).items():
            index, _, key = name.partition(".")
            states.setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": states})
        self.generator.bit_generator.state = values["generator"]

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()


def tensors_of(name: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those whose keys begin with "NAME.", without that."""
    prefix = f"{name}."
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }
