"""The hardware backend in a process of its own, so that a crash spares the training run.

A crash, a hang or exhausted memory of the child is a BackendError with the end of its log. The next
measurement starts a new child. The child always dies with its parent. A process that is forked from
that one starts a child of its own.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pmoss_env import errors
from pmoss_env.backends.base import Subject, SubjectBackend
from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.backends.frames import pack_instance, pack_schedule, unpack_snapshot
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.kernel_settings import switched
from pmoss_env.checks import check_type
from pmoss_env.errors import BackendError
from pmoss_env.indexes import check_hint, is_plugin
from pmoss_env.types import HardwareSnapshot, Instance, Schedule

#: Seconds without a message from the child before a warning.
_WARN_SECONDS = 10.0


class IsolatedBackend(SubjectBackend):
    """Implements Backend (pmoss_env.backends.base) by a HardwareBackend in a child process.

    Args:
        subject: the measured system; its machine is this host, ``load_machine("host")``.
        silence_seconds: longest time without a message from the child, in addition to the length of
            the measurement; then it is killed. Loading the index sends messages.
        progress: called with the number of records loaded so far.
        on_round: called with every sweeping round, see HardwareBackend.
    """

    wraps = HardwareBackend
    name = HardwareBackend.name
    method = HardwareBackend.method
    repeatable = HardwareBackend.repeatable
    measures_host = HardwareBackend.measures_host
    incremental = HardwareBackend.incremental
    co_tenant_families = HardwareBackend.co_tenant_families

    def __init__(
        self,
        subject: Subject,
        *,
        silence_seconds: float = 60.0,
        progress: Callable[[int], None] | None = None,
        on_round: Callable[[dict[str, Any]], None] | None = None,
        **options: Any,
    ) -> None:
        check_type("silence_seconds", float, silence_seconds)
        # Checks the options before a child exists; measures nothing.
        self._checked = HardwareBackend(subject, **options)
        super().__init__(dataclasses.replace(subject, workload=self._checked.workload))
        self.step_cost = self._checked.step_cost
        self._silence_seconds = silence_seconds
        self._progress = progress
        self.on_round = on_round
        self._child: Child | None = None
        self._measuring, self._process = threading.Lock(), os.getpid()
        self._instance = Instance()

    @property
    def process_id(self) -> int | None:
        """Process id of the child; None without a child."""
        return self._child.process_id if self._child else None

    def set_instance(self, instance: Instance) -> None:
        """Sets hot keys and co-tenants for all later calls."""
        self._checked.set_instance(instance)
        self._instance = instance

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Measures ``schedule`` in the child, which is started if there is none.

        Raises:
            ScheduleError: this host cannot run the schedule.
            BackendError: the measurement failed, or the child died or was silent for too long; the
                message has the end of its log. The next call starts another child. Or another
                thread is measuring.
        """
        self.machine.check_schedule(schedule, self.slices)
        if self._process != os.getpid():
            self.close()
            # A thread of the process that this one was forked from may hold the lock.
            self._measuring, self._process = threading.Lock(), os.getpid()
        if not self._measuring.acquire(blocking=False):
            raise BackendError("another thread measures with this backend: make one for each")
        try:
            return self._measure(schedule, seed)
        finally:
            self._measuring.release()

    def _measure(self, schedule: Schedule, seed: int) -> HardwareSnapshot:
        if self._child is None:
            self._child = start_child(self._checked)
        request = {
            "instance": pack_instance(self._instance),
            "schedule": pack_schedule(schedule),
            "seed": int(seed),
            "rounds": self.on_round is not None,
        }
        try:
            # Also in this process, to restore the settings if the child is killed.
            with switched(self._checked.settings):
                handlers = {"records": self._progress, "round": self.on_round}
                reply = self._child.ask(request, self._silence_seconds, handlers, self.step_cost)
        except BaseException:
            # Also on Ctrl-C: the reply of this child would have no reader.
            self.close()
            raise
        raise_error_of(reply)
        return unpack_snapshot(reply["snapshot"])

    def close(self) -> None:
        """Ends the child. Safe to repeat."""
        if self._child:
            self._child.close()
            self._child = None


def raise_error_of(reply: Mapping[str, Any]) -> None:
    """Raises the error in a reply, if there is one."""
    if "error" in reply:
        kind = getattr(errors, reply["error"], BackendError)
        raise kind(reply["message"])


def start_child(
    backend: HardwareBackend, afterwards: str = "; the next measurement starts another."
) -> Child:
    """Starts a process that creates the same backend and measures with it.

    Args:
        backend: checked; it measures nothing itself.
        afterwards: end of the sentence about the death of the process.
    """
    workload = backend.workload
    # The kernel's signal comes when the starting thread ends. So the child uses it only if that is
    # the main thread; it always watches its parent, too.
    ties = "thread" if threading.current_thread() is threading.main_thread() else "process"
    hint = check_hint(workload.index)
    # A traceback of Python in the log; for the crash of a library it has no information.
    reason = () if hint else ("-X", "faulthandler")
    module = "pmoss_env.backends.measuring_child"
    child = Child(
        [sys.executable, *reason, "-m", module, str(os.getpid()), ties],
        Wording(
            "the measuring process", f"{afterwards} {hint}".rstrip(), warn_seconds=_WARN_SECONDS
        ),
        environment={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    child.send(
        {
            "workload": dataclasses.asdict(workload),
            "plugin": workload.index if is_plugin(workload.index) else None,
            "slices": backend.slices,
            "load": dataclasses.asdict(backend.load),
            "options": backend.options,
        }
    )
    return child
