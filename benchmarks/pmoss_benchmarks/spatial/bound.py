"""An upper bound of the throughput: a relaxation that no schedule passes.

Every slice takes its least time on each core: as if no other slice used the core's caches and
memories, with the co-tenants alone beside it. Then no core is busy for longer than always:

- Work may be divided at will over the cores (a linear program, fractional scheduling on unrelated
  machines: Lenstra, Shmoys and Tardos, Approximation Algorithms for Scheduling Unrelated Parallel
  Machines, 1990).
- The slice that takes longest lies on the core where it takes least.
- A closed load has only so many queries, so that no core is busy all the time.
"""

from __future__ import annotations

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_counts import model_snapshot
from pmoss_env.backends.native_forms import native_interference, native_machine
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.errors import BackendError, UnsupportedError
from pmoss_env.extras import require
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Instance, Int32Array, LoadRegime
from pmoss_env.workloads import Workload

#: Queries so rare that they do not load the memories: Mq/s.
_RARE = 1e-6
#: Least burst of a station: services that are all alike.
_BURST = 0.5


class LeastTimes:
    """The least time of each slice on each core, of one machine and workload."""

    def __init__(self, machine: Machine, workload: Workload, slices: int, load: LoadRegime) -> None:
        """Makes a model whose queries are so rare that none waits for another.

        Raises:
            UnsupportedError: a load that is not closed, or a machine whose workers share one
                last-level cache.
        """
        if load.kind != "closed":
            raise UnsupportedError(
                f"an upper bound for the load {load.kind!r} is not known: take a closed load"
            )
        workers = machine.workers
        if np.unique(machine.llc_of_core[workers]).size < 2:
            # A slice is measured alone in its caches, so that the others must lie behind others.
            raise UnsupportedError(
                f"an upper bound for {machine.name} is not known: all its workers share one "
                "last-level cache"
            )
        self.machine, self.slices, self.load = machine, slices, load
        self._native = native_machine(machine)
        self._model = _native.AnalyticModel(self._native, load="open", offered_mq_per_s=_RARE)
        self._profiler = make_profiler(workload, slices, None)
        alike = [machine.node_of_core[workers], machine.llc_of_core[workers]]
        if machine.mesh is not None:
            # Rounded, so that cores on stops of the same distance are alike to the last bit.
            alike.append(np.round(machine.mesh_ns[0][workers], 6))
        _, self._group = np.unique(np.stack(alike), axis=1, return_inverse=True)
        self._group = self._group.ravel()

    def of(self, instance: Instance) -> Float64Array:
        """(slices, workers) float64: microseconds per query of the whole workload.

        Args:
            instance: keys and co-tenants. Lines that co-tenants push through caches are left
                out: how much room they take depends on the throughput.
        """
        taken = native_interference(instance.co_tenants, self._native)
        taken.llc_lines_per_ns = [0.0] * len(taken.llc_lines_per_ns)
        self._model.set_instance(self._profiler.profiles(instance.workload_seed), taken)
        groups = int(self._group.max()) + 1
        times = np.full((self.slices, groups), np.inf)
        # The others lie behind another last-level cache than the slice that is measured.
        behind = self.machine.llc_of_core[[self._first(group) for group in range(groups)]]
        near = behind == behind[0]
        self._probe(times, np.flatnonzero(~near).tolist(), 0)
        self._probe(times, np.flatnonzero(near).tolist(), int(np.argmin(near)))
        return times[:, self._group] * self._slowness()

    def _probe(self, times: Float64Array, probed: list[int], dump: int) -> None:
        """Measures each slice alone in groups of cores, the others on a core of ``dump``."""
        firsts = [self._first(group) for group in range(int(self._group.max()) + 1)]
        home = np.full(self.slices, firsts[dump], dtype=np.int32)
        self._place(home)
        away: list[int] = []
        for first in range(self.slices):
            for slice_ in away:
                self._move(slice_, firsts[dump])
            away = [(first + 17 * number) % self.slices for number in range(len(probed))]
            for slice_, group in zip(away, probed, strict=True):
                self._move(slice_, firsts[group])
            spent = self._spent()[1]
            times[away, probed] = spent[away]

    def _slowness(self) -> Float64Array:
        """(workers,) how much longer a query takes on each worker, for what co-tenants take."""
        workers = self.machine.workers
        result = np.ones(workers.size)
        for first in range(0, workers.size, self.slices):
            part = workers[first : first + self.slices]
            cores = np.resize(part, self.slices).astype(np.int32)
            self._place(cores)
            elapsed, busy = self._spent()
            in_part = np.arange(part.size)
            result[first : first + part.size] = elapsed[in_part] / busy[in_part]
        return result

    def _first(self, group: int) -> int:
        return int(self.machine.workers[int(np.argmax(self._group == group))])

    def _place(self, cores: Int32Array) -> None:
        self._model.place(cores, self.machine.node_of_core[cores].astype(np.int32))

    def _move(self, slice_: int, core: int) -> None:
        self._model.move(slice_, core, int(self.machine.node_of_core[core]))

    def _spent(self) -> tuple[Float64Array, Float64Array]:
        """(slices,) elapsed and processor microseconds per query of the whole workload."""
        snapshot = model_snapshot(self._model.snapshot(), self.machine, self.load, {})
        return tuple(  # type: ignore[return-value]
            snapshot.counter(name) / snapshot.throughput for name in ("elapsed_us", "task_clock_us")
        )


def upper_bound(least: LeastTimes, instance: Instance) -> float:
    """The throughput that no schedule of an instance passes, Mq/s.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    times = least.of(instance)
    queries = least.load.outstanding_per_worker * least.machine.workers.size
    time, weight = _fractional(times)
    balance = _busiest(weight, queries) / time
    heaviest = _busiest(np.ones(1), queries) / float(times.min(axis=1).max())
    return min(balance, heaviest)


def _fractional(times: Float64Array) -> tuple[float, Float64Array]:
    """Least time of the fullest core where slices can be divided, and the dual weight of each core.

    The time follows from the weights alone: by duality any weights give a lower bound.
    """
    require("scipy")
    from scipy.optimize import linprog

    slices = times.shape[0]
    kinds, kind_of, count = np.unique(
        np.round(times, 15), axis=1, return_inverse=True, return_counts=True
    )
    each = np.arange(slices * count.size)
    of_slice, of_kind = divmod(each, count.size)
    full = np.zeros((count.size, each.size + 1))
    full[of_kind, each] = kinds.ravel()
    full[:, -1] = -count
    whole = np.zeros((slices, each.size + 1))
    whole[of_slice, each] = 1.0
    goal = np.zeros(each.size + 1)
    goal[-1] = 1.0
    program = linprog(goal, full, np.zeros(count.size), whole, np.ones(slices))
    if not program.success:
        raise BackendError(f"the linear program of an upper bound: {program.message}")
    weight = np.maximum(-program.ineqlin.marginals, 0.0)[kind_of.ravel()]
    weight /= weight.sum()
    return float((times * weight).min(axis=1).sum()), weight


def _busiest(weight: Float64Array, queries: float) -> float:
    """The greatest weighted mean of how busy the cores are, with so many queries in all.

    A core that is busy for a share r holds r + b r^2 / (1 - r) queries, with b its burst. The
    greatest mean has equal slopes of weight over queries.
    """
    positive = weight[weight > 0]
    low, high = 0.0, float(positive.max())
    for _ in range(200):
        price = 0.5 * (low + high)
        if _held(_shares(positive, price)) > queries:
            low = price
        else:
            high = price
    # The lower price lets in more queries than there are: the bound stays one.
    return float(positive @ _shares(positive, max(low, 1e-300)))


def _shares(weight: Float64Array, price: float) -> Float64Array:
    slope = np.maximum(weight / price, 1.0)
    return 1.0 - 1.0 / np.sqrt((slope - 1.0) / _BURST + 1.0)


def _held(share: Float64Array) -> float:
    return float((share + _BURST * share**2 / (1.0 - share)).sum())
