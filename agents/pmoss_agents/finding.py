"""Agents by name or file: made, loaded, and found by the words of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmoss_agents import checkpoints, pretrained
from pmoss_agents.agent import Agent
from pmoss_agents.configs import read_config
from pmoss_agents.registry import agent_class, agent_names, policy_maker, registered_class
from pmoss_env.errors import CheckpointError, PluginError, PmossError, UnknownNameError

if TYPE_CHECKING:
    from pmoss_datasets.policies import Policy


def make(
    name: str, *, config_file: str | Path | None = None, task: str = "", **config: Any
) -> Agent:
    """Makes an agent that is not fitted yet.

    Args:
        name: one of agent_names(), or ``module:Class`` of any importable agent.
        config_file: a committed config ("decision-transformer-demo") or a path to a TOML file.
        task: which of the file's tables for tasks to take, see read_config(); task_name() tells a
            dataset's.
        **config: fields of the agent's Config; they override the file's.

    Raises:
        UnknownNameError: no such agent.
        DescriptionError: a config file or field that does not exist, or an impossible value.
        MissingExtraError: the agent needs a package that is not installed.
        PluginError: an agent of another package cannot be imported.
    """
    values = read_config(config_file, task) if config_file is not None else {}
    for_agent = values.pop("agent", name)
    if for_agent != name:
        raise UnknownNameError(f"agent in {config_file}", for_agent, (name,))
    agent: Agent = _made(name, agent_class(name), {**values, **config})
    return agent


def load(path: str | Path, agent: str | type[Agent] | None = None) -> Agent:
    """The agent of a checkpoint, ready to act or to go on learning.

    Args:
        path: of the file, or the name of an agent that ships: one of pretrained.names().
        agent: its class, or ``module:Class``. None: the file names it, and it must be registered;
            what a file names is never imported.

    Raises:
        CheckpointError: the file is missing, damaged, foreign, of another version or of another
            agent.
        MissingExtraError: the agent needs a package that is not installed.
        PluginError: an agent of another package cannot be imported.
        UnknownNameError: no agent of that name ships.
    """
    if pretrained.is_name(path):
        path = pretrained.find(str(path))
    elif not Path(path).exists() and f"{pretrained.PREFIX}{path}" in pretrained.names():
        raise CheckpointError(f"{path}: is no file: the agent is {pretrained.PREFIX}{path}")
    header, arrays = checkpoints.read(path)
    name = header.get("agent")
    if agent is None:
        try:
            agent = registered_class(str(name))
        except UnknownNameError as error:
            raise CheckpointError(
                f"{path}: {error}. An agent of your own is named beside the file: "
                "load(path, 'module:Class'), or module:Class@FILE in commands"
            ) from error
    elif isinstance(agent, str):
        agent = agent_class(agent)
    if agent.name != name:
        raise CheckpointError(f"{path}: is of the agent {name!r}, not of {agent.name!r}")
    return agent.from_checkpoint(Path(path), header, arrays)


def names_policy(word: str) -> bool:
    """Whether find_policy() knows what to do with a word; baselines have other names."""
    return ":" in word or _is_file(word) or pretrained.is_name(word) or word in agent_names()


def find_policy(word: str) -> Policy:
    """The policy that a word of a command names.

    Args:
        word: a checkpoint, or the name of an agent that ships; ``module:Class@FILE``, a
            checkpoint of an agent of your own; an agent's name, for one that needs no fit(); or
            ``module:Class`` of any policy. Both are made without arguments.

    Raises:
        UnknownNameError: no agent has that name.
        CheckpointError: see load(); or an agent that has to learn before it acts.
        MissingExtraError: see load().
        PluginError: it cannot be imported, cannot be made without arguments, or is no policy.
    """
    named, _, file = word.partition("@")
    if file and ":" in named:
        return load(file, named)
    if _is_file(word) or pretrained.is_name(word):
        return load(word)
    policy = _made(word, policy_maker(word), {})
    if isinstance(policy, Agent):
        _check_ready(word, policy)
        return policy
    # Only here: it brings the baselines and the environment, which --help can do without.
    from pmoss_datasets.policies import Policy

    if not isinstance(policy, Policy):
        raise PluginError(f"{word}: {policy!r} is no policy: it lacks act() or reset()")
    try:
        inspect.signature(policy.act).bind(None, None)
    except TypeError as error:
        raise PluginError(
            f"{word}: its act() takes other arguments: write act(self, observation, action_mask)"
        ) from error
    return policy


def _made(word: str, maker: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a class or function; PluginError for an error that is not ours."""
    try:
        return maker(**values)
    except PmossError:
        raise
    except (Exception, SystemExit) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise PluginError(
            f"{word}: {getattr(maker, '__name__', maker)}({given}) raises "
            f"{type(error).__name__}: {error}"
        ) from error


def _check_ready(word: str, agent: Agent) -> None:
    """Refuses an agent that has to learn before it acts: CheckpointError."""
    if agent.learns == "nothing" or agent.learns_while_acting or agent.task:
        return
    data = "DATASET " if agent.learns == "offline" else ""
    file = f"OUT{checkpoints.SUFFIX}"
    raise CheckpointError(
        f"{word} has learned nothing yet: train it by `pmoss train {word} {data}{file}`, "
        f"then name {f'{word}@{file}' if ':' in word else file} in its place"
    )


def _is_file(word: str) -> bool:
    path = Path(word)
    return path.exists() or path.suffix == checkpoints.SUFFIX
