"""An index on the analytic model that runs in epochs while slices move.

An epoch is piecewise constant: a piece ends when the data of a slice have arrived. The queries
served are the sum of throughput times time over the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_counts import model_snapshot
from pmoss_env.backends.native_forms import native_interference, record_shares
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.checks import check_number
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array, LoadRegime
from pmoss_env.workloads import Workload


@dataclass(frozen=True)
class Migration:
    """The size and speed of the copies that move slices.

    A moved slice changes its core at once. Its data follow, one copy at a time. Until they have
    arrived the slice is served remotely. A copy is traffic of the source's memory, the target's
    memory and the links between them. None of a moved slice's lines are cached at first.

    Attributes:
        record_bytes: bytes that move with a record; 1,000 as in YCSB.
        max_gb_per_s: limit of the copying thread; 0: no limit.
    """

    record_bytes: float = 1000.0
    max_gb_per_s: float = 0.0

    def __post_init__(self) -> None:
        check_number("record_bytes", self.record_bytes, 1, 2**30)
        check_number("max_gb_per_s", self.max_gb_per_s, 0.0)

    def slice_bytes(self, workload: Workload, slices: int) -> Float64Array:
        """(slices,) float64, bytes that move with each slice."""
        shares = np.array(record_shares(workload, slices))
        return shares * (workload.records * self.record_bytes)


@dataclass(frozen=True)
class Epoch:
    """The result of an epoch.

    Attributes:
        within: of these, million within the limit on the response time; all without a limit.
        moved_bytes: bytes copied.
        snapshot: means over the epoch. While data are copied, counters are those of the middle
            piece, and response times are means of the two parts.
        pieces: (seconds, Mq/s) of each piece.
    """

    queries: float
    within: float
    moved_bytes: float
    snapshot: HardwareSnapshot
    pieces: tuple[tuple[float, float], ...]


class RunningIndex:
    """A running index on a machine.

    Attributes:
        core: the index in C++.
        model: the C++ model, with the schedule at the end of the last epoch.

    Args:
        native: the true machine, with the described topology.
        workloads: mixes of queries, with the same records.
    """

    def __init__(
        self,
        machine: Machine,
        native: _native.MachineModel,
        workloads: Sequence[Workload],
        slices: int,
        load: LoadRegime,
        migration: Migration,
    ) -> None:
        self.machine, self.slices, self.load = machine, slices, load
        self.native = native
        self.model = _native.AnalyticModel(
            native,
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
        )
        self._profilers = [make_profiler(workload, slices, None) for workload in workloads]
        self._workload_seed: int | None = None
        self.slice_bytes = migration.slice_bytes(workloads[0], slices)
        self.core = _native.RunningIndex(
            native, self.model, self.slice_bytes, migration.max_gb_per_s
        )
        #: (slices,) int32, the cores that serve and the nodes that hold the data: read-only.
        self.cores: Int32Array = self.core.cores
        self.nodes: Int32Array = self.core.nodes
        #: (slices,) share of each slice's data that is not copied yet: read-only.
        self.pending: Float64Array = self.core.pending
        for shown in (self.cores, self.nodes, self.pending):
            shown.flags.writeable = False

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Starts under a schedule, with all data at their cores.

        Args:
            cores: (slices,) int32.
        """
        native = self.native_conditions(conditions)
        if workload_seed == self._workload_seed:
            self.core.begin_again(native, cores)
            return
        mixes = [profiler.profiles(workload_seed) for profiler in self._profilers]
        self.core.begin(mixes, native, cores)
        self._workload_seed = workload_seed

    @property
    def copies(self) -> int:
        """Number of slices whose data are not copied yet."""
        return self.core.copies

    def move(self, slice_: int, core: int) -> None:
        """Moves a slice to another core; its data follow in the next epochs.

        A copy to another node starts again.
        """
        self.core.move(slice_, core)

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """Runs a single epoch; the epochs of an episode are run by its batch.

        Args:
            limit_us: on the response time; 0: no limit.
        """
        native = self.native_conditions(conditions)
        return self.epoch(self.core.run(native, seconds, limit_us))

    def epoch(self, native: _native.RunningEpoch) -> Epoch:
        """The result of an epoch, with a snapshot as on hardware."""
        return Epoch(
            native["served"],
            native["within"],
            native["moved_bytes"],
            model_snapshot(native["snapshot"], self.machine, self.load, {}),
            native["pieces"],
        )

    def native_conditions(self, conditions: Conditions) -> _native.Conditions:
        """The C++ form of conditions."""
        demand = conditions.demand
        return _native.Conditions(self.taken(conditions), demand.shift, demand.load, demand.mix)

    def taken(self, conditions: Conditions) -> _native.Interference:
        """The resources that the co-tenants of an epoch take."""
        return native_interference(conditions.co_tenants, self.native)
