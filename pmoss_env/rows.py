"""Files of JSON lines that a long command can go on with: a header, then one row per result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmoss_env.errors import DescriptionError


class RowFile:
    """Appends rows, each whole once it is written; opened again, it knows those that are there.

    A row that an interruption cut short is dropped. What must agree between the first run and the
    next is in the header.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        # As it will be read: tuples become lists.
        first: dict[str, Any] = json.loads(json.dumps(header))
        if path.exists():
            os.truncate(path, self._read(first))
        if not path.exists() or path.stat().st_size == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(first)

    def _read(self, header: dict[str, Any]) -> int:
        """Takes the whole rows; returns where they end."""
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if row is None or not line.endswith(b"\n"):
                    if number == 0 and line.endswith(b"\n"):
                        raise DescriptionError(f"{self.path} is not a file of results")
                    break
                if number == 0 and row != header:
                    differs = sorted(
                        key
                        for key in {*row, *header}
                        if not isinstance(row, dict) or row.get(key) != header.get(key)
                    )
                    raise DescriptionError(
                        f"{self.path} holds results of another command: {', '.join(differs)} "
                        "differ; choose another file or repeat that command"
                    )
                if number > 0:
                    self.rows.append(row)
                end += len(line)
        return end

    def _append(self, row: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row; it is on the disk when this returns."""
        self._append(row)
        self.rows.append(json.loads(json.dumps(row)))
