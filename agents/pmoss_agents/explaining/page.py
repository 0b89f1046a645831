"""A page that explains two schedules: one HTML file without scripts or other files."""

from __future__ import annotations

from html import escape

import numpy as np

from pmoss_agents.explaining.chip import AMOUNTS, DIFFERENCES, draw_both, draw_difference, draw_run
from pmoss_agents.explaining.differences import Comparison, Kind, Run, Table, key_figures
from pmoss_agents.explaining.reasons import headline, moved_slices, reasons
from pmoss_env import __version__
from pmoss_env.backends.data_facts import misplaced_lines
from pmoss_env.html_page import COLOURS, colour_rules, html_page, html_table

_TITLES: dict[Kind, str] = {
    "node": "Nodes",
    "channel": "Memory channels",
    "link": "Links",
    "core": "Cores",
    "machine": "Counters of the whole machine",
}
#: Of scales, (light, dark): little and much; less, none and more. Blue and orange stay apart for
#: all common kinds of colour blindness.
_LITTLE, _MUCH = ("#cfe0f1", "#24415e"), ("#08396b", "#a6d3ff")
_LESS, _NONE, _MORE = COLOURS["cold"], ("#e6e9ec", "#2c353f"), ("#d9730d", "#f5a04c")
_STYLE = """
.chips { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.chips figure { flex: 1 1 380px; margin: 0; min-width: 0; }
.chips svg { width: 100%; height: auto; }
figcaption { font-weight: 600; } summary { cursor: pointer; }
@media (max-width: 500px) { .chips figure { flex-basis: 100%; overflow-x: auto; }
  .chips svg { min-width: 460px; } }
svg text { font: 9px system-ui, sans-serif; fill: var(--ink); text-anchor: middle; }
svg text.head { text-anchor: start; font-size: 14px; font-weight: 600; }
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


def explain_page(comparison: Comparison, task: str, *, title: str = "", above: str = "") -> str:
    """The page as text.

    Args:
        task: what both ran, in a few words.
        title: of the page; otherwise both names.
    """
    a, b = comparison.before, comparison.after
    cores, data = moved_slices(comparison)
    shared = a.schedule.routing != "core" or b.schedule.routing != "core"
    items = "".join(
        f"<li>{escape(text[:1].upper() + text[1:])}.</li>"
        for text in (reason.text for reason in reasons(comparison))
    )
    moved = (
        ""
        if shared
        else f"<p>{cores} of {a.schedule.slices} slices are served by another core, {data} have "
        "their data on another node.</p>"
    )
    tables = "".join(_table(comparison.tables[kind], comparison) for kind in _TITLES)
    body = f"""{above}<p class="quiet">{escape(task)}</p>
<p class="lead">{escape(headline(comparison))}</p>
{f"<ul>{items}</ul>" if items else ""}
{_misplaced(a)}{_misplaced(b)}
{moved}
{html_table(["", a.name, b.name, "change"], key_figures(comparison))}
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
    return html_page(title or f"{a.name} and {b.name}", body, *_chip_style())


def explain_svg(comparison: Comparison) -> str:
    """Both schedules on the chip: the text of a picture that follows the reader's dark mode."""
    style, colours = _chip_style()
    return draw_both(comparison, colour_rules(colours) + style)


def _chip_style() -> tuple[str, dict[str, tuple[str, str]]]:
    """The CSS of chips, and its colours beyond those of every page."""
    middle = DIFFERENCES // 2
    scales = {f"s{i}": _between(_LITTLE, _MUCH, i / (AMOUNTS - 1)) for i in range(AMOUNTS)}
    for i in range(DIFFERENCES):
        scales[f"d{i}"] = _between(_NONE, _LESS if i < middle else _MORE, abs(i - middle) / middle)
    classes = "".join(f".{name}{{fill:var(--{name})}}" for name in scales)
    tiles = {"tile": ("#f1f3f5", "#20272f"), "aside": ("#dfe3e7", "#2c353f")}
    return f"{classes}{_STYLE}", {**tiles, **scales}


def _between(first: tuple[str, str], second: tuple[str, str], share: float) -> tuple[str, str]:
    """The colours at a share of the way from one to another, light and dark."""

    def mixed(start: str, end: str) -> str:
        a, b = (np.array([*bytes.fromhex(word[1:])], dtype=float) for word in (start, end))
        return f"#{bytes(np.rint(a + (b - a) * share).astype(np.uint8)).hex()}"

    return mixed(first[0], second[0]), mixed(first[1], second[1])


def _misplaced(run: Run) -> str:
    """Says that what was measured is of another placement than the schedule's; empty if not."""
    lines = misplaced_lines(run.snapshot.provenance, run.name)
    return f"<p>{'<br>'.join(map(escape, lines))}</p>" if lines else ""


def _table(table: Table, comparison: Comparison) -> str:
    """A table of all places, biggest difference first."""
    title = f"<h2>{_TITLES[table.kind]}</h2>"
    counted = np.any(np.isfinite(table.before) & np.isfinite(table.after), axis=0)
    names = [table.quantities[column] for column in np.flatnonzero(counted)]
    order = table.ranked()
    if not names or not order:
        if table.kind == "link" and comparison.machine.sockets == 1:
            return ""
        return f"{title}<p class='quiet'>Nothing was counted there.</p>"
    units = dict(zip(table.quantities, table.units, strict=True))
    head = ["", *(f"{name}, {units[name]}" for name in names)]
    rows = html_table(head, [table.row(place, names) for place in order])
    summary = f"<summary>{len(order)} rows, biggest difference first</summary>"
    opened = " open" if len(order) <= 12 else ""
    return f"{title}<details{opened}>{summary}{rows}</details>"


def _origin(comparison: Comparison) -> str:
    provenance = comparison.after.snapshot.provenance
    backend, seed = provenance.get("backend", "?"), provenance.get("seed")
    return f"measured by the {backend} backend" + ("" if seed is None else f", seed {seed}")
