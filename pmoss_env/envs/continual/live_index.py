"""An index that runs on this host: the same calls as RunningIndex, and time that really passes.

An epoch is some sweeping rounds of a live run. It begins at the end of a round: then co-tenants
come and go, and cores take their new slices. What is served while a policy thinks is in no epoch.
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

#: Sweeping rounds of an epoch: of about a tenth of a second, but neither few nor many.
_ROUND_SECONDS, _LEAST_ROUNDS, _MOST_ROUNDS = 0.1, 5, 20
#: So long no round may be missing (seconds): a host can be busy, but not for ever.
_SILENCE = 60.0


class RealCoTenants:
    """Co-tenants that really run on this host, as threads of this process.

    Args:
        backend: says which CPU and how much memory each of them takes.
    """

    def __init__(self, backend: HardwareBackend) -> None:
        self._backend = backend
        self._there: dict[CoTenant, _native.CoTenants] = {}

    def become(self, wanted: tuple[CoTenant, ...]) -> None:
        """Lets these run from now on, and no others.

        Raises:
            UnsupportedError: this host cannot run one of them.
            BackendError: the kernel refuses one; those before it run.
        """
        backend = self._backend
        check_co_tenants(wanted, backend.machine, backend.co_tenant_families, backend.name)
        for gone in set(self._there) - set(wanted):
            self._there.pop(gone).stop()
        for comes in wanted:
            if comes not in self._there and comes.strength > 0:
                told = backend.native_co_tenants([comes])
                with native_errors("a co-tenant failed to start"):
                    self._there[comes] = _native.CoTenants(told)

    def stop(self) -> None:
        """Ends them all. Safe to repeat."""
        self.become(())


class LiveIndex:
    """One index on this host.

    Attributes:
        cores: (slices,) int32, that serve from the next epoch on.
        served: (slices,) int32, that serve now.
        nodes: (slices,) int32, that hold the data.
        pending: (slices,) float64: 1 where data are still to be moved, else 0.
        rounds: sweeping rounds of an epoch.

    Args:
        backend: the index and its load, in this process. A user's library is served in another.
        seconds: length of an epoch.
        always_move: copies data also where they are in place; see LiveRuntime.
        rounds: sweeping rounds of an epoch; None: of about a tenth of a second.
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
        usual = np.clip(round(seconds / _ROUND_SECONDS), _LEAST_ROUNDS, _MOST_ROUNDS)
        self.rounds = int(usual) if rounds is None else rounds
        self._always_move = always_move
        self._beside = RealCoTenants(backend)
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
        self._switches = 0

    @property
    def native(self) -> _native.MachineModel:
        """UnsupportedError: what this machine really is stands in no description."""
        raise UnsupportedError(
            "backend = 'hardware': oracles plan in the true machine, which nobody knows of a real "
            "one; choose another policy"
        )

    @property
    def copies(self) -> int:
        """How many slices' data are still to be moved."""
        return int(np.count_nonzero(self.pending))

    def begin(self, workload_seed: int, conditions: Conditions, cores: Int32Array) -> None:
        """Loads the index if needed, and starts to serve, all data at their cores.

        Args:
            workload_seed: names the workload instance; another one is loaded anew.
            conditions: of the first epoch.
            cores: (slices,) int32.

        Raises:
            BackendError: there is no room for a second copy of what moves, or for the index; a
                thread or a co-tenant failed.
        """
        self.stop()
        self._live.set_instance(Instance(workload_seed=workload_seed))
        self._live.load(self.machine.local_schedule(cores.astype(np.int32)))
        self._require_room()
        self.cores = cores.astype(np.int32)
        self._live.start(self.machine.local_schedule(self.cores))
        self.served, self._switches = self.cores.copy(), 0
        self._arrived(np.zeros(0, dtype=np.int32))
        self._disturb(conditions)

    def _require_room(self) -> None:
        """Data that move are in two places until nobody reads the first."""
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
        """Lets a slice be served by another core in the next epoch; its data follow lazily."""
        self.cores[slice_] = core

    def run(self, conditions: Conditions, seconds: float, limit_us: float = 0.0) -> Epoch:
        """One epoch.

        Rounds end a little early or late: the queries are those of its rounds, per second, times
        its length.

        Args:
            conditions: of this epoch, known to nobody.
            seconds: its length.
            limit_us: has to be 0: a round tells no share of its queries.

        Raises:
            BackendError: a thread or a co-tenant failed; all threads have ended then.
        """
        self._live.drop_rounds()  # of the time in which a policy thought
        self.next_round()
        self._disturb(conditions)
        before, alike = ([], []) if np.array_equal(self.cores, self.served) else self.change()
        after = [self.next_round() for _ in range(self.rounds - len(before))]
        rounds = [*before, *after]
        # A change that has not taken effect yet has not told what it will move.
        late = rounds[-1].switches < self._switches
        elsewhere = self.nodes != self.machine.node_of_core[self.served]
        pending = np.flatnonzero(elsewhere).astype(np.int32) if late else rounds[-1].pending_slices
        self._arrived(pending)
        queries = mean_snapshot(rounds).throughput * seconds
        pieces = tuple(
            (float(one.snapshot.provenance["seconds"]), one.snapshot.throughput) for one in rounds
        )
        moved = sum(one.bytes_moved for one in rounds)
        shown = mean_snapshot([*alike, *after])
        return Epoch(queries, queries, float(moved), shown, pieces)

    def change(self) -> tuple[list[LiveRound], list[LiveRound]]:
        """Lets the cores of ``cores`` serve from now on, and data follow.

        Returns:
            Rounds of the epoch that have passed meanwhile, fewer than it has, and those of them
            that ran as the rest of the epoch will; none here. A subclass may try the change first,
            and give ``cores`` other values. The snapshot of the epoch is that of the latter, and of
            the rounds that follow.
        """
        self.serve(self.machine.local_schedule(self.cores))
        self.served = self.cores.copy()
        return [], []

    def serve(self, schedule: Schedule) -> None:
        """Changes what runs."""
        self._live.switch(schedule)
        self._switches += 1

    def stop(self) -> None:
        """Ends all threads, co-tenants too. Safe to repeat."""
        self._beside.stop()
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
        found = self._live.next_round(timeout=_SILENCE)
        if found is None:
            LiveIndex.stop(self)  # a subclass may ask what can no more be told
            hint = check_hint(self.backend.workload.index)
            told = f"the live run has told nothing for {_SILENCE:g} seconds"
            raise BackendError(f"{told}. {hint}" if hint else told)
        return found

    def _disturb(self, conditions: Conditions) -> None:
        if conditions != Conditions(conditions.co_tenants):
            raise UnsupportedError(
                "backend = 'hardware': only co-tenants drift on a real host; what is asked of the "
                "index stays"
            )
        self._beside.become(conditions.co_tenants)

    def _arrived(self, pending: Int32Array) -> None:
        """Takes note of where data are: those under way are where they were."""
        waits = np.zeros(self.slices, dtype=np.bool_)
        waits[pending] = True
        self.nodes = np.where(waits, self.nodes, self.machine.node_of_core[self.served])
        self.nodes = self.nodes.astype(np.int32)
        self.pending = waits.astype(np.float64)
