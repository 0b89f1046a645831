"""Scans on this host: by plain loads, or through a copy engine and two local buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env import _native
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.platforms import require_host

#: Copy engines by name: a helper thread, which every host has, and Intel's Data Streaming
#: Accelerator, where a device and its driver are there.
ENGINES = ("thread", "dsa")


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a scan found, and how.

    Attributes:
        positions: (matches,) uint32, ascending.
        offloaded: whether an engine copied all of the column.
        reason: why not, if that was asked for, and what else went another way than asked.
        seconds: of the scan itself.
    """

    positions: npt.NDArray[np.uint32]
    offloaded: bool
    reason: str
    seconds: float


def make_engine(name: str, cpu: int = -1) -> _native.CopyEngine:
    """A copy engine.

    Args:
        name: one of ENGINES.
        cpu: where the helper thread runs; -1 leaves it to the kernel.

    Raises:
        UnknownNameError: no such engine.
        UnsupportedError: this host has none, or does not let us use it; the message says why.
    """
    if name not in ENGINES:
        raise UnknownNameError("copy engine", name, ENGINES)
    require_host(f"the copy engine {name!r}")
    try:
        return _native.CopyEngine(name, cpu)
    except (RuntimeError, OSError) as error:
        raise UnsupportedError(str(error)) from error


def engine_absence(name: str) -> str:
    """Why this host has no engine of a name; empty if it has."""
    try:
        make_engine(name)
    except UnsupportedError as error:
        return str(error)
    return ""


def scan(
    values: npt.NDArray[np.int32],
    low: int,
    high: int,
    *,
    engine: _native.CopyEngine | str | None = None,
    capacity: int | None = None,
    block_kib: float = 128.0,
    isa: str = "",
) -> ScanResult:
    """The positions of the values from ``low`` to ``high``, both included.

    The result is complete and right whatever happens. A scan whose buffer is too small is run again
    with a larger one. A scan whose engine is absent or fails goes on with plain loads. The result's
    ``reason`` says so.

    Args:
        values: (n,) int32 without gaps; its address may be any.
        low: the least value wanted.
        high: the greatest.
        engine: what copies the blocks, or its name; None for plain loads.
        capacity: room for so many positions at first; None for all.
        block_kib: size of each of the two buffers.
        isa: "scalar", "avx2" or "avx512"; the widest that this processor has if empty.

    Raises:
        DescriptionError: values of another type or shape, or an impossible number.
        UnknownNameError: no engine of this name.
        PlatformError: a portable build, which scans nothing.
    """
    # Zero rows are a table too, but not an object array.
    if values.dtype != np.int32 or values.ndim != 1:
        raise DescriptionError(
            f"values are {values.dtype} {values.shape}: must be one dimension of int32"
        )
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    if not (least <= low <= most and least <= high <= most):
        raise DescriptionError(f"low = {low}, high = {high}: must be from {least} to {most}")
    reasons = []
    if isinstance(engine, str):
        try:
            engine = make_engine(engine)
        except UnsupportedError as error:
            reasons.append(f"{error}; plain loads instead")
            engine = None
    room = values.size if capacity is None else capacity
    if room < 0:
        raise DescriptionError(f"capacity = {capacity}: must not be negative")

    def run(room: int) -> dict[str, Any]:
        try:
            return _native.scan_column(
                values, low, high, capacity=room, engine=engine, block_kib=block_kib, isa=isa
            )
        except ValueError as error:
            raise DescriptionError(str(error)) from error

    raw = run(room)
    seconds = raw["seconds"]
    if raw["matches"] > raw["positions"].size:
        reasons.append(f"{raw['matches']} positions did not fit a buffer of {room}: scanned again")
        raw = run(raw["matches"])
        seconds += raw["seconds"]
    if raw["reason"]:
        reasons.append(raw["reason"])
    return ScanResult(raw["positions"], raw["offloaded"], "; ".join(reasons), seconds)
