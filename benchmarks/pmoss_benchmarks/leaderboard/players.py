"""A submitted policy in a process of its own, as a policy that plays here.

Seeds and scores stay away from the policy. Its memory, files, threads and time are bounded. What it
answers is JSON, and is checked. Where the kernel can (see ``confinement``) the process reads no
file but those of Python, of the packages and of the submission. It writes none, starts no other
process and reaches no network. Where the kernel should and does not, the policy is not loaded.
Elsewhere it has the rights of who calls.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_benchmarks.leaderboard.confinement import can_confine
from pmoss_benchmarks.leaderboard.messages import pack, pack_context
from pmoss_benchmarks.leaderboard.submissions import Agent
from pmoss_datasets.domain import Domain
from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.context import Context
from pmoss_env.envs.actions import whole_action
from pmoss_env.errors import DescriptionError, IllegalActionError, PlatformError, PolicyError
from pmoss_env.types import Int8Array, Int32Array

_WORDING = Wording("the policy's process", ": no row is written.", PolicyError)
#: Of a reply: an action, or an error's text.
_MOST_BYTES = 1 << 16
#: Variables that the process gets; no other one of this process does.
_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")


#: Least and greatest values of the limits: a day, and all that a computer addresses.
_RANGES = {
    "start_seconds": (0.1, 86_400),
    "episode_seconds": (0.1, 86_400),
    "memory_bytes": (1 << 20, 1 << 47),
    "threads": (1, 4096),
}


@dataclass(frozen=True)
class Limits:
    """What a submitted policy may take.

    Attributes:
        start_seconds: until it is loaded and has checked the environment.
        episode_seconds: all answers of an episode together.
        memory_bytes: address space of the process.
        threads: that run beside the process's first one; bounded on Linux alone.

    Raises:
        DescriptionError: one of them is below its least value or above its greatest.
    """

    start_seconds: float = 120.0
    episode_seconds: float = 60.0
    memory_bytes: int = 16 << 30
    threads: int = 256

    def __post_init__(self) -> None:
        for name, (lowest, highest) in _RANGES.items():
            if not lowest <= getattr(self, name) <= highest:
                raise DescriptionError(
                    f"{name} = {getattr(self, name)}: must be from {lowest} to {highest}"
                )


class IsolatedPolicy:
    """Implements Policy (pmoss_datasets.policies) by a process that holds the agent.

    Attributes:
        confined: whether the kernel keeps the process from files, other processes and the network.

    Args:
        folder: of the submission: it may be read, and its modules are imported where the agent
            names one.
        key: that its chance derives from; the process never gets it.
        limits: of time, memory and threads.

    Raises:
        PolicyError: it cannot be loaded, or cannot play there.
        PlatformError: this system cannot end a process with all that it started, or its kernel
            did not confine the process although it has what that needs.
    """

    def __init__(
        self,
        agent: Agent,
        folder: Path,
        domain: Domain,
        env: Mapping[str, Any],
        key: bytes,
        limits: Limits | None = None,
    ) -> None:
        if not hasattr(os, "killpg"):
            raise PlatformError(
                "a submission plays in a process of its own with limits, which needs Linux or "
                "macOS. Here, play the policy yourself: pmoss evaluate"
            )
        self._key, self._limits = key, limits or Limits()
        self._folder = tempfile.TemporaryDirectory(prefix="pmoss-player-")
        self._left = self._limits.start_seconds
        variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        # PYTHONHASHSEED: the same actions each time, as far as it is for us to say.
        variables |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        variables |= {"HOME": self._folder.name, "TMPDIR": self._folder.name}
        program = ["-P", "-X", "faulthandler", "-m", "pmoss_benchmarks.leaderboard.player_process"]
        try:
            self._child = Child(
                [sys.executable, *program, str(os.getpid())],
                _WORDING,
                environment=variables,
                folder=self._folder.name,
                grouped=True,
                max_bytes=_MOST_BYTES,
            )
        except BaseException:
            self._folder.cleanup()
            raise
        start = {
            "word": agent.word,
            "folder": str(folder),
            "executes": bool(agent.module),
            "domain": domain.name,
            "env": dict(env),
            "memory_bytes": self._limits.memory_bytes,
            "threads": self._limits.threads,
            # Decided here: a process that fails in it may not go on without.
            "confines": can_confine(),
        }
        try:
            self.confined = self._is_confined(start)
            methods = self._timed(self._child.receive, "to start")
        except BaseException:
            self.close()
            raise
        # plan() and observe() are called where the policy has them.
        if methods.get("plans") is True:
            self.plan = self._plan
        if methods.get("observes") is True:
            self.observe = self._observe

    def _is_confined(self, start: Mapping[str, Any]) -> bool:
        """What the process says before it loads the policy, which could patch what it says."""
        reply = self._ask(start, "to start")
        if "unconfined" in reply:
            raise PlatformError(
                "the policy is not loaded, for the kernel does not confine its process: "
                f"{reply['unconfined']}"
            )
        return reply.get("confined") is True

    def _ask(self, request: Mapping[str, Any], what: str) -> dict[str, Any]:
        return self._timed(lambda seconds: self._child.ask(request, seconds), what)

    def _timed(self, waits: Callable[[float], dict[str, Any]], what: str) -> dict[str, Any]:
        """A reply that is waited for no longer than the time that is left."""
        began = time.monotonic()
        try:
            reply = waits(max(self._left, 0.0))
        except PolicyError as error:
            if time.monotonic() - began >= self._left:
                raise PolicyError(
                    f"the policy's process took more than its time {what} and was killed: no row "
                    "is written.",
                    error.log,
                ) from error
            raise
        self._left -= time.monotonic() - began
        if "error" in reply:
            raise PolicyError(f"the policy raises {reply['error']}", self._child.log_tail())
        return reply

    def reset(self) -> None:
        """Begins an episode, and its time."""
        self._left = self._limits.episode_seconds
        self._ask({"reset": True}, "in an episode")

    def _plan(self, context: Context, order: Int32Array) -> None:
        self._ask({"plan": pack_context(context, self._key)}, "in an episode")

    def act(self, observation: Any, action_mask: Int8Array) -> int:
        """The checked action for the next step.

        Raises:
            PolicyError: the process died, took too long, raised, or answered what is no action.
        """
        request = {"act": {"observation": pack(observation), "mask": pack(action_mask)}}
        action = self._ask(request, "in an episode").get("action")
        try:
            number = whole_action(action, action_mask.size, "actions are")
        except IllegalActionError as error:
            raise PolicyError(f"the policy answers no action: {error}") from error
        if not action_mask[number]:
            raise PolicyError(f"the policy answers action {number}, which the mask forbids")
        return number

    def _observe(self, reward: float) -> None:
        self._ask({"observe": reward}, "in an episode")

    def close(self) -> None:
        """Ends the process. Safe to repeat."""
        self._child.close()
        self._folder.cleanup()
