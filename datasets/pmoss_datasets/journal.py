"""Finished pieces of a long collection, kept as they come: a kill loses what is in flight only."""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pmoss_env.errors import DatasetError

_FORMAT = "pmoss-collection"


class Journal:
    """A file beside the dataset-to-be: a line that says what is collected, then records.

    The file appears with the first record and belongs to one process at a time. A record that a
    kill or a full disk cut short is dropped when the journal is opened again, and so is one whose
    bytes were damaged: only those are collected again.

    Attributes:
        path: of the file.
        records: what is done, by number.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """Reads what an interrupted collection left.

        Args:
            path: of the file; its folder is made with the first record.
            about: plain JSON that decides the records, such as the recipe.

        Raises:
            DatasetError: the file is of another collection, foreign, in use, or damaged where a
                record begins.
        """
        self.path = path
        self.records: dict[int, bytes] = {}
        self._header = json.dumps({"format": _FORMAT, **about}, sort_keys=True).encode() + b"\n"
        self._file: Any = None  # a binary file, once there is one
        if path.exists():
            self._open()
            self._read()

    def add(self, number: int, record: bytes) -> None:
        """Keeps one record. It survives the process; not a power cut, which costs the latest.

        Raises:
            DatasetError: the disk is full, for instance; the records before stay.
        """
        head = f"{number} {len(record)} {zlib.crc32(record)}\n".encode()
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
            head = self._header + head
        try:
            self._file.write(head + record)
            self._file.flush()
        except OSError as error:
            raise DatasetError(f"{self.path}: cannot be written: {error.strerror}") from error
        self.records[number] = record

    def remove(self) -> None:
        """Deletes the file: the dataset is written."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        self._file = open(self.path, "r+b" if self.path.exists() else "w+b")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise DatasetError(f"{self.path}: another collection is writing it") from error

    def _read(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        first = self._file.readline()
        if first != self._header:
            self._file.close()
            cut = not first.endswith(b"\n") and self._header.startswith(first)
            if not cut:
                raise DatasetError(
                    f"{self.path}: holds episodes of another recipe or version: finish that "
                    "collection, or remove the file"
                )
            self.path.unlink()
            self._file = None
            return
        whole = self._file.tell()
        while whole < size:
            head = self._file.readline()
            words = head.split()
            if not head.endswith(b"\n"):
                break
            if len(words) != 3 or not all(word.isdigit() for word in words):
                self._file.close()
                raise DatasetError(
                    f"{self.path}: byte {whole}: is no beginning of a record: the "
                    f"{len(self.records)} before it are kept if the file is cut there "
                    f"(truncate -s {whole} {self.path}); or remove it and begin anew"
                )
            number, length, code = (int(word) for word in words)
            record = self._file.read(length)
            if len(record) != length:
                break
            if zlib.crc32(record) == code:
                self.records[number] = record
            whole = self._file.tell()
        self._file.seek(whole)
        self._file.truncate()
