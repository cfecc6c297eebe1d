"""Past selves to play against: frozen copies of the learner, kept over the whole run.

They are files, so that a resumed run has them again. With them goes how evenly the learner plays
each one: who trains against those it is even with learns most.
"""

from copy import deepcopy
from pathlib import Path

import numpy as np

from splendor_env.core.state import SplendorError
from training.checkpoint import (
    STEP_DIGITS,
    weights_from_bytes,
    weights_to_bytes,
    write_atomically,
)
from training.config import PPOConfig
from training.networks import PolicyNetwork
from training.run import read

_HALF_LIFE = 200
"""Games after which the older ones count half in a share."""

_LEAST_WEIGHT = 0.02
"""Nobody is forgotten: who always loses might win again."""


class Pool:
    """At most `max_snapshots` past selves, about evenly spaced by the logarithm of their ages.

    Where there is one too many, that one goes, the oldest and the newest excepted, whose two
    neighbours' ages have the smallest ratio; an age counts up to when the next copy is due.

    Attributes:
        steps: The training steps that each has seen, oldest first.
        networks: One for each step, without gradients.
    """

    def __init__(self, config: PPOConfig, folder: Path, step: int) -> None:
        """Read the copies in `folder` that are not newer than `step`."""
        self._folder = folder
        self._every, self._max = config.snapshot_every, config.max_snapshots
        self.steps: list[int] = []
        self.networks: list[PolicyNetwork] = []
        self._shares: list[float] = []
        for path in sorted(folder.glob(f"step-{STEP_DIGITS}.safetensors")):
            its_step = int(path.stem.removeprefix("step-"))
            if its_step <= step:
                network = PolicyNetwork(config.network_sizes())
                weights_from_bytes(read(path), network, path)
                self._append(its_step, network)

    def is_due(self, step: int) -> bool:
        """Whether the newest copy is old enough for another."""
        return step - (self.steps[-1] if self.steps else 0) >= self._every

    def add(self, step: int, network: PolicyNetwork) -> None:
        """Freeze a copy of the network; drop an older one if there are too many.

        Its file stays until `delete_dropped`: a run that breaks off now goes on from a checkpoint
        at which it still had it.
        """
        self._append(step, deepcopy(network).cpu())
        write_atomically(self._file(step), weights_to_bytes(self.networks[-1]))
        while len(self.steps) > self._max:
            age = [step + self._every - its_step for its_step in self.steps]
            inner = range(1, len(age) - 1)
            drop = min(inner, key=lambda index: age[index - 1] / age[index + 1], default=0)
            for values in (self.steps, self.networks, self._shares):
                del values[drop]

    def delete_dropped(self) -> None:
        """Delete the files of copies that were dropped, once a checkpoint knows of it."""
        kept = {self._file(step) for step in self.steps}
        for path in self._folder.glob(f"step-{STEP_DIGITS}.safetensors"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def record(self, step: int, share: float, games: int) -> None:
        """Take in how the learner did against a past self since the last time.

        Args:
            step: Of the past self; one that is gone meanwhile is passed over.
            share: The learner's mean share of the victories, scaled so that 0.5 is even for any
                number of players.
            games: Their number.
        """
        if step in self.steps:
            index = self.steps.index(step)
            weight = 1 - 0.5 ** (games / _HALF_LIFE)
            self._shares[index] += weight * (share - self._shares[index])

    def weights(self) -> np.ndarray:
        """With which probability to meet each past self (P,).

        In proportion to w * (1 - w) for the learner's share w: prioritised fictitious self-play,
        weighted by variance (Vinyals et al. 2019, AlphaStar, Nature 575), plus a small constant.
        """
        share = np.array(self._shares)
        weight = share * (1 - share) + _LEAST_WEIGHT
        return weight / weight.sum()

    def state(self) -> dict[str, list[float]]:
        """What `record` has gathered, for `load_state` of a resumed run."""
        return {"steps": [float(step) for step in self.steps], "shares": list(self._shares)}

    def load_state(self, state: dict[str, list[float]]) -> None:
        """Be as the pool that gave `state` was.

        Raises:
            SplendorError: It is not what `state` gives, or a copy is missing.
        """
        try:
            pairs = list(zip(state["steps"], state["shares"], strict=True))
            is_right = all(0 <= share <= 1 for _, share in pairs)
        except (KeyError, TypeError, ValueError) as error:
            raise SplendorError(f"the record of past selves is broken: {error!r}") from error
        if not is_right:
            raise SplendorError(f"the record of past selves is broken: {state['shares']}")
        networks = dict(zip(self.steps, self.networks, strict=True))
        missing = [self._file(int(step)) for step, _ in pairs if step not in networks]
        if missing:
            raise SplendorError(f"the past self {missing[0]} is missing")
        self.steps = [int(step) for step, _ in pairs]
        self.networks = [networks[step] for step in self.steps]
        self._shares = [share for _, share in pairs]

    def _append(self, step: int, network: PolicyNetwork) -> None:
        self.steps.append(step)
        self.networks.append(network.eval().requires_grad_(False))
        self._shares.append(0.5)

    def _file(self, step: int) -> Path:
        return self._folder / f"step-{step:012d}.safetensors"
