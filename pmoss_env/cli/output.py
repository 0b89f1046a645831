"""What every command needs of its output: can it be written, and what may a terminal see."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from pmoss_env.errors import DescriptionError


def printable(text: str, *, lines: bool = True) -> str:
    """A text as a terminal may see it: what would command it is shown as an escape.

    Names come from files, and an escape sequence in one could rewrite what was printed.

    Args:
        text: any, with control characters, marks of direction or halves of surrogates.
        lines: whether line ends and tabs stay.
    """
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str, most: int = 140) -> str:
    """A text as one line of a terminal; where it is too long, its middle is left out.

    Args:
        text: any; line ends and all other white space become single spaces.
        most: characters of the line.
    """
    line = printable(" ".join(text.split()), lines=False)
    if len(line) <= most:
        return line
    # What an error led to stands at its end.
    end = most // 3
    return f"{line[: most - end - 5]} ... {line[-end:]}"


def check_absent(path: Path, overwrite: bool, otherwise: str = "") -> None:
    """Raises DescriptionError if ``path`` is there and may not be replaced.

    Args:
        path: to be written later.
        overwrite: whether it may be.
        otherwise: what else the user can do.
    """
    if path.exists() and not overwrite:
        raise DescriptionError(f"{path}: exists already; --overwrite replaces it{otherwise}")


def check_output(path: Path, *, folder: bool = False) -> None:
    """Raises OSError that names ``path`` if it cannot be written; leaves nothing behind.

    Args:
        path: to be written later, with the folders that it needs.
        folder: it is to become a folder itself, beside what is there.
    """
    if path.exists() and path.is_dir() != folder:
        code = errno.ENOTDIR if folder else errno.EISDIR
        raise OSError(code, os.strerror(code), str(path))
    place = path.absolute().parent
    while not place.exists():
        place = place.parent
    try:
        # Made for a moment: permission bits do not show read-only file systems, and do not bind
        # root.
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
