"""Agents by name: our own, and those of other packages.

A package adds an agent by an entry point in its ``pyproject.toml``::

    [project.entry-points."pmoss.agents"]
    mine = "my_package.agent:Mine"

The class is an ``Agent`` whose ``name`` is that of the entry point. Without an entry point it goes
by its path, ``my_package.agent:Mine``. A class of any other policy may be named likewise: it is
evaluated, but neither trained nor kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, cast

from pmoss_agents.agent import Agent, Learns
from pmoss_env.entry_points import entries, find
from pmoss_env.entry_points import load as load_entry
from pmoss_env.errors import MissingExtraError, PluginError, UnknownNameError

GROUP = "pmoss.agents"


@dataclass(frozen=True)
class Listing:
    """An agent as ``pmoss list agents`` shows it.

    Attributes:
        name: what make() knows it by.
        domain: the environment that it is for; empty if it names none.
        learns: "offline" from a dataset, "online" by playing, or "nothing".
        extra: of pmoss-env, needed to learn; empty if none is.
        path: ``module:Class``.
        problem: why an agent of another package cannot be loaded; empty if it can.
        plain: whether it is any other policy, which acts, and is neither trained nor kept.
    """

    name: str
    domain: str
    learns: Learns
    extra: str
    path: str
    problem: str = ""
    plain: bool = False


#: Our own by domain: name, module and class, how it learns, and the extra that learning needs.
_TABLE: Mapping[str, tuple[tuple[str, str, Learns, str], ...]] = {
    "spatial": (
        ("bc", "bc:BehaviourCloning", "offline", "d3rlpy"),
        ("bcq", "bcq:BCQ", "offline", "d3rlpy"),
        ("cdqac", "cdqac:CDQAC", "offline", "d3rlpy"),
        ("cql", "cql:CQL", "offline", "d3rlpy"),
        ("decision-transformer", "decision_transformer:DecisionTransformer", "offline", "agents"),
        ("dqn", "dqn:MaskedDQNAgent", "online", "online"),
        ("generalist", "generalist:Generalist", "offline", "agents"),
        ("iql", "iql:IQL", "offline", "d3rlpy"),
        ("maskable-ppo", "maskable_ppo:MaskablePPOAgent", "online", "online"),
        ("pair-policy", "pair_policy:PairPolicy", "offline", "agents"),
        ("percentile-bc", "bc:PercentileBC", "offline", "d3rlpy"),
        ("qt", "qt:QT", "offline", "agents"),
        ("rebrac", "rebrac:ReBRAC", "offline", "d3rlpy"),
        ("reconstruct", "reconstruct:Reconstruct", "offline", "agents"),
        ("surrogate", "surrogate:Surrogate", "offline", "agents"),
        ("xql", "xql:XQL", "offline", "d3rlpy"),
    ),
    "access-path": (
        ("always-cpu", "fixed:AlwaysCpu", "nothing", ""),
        ("always-offload", "fixed:AlwaysOffload", "nothing", ""),
        ("decision-tree", "decision_tree:DecisionTree", "offline", "agents"),
        ("linear-cost", "linear_cost:LinearCost", "offline", "agents"),
        ("linucb", "linucb:LinUCB", "offline", ""),
        ("oracle", "fixed:Oracle", "nothing", ""),
    ),
    "continual": (
        ("forecaster", "forecaster:Forecaster", "offline", "agents"),
        ("learned-repair", "learned_repair:LearnedRepair", "nothing", "agents"),
    ),
    "threads": (
        ("threads-hybrid", "bandits:Hybrid", "online", ""),
        ("threads-linucb", "bandits:ThreadLinUCB", "online", ""),
        ("threads-random", "fixed:ThreadRandom", "nothing", ""),
        ("threads-rule", "fixed:ThreadRule", "nothing", ""),
        ("threads-scheduling-domain", "fixed:SchedulingDomain", "nothing", ""),
    ),
}
#: Imported when asked for: some need torch.
OWN = {
    name: Listing(name, domain, learns, extra, f"pmoss_agents.{domain.replace('-', '_')}.{path}")
    for domain, agents in _TABLE.items()
    for name, path, learns, extra in agents
}


def listings() -> list[Listing]:
    """All agents: ours, and those of other packages, which are imported."""
    return [*OWN.values(), *(_of_others(entry) for entry in entries(GROUP, OWN).values())]


def agent_names(domain: str | None = None) -> list[str]:
    """Names that agent_class() knows, sorted.

    Raises:
        UnknownNameError: no agent is for such a domain.
    """
    if domain is None:
        return sorted([*OWN, *entries(GROUP, OWN)])
    every = listings()
    if domain not in (domains := {listing.domain for listing in every if listing.domain}):
        raise UnknownNameError("domain", domain, domains)
    return sorted(listing.name for listing in every if listing.domain == domain)


def agent_class(name: str) -> type[Agent]:
    """The class of an agent.

    Args:
        name: one of agent_names(), or ``module:Class``, which is imported.

    Raises:
        PluginError: it cannot be imported, or is no agent.
    """
    agent = find("agent", name, _entries())
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise PluginError(f"agent {name!r}: {agent!r} is no subclass of pmoss_agents.Agent")
    if ":" not in name and agent.name != name:
        raise PluginError(
            f"agent {name!r}: its class calls itself {agent.name!r}: entry point and class must "
            "have the same name"
        )
    return agent


def policy_maker(name: str) -> Callable[..., Any]:
    """What makes an agent, or any other policy of another package.

    Args:
        name: one of agent_names(), or ``module:Class``, which is imported.

    Raises:
        PluginError: it cannot be imported, or makes nothing.
    """
    maker = find("policy" if ":" in name else "agent", name, _entries())
    if isinstance(maker, type) and issubclass(maker, Agent):
        return agent_class(name)
    if not callable(maker):
        raise PluginError(f"{name}: {maker!r} is no class of policies")
    return cast(Callable[..., Any], maker)


def registered_class(name: str) -> type[Agent]:
    """agent_class() of a name that was read from a file: only those registered, no path.

    Raises:
        UnknownNameError: no agent of that name is registered.
    """
    if name not in (registered := _entries()):
        raise UnknownNameError("agent", name, registered)
    return agent_class(name)


def _entries() -> dict[str, EntryPoint]:
    own = {name: EntryPoint(name, listing.path, GROUP) for name, listing in OWN.items()}
    return {**own, **entries(GROUP, OWN)}


def _of_others(entry: EntryPoint) -> Listing:
    try:
        policy: Any = load_entry(entry)
        if not (isinstance(policy, type) and issubclass(policy, Agent)):
            domain = str(getattr(policy, "domain", ""))
            return Listing(entry.name, domain, "nothing", "", entry.value, plain=True)
        facts = (str(policy.domain), policy.learns, str(getattr(policy, "extra", "")))
    except (AttributeError, MissingExtraError, PluginError) as error:
        return Listing(entry.name, "", "nothing", "", entry.value, problem=str(error))
    return Listing(entry.name, *facts, entry.value)
