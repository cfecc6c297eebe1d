"""Search agents from their specs, such as `mcts:sims=200` and `lookahead:eval=pretrained`.

`pretrained:ms=100` is short for `mcts:ms=100,eval=pretrained`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from splendor_env.agents.onnx import OnnxAgent, PretrainedAgent
from splendor_env.core.state import Rules, SplendorError
from splendor_env.search.evaluators import (
    Evaluate,
    Evaluator,
    NetworkEvaluator,
    PositionEvaluator,
    RolloutEvaluator,
)
from splendor_env.search.lookahead import LookaheadAgent
from splendor_env.search.mcts import Search, SearchAgent, Settings
from splendor_env.search.tree import Selection

ROLLOUTS = "rollouts"
PRETRAINED = "pretrained"

TEMPERATURE = 2.0
"""Of networks, unless told otherwise: trained to choose, they are too sure of themselves to be
searched with. An agent with `evaluate_games` has 1: what it gives was made to be a prior."""

MakeAgent = Callable[[str, int], Any]

_SEARCH_KEYS = {
    "sims": "simulations for each decision",
    "ms": "milliseconds for each decision, in place of sims",
    "threads": "threads",
    "root": "puct or gumbel",
    "c_puct": "weight of the prior",
    "temperature": "divides the logits of the network's policy, by default 2: the higher, the more "
    "moves are looked at",
    "outcomes": "sampled outcomes of a draw",
    "reuse": "1 to keep the tree between decisions, else 0",
}
_EVALUATORS = (
    f"{ROLLOUTS}, {PRETRAINED}, onnx:FILE, or an agent with `evaluate` or `evaluate_games`"
)
_TREE_KEYS = _SEARCH_KEYS | {"eval": _EVALUATORS, "depth": "decisions of a rollout"}
_LOOKAHEAD_KEYS = {
    "eval": "pretrained, onnx:FILE, or another agent that has `evaluate`",
    "samples": "imagined draws for each action",
    "c": "weight of the value against the logarithm of the probability",
}


def make_mcts(argument: str, seed: int, make_agent: MakeAgent) -> SearchAgent:
    """The agent of the spec `mcts:ARGUMENT`.

    Raises:
        SplendorError: An unknown key or a value out of range; or what `make_agent` raises about the
            evaluating agent.
    """
    spec = f"mcts:{argument}"
    options = _parse(spec, argument, _TREE_KEYS)
    settings = _settings(spec, options)
    source = options.get("eval", ROLLOUTS)
    if source == ROLLOUTS:
        depth = _integer(spec, options, "depth", RolloutEvaluator().num_decisions, 0, 10_000)
        evaluator = RolloutEvaluator(depth)
        if "temperature" in options:
            raise SplendorError(f"agent {spec!r}: temperature is for networks, not eval={ROLLOUTS}")
    elif "depth" in options:
        raise SplendorError(f"agent {spec!r}: depth is for eval={ROLLOUTS}")
    else:
        evaluator = _evaluator(spec, options, source, seed, make_agent)
    return SearchAgent(spec, Search(evaluator, settings, seed))


def make_pretrained(argument: str, seed: int, make_agent: MakeAgent) -> SearchAgent:
    """The agent of the spec `pretrained:ARGUMENT`: that of `mcts:ARGUMENT,eval=pretrained`.

    Raises:
        SplendorError: As `make_mcts` does; or neither `sims` nor `ms` is given.
    """
    spec = f"{PRETRAINED}:{argument}"
    options = _parse(spec, argument, _SEARCH_KEYS)
    if "sims" not in options and "ms" not in options:
        needed = " or ".join(f"{key}= ({_SEARCH_KEYS[key]})" for key in ("sims", "ms"))
        raise SplendorError(f"agent {spec!r} needs {needed}")
    evaluator = _evaluator(spec, options, PRETRAINED, seed, make_agent)
    return SearchAgent(spec, Search(evaluator, _settings(spec, options), seed))


def make_lookahead(argument: str, seed: int, make_agent: MakeAgent) -> LookaheadAgent:
    """The agent of the spec `lookahead:ARGUMENT`.

    Raises:
        SplendorError: As `make_mcts` does; or `eval` is missing.
    """
    spec = f"lookahead:{argument}"
    options = _parse(spec, argument, _LOOKAHEAD_KEYS)
    if "eval" not in options:
        raise SplendorError(f"agent {spec!r} needs eval={_LOOKAHEAD_KEYS['eval']}")
    return LookaheadAgent(
        spec,
        _evaluate_for(spec, options["eval"], make_agent(options["eval"], seed)),
        num_samples=_integer(spec, options, "samples", 2, 1, 1000),
        c_q=_number(spec, options, "c", 100.0, 0.0, 1e6),
        seed=seed,
    )


def _settings(spec: str, options: Mapping[str, str]) -> Settings:
    """The settings that the options of a tree search ask for."""
    if "sims" in options and "ms" in options:
        raise SplendorError(f"agent {spec!r}: either sims or ms")
    gumbel = {"": None, "puct": False, "gumbel": True}.get(options.get("root", ""), "?")
    if gumbel == "?":
        raise SplendorError(f"agent {spec!r}: root must be puct or gumbel, not {options['root']!r}")
    selection = Selection(
        c_puct=_number(spec, options, "c_puct", Selection().c_puct, 0.0, 100.0),
        num_outcomes=_integer(spec, options, "outcomes", Selection().num_outcomes, 1, 100),
    )
    return Settings(
        num_simulations=_integer(spec, options, "sims", Settings().num_simulations, 1, 1_000_000),
        milliseconds=_number(spec, options, "ms", 0.0, 0.1, 3_600_000.0),
        selection=selection,
        gumbel=gumbel,
        threads=_integer(spec, options, "threads", 1, 1, 256),
        reuse=bool(_integer(spec, options, "reuse", 1, 0, 1)),
    )


def _evaluator(
    spec: str, options: Mapping[str, str], source: str, seed: int, make_agent: MakeAgent
) -> Evaluator:
    """What judges leaves by the agent `source`."""
    agent = make_agent(source, seed)
    has_games = callable(getattr(agent, "evaluate_games", None))
    default = 1.0 if has_games else TEMPERATURE
    temperature = _number(spec, options, "temperature", default, 0.01, 100.0)
    if has_games:
        return PositionEvaluator(
            lambda rules: partial(agent.evaluate_games, rules=rules), temperature=temperature
        )
    return NetworkEvaluator(_evaluate_for(spec, source, agent), temperature=temperature)


def _evaluate_for(spec: str, source: str, agent: Any) -> Callable[[Rules], Evaluate]:
    """How to judge positions by an agent's network, given the rules."""
    if isinstance(agent, PretrainedAgent):
        return lambda rules: _checked(agent.policy(rules.num_players), rules)
    if isinstance(agent, OnnxAgent):
        return lambda rules: _checked(agent, rules)
    if not callable(getattr(agent, "evaluate", None)):
        raise SplendorError(
            f"agent {spec!r}: {source!r} cannot evaluate positions; eval must be {_EVALUATORS}"
        )
    return lambda rules: agent.evaluate


def _checked(agent: OnnxAgent, rules: Rules) -> Evaluate:
    agent.check_rules(rules)
    return agent.evaluate


def _parse(spec: str, argument: str, keys: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in argument.split(",") if argument else []:
        key, separator, value = part.partition("=")
        if key not in keys or not separator:
            choices = ", ".join(f"{name}= ({meaning})" for name, meaning in keys.items())
            raise SplendorError(f"agent {spec!r}: unknown {part!r}; options are {choices}")
        if key in options:
            raise SplendorError(f"agent {spec!r}: {key} is given twice")
        options[key] = value
    return options


def _integer(
    spec: str, options: Mapping[str, str], key: str, default: int, low: int, high: int
) -> int:
    text = options.get(key, str(default))
    if not text.isdecimal() or not low <= int(text) <= high:
        raise SplendorError(
            f"agent {spec!r}: {key} must be an integer {low} to {high}, not {text!r}"
        )
    return int(text)


def _number(
    spec: str, options: Mapping[str, str], key: str, default: float, low: float, high: float
) -> float:
    if key not in options:
        return default
    try:
        number = float(options[key])
    except ValueError:
        number = np.nan
    if not low <= number <= high:
        raise SplendorError(
            f"agent {spec!r}: {key} must be a number {low:g} to {high:g}, not {options[key]!r}"
        )
    return number
