"""The agents that may sit at a table, and the threads in which they think.

The event loop must never wait for a thought. Each agent is made once and works in a thread of its
own, so agents need not be safe for threads, and a slow one holds up only those who asked for it.
"""

import asyncio
import importlib.util
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from splendor_env.agents.registry import agent_specs, make_agent
from splendor_env.core.state import SplendorError

_Answer = TypeVar("_Answer")

_WITHOUT_NETWORK = {
    "mcts:sims=200": "tree search by rollouts",
}
_WITH_NETWORK = {
    "pretrained": agent_specs()["pretrained"],
    "lookahead:eval=pretrained": "one step ahead by that policy's network",
    "pretrained:sims=100": "tree search by that network, quick",
    "pretrained:sims=800": "tree search by that network, stronger",
    "pretrained:ms=100": "tree search by that network for 0.1 s",
}


def _usual_agents() -> dict[str, str]:
    """The agents that are always there, by spec, each with its meaning."""
    meanings = agent_specs()
    allowed = {name: meanings[name] for name in ("random", "greedy", "builder", "racer")}
    allowed |= _WITHOUT_NETWORK
    if importlib.util.find_spec("onnxruntime") is not None:
        allowed |= _WITH_NETWORK
    return allowed


def _name_and_spec(text: str) -> tuple[str, str]:
    """Read `NAME=SPEC` or `SPEC`; everybody is told the name, and the spec only where it is one.

    Raises:
        SplendorError: There is no name where the spec holds a command, or it cannot be shown.
    """
    name, equals, spec = text.partition("=")
    if not equals or ":" in name:  # a spec has its own equals signs after a colon
        name = spec = text
        if "external:" in spec:
            raise SplendorError(
                f"agent {spec!r} needs a name, since visitors must not see its command: "
                f"--agent NAME={spec}"
            )
    name = name.strip()
    if not name or not name.isprintable():
        raise SplendorError(f"an agent's name has printable characters, not {name!r}")
    return name, spec


class Agents:
    """Agents by name, and only those that were allowed. The name of the usual ones is their spec.

    Attributes:
        meanings: Name: what it is.

    Args:
        more: `NAME=SPEC` or `SPEC`, besides those that are always there.

    Raises:
        SplendorError: One of `more` cannot be made, or has no name of its own.
    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        self.meanings = _usual_agents()
        self._specs = {spec: spec for spec in self.meanings}
        self._agents: dict[str, Any] = {}
        for name, spec in map(_name_and_spec, more):
            if self._specs.get(name, spec) != spec:
                raise SplendorError(f"there are two agents {name!r}: give one another name")
            self._specs[name] = spec
            self.meanings.setdefault(name, "offered by this server")
            self._agents[name] = make_agent(spec, secrets.randbits(32))
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._waiting = dict.fromkeys(self.meanings, 0)

    def check(self, name: str) -> str:
        """Return the name if it is allowed.

        Raises:
            SplendorError: It is not.
        """
        if name not in self.meanings:
            raise SplendorError(f"no agent {name!r} here; agents are {', '.join(self.meanings)}")
        return name

    def num_waiting(self, name: str) -> int:
        """Questions to an agent that it has not answered yet.

        Raises:
            SplendorError: The agent is not allowed.
        """
        return self._waiting[self.check(name)]

    async def ask(self, name: str, question: Callable[[Any], _Answer]) -> _Answer:
        """The answer to a question that is put to the agent in its thread.

        Raises:
            SplendorError: The agent is not allowed.
        """
        self.check(name)
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(1, f"agent {name}")
        self._waiting[name] += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads[name], self._answer, name, question)
        finally:
            self._waiting[name] -= 1

    def _answer(self, name: str, question: Callable[[Any], _Answer]) -> _Answer:
        if name not in self._agents:
            self._agents[name] = make_agent(self._specs[name], secrets.randbits(32))
        return question(self._agents[name])
