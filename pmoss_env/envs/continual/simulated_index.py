"""An index that runs on the simulated server: the same calls as RunningIndex.

No simulator executes a hundred million queries. So an epoch is sampled: once while data move, once
after that, each for as many queries as are recorded. The model of migration says how long the
copies take. What queries feel meanwhile is simulated: slices served from afar, and a copy as
traffic. The lines that a moved slice finds cold are among the queries that warm the sample.
"""

from __future__ import annotations

from typing import Any

from pmoss_env import _native
from pmoss_env.backends.live import mean_of
from pmoss_env.backends.model_snapshot import model_snapshot
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.running import Epoch, RunningIndex
from pmoss_env.types import HardwareSnapshot, Instance, Int32Array

_FOR_EVER = float("inf")


class SimulatedIndex:
    """One index on one simulated machine.

    Args:
        backend: records what the index touches.
        model: the same index on the analytic model: it says where data are, and when.
    """

    def __init__(self, backend: SimulatedBackend, model: RunningIndex) -> None:
        self._backend, self._model = backend, model
        self.cores, self.nodes, self.pending = model.cores, model.nodes, model.pending
        self._under_way: list[int] = []
        self._server = backend.new_server(model.native)

    @property
    def native(self) -> _native.MachineModel:
        """The machine as it really is."""
        return self._model.native

    @property
    def copies(self) -> int:
        """How many slices' data are still to be copied."""
        return self._model.copies

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Starts to run under a schedule, all data at their cores.

        Args:
            workload_seed: names the workload instance; another one is recorded anew.
            conditions: of the first epoch.
            cores: (slices,) int32.

        Raises:
            BackendError: the instance cannot be recorded.
        """
        self._backend.set_instance(Instance(workload_seed=workload_seed))
        self._trace = self._backend.trace()
        self._model.begin(workload_seed, conditions, cores)
        self._under_way = []

    def move(self, slice_: int, core: int) -> None:
        """Lets a slice be served by another core from now on; its data follow."""
        node_of_core = self._backend.machine.node_of_core
        node = node_of_core[self.cores[slice_]]
        self._model.move(slice_, core)
        if node_of_core[core] == node:
            return  # its copy, if one is under way, keeps its turn
        self._under_way = [one for one in self._under_way if one != slice_]
        if self.pending[slice_]:
            self._under_way.append(slice_)

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """One epoch.

        Args:
            conditions: of this epoch, known to nobody.
            seconds: its length.
            limit_us: has to be 0: a sample tells no share of its queries.
        """
        nodes = self.nodes.copy()
        told = self._model.run(conditions, seconds)
        arrived = len(self._under_way) - self.copies
        # A piece for each copy; and one in which nothing moves, unless copies last beyond the end.
        moving = told.pieces[: arrived + 1] if self.copies else told.pieces[:arrived]
        moving_seconds = sum(length for length, _ in moving)
        self._server.set_instance(self._trace, self._model.taken(conditions))
        samples: list[HardwareSnapshot] = []
        if moving:
            samples.append(self._while_moving(nodes, arrived, moving_seconds))
        self._under_way = self._under_way[arrived:]
        if moving_seconds < seconds:
            raw = self._server.run(self.cores, self.nodes)
            samples.append(self._sample(raw, seconds - moving_seconds))
        pieces = tuple((float(one.provenance["seconds"]), one.throughput) for one in samples)
        queries = sum(length * throughput for length, throughput in pieces)
        return Epoch(queries, queries, told.moved_bytes, mean_of(samples), pieces)

    def _while_moving(self, nodes: Int32Array, arrived: int, seconds: float) -> HardwareSnapshot:
        """The middle of the time: half of what arrives is there, and the next copy is under way.

        Args:
            nodes: (slices,) int32, that held the data when the epoch began.
            arrived: how many slices' data arrive in it.
            seconds: in which data move.
        """
        there = self._under_way[: arrived // 2]
        nodes[there] = self._backend.machine.node_of_core[self.cores[there]]
        slice_ = self._under_way[arrived // 2]
        copy = (slice_, int(self.cores[slice_]), _FOR_EVER)
        return self._sample(self._server.migrate(self.cores, nodes, [copy])["snapshot"], seconds)

    def _sample(self, raw: Any, seconds: float) -> HardwareSnapshot:
        """What was simulated, to stand for some seconds."""
        provenance = {"backend": self._backend.name, "seconds": seconds}
        return model_snapshot(raw, self._backend.machine, self._backend.load, provenance)

    def stop(self) -> None:
        """Nothing runs."""
