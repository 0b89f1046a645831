"""A child process that answers requests, so that its crash, hang or flood spares its parent.

Requests and replies are frames of JSON (pmoss_env.backends.frames); nothing is unpickled. The
output of the child goes to a log, whose end is part of every error.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from pmoss_env.backends.frames import MAX_BYTES, PIPES_CLOSED, frame_of, length_of_frame
from pmoss_env.errors import BackendError
from pmoss_env.files import parse_json

_log = logging.getLogger(__name__)

_LOG_LINES = 20
#: Seconds that poll() can wait, which takes milliseconds in 31 bits.
_LONGEST_WAIT = 2e6


def _is_ready(pipe: int, event: int, seconds: float) -> bool:
    """Waits for a pipe. Unlike select(), poll() takes descriptors above 1,023.

    Args:
        event: POLLIN or POLLOUT of ``select``.
        seconds: at most, and no longer than 23 days.
    """
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(math.ceil(1000 * min(max(seconds, 0.0), _LONGEST_WAIT))))


@dataclass(frozen=True)
class Wording:
    """The words for a child in errors.

    Attributes:
        what: name of the child, e.g. "the measuring process".
        afterwards: end of a sentence about its death.
        error: class of the errors.
        warn_seconds: seconds without a message before a warning.
    """

    what: str
    afterwards: str = "."
    error: type[BackendError] = BackendError
    warn_seconds: float = math.inf


class Child:
    """A running child; owns its pipes and its log.

    Args:
        command: program and arguments. It reads frames from its input and writes frames to its
            output.
        folder: working folder of the child; None: that of this process.
        grouped: whether it leads a process group, which is killed as a whole.

    Raises:
        BackendError: it cannot be started; of the class in ``wording``.
    """

    def __init__(
        self,
        command: Sequence[str],
        wording: Wording,
        *,
        environment: Mapping[str, str],
        folder: str | None = None,
        grouped: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._wording, self._grouped, self._max_bytes = wording, grouped, max_bytes
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=dict(environment),
                cwd=folder,
                start_new_session=grouped,
            )
        except OSError as error:
            self._log.close()
            raise wording.error(f"{wording.what} cannot be started: {error}") from error
        assert self._process.stdin
        # A child that does not read must not block its parent.
        os.set_blocking(self._process.stdin.fileno(), False)
        self._pending = b""
        self._warn_at, self._patience = math.inf, math.inf
        self._parent = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether it belongs to a process that this one was forked from."""
        return os.getpid() != self._parent

    @property
    def process_id(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def send(self, message: Mapping[str, Any], seconds: float = math.inf) -> None:
        """Sends a request.

        Args:
            seconds: time limit for the child to read it; then it is killed.

        Raises:
            BackendError: the child died, or took too long.
        """
        self._write(frame_of(message), time.monotonic() + seconds)

    def _write(self, content: bytes, deadline: float) -> None:
        assert self._process.stdin
        pipe = self._process.stdin.fileno()
        rest = memoryview(content)
        while rest:
            if not _is_ready(pipe, select.POLLOUT, deadline - time.monotonic()):
                raise self._silent()
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionError) as error:
                raise self._death() from error

    def ask(
        self,
        request: Mapping[str, Any],
        seconds: float,
        handlers: Mapping[str, Callable[[Any], None] | None] | None = None,
        expected: float = 0.0,
    ) -> dict[str, Any]:
        """Sends a request and returns the reply.

        Args:
            seconds: time limit for the request and the reply; then the child is killed. Each
                message for ``handlers`` restarts it.
            handlers: functions for messages before the reply, by their keys; None ignores one.
            expected: expected seconds of the work, added to the time limit.

        Raises:
            BackendError: the child died, was silent for too long, or sent an invalid message.
        """
        deadline = self._deadline(seconds, expected)
        self._write(frame_of(request), deadline)
        while True:
            reply = self._receive(deadline)
            keys = [key for key in handlers or () if key in reply]
            if not keys:
                return reply
            for key in keys:
                if (handle := (handlers or {})[key]) is not None:
                    handle(reply[key])
            deadline = self._deadline(seconds, expected)

    def _deadline(self, seconds: float, expected: float) -> float:
        """The time at which a silent child is killed; sets the time of the warning."""
        begin = time.monotonic() + expected
        self._patience, self._warn_at = seconds, begin + self._wording.warn_seconds
        return begin + seconds

    def receive(self, seconds: float) -> dict[str, Any]:
        """Waits for a message that the child sends by itself.

        Args:
            seconds: time limit; then the child is killed.

        Raises:
            BackendError: the child died, was silent for too long, or sent an invalid message.
        """
        return self._receive(time.monotonic() + seconds)

    def _receive(self, deadline: float) -> dict[str, Any]:
        try:
            length = length_of_frame(self._read(8, deadline), self._max_bytes)
            message = parse_json(self._read(length, deadline))
        except ValueError as error:
            raise self._gone(f"{self._wording.what} sent no message: {error}") from error
        if not isinstance(message, dict):
            raise self._gone(f"{self._wording.what} sent no message")
        return message

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        while len(self._pending) < count:
            if not self._ready(pipe, deadline):
                raise self._silent()
            part = os.read(pipe, 1 << 16)
            if not part:
                raise self._death()
            self._pending += part
        content, self._pending = self._pending[:count], self._pending[count:]
        return content

    def _ready(self, pipe: int, deadline: float) -> bool:
        """Waits for input or for the deadline; whether there is input."""
        if self._warn_at < deadline:
            left = self._warn_at - time.monotonic()
            if left > 0 and _is_ready(pipe, select.POLLIN, left):
                return True
            _log.warning(
                "%s has given no sign of life for %g s; it is killed after %g s",
                self._wording.what,
                self._wording.warn_seconds,
                self._patience,
            )
            self._warn_at = math.inf  # once
        left = deadline - time.monotonic()
        return left > 0 and _is_ready(pipe, select.POLLIN, left)

    def _kill(self) -> int:
        if self._process.returncode is None:
            self._kill_group()
            self._process.kill()
        return self._process.wait()

    def _kill_group(self) -> None:
        if self._grouped:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _silent(self) -> BackendError:
        return self._gone(f"{self._wording.what} fell silent and was killed")

    def _gone(self, text: str) -> BackendError:
        self._kill()
        return self._error(text)

    def _error(self, text: str) -> BackendError:
        return self._wording.error(f"{text}{self._wording.afterwards}", self.log_tail())

    def _death(self) -> BackendError:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            status = self._kill()
        # Processes that the child has started.
        self._kill_group()
        if status < 0:
            how = f"of signal {-status} ({signal.strsignal(-status)})"
            hint = ": out of memory, perhaps" if -status == signal.SIGKILL else ""
            return self._error(f"{self._wording.what} died {how}{hint}")
        hints = {
            0: ": something in it called exit()",
            PIPES_CLOSED: ": something in it has closed files that are not its own",
        }
        hint = hints.get(status, "")
        return self._error(f"{self._wording.what} ended with status {status}{hint}")

    def log_tail(self) -> list[str]:
        """The last lines of the child's log."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").splitlines()[-_LOG_LINES:]

    def close(self) -> None:
        """Ends the child, but not that of another process. Safe to repeat."""
        if self._log.closed:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        if not self.is_elsewhere:
            self._kill()
        self._log.close()
