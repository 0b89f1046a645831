"""Agents: one readable file per agent, one interface."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmoss_agents.agent import Agent, OfflineAgent, OnlineAgent
    from pmoss_agents.finding import find_policy, load, make, names_policy
    from pmoss_agents.registry import agent_names

# Imported when they are first asked for: the commands' help needs none of them.
_MODULES = {
    "agent": ("Agent", "OfflineAgent", "OnlineAgent"),
    "finding": ("find_policy", "load", "make", "names_policy"),
    "registry": ("agent_names",),
}

__all__ = [
    "Agent",
    "OfflineAgent",
    "OnlineAgent",
    "agent_names",
    "find_policy",
    "load",
    "make",
    "names_policy",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
