"""The loop of every fit(): update after update, with progress, checkpoints and Ctrl-C.

An update has two parts. The first, the call of ``step``, prepares it: it may be interrupted at any
place, for it changes no weights. It returns the second part, which does change them. Ctrl-C, and
the other signals that end a command, wait until that part has ended and is reported. A second one
cuts it: the weights then belong to no update, so nothing is saved.
"""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from pmoss_env.errors import CheckpointError
from pmoss_env.processes import ENDING

#: progress(done, total, metrics) after every update of a fit.
Progress = Callable[[int, int, Mapping[str, float]], None]
Metrics = dict[str, float]
#: Prepares the update of a number, from 0; what it returns changes the weights.
Step = Callable[[int], Callable[[], Metrics]]


@dataclass(frozen=True)
class Course:
    """What train() runs through.

    Attributes:
        step: makes an update, see the module's docstring. Update u must depend on the agent's seed
            and on u alone: a run that is resumed from a checkpoint then ends with the same weights
            as one that was never stopped.
        total: updates at the end, those made before included.
        judge: asked for further metrics every ``save_every`` updates, and after the last one. Its
            argument is the path of the checkpoint, if one is written.
        metrics: those of a training that has nothing left to do.
        is_over: asked after every update, whether it shall be the last.
    """

    step: Step
    total: int
    save_every: int = 1
    judge: Callable[[str | Path | None], Metrics] | None = None
    metrics: Metrics = field(default_factory=dict)
    is_over: Callable[[], bool] = lambda: False


def train(
    agent: Any, course: Course, progress: Progress | None, checkpoint: str | Path | None
) -> Metrics:
    """Makes updates until there are ``course.total``.

    Args:
        agent: goes on from its ``updates``, and has ``save(path)``.
        checkpoint: where to save now and then, at the end, and when interrupted.

    Returns:
        The last update's metrics.

    Warns:
        RuntimeWarning: there is no update left to make.
    """
    metrics = course.metrics
    torn = False
    last = agent.updates >= course.total
    if last:
        warnings.warn(
            f"{agent.name} has made all of its {agent.updates} updates: fit() changes nothing",
            RuntimeWarning,
            stacklevel=3,
        )
    try:
        while not last:
            change = course.step(agent.updates)
            with _signals_held_back() as waiting:
                torn = True
                metrics = change()
                agent.updates += 1
                torn = False
            last = agent.updates >= course.total or course.is_over()
            due = agent.updates % course.save_every == 0
            if course.judge is not None and (last or (due and not waiting)):
                metrics |= course.judge(checkpoint)
            if progress is not None:
                progress(agent.updates, course.total, metrics)
            if waiting:
                waiting.pop()()
            if checkpoint is not None and (due or last):
                agent.save(checkpoint)
    except KeyboardInterrupt:
        if checkpoint is not None and not torn:
            agent.save(checkpoint)
        raise
    return metrics


@contextmanager
def _signals_held_back() -> Iterator[list[Callable[[], Any]]]:
    """Holds back the first signal that ends a command; yields a list that gets what delivers it.

    Where the body raises, it is delivered in place of that error. Python hands signals to the main
    thread alone: in another one there is nothing to hold.
    """
    waiting: list[Callable[[], Any]] = []
    in_main = threading.current_thread() is threading.main_thread()
    handlers = {n: h for n in ENDING if in_main and callable(h := signal.getsignal(n))}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def hold(number: int, frame: FrameType | None) -> None:
        restore()
        waiting.append(partial(handlers[signal.Signals(number)], number, frame))

    for number in handlers:
        signal.signal(number, hold)
    try:
        yield waiting
    except BaseException:
        restore()
        if waiting:
            waiting.pop()()
        raise
    restore()


def check_loss(agent: str, update: int, loss: float) -> None:
    """Raises CheckpointError unless the loss is finite; fit() ends with it."""
    if not math.isfinite(loss):
        raise CheckpointError(
            f"{agent}: the loss of update {update} is not finite: training diverged; try a lower "
            "learning_rate"
        )


def cosine(turn: float) -> float:
    """A share of the learning rate: falls as a cosine from 1 to a tenth.

    Args:
        turn: from 0 at the beginning to pi at the end.
    """
    return 0.1 + 0.45 * (1 + math.cos(turn))
