"""The chip as SVG: core tiles with their slices' loads, the nodes' memories and the links.

Colours are classes (``s0`` .. for amounts, ``d0`` .. for differences) that the page defines for
light and dark. Whatever a colour says, a height, a sign or a number says too.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np

from pmoss_agents.explaining.differences import SATURATED, Comparison, Run, per_core
from pmoss_agents.explaining.reasons import slowed_cores
from pmoss_env.machines import Machine
from pmoss_env.machines.grid import borders, tile_groups
from pmoss_env.types import Int32Array

#: Classes of amounts, and of differences: the middle one is none.
AMOUNTS, DIFFERENCES = 10, 11
_TILE, _GAP, _MARGIN = 34.0, 4.0, 6.0
_GAUGE, _CELL = 56.0, 34.0
_STEP = _TILE + _GAP


def draw_run(comparison: Comparison, run: Run) -> str:
    """One schedule on the chip: an ``<svg>`` element."""
    machine = comparison.machine
    elapsed = run.snapshot.counter("elapsed_us")
    busy = per_core(machine, run.schedule, elapsed)
    worked = per_core(machine, run.schedule, run.snapshot.counter("task_clock_us"))
    slowed = slowed_cores(machine, run)
    # An open load may keep a queue longer than the time it was measured for.
    top = max(1.0, float(busy.max()))
    shared = run.schedule.routing != "core"

    def tile(core: int, x: float, y: float) -> list[str]:
        own = np.flatnonzero(run.schedule.cores == core)
        loads = np.sort(elapsed[own])[::-1] if not shared else busy[core : core + 1]
        what = f"core {core}, node {machine.node_of_core[core]}: busy {busy[core]:.0%}"
        if not shared:
            what += f", {own.size} slice{'s' * (own.size != 1)}"
            away = np.unique(run.schedule.nodes[own][run.schedule.nodes[own] != _node(core)])
            if away.size:
                what += f", some with their data on node {', '.join(map(str, away))}"
        if slowed[core]:
            what += f", takes {busy[core] / worked[core]:.2f} times as long as it works"
        parts = [f"<g><title>{escape(what)}</title>{_rect(x, y, _TILE, _TILE, 'tile')}"]
        bottom = y + _TILE
        for load in loads:
            height = _TILE * float(load) / top
            bottom -= height
            parts.append(_rect(x, bottom, _TILE, height, f"s{_amount(busy[core] / top)}"))
        if not shared:
            parts.append(_text(x + 3, y + 11, str(own.size), "count"))
        if slowed[core]:
            right = x + _TILE
            parts.append(f'<path class="slowed" d="M{right - 10:.1f} {y + 2:.1f}h8l-4 7z"/>')
        return [*parts, "</g>"]

    def _node(core: int) -> int:
        return int(machine.node_of_core[core])

    at = 0 if run is comparison.before else 1
    use = comparison.tables["node"].column("use")[at]
    read, write = (comparison.tables["node"].column(name)[at] for name in ("read", "write"))
    traffic = comparison.tables["link"].column("traffic")[at]
    link_use = comparison.tables["link"].column("use")[at]

    def gauge(node: int, x: float, y: float, width: float) -> tuple[str, str]:
        share, rate = use[node], read[node] + write[node]
        told = _percent(share) if np.isfinite(share) else _gb(rate)
        title = f"memory of node {node}: {_gb(rate)} GB/s, {_percent(share)} of its bandwidth"
        height = _GAUGE * float(np.clip(np.nan_to_num(share), 0, 1))
        filled = _rect(x, y + _GAUGE - height, width, height, f"s{_amount(share)}")
        hot = _rect(x, y, width, _GAUGE, "hot") if share >= SATURATED else ""
        return _titled(title, _rect(x, y, width, _GAUGE, "tile") + filled + hot), told

    def cell(number: int, x: float, y: float) -> str:
        share = link_use[number]
        told = _percent(share) if np.isfinite(share) else _gb(traffic[number])
        place = comparison.tables["link"].places[number]
        title = f"link from {place}: {_gb(traffic[number])} GB/s, {_percent(share)}"
        inside = _rect(x, y, _CELL, _CELL, "tile")
        height = _CELL * float(np.clip(np.nan_to_num(share), 0, 1))
        inside += _rect(x, y + _CELL - height, _CELL, height, f"s{_amount(share)}")
        if share >= SATURATED:
            inside += _rect(x, y, _CELL, _CELL, "hot")
        return _titled(title, inside + _text(x + _CELL / 2, y + 21, told, "value"))

    hot_nodes = [node for node in range(machine.nodes) if use[node] >= SATURATED]
    return _chip(comparison, run.name, tile, gauge, cell, hot_nodes)


def draw_difference(comparison: Comparison) -> str:
    """What the second schedule has more (up, orange) or less (down, blue) of than the first."""
    machine = comparison.machine
    runs = (comparison.before, comparison.after)
    busy = [per_core(machine, run.schedule, run.snapshot.counter("elapsed_us")) for run in runs]
    ones = np.ones(comparison.before.schedule.slices)
    slices = [per_core(machine, run.schedule, ones) for run in runs]
    change, more = busy[1] - busy[0], slices[1] - slices[0]
    counted = all(run.schedule.routing == "core" for run in runs)
    top = max(1e-12, float(np.abs(change).max()))

    def tile(core: int, x: float, y: float) -> list[str]:
        title = f"core {core}: busy {busy[0][core]:.0%} before, {busy[1][core]:.0%} after"
        if counted:
            title += f"; {slices[0][core]:.0f} slices before, {slices[1][core]:.0f} after"
        inside = _rect(x, y, _TILE, _TILE, "tile")
        inside += _up_or_down(x, y, _TILE, _TILE, change[core] / top)
        if counted and more[core]:
            inside += _text(x + 3, y + 11, f"{more[core]:+.0f}", "count")
        return [_titled(title, inside)]

    nodes, links = comparison.tables["node"], comparison.tables["link"]
    use = nodes.column("use")
    rate = [nodes.column("read")[i] + nodes.column("write")[i] for i in (0, 1)]
    traffic, link_use = links.column("traffic"), links.column("use")

    def gauge(node: int, x: float, y: float, width: float) -> tuple[str, str]:
        share = use[1][node] - use[0][node]
        told = _points(share) if np.isfinite(share) else _gb(rate[1][node] - rate[0][node], "+")
        title = (
            f"memory of node {node}: {_gb(rate[0][node])} GB/s before, {_gb(rate[1][node])} after"
        )
        inside = _rect(x, y, width, _GAUGE, "tile") + _up_or_down(x, y, width, _GAUGE, share)
        return _titled(title, inside), told

    def cell(number: int, x: float, y: float) -> str:
        share = link_use[1][number] - link_use[0][number]
        rates = traffic[0][number], traffic[1][number]
        told = _points(share) if np.isfinite(share) else _gb(rates[1] - rates[0], "+")
        title = f"link from {links.places[number]}: {_gb(rates[0])} GB/s before, {_gb(rates[1])}"
        inside = _rect(x, y, _CELL, _CELL, "tile") + _up_or_down(x, y, _CELL, _CELL, share)
        text = _text(x + _CELL / 2, y + 21, told, "value")
        return _titled(f"{title} after", inside + text)

    return _chip(comparison, "difference", tile, gauge, cell, [])


def _chip(
    comparison: Comparison,
    name: str,
    tile: Callable[[int, float, float], list[str]],
    gauge: Callable[[int, float, float, float], tuple[str, str]],
    cell: Callable[[int, float, float], str],
    hot_nodes: list[int],
) -> str:
    machine = comparison.machine
    width = max(machine.cols * _STEP, machine.nodes * 34.0, 260.0) + 2 * _MARGIN
    parts: list[str] = []
    for core in range(machine.cores):
        row, col = divmod(int(machine.tile_of_core[core]), machine.cols)
        x, y = _MARGIN + col * _STEP + _GAP / 2, _MARGIN + row * _STEP + _GAP / 2
        if machine.worker_mask[core]:
            parts += tile(core, x, y)
        else:
            role = machine.role_of_core[core]
            letter = {"router": "R", "sweeper": "S"}.get(role, "·")
            inside = _rect(x, y, _TILE, _TILE, "aside")
            inside += _text(x + _TILE / 2, y + 22, letter, "role")
            parts.append(_titled(f"core {core}: {role}", inside))
    node, socket = tile_groups(machine)
    parts.append(_outline(node, "node"))
    parts.append(_outline(socket, "socket"))
    for number in hot_nodes:
        parts.append(_outline(np.where(node == number, 0, -1).astype(np.int32), "hot"))
    y = machine.rows * _STEP + 2 * _MARGIN
    parts += _gauges(machine, width, y, gauge)
    y += 16 + _GAUGE + 30
    if machine.sockets > 1 and comparison.tables["link"].places:
        parts += _links(comparison, y, cell)
        y += 20 + machine.sockets * (_CELL + 3) + 14
    return (
        f'<svg viewBox="0 0 {width:.0f} {y:.0f}" role="img" aria-label="{escape(name)}">'
        + "".join(parts)
        + "</svg>"
    )


def _gauges(
    machine: Machine,
    width: float,
    y: float,
    gauge: Callable[[int, float, float, float], tuple[str, str]],
) -> list[str]:
    parts = [_text(_MARGIN, y + 11, "memory of each node", "caption")]
    step = (width - 2 * _MARGIN) / machine.nodes
    for node in range(machine.nodes):
        x = _MARGIN + node * step
        drawn, told = gauge(node, x, y + 16, min(step - 3, 60.0))
        middle = x + min(step - 3, 60.0) / 2
        parts += [drawn, _text(middle, y + 16 + _GAUGE + 12, told, "value")]
        parts.append(_text(middle, y + 16 + _GAUGE + 24, f"N{node}", "role"))
    return parts


def _links(comparison: Comparison, y: float, cell: Callable[[int, float, float], str]) -> list[str]:
    parts = [_text(_MARGIN, y + 11, "links, from the row's socket to the column's", "caption")]
    table = comparison.tables["link"]
    for number, place in enumerate(table.places):
        source, target = (int(word) for word in place.removeprefix("socket ").split(" to "))
        x = _MARGIN + 26 + target * (_CELL + 3)
        parts.append(cell(number, x, y + 28 + source * (_CELL + 3)))
    for socket in range(comparison.machine.sockets):
        along = socket * (_CELL + 3) + _CELL / 2
        parts.append(_text(_MARGIN + 26 + along, y + 24, f"S{socket}", "role"))
        parts.append(_text(_MARGIN + 11, y + 32 + along, f"S{socket}", "role"))
    return parts


def _outline(group: Int32Array, kind: str) -> str:
    def at(x: float, y: float) -> str:
        return f"{_MARGIN + (x + 0.5) * _STEP:.1f} {_MARGIN + (y + 0.5) * _STEP:.1f}"

    path = "".join(f"M{at(*a)}L{at(*b)}" for a, b in borders(group))
    return f'<path class="{kind}" d="{path}"/>'


def _up_or_down(x: float, y: float, width: float, height: float, share: float) -> str:
    """A bar from the middle: up for more, down for less, all of the half for a share of 1."""
    if not np.isfinite(share) or share == 0:
        return ""
    length = height / 2 * min(1.0, abs(share))
    top = y + height / 2 - (length if share > 0 else 0)
    middle = DIFFERENCES // 2
    step = max(1, round(min(1.0, abs(share)) * middle))
    return _rect(x, top, width, length, f"d{middle + (step if share > 0 else -step)}")


def _amount(share: float) -> int:
    return int(np.clip(np.nan_to_num(share) * AMOUNTS, 0, AMOUNTS - 1))


def _percent(share: float) -> str:
    return f"{share:.0%}" if np.isfinite(share) else "?"


def _points(share: float) -> str:
    points = round(100 * share)
    return f"{points:+d}" if points else "0"


def _gb(rate: float, sign: str = "") -> str:
    return f"{rate:{sign}.1f}" if np.isfinite(rate) else "?"


def _titled(title: str, inside: str) -> str:
    return f"<g><title>{escape(title)}</title>{inside}</g>"


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    )


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
