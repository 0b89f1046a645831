"""Writing files so that a reader never sees half of one, and reading those of others safely.

What is read may be anything: a pipe that never ends, a device, a bomb of brackets. Readers here
take regular files up to a size, and give nothing but OSError and ValueError.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pmoss_env.errors import DescriptionError, UnknownNameError

T = TypeVar("T")

# Flags that other systems than Linux lack, or have in addition.
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Bytes of a file of settings, such as a machine's or an agent's: thousands of times the usual.
MOST_SETTINGS = 4 << 20
#: Bytes of a text that is read whole.
MOST_TEXT = 1 << 30
#: Bytes of a JSON document, which takes some tens of times as much memory.
MOST_JSON = 64 << 20
#: Parts of a TOML key; the parser's time grows with their square.
_MOST_PARTS = 32
_LONG_KEY = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{_MOST_PARTS}}}"
)


#: When a file was last changed, in ns, and its bytes; None: there is none.
FileStamp = tuple[int, int] | None


def file_stamp(path: Path) -> FileStamp:
    """What changes with the contents of a file, so that nobody keeps what it held before."""
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_mtime_ns, told.st_size


class UnreadableError(OSError):
    """A file that the system would read, and that is not read here; it has no error number."""

    def __str__(self) -> str:
        return f"{self.strerror}: {self.filename!r}"


def open_regular(path: str | Path) -> int:
    """A descriptor to read a file from; it is no pipe, socket, device or folder.

    Raises:
        OSError: it cannot be opened, or is none; names the path.
    """
    # Without O_NONBLOCK a pipe that nobody writes is waited for.
    file = os.open(path, os.O_RDONLY | NO_WAIT | OPEN_FLAGS)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        what = "is a folder" if stat.S_ISDIR(mode) else "is no regular file"
        raise UnreadableError(0, f"{what}: only regular files are read", str(path))
    return file


def check_regular(path: str | Path) -> None:
    """Refuses what open_regular() refuses: OSError."""
    os.close(open_regular(path))


def read_bytes(path: str | Path, most: int = MOST_TEXT) -> bytes:
    """The contents of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than ``most`` bytes.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnreadableError(0, f"has more than {most} bytes: too many for such a file", str(path))
    return data


def read_text(path: str | Path, most: int = MOST_TEXT) -> str:
    """The same as UTF-8; a ValueError if it is none."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n")


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; a ValueError for every text that is none, or is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error


def read_json(path: str | Path, most: int = MOST_JSON) -> Any:
    """What a JSON file says; OSError or ValueError."""
    return parse_json(read_bytes(path, most))


def parse_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; a ValueError for every text that is none, or is nested too deep."""
    if _LONG_KEY.search(text):
        raise ValueError(f"has a key of more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Writes a file under a temporary name beside ``path`` and renames it.

    A failure (a full disk, Ctrl-C, a kill) leaves what was there before.

    Raises:
        OSError: it cannot be written; names ``path``.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        name = target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}")
        # The mode that the user's umask gives to every new file.
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            with suppress(OSError):
                name.unlink()
            raise
    except OSError as error:
        name_path(error, target)


def name_path(error: OSError, path: str | Path) -> NoReturn:
    """Raises the same error with the path that the user knows: "No space left" names none."""
    raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def read_toml(path: str | Path, build: Callable[[dict[str, Any]], T]) -> T:
    """What ``build`` makes of a TOML file's contents.

    Raises:
        DescriptionError: names the file and, where ``build`` says so, the key and the reason.
    """
    try:
        values = parse_toml(read_text(path, MOST_SETTINGS))
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DescriptionError(f"{path}: is not valid TOML: {error}") from error
    try:
        return build(values)
    except (DescriptionError, UnknownNameError) as error:
        raise DescriptionError(f"{path}: {error}") from error
