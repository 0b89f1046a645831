"""Agents: one readable file per agent, one interface."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from pmoss_agents.base import EXPORTED, Agent, OnlineAgent, read_checkpoint, read_config
from pmoss_env.errors import CheckpointError, UnknownNameError

__all__ = ["Agent", "OnlineAgent", "agent_names", "load", "make"]

#: Module and class of each agent by the environment that it is for; imported when asked for,
#: because some need torch.
_BY_ENVIRONMENT: dict[str, dict[str, tuple[str, str]]] = {
    "spatial": {
        "bc": ("pmoss_agents.spatial.bc", "BehaviourCloning"),
        "bcq": ("pmoss_agents.spatial.bcq", "BCQ"),
        "cql": ("pmoss_agents.spatial.cql", "CQL"),
        "decision-transformer": (
            "pmoss_agents.spatial.decision_transformer",
            "DecisionTransformer",
        ),
        "dqn": ("pmoss_agents.spatial.dqn", "MaskedDQNAgent"),
        "iql": ("pmoss_agents.spatial.iql", "IQL"),
        "maskable-ppo": ("pmoss_agents.spatial.maskable_ppo", "MaskablePPOAgent"),
        "percentile-bc": ("pmoss_agents.spatial.percentile_bc", "PercentileBC"),
    },
    "access-path": {
        "always-cpu": ("pmoss_agents.access_path.fixed", "AlwaysCpu"),
        "always-offload": ("pmoss_agents.access_path.fixed", "AlwaysOffload"),
        "decision-tree": ("pmoss_agents.access_path.decision_tree", "DecisionTree"),
        "linear-cost": ("pmoss_agents.access_path.linear_cost", "LinearCost"),
        "linucb": ("pmoss_agents.access_path.linucb", "LinUCB"),
        "oracle": ("pmoss_agents.access_path.fixed", "Oracle"),
    },
    "threads": {
        "threads-hybrid": ("pmoss_agents.threads.agents", "Hybrid"),
        "threads-linucb": ("pmoss_agents.threads.agents", "ThreadLinUCB"),
        "threads-random": ("pmoss_agents.threads.agents", "ThreadRandom"),
        "threads-rule": ("pmoss_agents.threads.agents", "ThreadRule"),
        "threads-scheduling-domain": ("pmoss_agents.threads.agents", "SchedulingDomain"),
    },
}
_AGENTS = {name: where for agents in _BY_ENVIRONMENT.values() for name, where in agents.items()}


def agent_names(environment: str | None = None) -> list[str]:
    """Names that make() knows.

    Args:
        environment: only those for "spatial", "access-path" or "threads".
    """
    return sorted(_AGENTS if environment is None else _BY_ENVIRONMENT[environment])


def _agent_class(name: str) -> type[Agent]:
    if name not in _AGENTS:
        raise UnknownNameError("agent", name, _AGENTS)
    module, attribute = _AGENTS[name]
    found: type[Agent] = getattr(import_module(module), attribute)
    return found


def make(
    name: str, *, config_file: str | Path | None = None, task: str = "", **config: Any
) -> Agent:
    """Makes an agent that is not fitted yet.

    Args:
        name: one of agent_names().
        config_file: a committed config ("decision-transformer-demo") or a path to a TOML file.
        task: which of the file's tables for tasks to take, see read_config(); task_name() tells a
            dataset's.
        **config: fields of the agent's Config; they override the file's.

    Raises:
        UnknownNameError: no such agent.
        DescriptionError: a config file or field that does not exist, or an impossible value.
        MissingExtraError: the agent needs a package that is not installed.
    """
    values = read_config(config_file, task) if config_file is not None else {}
    for_agent = values.pop("agent", name)
    if for_agent != name:
        raise UnknownNameError(f"agent in {config_file}", for_agent, (name,))
    return _agent_class(name)(**{**values, **config})


def load(path: str | Path) -> Agent:
    """The agent of a checkpoint, ready to act or to go on learning; or of an export (.pt), to act.

    Raises:
        CheckpointError: the file is missing, damaged, foreign or of another version.
        MissingExtraError: the agent needs a package that is not installed.
    """
    if Path(path).suffix == EXPORTED:
        from pmoss_agents.spatial.export import load_policy

        return load_policy(path)
    header, arrays = read_checkpoint(path)
    try:
        agent_class = _agent_class(header["agent"])
    except (KeyError, TypeError, UnknownNameError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    return agent_class.from_checkpoint(Path(path), header, arrays)
