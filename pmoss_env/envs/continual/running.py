"""An index that runs on the analytic model: time goes in epochs, and slices move meanwhile.

An epoch is piecewise constant: a piece ends where the data of a slice have arrived. The queries
served are the sum of throughput times time over the pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.model_snapshot import model_snapshot
from pmoss_env.backends.native_forms import native_interference
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.migration import Busy, ColdLines, Copier, Migration, Traffic
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array, LoadRegime
from pmoss_env.workloads import Workload

_LINE_BYTES = 64
#: Of its time, a core spends no more than this on fetching cold lines.
_MOST_COLD = 0.9


@dataclass(frozen=True)
class Epoch:
    """What came of one epoch.

    Attributes:
        queries: served, million.
        within: of these, answered within the limit on the response time; all without one.
        moved_bytes: copied in this epoch.
        snapshot: means over the epoch. While data are copied, counters are those of the middle
            piece, and response times are means of the two parts.
        pieces: (seconds, Mq/s) of each piece.
    """

    queries: float
    within: float
    moved_bytes: float
    snapshot: HardwareSnapshot
    pieces: tuple[tuple[float, float], ...]


@dataclass
class _Copy:
    """Data that are still to be copied."""

    slice: int
    bytes: float


class RunningIndex:
    """One index on one machine.

    Args:
        machine: as described.
        native: as it really is; its topology is the described one.
        workload: what the index gets.
        slices: number of key ranges.
        load: how queries are offered.
        migration: what moves with a slice.
    """

    def __init__(
        self,
        machine: Machine,
        native: _native.MachineModel,
        workload: Workload,
        slices: int,
        load: LoadRegime,
        migration: Migration,
    ) -> None:
        self.machine, self.slices, self.load = machine, slices, load
        self.native = native
        self._model = _native.AnalyticModel(
            native,
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
        )
        self._profiler = make_profiler(workload, slices, None)
        self.slice_bytes = migration.slice_bytes(workload, slices)
        self._copier = Copier(machine, native, migration)
        self._cold = ColdLines(machine, native)
        self.cores: Int32Array = np.zeros(slices, np.int32)
        self.nodes: Int32Array = np.zeros(slices, np.int32)
        #: (slices,) share of each slice's data that is still to be copied.
        self.pending: Float64Array = np.zeros(slices)
        self._copies: list[_Copy] = []
        self._moved: list[int] = []
        self._unsettled: list[int] = []
        self._conditions: Conditions | None = None
        self._taken = _native.Interference()
        self._busy = Busy([], [])
        self._shares: Float64Array = np.zeros(slices)

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Starts to run under a schedule, all data at their cores.

        Args:
            workload_seed: names the workload instance.
            conditions: of the first epoch.
            cores: (slices,) int32.
        """
        profiles = self._profiler.profiles(workload_seed)
        self._shares = np.asarray(profiles.share)
        self._take(conditions)
        self._model.set_instance(profiles, self._taken)
        self.cores = np.array(cores, np.int32)
        self.nodes = self.machine.node_of_core[self.cores].copy()
        self._copies, self._moved, self._unsettled = [], [], []
        self.pending = np.zeros(self.slices)
        self._place()

    @property
    def model(self) -> _native.AnalyticModel:
        """The C++ model, with the schedule of the last epoch's end; see slots()."""
        return self._model

    @property
    def copies(self) -> int:
        """How many slices' data are still to be copied."""
        return len(self._copies)

    def slots(self, slices: Int32Array) -> Int32Array:
        """The slices of the workload instance whose load some slices have at present."""
        return (slices - self._shift) % np.int32(self.slices)

    @property
    def _shift(self) -> int:
        return self._conditions.shift if self._conditions else 0

    def move(self, slice_: int, core: int) -> None:
        """Lets a slice be served by another core from now on; its data follow in the next epochs.

        Data that are on the way to another node begin anew.
        """
        if self.cores[slice_] == core:
            return
        node = int(self.machine.node_of_core[core])
        before = int(self.machine.node_of_core[self.cores[slice_]])
        self.cores[slice_] = core
        self._moved.append(slice_)
        if node == before:
            return
        self._copies = [copy for copy in self._copies if copy.slice != slice_]
        self.pending[slice_] = 0.0
        if node != self.nodes[slice_]:
            self._copies.append(_Copy(slice_, float(self.slice_bytes[slice_])))
            self.pending[slice_] = 1.0

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """One epoch.

        Args:
            conditions: of this epoch, known to nobody.
            seconds: its length.
            limit_us: on the response time; 0: none.
        """
        shifted = self._conditions is None or conditions.shift != self._conditions.shift
        self._take(conditions)
        if shifted:
            self._place()
        self._add_cold_lines(seconds)
        changed = [*self._unsettled, *self._moved]
        copying, arrived = self._plan_copies(seconds)
        pieces: list[tuple[float, float]] = []
        within = 0.0
        middle: HardwareSnapshot | None = None
        for number, (span, traffic, copy) in enumerate(copying):
            throughput = self._change(traffic, changed)
            pieces.append((span, throughput))
            within += span * throughput * self._share_within(limit_us)
            if number == len(copying) // 2:
                middle = self._snapshot()
            changed = [copy.slice] if number < arrived else []
            self.nodes[changed] = self.machine.node_of_core[self.cores[changed]]
            self.pending[copy.slice] = self._left(copy) if number >= arrived else 0.0
        rest = seconds - sum(span for span, _ in pieces)
        settled: HardwareSnapshot | None = None
        if rest > 0:
            throughput = self._change(None, changed)
            pieces.append((rest, throughput))
            within += rest * throughput * self._share_within(limit_us)
            settled = self._snapshot()
        del self._copies[:arrived]
        # What arrived at the very end is in place from the next epoch on.
        self._moved, self._unsettled = [], [] if rest > 0 else changed
        return Epoch(
            sum(span * throughput for span, throughput in pieces),
            within,
            sum(span * traffic.rate for span, traffic, _ in copying) * 1e9,
            _mean(middle, settled, pieces, seconds),
            tuple(pieces),
        )

    def _take(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._taken = native_interference(conditions.co_tenants, self.machine, self.native)
        self._busy = Busy(
            list(self._taken.dram_gb_per_s) or [0.0] * self.machine.nodes,
            list(self._taken.link_gb_per_s) or [0.0] * self.machine.sockets**2,
        )

    def _place(self) -> None:
        slots = self.slots(np.arange(self.slices, dtype=np.int32))
        cores, nodes = np.empty_like(self.cores), np.empty_like(self.nodes)
        cores[slots], nodes[slots] = self.cores, self.nodes
        self._model.place(cores, nodes)

    def _add_cold_lines(self, seconds: float) -> None:
        """Lets the cores of slices that have moved lose the time for their cold lines."""
        if not self._moved:
            return
        shares = np.roll(self._shares, self._shift)
        busy = np.asarray(self._taken.busy_share)
        if busy.size == 0:
            busy = np.zeros(self.machine.cores)
        moved = np.array(sorted(set(self._moved)), dtype=np.int32)
        lines = self.slice_bytes[moved] / _LINE_BYTES
        times = self._cold.seconds(moved, shares, self.cores, self.nodes[moved], lines)
        lost = np.bincount(self.cores[moved], times, self.machine.cores)
        cold = np.minimum(lost / seconds, _MOST_COLD)
        self._taken.busy_share = (1.0 - (1.0 - busy) * (1.0 - cold)).tolist()

    def _plan_copies(self, seconds: float) -> tuple[list[tuple[float, Traffic, _Copy]], int]:
        """(seconds, traffic, copy) of the pieces in which data move, and how many arrive."""
        pieces: list[tuple[float, Traffic, _Copy]] = []
        left = seconds
        for number, copy in enumerate(self._copies):
            target = int(self.machine.node_of_core[self.cores[copy.slice]])
            traffic = self._copier.traffic(int(self.nodes[copy.slice]), target, self._busy)
            need = copy.bytes / (traffic.rate * 1e9)
            if need > left:
                copy.bytes -= left * traffic.rate * 1e9
                return [*pieces, (left, traffic, copy)] if left > 0 else pieces, number
            pieces.append((need, traffic, copy))
            left -= need
        return pieces, len(self._copies)

    def _change(self, traffic: Traffic | None, changed: list[int]) -> float:
        """Sets what co-tenants and a copy take, and where some slices now are; returns Mq/s.

        Args:
            traffic: of the copy, if there is one.
            changed: slices with other cores or nodes than before.
        """
        slices = np.array(sorted(set(changed)), dtype=np.int32)
        return self._model.change(
            self._with(traffic), self.slots(slices), self.cores[slices], self.nodes[slices]
        )

    def _with(self, traffic: Traffic | None) -> _native.Interference:
        """What co-tenants and a copy take."""
        nodes, links = list(self._busy.nodes), list(self._busy.links)
        if traffic is not None:
            _add(nodes, traffic.nodes)
            _add(links, traffic.links)
        self._taken.dram_gb_per_s, self._taken.link_gb_per_s = nodes, links
        return self._taken

    def _left(self, copy: _Copy) -> float:
        whole = float(self.slice_bytes[copy.slice])
        return copy.bytes / whole if whole > 0 else 0.0

    def _share_within(self, limit_us: float) -> float:
        return self._model.share_within(limit_us) if limit_us else 1.0

    def _snapshot(self) -> HardwareSnapshot:
        seen = model_snapshot(self._model.snapshot(), self.machine, self.load, {})
        shift = self._shift
        if shift == 0:
            return seen
        return replace(
            seen,
            slice_counters=np.roll(seen.slice_counters, shift, axis=0),
            slice_throughput=np.roll(seen.slice_throughput, shift),
        )


def _add(taken: list[float], more: Mapping[int, float]) -> None:
    for which, amount in more.items():
        taken[which] += amount


def _mean(
    middle: HardwareSnapshot | None,
    settled: HardwareSnapshot | None,
    pieces: list[tuple[float, float]],
    seconds: float,
) -> HardwareSnapshot:
    """The snapshot of a whole epoch from those of its two parts."""
    if middle is None:
        assert settled is not None
        return settled
    span, throughput = pieces[-1] if settled is not None else (0.0, 0.0)
    queries = sum(span * throughput for span, throughput in pieces) - span * throughput
    # The middle piece stands for all in which data moved.
    served = middle.throughput * seconds
    rates = queries / served if served > 0 else 0.0
    if settled is None:
        return _sum(rates, middle, 0.0, middle, 1.0)
    return _sum(rates, middle, span / seconds, settled, 1.0 - span / seconds)


def _sum(
    first: float, a: HardwareSnapshot, second: float, b: HardwareSnapshot, time: float
) -> HardwareSnapshot:
    """``first`` times one snapshot and ``second`` times another; times are weighted by ``time``."""

    def times(of_a: float, of_b: float) -> float:
        return time * of_a + (1.0 - time) * of_b

    return replace(
        a,
        throughput=first * a.throughput + second * b.throughput,
        slice_throughput=first * a.slice_throughput + second * b.slice_throughput,
        slice_counters=first * a.slice_counters + second * b.slice_counters,
        offcore=first * a.offcore + second * b.offcore,
        latency_p50_us=times(a.latency_p50_us, b.latency_p50_us),
        latency_p99_us=times(a.latency_p99_us, b.latency_p99_us),
    )
