"""An index on the simulated server, with the methods of RunningIndex.

Simulating all queries of an epoch would take too long. So an epoch is sampled: once while data move
and once afterwards, each for as many queries as were recorded. The model of migration gives the
times of the copies. Their effects on queries are simulated: slices that are served remotely, and
the traffic of a copy. The queries that warm the sample find the cold lines of a moved slice.
"""

from __future__ import annotations

from typing import Any

from pmoss_env import _native
from pmoss_env.backends.live import mean_of
from pmoss_env.backends.native_counts import model_snapshot
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.running import Epoch, RunningIndex
from pmoss_env.types import HardwareSnapshot, Instance, Int32Array

_FOREVER = float("inf")


class SimulatedIndex:
    """A running index on a simulated machine.

    Args:
        model: the same index on the analytic model, for the places and times of data.
    """

    def __init__(self, backend: SimulatedBackend, model: RunningIndex) -> None:
        self._backend, self._model = backend, model
        self.cores, self.nodes, self.pending = model.cores, model.nodes, model.pending
        self._copying: list[int] = []
        self._server = backend.new_server(model.native)

    @property
    def native(self) -> _native.MachineModel:
        """The true machine."""
        return self._model.native

    @property
    def copies(self) -> int:
        """Number of slices whose data are not copied yet."""
        return self._model.copies

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Starts under a schedule, with all data at their cores.

        Args:
            workload_seed: of the workload instance; another one is recorded again.
            cores: (slices,) int32.

        Raises:
            BackendError: the instance cannot be recorded.
        """
        self._backend.set_instance(Instance(workload_seed=workload_seed))
        self._trace = self._backend.trace()
        self._model.begin(workload_seed, conditions, cores)
        self._copying = []

    def move(self, slice_: int, core: int) -> None:
        """Moves a slice to another core; its data follow."""
        node_of_core = self._backend.machine.node_of_core
        node = node_of_core[self.cores[slice_]]
        self._model.move(slice_, core)
        if node_of_core[core] == node:
            return  # a waiting copy keeps its turn
        self._copying = [copying for copying in self._copying if copying != slice_]
        if self.pending[slice_]:
            self._copying.append(slice_)

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """Runs an epoch.

        Args:
            limit_us: must be 0: the share of queries within a limit is unknown.
        """
        nodes = self.nodes.copy()
        modelled = self._model.run(conditions, seconds)
        arrived = len(self._copying) - self.copies
        # A piece for each copy, and one without moves unless copies last beyond the end.
        moving = modelled.pieces[: arrived + 1] if self.copies else modelled.pieces[:arrived]
        moving_seconds = sum(length for length, _ in moving)
        self._server.set_instance(self._trace, self._model.taken(conditions))
        samples: list[HardwareSnapshot] = []
        if moving:
            samples.append(self._while_moving(nodes, arrived, moving_seconds))
        self._copying = self._copying[arrived:]
        if moving_seconds < seconds:
            raw = self._server.run(self.cores, self.nodes)
            samples.append(self._sample(raw, seconds - moving_seconds))
        pieces = tuple((float(each.provenance["seconds"]), each.throughput) for each in samples)
        queries = sum(length * throughput for length, throughput in pieces)
        return Epoch(queries, queries, modelled.moved_bytes, mean_of(samples), pieces)

    def _while_moving(self, nodes: Int32Array, arrived: int, seconds: float) -> HardwareSnapshot:
        """The middle of the moving time: half of the data have arrived; the next copy runs.

        Args:
            nodes: (slices,) int32, nodes of the data at the begin of the epoch.
            arrived: number of slices whose data arrive in the epoch.
        """
        first_half = self._copying[: arrived // 2]
        nodes[first_half] = self._backend.machine.node_of_core[self.cores[first_half]]
        slice_ = self._copying[arrived // 2]
        copy = (slice_, int(self.cores[slice_]), _FOREVER)
        return self._sample(self._server.migrate(self.cores, nodes, [copy])["snapshot"], seconds)

    def _sample(self, raw: Any, seconds: float) -> HardwareSnapshot:
        """The snapshot of a simulation that stands for some seconds."""
        provenance = {"backend": self._backend.name, "seconds": seconds}
        return model_snapshot(raw, self._backend.machine, self._backend.load, provenance)

    def stop(self) -> None:
        """Nothing runs."""
