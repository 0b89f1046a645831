"""The chip as SVG: core tiles with their slices' loads, the nodes' memories and the links.

Colours are classes (``s0`` .. for amounts, ``d0`` .. for differences) that the page defines for
light and dark. Whatever a colour says, a height, a sign or a number says too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

import numpy as np

from pmoss_agents.explaining.differences import SATURATED, Comparison, Kind, Run, per_core
from pmoss_agents.explaining.reasons import slowed_cores
from pmoss_env.machines.grid import borders, tile_groups
from pmoss_env.types import Int32Array

#: Classes of amounts, and of differences: the middle one is none.
AMOUNTS, DIFFERENCES = 10, 11
_TILE, _GAP, _MARGIN = 34.0, 4.0, 6.0
_GAUGE, _CELL = 56.0, 34.0
_STEP = _TILE + _GAP
#: Between two chips beside each other, and above them.
_APART, _HEAD = 24.0, 26.0


#: A memory or a link: what it is called, what it shows, and what fills a box (x, y, w, h).
_Box = tuple[str, str, Callable[[float, float, float, float], str]]


@dataclass(frozen=True)
class Drawing:
    """Elements of SVG, and how much room they take."""

    inside: str
    width: float
    height: float

    def as_svg(self, name: str, more: str = "") -> str:
        """An ``<svg>`` element with this label, and ``more`` attributes."""
        return (
            f'<svg {more}viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" '
            f'aria-label="{escape(name)}">{self.inside}</svg>'
        )


def draw_both(comparison: Comparison, style: str) -> str:
    """Both schedules beside each other: the text of an SVG file with this CSS."""
    left, right = (_draw(comparison, run) for run in comparison.runs)
    parts = []
    for number, (run, drawing) in enumerate(zip(comparison.runs, (left, right), strict=True)):
        x = number * (left.width + _APART)
        caption = f"{run.name}: {run.snapshot.throughput:.0f} million queries per second"
        place = f'x="{x:.0f}" y="{_HEAD:.0f}" width="{drawing.width:.0f}" '
        parts += [_text(x + _MARGIN, 16, caption, "head"), drawing.as_svg(run.name, place)]
    whole = Drawing(
        f"<style>{style}</style>{''.join(parts)}",
        left.width + _APART + right.width,
        _HEAD + max(left.height, right.height),
    )
    names = " and ".join(run.name for run in comparison.runs)
    return whole.as_svg(names, 'xmlns="http://www.w3.org/2000/svg" ') + "\n"


def draw_run(comparison: Comparison, run: Run) -> str:
    """One schedule on the chip: an ``<svg>`` element."""
    return _draw(comparison, run).as_svg(run.name)


def _draw(comparison: Comparison, run: Run) -> Drawing:
    machine, schedule = comparison.machine, run.schedule
    elapsed = run.snapshot.counter("elapsed_us")
    busy = per_core(machine, schedule, elapsed)
    worked = per_core(machine, schedule, run.snapshot.counter("task_clock_us"))
    slowed = slowed_cores(machine, run)
    # An open load may keep a queue longer than the time it was measured for.
    top = max(1.0, float(busy.max()))
    shared = schedule.routing != "core"

    def tile(core: int, x: float, y: float) -> str:
        own = np.flatnonzero(schedule.cores == core)
        node = machine.node_of_core[core]
        title = f"core {core}, node {node}: busy {busy[core]:.0%}"
        loads = busy[core : core + 1]
        if not shared:
            loads = np.sort(elapsed[own])[::-1]
            title += f", {own.size} slice{'s' * (own.size != 1)}"
            away = np.unique(schedule.nodes[own][schedule.nodes[own] != node])
            if away.size:
                title += f", some with their data on node {', '.join(map(str, away))}"
        if slowed[core]:
            title += f", takes {busy[core] / worked[core]:.2f} times as long as it works"
        inside, bottom = "", y + _TILE
        for load in loads:
            height = _TILE * float(load) / top
            bottom -= height
            inside += _rect(x, bottom, _TILE, height, f"s{_amount(busy[core] / top)}")
        if not shared:
            inside += _text(x + 3, y + 11, str(own.size), "count")
        if slowed[core]:
            right = x + _TILE
            inside += f'<path class="slowed" d="M{right - 10:.1f} {y + 2:.1f}h8l-4 7z"/>'
        return _tile(title, x, y, _TILE, _TILE, inside)

    side = 0 if run is comparison.before else 1

    def box(name: str, rates: Sequence[float], uses: Sequence[float]) -> _Box:
        rate, use = _gb(rates[side]), _percent(uses[side])
        label = use if np.isfinite(uses[side]) else rate
        return f"{name}: {rate} GB/s, {use} of its bandwidth", label, partial(_level, uses[side])

    use = comparison.tables["node"].column("use")[side]
    return _chip(comparison, tile, box, np.flatnonzero(use >= SATURATED).tolist())


def draw_difference(comparison: Comparison) -> str:
    """Where the second schedule has more (up, orange) or less (down, blue) than the first."""
    machine, runs = comparison.machine, comparison.runs
    busy = [per_core(machine, run.schedule, run.snapshot.counter("elapsed_us")) for run in runs]
    ones = np.ones(runs[0].schedule.slices)
    slices = [per_core(machine, run.schedule, ones) for run in runs]
    change, more = busy[1] - busy[0], slices[1] - slices[0]
    counted = all(run.schedule.routing == "core" for run in runs)
    top = max(1e-12, float(np.abs(change).max()))

    def tile(core: int, x: float, y: float) -> str:
        title = f"core {core}: busy {busy[0][core]:.0%} before, {busy[1][core]:.0%} after"
        inside = _up_or_down(change[core] / top, x, y, _TILE, _TILE)
        if counted:
            title += f"; {slices[0][core]:.0f} slices before, {slices[1][core]:.0f} after"
            if more[core]:
                inside += _text(x + 3, y + 11, f"{more[core]:+.0f}", "count")
        return _tile(title, x, y, _TILE, _TILE, inside)

    def box(name: str, rates: Sequence[float], uses: Sequence[float]) -> _Box:
        title = f"{name}: {_gb(rates[0])} GB/s before, {_gb(rates[1])} after"
        share = uses[1] - uses[0]
        if not np.isfinite(share):
            label = _gb(rates[1] - rates[0], "+")
        else:
            label = f"{round(100 * share):+d}" if round(100 * share) else "0"
        return title, label, partial(_up_or_down, share)

    return _chip(comparison, tile, box, []).as_svg("difference")


def _traffic(
    comparison: Comparison, kind: Kind
) -> Iterator[tuple[str, Sequence[float], Sequence[float]]]:
    """The memories or links: name, GB/s and share of the bandwidth, both before and after."""
    table = comparison.tables[kind]
    names = ("read", "write") if kind == "node" else ("traffic",)
    rates = np.sum([table.column(name) for name in names], axis=0).T
    word = "memory of" if kind == "node" else "link from"
    for place, rate, use in zip(
        table.places, rates, np.transpose(table.column("use")), strict=True
    ):
        yield f"{word} {place}", rate, use


def _chip(
    comparison: Comparison,
    tile: Callable[[int, float, float], str],
    box: Callable[[str, Sequence[float], Sequence[float]], _Box],
    hot_nodes: Sequence[int],
) -> Drawing:
    """The chip.

    Args:
        tile: draws a worker's tile, of its core and the tile's upper left corner.
        box: gives the box of a memory or link, of what _traffic() says of it.
        hot_nodes: nodes that get a frame.
    """
    machine = comparison.machine
    nodes, links = (
        [box(*each) for each in _traffic(comparison, kind)] for kind in ("node", "link")
    )
    width = max(machine.cols * _STEP, machine.nodes * 34.0, 260.0) + 2 * _MARGIN
    parts: list[str] = []
    for core in range(machine.cores):
        row, col = divmod(int(machine.tile_of_core[core]), machine.cols)
        x, y = _MARGIN + col * _STEP + _GAP / 2, _MARGIN + row * _STEP + _GAP / 2
        if machine.worker_mask[core]:
            parts.append(tile(core, x, y))
        else:
            role = machine.role_of_core[core]
            letter = {"router": "R", "sweeper": "S"}.get(role, "·")
            inside = _text(x + _TILE / 2, y + 22, letter, "role")
            parts.append(_tile(f"core {core}: {role}", x, y, _TILE, _TILE, inside, "aside"))
    node, socket = tile_groups(machine)
    parts += [_outline(node, "node"), _outline(socket, "socket")]
    parts += [_outline(np.where(node == hot, 0, -1).astype(np.int32), "hot") for hot in hot_nodes]
    y = machine.rows * _STEP + 2 * _MARGIN
    parts += _gauges(nodes, width, y)
    y += 16 + _GAUGE + 30
    if machine.sockets > 1 and links:
        parts += _links(comparison, links, y)
        y += 20 + machine.sockets * (_CELL + 3) + 14
    return Drawing("".join(parts), width, y)


def _gauges(boxes: Sequence[_Box], width: float, y: float) -> Iterator[str]:
    yield _text(_MARGIN, y + 11, "memory of each node", "caption")
    step = (width - 2 * _MARGIN) / len(boxes)
    for node, (title, label, fill) in enumerate(boxes):
        size = (_MARGIN + node * step, y + 16, min(step - 3, 60.0), _GAUGE)
        middle = size[0] + size[2] / 2
        yield _tile(title, *size, fill(*size))
        yield _text(middle, y + 16 + _GAUGE + 12, label, "value")
        yield _text(middle, y + 16 + _GAUGE + 24, f"N{node}", "role")


def _links(comparison: Comparison, boxes: Sequence[_Box], y: float) -> Iterator[str]:
    yield _text(_MARGIN, y + 11, "links, from a row to a column", "caption")
    step = _CELL + 3
    for place, (title, label, fill) in zip(comparison.tables["link"].places, boxes, strict=True):
        source, target = (int(word) for word in place.removeprefix("socket ").split(" to "))
        size = (_MARGIN + 26 + target * step, y + 28 + source * step, _CELL, _CELL)
        inside = fill(*size) + _text(size[0] + _CELL / 2, size[1] + 21, label, "value")
        yield _tile(title, *size, inside)
    for socket in range(comparison.machine.sockets):
        along = socket * step + _CELL / 2
        yield _text(_MARGIN + 26 + along, y + 24, f"S{socket}", "role")
        yield _text(_MARGIN + 11, y + 32 + along, f"S{socket}", "role")


def _level(share: float, x: float, y: float, width: float, height: float) -> str:
    """A box that is filled from below; one near its end has a frame."""
    filled = height * float(np.clip(np.nan_to_num(share), 0, 1))
    hot = _rect(x, y, width, height, "hot") if share >= SATURATED else ""
    return _rect(x, y + height - filled, width, filled, f"s{_amount(share)}") + hot


def _up_or_down(share: float, x: float, y: float, width: float, height: float) -> str:
    """A bar from the middle: up for more, down for less, all of the half for a share of 1."""
    if not np.isfinite(share) or share == 0:
        return ""
    length = height / 2 * min(1.0, abs(share))
    top = y + height / 2 - (length if share > 0 else 0)
    middle = DIFFERENCES // 2
    step = max(1, round(min(1.0, abs(share)) * middle))
    return _rect(x, top, width, length, f"d{middle + (step if share > 0 else -step)}")


def _outline(group: Int32Array, kind: str) -> str:
    def place(x: float, y: float) -> str:
        return f"{_MARGIN + (x + 0.5) * _STEP:.1f} {_MARGIN + (y + 0.5) * _STEP:.1f}"

    path = "".join(f"M{place(*a)}L{place(*b)}" for a, b in borders(group))
    return f'<path class="{kind}" d="{path}"/>'


def _amount(share: float) -> int:
    return int(np.clip(np.nan_to_num(share) * AMOUNTS, 0, AMOUNTS - 1))


def _percent(share: float) -> str:
    return f"{share:.0%}" if np.isfinite(share) else "?"


def _gb(rate: float, sign: str = "") -> str:
    return f"{rate:{sign}.1f}" if np.isfinite(rate) else "?"


def _tile(
    title: str,
    x: float,
    y: float,
    width: float,
    height: float,
    inside: str,
    kind: str = "tile",
) -> str:
    """A box with its text, and a title that the pointer shows."""
    box = _rect(x, y, width, height, kind)
    return f"<g><title>{escape(title)}</title>{box}{inside}</g>"


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    )


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
