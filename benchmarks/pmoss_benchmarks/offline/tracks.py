"""Tracks: in what the world differs from the task that a dataset was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pmoss_benchmarks.functions.references import world_of
from pmoss_datasets.domain import domain_names, find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import Task, load_task
from pmoss_env.errors import UnknownNameError

#: For each workload, one with another mix of operations.
OTHER_OPERATIONS = {"ycsb-a": "lookups-scans", "scans": "ycsb-a"}
#: For each workload, the same operations on keys of another distribution.
OTHER_DISTRIBUTION = {
    "ycsb-a": "osm-a",
    "scans": "osm-scans",
    "rtree-ranges-5m": "rtree-hot-region-5m",
}
#: For each machine, one that no dataset of the task is from and whose grid of core tiles is not
#: larger: the pairs of P-MOSS section 7.5.
OTHER_MACHINES = {"skylake-x-8n": "skylake-x-4n", "milan-nps4": "rome-7302"}


@dataclass(frozen=True)
class Track:
    """A declared variation of a task.

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
    training: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    workloads: Mapping[str, str] | None = None
    machines: Mapping[str, str] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
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

    def evaluation_env(self, task: Task) -> dict[str, Any] | None:
        """Arguments of the environment that agents of a task are evaluated in.

        Args:
            task: which the track varies.

        Returns:
            None: the task has no such track.
        """
        if task.domain != self.domain:
            return None
        env = task.env
        changes = dict(self.evaluation)
        for key, others in (("workload", self.workloads), ("machine", self.machines)):
            if others is not None:
                if env.get(key) not in others:
                    return None
                changes[key] = others[env[key]]
        varied = {**env, **changes}
        return None if changes and varied == {**env, **self.training} == dict(env) else varied


_BACKLOG = {"load": "saturated"}


def _under_backlog(
    name: str,
    workloads: Mapping[str, str] | None = None,
    machines: Mapping[str, str] | None = None,
) -> Track:
    """An unseen track under the paper's load, of agents that learned under it."""
    return Track(
        f"{name}-saturated",
        f"As {name}, with an unbounded backlog in data and evaluation.",
        training=_BACKLOG,
        evaluation=_BACKLOG,
        workloads=workloads,
        machines=machines,
        trained_for="saturated",
    )


TRACKS: Mapping[str, Track] = {
    track.name: track
    for track in (
        Track("same-task", "Evaluated on the task that the data are of."),
        Track(
            "saturated",
            "Data and evaluation under the paper's load: every worker has an unbounded backlog.",
            training=_BACKLOG,
            evaluation=_BACKLOG,
        ),
        Track(
            "interference",
            "Evaluated beside every family of co-tenant at once, whatever the data had.",
            evaluation={"interference": "all"},
        ),
        Track(
            "paper-observation",
            "Data and evaluation show what the paper's observation holds: no counters of the next "
            "slice, none of the incumbent's cores.",
            training={"observation": "paper"},
            evaluation={"observation": "paper"},
        ),
        Track(
            "complete",
            "Learned from the task's own data with complete = true, and evaluated where every step "
            "shows all slices.",
            evaluation={"observation": "complete"},
            config={"complete": True},
            trained_for="complete",
        ),
        Track(
            "unseen-workload",
            "Evaluated on another mix of operations.",
            workloads=OTHER_OPERATIONS,
        ),
        Track(
            "unseen-distribution",
            "Evaluated on keys of another distribution.",
            workloads=OTHER_DISTRIBUTION,
        ),
        Track(
            "unseen-machine",
            "Evaluated on another machine, its grid padded to that of the data and masked.",
            machines=OTHER_MACHINES,
        ),
        Track(
            "deviating-machine",
            "Evaluated on machines that are not as described: every episode draws latencies, "
            "bandwidths and core speeds anew, up to 20 % off.",
            evaluation={"deviation": 0.2},
        ),
        Track(
            "counters-missing",
            "Data and evaluation as in a virtual machine: only software counters can be read.",
            training={"counters": "software"},
            evaluation={"counters": "software"},
        ),
        Track(
            "noise",
            "Evaluated with the measurement noise of hardware on counters and throughput; scored "
            "without.",
            evaluation={"noise": 1.0},
        ),
        Track(
            "noise-and-counters-missing",
            "As counters-missing, evaluated with the measurement noise of hardware.",
            training={"counters": "software"},
            evaluation={"counters": "software", "noise": 1.0},
            trained_for="counters-missing",
        ),
        _under_backlog("unseen-workload", workloads=OTHER_OPERATIONS),
        _under_backlog("unseen-distribution", workloads=OTHER_DISTRIBUTION),
        _under_backlog("unseen-machine", machines=OTHER_MACHINES),
    )
}


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
