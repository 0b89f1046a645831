"""Writing files atomically, and reading untrusted files safely.

A file may be anything: a pipe that never ends, a device, a million nested brackets. The functions
here read regular files up to a size, and raise nothing but OSError and ValueError.
"""

from __future__ import annotations

import hashlib
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

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

# Flags that only some systems have.
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Largest file of settings, such as a machine's or an agent's, bytes. Usual files are far smaller.
MAX_SETTINGS_BYTES = 4 << 20
#: Largest text, bytes.
MAX_TEXT_BYTES = 1 << 30
#: Largest JSON document, bytes. In memory it takes some tens of times as much.
MAX_JSON_BYTES = 64 << 20
#: Most parts of a TOML key; the parser's time grows with their square.
_MAX_KEY_PARTS = 32
_LONG_KEY = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{_MAX_KEY_PARTS}}}"
)


#: Time of the last change, ns, and size, bytes; None for a missing file.
FileStamp = tuple[int, int] | None


def file_stamp(path: Path) -> FileStamp:
    """A value that changes with the contents of a file: a key for caches."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class UnreadableError(OSError):
    """A file that these functions refuse to read; it has no error number."""

    def __str__(self) -> str:
        return f"{self.strerror}: {self.filename!r}"


def open_regular(path: str | Path) -> int:
    """Opens a regular file for reading: no pipe, socket, device or folder.

    Raises:
        OSError: it cannot be opened, or is no regular file; names the path.
    """
    # Without O_NONBLOCK, opening a pipe without a writer blocks.
    file = os.open(path, os.O_RDONLY | NO_WAIT | OPEN_FLAGS)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        what = "is a folder" if stat.S_ISDIR(mode) else "is no regular file"
        raise UnreadableError(0, f"{what}: only regular files are read", str(path))
    return file


def check_regular(path: str | Path) -> None:
    """Raises OSError where open_regular() does."""
    os.close(open_regular(path))


def read_bytes(path: str | Path, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """The contents of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than ``max_bytes``.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnreadableError(0, f"has more than {max_bytes} bytes", str(path))
    return data


def file_sha256(path: str | Path) -> str:
    """The SHA-256 of a regular file's contents, of any size; raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: str | Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The contents as UTF-8 text with Unix line ends; raises OSError or ValueError."""
    return read_bytes(path, max_bytes).decode("utf-8").replace("\r\n", "\n")


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError if it is invalid or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error


def read_json(path: str | Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """The value of a JSON file; raises OSError or ValueError."""
    return parse_json(read_bytes(path, max_bytes))


def parse_toml(text: str) -> dict[str, Any]:
    """The contents of a TOML text; ValueError if it is invalid or nested too deep."""
    if _LONG_KEY.search(text):
        raise ValueError(f"has a key of more than {_MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error


def lock(file: int, *, wait: bool = False) -> None:
    """Locks an open file or folder until it is closed. Does nothing on Windows.

    Raises:
        OSError: another process has it locked, and this one does not wait.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Writes a file under a temporary name beside ``path`` and renames it.

    A failure (a full disk, Ctrl-C, a kill) leaves the old file.

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
    """Raises the error again with a path: "No space left" has none."""
    raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def read_toml(path: str | Path, build: Callable[[dict[str, Any]], T]) -> T:
    """The result of ``build`` for a TOML file's contents.

    Raises:
        DescriptionError: names the file, and the key and reason that ``build`` gives.
    """
    try:
        values = parse_toml(read_text(path, MAX_SETTINGS_BYTES))
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DescriptionError(f"{path}: is not valid TOML: {error}") from error
    try:
        return build(values)
    except (DescriptionError, UnknownNameError) as error:
        raise DescriptionError(f"{path}: {error}") from error
