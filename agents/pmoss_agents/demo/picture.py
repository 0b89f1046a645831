"""Bars of policies, such as the demo's, in the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pmoss_agents.demo.plan import AGENT, SEARCH, TUNED, DemoResult
from pmoss_env.html_page import colour_rules

#: Of a bar's box, in pixels: all of it, its label, the room behind the bar, and a row.
_WIDTH, _LABEL, _VALUE, _ROW = 800, 290, 110, 36
#: (light, dark) by class of a bar.
_COLOURS = {
    "rule": ("#9aa7b8", "#6b7887"),
    "learned": ("#d9730d", "#f5a04c"),
    "search": ("#4f7cac", "#6db3f2"),
}
#: Its names keep it apart from the chips of the same page.
_STYLE = """
.bars text { font: 15px system-ui, sans-serif; fill: var(--ink); dominant-baseline: central;
  text-anchor: start; }
.bars text.name { text-anchor: end; } .bars text.rate { font-weight: 600; }
.bars text.unit { font-size: 13px; fill: var(--quiet); }
.bars line { stroke: var(--ink); stroke-width: 1.5; }
.bars .rule { fill: var(--rule); } .bars .learned { fill: var(--learned); }
.bars .search { fill: var(--search); }
"""


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        label: at its left.
        value: its length, from 0.
        kind: "rule", "learned" or "search": its colour.
        low: lower end of its interval, where it has one.
        high: upper end.
    """

    label: str
    value: float
    kind: str = "rule"
    low: float | None = None
    high: float | None = None


def draw_demo(result: DemoResult) -> str:
    """The text of an SVG file: five bars, the means over all episodes.

    With enough episodes they have 95 % intervals.
    """
    kinds = {AGENT: "learned", TUNED: "learned", SEARCH: "search"}
    bars = [
        Bar(
            label,
            summary.throughput,
            kinds.get(summary.policy, "rule"),
            summary.throughput_low,
            summary.throughput_high,
        )
        for label, summary in result.shown.items()
    ]
    lines = "; lines: 95 % intervals" if any(bar.low is not None for bar in bars) else ""
    return draw_bars(bars, f"million queries per second, {result.comparison.machine.name}{lines}")


def draw_bars(bars: Sequence[Bar], unit: str, digits: int = 1) -> str:
    """The text of an SVG file.

    Args:
        bars: from the top; a negative value has no length.
        unit: of the values, below the bars.
        digits: of the values, behind the point.
    """
    per_pixel = max(max(bar.value, bar.high or 0.0) for bar in bars) / (_WIDTH - _LABEL - _VALUE)
    parts = []
    for number, bar in enumerate(bars):
        y = number * _ROW + 6
        middle = y + _ROW / 2 - 6
        right = _LABEL + max(bar.value, bar.high or 0.0) / per_pixel
        parts += [
            f'<text class="name" x="{_LABEL - 12}" y="{middle}">{escape(bar.label)}</text>',
            f'<rect class="{bar.kind}" x="{_LABEL}" y="{y}" height="{_ROW - 12}" '
            f'width="{max(0.0, bar.value) / per_pixel:.1f}"/>',
            f'<text class="rate" x="{right + 10:.1f}" y="{middle}">{bar.value:.{digits}f}</text>',
        ]
        if bar.low is not None:
            left = _LABEL + max(0.0, bar.low) / per_pixel
            parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{middle}" y2="{middle}"/>')
    bottom = len(bars) * _ROW + 12
    parts.append(f'<text class="unit" x="{_LABEL}" y="{bottom}">{escape(unit)}</text>')
    names = ", ".join(f"{bar.label}: {bar.value:.{digits}f}" for bar in bars)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="bars" role="img" '
        f'viewBox="0 0 {_WIDTH} {bottom + 14}" aria-label="{escape(names)}">'
        f"<style>{colour_rules(_COLOURS)}{_STYLE}</style>"
        f"{''.join(parts)}</svg>\n"
    )
