"""Pinning the threads of a live process, and giving them their affinity back."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from pmoss_env.envs.threads import guardian
from pmoss_env.errors import ProcessError


class Affinity:
    """Pins threads of one process, and undoes it on close().

    A guardian process holds what was before: it restores when this process dies in any way that
    leaves the guardian alive, SIGKILL among them. Only what kills both at once (a container that
    is torn down, a power failure) leaves a target pinned.

    Args:
        process: id of the target.

    Raises:
        ProcessError: it does not exist, or this user may not set its affinity.
    """

    def __init__(self, process: int) -> None:
        self.process = process
        self._before: dict[int, tuple[int, list[int]]] = {}
        self._guardian: subprocess.Popen[str] | None = None
        try:
            mask = os.sched_getaffinity(process)
            os.sched_setaffinity(process, mask)  # changes nothing; tells whether we may
        except ProcessLookupError as error:
            raise ProcessError(f"process {process} does not exist") from error
        except OSError as error:
            raise ProcessError(
                f"process {process}: its affinity cannot be set ({error.strerror}): it must be "
                "yours, or run as root"
            ) from error
        self.mask = mask

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def pin(self, thread: int, cpu: int) -> str | None:
        """Binds a thread to a CPU.

        Returns:
            None if that was done, else why not: the thread is gone, the CPU is offline or outside
            of the affinity that the thread had, or the kernel refuses.
        """
        try:
            if thread not in self._before:
                start = guardian.start_of(self.process, thread)
                mask = sorted(os.sched_getaffinity(thread))
                self._remember(thread, start, mask)
            if cpu not in self._before[thread][1]:
                return f"CPU {cpu} is outside of the thread's affinity"
            os.sched_setaffinity(thread, {cpu})
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.ENOENT):
                return "the thread is gone"
            if error.errno == errno.EINVAL:
                return f"CPU {cpu} is offline"
            return str(error.strerror)
        return None

    def release_heirs(self) -> int:
        """Frees threads that inherited a pin from the thread that started them; how many."""
        pinned = {cpu for thread in self._before for cpu in self._now(thread)}
        freed = 0
        for thread in threads_of(self.process):
            now = self._now(thread)
            if thread in self._before or len(now) != 1 or not now <= pinned or now == self.mask:
                continue
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, self.mask)
                freed += 1
        return freed

    def close(self) -> None:
        """Restores every thread that is still there; safe to repeat."""
        guardian.restore(self.process, self._before)
        self._before = {}
        if self._guardian is not None:
            self._tell("done")
            assert self._guardian.stdin is not None
            with contextlib.suppress(OSError):
                self._guardian.stdin.close()
            self._guardian.wait(timeout=10)
            self._guardian = None

    def _now(self, thread: int) -> set[int]:
        try:
            return os.sched_getaffinity(thread)
        except OSError:
            return set()

    def _remember(self, thread: int, start: int, mask: list[int]) -> None:
        if self._guardian is None:
            # A session of its own: a Ctrl-C or a hang-up of the terminal does not reach it.
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", str(Path(guardian.__file__)), str(self.process)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        # The guardian knows before anything changes.
        self._tell({"thread": thread, "start": start, "mask": mask})
        self._before[thread] = (start, mask)

    def _tell(self, entry: object) -> None:
        assert self._guardian is not None
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.write(json.dumps(entry) + "\n")
            self._guardian.stdin.flush()
        except OSError as error:
            raise ProcessError(
                "the guardian that would restore the target is gone: nothing more is pinned"
            ) from error


def threads_of(process: int) -> list[int]:
    """The ids of the threads of a process, ascending; none if it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{process}/task"))
    except OSError:
        return []
