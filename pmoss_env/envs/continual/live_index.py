"""An index on this host, with the methods of RunningIndex and real time.

An epoch consists of sweeping rounds of a live run. Co-tenants change before it. It begins at the
end of a round: then cores take their new slices. Queries that are served while a policy computes or
co-tenants start belong to no epoch.
"""

from __future__ import annotations

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.isolated_live import live_runtime
from pmoss_env.backends.live import LiveRound, mean_snapshot
from pmoss_env.backends.native_counts import native_errors
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.running import Epoch
from pmoss_env.errors import BackendError, UnsupportedError
from pmoss_env.indexes import check_hint
from pmoss_env.interference import check_co_tenants
from pmoss_env.memory import slice_gib
from pmoss_env.types import CoTenant, Float64Array, Instance, Int32Array, Schedule

#: Target length of the sweeping rounds of an epoch, and limits of their number.
_ROUND_SECONDS, _MIN_ROUNDS, _MAX_ROUNDS = 0.1, 5, 20
#: Longest time without a round on a busy host, seconds.
_SILENCE = 60.0


class HostCoTenants:
    """Co-tenants as threads of this process.

    Args:
        backend: gives the CPU and the memory of each.
    """

    def __init__(self, backend: HardwareBackend) -> None:
        self._backend = backend
        self._running: dict[CoTenant, _native.CoTenants] = {}
        self._cpu_of: dict[CoTenant, int] = {}

    def run(self, wanted: tuple[CoTenant, ...]) -> None:
        """Runs these co-tenants from now on, and no others.

        Raises:
            UnsupportedError: this host cannot run one of them.
            BackendError: the kernel refuses one; those before it run.
        """
        backend = self._backend
        check_co_tenants(wanted, backend.machine, backend.co_tenant_families, backend.name)
        for co_tenant in set(self._running) - set(wanted):
            self._running.pop(co_tenant).stop()
        for co_tenant in wanted:
            if co_tenant not in self._running and co_tenant.strength > 0:
                taken = [self._cpu_of[other] for other in self._running]
                native = backend.co_tenants.native([co_tenant], taken)
                self._cpu_of[co_tenant] = native[0][1]
                with native_errors("a co-tenant failed to start"):
                    self._running[co_tenant] = _native.CoTenants(native)

    def stop(self) -> None:
        """Ends them all. Safe to repeat."""
        self.run(())


class LiveIndex:
    """An index on this host.

    Attributes:
        cores: (slices,) int32, cores from the next epoch on.
        served: (slices,) int32, current cores.
        nodes: (slices,) int32, nodes of the data.
        pending: (slices,) float64: 1 if the data are still to be moved, else 0.

    Args:
        backend: the index and its load, in this process. A user-defined library is served in
            another process.
        always_move: whether data in place are copied, too; see LiveRuntime.
        rounds: sweeping rounds per epoch; None: rounds of about a tenth of a second.
    """

    def __init__(
        self,
        backend: HardwareBackend,
        seconds: float,
        *,
        always_move: bool = False,
        rounds: int | None = None,
    ) -> None:
        self.backend, self.machine, self.slices = backend, backend.machine, backend.slices
        default = np.clip(round(seconds / _ROUND_SECONDS), _MIN_ROUNDS, _MAX_ROUNDS)
        self.rounds = int(default) if rounds is None else rounds
        self._always_move = always_move
        self._co_tenants = HostCoTenants(backend)
        self._live = live_runtime(
            backend,
            sweep_seconds=max(seconds / self.rounds, 1e-3),
            kept_rounds=4 * self.rounds,
            always_move=always_move,
        )
        self.cores: Int32Array = np.zeros(self.slices, dtype=np.int32)
        self.nodes: Int32Array = np.zeros(self.slices, dtype=np.int32)
        self.pending: Float64Array = np.zeros(self.slices)
        self.served: Int32Array = self.cores
        self._switches, self._workload_seed = 0, 0

    @property
    def native(self) -> _native.MachineModel:
        """Raises UnsupportedError: the true machine is unknown."""
        raise UnsupportedError(
            "backend = 'hardware': oracles plan in the true machine, which is unknown for a real "
            "host; choose another policy"
        )

    @property
    def copies(self) -> int:
        """Number of slices whose data are still to be moved."""
        return int(np.count_nonzero(self.pending))

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Loads the index if needed, and starts to serve it, with all data at their cores.

        Args:
            workload_seed: of the workload instance; another one is loaded again.
            cores: (slices,) int32.

        Raises:
            BackendError: too little memory for the index, or for a second copy of the moved data;
                or a thread or a co-tenant failed.
        """
        self.stop()
        self._workload_seed = workload_seed
        self._live.set_instance(Instance(workload_seed=workload_seed))
        self._live.load(self.machine.local_schedule(cores.astype(np.int32)))
        self._require_room()
        self.cores = cores.astype(np.int32)
        self._live.start(self.machine.local_schedule(self.cores))
        self.served, self._switches = self.cores.copy(), 0
        self._arrived(np.zeros(0, dtype=np.int32))
        self._disturb(conditions)

    def reload(self) -> None:
        """Loads the index with its first records again, and serves it under the same schedule.

        Co-tenants begin again with the next epoch. Raises as begin().
        """
        seed, cores = self._workload_seed, self.served.copy()
        self.stop()
        self._live.unload()
        self.begin(seed, Conditions(()), cores)

    def _require_room(self) -> None:
        """Checks the memory: moved data lie in two places until the old copy has no reader."""
        if self.machine.nodes == 1 and not self._always_move:
            return
        workload = self.backend.workload
        need = int(slice_gib(workload, self.slices) * self.slices * 2.0**30)
        free = _native.available_memory()
        if free < need:
            self._live.unload()
            raise BackendError(
                f"an index of {workload.records} records takes {need / 2**20:.0f} MiB, and as much "
                f"again while its slices move; this process may take only {free / 2**20:.0f} MiB "
                'more: ask for fewer records, backend_options={"records": ...}'
            )

    def move(self, slice_: int, core: int) -> None:
        """Moves a slice to another core in the next epoch; its data follow lazily."""
        self.cores[slice_] = core

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """Runs an epoch.

        Rounds end slightly early or late. So the queries are those of the rounds per second, times
        the length of the epoch.

        Args:
            limit_us: must be 0: the share of queries within a limit is unknown.

        Raises:
            BackendError: a thread or a co-tenant failed; all threads have ended.
        """
        self._disturb(conditions)
        # From the time in which a policy computed and co-tenants took their memory.
        self._live.drop_rounds()
        self.next_round()
        before, similar = ([], []) if np.array_equal(self.cores, self.served) else self.change()
        after = [self.next_round() for _ in range(self.rounds - len(before))]
        rounds = [*before, *after]
        # The slices to move are unknown until the change has taken effect.
        late = rounds[-1].switches < self._switches
        elsewhere = self.nodes != self.machine.node_of_core[self.served]
        pending = np.flatnonzero(elsewhere).astype(np.int32) if late else rounds[-1].pending_slices
        self._arrived(pending)
        queries = mean_snapshot(rounds).throughput * seconds
        pieces = tuple(
            (float(each.snapshot.provenance["seconds"]), each.snapshot.throughput)
            for each in rounds
        )
        moved = sum(each.bytes_moved for each in rounds)
        shown = mean_snapshot([*similar, *after])
        return Epoch(queries, queries, float(moved), shown, pieces)

    def change(self) -> tuple[list[LiveRound], list[LiveRound]]:
        """Makes ``cores`` serve from now on; data follow.

        Returns:
            Rounds of the epoch that have passed meanwhile, fewer than all, and those of them that
            ran like the rest of the epoch; none here. A subclass may try the change first, and
            change ``cores``. The epoch's snapshot is that of the latter and of later rounds.
        """
        self.serve(self.machine.local_schedule(self.cores))
        self.served = self.cores.copy()
        return [], []

    def serve(self, schedule: Schedule) -> None:
        """Changes the running schedule."""
        self._live.switch(schedule)
        self._switches += 1

    def stop(self) -> None:
        """Ends all threads, co-tenants too. Safe to repeat."""
        self._co_tenants.stop()
        with self._live:
            pass

    def close(self) -> None:
        """Ends all threads, and frees the index. Safe to repeat."""
        try:
            self.stop()
        finally:
            self._live.unload()

    def next_round(self) -> LiveRound:
        """The round that ends next."""
        live_round = self._live.next_round(timeout=_SILENCE)
        if live_round is None:
            LiveIndex.stop(self)  # not a subclass's, which may query the run
            hint = check_hint(self.backend.workload.index)
            message = f"the live run had no round for {_SILENCE:g} seconds"
            raise BackendError(f"{message}. {hint}" if hint else message)
        return live_round

    def _disturb(self, conditions: Conditions) -> None:
        if conditions != Conditions(conditions.co_tenants):
            raise UnsupportedError(
                "backend = 'hardware': only co-tenants drift on a real host; the queries of the "
                "index do not change"
            )
        self._co_tenants.run(conditions.co_tenants)

    def _arrived(self, pending: Int32Array) -> None:
        """Updates the nodes of the data; those of pending slices stay."""
        waits = np.zeros(self.slices, dtype=np.bool_)
        waits[pending] = True
        self.nodes = np.where(waits, self.nodes, self.machine.node_of_core[self.served])
        self.nodes = self.nodes.astype(np.int32)
        self.pending = waits.astype(np.float64)
