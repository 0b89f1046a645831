"""The child that holds a submitted policy: it is asked for actions, and knows nothing else.

Started by pmoss_benchmarks.leaderboard.players as ``python -P -m
pmoss_benchmarks.leaderboard.player_process PARENT``. The environment, the seeds and the scores stay
with its parent.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pmoss_agents import find_policy
from pmoss_benchmarks.leaderboard.confinement import confine
from pmoss_benchmarks.leaderboard.messages import unpack, unpack_context
from pmoss_datasets.domain import find_domain
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.policies import Planner
from pmoss_env.backends.frames import read_frame, write_frame
from pmoss_env.processes import die_with_parent

#: Bytes that the child may write to a file, and to its log.
_FILE_BYTES = 64 << 20
#: The first of as many numbers of users, which a container has and seldom gives to anyone.
_A_USER = 30_000


def main(parent: int) -> None:
    """Serves one parent until it closes the pipe or dies."""
    die_with_parent(parent)
    # What the policy prints goes to the log.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    start = read_frame(sys.stdin.buffer)
    if start is None:
        return
    _limit(start["memory_bytes"], start["threads"])
    # Nothing can be written there, and Python would ask.
    tempfile.tempdir = os.getcwd()
    try:
        if start["confines"]:
            confine([start["folder"]])
    except Exception as error:
        traceback.print_exception(error)
        write_frame(replies, {"unconfined": f"{error}"[:2000]})
        return
    # Before a module of the submission could say so in this process's name.
    write_frame(replies, {"confined": start["confines"]})
    try:
        player = _Player(start)
    except BaseException as error:
        _complain(replies, error)
        return
    write_frame(replies, {"plans": player.plans, "observes": player.observes})
    _serve(player, sys.stdin.buffer, replies)


def _serve(player: _Player, requests: BinaryIO, replies: BinaryIO) -> None:
    while (request := read_frame(requests)) is not None:
        try:
            action = player.answer(request)
        except BaseException as error:
            _complain(replies, error)
        else:
            write_frame(replies, {"action": action})


class _Player:
    """A policy that answers messages."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        if start["executes"]:
            sys.path.insert(0, start["folder"])
        self._policy: Any = find_policy(start["word"])
        self._env = find_domain(start["domain"]).make_env(start["env"])
        check_policy(self._policy, self._env)
        self.plans = isinstance(self._policy, Planner)
        self.observes = hasattr(self._policy, "observe")
        self._answers: dict[str, Callable[[Any], Any]] = {
            "reset": lambda _: self._policy.reset(),
            "plan": self._plan,
            "act": self._act,
            "observe": lambda reward: self._policy.observe(reward),
        }

    def answer(self, request: Mapping[str, Any]) -> Any:
        (kind, value), *_ = request.items()
        return self._answers[kind](value)

    def _plan(self, value: Any) -> None:
        context = replace(unpack_context(value), machine=self._env.machine)
        self._policy.plan(context, context.order)

    def _act(self, value: Any) -> Any:
        action = self._policy.act(unpack(value["observation"]), unpack(value["mask"]))
        return _plain(action)


def _plain(action: Any) -> Any:
    """An action as JSON tells it: a whole number, or what is none as a text."""
    if isinstance(action, np.ndarray) and action.size == 1:
        action = action.item()
    if isinstance(action, int | np.integer) and not isinstance(action, bool):
        return int(action)
    if isinstance(action, float | np.floating) and math.isnan(action):
        return "NaN"
    return repr(action)[:100]


def _limit(memory_bytes: int, threads: int) -> None:
    """Bounds what the policy may take; a system that knows no such bound goes without."""
    import resource  # not on Windows, where players.py starts nothing

    if sys.platform == "linux":
        with suppress(OSError, ValueError):
            limit = _threads_of_user() + threads
            resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    for kind, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


def _threads_of_user() -> int:
    """Threads that count against the limit of this process's user.

    The kernel counts by the real user, and leaves root without a limit. So root's process takes a
    real user of its own. Its files stay those of root, which is what the effective user decides.
    """
    if os.getuid() == 0:
        os.setresuid(_A_USER + os.getpid() % _A_USER, -1, -1)
    own = os.getuid()
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = (process / "status").read_text()
            fields = dict(line.partition(":\t")[::2] for line in status.splitlines())
            if int(fields["Uid"].split()[0]) == own:
                count += int(fields["Threads"])
    return count


def _complain(replies: BinaryIO, error: BaseException) -> None:
    """Tells the parent what went wrong, and the log where."""
    traceback.print_exception(error)
    write_frame(replies, {"error": f"{type(error).__name__}: {error}"[:2000]})


if __name__ == "__main__":
    main(int(sys.argv[1]))
