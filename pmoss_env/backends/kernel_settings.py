"""Settings of the kernel that change what a measurement means, switched only when asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pmoss_env.errors import BackendError

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

    Args:
        wanted: value of "numa_balancing" and "transparent_hugepages".
        root: where /proc and /sys are found.

    Raises:
        BackendError: a setting cannot be read or written; all are as they were.
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
                file.write_text(value)
                undo.callback(file.write_text, before)
            except OSError as error:
                raise BackendError(
                    f"{name} = {value!r}: {file} cannot be switched ({error.strerror}); run as "
                    "root, or leave the setting out to measure under the kernel's own"
                ) from error
        yield


def _selected(text: str) -> str:
    """The word in brackets, "madvise" of "always [madvise] never", or all of the text."""
    return text.split("[")[1].split("]")[0] if "[" in text else text.strip()
