"""Settings of the kernel that affect measurements, changed only on request."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pmoss_env.errors import BackendError
from pmoss_env.processes import add_lifeline

#: Waits for a line from its parent. Without one, when the parent ends, it writes the value to the
#: file.
_GUARD = """
import sys
value, file = sys.argv[1:]
if not sys.stdin.readline():
    with open(file, "w") as setting:
        setting.write(value)
"""
#: Files below the root, and their valid values.
_FILES = {
    "numa_balancing": ("proc/sys/kernel/numa_balancing", ("0", "1")),
    "transparent_hugepages": (
        "sys/kernel/mm/transparent_hugepage/enabled",
        ("always", "madvise", "never"),
    ),
}


def check_settings(wanted: Mapping[str, str | None]) -> None:
    """Raises BackendError for an invalid value; None keeps a setting."""
    for name, value in wanted.items():
        choices = _FILES[name][1]
        if value is not None and value not in choices:
            raise BackendError(f"{name} = {value!r}: must be one of {', '.join(choices)}")


def pages_balanced(root: Path = Path("/")) -> int:
    """Pages of all programs that automatic NUMA balancing has moved since boot; 0 if unknown."""
    with suppress(OSError):
        for line in (root / "proc/vmstat").read_text().splitlines():
            if line.startswith("numa_pages_migrated "):
                return int(line.split()[1])
    return 0


def why_no_balancing(nodes: int, root: Path = Path("/")) -> str:
    """Why automatic NUMA balancing cannot be measured on and off; empty if it can.

    Args:
        root: folder that holds /proc.
    """
    file = root / _FILES["numa_balancing"][0]
    if nodes < 2:
        return "this host has one NUMA node"
    try:
        file.read_text()
    except OSError:
        return f"this kernel has none, for {file} cannot be read"
    if not os.access(file, os.W_OK):
        return f"{file} cannot be written: run as root"
    return ""


@contextmanager
def switched(wanted: Mapping[str, str | None], root: Path = Path("/")) -> Iterator[None]:
    """Changes settings for the length of the block, and restores them in any case.

    A small process waits beside this one and restores them even after a kill.

    Args:
        wanted: values of "numa_balancing" and "transparent_hugepages"; None keeps a setting.
        root: folder that holds /proc and /sys.

    Raises:
        BackendError: a setting cannot be read or written, and all are unchanged. Or a setting
            cannot be restored; the message names its file and its value.
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
    """Restores a file at the end; a process of its own does it if this one is killed."""
    # Python, not a shell, which a container may lack.
    words = [sys.executable, "-I", "-S", "-c", _GUARD, before, str(file)]
    # In a session of its own, it survives a kill of this process group.
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    add_lifeline(guard.stdin)
    try:
        yield
    finally:
        with suppress(OSError):
            file.write_text(before)
        with suppress(OSError):  # the guard may be dead
            # Without a line the guard restores the file, too.
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
    """The word in brackets: "madvise" in "always [madvise] never"; or the whole text."""
    return text.split("[")[1].split("]")[0] if "[" in text else text.strip()
