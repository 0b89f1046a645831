"""Pins the threads of a live process, and restores their affinity."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from pmoss_env.envs.threads.live import guardian
from pmoss_env.errors import ProcessError
from pmoss_env.processes import add_lifeline


class Affinity:
    """Pins threads of a process until close().

    A guardian process stores the old affinities and restores them when this process dies, even by
    SIGKILL. A target only stays pinned if both die at once (a container that is torn down, a power
    failure). A CPU that is offline at that time is not restored: the kernel drops it from every
    affinity that is set.

    Raises:
        ProcessError: it does not exist, or this user may not set its affinity.
    """

    def __init__(self, process: int) -> None:
        self.process = process
        self._record = guardian.Record()
        self._guardian: subprocess.Popen[str] | None = None
        try:
            mask = guardian.mask_of(process, process)
            _ask_permission(process)
        except (ProcessLookupError, FileNotFoundError) as error:
            raise ProcessError(f"process {process} does not exist") from error
        except OSError as error:
            raise ProcessError(
                f"process {process}: its affinity cannot be set ({error.strerror}): it must be "
                "yours, or run as root"
            ) from error
        self.mask = mask

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pin(self, thread: int, cpu: int) -> str | None:
        """Binds a thread to a CPU.

        Returns:
            None, or the reason if it failed: the thread has ended, the CPU is offline or outside of
            the thread's old affinity, or the kernel refuses.
        """
        try:
            start = guardian.start_of(self.process, thread)
            recorded_start, mask = self._record.masks.get(thread, (None, []))
            if recorded_start != start:
                inherited = self._record.inherited(self.process, thread)
                mask = self.mask if inherited else guardian.mask_of(self.process, thread)
            if cpu not in mask:
                return f"CPU {cpu} is outside of the thread's affinity"
            self._remember({"thread": thread, "start": start, "mask": mask, "cpu": cpu})
            os.sched_setaffinity(thread, {cpu})
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.ENOENT):
                return "the thread is gone"
            if error.errno == errno.EINVAL:
                return f"CPU {cpu} is offline"
            return str(error.strerror)
        return None

    def release_heirs(self) -> int:
        """Frees threads that inherited a pin from their parent thread; returns their number."""
        freed = 0
        for thread in threads_of(self.process) if self._record.masks else []:
            with contextlib.suppress(OSError, ValueError):
                if self._record.inherited(self.process, thread):
                    os.sched_setaffinity(thread, self.mask)
                    freed += 1
        return freed

    def close(self) -> None:
        """Restores every living thread; safe to repeat."""
        guardian.restore(self.process, self._record)
        self._record = guardian.Record()
        if self._guardian is not None:
            assert self._guardian.stdin is not None
            with contextlib.suppress(ProcessError, OSError):
                self._send("done")
                self._guardian.stdin.close()
            try:
                self._guardian.wait(timeout=10)
            except subprocess.TimeoutExpired:
                # On a very busy host it may not have started: there is nothing to restore.
                self._guardian.kill()
                self._guardian.wait()
            self._guardian = None

    def _remember(self, entry: dict[str, Any]) -> None:
        if self._guardian is None:
            # In a session of its own, it gets no Ctrl-C and no hang-up of the terminal.
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", str(Path(guardian.__file__)), str(self.process)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            assert self._guardian.stdin is not None
            add_lifeline(self._guardian.stdin)
            early = self._early()
            self._note({"early": early, "binds": self._binds(early)})
        self._note(entry)

    def _note(self, entry: dict[str, Any]) -> None:
        # The guardian gets the record before a change.
        self._send(entry)
        self._record.note(entry)

    def _early(self) -> list[tuple[int, int]]:
        result = []
        for thread in threads_of(self.process):
            with contextlib.suppress(OSError):
                result.append((thread, guardian.start_of(self.process, thread)))
        return result

    def _binds(self, early: list[tuple[int, int]]) -> bool:
        """Whether the program has bound one of these threads, but not all, to a single CPU."""
        masks = set()
        for thread, _ in early:
            with contextlib.suppress(OSError, ValueError):
                masks.add(tuple(guardian.mask_of(self.process, thread)))
        return len(masks) > 1 and any(len(mask) == 1 for mask in masks)

    def _send(self, entry: object) -> None:
        assert self._guardian is not None
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.write(json.dumps(entry) + "\n")
            self._guardian.stdin.flush()
        except OSError as error:
            raise ProcessError(
                "the guardian that would restore the target is gone: nothing more is pinned"
            ) from error


def _ask_permission(process: int) -> None:
    """Raises the OSError of setting a process's affinity; changes nothing."""
    try:
        os.sched_setaffinity(process, ())
    except OSError as error:
        # The kernel checks the owner first, then the CPUs; an empty set is invalid.
        if error.errno != errno.EINVAL:
            raise


def threads_of(process: int) -> list[int]:
    """The ids of the threads of a process, ascending; none after its end."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{process}/task"))
    except OSError:
        return []
