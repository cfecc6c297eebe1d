"""From a spec string to an agent. The only place that looks for `training`, at run time.

Specs: a name (`random`, `greedy`, `pretrained`), `pretrained:ms=100` (a search by that policy),
`mcts:OPTIONS` and `lookahead:OPTIONS` (by others), `onnx:FILE` (an exported policy),
`ppo:DIRECTORY` (a policy written by a trainer; needs a checkout of the project), `external:COMMAND`
(a program that speaks the protocol of docs/protocol.md), or `package.module:ARGUMENT` (your own
module: it must have a function `make_agent(argument, seed)` that returns an `Agent`).
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Protocol, cast

import numpy as np

from splendor_env.agents import external, onnx, searching
from splendor_env.agents.builtin import BuilderAgent, GreedyAgent, RacerAgent, RandomAgent
from splendor_env.core.state import Rules, SplendorError

_BUILTIN = {
    "random": RandomAgent,
    "greedy": GreedyAgent,
    "builder": BuilderAgent,
    "racer": RacerAgent,
    "pretrained": onnx.PretrainedAgent,
}


class Agent(Protocol):
    """Chooses actions for many games at once; its seed is fixed at construction.

    Two more members are used where there are any. `failures`, a dict from `game_id` to a reason, is
    for an agent that can fail: where it answers -1 and has a reason, the game is counted as failed
    instead of illegal, and lost just as well. `end_games(game_id, results)` is called in the arena
    with the ids (B,) of games over and a dictionary for each: `end_reason` (a name of `EndReason`,
    or "forfeit"), `rounds`, `points` by seat and `winners`.
    """

    name: str

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """Choose for the seat to move in each game.

        Args:
            games: (B,) GAME. In the arena these are copies in which everything the mover cannot
                see has been drawn anew.
            rules: The variant, the same for all games.
            game_id: (B,) int64, by which an agent can keep what it knows of a game.

        Returns:
            (B,) int32 legal actions.
        """
        ...


def failure_of(agent: Agent, game_id: int, action: int) -> str | None:
    """Why the agent had no action in this game; None for an action that is just illegal."""
    return getattr(agent, "failures", {}).get(game_id) if action == -1 else None


def agent_specs() -> dict[str, str]:
    """Every kind of spec with a line about it."""
    return {
        "random": "a uniformly random legal action",
        "greedy": "one-step heuristic: the best own position after the action",
        "builder": "heuristic that builds an engine of bonuses for the cards in reach",
        "racer": "heuristic that plans its next two purchases, the strongest of them",
        "pretrained": "the trained policy that comes along for the number of players",
        "pretrained:OPTIONS": "tree search by that policy: ms=100 or sims=200, threads= ...",
        "onnx:FILE": "a policy exported as an ONNX file, with its JSON beside it",
        "mcts:OPTIONS": "tree search: sims=200 or ms=100, eval=rollouts or a network ...",
        "lookahead:eval=AGENT": "one step ahead by the network of pretrained or onnx:FILE",
        "ppo:DIRECTORY": "a policy trained here, from its directory of weights and JSON",
        "external:COMMAND": "a program that speaks the line protocol; see docs/protocol.md",
        "package.module:ARGUMENT": "your own: its make_agent(argument, seed); a dot and a colon",
    }


def make_agent(spec: str, seed: int = 0) -> Agent:
    """Make the agent that `spec` names.

    Raises:
        SplendorError: Unknown spec, or what it names is missing or broken.
    """
    kind, separator, argument = str(spec).partition(":")
    if not separator and kind in _BUILTIN:
        return _BUILTIN[kind](seed)
    if separator and kind == "pretrained":
        return searching.make_pretrained(argument, seed, make_agent)
    if separator and kind == "onnx":
        return onnx.make_agent(argument, seed)
    if separator and kind == "ppo":
        return _training().make_agent(argument, seed)
    if kind == "mcts":
        return searching.make_mcts(argument, seed, make_agent)
    if kind == "lookahead":
        return searching.make_lookahead(argument, seed, make_agent)
    if separator and kind == "external":
        return external.make_agent(argument)
    if separator and "." in kind:
        return _check_agent(_own_factory(kind, spec)(argument, seed), spec)
    raise SplendorError(f"unknown agent {spec!r}; agents are {', '.join(agent_specs())}")


def _training() -> ModuleType:
    try:
        return importlib.import_module("training.policy_agent")
    except ModuleNotFoundError as error:
        raise SplendorError(
            f"agents of the kind ppo: need a checkout of the project with its extra `train` "
            f"installed ({error})"
        ) from error


def _own_factory(module: str, spec: str) -> Callable[[str, int], Agent]:
    try:
        factory = getattr(importlib.import_module(module), "make_agent", None)
    except (ImportError, TypeError, ValueError, SyntaxError) as error:
        raise SplendorError(f"agent {spec!r}: {error}") from error
    if not callable(factory):
        raise SplendorError(f"agent {spec!r}: {module} has no function make_agent(argument, seed)")
    return cast(Callable[[str, int], Agent], factory)


def _check_agent(agent: Agent, spec: str) -> Agent:
    is_named = isinstance(getattr(agent, "name", None), str)
    if not is_named or not callable(getattr(agent, "act", None)):
        raise SplendorError(
            f"agent {spec!r}: make_agent must return an agent with a `name` and a method `act`, "
            f"not {agent!r}"
        )
    return agent
