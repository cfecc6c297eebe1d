"""Any network as an agent, by way of an ONNX file. Its guide is docs/own_agent.md.

    python examples/own_onnx_agent.py --steps 300 --file runs/own.onnx
    splendor evaluate examples.own_onnx_agent:runs/own.onnx --against random

What is special here: `OnnxAgent` needs no torch and runs no code from the file, only its
operations. The file takes `observation` (B, 746) float32 and `action_mask` (B, 78) bool, B any
number, and gives `logits` (B, 78), illegal ones at least a million below; other outputs, such as
`value`, are not read. The network written here has learned, in seconds, to imitate `greedy`.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from splendor_env import SplendorError
from splendor_env.agents import make_agent as make_builtin_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch, observe_movers
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import Rules, standard
from splendor_env.evaluation import play_match


class OnnxAgent:
    """Plays the likeliest legal action of a network in a file.

    Raises:
        SplendorError: No onnxruntime, or no such file, or it is not a network of this form.
    """

    def __init__(self, path: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise SplendorError("this agent needs onnxruntime: pip install onnxruntime") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if not Path(path).is_file():
            raise SplendorError(f"no file {path!r}; `python examples/own_onnx_agent.py` writes one")
        try:
            self._session = onnxruntime.InferenceSession(path, options)
        except Exception as error:  # its classes share no base of their own
            raise SplendorError(f"{path} is not an ONNX file: {error}") from error
        inputs = {node.name for node in self._session.get_inputs()}
        if inputs != {"observation", "action_mask"}:
            raise SplendorError(f"{path} must take observation and action_mask, not {inputs}")
        self.name = f"onnx {path}"

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """A legal action (B,) int32 for the seat to move in each of the games (B,)."""
        observation, action_mask = observe_movers(games, rules)
        inputs = {"observation": observation, "action_mask": action_mask.astype(np.bool_)}
        (logits,) = self._session.run(["logits"], inputs)
        # Masked once more: a network whose file forgot to is still a legal player.
        return np.where(action_mask == 1, logits, -np.inf).argmax(1).astype(np.int32)


def make_agent(argument: str, seed: int) -> OnnxAgent:
    """The agent of the spec `examples.own_onnx_agent:FILE`."""
    return OnnxAgent(argument)


def write_network(path: Path, steps: int, seed: int) -> None:
    """Train a small network to choose as `greedy` does, and export it."""
    try:
        import onnxscript  # noqa: F401  what torch exports with
        import torch
        from torch import nn
    except ImportError as error:
        sys.exit(f"this example needs torch, onnx and onnxscript ({error}); pip install them")

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(OBSERVATION_SIZE, 256), nn.ReLU())
            self.policy = nn.Linear(256, NUM_ACTIONS)
            self.value = nn.Linear(256, 1)

        def forward(self, observation, action_mask):
            body = self.body(observation)
            # Finite: some runtimes make NaN of infinities.
            logits = torch.where(action_mask, self.policy(body), -1e6)
            return logits, self.value(body).squeeze(-1)

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    teacher, noise = make_builtin_agent("greedy"), make_builtin_agent("random", seed)
    rng = np.random.default_rng(seed)
    batch = Batch(standard(2), 512)
    batch.reset(seed + 10**6)
    for _ in range(steps):
        ids = np.arange(batch.num_games)
        target = teacher.act(batch.games, batch.rules, ids)
        logits, _ = network(
            torch.from_numpy(batch.observation.copy()),
            torch.from_numpy(batch.action_mask.astype(np.bool_)),
        )
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(target.astype(np.int64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # A random move now and then leads into positions that greedy alone would not reach.
        wanders = rng.random(batch.num_games) < 0.1
        batch.step(np.where(wanders, noise.act(batch.games, batch.rules, ids), target))
    right = (logits.argmax(1).numpy() == target).mean()
    print(f"chooses as greedy in {right:.0%} of positions after {steps} steps")

    path.parent.mkdir(parents=True, exist_ok=True)
    # Of more than one row: a batch of one would be taken for a fixed size.
    example = (
        torch.from_numpy(batch.observation[:2].copy()),
        torch.from_numpy(batch.action_mask[:2].astype(np.bool_)),
    )
    rows = torch.export.Dim("rows")
    torch.onnx.export(
        network.eval(),
        example,
        path,
        input_names=["observation", "action_mask"],
        output_names=["logits", "value"],
        dynamic_shapes={"observation": {0: rows}, "action_mask": {0: rows}},
        external_data=False,
        dynamo=True,
        verbose=False,
    )
    with torch.no_grad():
        expected, _ = network(*example)
    names = ("observation", "action_mask")
    inputs = {name: part.numpy() for name, part in zip(names, example, strict=True)}
    (logits,) = OnnxAgent(str(path))._session.run(["logits"], inputs)
    difference = np.abs(logits - expected.numpy()).max()
    print(f"wrote {path}; largest difference from torch {difference:.1e}")
    assert difference < 1e-4


def main() -> int:
    """Write a file and let it play; 1 if it does not beat random."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--file", type=Path, default=Path("runs/own.onnx"))
    options = parser.parse_args()
    try:
        write_network(options.file, options.steps, options.seed)
        agent = make_agent(str(options.file), options.seed)
    except SplendorError as error:
        sys.exit(str(error))
    result = play_match(agent, make_builtin_agent("random"), standard(2), options.games)
    print(f"win share against random {result.win_share:.1%}, illegal actions {result.illegal}")
    spec = f"examples.own_onnx_agent:{options.file}"
    print(f"once more, with an interval: splendor evaluate {spec} --against random")
    return int(options.steps >= 200 and result.win_share < 0.5)


if __name__ == "__main__":
    sys.exit(main())
