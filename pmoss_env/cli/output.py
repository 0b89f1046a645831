"""Checks of output files, and texts without control sequences."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from pmoss_env.errors import DescriptionError


def printable(text: str, *, lines: bool = True) -> str:
    """A text for a terminal: control sequences are shown as escapes.

    Names come from files, and an escape sequence in one could change the screen.

    Args:
        lines: whether line ends and tabs are kept.
    """
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str, limit: int = 140) -> str:
    """A text as one line of a terminal; the middle of a long text is left out.

    Args:
        text: any text; white space becomes single spaces.
    """
    line = printable(" ".join(text.split()), lines=False)
    if len(line) <= limit:
        return line
    # The cause of an error is at its end.
    end = limit // 3
    return f"{line[: limit - end - 5]} ... {line[-end:]}"


def check_absent(path: Path, overwrite: bool, otherwise: str = "") -> None:
    """Raises DescriptionError for an existing file that may not be replaced.

    Args:
        otherwise: another way out, for the message.
    """
    if path.exists() and not overwrite:
        raise DescriptionError(f"{path}: exists already; --overwrite replaces it{otherwise}")


def check_output(path: Path, *, folder: bool = False, suffix: str = "") -> None:
    """Refuses a path that cannot be written; writes nothing.

    Args:
        path: output file; its folders need not exist.
        folder: whether the output is a folder, which may exist.
        suffix: that the path must end in, such as ".svg".

    Raises:
        OSError: it cannot be written; names the path.
        DescriptionError: it ends in something else.
    """
    if suffix and path.suffix != suffix:
        raise DescriptionError(f"{path}: its name must end in {suffix}")
    if path.exists() and path.is_dir() != folder:
        code = errno.ENOTDIR if folder else errno.EISDIR
        raise OSError(code, os.strerror(code), str(path))
    place = path.absolute().parent
    while not place.exists():
        place = place.parent
    try:
        # Tried out: permission bits do not show read-only file systems, and do not bind root.
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
