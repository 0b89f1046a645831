"""A live run on this host: the schedule changes while queries are served (P-MOSS, section 5).

Routers, workers, sweepers, the stitcher and the enforcer run until they are told to stop. Cores
take a new schedule at once, and data follow. Every sweeping round is a whole hardware snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.data_facts import data_facts, loaded_facts
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


@dataclass(frozen=True)
class LiveRound:
    """One sweeping round of a live run.

    Attributes:
        number: counts from 0, also those that were dropped.
        ended_seconds: when it ended, in seconds since queries counted.
        snapshot: throughput, latencies and counters of the round. Latencies are NaN if no query
            was completed.
        switches: changes of the schedule that took effect until then.
        pending_slices: (n,) ascending, whose data are not yet where the schedule wants them.
        bytes_moved: of the index, in this round.
        dropped: rounds that were dropped since the one read before, because nobody read them.
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
        """How many slices' data are not yet where the schedule wants them."""
        return int(self.pending_slices.size)


def mean_snapshot(rounds: Sequence[LiveRound]) -> HardwareSnapshot:
    """What rounds that follow each other have counted; see mean_of().

    Args:
        rounds: at least one, of one run.
    """
    mean = mean_of([one.snapshot for one in rounds])
    return replace(mean, provenance={**mean.provenance, "rounds": len(rounds)})


def mean_of(snapshots: Sequence[HardwareSnapshot]) -> HardwareSnapshot:
    """What snapshots of times that follow each other have counted, as one snapshot.

    Rates are means over their time. Response times are means over their queries; a percentile of
    all queries together is not known any more. A counter is available where some round has it, and
    its rates are of those rounds.

    Args:
        snapshots: at least one; the ``seconds`` of each stand in its provenance.
    """
    seconds = np.array([float(one.provenance["seconds"]) for one in snapshots])
    share = seconds / seconds.sum()
    queries = np.array([one.throughput for one in snapshots]) * seconds

    def mean(name: str) -> Float64Array:
        return np.tensordot(share, np.stack([getattr(one, name) for one in snapshots]), 1)

    def latency(name: str) -> float:
        of = np.array([getattr(one, name) for one in snapshots])
        known = np.isfinite(of) & (queries > 0)
        return float(np.average(of[known], weights=queries[known])) if known.any() else np.nan

    there: BoolArray = np.stack([one.counters_available for one in snapshots])
    counted = np.maximum(share @ there, np.finfo(np.float64).tiny)
    known: BoolArray = np.logical_and.reduce([one.offcore_available for one in snapshots])
    return replace(
        snapshots[-1],
        throughput=float(queries.sum() / seconds.sum()),
        slice_throughput=mean("slice_throughput"),
        slice_counters=mean("slice_counters") / counted,
        counters_available=np.logical_or.reduce(there),
        running_ratio=mean("running_ratio"),
        offcore=np.where(known, mean("offcore"), 0.0),
        offcore_available=known,
        latency_p50_us=latency("latency_p50_us"),
        latency_p99_us=latency("latency_p99_us"),
        provenance={
            **snapshots[-1].provenance,
            "seconds": float(seconds.sum()),
            **_mean_other(snapshots, share),
        },
    )


def _mean_other(snapshots: Sequence[HardwareSnapshot], share: Float64Array) -> dict[str, Any]:
    told = [one.provenance.get("worker_other_share") for one in snapshots]
    if any(each is None for each in told):
        return {}
    return {"worker_other_share": (share @ np.array(told)).tolist()}


def _other_share(raw: dict[str, Any]) -> Float64Array:
    """(workers,) share of each worker's time that was neither idle nor spent on its queries.

    A router that has no CPU of its own takes most of it.

    Args:
        raw: a round, as the runner gives it.
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

    Several threads may use it. The backend measures nothing else until the run is stopped. A
    process that is forked meanwhile has no run: its calls raise ForkedError.

    Args:
        backend: the index, its load, and what runs beside it; in this process
            (``make_backend("hardware", ..., own_process=False)``).
        sweep_seconds: length of a round; from 0.001 to 3600.
        kept_rounds: rounds that wait for a reader. When there are more, the oldest is dropped.
        always_move: every change copies all slices, even if their data are in place. Shows on one
            node what moving costs.
        seed: of the queries.
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
        #: What bound loaders did, for provenance.
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
        """Chooses the instance of the runs to come, see HardwareBackend.set_instance()."""
        self._backend.set_instance(instance)

    def load(self, schedule: Schedule) -> None:
        """Loads the index if needed.

        Args:
            schedule: of the run that comes next, see HardwareBackend.loaded_runner().
        """
        self._backend.loaded_runner(schedule)

    def unload(self) -> None:
        """Frees the index, once the run has ended. Safe to repeat."""
        self._backend.close()

    def start(self, schedule: Schedule) -> None:
        """Loads the index if needed, and serves queries under ``schedule``.

        Returns when queries flow, the warm-up is over and the data are in place.

        Raises:
            ScheduleError: this host cannot run the schedule.
            PlacementError: this process may not place data, and the schedule needs that.
            BackendError: it runs already; or what HardwareBackend.measure raises.
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
            schedule: which cores serve the slices from now on, and where the data are to lie.
            lazy: data follow in small parts with pauses between them (the paper's default). Else
                slice after slice without a pause.

        Raises:
            ScheduleError: this host cannot run the schedule; the run goes on with the last one.
            PlacementError: this process may not place data; likewise.
            BackendError: no run, or one of its threads has failed.
            ForkedError: the run belongs to the process that this one was forked from.
        """
        run = self._required()
        native = self._backend.native_schedule(schedule)
        with self._failing("the schedule cannot be changed"):
            run.change(**native, pace="lazy" if lazy else "aggressive")

    def next_round(self, timeout: float = 10.0) -> LiveRound | None:
        """The oldest round that was not read; None if there is none within ``timeout`` seconds.

        None as well once another thread has ended the run.

        Raises:
            BackendError: no run, or one of its threads has failed; the message names its role.
            ForkedError: the run belongs to the process that this one was forked from.
        """
        run = self._required()
        with self._failing("the live run failed"):
            raw = run.next_round(timeout)
        return None if raw is None else self._round(raw)

    def drop_rounds(self) -> None:
        """Reads the rounds that wait, and tells nothing of them; raises what next_round() does."""
        run = self._required()
        with self._failing("the live run failed"):
            while run.next_round(0.0) is not None:
                pass

    def stop(self) -> dict[str, Any]:
        """Answers the queries that wait, and ends all threads.

        Returns:
            What the whole run counted, of ``_native.Runner.measure``: among others ``completed``
            (queries), ``seconds``, ``issued`` and ``executed`` (queries, warm-up and end
            included), ``schedules`` (switches that took effect), ``in_place`` and ``migration``.

        Raises:
            BackendError: no run, or one of its threads has failed. All have ended.
            ForkedError: the run belongs to the process that this one was forked from.
        """
        run = self._required()
        try:
            with native_errors("the live run failed", self._index):
                return run.stop()
        finally:
            self._end()

    def data_facts(self, counted: dict[str, Any]) -> dict[str, Any]:
        """Where the data were when the run ended, as the kernel answered.

        Args:
            counted: what stop() returned.
        """
        backend = self._backend
        return data_facts(counted, backend.strategy, "lazy", backend.not_asked, self._loading)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends all threads, whatever has happened."""
        self._end()

    def _required(self) -> _native.LiveRun:
        if self._run is None:
            raise BackendError("there is no live run: call start()")
        return self._run

    def _failing(self, what: str) -> ExitStack:
        """Typed errors; a run that has failed gives back what it switched."""
        stack = ExitStack()
        stack.callback(lambda: None if self.running else self._put_back())
        stack.enter_context(native_errors(what, self._index))
        return stack

    def _end(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            # Others may hold it for long: a thread that reads, or the traceback of an exception.
            run.end()
        self._put_back()

    def _put_back(self) -> None:
        """Undoes what start() switched; what a forked child has of it is the parent's."""
        if self._process == os.getpid():
            self._undo.close()

    def _round(self, raw: dict[str, Any]) -> LiveRound:
        if not raw["completed"]:
            raw["latency_p50_us"] = raw["latency_p99_us"] = np.nan
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
