"""Pictures of pages as SVG text: the same figures give the same bytes on every host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from pmoss_env.types import Float64Array

#: Colours of kinds of bars. They stay apart for all common kinds of colour blindness.
KINDS = {
    "shared slices": "#9aa5b1",
    "a core for each slice": "#5b8db8",
    "a rule that reads loads": "#7a5195",
    "learned": "#d9730d",
    "search in the model": "#1d2733",
}
_INK, _QUIET, _PAGE = "#1d2733", "#55616e", "#ffffff"
#: Ends of the scale of amounts.
_LITTLE, _MUCH = (0xEA, 0xF1, 0xF8), (0x08, 0x39, 0x6B)
_ROW, _GAP = 17.0, 26.0
_LABEL, _BAR, _VALUE = 118.0, 150.0, 52.0
#: Panels in a row.
_ACROSS = 2
_CELL, _STEP, _NODE_GAP = 9.0, 11.0, 5.0


@dataclass(frozen=True)
class Bar:
    """One bar of a panel.

    Attributes:
        name: what it is of.
        kind: of KINDS.
        value: its length.
        low: of its interval; None: has none.
        high: likewise.
    """

    name: str
    kind: str
    value: float
    low: float | None = None
    high: float | None = None


def draw_bars(panels: Mapping[str, Sequence[Bar]], unit: str) -> str:
    """Panels of bars, two in a row, each on a scale of its own that begins at 0.

    Args:
        panels: bars by the panel's title, of at most two lines.
        unit: of all values.
    """
    width, rows = _LABEL + _BAR + _VALUE, max(map(len, panels.values()))
    lines = 1 + max(title.count("\n") for title in panels)
    height = 10 + 14 * lines + rows * _ROW + _GAP
    across = min(_ACROSS, len(panels))
    parts = []
    for number, (title, bars) in enumerate(panels.items()):
        x, y = number % across * (width + _GAP), 40 + number // across * height
        first, _, second = title.partition("\n")
        parts.append(_text(x, y + 12, first, 11, weight="bold"))
        parts += [_text(x, y + 26, second, 11)] if second else []
        top = max(bar.high or bar.value for bar in bars) or 1.0
        for at, bar in enumerate(bars):
            parts += _bar(bar, x, y + 10 + 14 * lines + at * _ROW, top)
    used = {bar.kind for bars in panels.values() for bar in bars}
    x = 0.0
    for kind, colour in KINDS.items():
        if kind not in used:
            continue
        parts += [_rect(x, 8, 12, 12, colour), _text(x + 17, 18, kind, 11)]
        x += 26 + 5.8 * len(kind)
    parts.append(_text(x, 18, unit, 11, weight="bold"))
    down = -(-len(panels) // across)
    return _svg(across * (width + _GAP) - _GAP, 40 + down * height - _GAP + 8, parts)


def _bar(bar: Bar, x: float, y: float, top: float) -> list[str]:
    scale = _BAR / top
    left, middle = x + _LABEL, y + _ROW / 2
    parts = [
        _text(left - 6, y + 12, bar.name, 11, anchor="end"),
        _rect(left, y + 2, bar.value * scale, _ROW - 5, KINDS[bar.kind]),
    ]
    end = bar.value
    if bar.low is not None and bar.high is not None:
        low, high, end = left + bar.low * scale, left + bar.high * scale, max(bar.value, bar.high)
        path = f"M{low:.1f} {middle:.1f}H{high:.1f}"
        path += "".join(f"M{at:.1f} {middle - 3:.1f}v6" for at in (low, high))
        parts.append(f'<path d="{path}" stroke="{_PAGE}" stroke-width="3"/>')
        parts.append(f'<path d="{path}" stroke="{_INK}" stroke-width="1"/>')
    parts.append(_text(left + end * scale + 5, y + 12, f"{bar.value:.3g}", 11))
    return parts


def draw_maps(
    maps: Mapping[str, Float64Array], rows: Sequence[str], groups: Sequence[int], group: str
) -> str:
    """Heat maps below each other, with one scale for each row over all of them.

    Args:
        maps: (R, C) amounts by the map's title.
        rows: (R,) names.
        groups: (C,) of each column; neighbours of another group stand apart.
        group: what a group is called.
    """
    gaps = np.concatenate([[0], np.cumsum(np.diff(groups) != 0)]) * _NODE_GAP
    columns = _LABEL + 30 + np.arange(len(groups)) * _CELL + gaps
    tops = np.max([values.max(axis=1) for values in maps.values()], axis=0)
    height = 34 + len(rows) * _STEP + 14
    parts = []
    for number, (title, values) in enumerate(maps.items()):
        y = number * height
        parts.append(_text(0, y + 14, title, 12, weight="bold"))
        for at, first in enumerate(np.flatnonzero(np.diff(groups, prepend=-1) != 0).tolist()):
            label = f"{group} {groups[first]}" if at == 0 else str(groups[first])
            parts.append(_text(columns[first], y + 29, label, 9))
        for row, name in enumerate(rows):
            top = y + 34 + row * _STEP
            parts.append(_text(_LABEL + 24, top + 8, name, 9, anchor="end"))
            for column, amount in zip(columns, values[row], strict=True):
                share = amount / tops[row] if tops[row] > 0 else 0.0
                parts.append(_rect(column, top, _CELL - 1, _STEP - 1, _shade(share)))
    end = len(maps) * height
    parts.append(_text(0, end + 10, "of the row's highest:", 10))
    for at in range(11):
        parts.append(_rect(_LABEL + 30 + at * 14, end + 1, 13, 10, _shade(at / 10)))
    parts.append(_text(_LABEL + 30, end + 21, "0", 9))
    parts.append(_text(_LABEL + 30 + 11 * 14, end + 21, "all", 9, anchor="end"))
    width = max(float(columns[-1]) + _CELL, _LABEL + 30 + 11 * 14) + 8
    return _svg(width, end + 28, parts)


def _shade(share: float) -> str:
    step = round(10 * float(share)) / 10
    mixed = (round(a + (b - a) * step) for a, b in zip(_LITTLE, _MUCH, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    pad = 8
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-pad} {-pad} {width + 2 * pad:.0f} '
        f'{height + 2 * pad:.0f}" width="{width + 2 * pad:.0f}" font-family="sans-serif">\n'
        f'<rect x="{-pad}" y="{-pad}" width="100%" height="100%" fill="{_PAGE}"/>\n'
        f"{inside}\n</svg>\n"
    )


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" '
        f'fill="{colour}"/>'
    )


def _text(
    x: float, y: float, words: str, size: int, *, anchor: str = "start", weight: str = "normal"
) -> str:
    colour = _QUIET if size < 10 else _INK
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )
