"""Tracks: in what the world differs from the task that a dataset was made for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pmoss_benchmarks.functions.references import world_of
from pmoss_benchmarks.study.description import convert
from pmoss_datasets.domain import domain_names, find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import Task, load_task
from pmoss_env.errors import UnknownNameError
from pmoss_env.files import read_toml


class Track(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A declared variation of a task: a table of ``tracks.toml``.

    Attributes:
        name: in the command line and the tables.
        description: one sentence for people.
        training: what the environment of the dataset (or of online training) has otherwise.
        evaluation: what the environment of the evaluation has otherwise.
        workloads: for each workload of a task, that of the evaluation; tasks with others have no
            such track.
        machines: likewise the machine of the evaluation; agents meet it padded and masked.
        config: fields of the configs of agents that learn for it.
        domain: whose tasks it varies; those of others have no such track.
        trained_for: name of the track whose agents it evaluates. Empty: those of the plain task,
            or its own where its data differ.
    """

    name: str
    description: str
    training: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    workloads: dict[str, str] = {}
    machines: dict[str, str] = {}
    config: dict[str, Any] = {}
    domain: str = FIRST_DOMAIN
    trained_for: str = ""

    @property
    def of_agents(self) -> str:
        """The track whose agents it evaluates: those that differ in the evaluation share them."""
        if self.trained_for:
            return self.trained_for
        if self.training or self.domain != FIRST_DOMAIN:
            return self.name
        return "same-task"

    def training_env(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of the environment that agents of a task learn about."""
        return {**env, **self.training}

    def meets(self, agents: dict[str, Any]) -> dict[str, Any]:
        """Agents, by name, as they meet the worlds of this track."""
        return {n: each.padded() if self.machines else each for n, each in agents.items()}

    def evaluation_env(self, task: Task) -> dict[str, Any] | None:
        """Arguments of the environment that agents of a task are evaluated in.

        Returns:
            None: the task has no such track.
        """
        if task.domain != self.domain:
            return None
        env = task.env
        changes = dict(self.evaluation)
        for key, others in (("workload", self.workloads), ("machine", self.machines)):
            if others:
                if env.get(key) not in others:
                    return None
                changes[key] = others[env[key]]
        varied = {**env, **changes}
        return None if changes and varied == {**env, **self.training} == dict(env) else varied


def _read() -> dict[str, Track]:
    file = Path(__file__).with_suffix(".toml")
    tracks = read_toml(file, lambda data: convert(data["track"], list[Track]))
    return {track.name: track for track in tracks}


#: By name, in the order in which tables show them.
TRACKS: Mapping[str, Track] = _read()


def load_track(name: str) -> Track:
    """A track by its name: one of TRACKS, or the plain one of a domain, by the domain's name.

    Raises:
        UnknownNameError: there is none.
    """
    if name in TRACKS:
        return TRACKS[name]
    plain = [domain for domain in domain_names() if domain != FIRST_DOMAIN]
    if name not in plain:
        raise UnknownNameError("track", name, [*TRACKS, *plain])
    description = f"{TRACKS['same-task'].description} Environment: {find_domain(name).env_id}."
    return Track(name, description, domain=name)


def has_references(track: str, task: str) -> bool:
    """Whether the episodes of a track are those of the task, whatever is seen of them.

    Then the references of the task are those of the track.
    """
    task_of_suite = load_task(task)
    env = load_track(track).evaluation_env(task_of_suite)
    return (
        task_of_suite.domain == FIRST_DOMAIN
        and env is not None
        and world_of(env) == world_of(task_of_suite.env)
    )


def track_place(name: str) -> tuple[int, str]:
    """Where a track stands among others: TRACKS in their order, then those of domains."""
    return (list(TRACKS).index(name) if name in TRACKS else len(TRACKS)), name
