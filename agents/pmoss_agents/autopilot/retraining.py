"""Retraining while the loop goes on: a process of its own, which yields to everything else.

The loop starts it, looks after it once an epoch, and never waits for it. It learns from the epochs
that were written so far, but for the last quarter. On that quarter the new agent is held against
the present one. Whatever happens to it, the loop goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pmoss_agents import checkpoints
from pmoss_agents.continual.pace import Pace, histories
from pmoss_datasets.continual.epoch_log import log_dataset
from pmoss_env.errors import DatasetError, PmossError
from pmoss_env.processes import idle_command
from pmoss_env.types import Float64Array

#: The part of the epochs, the latest ones, that a new agent does not learn from.
_HELD_OUT = 0.25
#: Of these there must be so many.
_LEAST = 8
#: A new agent is better if its errors are smaller by so many standard errors.
_SURE = 2.0


@dataclass(frozen=True)
class Event:
    """The result of a retraining, or what became of the index between two epochs.

    Attributes:
        kind: "swapped", "stayed" or "failed"; "reloaded" of an index.
        text: the same in words.
        epochs: that it could learn from.
        held_out: epochs that both agents were judged by.
        error: of the new agent on them: mean distance of the expected share of a core's time.
        present: of the present agent, or of the belief that nothing changes.
    """

    kind: str
    text: str
    epochs: int = 0
    held_out: int = 0
    error: float = 0.0
    present: float = 0.0


class Retraining:
    """Retrains now and then; call it once an epoch.

    Args:
        log: file of epochs, which is being written.
        every: epochs between two retrainings.
    """

    def __init__(self, log: Path, every: int) -> None:
        self._log, self._every = log, every
        self.agent = log.with_name(f"{log.name}.agent{checkpoints.SUFFIX}")
        self._new = log.with_name(f"{log.name}.new{checkpoints.SUFFIX}")
        self._waited = 0
        self._flies_own = False
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, events: list[Event]) -> Pace | None:
        """The new agent where it is better; what has happened goes to the events."""
        self._waited += 1
        if self._process is not None:
            return self._finished(events)
        if self._waited > self._every:
            self._waited = 0
            try:
                self._start()
            except OSError as error:
                events.append(Event("failed", f"retraining did not begin: {error}"))
        return None

    def _start(self) -> None:
        # What an earlier session has learned does not fly in this one before it is swapped in.
        present = self.agent if self._flies_own else self.agent.with_name(f"{self._log.name}.none")
        # The process may be killed: its parent removes what it leaves.
        self._folder = tempfile.mkdtemp(prefix="pmoss-retraining-")
        self._process = subprocess.Popen(
            idle_command(__name__, self._log, present, self._new, self._folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _finished(self, events: list[Event]) -> Pace | None:
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return None
        # One line: it fits into the pipe, so that nothing waits for it to be read.
        line, _ = self._process.communicate()
        self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError):
            how = f"signal {-status}" if status < 0 else f"status {status}"
            event = Event("failed", f"retraining ended with {how}; the agent stays")
        agent = None
        if event.kind == "swapped":
            try:
                os.replace(self._new, self.agent)
                agent = Pace.from_checkpoint(self.agent, *checkpoints.read(self.agent))
                self._flies_own = True
            except (OSError, PmossError) as error:
                event = Event("failed", f"the new agent cannot be read: {error}; the other stays")
        events.append(event)
        return agent

    def close(self) -> None:
        """Ends a retraining that still runs, and removes what it left. Safe to repeat."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            self._new.unlink(missing_ok=True)


def split(histories: Sequence[Float64Array]) -> tuple[list[Float64Array], list[int]]:
    """What is learned from, and how many epochs after the first one of each episode that is.

    Args:
        histories: (epochs, workers) of each episode, in their order.
    """
    total = sum(len(history) - 1 for history in histories)
    left = total - int(total * _HELD_OUT)
    learned, first = [], []
    for history in histories:
        first.append(min(len(history) - 1, left))
        left -= first[-1]
        if first[-1] > 0:
            learned.append(history[: first[-1] + 1])
    return learned, first


def retrain(log: Path, present: Path, new: Path, folder: Path) -> Event:
    """Learns, judges, and writes the new agent if it is better.

    Args:
        log: file of epochs.
        present: checkpoint of the present agent; where there is none it believes that nothing
            changes.
        new: checkpoint to write.
        folder: for what is only needed meanwhile.

    Raises:
        PmossError: there is nothing to learn from.
    """
    played = histories(log_dataset(log, folder / "epochs"))
    learned, first = split(played)
    total = sum(len(history) - 1 for history in played)
    held_out = total - sum(first)
    if held_out < _LEAST or not learned:
        raise DatasetError(f"{total} epochs are too few to learn from and to judge by")
    candidate = Pace()
    candidate.learn(learned)
    # Without a regression it believes that nothing changes.
    before = Pace()
    if present.exists():
        before = Pace.from_checkpoint(present, *checkpoints.read(present))
    errors, others = candidate.errors(played, first), before.errors(played, first)
    gains = others - errors
    sure = float(gains.mean()) > _SURE * float(gains.std(ddof=1)) / np.sqrt(gains.size)
    if sure:
        candidate.save(new)
    words = "is better and takes over" if sure else "is not surely better; the other stays"
    error, other = float(errors.mean()), float(others.mean())
    return Event(
        "swapped" if sure else "stayed",
        f"retrained on {total - held_out} epochs; on {held_out} others the new agent errs by "
        f"{error:.3f}, the present one by {other:.3f}: it {words}",
        total,
        held_out,
        error,
        other,
    )


def main(words: Sequence[str]) -> None:
    """The process; it prints what came of it.

    Args:
        words: log, present agent, new agent, and a folder.
    """
    try:
        event = retrain(*map(Path, words))
    except PmossError as error:
        event = Event("failed", f"retraining: {error}; the agent stays")
    print(json.dumps(asdict(event)))


if __name__ == "__main__":
    main(sys.argv[1:])
