"""Learning curves: scores of checkpoints by task, and returns of those that learn by playing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pmoss_env.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 4


def draw_curves(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws one panel per task: means over seeds, shaded from the lowest to the highest.

    Panels stand in rows of ``_COLUMNS``, with one legend below all.

    Args:
        cells: facts of the cells of one track.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    learned = [cell for cell in cells if "curve" in cell]
    tasks = sorted({cell["task"] for cell in learned})
    agents = sorted({cell["agent"] for cell in learned})
    columns = min(_COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = new_figure(4.2 * columns, 3.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axis in panels.flat[len(tasks) :]:
        axis.set_axis_off()
    named: dict[str, Any] = {}
    for axis, task in zip(panels.flat, tasks, strict=False):
        for number, agent in enumerate(agents):
            mine = [c for c in learned if (c["task"], c["agent"]) == (task, agent)]
            curves = [np.array(cell["curve"]) for cell in mine]
            if not curves or len({curve.shape for curve in curves}) > 1:
                continue
            scores = np.array([curve[:, 1] for curve in curves])
            # Agents count updates of different sizes: what they share is the end.
            share = 100 * curves[0][:, 0] / curves[0][-1, 0]
            mean = scores.mean(axis=0)
            # Wide ones below narrow ones: curves that lie on each other are all seen.
            wide = 1.0 + 2.5 * (len(agents) - 1 - number) / max(1, len(agents) - 1)
            (named[agent],) = axis.plot(share, mean, "o-", color=f"C{number}", ms=3, lw=wide)
            axis.fill_between(
                share, scores.min(axis=0), scores.max(axis=0), color=f"C{number}", alpha=0.15
            )
        axis.axhline(0, color="0.7", lw=0.8)
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_title(task, fontsize=8)
        axis.set_xlabel("% of the training")
    for row in panels:
        row[0].set_ylabel("score on validation episodes")
    # Below the panels, where it covers no curve.
    figure.legend(named.values(), named.keys(), fontsize=8, ncols=4, loc="outside lower center")
    return figure


def learned_by_playing(cells: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The cells of agents that learned by playing and logged steps and returns, by task."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        rows = cell.get("training", {}).get("played", [])
        # Agents of other domains tell updates alone.
        if rows and all({"steps", "return"} <= set(row) for row in rows):
            found.setdefault(cell["task"], []).append(cell)
    return found


def draw_played(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws one panel per task: mean returns over the steps of the environment, a line per run.

    Args:
        cells: facts of the cells of one track.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tasks = learned_by_playing(cells)
    agents = sorted({cell["agent"] for of_task in tasks.values() for cell in of_task})
    figure = new_figure(6.4, 3.4 * len(tasks))
    panels = figure.subplots(len(tasks), 1, squeeze=False).flat
    for axis, (task, of_task) in zip(panels, sorted(tasks.items()), strict=True):
        for cell in of_task:
            rows = cell["training"]["played"]
            axis.plot(
                [row["steps"] for row in rows],
                [row["return"] for row in rows],
                color=f"C{agents.index(cell['agent'])}",
                label=cell["agent"] if cell["seed"] == 0 else None,
            )
        axis.set_title(task, fontsize=9)
        axis.set_xlabel("steps of the environment")
        axis.set_ylabel("return while exploring, Mq/s")
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=8, frameon=False, loc="lower right")
    return figure
