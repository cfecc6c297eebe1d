"""Policies in ONNX files as agents: `onnx:FILE`, and `pretrained` for those that come along.

`splendor export` writes such a file, and beside it a JSON file that says what it is. To play it,
onnxruntime is enough; reading it runs none of its author's code.
"""

import hashlib
import importlib
import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from splendor_env.agents.layouts import PolicyWarning, layouts, rule_differences
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import observe_movers
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import MAX_PLAYERS, Rules, SplendorError

ONNX_VERSION = 1
"""Rises when the JSON beside an ONNX file changes its form."""

PRETRAINED_FOLDER = Path(__file__).with_name("pretrained")
"""Holds `2p.onnx`, `3p.onnx` and `4p.onnx`, by number of players, each with its JSON."""

_INPUTS = {"observation": OBSERVATION_SIZE}
_OUTPUTS = {"logits": NUM_ACTIONS, "win_shares": MAX_PLAYERS}
"""Columns of each (B, columns) float32."""


class OnnxAgent:
    """Plays the likeliest legal action of a network in an ONNX file, or draws by probabilities.

    It sees what `observe` shows the mover, so it needs no determinized games. A `PolicyWarning`
    tells once of playing by rules, or with a number of players, that it was not trained for.

    Attributes:
        name: Of the agent.
        about: The content of the JSON file.

    Args:
        path: The ONNX file. Its JSON file has the same name but for the suffix.
        name: By default the spec, `onnx:FILE`.
        sample: Draw by the probabilities of the network.
        seed: Of these draws.

    Raises:
        SplendorError: No onnxruntime, or one of the files is missing, broken, made for another
            layout of observations or actions, or a network with other inputs or outputs.
    """

    def __init__(
        self, path: str | Path, *, name: str | None = None, sample: bool = False, seed: int = 0
    ) -> None:
        onnxruntime = _onnxruntime()
        content, self.about = _read(path)
        self.name = f"onnx:{path}" if name is None else name
        self._session = _start_session(onnxruntime, content, path)
        self._sample = sample
        self._generator = np.random.default_rng(seed)
        self._has_warned = False

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`."""
        self.check_rules(rules)
        observation, action_mask = observe_movers(games, rules)
        logits = np.where(action_mask == 1, self.evaluate(observation)[0], -np.inf)
        if self._sample:
            # The arg-max after adding Gumbel noise is a draw by the softmax.
            logits += self._generator.gumbel(size=logits.shape)
        return logits.argmax(1).astype(np.int32)

    def evaluate(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the network says of positions, for a search.

        Args:
            observation: (B, D) float32, of the seat to move.

        Returns:
            Logits of all actions (B, A) float32, illegal ones included, and expected shares of the
            victory (B, 4) float32, by seat as seen: the mover's first.

        Raises:
            SplendorError: The observation has another shape or type.
        """
        observation = np.asarray(observation)
        shape, dtype = observation.shape, observation.dtype
        if len(shape) != 2 or shape[1] != OBSERVATION_SIZE or dtype != np.float32:
            raise SplendorError(
                f"observation must be (B, {OBSERVATION_SIZE}) float32, not {shape} {dtype}"
            )
        return tuple(self._session.run(list(_OUTPUTS), {"observation": observation}))

    def check_rules(self, rules: Rules) -> None:
        """Warn, the first time, of rules that it was not trained for."""
        if self._has_warned:
            return
        differences = rule_differences(self.about["rules"], self.about["num_players"], rules)
        if differences:
            self._has_warned = True  # once is enough
            message = f"{self.name} was trained for {differences}"
            warnings.warn(message, PolicyWarning, stacklevel=3)


class PretrainedAgent:
    """Plays the policy that comes with the package for the number of players of the game.

    Each is read when it is first asked for.

    Raises:
        SplendorError: No onnxruntime.
    """

    def __init__(self, seed: int = 0) -> None:
        _onnxruntime()  # its lack shall be told before a game has begun
        self.name = "pretrained"
        self._seed = seed
        self._policies: dict[int, OnnxAgent] = {}

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`.

        Raises:
            SplendorError: There is no policy for this number of players.
        """
        return self.policy(rules.num_players).act(games, rules, game_id)

    def policy(self, num_players: int) -> OnnxAgent:
        """The agent for games of `num_players`, always the same object.

        Raises:
            SplendorError: There is none.
        """
        if num_players not in self._policies:
            path = PRETRAINED_FOLDER / f"{num_players}p.onnx"
            if not path.is_file():
                raise SplendorError(f"no pretrained policy for {num_players} players")
            name = f"pretrained {path.stem}"
            self._policies[num_players] = OnnxAgent(path, name=name, seed=self._seed)
        return self._policies[num_players]


def make_agent(argument: str, seed: int = 0) -> OnnxAgent:
    """The agent of the spec `onnx:ARGUMENT`: an ONNX file with its JSON file beside it.

    Raises:
        SplendorError: As `OnnxAgent` does.
    """
    return OnnxAgent(argument, seed=seed)


def _onnxruntime() -> ModuleType:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise SplendorError(
            f"policies in ONNX files need onnxruntime: install the extra `play` ({error})"
        ) from error


def _read(path: str | Path) -> tuple[bytes, dict[str, Any]]:
    """The content of the ONNX file and of its JSON file, which fit each other and this program."""
    path = Path(path)
    if path.suffix != ".onnx":
        raise SplendorError(f"the name of an ONNX file must end in .onnx, not be {str(path)!r}")
    json_path = path.with_suffix(".json")
    try:
        content = path.read_bytes()
        about = json.loads(json_path.read_bytes())
    except OSError as error:
        raise SplendorError(f"no policy in {path}: {error}") from error
    except ValueError as error:
        raise SplendorError(f"{json_path} is broken: {error}") from error
    try:
        _check_about(about, json_path)
        digest = about["sha256"]
    except (KeyError, TypeError) as error:
        raise SplendorError(f"{json_path} is broken: {error!r}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise SplendorError(
            f"{path} is broken: its digest is not the one in {json_path.name}; export it again"
        )
    return content, about


def _check_about(about: dict[str, Any], path: Path) -> None:
    version = about["onnx_version"]
    if version != ONNX_VERSION:
        raise SplendorError(
            f"{path} has onnx_version {version!r}, this program reads {ONNX_VERSION}"
        )
    for key, ours in layouts().items():
        if about[key] != ours:
            raise SplendorError(
                f"{path} was made for {key} {about[key]!r}, this program has {ours!r}: export the "
                f"policy anew, or use the program it was made with ({about.get('versions')})"
            )
    if not isinstance(about["rules"], dict) or not isinstance(about["num_players"], list):
        raise TypeError("rules must be an object and num_players a list")


def _start_session(onnxruntime: ModuleType, content: bytes, path: str | Path) -> Any:
    # onnxruntime would read weights from other files, even those in the working folder. Each weight
    # that is not in the file itself has this key in its protocol buffer.
    if b"\n\x08location" in content:
        raise SplendorError(f"{path} must hold its weights itself, not refer to other files")
    options = onnxruntime.SessionOptions()
    # More threads are slower for networks of this size, and contend where games run in processes.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, there is no need to print them too
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes share no base of their own
        raise SplendorError(f"{path} is not a usable ONNX file: {error}") from error
    for kind, nodes, sizes in (
        ("inputs", session.get_inputs(), _INPUTS),
        ("outputs", session.get_outputs(), _OUTPUTS),
    ):
        found = {node.name: (node.type, node.shape) for node in nodes}
        if not _has_sizes(found, sizes):
            raise SplendorError(
                f"{path} must have the {kind} {_text(sizes)} of float32, B variable; it has {found}"
            )
    return session


def _has_sizes(found: dict[str, tuple[str, list]], sizes: dict[str, int]) -> bool:
    return set(found) == set(sizes) and all(
        kind == "tensor(float)" and shape[1:] == [sizes[name]] and not isinstance(shape[0], int)
        for name, (kind, shape) in found.items()
    )


def _text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} (B, {size})" for name, size in sizes.items())
