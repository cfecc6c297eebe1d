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
    "mcts:sims=100,eval=pretrained": "tree search by that network, quick",
    "mcts:sims=800,eval=pretrained": "tree search by that network, the strongest",
}


def allowed_agents(more: Sequence[str] = ()) -> dict[str, str]:
    """The specs that a table takes, each with its meaning.

    Args:
        more: Specs that the operator of the server adds.
    """
    meanings = agent_specs()
    allowed = {name: meanings[name] for name in ("random", "greedy", "builder", "racer")}
    allowed |= _WITHOUT_NETWORK
    if importlib.util.find_spec("onnxruntime") is not None:
        allowed |= _WITH_NETWORK
    return allowed | {spec: "offered by this server" for spec in more if spec not in allowed}


class Agents:
    """Agents by spec, and only those that were allowed.

    Attributes:
        meanings: Spec: what it is.

    Args:
        more: Specs besides those that are always there.

    Raises:
        SplendorError: One of `more` cannot be made.
    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        self.meanings = allowed_agents(more)
        self._agents = {spec: make_agent(spec, secrets.randbits(32)) for spec in more}
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._waiting = dict.fromkeys(self.meanings, 0)

    def check(self, spec: str) -> str:
        """Return the spec if it is allowed.

        Raises:
            SplendorError: It is not.
        """
        if spec not in self.meanings:
            raise SplendorError(f"no agent {spec!r} here; agents are {', '.join(self.meanings)}")
        return spec

    def num_waiting(self, spec: str) -> int:
        """Questions to an agent that it has not answered yet.

        Raises:
            SplendorError: The agent is not allowed.
        """
        return self._waiting[self.check(spec)]

    async def ask(self, spec: str, question: Callable[[Any], _Answer]) -> _Answer:
        """The answer to a question that is put to the agent in its thread.

        Raises:
            SplendorError: The agent is not allowed.
        """
        self.check(spec)
        if spec not in self._threads:
            self._threads[spec] = ThreadPoolExecutor(1, f"agent {spec}")
        self._waiting[spec] += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads[spec], self._answer, spec, question)
        finally:
            self._waiting[spec] -= 1

    def _answer(self, spec: str, question: Callable[[Any], _Answer]) -> _Answer:
        if spec not in self._agents:
            self._agents[spec] = make_agent(spec, secrets.randbits(32))
        return question(self._agents[spec])
