"""A live run on this host: the schedule changes while queries are served (P-MOSS, section 5).

Routers, workers, sweepers, the stitcher and the enforcer run until stop(). Cores follow a new
schedule at once, and data follow later. Every sweeping round gives a whole hardware snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.data_facts import data_facts, loaded_facts, require_planned_cpus
from pmoss_env.backends.frames import unpack_snapshot
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.native_counts import native_errors, snapshot_of
from pmoss_env.errors import BackendError
from pmoss_env.types import (
    BoolArray,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Int32Array,
    Schedule,
)

_LATENCIES = ("latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us")


@dataclass(frozen=True)
class LiveRound:
    """A sweeping round of a live run.

    Attributes:
        number: counts all rounds from 0, dropped ones included.
        ended_seconds: time of its end, in seconds after the warm-up.
        snapshot: throughput, latencies and counters of the round. Latencies are NaN if no query
            was completed.
        switches: number of schedule changes so far.
        pending_slices: (n,) ascending, slices whose data are not yet where the schedule places
            them.
        bytes_moved: bytes of the index that moved in this round.
        dropped: number of dropped rounds since the last one that was read.
    """

    number: int
    ended_seconds: float
    snapshot: HardwareSnapshot
    switches: int
    pending_slices: Int32Array
    bytes_moved: int
    dropped: int

    @property
    def pending(self) -> int:
        """Number of slices whose data are not yet where the schedule places them."""
        return int(self.pending_slices.size)


def unpack_round(plain: Mapping[str, Any]) -> LiveRound:
    """The round of a measuring process, from plain JSON."""
    fields = dict(plain)
    fields["snapshot"] = unpack_snapshot(fields["snapshot"])
    fields["pending_slices"] = np.array(fields["pending_slices"], dtype=np.int32)
    return LiveRound(**fields)


def mean_snapshot(rounds: Sequence[LiveRound]) -> HardwareSnapshot:
    """The mean of consecutive rounds; see mean_of().

    Args:
        rounds: at least one, of one run.
    """
    mean = mean_of([live_round.snapshot for live_round in rounds])
    return replace(mean, provenance={**mean.provenance, "rounds": len(rounds)})


def mean_of(snapshots: Sequence[HardwareSnapshot]) -> HardwareSnapshot:
    """The mean of the snapshots of consecutive times.

    Rates are weighted by time. Response times are weighted by queries; a percentile is thus a mean
    of percentiles. A counter is available if some snapshot has it, and its rate is the mean of
    those snapshots.

    Args:
        snapshots: at least one, with ``seconds`` in its provenance.
    """
    seconds = np.array([float(snapshot.provenance["seconds"]) for snapshot in snapshots])
    share = seconds / seconds.sum()
    queries = np.array([snapshot.throughput for snapshot in snapshots]) * seconds

    def mean(name: str) -> Float64Array:
        return np.tensordot(share, np.stack([getattr(each, name) for each in snapshots]), 1)

    def latency(name: str) -> float:
        values = np.array([getattr(snapshot, name) for snapshot in snapshots])
        valid = np.isfinite(values) & (queries > 0)
        return float(np.average(values[valid], weights=queries[valid])) if valid.any() else np.nan

    available: BoolArray = np.stack([snapshot.counters_available for snapshot in snapshots])
    counted = np.maximum(share @ available, np.finfo(np.float64).tiny)
    offcore_available: BoolArray = np.logical_and.reduce(
        [snapshot.offcore_available for snapshot in snapshots]
    )
    return replace(
        snapshots[-1],
        throughput=float(queries.sum() / seconds.sum()),
        slice_throughput=mean("slice_throughput"),
        slice_counters=mean("slice_counters") / counted,
        counters_available=np.logical_or.reduce(available),
        running_ratio=mean("running_ratio"),
        offcore=np.where(offcore_available, mean("offcore"), 0.0),
        offcore_available=offcore_available,
        extra_counters={
            name: np.tensordot(
                share, np.stack([each.extra_counters[name] for each in snapshots]), 1
            )
            for name in snapshots[-1].extra_counters
            if all(name in each.extra_counters for each in snapshots)
        },
        latency_p50_us=latency("latency_p50_us"),
        latency_p99_us=latency("latency_p99_us"),
        latency_p999_us=latency("latency_p999_us"),
        latency_max_us=float(np.fmax.reduce([each.latency_max_us for each in snapshots])),
        provenance={
            **snapshots[-1].provenance,
            "seconds": float(seconds.sum()),
            "dispatch": _whole_dispatch(snapshots),
            **_mean_other(snapshots, share),
        },
    )


def _whole_dispatch(snapshots: Sequence[HardwareSnapshot]) -> dict[str, float]:
    """Waits of all rounds, and the longest lag."""
    dispatched = [snapshot.provenance.get("dispatch", {}) for snapshot in snapshots]
    names = {name for each in dispatched for name in each}
    whole: dict[str, float] = {}
    for name in sorted(names):
        values = [each.get(name, 0) for each in dispatched]
        whole[name] = sum(values) if name == "backpressure" else max(values)
    return whole


def _mean_other(snapshots: Sequence[HardwareSnapshot], share: Float64Array) -> dict[str, Any]:
    shares = [snapshot.provenance.get("worker_other_share") for snapshot in snapshots]
    if any(each is None for each in shares):
        return {}
    return {"worker_other_share": (share @ np.array(shares)).tolist()}


def _other_share(raw: dict[str, Any]) -> Float64Array:
    """(workers,) share of each worker's time that was neither idle nor spent on queries.

    A router without a CPU of its own takes most of it.
    """
    queries = np.asarray(raw["worker_slice_queries"], dtype=np.float64)
    of_slice = np.maximum(queries.sum(axis=0), 1.0)
    spent = queries @ (np.asarray(raw["slice_service_seconds"]) / of_slice)
    seconds = np.asarray(raw["worker_seconds"])
    other = seconds - spent - np.asarray(raw["worker_idle_seconds"])
    share: Float64Array = np.clip(other / np.maximum(seconds, 1e-9), 0.0, 1.0)
    return share


class LiveRuntime:
    """Serves queries on this host until it is stopped; a context manager.

    Example::

        with LiveRuntime(backend) as live:
            live.start(schedule)
            live.switch(other)  # data follow lazily
            round = live.next_round()

    Several threads may use it. The backend measures nothing else during the run. In a forked child
    its calls raise ForkedError.

    Args:
        backend: the index, its load and its co-tenants, in this process
            (``make_backend("hardware", ..., own_process=False)``).
        sweep_seconds: length of a round; from 0.001 to 3600.
        kept_rounds: number of rounds that wait for a reader; then the oldest is dropped.
        always_move: whether every change copies all slices, even if their data are in place. It
            shows the cost of moves on a single node.
    """

    def __init__(
        self,
        backend: HardwareBackend,
        *,
        sweep_seconds: float = 0.1,
        kept_rounds: int = 64,
        always_move: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(backend, HardwareBackend):
            raise BackendError(
                f"{type(backend).__name__} cannot run an index in this process; make the backend "
                'with make_backend("hardware", ..., own_process=False)'
            )
        self._backend, self._index = backend, backend.workload.index
        self._options: dict[str, Any] = {
            "sweep_seconds": sweep_seconds,
            "kept_rounds": kept_rounds,
            "always_move": always_move,
        }
        self._seed = seed
        #: Provenance of bound loaders.
        self._loaded: dict[str, Any] = {}
        self._loading: dict[str, Any] | None = None
        self._undo = ExitStack()
        self._process = os.getpid()
        self._run: _native.LiveRun | None = None

    @property
    def running(self) -> bool:
        """Whether queries are served."""
        return self._run is not None and self._run.running

    def set_instance(self, instance: Instance) -> None:
        """Sets the instance of later runs, see HardwareBackend.set_instance()."""
        self._backend.set_instance(instance)

    def load(self, schedule: Schedule) -> None:
        """Loads the index if needed.

        Args:
            schedule: of the next run, see HardwareBackend.loaded_runner().
        """
        self._backend.loaded_runner(schedule)

    def unload(self) -> None:
        """Frees the index, once the run has ended. Safe to repeat."""
        self._backend.close()

    def start(self, schedule: Schedule) -> None:
        """Loads the index if needed, and serves queries under ``schedule``.

        Returns when queries are served, the warm-up is over and the data are in place.

        Raises:
            ScheduleError: this host cannot run the schedule.
            PlacementError: this process may not place data, and the schedule requires it.
            BackendError: it runs already; or an error of HardwareBackend.measure.
        """
        if self.running:
            raise BackendError("the live run has begun already: call switch()")
        backend = self._backend
        native = backend.native_schedule(schedule)
        with ExitStack() as undo:
            undo.enter_context(backend.ready())
            runner = backend.loaded_runner(schedule)
            self._loading = loading = runner.load_report
            self._loaded = {"data": {"loaded": loaded_facts(loading)}} if loading else {}
            with native_errors("the live run failed to start", self._index):
                self._run = runner.start(
                    **native,
                    **backend.native_options(self._seed),
                    **self._options,
                    pace="aggressive",
                )
            self._undo, self._process = undo.pop_all(), os.getpid()

    def switch(self, schedule: Schedule, *, lazy: bool = True) -> None:
        """Changes the schedule. Returns at once; no query is lost.

        Args:
            schedule: the new cores and nodes of the slices.
            lazy: whether data follow in small parts with pauses (the paper's default). Else slice
                after slice without a pause.

        Raises:
            ScheduleError: this host cannot run the schedule; the run continues with the old one.
            PlacementError: this process may not place data; likewise.
            BackendError: there is no run, or one of its threads failed.
            ForkedError: the run belongs to the parent of this process.
        """
        run = self._required()
        native = self._backend.native_schedule(schedule)
        with self._failing("the schedule cannot be changed"):
            run.change(**native, pace="lazy" if lazy else "aggressive")

    def next_round(self, timeout: float = 10.0) -> LiveRound | None:
        """The oldest unread round; None if there is none within ``timeout`` seconds.

        Also None after another thread has ended the run.

        Raises:
            BackendError: there is no run, or one of its threads failed; the message names its role.
            ForkedError: the run belongs to the parent of this process.
        """
        run = self._required()
        with self._failing("the live run failed"):
            raw = run.next_round(timeout)
        return None if raw is None else self._round(raw)

    def records(self) -> int:
        """Records in the index now."""
        return self._backend.records

    def drop_rounds(self) -> None:
        """Drops the unread rounds; raises as next_round()."""
        run = self._required()
        with self._failing("the live run failed"):
            while run.next_round(0.0) is not None:
                pass

    def stop(self) -> dict[str, Any]:
        """Answers the waiting queries and ends all threads.

        Returns:
            The counts of the whole run, as of ``_native.Runner.measure``: among others
            ``completed`` (queries), ``seconds``, ``issued`` and ``executed`` (queries, warm-up and
            end included), ``schedules`` (number of changes), ``in_place`` and ``migration``.

        Raises:
            BackendError: there is no run, or one of its threads failed. All have ended.
            ForkedError: the run belongs to the parent of this process.
        """
        run = self._required()
        try:
            with native_errors("the live run failed", self._index):
                return run.stop()
        finally:
            self._end()

    def data_facts(self, counted: dict[str, Any]) -> dict[str, Any]:
        """The placement of the data at the end of the run, as reported by the kernel."""
        backend = self._backend
        return data_facts(counted, backend.strategy, "lazy", backend.not_asked, self._loading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all threads."""
        self._end()

    def _required(self) -> _native.LiveRun:
        if self._run is None:
            raise BackendError("there is no live run: call start()")
        return self._run

    def _failing(self, what: str) -> ExitStack:
        """Raises typed errors; restores the settings after a failure."""
        stack = ExitStack()
        stack.callback(lambda: None if self.running else self._put_back())
        stack.enter_context(native_errors(what, self._index))
        return stack

    def _end(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            # A reading thread or a traceback may keep a reference to it.
            run.end()
        self._put_back()

    def _put_back(self) -> None:
        """Restores the settings of start(); in a forked child they are the parent's."""
        if self._process == os.getpid():
            self._undo.close()

    def _round(self, raw: dict[str, Any]) -> LiveRound:
        try:
            require_planned_cpus(raw["worker_cpus"], self._backend.machine, self._index)
        except BackendError:
            self._end()
            raise
        if not raw["completed"]:
            raw |= dict.fromkeys(_LATENCIES, np.nan)
        provenance = {
            **self._backend.provenance(self._seed),
            "round": raw["number"],
            "seconds": raw["seconds"],
            "moved": dict(raw["migration"]),
            **self._loaded,
            "worker_other_share": _other_share(raw).tolist(),
            "routers": self._backend.routers,
        }
        return LiveRound(
            number=raw["number"],
            ended_seconds=raw["ended_seconds"],
            snapshot=snapshot_of(raw, self._backend.load, provenance),
            switches=raw["schedules"],
            pending_slices=np.sort(raw["pending_slices"]).astype(np.int32),
            bytes_moved=raw["bytes_moved"],
            dropped=raw["dropped"],
        )
