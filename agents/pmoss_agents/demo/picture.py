"""The demo's picture: what each policy serves, as bars in the reader's light or dark mode."""

from __future__ import annotations

from html import escape

from pmoss_agents.demo.plan import AGENT, SEARCH, TUNED, DemoResult
from pmoss_env.html_page import colour_rules

#: Of a bar's box, in pixels: all of it, its label, the room behind the bar, and a row.
_WIDTH, _LABEL, _VALUE, _ROW = 760, 230, 130, 36
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


def draw_demo(result: DemoResult) -> str:
    """The text of an SVG file: five bars, the means over all episodes with 95 % intervals."""
    shown = result.shown
    ends = [summary.throughput_high or summary.throughput for summary in shown.values()]
    per_pixel = max(ends) / (_WIDTH - _LABEL - _VALUE)
    parts = []
    for number, (label, summary) in enumerate(shown.items()):
        kind = {AGENT: "learned", TUNED: "learned", SEARCH: "search"}.get(summary.policy, "rule")
        y = number * _ROW + 6
        middle = y + _ROW / 2 - 6
        low, high = summary.throughput_low, summary.throughput_high
        right = _LABEL + (high or summary.throughput) / per_pixel
        parts += [
            f'<text class="name" x="{_LABEL - 12}" y="{middle}">{escape(label)}</text>',
            f'<rect class="{kind}" x="{_LABEL}" y="{y}" height="{_ROW - 12}" '
            f'width="{summary.throughput / per_pixel:.1f}"/>',
            f'<text class="rate" x="{right + 10:.1f}" y="{middle}">{summary.throughput:.1f}</text>',
        ]
        if low is not None:
            left = _LABEL + low / per_pixel
            parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{middle}" y2="{middle}"/>')
    bottom = len(shown) * _ROW + 12
    unit = f"million queries per second, {result.comparison.machine.name}; lines: 95 % intervals"
    parts.append(f'<text class="unit" x="{_LABEL}" y="{bottom}">{escape(unit)}</text>')
    names = ", ".join(f"{label}: {one.throughput:.1f}" for label, one in shown.items())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="bars" role="img" '
        f'viewBox="0 0 {_WIDTH} {bottom + 14}" aria-label="{escape(names)}">'
        f"<style>{colour_rules(_COLOURS)}{_STYLE}</style>"
        f"{''.join(parts)}</svg>\n"
    )
