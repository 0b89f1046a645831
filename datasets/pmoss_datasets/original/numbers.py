"""Text files of numbers, with errors that name file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmoss_env.errors import DatasetError
from pmoss_env.files import MAX_JSON_BYTES, read_text
from pmoss_env.types import Float64Array

#: More than any counter of 64 bits holds.
_MOST = 2e19


def read_rows(path: Path) -> list[Float64Array]:
    """The rows of a file of numbers, empty lines left out.

    Raises:
        DatasetError: the file cannot be read, or a word is no number.
    """
    rows = []
    try:
        lines = read_text(path, MAX_JSON_BYTES).splitlines()
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if "_" in line or not line.isascii():  # which Python takes for digits
                raise ValueError("has something else than numbers")
            rows.append(np.array(line.split(), dtype=np.float64))
        except ValueError as error:
            raise DatasetError(f"{path}: line {number}: {error}") from error
        if (np.isfinite(rows[-1]) & (np.abs(rows[-1]) > _MOST)).any():
            raise DatasetError(f"{path}: line {number}: has a number above {_MOST:g}: damaged")
    return rows


def read_table(path: Path, widths: tuple[int, ...]) -> Float64Array:
    """(rows, width) numbers; DatasetError unless every row has the same width, one of ``widths``.

    A last line without its end, as a killed run leaves it, is short and so refused.
    """
    rows = read_rows(path)
    for number, row in enumerate(rows, start=1):
        if row.size not in widths or row.size != rows[0].size:
            allowed = " or ".join(str(width) for width in widths)
            raise DatasetError(
                f"{path}: row {number}: {row.size} columns: must be {allowed}, in all rows alike"
            )
    return np.array(rows) if rows else np.empty((0, widths[0]))


def whole(path: Path, rows: list[Float64Array]) -> list[list[int]]:
    """The same as whole numbers; DatasetError if one is not, or needs more than 32 bits."""
    for number, row in enumerate(rows, start=1):
        if not ((np.abs(row) < 2**31).all() and (row == np.floor(row)).all()):
            raise DatasetError(f"{path}: row {number}: must hold whole numbers below 2^31")
    return [row.astype(np.int64).tolist() for row in rows]
