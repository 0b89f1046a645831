"""Training as a user asks for it: an agent, and data or an environment, of any domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.agent import Agent, OfflineAgent, OnlineAgent
from pmoss_agents.configs import has_config, read_config, task_name
from pmoss_agents.registry import agent_class, listings, registered_class
from pmoss_agents.trainer import Progress
from pmoss_datasets import Dataset, Recipe, find_domain
from pmoss_datasets.catalog import load_data
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.several import Several
from pmoss_env.errors import DescriptionError, UnknownNameError

#: The agents that learn where none is named, of a domain that has several.
_USUAL = ("decision-transformer", "linear-cost", "threads-hybrid")


@dataclass(frozen=True)
class Lesson:
    """A dataset, or an environment, to learn from.

    Attributes:
        data: a dataset, or other data of the domain; None to learn by playing.
        env: arguments of the environment to play in.
    """

    domain: str
    data: Any = None
    env: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """The task's name, by which configs are chosen."""
        if self.data is not None:
            first = self.data.parts[0] if isinstance(self.data, Several) else self.data
            return task_name(first.id)
        return Recipe(env=self.env, domain=self.domain).task

    @property
    def learns(self) -> str:
        """The way of learning: "offline" or "online"."""
        return "online" if self.data is None else "offline"


def find_lesson(
    dataset: str | Path | Sequence[str | Path] | None,
    env: Mapping[str, Any],
    *,
    domain: str | None = None,
    agent: str | None = None,
    config: str | None = None,
) -> Lesson:
    """What to learn from. The domain is that of the data, of the agent, or the first one.

    Args:
        dataset: folder or id of the data, or several of one domain; None to learn by playing.
        domain: name of the domain, where it is named.

    Raises:
        DescriptionError: data of another domain than the one named.
        DatasetError: damaged data.
    """
    if isinstance(dataset, Sequence) and not isinstance(dataset, str):
        lessons = [find_lesson(each, env, domain=domain) for each in dataset]
        if len(lessons) == 1:
            return lessons[0]
        for lesson in lessons:
            if not isinstance(lesson.data, Dataset):
                raise DescriptionError(f"{lesson.data.path}: several datasets: holds no episodes")
        return Lesson(lessons[0].domain, Several([lesson.data for lesson in lessons]))
    if dataset is not None:
        its_domain, data = load_data(dataset)
        if domain not in (None, its_domain.name):
            raise DescriptionError(
                f"{dataset}: is of the domain {its_domain.name}, not of {domain}"
            )
        return Lesson(its_domain.name, data)
    of_agent = _class_of(agent, config).domain if agent or _named_in(config) else ""
    return Lesson(find_domain(domain or of_agent or FIRST_DOMAIN).name, env=env)


def new_agent(
    lesson: Lesson, agent: str | None, config: str | None, changes: Mapping[str, Any]
) -> Agent:
    """An agent that is not fitted yet, with the config that is its own for this task.

    Args:
        agent: a name, or ``module:Class``; None: the config's, or the usual one of the domain.
        config: of read_config(); None: the agent's own if it has one.

    Raises:
        DescriptionError: an agent of another domain, or a domain without a usual agent.
    """
    name = agent or _named_in(config) or _usual(lesson)
    # A path is imported, and what only a file names is not.
    if (agent is None or ":" not in name) and name not in (names := _names(lesson.domain)):
        for other in (each.domain for each in listings() if each.name == name):
            raise _foreign(name, other, lesson)
        raise UnknownNameError(f"agent of {lesson.domain}", name, names)
    domain = agent_class(name).domain
    if domain not in ("", lesson.domain):
        raise _foreign(name, domain, lesson)
    if config is None and has_config(name):
        config = name
    return pmoss_agents.make(name, config_file=config, task=lesson.task, **changes)


def _foreign(agent: str, domain: str, lesson: Lesson) -> DescriptionError:
    """The error for an agent of another domain than that of the lesson."""
    way = f"choose --domain {domain}"
    if lesson.data is not None:
        way = f"give data of {domain}, as of pmoss data collect OUT --domain {domain}"
    return DescriptionError(
        f"agent {agent}: is of the domain {domain}, not of {lesson.domain}: {way}"
    )


def learn(
    agent: Agent,
    lesson: Lesson,
    *,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    allow_other_code: bool = False,
) -> dict[str, float]:
    """Lets an agent learn; returns the last update's metrics.

    Args:
        agent: goes on where its checkpoint stopped.
        checkpoint: where to save now and then, at the end, and when interrupted.
        allow_other_code: go on with what other code has trained.

    Raises:
        DescriptionError: the agent learns otherwise, or nothing.
    """
    options: dict[str, Any] = {"progress": progress, "checkpoint": checkpoint}
    if allow_other_code:  # agents of other packages may do without
        options["allow_other_code"] = True
    if isinstance(agent, OnlineAgent):
        if lesson.data is not None:
            raise DescriptionError(
                f"{agent.name} learns by playing: give --env in place of a dataset"
            )
        return agent.fit(lesson.env, **options)
    if isinstance(agent, OfflineAgent) and agent.learns == "offline":
        if lesson.data is None:
            raise DescriptionError(
                f"{agent.name} learns from data: give DATASET OUT; OUT alone is for agents that "
                "learn by playing"
            )
        if isinstance(lesson.data, Several) and not agent.several:
            raise DescriptionError(
                f"{agent.name} learns from one dataset at a time: give one; surrogate, "
                "generalist, pair-policy, decision-transformer and qt learn from several"
            )
        return agent.fit(lesson.data, **options)
    raise DescriptionError(f"{agent.name} learns nothing: it can be used as it is")


def _named_in(config: str | None) -> str | None:
    """The agent that a config names, if there is one that names any."""
    return None if config is None else read_config(config).get("agent")


def _class_of(agent: str | None, config: str | None) -> type[Agent]:
    """The class of the agent that is named; one that a file names must be registered."""
    return agent_class(agent) if agent else registered_class(str(_named_in(config)))


def _names(domain: str) -> list[str]:
    """The registered agents of a domain, and those for any."""
    every = (each for each in listings() if each.domain in ("", domain))
    return sorted(each.name for each in every if not each.plain)


def _usual(lesson: Lesson) -> str:
    """The agent of a domain where none is named."""
    able = [
        each.name
        for each in listings()
        if each.domain == lesson.domain and each.learns == lesson.learns
    ]
    every = [each.name for each in listings() if each.domain == lesson.domain]
    for chosen in (*(name for name in _USUAL if name in every), *able):
        return chosen
    source = "data" if lesson.learns == "offline" else "play"
    raise DescriptionError(
        f"no agent of {lesson.domain} that learns from {source} is installed: name one, as in "
        "`pmoss train module:Class`"
    )
