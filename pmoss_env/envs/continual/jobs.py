"""Batch jobs with phases: a drift whose next step can be learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_env.checks import check_number, check_whole
from pmoss_env.envs.continual.drift import (
    MAX_COUNT,
    MAX_EPOCHS,
    MAX_SHARE,
    Conditions,
    DriftFamily,
    check_cores_of_nodes,
    check_range,
    check_share,
    worker_nodes,
)
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant

IDLE, PRECURSOR, COMPUTE, SHUFFLE = range(4)


@dataclass(frozen=True)
class Job:
    """A batch job in one epoch.

    Attributes:
        compute: share of these cores in the compute phase.
        shuffle: share of the node's memory bandwidth in the shuffle phase.
        lengths: epochs of precursor, compute and shuffle, before jitter.
        age: number of epochs of the phase, this one included.
    """

    node: int
    cores: tuple[int, ...]
    compute: float
    shuffle: float
    lengths: tuple[int, int, int]
    phase: int
    age: int


@dataclass(frozen=True)
class Jobs(DriftFamily):
    """Batch jobs with phases: a weak precursor, compute, shuffle, idle, and again.

    A job keeps its node and its worker cores for the whole episode.

    Attributes:
        count: number of jobs, each on a node of its own; at most all nodes.
        cores: worker cores of each job.
        precursor: share of the node's memory bandwidth in the precursor phase.
        compute: range of the share of the cores in the compute phase.
        shuffle: range of the share of the node's memory bandwidth in the shuffle phase.
        precursor_epochs, compute_epochs, shuffle_epochs: ranges of the lengths of the phases.
        idle_epochs: mean time between two runs.
        jitter: largest deviation of a phase from its length, epochs.
    """

    count: int = 6
    cores: int = 2
    precursor: float = 0.3
    compute: tuple[float, float] = (0.5, 0.7)
    shuffle: tuple[float, float] = (0.6, 0.9)
    precursor_epochs: tuple[int, int] = (2, 3)
    compute_epochs: tuple[int, int] = (5, 6)
    shuffle_epochs: tuple[int, int] = (3, 4)
    idle_epochs: float = 8.0
    jitter: int = 1

    name: ClassVar[str] = "jobs"
    meaning: ClassVar[str] = "batch jobs on a node and two cores: precursor, compute, shuffle, idle"

    def check(self, machine: Machine, slices: int) -> None:
        """See DriftFamily."""
        check_whole("count", self.count, 1, MAX_COUNT)
        check_whole("cores", self.cores, 1)
        check_whole("jitter", self.jitter, 0)
        check_share("precursor", self.precursor)
        for name in ("compute", "shuffle"):
            check_range(name, getattr(self, name), MAX_SHARE)
        for name in ("precursor_epochs", "compute_epochs", "shuffle_epochs"):
            check_range(name, getattr(self, name), MAX_EPOCHS)
            check_whole(
                f"{name}: the shortest less jitter", getattr(self, name)[0] - self.jitter, 1
            )
        check_number("idle_epochs", self.idle_epochs, 1.0, MAX_EPOCHS)
        check_cores_of_nodes(self.cores, machine)

    def begin(self, machine: Machine, slices: int, rng: np.random.Generator) -> tuple[Job, ...]:
        """Every job is in a random phase."""
        workers, nodes = machine.workers, worker_nodes(machine)
        return tuple(
            self._drawn(int(node), workers[machine.node_of_core[workers] == node], rng)
            for node in rng.choice(nodes, min(self.count, nodes.size), replace=False)
        )

    def _drawn(self, node: int, workers: Any, rng: np.random.Generator) -> Job:
        ranges = (self.precursor_epochs, self.compute_epochs, self.shuffle_epochs)
        lengths = tuple(
            int(rng.integers(shortest, longest, endpoint=True)) for shortest, longest in ranges
        )
        job = Job(
            node,
            tuple(int(core) for core in rng.choice(workers, self.cores, replace=False)),
            float(rng.uniform(*self.compute)),
            float(rng.uniform(*self.shuffle)),
            (lengths[0], lengths[1], lengths[2]),
            IDLE,
            1,
        )
        steps = int(rng.integers(sum(lengths) + round(self.idle_epochs)))
        for _ in range(steps):
            job = self._next(job, rng)
        return job

    def _next(self, job: Job, rng: np.random.Generator) -> Job:
        # A phase of this age may still end at several ages, which are equally likely.
        if job.phase == IDLE:
            ends = 1.0 / self.idle_epochs
        else:
            left = job.lengths[job.phase - 1] + self.jitter - job.age
            ends = 0.0 if left > 2 * self.jitter else 1.0 / (left + 1)
        phase, age = job.phase, job.age + 1
        if rng.random() < ends:
            phase, age = (phase + 1) % 4, 1
        # Faster than replace(); an episode draws hundreds of them.
        return Job(job.node, job.cores, job.compute, job.shuffle, job.lengths, phase, age)

    def advance(self, state: tuple[Job, ...], rng: np.random.Generator) -> tuple[Job, ...]:
        """Advances each job independently."""
        return tuple(self._next(job, rng) for job in state)

    def conditions(self, state: tuple[Job, ...]) -> Conditions:
        """The co-tenants of the jobs in their phases."""
        taken: list[CoTenant] = []
        for job in state:
            if job.phase == PRECURSOR:
                taken.append(CoTenant("memory_stream", job.node, self.precursor))
            elif job.phase == COMPUTE:
                taken += [CoTenant("busy_core", core, job.compute) for core in job.cores]
            elif job.phase == SHUFFLE:
                taken.append(CoTenant("memory_stream", job.node, job.shuffle))
        return Conditions(tuple(taken))
