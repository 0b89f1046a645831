"""The child of the isolated backend: reads requests from its input, measures, and replies.

Started by pmoss_env.backends.isolated as ``python -m pmoss_env.backends.measuring_child PARENT
TIES``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

from pmoss_env.backends.base import Subject
from pmoss_env.backends.frames import (
    PIPES_CLOSED,
    pack_snapshot,
    read_frame,
    unpack_instance,
    unpack_schedule,
    write_frame,
)
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live_child import LiveServer
from pmoss_env.errors import PmossError
from pmoss_env.indexes import register_plugin
from pmoss_env.machines import load_machine
from pmoss_env.processes import die_with_parent
from pmoss_env.types import LoadRegime
from pmoss_env.workloads import Workload


def main(parent: int, ties: str) -> None:
    """Serves one parent until it closes the pipe or dies."""
    if ties == "thread":
        die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    # What others print goes to the log.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    start = read_frame(requests)
    if start is None:
        return
    if start["plugin"] is not None:
        register_plugin(start["plugin"])
    backend = HardwareBackend(
        Subject(
            load_machine("host"),
            Workload(**start["workload"]),
            start["slices"],
            LoadRegime(**start["load"]),
        ),
        progress=_Progress(replies, ours=start["plugin"] is None),
        **start["options"],
    )
    _serve(backend, requests, replies)


class _Progress:
    """Tells how many records are loaded, of a library no number twice: if it hangs it is silent."""

    def __init__(self, replies: BinaryIO, ours: bool) -> None:
        self._replies, self._ours, self._told = replies, ours, -1

    def __call__(self, records: int) -> None:
        """Told about 20 times a second."""
        if self._ours or records != self._told:
            _tell(self._replies, {"records": records})
        self._told = records


def _serve(backend: HardwareBackend, requests: BinaryIO, replies: BinaryIO) -> None:
    def tell(of_round: dict[str, Any]) -> None:
        _tell(replies, {"round": of_round})

    live = LiveServer(backend)
    while (request := _next_request(requests)) is not None:
        reply: dict[str, Any]
        if "live" in request:
            _tell(replies, live.answer(request))
            continue
        backend.on_round = tell if request["rounds"] else None
        try:
            backend.set_instance(unpack_instance(request["instance"]))
            schedule = unpack_schedule(request["schedule"])
            snapshot = backend.measure(schedule, seed=request["seed"])
        except PmossError as error:
            reply = {"error": type(error).__name__, "message": str(error)}
        else:
            reply = {"snapshot": pack_snapshot(snapshot)}
        _tell(replies, reply)


def _tell(replies: BinaryIO, message: dict[str, Any]) -> None:
    """Sends a message; ends the process where nobody can hear it."""
    try:
        write_frame(replies, message)
    except OSError:
        # A library may have closed whatever it found open. Nothing else can be told.
        os._exit(PIPES_CLOSED)


def _next_request(requests: BinaryIO) -> dict[str, Any] | None:
    try:
        return read_frame(requests)
    except OSError:
        os._exit(PIPES_CLOSED)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
