"""A folder of pages that shows the episodes of a dataset, without scripts.

The first page has the outcome of every episode. Where the domain has schedules, some episodes have
a page each: chip and counters before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

import numpy as np

from pmoss_agents.explaining.differences import Run, compare
from pmoss_agents.explaining.page import explain_page
from pmoss_datasets.folder import check_target, whole_folder
from pmoss_datasets.schema import Array
from pmoss_datasets.spatial.schema import Episode
from pmoss_datasets.storage import Dataset
from pmoss_env.html_page import html_page, html_table

INDEX = "index.html"
#: Size of the chart, and of the room for its scale.
_WIDTH, _HEIGHT, _LEFT = 900.0, 260.0, 60.0
#: Colours of policies, (light, dark); more policies than colours share them.
_COLOURS: Mapping[str, tuple[str, str]] = {
    "p0": ("#1a5fa8", "#6db3f2"),
    "p1": ("#c04a00", "#ff9d5c"),
    "p2": ("#2d7d46", "#7fd49a"),
    "p3": ("#7a3e9d", "#cfa0ea"),
    "p4": ("#9a6b00", "#e8c36a"),
    "p5": ("#55616e", "#a9b4bf"),
    "p6": ("#b0225f", "#f58bb8"),
    "p7": ("#0f7c80", "#67d1d4"),
}
_STYLE = (
    ".chart { width: 100%; height: auto; min-width: 520px; }"
    ".chart text { font: 12px system-ui, sans-serif; fill: var(--quiet); }"
    ".chart line { stroke: var(--line); } a { color: var(--cold); } .name { white-space: nowrap; }"
    ".chart a circle { stroke: var(--ink); stroke-width: 1.5; }"
    + "".join(f".{name} {{ fill: var(--{name}); }}" for name in _COLOURS)
)


def write_pages(
    dataset: Dataset,
    out: Path,
    pages: int = 12,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    overwrite: bool = False,
) -> Path:
    """Writes the folder, and returns its first page.

    Args:
        pages: episodes with a page: the worst, the best, and evenly many between.
        progress: called with (pages done, pages).

    Raises:
        DatasetError: something is there, or it cannot be written.
    """
    check_target(out, overwrite, what=INDEX)
    outcome = dataset.column(dataset.domain.outcome)
    order = np.argsort(outcome, kind="stable")
    spread = np.linspace(0, len(dataset) - 1, min(pages, len(dataset))).round().astype(int)
    shown = sorted({int(order[place]) for place in spread}) if pages else []
    if shown and not isinstance(dataset[0], Episode):
        shown = []
    with whole_folder(out) as temporary:
        for done, number in enumerate(shown):
            progress(done, len(shown))
            text = _episode_page(dataset, number, shown)
            (temporary / _name(number)).write_text(text, encoding="utf-8")
        progress(len(shown), len(shown))
        (temporary / INDEX).write_text(_first_page(dataset, outcome, shown), encoding="utf-8")
    return out / INDEX


def _name(number: int) -> str:
    return f"episode-{number}.html"


def _link(number: int, words: str = "") -> str:
    return f'<a href="{_name(number)}">{words or f"episode {number}"}</a>'


def _episode_page(dataset: Dataset, number: int, shown: list[int]) -> str:
    """How an episode began and ended, on the chip and in counters."""
    episode, metadata = dataset[number], dataset.metadata
    runs = [
        Run(name, schedule, episode.snapshot(which, metadata))
        for name, which, schedule in (
            ("first schedule", "incumbent", episode.incumbent),
            ("last schedule", "final", episode.final),
        )
    ]
    place = shown.index(number)
    links = [f'<a href="{INDEX}">all episodes</a>']
    links += [_link(shown[at]) for at in (place - 1, place + 1) if 0 <= at < len(shown)]
    policy = metadata.policy_names[int(dataset.column("policy")[number])]
    task = ", ".join(f"{key} {value}" for key, value in metadata.env_kwargs.items())
    machine = dataset.domain.machine(metadata, dataset.path)
    assert machine is not None  # for it has schedules
    return explain_page(
        compare(machine, *runs),
        f"{metadata.id}, policy {policy}, seed {episode.seed}; {task}",
        title=f"Episode {number}",
        above=f"<p>{' · '.join(links)}</p>",
    )


def _first_page(dataset: Dataset, outcome: Array, shown: list[int]) -> str:
    domain, metadata = dataset.domain, dataset.metadata
    names = metadata.policy_names
    values, policy = domain.shown(outcome), dataset.column("policy")
    # Colours are those of policies that played, in their order.
    played = np.unique(policy)
    rows = []
    for number in played:
        mine = values[policy == number]
        figures = (mine.mean(), mine.min(), mine.max())
        rows.append([names[number], str(mine.size), *(f"{value:.1f}" for value in figures)])
    legend = " · ".join(
        '<span class="name"><svg width="10" height="10">'
        f'<circle class="{_class(place)}" cx="5" cy="5" r="5"/></svg> '
        f"{escape(names[number])}</span>"
        for place, number in enumerate(played)
    )
    task = ", ".join(f"{key} {value}" for key, value in metadata.env_kwargs.items())
    items = "".join(
        f"<li>{_link(number)}: {values[number]:.1f} {escape(domain.unit)}, "
        f"{escape(names[policy[number]])}</li>"
        for number in sorted(shown, key=lambda number: -values[number])
    )
    chosen = f"<h2>Episodes with a page</h2><ol>{items}</ol>" if shown else ""
    body = f"""<p class="quiet">{escape(task)}</p>
<p class="lead">{len(dataset)} episodes, {values.mean():.1f} {escape(domain.unit)} on average.</p>
<div class="scroll">{_chart(values, np.searchsorted(played, policy), shown, domain.unit)}</div>
<p class="quiet">A dot is an episode: its outcome in {escape(domain.unit)}. {legend}.
{"Dots with a ring have a page: click on them." if shown else ""}</p>
<h2>Policies</h2>
{html_table(["policy", "episodes", "mean", "lowest", "highest"], rows)}
{chosen}"""
    return html_page(metadata.id, body, _STYLE, _COLOURS)


def _class(place: int) -> str:
    return f"p{place % len(_COLOURS)}"


def _chart(values: Array, colour: Array, shown: list[int], unit: str) -> str:
    """The outcome of every episode, as SVG."""
    low, high = float(values.min()), float(values.max())
    room = (high - low) or 1.0

    def height(value: float) -> float:
        return 15 + (_HEIGHT - 45) * (high - value) / room

    parts: list[str] = []
    for value in (low, (low + high) / 2, high):
        y = height(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="0" y="{y + 4:.1f}">{value:.1f}</text>')
    for number, value in enumerate(values):
        x = _LEFT + 10 + (_WIDTH - _LEFT - 20) * number / max(1, values.size - 1)
        title = f"<title>episode {number}: {value:.1f} {escape(unit)}</title>"
        has_page = number in shown
        dot = (
            f'<circle class="{_class(int(colour[number]))}" cx="{x:.1f}" '
            f'cy="{height(float(value)):.1f}" r="{6 if has_page else 3.5}">{title}</circle>'
        )
        parts.append(_link(number, dot) if has_page else dot)
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}">episodes, in the order of the data</text>')
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="outcome of {values.size} episodes">{"".join(parts)}</svg>'
    )
