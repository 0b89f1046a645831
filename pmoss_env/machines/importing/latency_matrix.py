"""Core-to-core latencies from a CSV file, by class of distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmoss_env.errors import DescriptionError
from pmoss_env.files import MAX_JSON_BYTES, read_bytes
from pmoss_env.types import Float64Array, Int32Array, plain_number


@dataclass(frozen=True)
class ClassMedian:
    """The median of a class of pairs."""

    ns: float
    pairs: int


def read_latencies(path: Path, cpus: int) -> Float64Array:
    """(cpus, cpus) latencies in ns; NaN on the diagonal and where the file has no value.

    The file has a row and a column per CPU, both in ascending order of the operating system's
    numbers, and no header. Cells of the diagonal or of one triangle may be empty.

    Raises:
        DescriptionError: names file, row, column and reason.
    """
    try:
        text = read_bytes(path, MAX_JSON_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path}: is not text: byte {error.start}") from error
    # Cells are never quoted, so that every comma ends one.
    rows = [line.split(",") for line in text.rstrip().splitlines()]
    if text.strip() == "":
        raise DescriptionError(f"{path}: is empty: must have {cpus} rows, one per CPU")
    for r, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise DescriptionError(
                f"{path}: row {r}: has {len(row)} columns, but there are {len(rows)} rows: "
                "must be square"
            )
    if len(rows) != cpus:
        raise DescriptionError(
            f"{path}: is {len(rows)} x {len(rows)}: must be {cpus} x {cpus}, one row and one "
            "column for each CPU"
        )
    values = np.full((cpus, cpus), math.nan)
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            if cell.strip():
                values[r, c] = _latency(
                    f"{path}: row {r + 1}, column {c + 1}", cell.strip(), r == c
                )
    np.fill_diagonal(values, math.nan)
    if np.isnan(values).all():
        raise DescriptionError(f"{path}: has no latency between two CPUs")
    return values


def _latency(place: str, cell: str, diagonal: bool) -> float:
    value = plain_number(cell)
    if value is None:
        raise DescriptionError(f"{place}: {cell!r} is not a number")
    if value < 0 or (value == 0 and not diagonal):
        raise DescriptionError(f"{place}: {cell!r}: must be a latency in ns above 0")
    return value


def class_medians(
    latencies: Float64Array, physical: Int32Array, domain: Int32Array, hops: Int32Array
) -> dict[str, ClassMedian]:
    """Medians by class: "smt", "same_llc", "same_socket", "other_socket" and "two_hops".

    Args:
        latencies: (C, C) ns, NaN where unknown.
        physical: (C,) physical core of each CPU.
        domain: (C,) last-level cache domain of each CPU.
        hops: (C, C) links between the sockets of two CPUs.
    """
    has_value = ~np.isnan(latencies)
    smt = physical[:, None] == physical[None, :]
    near = domain[:, None] == domain[None, :]
    classes = {
        "smt": smt,
        "same_llc": near & ~smt,
        "same_socket": (hops == 0) & ~near,
        "other_socket": hops == 1,
        "two_hops": hops == 2,
    }
    return {
        name: ClassMedian(round(float(np.median(latencies[pairs])), 2), int(pairs.sum()))
        for name, members in classes.items()
        if (pairs := members & has_value).any()
    }
