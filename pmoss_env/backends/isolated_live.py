"""A live run in a process of its own, so that a crash of a user-defined library ends no other.

A crash, an exit or a hang of the library is a BackendError that names it. The process always dies
with its parent.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, Self

from pmoss_env.backends.child_process import Child
from pmoss_env.backends.frames import pack_instance, pack_schedule
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.isolated import raise_error_of, start_child
from pmoss_env.backends.live import LiveRound, LiveRuntime, unpack_round
from pmoss_env.errors import BackendError, ForkedError
from pmoss_env.indexes import check_hint, is_plugin
from pmoss_env.memory import slice_gib
from pmoss_env.types import Instance, Schedule

#: Lower bound of the speed at which data move to their nodes.
_GIB_PER_SECOND = 0.25
#: Seconds that threads may take to end.
_END_SECONDS = 10.0


class IsolatedLiveRuntime:
    """LiveRuntime with the index and its threads in a child process.

    Args:
        backend: describes the index; it loads nothing itself.
        silence_seconds: longest time without a message or a completed query; then the child is
            killed. Loading the index sends messages.
    """

    def __init__(
        self, backend: HardwareBackend, *, silence_seconds: float = 60.0, **options: Any
    ) -> None:
        LiveRuntime(backend, **options)  # checks the options
        self._backend, self._options, self._silence = backend, options, silence_seconds
        self._instance = Instance()
        self._lock = threading.RLock()
        self._child: Child | None = None
        self._process = os.getpid()
        self._undo = ExitStack()
        self._running = False
        self._served = 0.0

    @property
    def running(self) -> bool:
        """Whether queries are served, by the last reply of the child."""
        return self._running

    @property
    def process_id(self) -> int | None:
        """Process id of the child; None without a child."""
        return self._child.process_id if self._child else None

    def set_instance(self, instance: Instance) -> None:
        """See LiveRuntime."""
        self._backend.set_instance(instance)
        self._instance = instance

    def load(self, schedule: Schedule) -> None:
        """See LiveRuntime; starts the child if there is none."""
        self._backend.native_schedule(schedule)
        with self._lock:
            if self._child is None:
                self._child = start_child(self._backend, "; the live run has ended.")
                self._process = os.getpid()
            self._ask("load", instance=pack_instance(self._instance), schedule=schedule)

    def unload(self) -> None:
        """See LiveRuntime; ends the child."""
        self._kill()

    def start(self, schedule: Schedule) -> None:
        """See LiveRuntime."""
        if self._running:
            raise BackendError("the live run has begun already: call switch()")
        backend = self._backend
        with ExitStack() as undo:
            # Also in this process, to restore the kernel's settings if the child is killed.
            undo.enter_context(backend.ready())
            self.load(schedule)
            gib = slice_gib(backend.workload, backend.slices) * backend.slices
            self._ask("start", backend.warmup_seconds + gib / _GIB_PER_SECOND, schedule=schedule)
            self._undo = undo.pop_all()
        self._served = time.monotonic()

    def switch(self, schedule: Schedule, *, lazy: bool = True) -> None:
        """See LiveRuntime."""
        self._ask("switch", schedule=schedule, lazy=lazy)

    def next_round(self, timeout: float = 10.0) -> LiveRound | None:
        """See LiveRuntime; BackendError as well if no query was completed for a long time."""
        plain = self._ask("next_round", timeout, timeout=timeout)["round"]
        if plain is None:
            return None
        live_round = unpack_round(plain)
        now = time.monotonic()
        if live_round.snapshot.throughput > 0.0:
            self._served = now
        elif now - self._served > self._silence:
            self._kill()
            raise BackendError(
                f"no query was completed for {self._silence:g} s, and the process that serves was "
                f"killed. {check_hint(self._backend.workload.index)}".rstrip()
            )
        return live_round

    def records(self) -> int:
        """See LiveRuntime."""
        return int(self._ask("records")["in_index"])

    def drop_rounds(self) -> None:
        """See LiveRuntime."""
        self._ask("drop_rounds")

    def stop(self) -> dict[str, Any]:
        """See LiveRuntime; only the numbers of the result."""
        counted: dict[str, Any] = self._ask("stop")["counted"]
        return counted

    def data_facts(self, counted: dict[str, Any]) -> dict[str, Any]:
        """See LiveRuntime."""
        facts: dict[str, Any] = counted["data"]
        return facts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all threads; kills a child that does not answer."""
        if self._running and self._process == os.getpid():
            with suppress(BackendError):
                self._ask("end", _END_SECONDS - self._silence)

    def _ask(self, call: str, longer: float = 0.0, **words: Any) -> dict[str, Any]:
        """Sends a call to the child and returns the reply.

        Args:
            call: method of LiveRuntime.
            longer: expected seconds of the call, added to the time limit.
        """
        with self._lock:
            if self._child is None:
                raise BackendError("there is no live run: call start()")
            if self._process != os.getpid():
                raise ForkedError(
                    "this live run belongs to the process that this one was forked from; start a "
                    "run in this process"
                )
            if "schedule" in words:
                words["schedule"] = pack_schedule(words["schedule"])
            request = {"live": call, "options": self._options, **words}
            try:
                reply = self._child.ask(request, self._silence, {"records": None}, longer)
            except BaseException:
                # Also on Ctrl-C: the reply of this child would have no reader.
                self._kill()
                raise
            self._running = bool(reply["running"])
        if not self._running and call not in ("load", "start"):
            self._undo.close()
        raise_error_of(reply)
        return reply

    def _kill(self) -> None:
        child, self._child, self._running = self._child, None, False
        if self._process != os.getpid():
            return  # the child is the parent's
        if child is not None:
            child.close()
        self._undo.close()


def live_runtime(backend: HardwareBackend, **options: Any) -> LiveRuntime | IsolatedLiveRuntime:
    """The runtime of a backend: a child process for a library, this process for other indexes.

    Args:
        backend: in this process.
    """
    if is_plugin(backend.workload.index):
        return IsolatedLiveRuntime(backend, **options)
    return LiveRuntime(backend, **options)
