"""Live runs in a measuring process, for a parent that asks for them (isolated_live.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_env.backends.frames import (
    pack_snapshot,
    unpack_instance,
    unpack_schedule,
    unpack_snapshot,
)
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRound, LiveRuntime
from pmoss_env.errors import PmossError


def pack_round(told: LiveRound) -> dict[str, Any]:
    """A round as plain JSON."""
    return {
        **vars(told),
        "snapshot": pack_snapshot(told.snapshot),
        "pending_slices": told.pending_slices.tolist(),
    }


def unpack_round(plain: Mapping[str, Any]) -> LiveRound:
    """The round of pack_round()."""
    fields = dict(plain)
    fields["snapshot"] = unpack_snapshot(fields["snapshot"])
    fields["pending_slices"] = np.array(fields["pending_slices"], dtype=np.int32)
    return LiveRound(**fields)


class LiveServer:
    """Answers what an IsolatedLiveRuntime asks: the name of a call of LiveRuntime, and its words.

    Args:
        backend: the index.
    """

    def __init__(self, backend: HardwareBackend) -> None:
        self._backend = backend
        self._live: LiveRuntime | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a request; an error of ours is a reply as well."""
        if self._live is None:
            self._live = LiveRuntime(self._backend, **request["options"])
        try:
            reply = self._done(self._live, request["live"], request)
        except PmossError as error:
            reply = {"error": type(error).__name__, "message": str(error)}
        return {**reply, "running": self._live.running}

    def _done(self, live: LiveRuntime, call: str, words: Mapping[str, Any]) -> dict[str, Any]:
        match call:
            case "load":
                live.set_instance(unpack_instance(words["instance"]))
                live.load(unpack_schedule(words["schedule"]))
            case "start":
                live.start(unpack_schedule(words["schedule"]))
            case "switch":
                live.switch(unpack_schedule(words["schedule"]), lazy=words["lazy"])
            case "next_round":
                told = live.next_round(words["timeout"])
                return {"round": None if told is None else pack_round(told)}
            case "drop_rounds":
                live.drop_rounds()
            case "stop":
                counted = live.stop()
                numbers = {
                    name: value
                    for name, value in counted.items()
                    if isinstance(value, bool | int | float)
                }
                return {"counted": {**numbers, "data": live.data_facts(counted)}}
            case "end":
                with live:
                    pass
        return {}
