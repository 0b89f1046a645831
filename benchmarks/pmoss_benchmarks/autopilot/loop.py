"""The loop of `pmoss autopilot`: an agent proposes, trials decide, and every epoch is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.autopilot.trials import Trial, TriedIndex
from pmoss_datasets.result_files import ResultFile
from pmoss_datasets.stepwise.playing import start
from pmoss_env import __version__
from pmoss_env.backends.frames import pack_snapshot
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.errors import DatasetError, IllegalActionError, PmossError
from pmoss_env.types import CoTenant, HardwareSnapshot

#: What a file of epochs calls itself.
FORMAT = "autopilot-epochs"
#: An agent that raises so often in a row is asked no more.
_PATIENCE = 3


@dataclass(frozen=True)
class Told:
    """What one epoch has come to.

    Attributes:
        epoch: its number, from 1.
        seconds: since the loop began.
        throughput: Mq/s over the epoch, the trial included.
        trial: of what the agent proposed; None where that is nothing.
        cores: (slices,) that serve now.
        pending: slices whose data are under way.
        snapshot: of the rounds after the trial.
        co_tenants: that ran in the epoch: the truth, which no agent sees.
        trouble: what went wrong, in words; empty otherwise.
    """

    epoch: int
    seconds: float
    throughput: float
    trial: Trial | None
    cores: tuple[int, ...]
    pending: int
    snapshot: HardwareSnapshot
    co_tenants: tuple[CoTenant, ...]
    trouble: str

    @property
    def verdict(self) -> str:
        """What became of the proposal, in one word."""
        if self.trial is None:
            return "stayed"
        return "kept" if self.trial.kept else "reverted"

    def row(self, session: int) -> dict[str, Any]:
        """The epoch as plain JSON: what a file of epochs holds.

        Args:
            session: which loop of the file it belongs to.
        """
        plain = {**vars(self), "session": session, "snapshot": pack_snapshot(self.snapshot)}
        plain["trial"] = None if self.trial is None else asdict(self.trial)
        plain["co_tenants"] = [asdict(one) for one in self.co_tenants]
        return plain


def running_env(arguments: Mapping[str, Any], seed: int) -> ContinualSchedulingEnv:
    """The environment on this host, whose index tries every change.

    Args:
        arguments: of ContinualSchedulingEnv, less the backend.
        seed: of the order within trials.

    Raises:
        PmossError: what the environment refuses.
    """
    env = ContinualSchedulingEnv(**{"machine": "host", **arguments, "backend": "hardware"})
    seconds = float(env.arguments.epoch_seconds)
    env.session.live = TriedIndex(env.session.backend, seconds, seed=seed)  # type: ignore[arg-type]
    return env


def fly(env: ContinualSchedulingEnv, policy: Any, seed: int = 0) -> Iterator[Told]:
    """Runs the loop, one epoch per item, until the epochs are over or the reader stops.

    An agent that raises has moved nothing: the last schedule goes on. All threads have ended when
    the iterator has.

    Args:
        env: of running_env().
        policy: what may move slices, as in the environment.
        seed: of the episode, and of the policy's chance.

    Raises:
        BackendError: a thread of the run has failed.
    """
    session, index = env.session, env.session.live
    assert isinstance(index, TriedIndex)
    try:
        observation, info = env.reset(seed=seed)
        start(policy, env, np.random.default_rng((seed, 2)))
        began, failures = time.monotonic(), 0
        while session.running:
            index.last = None
            asked = policy if failures < _PATIENCE else None
            observation, info, trouble = _epoch(env, asked, observation, info)
            failures = failures + 1 if trouble else failures if asked is None else 0
            if asked is not None and failures == _PATIENCE:
                trouble += "; it is asked no more"
            yield Told(
                epoch=session.epoch,
                seconds=time.monotonic() - began,
                throughput=session.throughput,
                trial=index.last,
                cores=tuple(session.cores_seen.tolist()),
                pending=index.copies,
                snapshot=session.snapshot,
                co_tenants=session.conditions(session.epoch).co_tenants,
                trouble=trouble,
            )
    finally:
        env.close()


def _epoch(
    env: ContinualSchedulingEnv, policy: Any, observation: Any, info: Any
) -> tuple[Any, Any, str]:
    """Asks for moves until the epoch has run: (observation, info, what went wrong)."""
    session, trouble = env.session, ""
    number = session.epoch
    leave = env.slices, int(np.argmax(env.machine.worker_tiles))
    while session.epoch == number:
        action: Any = leave
        try:
            if policy is not None and not trouble:
                action = policy.act(observation, info["action_mask"])
        except Exception as error:  # whatever an agent does, queries are served
            trouble = _raised(env, error)
        try:
            observation, _, _, _, info = env.step(action)
        except IllegalActionError as error:
            trouble = _raised(env, error)
    return observation, info, trouble


def _raised(env: ContinualSchedulingEnv, error: Exception) -> str:
    """Takes the moves of the round back: the last schedule goes on."""
    assert env.session.live is not None
    env.session.live.cores = env.session.cores_seen.copy()
    return f"the agent raised {type(error).__name__}: {error}; nothing moves"


class EpochFile:
    """A file that every epoch is appended to: a kill loses none, a full disk stops nothing.

    A file that is there is gone on with, as another session.

    Attributes:
        trouble: why the last epoch was not written; empty if it was.
        lost: epochs that were not written.

    Args:
        path: JSON lines; None: nothing is kept.
        settings: what must agree with a file that is there.

    Raises:
        DatasetError: the file is of other settings, foreign, or in use.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        header = {"format": FORMAT, "version": __version__, "settings": dict(settings)}
        self._file = ResultFile(path, header, ("session", "epoch"))
        self._session = 1 + max((key[0] for key in self._file.rows), default=0)
        self._file.rows.clear()  # they stay in the file
        self.trouble, self.lost = "", 0

    def append(self, told: Told) -> None:
        """Keeps an epoch, or says in ``trouble`` why not."""
        try:
            self._file.append(told.row(self._session))
            self.trouble = ""
        except (DatasetError, OSError) as error:
            self.lost += 1
            self.trouble = f"{error}; the loop goes on without"
        self._file.rows.clear()

    def close(self) -> None:
        """Brings it to the disk, if there is room."""
        with suppress(OSError, PmossError):
            self._file.close()
