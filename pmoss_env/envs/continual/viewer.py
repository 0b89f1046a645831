"""Pictures of a running index: the chip with the load of the last epoch, and a timeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.baselines import slice_load
from pmoss_env.envs.continual.session import Session
from pmoss_env.envs.spatial import viewer
from pmoss_env.pictures import new_figure, pixels_of

_BARS = " ▁▂▃▄▅▆▇█"
#: Epochs in a line of text.
_WIDTH = 80


def show(session: Session, mode: str) -> Any:
    """Renders a state of an episode.

    Args:
        mode: "ansi" for text, or "rgb_array" for an (height, width, 3) uint8 image.
    """
    return as_text(session) if mode == "ansi" else as_image(session)


def _title(session: Session) -> str:
    return (
        f"epoch {session.epoch} of {session.arguments.epochs}: {session.throughput:.1f} Mq/s, "
        f"p99 {session.p99_us:.0f} us, {session.moves[-1]} moved, "
        f"{session.index.copies} under way, {session.moved_gb:.2f} GB"
    )


def as_text(session: Session) -> str:
    """The chip, and one bar per epoch, the latest last."""
    machine = session.machine
    schedule = machine.local_schedule(session.index.cores)
    load = np.bincount(session.cores_seen, slice_load(session.snapshot), machine.cores)
    chip = viewer.as_text(machine, schedule, load, _title(session))
    line, top = session.timeline[-_WIDTH:], max(session.timeline)
    bars = "".join(_BARS[round(x / top * (len(_BARS) - 1)) if top > 0 else 0] for x in line)
    return f"{chip}\n{bars}\none bar per epoch: throughput, █ = {top:.1f} Mq/s"


def as_image(session: Session) -> npt.NDArray[np.uint8]:
    """The chip above a timeline of throughput and moves, as an (height, width, 3) uint8 image."""
    machine = session.machine
    width = max(6.4, 0.62 * machine.cols + 2.2)
    figure = new_figure(width, 0.62 * machine.rows + 3.4)
    chip, timeline = figure.subplots(2, 1, height_ratios=[max(2, machine.rows), 3])
    schedule = machine.local_schedule(session.index.cores)
    load = np.bincount(session.cores_seen, slice_load(session.snapshot), machine.cores)
    viewer.draw_placement(chip, machine, schedule, load, _title(session))
    epochs = np.arange(len(session.timeline))
    timeline.plot(epochs, session.timeline, color=viewer.INK, linewidth=1.4)
    timeline.set_xlim(0, session.arguments.epochs)
    timeline.set_ylim(0, 1.1 * max(session.timeline))
    timeline.set_xlabel("epoch", fontsize=9, color=viewer.INK)
    timeline.set_ylabel("Mq/s", fontsize=9, color=viewer.INK)
    moves = timeline.twinx()
    moves.bar(epochs, session.moves, color=viewer.NODE_INK, alpha=0.35, width=0.8)
    moves.set_ylim(0, max(1, 2 * session.arguments.moves_per_epoch))
    moves.set_ylabel("slices moved", fontsize=9, color=viewer.NODE_INK)
    return pixels_of(figure)
