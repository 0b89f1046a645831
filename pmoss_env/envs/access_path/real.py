"""Scans on this host, by plain loads or through a copy engine and two local buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env import _native
from pmoss_env.checks import check_name
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.platforms import require_host

#: Copy engines: a helper thread, for every host, and Intel's Data Streaming Accelerator, for hosts
#: with the device and its driver.
ENGINES = ("thread", "dsa")


@dataclass(frozen=True, eq=False)
class ScanResult:
    """The result of a scan.

    Attributes:
        positions: (matches,) uint32, ascending.
        offloaded: whether an engine copied the whole column.
        reason: the reason if not, and other deviations from the request.
    """

    positions: npt.NDArray[np.uint32]
    offloaded: bool
    reason: str
    seconds: float


def make_engine(name: str, cpu: int = -1) -> _native.CopyEngine:
    """Creates a copy engine.

    Args:
        cpu: CPU of the helper thread; -1: any.

    Raises:
        UnsupportedError: this host has none, or does not permit its use.
    """
    check_name("copy engine", name, ENGINES)
    require_host(f"the copy engine {name!r}")
    try:
        return _native.CopyEngine(name, cpu)
    except (RuntimeError, OSError) as error:
        raise UnsupportedError(str(error)) from error


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

    The result is always complete and correct. A scan with a too small buffer is repeated with a
    larger one. A scan without an engine, or whose engine fails, uses plain loads. The result's
    ``reason`` says so.

    Args:
        values: (n,) int32, contiguous.
        engine: engine that copies the blocks, or its name; None for plain loads.
        capacity: first size of the buffer, in positions; None: enough for all.
        block_kib: size of each of the two buffers.
        isa: "scalar", "avx2" or "avx512"; empty: the widest of this processor.

    Raises:
        DescriptionError: values of another type or shape, or an invalid number.
        PlatformError: a portable build.
    """
    # An empty table is valid, too.
    if values.dtype != np.int32 or values.ndim != 1:
        raise DescriptionError(
            f"values are {values.dtype} {values.shape}: must be one dimension of int32"
        )
    limits = np.iinfo(np.int32)
    if not (limits.min <= low <= limits.max and limits.min <= high <= limits.max):
        raise DescriptionError(
            f"low = {low}, high = {high}: must be from {limits.min} to {limits.max}"
        )
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
