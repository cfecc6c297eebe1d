"""Agents: whatever chooses an action from a position. `make_agent` makes one from a spec string."""

from splendor_env.agents.registry import Agent, agent_specs, make_agent

__all__ = ["Agent", "agent_specs", "make_agent"]
