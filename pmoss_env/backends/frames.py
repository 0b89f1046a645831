"""Frames between a process and its measuring child: JSON with its length in front.

Nothing is unpickled, and every number keeps its bits.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from pmoss_env.types import CoTenant, HardwareSnapshot, Instance, Schedule

_LENGTH = struct.Struct("<Q")
#: Largest frame, bytes: a snapshot of 65,536 slices has about 40 MB.
MAX_BYTES = 1 << 30

_BOOLS = ("counters_available", "offcore_available")
_FLOATS = ("slice_throughput", "slice_counters", "running_ratio", "offcore")


def frame_of(message: Mapping[str, Any]) -> bytes:
    """One message as bytes."""
    content = json.dumps(message).encode()
    return _LENGTH.pack(len(content)) + content


#: Exit status of a child whose pipes were closed, so that it cannot send an error.
PIPES_CLOSED = 74


def write_frame(stream: BinaryIO, message: Mapping[str, Any]) -> None:
    """Writes one message."""
    stream.write(frame_of(message))
    stream.flush()


def length_of_frame(head: bytes, max_bytes: int = MAX_BYTES) -> int:
    """The length after a frame's first 8 bytes; ValueError above ``max_bytes``."""
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise ValueError(f"a frame of {length} bytes")
    return int(length)


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    content = stream.read(length_of_frame(head))
    message: dict[str, Any] = json.loads(content)
    return message


def pack_schedule(schedule: Schedule) -> dict[str, Any]:
    """A schedule as plain JSON."""
    return {
        "cores": schedule.cores.tolist(),
        "nodes": schedule.nodes.tolist(),
        "routing": schedule.routing,
        "data": schedule.data,
    }


def unpack_schedule(plain: Mapping[str, Any]) -> Schedule:
    """The schedule of pack_schedule()."""
    return Schedule(**plain)


def pack_instance(instance: Instance) -> dict[str, Any]:
    """An instance as plain JSON."""
    return dataclasses.asdict(instance)


def unpack_instance(plain: Mapping[str, Any]) -> Instance:
    """The instance of pack_instance()."""
    co_tenants = tuple(CoTenant(**co_tenant) for co_tenant in plain["co_tenants"])
    return Instance(plain["workload_seed"], co_tenants)


def pack_snapshot(snapshot: HardwareSnapshot) -> dict[str, Any]:
    """A snapshot as plain JSON."""
    plain = {
        field.name: getattr(snapshot, field.name) for field in dataclasses.fields(HardwareSnapshot)
    }
    for name in (*_BOOLS, *_FLOATS):
        plain[name] = plain[name].tolist()
    plain["provenance"] = dict(plain["provenance"])
    extra = plain["extra_counters"]
    plain["extra_counters"] = {name: rates.tolist() for name, rates in extra.items()}
    return plain


def unpack_snapshot(plain: Mapping[str, Any]) -> HardwareSnapshot:
    """The snapshot of pack_snapshot()."""
    fields = dict(plain)
    for name in _BOOLS:
        fields[name] = np.asarray(fields[name], dtype=np.bool_)
    for name in _FLOATS:
        fields[name] = np.asarray(fields[name], dtype=np.float64)
    fields["offcore_names"] = tuple(fields["offcore_names"])
    extra = fields["extra_counters"]
    fields["extra_counters"] = {name: np.asarray(extra[name], np.float64) for name in extra}
    return HardwareSnapshot(**fields)
