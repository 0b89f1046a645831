"""Files of results that a long command writes row by row and continues after an interruption.

A file has JSON lines: a header with the settings of the results, then an object per row. Binary
records are a text field with a checksum (see packed()). So damage ends at the next newline, and
any tool can read the other rows.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from pmoss_env.errors import DatasetError, few
from pmoss_env.files import NO_WAIT, OPEN_FLAGS, lock, parse_json, read_bytes, write_atomically
from pmoss_env.version import CONTINUED

_log = logging.getLogger(__name__)

#: Rows are written at once, so a kill loses none. They are synced to the disk at least this often
#: (seconds), which bounds the loss by a power failure.
SYNC_SECONDS = 1.0
#: The field of a row with the checksum of its text.
_SEAL = "row_crc32"
#: Characters of a value in an error.
_SHOWN = 60
#: Times that a file is opened which another command replaces meanwhile.
_TRIES = 100


class ResultFile:
    """Rows of results by key, which survive an interruption.

    The file is created with the first row and belongs to one process at a time. Incomplete and
    damaged rows are dropped when the file is opened again, with a warning in the log.

    Attributes:
        path: of the file; None keeps the rows in memory only.
        rows: by their key, in the order of the file.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any], key: Sequence[str]) -> None:
        """Reads the rows of an interrupted command.

        Args:
            path: of the file; its folder is created with the first row.
            header: plain JSON that determines the rows, such as settings and version.
            key: fields of every row that identify it.

        Raises:
            DatasetError: the file has another header, is foreign, or is in use.
        """
        self.path = path
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        # As JSON has it: tuples become lists.
        self._header: dict[str, Any] = json.loads(json.dumps(header))
        self._key = tuple(key)
        self._file: int | None = None
        self._end = 0
        self._synced = time.monotonic()
        if path is not None and path.exists():
            try:
                self._file = self._locked()
            except OSError as error:
                raise DatasetError(f"{path}: cannot be opened: {error.strerror}") from error
            try:
                self._read()
            except BaseException:
                os.close(self._file)
                raise

    def get(self, *key: Any) -> dict[str, Any] | None:
        """The row of a key, or None."""
        return self.rows.get(key)

    def append(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Writes a row and returns it as JSON has it: tuples become lists.

        Raises:
            DatasetError: the file cannot be written; earlier rows stay.
        """
        line = json.dumps(row)
        kept: dict[str, Any] = json.loads(line)
        if self.path is not None:
            # On a full disk the header may be missing.
            if self._file is None or self._end == 0:
                self._begin(self.path)
            self._write(_sealed(line))
        self.rows[self._key_of(kept)] = kept
        return kept

    def remove(self) -> None:
        """Deletes the file, after its rows are in the final results."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Syncs the rows to the disk and unlocks the file."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self._file is None:
                self._file = self._locked()
        except OSError as error:
            raise DatasetError(f"{path}: cannot be written: {error.strerror}") from error
        if os.fstat(self._file).st_size > self._end:
            raise DatasetError(f"{path}: another command wrote it meanwhile")
        if self._end == 0:
            self._write(json.dumps(self._header))

    def _locked(self) -> int:
        assert self.path is not None
        for _ in range(_TRIES):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS | NO_WAIT, 0o666)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise DatasetError(f"{self.path}: is no regular file")
                lock(file)
                # Before the lock, another command may have put a new file in place of this one.
                if os.path.samestat(self.path.stat(), os.fstat(file)):
                    return file
            except FileNotFoundError:
                pass
            except DatasetError:
                os.close(file)
                raise
            except OSError as error:
                os.close(file)
                raise DatasetError(f"{self.path}: another command is writing it") from error
            os.close(file)
        raise DatasetError(f"{self.path}: other commands replace it again and again")

    def _write(self, line: str) -> None:
        assert self._file is not None
        rest = memoryview(line.encode() + b"\n")
        length = len(rest)
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise DatasetError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._end += length
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def _read(self) -> None:
        """Reads the complete rows; truncates the file after the last of them."""
        assert self._file is not None and self.path is not None
        damaged = position = 0
        for number, line in enumerate(self._lines()):
            position += len(line)
            row = _parsed(line)
            if number == 0:
                if not line.endswith(b"\n") and json.dumps(self._header).encode().startswith(line):
                    break  # the header is incomplete
                self._check_header(row)
            elif row is None or not all(_is_key(row.get(name)) for name in self._key):
                damaged += 1
                continue
            else:
                self.rows[self._key_of(row)] = row
            self._end = position
        if damaged:
            words = f"{_in_words(damaged)} dropped; what is missing is done again"
            _log.warning("%s: %s", self.path, words)
        os.ftruncate(self._file, self._end)
        if self._end == 0:
            self._write(json.dumps(self._header))

    def _lines(self) -> Iterator[bytes]:
        assert self._file is not None
        with os.fdopen(os.dup(self._file), "rb") as file:
            yield from file

    def _check_header(self, row: dict[str, Any] | None) -> None:
        if row is None:
            raise DatasetError(f"{self.path}: is not a file of results: choose another file")
        if {row.get("version"), self._header.get("version")} <= CONTINUED:
            row = {**row, "version": self._header.get("version")}
        if differ := differing(row, self._header):
            raise DatasetError(
                f"{self.path}: holds results of another command: {few(differ, 3)}; "
                "repeat that command, choose another file, or remove this one"
            )

    def _key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._key)


def differing(then: Mapping[str, Any], now: Mapping[str, Any], inside: str = "") -> list[str]:
    """What differs between two headers: "settings.budget was 1 and is 2", also within objects.

    A field that is missing is null.
    """
    differences = []
    for name in sorted({*then, *now}):
        before, after = then.get(name), now.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            differences += differing(before, after, f"{inside}{name}.")
        elif before != after:
            texts = [json.dumps(before), json.dumps(after)]
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
            # Of long texts, from a little before where they part.
            start = max(0, len(list(alike)) - _SHOWN // 2)
            was, now_is = (_part(text, start) for text in texts)
            differences.append(f"{inside}{name} was {was} and is {now_is}")
    return differences


def _part(text: str, start: int) -> str:
    part = text[start : start + _SHOWN]
    return f"{'...' if start else ''}{part}{'...' if start + _SHOWN < len(text) else ''}"


def read_rows(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the complete rows of a file, also while a command writes it.

    Raises:
        DatasetError: the file cannot be read, or is no file of results.
    """
    try:
        lines = read_bytes(path).splitlines(keepends=True)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error
    header, *rows = map(_parsed, lines or [b""])
    if header is None:
        raise DatasetError(f"{path}: is not a file of results: choose another file")
    whole = [row for row in rows if row is not None]
    if damaged := _damaged(lines[1:], rows):
        _log.warning("%s: %s left out", path, _in_words(damaged))
    return header, whole


def damaged_rows(path: Path) -> int:
    """How many rows of a file are damaged; a last one that is still being written is not."""
    lines = read_bytes(path).splitlines(keepends=True)
    return _damaged(lines, list(map(_parsed, lines)))


def _damaged(lines: Sequence[bytes], rows: Sequence[Mapping[str, Any] | None]) -> int:
    pairs = zip(lines, rows, strict=True)
    return sum(row is None and line.endswith(b"\n") for line, row in pairs)


def _in_words(damaged: int) -> str:
    return "a damaged row is" if damaged == 1 else f"{damaged} damaged rows are"


def write_rows(path: Path, header: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a file of results atomically."""
    lines = [json.dumps(header), *(_sealed(json.dumps(row)) for row in rows)]
    write_atomically(path, "\n".join(lines) + "\n")


def _is_key(value: Any) -> bool:
    """Whether a field exists and can be a key."""
    return isinstance(value, str | int | float)


def packed(record: bytes) -> dict[str, Any]:
    """The fields of a row with a binary record, compressed: much of an episode repeats itself."""
    small = zlib.compress(record, 1)
    return {"zlib": base64.b64encode(small).decode("ascii"), "crc32": zlib.crc32(record)}


def unpacked(row: Mapping[str, Any]) -> bytes:
    """The binary record of a row; rows of earlier versions are not compressed.

    Raises:
        ValueError: the text is damaged.
    """
    if "base64" in row:
        return base64.b64decode(row["base64"], validate=True)
    try:
        return zlib.decompress(base64.b64decode(row["zlib"], validate=True))
    except zlib.error as error:
        raise ValueError(f"zlib: {error}") from error


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is incomplete or damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = parse_json(line)
        if not isinstance(row, dict):
            return None
        # Rows of older versions have no checksum.
        if (code := row.pop(_SEAL, None)) is not None and code != _code(json.dumps(row)):
            return None
        if {"zlib", "base64"} & row.keys() and zlib.crc32(unpacked(row)) != row.get("crc32"):
            return None
    except (ValueError, TypeError):
        return None
    return row


def _sealed(line: str) -> str:
    """A row with the checksum of its text as the last field."""
    return f'{line[:-1]}{", " if len(line) > 2 else ""}"{_SEAL}": {_code(line)}}}'


def _code(line: str) -> int:
    return zlib.crc32(line.encode())
