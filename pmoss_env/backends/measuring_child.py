"""The child of the isolated backends: measures, and serves live runs, for its parent.

Started by pmoss_env.backends.isolated as ``python -m pmoss_env.backends.measuring_child PARENT
TIES``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeVar

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
from pmoss_env.backends.live import LiveRuntime
from pmoss_env.errors import PmossError
from pmoss_env.indexes import register_plugin
from pmoss_env.machines import load_machine
from pmoss_env.processes import die_with_parent
from pmoss_env.types import LoadRegime
from pmoss_env.workloads import Workload

T = TypeVar("T")


def main(parent: int, ties: str) -> None:
    """Serves the parent until it closes the pipe or dies."""
    if ties == "thread":
        die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    # All other output goes to the log.
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
        progress=_Progress(replies, repeats=start["plugin"] is None),
        **start["options"],
    )
    _serve(backend, requests, replies)


class _Progress:
    """Sends the number of loaded records; no number twice for a library, which may hang."""

    def __init__(self, replies: BinaryIO, repeats: bool) -> None:
        self._replies, self._repeats, self._sent = replies, repeats, -1

    def __call__(self, records: int) -> None:
        """Called about 20 times a second."""
        if self._repeats or records != self._sent:
            _send(self._replies, {"records": records})
        self._sent = records


def _serve(backend: HardwareBackend, requests: BinaryIO, replies: BinaryIO) -> None:
    def send_round(live_round: dict[str, Any]) -> None:
        _send(replies, {"round": live_round})

    live: LiveRuntime | None = None
    while (request := _next_request(requests)) is not None:
        if "live" in request:
            live = live or LiveRuntime(backend, **request["options"])
            _send(replies, {**_reply(_call_live, live, request), "running": live.running})
        else:
            backend.on_round = send_round if request["rounds"] else None
            _send(replies, _reply(_measure, backend, request))


def _reply(
    call: Callable[[T, Mapping[str, Any]], dict[str, Any]], on: T, request: Mapping[str, Any]
) -> dict[str, Any]:
    """The result of a call, or its typed error, as plain JSON."""
    try:
        return call(on, request)
    except PmossError as error:
        return {"error": type(error).__name__, "message": str(error)}


def _measure(backend: HardwareBackend, request: Mapping[str, Any]) -> dict[str, Any]:
    backend.set_instance(unpack_instance(request["instance"]))
    schedule = unpack_schedule(request["schedule"])
    return {"snapshot": pack_snapshot(backend.measure(schedule, seed=request["seed"]))}


def _call_live(live: LiveRuntime, request: Mapping[str, Any]) -> dict[str, Any]:
    """Calls the method of a LiveRuntime that an IsolatedLiveRuntime names."""
    match request["live"]:
        case "load":
            live.set_instance(unpack_instance(request["instance"]))
            live.load(unpack_schedule(request["schedule"]))
        case "start":
            live.start(unpack_schedule(request["schedule"]))
        case "switch":
            live.switch(unpack_schedule(request["schedule"]), lazy=request["lazy"])
        case "next_round":
            live_round = live.next_round(request["timeout"])
            if live_round is None:
                return {"round": None}
            snapshot = pack_snapshot(live_round.snapshot)
            pending = live_round.pending_slices.tolist()
            return {"round": {**vars(live_round), "snapshot": snapshot, "pending_slices": pending}}
        case "records":
            # "records" is the key of messages about a load.
            return {"in_index": live.records()}
        case "drop_rounds":
            live.drop_rounds()
        case "stop":
            counted = live.stop()
            numbers = {k: v for k, v in counted.items() if isinstance(v, bool | int | float)}
            return {"counted": {**numbers, "data": live.data_facts(counted)}}
        case "end":
            with live:
                pass
    return {}


def _send(replies: BinaryIO, message: dict[str, Any]) -> None:
    """Sends a message; ends the process if the pipe is closed."""
    try:
        write_frame(replies, message)
    except OSError:
        # A library may have closed the pipe; only the status can say so.
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
