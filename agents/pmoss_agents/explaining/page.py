"""A page that explains two schedules: one HTML file that needs nothing else, no script either."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from pmoss_agents.explaining.chip import AMOUNTS, DIFFERENCES, draw_difference, draw_run
from pmoss_agents.explaining.differences import (
    Comparison,
    Kind,
    Run,
    Table,
    number,
    percent_change,
    value,
)
from pmoss_agents.explaining.reasons import headline, moved_slices, reasons
from pmoss_env import __version__
from pmoss_env.backends.data_facts import misplaced_lines
from pmoss_env.html_page import html_page

_TITLES: dict[Kind, str] = {
    "node": "Nodes",
    "channel": "Memory channels",
    "link": "Links",
    "core": "Cores",
    "machine": "Counters of the whole machine",
}
#: (light, dark) colours by name: ink on the page, and what is drawn.
THEMES = (
    {
        "page": "#ffffff",
        "ink": "#1d2733",
        "quiet": "#55616e",
        "line": "#c9d1d9",
        "tile": "#f1f3f5",
        "aside": "#dfe3e7",
        "hot": "#c04a00",
    },
    {
        "page": "#14181d",
        "ink": "#eef2f6",
        "quiet": "#a9b4bf",
        "line": "#3b4550",
        "tile": "#20272f",
        "aside": "#2c353f",
        "hot": "#ff9d5c",
    },
)
#: Ends of the scales in light and dark: little and much; less, none and more. Blue and orange
#: stay apart for all common kinds of colour blindness.
_AMOUNT_ENDS = (("#cfe0f1", "#08396b"), ("#24415e", "#a6d3ff"))
_DIFFERENCE_ENDS = (("#1a5fa8", "#e6e9ec", "#d9730d"), ("#6db3f2", "#2c353f", "#f5a04c"))

STYLE = """
body { margin: 0 auto; padding: 1.5rem; max-width: 1500px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p, li, h1, figcaption { max-width: 75ch; overflow-wrap: anywhere; }
.quiet, caption { color: var(--quiet); }
.lead { font-size: 1.1rem; }
.chips { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.chips figure { flex: 1 1 380px; margin: 0; min-width: 0; }
.chips svg { width: 100%; height: auto; }
figcaption { font-weight: 600; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
@media (max-width: 500px) { body { padding: .75rem; } .chips figure { flex-basis: 100%; }
  .chips figure, .scroll { overflow-x: auto; } .chips svg { min-width: 460px; }
  th, td { padding: .15rem .35rem; } } summary { cursor: pointer; }
svg text { font: 9px system-ui, sans-serif; fill: var(--ink); text-anchor: middle; }
svg text.caption { text-anchor: start; font-size: 11px; fill: var(--quiet); }
svg text.count { text-anchor: start; font-size: 10px; font-weight: 600; paint-order: stroke;
  stroke: var(--page); stroke-width: 2.5px; stroke-linejoin: round; }
svg text.value { paint-order: stroke; stroke: var(--page); stroke-width: 2.5px; }
svg text.role { fill: var(--quiet); }
.tile { fill: var(--tile); } .aside { fill: var(--aside); }
svg rect[class^="s"] { stroke: var(--page); stroke-width: .5; }
path { fill: none; stroke-linecap: round; }
.node { stroke: var(--quiet); stroke-width: 1; } .socket { stroke: var(--ink); stroke-width: 2.5; }
.hot { fill: none; stroke: var(--hot); stroke-width: 3; stroke-dasharray: 7 3; }
.slowed { fill: var(--hot); stroke: var(--page); stroke-width: 1; }
"""


def explain_page(comparison: Comparison, task: str) -> str:
    """The page as text.

    Args:
        comparison: of compare().
        task: what both ran, in a few words.
    """
    a, b = comparison.before, comparison.after
    title = f"{a.name} and {b.name}"
    cores, data = moved_slices(comparison)
    shared = a.schedule.routing != "core" or b.schedule.routing != "core"
    found = "".join(f"<li>{escape(_sentence(r.text))}</li>" for r in reasons(comparison))
    moved = (
        ""
        if shared
        else f"<p>{cores} of {a.schedule.slices} slices are served by another core, {data} have "
        "their data on another node.</p>"
    )
    tables = "".join(_table(comparison.tables[kind], comparison) for kind in _TITLES)
    body = f"""<p class="quiet">{escape(task)}</p>
<p class="lead">{escape(headline(comparison))}</p>
{f"<ul>{found}</ul>" if found else ""}
{_misplaced(a)}{_misplaced(b)}
{moved}
{_key_figures(comparison)}
<h2>On the chip</h2>
<div class="chips">
<figure><figcaption>{escape(a.name)}</figcaption>{draw_run(comparison, a)}</figure>
<figure><figcaption>{escape(b.name)}</figcaption>{draw_run(comparison, b)}</figure>
<figure><figcaption>difference</figcaption>{draw_difference(comparison)}</figure>
</div>
<p class="quiet">A tile is a core, filled as far as it is busy, each slice a part of it; the number
counts its slices. R routers, S sweepers. Thin frames are nodes, thick ones sockets. Dashed orange:
a memory or link near its bandwidth. A triangle: something else takes time from this core. In the
difference a bar goes up, orange, for more and down, blue, for less; the number counts slices, in
memories and links percentage points (GB/s where the bandwidth is not known). Point at anything for
its figures.</p>
{tables}
<p class="quiet">pmoss_env {__version__}; {escape(_origin(comparison))}</p>"""
    return html_page(title, f"{colours()}{STYLE}", body)


def colours() -> str:
    """The colours as CSS variables and classes, light and dark."""

    def variables(theme: int) -> str:
        named = "".join(f"--{name}:{value};" for name, value in THEMES[theme].items())
        low, high = _AMOUNT_ENDS[theme]
        amounts = "".join(
            f"--s{i}:{_between(low, high, i / (AMOUNTS - 1))};" for i in range(AMOUNTS)
        )
        less, none, more = _DIFFERENCE_ENDS[theme]
        middle = DIFFERENCES // 2
        differences = "".join(
            f"--d{i}:{_between(none, less if i < middle else more, abs(i - middle) / middle)};"
            for i in range(DIFFERENCES)
        )
        return named + amounts + differences

    classes = "".join(
        f".{name}{{fill:var(--{name})}}"
        for name in (
            *(f"s{i}" for i in range(AMOUNTS)),
            *(f"d{i}" for i in range(DIFFERENCES)),
        )
    )
    return (
        f":root{{{variables(0)}}}"
        f"@media (prefers-color-scheme: dark){{:root{{{variables(1)}}}}}{classes}"
    )


def _between(first: str, second: str, share: float) -> str:
    ends = [[int(word[i : i + 2], 16) for i in (1, 3, 5)] for word in (first, second)]
    mixed = [round(a + (b - a) * share) for a, b in zip(*ends, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _misplaced(run: Run) -> str:
    """Says that what was measured is of another placement than the schedule's; empty if not."""
    lines = misplaced_lines(run.snapshot.provenance, run.name)
    return f"<p>{'<br>'.join(map(escape, lines))}</p>" if lines else ""


def _key_figures(comparison: Comparison) -> str:
    a, b = comparison.before.snapshot, comparison.after.snapshot
    rows = (
        ("throughput, Mq/s", a.throughput, b.throughput),
        ("median latency, us", a.latency_p50_us, b.latency_p50_us),
        ("99th percentile, us", a.latency_p99_us, b.latency_p99_us),
    )
    figures = html_table(
        ["", comparison.before.name, comparison.after.name, "change"],
        [(name, number(x), number(y), percent_change(x, y)) for name, x, y in rows],
    )
    # A phone is narrower than the table.
    return f'<div class="scroll">{figures}</div>'


def _table(table: Table, comparison: Comparison) -> str:
    """All places, biggest difference first, and all that was counted there."""
    seen = [
        i
        for i in range(len(table.quantities))
        if (np.isfinite(table.before[:, i]) & np.isfinite(table.after[:, i])).any()
    ]
    order = table.ranked()
    if not seen or not order:
        return (
            f"<h2>{_TITLES[table.kind]}</h2><p class='quiet'>Nothing was counted there.</p>"
            if table.kind != "link" or comparison.machine.sockets > 1
            else ""
        )
    head = ["", *(f"{table.quantities[i]}, {table.units[i]}" for i in seen)]
    body = []
    for place in order:
        cells = [
            f"{value(table.before[place, i], table.units[i])} → "
            f"{value(table.after[place, i], table.units[i])}"
            for i in seen
        ]
        body.append((table.places[place], *cells))
    inside = f'<div class="scroll">{html_table(head, body)}</div>'
    told = f"<summary>{len(order)} rows, biggest difference first</summary>"
    opened = " open" if len(order) <= 12 else ""
    return f"<h2>{_TITLES[table.kind]}</h2><details{opened}>{told}{inside}</details>"


def html_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table with a head; all cells are text."""
    top = "".join(f"<th>{escape(word)}</th>" for word in head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(word)}</td>" for word in row) + "</tr>" for row in body
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _origin(comparison: Comparison) -> str:
    told = comparison.after.snapshot.provenance
    backend, seed = told.get("backend", "?"), told.get("seed")
    return f"measured by the {backend} backend" + ("" if seed is None else f", seed {seed}")
