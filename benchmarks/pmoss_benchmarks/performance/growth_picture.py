"""A picture of how costs grow: one panel per size, one line per cost, with its exponent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pmoss_env.pictures import new_figure, write_png

#: Names of growth.grown(): a cost at one size, and its exponent.
_AT_A_SIZE = re.compile(r"(?P<what>.+), (?P<size>\d+) (?P<by>\w+)")
_EXPONENT = re.compile(r"(?P<what>.+), growth with (?P<by>\w+)")
#: Parts of a report that hold such figures.
PARTS = ("growth", "growth-index")


def growth_of(report: Mapping[str, Any]) -> dict[str, dict[str, list[tuple[int, Any]]]]:
    """Costs by what their size counts, such as "slices", and by name.

    Args:
        report: content of a report file.

    Returns:
        ``[by][what]``: (size, figure) of each size; last (0, figure) of the exponent.
    """
    found: dict[str, dict[str, list[tuple[int, Any]]]] = {}
    for figure in _figures(report):
        if match := _EXPONENT.fullmatch(figure["name"]):
            size = 0
        elif match := _AT_A_SIZE.fullmatch(figure["name"]):
            size = int(match["size"])
        else:
            continue
        found.setdefault(match["by"], {}).setdefault(match["what"], []).append((size, figure))
    return found


def draw_growth(report: Mapping[str, Any], path: Path) -> None:
    """Writes the picture.

    Args:
        report: content of a report file with one of PARTS.
        path: a .png file.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    growth = growth_of(report)
    figure = new_figure(15, 4.0 * ((len(growth) + 1) // 2))
    panels = figure.subplots((len(growth) + 1) // 2, 2, squeeze=False).flat
    for axes, (by, costs) in zip(panels, growth.items(), strict=False):
        for number, (what, rows) in enumerate(costs.items()):
            *at_sizes, (_, exponent) = rows
            sizes = [size for size, _ in at_sizes]
            medians, low, high = (
                [one[key] for _, one in at_sizes] for key in ("median", "low", "high")
            )
            label = f"{exponent['median']:.2f}: {what}"
            # Ten colours are told apart; more lines are dashed.
            style = "-" if number < 10 else "--"
            (line,) = axes.plot(sizes, medians, style, marker="o", markersize=4, label=label)
            axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.2)
        axes.set(xscale="log", yscale="log")
        axes.set_title(f"by {by}", loc="left", fontsize=10)
        axes.set_xlabel(by, fontsize=9)
        axes.set_ylabel("us, CPU time of one thread", fontsize=9)
        axes.grid(visible=True, which="major", alpha=0.3)
        legend = {"fontsize": 8, "frameon": False, "title": "exponent", "title_fontsize": 8}
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), alignment="left", **legend)
    for axes in panels:
        axes.set_axis_off()
    write_png(figure, path)


def _figures(report: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for part in PARTS:
        yield from report["parts"].get(part, {"figures": ()})["figures"]
