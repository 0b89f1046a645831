"""The eight schedules that P-MOSS is compared with (section 7.1).

Grouped, Spread, Mixed and Random place every slice on a core (SN:T), with the run lengths of the
authors' published files. In the other four, workers share slices, and ``cores`` is not used. Their
"operating system scheduling" is that of the authors' code: threads stay pinned, and a random worker
runs each query.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.baselines.context import NOTHING, Context, uses
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.types import Int32Array, Schedule


def in_runs(context: Context, run: int) -> Schedule:
    """``run`` neighbouring slices per node, nodes in turn, each node's workers round-robin.

    Raises:
        DescriptionError: a run below 1.
    """
    if run < 1:
        raise DescriptionError(f"run = {run}: must be at least 1")
    return context.local_schedule(_cores_in_runs(context.machine, context.slices, run))


@lru_cache(maxsize=64)  # every episode's incumbent begins with one
def _cores_in_runs(machine: Machine, slices: int, run: int) -> Int32Array:
    workers = _workers_by_node(machine)
    cores = np.empty(slices, dtype=np.int32)
    turn = np.arange(slices) // run % len(workers)
    for n, node_workers in enumerate(workers):
        members = np.flatnonzero(turn == n)
        cores[members] = node_workers[np.arange(members.size) % node_workers.size]
    cores.setflags(write=False)
    return cores


@uses(NOTHING)
def grouped(context: Context) -> Schedule:
    """Adjacent slices on the same node and on nearby cores: the longest runs that use all nodes."""
    return in_runs(context, _grouped_run(context))


def grouped_context(
    model: IncrementalBackend, rng: np.random.Generator, *, seed: int = 0
) -> Context:
    """The context of a model's instance, with Grouped as the incumbent and the model as backend."""
    incumbent = grouped(Context(model.machine, model.slices))
    snapshot = model.measure(incumbent, seed=seed)
    return Context(model.machine, model.slices, incumbent, snapshot, rng, model)


@uses(NOTHING)
def spread(context: Context) -> Schedule:
    """Adjacent slices on different nodes: runs of one."""
    return in_runs(context, 1)


@uses(NOTHING)
def mixed(context: Context) -> Schedule:
    """Between Grouped and Spread: runs of 16 for 256 slices, the square root in general."""
    return in_runs(context, min(math.isqrt(context.slices), _grouped_run(context)))


@uses(NOTHING)
def random(context: Context) -> Schedule:
    """Every slice on a random worker core, among those that may take another slice.

    Where the action chooses the data's node, it is random among those with room.
    """
    workers = context.machine.workers
    limit = context.max_slices_per_core
    if limit is None:
        return _with_random_nodes(context, context.rng.choice(workers, size=context.slices))
    cores = np.empty(context.slices, dtype=np.int32)
    room = np.full(workers.size, limit)
    for s in range(context.slices):
        w = context.rng.choice(np.flatnonzero(room))
        cores[s] = workers[w]
        room[w] -= 1
    return _with_random_nodes(context, cores)


def _with_random_nodes(context: Context, cores: Int32Array) -> Schedule:
    if not context.chooses_node:
        return context.local_schedule(cores)
    nodes = np.empty(context.slices, dtype=np.int32)
    limit = context.slices_of_node
    room = np.full(context.machine.nodes, context.slices) if limit is None else limit.copy()
    for s in range(context.slices):
        nodes[s] = context.rng.choice(np.flatnonzero(room))
        room[nodes[s]] -= 1
    return Schedule(cores, nodes)


@uses(NOTHING)
def os_default(context: Context) -> Schedule:
    """OS:D: any worker runs a query; all data lie on node 0, where they were loaded."""
    return replace(
        grouped(context),
        nodes=np.zeros(context.slices, dtype=np.int32),
        routing="any",
        data="first_touch",
    )


@uses(NOTHING)
def os_interleave(context: Context) -> Schedule:
    """OS:I: any worker runs a query; the pages lie on all nodes in turn."""
    return replace(grouped(context), routing="any", data="interleaved")


@uses(NOTHING)
def shared_everything(context: Context) -> Schedule:
    """SE:N: any worker runs a query; the data lie as under Grouped, as many slices on each node."""
    return replace(grouped(context), routing="any")


@uses(NOTHING)
def shared_nothing_node(context: Context) -> Schedule:
    """SN:N: any worker of the slice's node runs a query; the data lie as in SE:N."""
    return replace(grouped(context), routing="node")


def _workers_by_node(machine: Machine) -> list[Int32Array]:
    """The workers of each node that has any, in node order."""
    return [workers for workers in machine.workers_of_node if workers.size]


def _grouped_run(context: Context) -> int:
    return -(-context.slices // len(_workers_by_node(context.machine)))
