"""The optimum of small instances by branch and bound."""

from __future__ import annotations

import numpy as np

from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.baselines.context import MODEL, Context, uses
from pmoss_env.baselines.load_aware import slice_load
from pmoss_env.baselines.search import local_search
from pmoss_env.baselines.walk import SearchResult, searchable
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array, Schedule

#: Largest number of schedules of an instance: 8 slices on 6 workers have 1,679,616.
MAX_SCHEDULES = 2_000_000
#: Evaluations of the local search that gives the first bound.
_START_BUDGET = 200
#: Number of schedules on which the exchange of two equivalent cores must not change the throughput.
_PROBES = 4
#: Trusted share of the time outside of memory, which is a difference of counters.
_TRUSTED = 0.999


def branch_and_bound(context: Context) -> SearchResult:
    """The best of all schedules with every slice's data on its core's node.

    Slices are placed heaviest first. Of equivalent idle cores only the first is tried. Cores are
    equivalent if they share node and last-level domain, and if their exchange changes no
    throughput, which also detects co-tenants. Under a closed load a partial schedule is pruned by
    the bound of its busiest core: without any memory time it serves at most 1 / sum of (share of
    the queries x time outside of memory).

    Args:
        context: needs ``backend`` and ``snapshot``.

    Raises:
        UnsupportedError: the backend is not incremental, there is no snapshot, there are more than
            MAX_SCHEDULES schedules, or the nodes of data are chosen or limited.
    """
    backend = searchable(context, 1, "the exact search")
    if context.snapshot is None:
        raise UnsupportedError("the exact search needs the incumbent's snapshot")
    if context.chooses_node or context.slices_of_node is not None:
        raise UnsupportedError(
            "the exact search places data on their cores' nodes, without a limit of memory: take "
            "'local-search' here"
        )
    machine = context.machine
    workers = machine.workers
    schedules = int(workers.size) ** context.slices
    if schedules > MAX_SCHEDULES:
        raise UnsupportedError(
            f"{context.slices} slices on {workers.size} workers have {workers.size}^"
            f"{context.slices} schedules, and the exact search takes at most {MAX_SCHEDULES}: "
            "take a smaller instance, such "
            "as pmoss/toy-v0, or 'local-search'"
        )
    start = local_search(context, _START_BUDGET)
    kind, probes = _kinds(context, backend)
    least = _least_times(context, backend.measure(start.schedule, seed=0))
    best, best_cores = start.throughput, start.schedule.cores.copy()
    cores = np.full(context.slices, workers[0], dtype=np.int32)
    backend.place(machine.local_schedule(cores))
    used = start.evaluations + probes + 2
    order = np.argsort(-slice_load(context.snapshot), kind="stable")
    limit = context.slices if context.max_slices_per_core is None else context.max_slices_per_core
    busy = np.zeros(machine.cores)
    count = np.zeros(machine.cores, dtype=np.int64)

    def descend(depth: int) -> None:
        nonlocal best, best_cores, used
        slice_ = int(order[depth])
        idle_kinds = set()
        for core in workers:
            if count[core] == 0:
                if kind[core] in idle_kinds:
                    continue
                idle_kinds.add(kind[core])
            if count[core] >= limit or (busy[core] + least[slice_]) * best >= 1.0:
                continue
            cores[slice_] = core
            throughput = backend.move(slice_, int(core))
            used += 1
            if depth == context.slices - 1:
                if throughput > best:
                    best, best_cores = throughput, cores.copy()
                continue
            busy[core] += least[slice_]
            count[core] += 1
            descend(depth + 1)
            busy[core] -= least[slice_]
            count[core] -= 1

    descend(0)
    return SearchResult(machine.local_schedule(best_cores), best, used)


@uses(f"{MODEL}, branch and bound", needs_backend=True)
def exact_schedule(context: Context) -> Schedule:
    """The best of all schedules of a small instance, by branch and bound."""
    return branch_and_bound(context).schedule


def _kinds(context: Context, backend: IncrementalBackend) -> tuple[Int32Array, int]:
    """(cores,) the first equivalent worker of each worker, and the number of evaluations."""
    machine = context.machine
    rng = np.random.default_rng(0)
    probes = [rng.choice(machine.workers, context.slices) for _ in range(_PROBES)]
    throughputs = [backend.place(machine.local_schedule(probe)) for probe in probes]
    used = len(probes)
    kind = np.arange(machine.cores, dtype=np.int32)
    shared = np.bincount(machine.physical_of_core[machine.workers]) > 1
    for core in machine.workers:
        for other in machine.workers[machine.workers < core]:
            if (
                kind[other] != other
                or machine.node_of_core[core] != machine.node_of_core[other]
                or machine.llc_of_core[core] != machine.llc_of_core[other]
                or shared[machine.physical_of_core[[core, other]]].any()
            ):
                continue
            exchange = np.arange(machine.cores, dtype=np.int32)
            exchange[[core, other]] = other, core
            used += len(probes)
            if np.allclose(
                [backend.place(machine.local_schedule(exchange[probe])) for probe in probes],
                throughputs,
                rtol=1e-7,
                atol=0,
            ):
                kind[core] = other
                break
    return kind, used


def _least_times(context: Context, snapshot: HardwareSnapshot) -> Float64Array:
    """(slices,) least microseconds of core time that a slice takes per query of the whole index."""
    machine = context.machine
    threads_share = np.unique(machine.physical_of_core[machine.workers]).size < machine.workers.size
    if snapshot.load != "closed" or threads_share:
        return np.zeros(context.slices)
    cycles = snapshot.counter("cycles")
    beside = np.maximum(cycles - snapshot.counter("cycles_mem_any"), 0.0)
    clock = snapshot.counter("task_clock_us")
    time = np.divide(clock * beside, cycles, out=np.zeros_like(clock), where=cycles > 0)
    return _TRUSTED * time / snapshot.throughput
