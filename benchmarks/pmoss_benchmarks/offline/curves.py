"""Learning curves: the validation score of each checkpoint, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_env.pictures import new_figure, write_png


def draw_curves(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws one panel per task: means over seeds, shaded from the lowest to the highest.

    Nothing is written if no cell has a curve.

    Args:
        cells: facts of the cells of one track.
        path: PNG file.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    learned = [cell for cell in cells if "curve" in cell]
    if not learned:
        return
    tasks = sorted({cell["task"] for cell in learned})
    agents = sorted({cell["agent"] for cell in learned})
    figure = new_figure(4.2 * len(tasks), 3.6)
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        for number, agent in enumerate(agents):
            mine = [c for c in learned if (c["task"], c["agent"]) == (task, agent)]
            curves = [np.array(cell["curve"]) for cell in mine]
            if not curves or len({curve.shape for curve in curves}) > 1:
                continue
            scores = np.array([curve[:, 1] for curve in curves])
            # Agents count updates of different sizes: what they share is the end.
            share = 100 * curves[0][:, 0] / curves[0][-1, 0]
            axis.plot(share, scores.mean(axis=0), "o-", color=f"C{number}", label=agent, ms=3)
            axis.fill_between(
                share, scores.min(axis=0), scores.max(axis=0), color=f"C{number}", alpha=0.15
            )
        axis.axhline(0, color="0.7", lw=0.8)
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_title(task, fontsize=8)
        axis.set_xlabel("% of the training")
    axes[0].set_ylabel("score on validation episodes")
    axes[-1].legend(fontsize=7)
    write_png(figure, path)
