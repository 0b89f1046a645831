"""Writing files so that a reader never sees half of one, and reading TOML with errors that help."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pmoss_env.errors import DescriptionError, UnknownNameError

T = TypeVar("T")


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Writes a file under a temporary name beside ``path`` and renames it.

    A failure (a full disk, Ctrl-C, a kill) leaves what was there before.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_toml(path: str | Path, build: Callable[[dict[str, Any]], T]) -> T:
    """What ``build`` makes of a TOML file's contents.

    Raises:
        DescriptionError: names the file and, where ``build`` says so, the key and the reason.
    """
    try:
        return build(tomllib.loads(Path(path).read_text()))
    except OSError as error:
        raise DescriptionError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DescriptionError(f"{path}: is not valid TOML: {error}") from error
    except (DescriptionError, UnknownNameError) as error:
        raise DescriptionError(f"{path}: {error}") from error
