"""Settings of the kernel that change what a measurement means, switched only when asked."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pmoss_env.errors import BackendError

#: Waits for a word from its parent. Where the parent ends without one, it writes a value ($1) to a
#: file ($2).
_GUARD = 'read -r word || printf %s "$1" > "$2"'
#: Files below the root, and what can be written there.
_FILES = {
    "numa_balancing": ("proc/sys/kernel/numa_balancing", ("0", "1")),
    "transparent_hugepages": (
        "sys/kernel/mm/transparent_hugepage/enabled",
        ("always", "madvise", "never"),
    ),
}


def check_settings(wanted: Mapping[str, str | None]) -> None:
    """Raises BackendError for a value that the kernel does not have; None leaves a setting."""
    for name, value in wanted.items():
        choices = _FILES[name][1]
        if value is not None and value not in choices:
            raise BackendError(f"{name} = {value!r}: must be one of {', '.join(choices)}")


@contextmanager
def switched(wanted: Mapping[str, str | None], root: Path = Path("/")) -> Iterator[None]:
    """Switches settings and puts them back at the end, whatever happens. None leaves one alone.

    A small process waits beside this one meanwhile: it puts them back after a kill, too.

    Args:
        wanted: value of "numa_balancing" and "transparent_hugepages".
        root: where /proc and /sys are found.

    Raises:
        BackendError: a setting cannot be read or written; all are as they were. Or one cannot be
            put back; the message names its file and its value.
    """
    with ExitStack() as undo:
        for name, value in wanted.items():
            if value is None:
                continue
            file = root / _FILES[name][0]
            try:
                before = _selected(file.read_text())
                if before == value:
                    continue
                undo.enter_context(_put_back(file, before))
                file.write_text(value)
            except OSError as error:
                raise BackendError(
                    f"{name} = {value!r}: {file} cannot be switched ({error.strerror}); run as "
                    "root, or leave the setting out to measure under the kernel's own"
                ) from error
        yield


@contextmanager
def _put_back(file: Path, before: str) -> Iterator[None]:
    """Writes at the end what was there; a shell does it should this process be killed."""
    words = ["/bin/sh", "-c", _GUARD, "sh", before, str(file)]
    # In a session of its own: it outlives whoever kills all of ours.
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    try:
        yield
    finally:
        with suppress(OSError):
            file.write_text(before)
        with suppress(OSError):  # somebody has ended it
            # Without a word it tries, too.
            guard.stdin.write(b"done\n" if _holds(file, before) else b"")
            guard.stdin.close()
        guard.wait()
        if not _holds(file, before):
            raise BackendError(
                f"{file} cannot be put back to {before!r}: as root, run: echo {before} > {file}"
            )


def _holds(file: Path, value: str) -> bool:
    try:
        return _selected(file.read_text()) == value
    except OSError:
        return False


def _selected(text: str) -> str:
    """The word in brackets, "madvise" of "always [madvise] never", or all of the text."""
    return text.split("[")[1].split("]")[0] if "[" in text else text.strip()
