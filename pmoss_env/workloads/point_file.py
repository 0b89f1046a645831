"""Points of a NumPy file, scaled to the plane of an index."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedReader
from pathlib import Path

import numpy as np
import numpy.typing as npt

import pmoss_env._native as _native
from pmoss_env.errors import DescriptionError
from pmoss_env.files import FileStamp, file_stamp, open_regular

#: How np.save() begins the file of an array. An array of objects has a pickle behind it.
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    r"\{'descr': ([ -~]{1,999}), 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,99})\), \}\s*"
)
_CHUNK = 1 << 20  # rows
_LARGEST = 2**32 - 1  # coordinate of the plane


def points_of_file(path: str) -> _native.PointSet:
    """The points of a file that ``np.save`` wrote, read once per process unless it changes.

    Each coordinate is scaled by its least and its largest value in the file: these become the
    borders of the plane. A point takes 8 bytes of memory.

    Raises:
        DescriptionError: it cannot be read, is cut, or is no (n, 2) array of finite floats.
    """
    return _read(path, file_stamp(Path(path)))


@lru_cache(maxsize=2)
def _read(path: str, stamp: FileStamp) -> _native.PointSet:
    """Reads a file; ``stamp`` is that of the file."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            points = _scaled(file)
        if file_stamp(Path(path)) != stamp:
            raise ValueError("was changed while it was read")
        return points
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except MemoryError as error:
        raise DescriptionError(f"{path}: its points do not fit into memory") from error
    except ValueError as error:
        raise DescriptionError(
            f"{path}: {error}; a file of points is what np.save(FILE, points) writes, with an "
            "(n, 2) array of float64 or float32"
        ) from error


def _scaled(file: BufferedReader) -> _native.PointSet:
    rows, kind = _header(file)
    start = file.tell()
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for first, chunk in _chunks(file, rows, kind):
        finite = np.isfinite(chunk).all(axis=1)
        if not finite.all():
            row = int(finite.argmin())
            raise ValueError(f"row {first + row} is {chunk[row].tolist()}: must be finite")
        low, high = np.minimum(low, chunk.min(axis=0)), np.maximum(high, chunk.max(axis=0))
    width = high / 2 - low / 2  # the difference itself may be beyond the largest number
    for axis in np.flatnonzero(width == 0):
        raise ValueError(f"column {axis} is {low[axis]} in all rows: points must fill a plane")
    points = _native.PointSet(rows)
    file.seek(start)
    for first, chunk in _chunks(file, rows, kind):
        places = (chunk / 2 - low / 2) / width * _LARGEST
        points.set(first, places.astype(np.uint32))
    return points


def _header(file: BufferedReader) -> tuple[int, np.dtype[np.floating]]:
    """The number of rows, and their type; the rows are the rest of the file."""
    start = file.read(len(_MAGIC) + 2)
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    header = _HEADER.fullmatch(file.read(length).decode("latin-1"))
    if not start.startswith(_MAGIC) or header is None:
        raise ValueError("is no .npy file of one array")
    descr, fortran, shape = header.groups()
    if descr not in ("'<f8'", "'<f4'"):
        raise ValueError(f"has the type {descr}: must be '<f8' or '<f4'")
    kind: np.dtype[np.floating] = np.dtype(descr.strip("'"))
    size = re.fullmatch(r"([0-9]{1,15}), 2", shape)
    if size is None or int(size[1]) < 2:
        raise ValueError(f"has the shape ({shape}): must be (n, 2), with n of at least 2")
    if fortran == "True":
        raise ValueError("has its columns one after the other: must be in C order")
    rows, held = int(size[1]), os.fstat(file.fileno()).st_size - file.tell()
    if rows * 2 * kind.itemsize != held:
        raise ValueError(f"announces {rows} points but holds {held} bytes of them")
    return rows, kind


def _chunks(
    file: BufferedReader, rows: int, kind: np.dtype[np.floating]
) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Parts of the points, each with the number of its first row."""
    for first in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - first)
        data = file.read(count * 2 * kind.itemsize)
        if len(data) != count * 2 * kind.itemsize:
            raise ValueError("was cut while it was read")
        yield first, np.frombuffer(data, kind).reshape(count, 2).astype(np.float64)
