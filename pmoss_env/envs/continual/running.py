"""An index that runs on the analytic model: time goes in epochs, and slices move meanwhile.

An epoch is piecewise constant: a piece ends where the data of a slice have arrived. The queries
served are the sum of throughput times time over the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.model_snapshot import model_snapshot
from pmoss_env.backends.native_forms import native_interference
from pmoss_env.backends.profilers import make_profiler
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.migration import Migration
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, HardwareSnapshot, Int32Array, LoadRegime
from pmoss_env.workloads import Workload


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


class RunningIndex:
    """One index on one machine.

    Args:
        machine: as described.
        native: as it really is; its topology is the described one.
        workloads: mixes of queries that the index may get, of the same records.
        slices: number of key ranges.
        load: how queries are offered.
        migration: what moves with a slice.
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
        self._model = _native.AnalyticModel(
            native,
            load=load.kind,
            outstanding_per_worker=load.outstanding_per_worker,
            offered_mq_per_s=load.offered_mq_per_s,
        )
        self._profilers = [make_profiler(one, slices, None) for one in workloads]
        self._workload_seed: int | None = None
        self.slice_bytes = migration.slice_bytes(workloads[0], slices)
        self._index = _native.RunningIndex(
            native, self._model, self.slice_bytes, migration.most_gb_per_s
        )
        #: (slices,) int32, the cores that serve and the nodes that hold the data: read-only.
        self.cores: Int32Array = self._index.cores
        self.nodes: Int32Array = self._index.nodes
        #: (slices,) share of each slice's data that is still to be copied: read-only.
        self.pending: Float64Array = self._index.pending
        for shown in (self.cores, self.nodes, self.pending):
            shown.flags.writeable = False

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Starts to run under a schedule, all data at their cores.

        Args:
            workload_seed: names the workload instance.
            conditions: of the first epoch.
            cores: (slices,) int32.
        """
        native = self.native_conditions(conditions)
        if workload_seed == self._workload_seed:
            self._index.begin_again(native, cores)
            return
        mixes = [profiler.profiles(workload_seed) for profiler in self._profilers]
        self._index.begin(mixes, native, cores)
        self._workload_seed = workload_seed

    @property
    def core(self) -> _native.RunningIndex:
        """The index in C++."""
        return self._index

    @property
    def model(self) -> _native.AnalyticModel:
        """The C++ model, with the schedule of the last epoch's end; see slots()."""
        return self._model

    @property
    def copies(self) -> int:
        """How many slices' data are still to be copied."""
        return self._index.copies

    def slots(self, slices: Int32Array) -> Int32Array:
        """The slices of the workload instance whose load some slices have at present."""
        return (slices - self._index.shift) % np.int32(self.slices)

    def move(self, slice_: int, core: int) -> None:
        """Lets a slice be served by another core from now on; its data follow in the next epochs.

        Data that are on the way to another node begin anew.
        """
        self._index.move(slice_, core)

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """One epoch by itself; those of an episode are run by its batch.

        Args:
            conditions: of this epoch, known to nobody.
            seconds: its length.
            limit_us: on the response time; 0: none.
        """
        native = self.native_conditions(conditions)
        return self.epoch(self._index.run(native, seconds, limit_us))

    def epoch(self, native: _native.RunningEpoch) -> Epoch:
        """What came of an epoch, with the snapshot that hardware would show."""
        return Epoch(
            native["served"],
            native["within"],
            native["moved_bytes"],
            model_snapshot(native["snapshot"], self.machine, self.load, {}),
            native["pieces"],
        )

    def native_conditions(self, conditions: Conditions) -> _native.Conditions:
        """The same for the model."""
        asked = conditions.asked
        return _native.Conditions(self.taken(conditions), asked.shift, asked.load, asked.mix)

    def taken(self, conditions: Conditions) -> _native.Interference:
        """What the co-tenants of an epoch take."""
        return native_interference(conditions.co_tenants, self.native)
