"""From a trained policy to an ONNX file that plays without torch: `splendor export`.

The file is written only if onnxruntime gives what torch gives.
"""

import hashlib
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # noqa: F401  told apart from other faults if it is missing
import onnxscript  # noqa: F401  torch's exporter imports it late
import torch
from torch import nn

from splendor_env.agents.builtin import RandomAgent
from splendor_env.agents.onnx import ONNX_VERSION, OnnxAgent
from splendor_env.core.batch import Batch
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import SplendorError, standard
from training.checkpoint import load_policy, write_atomically
from training.networks import PolicyNetwork, win_shares

OPSET = 18
"""Of the ONNX operators: old enough for every onnxruntime that this package allows."""

MAX_DIFFERENCE = 1e-4
"""Largest difference from torch of a logit or a win share."""

_OF_THE_WEIGHTS = ("checkpoint_version", "weights", "sha256")
"""Keys of a checkpoint that say nothing about the ONNX file."""


def export_policy(checkpoint: str | Path, path: str | Path) -> dict[str, Any]:
    """Write a policy as an ONNX file, and what is known about it as JSON beside that.

    Input is `observation` (B, D) float32, outputs are `logits` (B, A) of all actions, illegal ones
    included, and `win_shares` (B, 4) by seat as seen, the mover's first; B is variable.

    Args:
        checkpoint: Folder of the policy, or of its run.
        path: Ends in `.onnx`. Older files of this name are replaced.

    Returns:
        The content of the JSON file.

    Raises:
        SplendorError: No usable policy, onnxruntime does not give what torch gives, or the files
            cannot be written. Then none is.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise SplendorError(f"the name of an ONNX file must end in .onnx, not be {str(path)!r}")
    network, about = load_policy(checkpoint)
    content = to_onnx(network)
    about = {
        "onnx_version": ONNX_VERSION,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        **{key: value for key, value in about.items() if key not in _OF_THE_WEIGHTS},
    }
    about["parity"] = _check_parity(network, content, about)
    try:
        write_atomically(path, content)
        write_atomically(path.with_suffix(".json"), _to_json(about))
    except OSError as error:
        raise SplendorError(f"cannot write {path}: {error}") from error
    return about


class _Judge(nn.Module):
    """A network whose second output is shares, not logits."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, value_logits = self.network(observation)
        return logits, win_shares(value_logits)


def to_onnx(network: PolicyNetwork) -> bytes:
    """The network as the content of an ONNX file."""
    example = torch.zeros(2, OBSERVATION_SIZE)  # a batch of one would be taken for a fixed size
    with _quiet():
        program = torch.export.export(
            _Judge(network).eval(),
            (example,),
            dynamic_shapes={"observation": {0: torch.export.Dim("batch")}},
            strict=True,  # keeps B variable where the network's code takes the length of a tensor
        )
        exported = torch.onnx.export(
            program,
            input_names=["observation"],
            output_names=["logits", "win_shares"],
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert exported is not None
    model = exported.model_proto
    _strip(model)
    return model.SerializeToString(deterministic=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the exporter says about its own libraries."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _strip(model: onnx.ModelProto) -> None:
    """Remove notes on the source code, which hold paths; name the variable size."""
    graph = model.graph
    del graph.value_info[:]
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for part in (*graph.input, *graph.output):
        part.type.tensor_type.shape.dim[0].dim_param = "batch"


def _check_parity(network: PolicyNetwork, content: bytes, about: dict[str, Any]) -> dict[str, Any]:
    """Compare onnxruntime with torch, many positions at once and one by one.

    Raises:
        SplendorError: They differ.
    """
    observation = _positions(about["rules"], about["num_players"])
    with torch.inference_mode():
        expected = [part.numpy() for part in _Judge(network).eval()(torch.from_numpy(observation))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policy.onnx")
        path.write_bytes(content)
        path.with_suffix(".json").write_bytes(_to_json(about))
        agent = OnnxAgent(path)
    together = agent.evaluate(observation)
    alone = [agent.evaluate(observation[row : row + 1]) for row in range(len(observation))]
    alone = [np.concatenate(part) for part in zip(*alone, strict=True)]
    differences = {
        name: max(
            float(np.abs(result[output] - expected[output]).max()) for result in (together, alone)
        )
        for output, name in enumerate(("logits", "win_shares"))
    }
    # Written so that a NaN is a difference.
    if not all(difference < MAX_DIFFERENCE for difference in differences.values()):
        raise SplendorError(
            f"the ONNX network differs from torch's by {differences}, at most {MAX_DIFFERENCE} is "
            f"allowed: nothing was written"
        )
    return {"positions": len(observation), **differences}


def _positions(rules: Mapping[str, int], num_players: Sequence[int]) -> np.ndarray:
    """Observations (P, D) from all over random games by these fields of the rules."""
    num_games, num_samples, steps_between = 32, 12, 9
    random = RandomAgent(0)
    changes = {key: value for key, value in rules.items() if key != "num_players"}
    rows = []
    for number in num_players:
        batch = Batch(standard(number, **changes), num_games)
        for step in range(num_samples * steps_between):
            if step % steps_between == 0:
                rows.append(batch.observation.copy())
            batch.step(random.act(batch.games, batch.rules, np.arange(num_games)))
    return np.concatenate(rows)


def _to_json(about: dict[str, Any]) -> bytes:
    return json.dumps(about, indent=2).encode() + b"\n"
