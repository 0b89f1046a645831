"""Schedules without learning: the papers' shared-nothing ones, greedy ones and local search.

Every baseline is a function ``baseline(context) -> Schedule``; make_baseline() gives it by name.
Grouped, Spread, Mixed and Random are the SN:T schedules of P-MOSS (section 7.1, mission row C4),
with the run lengths of the files that its authors published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pmoss_env.backends.base import Backend, IncrementalBackend
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    Float64Array,
    HardwareSnapshot,
    Int32Array,
    Schedule,
)

#: Model evaluations of the "local-search" baseline unless told otherwise.
DEFAULT_BUDGET = 2000
#: What tells how fast a core was.
_TIMES = ("task_clock_us", "elapsed_us")


@dataclass(frozen=True)
class Context:
    """What a baseline may look at.

    Attributes:
        machine: where the slices go.
        slices: how many there are.
        incumbent: the schedule that runs now; None where nothing runs yet.
        snapshot: what the incumbent measures.
        rng: the only source of chance.
        backend: set to the episode's instance; its current schedule may be changed.
        max_slices_per_core: the constraint of this name, None without.
        order: (slices,) the slice placed at each step; None: the heaviest by slice_load() first.
    """

    machine: Machine
    slices: int
    incumbent: Schedule | None = None
    snapshot: HardwareSnapshot | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    backend: Backend | None = None
    max_slices_per_core: int | None = None
    order: Int32Array | None = None


Baseline = Callable[[Context], Schedule]


def in_runs(context: Context, run: int) -> Schedule:
    """``run`` neighbouring slices per node, nodes in turn, each node's workers round-robin.

    Raises:
        DescriptionError: a run below 1.
    """
    if run < 1:
        raise DescriptionError(f"run = {run}: must be at least 1")
    machine = context.machine
    workers = _workers_by_node(machine)
    cores = np.empty(context.slices, dtype=np.int32)
    turn = np.arange(context.slices) // run % len(workers)
    for n, of_node in enumerate(workers):
        mine = np.flatnonzero(turn == n)
        cores[mine] = of_node[np.arange(mine.size) % of_node.size]
    return machine.local_schedule(cores)


def grouped(context: Context) -> Schedule:
    """Adjacent slices on the same node and on nearby cores: the longest runs that use all nodes."""
    return in_runs(context, _grouped_run(context))


def spread(context: Context) -> Schedule:
    """Adjacent slices on different nodes: runs of one."""
    return in_runs(context, 1)


def mixed(context: Context) -> Schedule:
    """Between Grouped and Spread: runs of 16 for 256 slices, the square root in general."""
    return in_runs(context, min(math.isqrt(context.slices), _grouped_run(context)))


def random(context: Context) -> Schedule:
    """Every slice on a worker core drawn uniformly, among those that still may take one."""
    workers = context.machine.workers
    most = context.max_slices_per_core
    if most is None:
        return context.machine.local_schedule(context.rng.choice(workers, size=context.slices))
    cores = np.empty(context.slices, dtype=np.int32)
    room = np.full(workers.size, most)
    for s in range(context.slices):
        w = context.rng.choice(np.flatnonzero(room))
        cores[s] = workers[w]
        room[w] -= 1
    return context.machine.local_schedule(cores)


def incumbent(context: Context) -> Schedule:
    """Leaves everything where it is; UnsupportedError if nothing runs yet."""
    if context.incumbent is None:
        raise UnsupportedError("the baseline 'incumbent' needs an incumbent schedule")
    return context.incumbent


def slice_load(snapshot: HardwareSnapshot) -> Float64Array:
    """(slices,) float64: cores kept busy by each slice, or Mq/s where no task clock was counted."""
    name = "task_clock_us"
    if not snapshot.counters_available[COUNTER_INDEX[name]]:
        name = "queries"
    return snapshot.counter(name)


def core_speed(context: Context) -> Float64Array | None:
    """(cores,) float64: how fast each core was under the incumbent; None if nothing tells.

    A core's speed is its processor time over the time that its queries took; a core that served
    nothing counts as undisturbed, 1. It takes a snapshot in which both times were counted.
    """
    snapshot = context.snapshot
    if (
        snapshot is None
        or context.incumbent is None
        or not all(snapshot.counters_available[COUNTER_INDEX[name]] for name in _TIMES)
    ):
        return None
    busy, elapsed = (
        np.bincount(context.incumbent.cores, snapshot.counter(name), context.machine.cores)
        for name in _TIMES
    )
    return np.divide(busy, elapsed, out=np.ones_like(busy), where=(busy > 0) & (elapsed > 0))


def longest_first(
    load: Float64Array,
    machine: Machine,
    max_slices_per_core: int | None = None,
    speed: Float64Array | None = None,
    order: Int32Array | None = None,
    rng: np.random.Generator | None = None,
) -> Schedule:
    """LPT: the heaviest slice first, each on the worker that then ends first.

    On equal cores the busiest worker gets at most 4/3 - 1/(3 m) times the least possible, on m
    workers (Graham, Bounds on Multiprocessing Timing Anomalies, 1969). Equal loads go by index.

    Args:
        load: (slices,) non-negative loads in any unit.
        machine: whose workers take them.
        max_slices_per_core: a core with this many takes no more.
        speed: (cores,) load that each core serves per time, above 0; the same for all if None.
        order: (slices,) another order than the heaviest first; Graham's bound is then 2 - 1/m.
        rng: draws one of the workers that end together; None: the one with fewest slices, then
            the lowest number.
    """
    workers = machine.workers
    cores = np.empty(load.size, dtype=np.int32)
    pace = np.ones(workers.size) if speed is None else speed[workers]
    total = np.zeros(workers.size)
    count = np.zeros(workers.size, dtype=np.int64)
    for s in np.argsort(-load, kind="stable") if order is None else order:
        end = (total + load[s]) / pace
        if max_slices_per_core is not None:
            end[count == max_slices_per_core] = np.inf
        first = np.flatnonzero(end == end.min())
        # By fewest slices those without load are spread too.
        w = first[count[first].argmin()] if rng is None else rng.choice(first)
        cores[s] = workers[w]
        total[w] += load[s]
        count[w] += 1
    return machine.local_schedule(cores)


def lpt(context: Context) -> Schedule:
    """LPT over the loads in the incumbent's snapshot; UnsupportedError without a snapshot."""
    load = _measured_load(context, "lpt")
    return longest_first(load, context.machine, context.max_slices_per_core)


def lpt_capacity(context: Context) -> Schedule:
    """LPT that also reads how slow each core was: what a careful person does with the counters.

    UnsupportedError without a snapshot of both times that core_speed() needs.
    """
    speed = core_speed(context)
    if speed is None:
        raise UnsupportedError(f"the baseline 'lpt-capacity' needs a snapshot with {_TIMES}")
    load = _measured_load(context, "lpt-capacity")
    return longest_first(load, context.machine, context.max_slices_per_core, speed)


def greedy(context: Context) -> Schedule:
    """LPT's rule in the order in which the episode places: what one step's state explains.

    UnsupportedError without a snapshot.
    """
    return _greedy(context, _measured_load(context, "greedy"), None)


def greedy_capacity(context: Context) -> Schedule:
    """The rule of lpt_capacity() in the order in which the episode places.

    Where the times of core_speed() were not counted all cores count as equally fast.
    UnsupportedError without a snapshot.
    """
    return _greedy(context, _measured_load(context, "greedy-capacity"), core_speed(context))


def _greedy(context: Context, load: Float64Array, speed: Float64Array | None) -> Schedule:
    # Chance decides between equals: a learner shall see why a core was chosen, not its number.
    return longest_first(
        load, context.machine, context.max_slices_per_core, speed, context.order, context.rng
    )


def _measured_load(context: Context, name: str) -> Float64Array:
    if context.snapshot is None:
        raise UnsupportedError(f"the baseline {name!r} needs the incumbent's snapshot")
    return slice_load(context.snapshot)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        schedule: the best schedule seen.
        throughput: its throughput by the backend, Mq/s.
        evaluations: calls of the backend used.
    """

    schedule: Schedule
    throughput: float
    evaluations: int


class _Search:
    """A local search's current schedule, which is always its best, and the evaluations used."""

    def __init__(self, backend: IncrementalBackend, starts: list[Schedule]) -> None:
        tried = [(backend.place(start), start) for start in starts]
        self.backend = backend
        self.used = len(tried)
        self.throughput, start = max(tried, key=lambda pair: pair[0])
        if start is not starts[-1]:
            backend.place(start)
            self.used += 1
        self.cores = start.cores.copy()
        self.nodes = start.nodes.copy()

    def schedule(self) -> Schedule:
        return Schedule(self.cores, self.nodes)

    def measure(self) -> HardwareSnapshot:
        self.used += 1
        return self.backend.measure(self.schedule(), seed=0)

    def attempt(self, steps: list[tuple[int, int]]) -> bool:
        """Makes moves (slice, core), and undoes them unless they pay; at most one call more."""
        throughput = self.throughput
        for slice_, core in steps:
            throughput = self.backend.move(slice_, core)
        self.used += len(steps)
        if throughput > self.throughput:
            self.throughput = throughput
            for slice_, core in steps:
                self.cores[slice_] = core
                self.nodes[slice_] = self.backend.machine.node_of_core[core]
            return True
        self.backend.place(self.schedule())
        self.used += 1
        return False


#: Candidates tried around one schedule before the loads are measured again.
_TRIALS = 24


def local_search(
    context: Context, budget: int = DEFAULT_BUDGET, start: Schedule | None = None
) -> SearchResult:
    """Local search: takes slices off the most loaded core by moves and swaps.

    Which moves and swaps are worth a try is estimated from the loads that the backend itself
    measures; whether they are kept is the backend's throughput. Where the estimates lead no
    further, random moves and swaps are tried. Anytime: the schedule only ever gets better, and the
    search ends when the budget is used up.

    Args:
        context: needs ``backend``, and ``snapshot`` unless ``start`` is given.
        budget: evaluations of the backend, each place, move or measurement being one.
        start: where to begin; the better of LPT and the incumbent if None.

    Raises:
        UnsupportedError: the backend is not incremental.
        DescriptionError: a budget below 1.
    """
    backend = context.backend
    if not isinstance(backend, IncrementalBackend):
        raise UnsupportedError(
            "local search needs a backend that can be asked after every move, such as 'analytic'"
        )
    if budget < 1:
        raise DescriptionError(f"budget = {budget}: must be at least 1")
    starts = [start] if start is not None else [lpt(context)]
    # The incumbent, LPT and going back to the incumbent are three evaluations.
    if start is None and budget >= 3 and _is_legal(context.incumbent, context):
        starts.insert(0, incumbent(context))
    search = _Search(backend, starts)
    # A measurement, one move and its undoing are three.
    while budget - search.used >= 3:
        if not _improve(search, context, budget):
            _climb(search, context, budget)
    return SearchResult(search.schedule(), search.throughput, search.used)


def _improve(search: _Search, context: Context, budget: int) -> bool:
    """Tries the most promising moves and swaps of the most loaded core; True if one was kept."""
    machine = context.machine
    snapshot = search.measure()
    busy = slice_load(snapshot)
    elapsed = snapshot.counter("elapsed_us")
    load = np.bincount(search.cores, elapsed, machine.cores)
    work = np.bincount(search.cores, busy, machine.cores)
    # A core that a neighbour slows down takes longer for the same work.
    slowness = np.divide(load, work, out=np.ones(machine.cores), where=work > 0)
    worst = int(machine.workers[np.argmax(load[machine.workers])])
    mine = np.flatnonzero(search.cores == worst)
    if mine.size == 0:
        return False
    others = np.flatnonzero(search.cores != worst)
    targets = machine.workers[machine.workers != worst]
    if context.max_slices_per_core is not None:
        count = np.bincount(search.cores, minlength=machine.cores)
        targets = targets[count[targets] < context.max_slices_per_core]
    moved = np.maximum(
        load[worst] - busy[mine, None] * slowness[worst],
        load[targets] + busy[mine, None] * slowness[targets],
    )
    excess = busy[mine, None] - busy[others]
    swapped = np.maximum(
        load[worst] - excess * slowness[worst],
        load[search.cores[others]] + excess * slowness[search.cores[others]],
    )
    estimate = np.concatenate([moved.ravel(), swapped.ravel()])
    # Equal estimates are common (idle cores): chance decides, so that no core is favoured.
    order = np.lexsort((context.rng.random(estimate.size), estimate))
    for candidate in order[:_TRIALS]:
        if estimate[candidate] >= load[worst]:
            break
        if candidate < moved.size:
            i, j = divmod(int(candidate), targets.size)
            steps = [(int(mine[i]), int(targets[j]))]
        else:
            i, j = divmod(int(candidate) - moved.size, others.size)
            steps = [(int(mine[i]), int(search.cores[others[j]])), (int(others[j]), worst)]
        if budget - search.used <= len(steps):
            break
        if search.attempt(steps):
            return True
    return False


def _climb(search: _Search, context: Context, budget: int) -> None:
    """Tries random moves and swaps, whatever the load: what estimates do not foresee."""
    workers = context.machine.workers
    for _ in range(_TRIALS):
        slices = context.rng.integers(context.slices, size=2)
        a, b = int(slices[0]), int(slices[1])
        home = int(search.cores[a])
        if context.max_slices_per_core is None and context.rng.random() < 0.5:
            steps = [(a, int(context.rng.choice(workers)))]
        else:
            steps = [(a, int(search.cores[b])), (b, home)]
        if budget - search.used <= len(steps):
            return
        if steps[0][1] != home:
            search.attempt(steps)


def _search_schedule(context: Context, budget: int = DEFAULT_BUDGET) -> Schedule:
    """Local search from LPT with a budget of 2000 model evaluations."""
    return local_search(context, budget).schedule


BASELINES: Mapping[str, Baseline] = {
    "grouped": grouped,
    "spread": spread,
    "mixed": mixed,
    "random": random,
    "incumbent": incumbent,
    "lpt": lpt,
    "lpt-capacity": lpt_capacity,
    "greedy": greedy,
    "greedy-capacity": greedy_capacity,
    "local-search": _search_schedule,
}
#: The baselines that need no measurement: what an incumbent is drawn from.
STATIC_BASELINES = ("grouped", "spread", "mixed", "random")


def make_baseline(name: str, *, budget: int | None = None) -> Baseline:
    """The baseline of a name.

    Args:
        name: a key of BASELINES.
        budget: model evaluations, of "local-search" only.

    Raises:
        UnknownNameError: no such baseline.
        UnsupportedError: a budget for a baseline that does not search.
    """
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES)
    if budget is None:
        return BASELINES[name]
    if name != "local-search":
        raise UnsupportedError(f"the baseline {name!r} takes no budget: only 'local-search' does")
    return partial(_search_schedule, budget=budget)


def _is_legal(schedule: Schedule | None, context: Context) -> bool:
    """Whether there is a schedule and it obeys the constraint, if there is one."""
    if schedule is None:
        return False
    most = context.max_slices_per_core
    return most is None or int(np.bincount(schedule.cores).max()) <= most


def _workers_by_node(machine: Machine) -> list[Int32Array]:
    """The workers of each node that has any, in node order."""
    nodes = machine.node_of_core[machine.workers]
    return [machine.workers[nodes == n] for n in np.unique(nodes)]


def _grouped_run(context: Context) -> int:
    return -(-context.slices // len(_workers_by_node(context.machine)))
