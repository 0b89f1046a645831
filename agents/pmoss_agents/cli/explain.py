"""`pmoss explain`: what two schedules do differently, per core, node, memory channel and link."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import (
    EXPORT_TO,
    BackendOption,
    EnvOption,
    ExportOption,
    ExportToOption,
    MachineOption,
    check_export,
    export_placements,
    pairs,
)

if TYPE_CHECKING:
    from pmoss_agents.explaining import Comparison
    from pmoss_agents.explaining.differences import Kind, Table

#: What the terminal shows of each kind of place; the page shows all.
SHOWN: dict[Kind, tuple[str, ...]] = {
    "node": ("elapsed_us", "queries", "remote_dram", "use"),
    "channel": ("traffic", "per_channel", "use"),
    "link": ("traffic", "use"),
    "core": ("slices", "elapsed_us", "queries", "llc_misses", "remote_dram"),
}
#: What the columns are called.
HEADS = {
    "elapsed_us": "cores busy",
    "queries": "Mq/s",
    "remote_dram": "remote M/s",
    "llc_misses": "LLC misses M/s",
    "use": "of the bandwidth",
    "traffic": "GB/s",
    "per_channel": "GB/s per channel",
}


def explain(
    schedules: Annotated[
        list[str],
        typer.Argument(metavar="[A] B", help="The schedule to compare with; that to explain."),
    ],
    backend: Annotated[
        str | None, typer.Option(help="analytic (the default), simulated or hardware.")
    ] = None,
    machine: MachineOption = None,
    env: EnvOption = None,
    options: BackendOption = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of the episode: keys, co-tenants, incumbent. Default 0."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Measure both so often, in turn; the median counts.")
    ] = 1,
    top: Annotated[int, typer.Option(min=1, help="Rows shown of each kind.")] = 8,
    html: Annotated[
        Path | None, typer.Option(help="Page to write, with the chip drawn; needs nothing else.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Picture to write: both on the chip, side by side.")
    ] = None,
    export: ExportOption = None,
    export_to: ExportToOption = EXPORT_TO,
) -> None:
    """Explain why one schedule is faster than another, by what their counters say.

    A and B are each a baseline (lpt, grouped, os-default, ...) or an agent: one that ships trained
    (pmoss/NAME), a saved one (.safetensors), or yours (module:Class@CHECKPOINT). Any policy
    will do (module:Class). Or they are a schedule file (.json with {"cores": [...]}). Both are
    measured in the same episode. B alone is compared with the incumbent. Only what places slices
    has such counters. With --export the placement of B is written for programs of yours.

    Example: pmoss explain grouped lpt-capacity -e interference=busy_core --html runs/why.html

    Example: pmoss explain incumbent pmoss/generalist-v1 -e interference=busy_core
    """
    from pmoss_agents.explaining.measuring import explain_words
    from pmoss_agents.explaining.page import explain_page, explain_svg
    from pmoss_env.files import write_atomically

    if len(schedules) > 2:
        raise typer.BadParameter(f"{len(schedules)} schedules: two can be compared")
    a, b = ["incumbent", *schedules][-2:]
    for path, suffix in ((html, ".html"), (svg, ".svg")):
        if path:
            check_output(path, suffix=suffix)
    check_export(export, export_to)
    given = {
        "backend": backend,
        "machine": machine,
        "env": pairs(env) or None,
        "option": pairs(options) or None,
        "seed": seed,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    with Stages() as progress:
        comparison, task = explain_words(a, b, asked, rounds=rounds, progress=progress)
    _print(comparison, top)
    if html:
        write_atomically(html, explain_page(comparison, task))
        console.print(f"written to {html}: the chip drawn, and every counter of every core")
    if export:
        after = comparison.after
        placed = {after.name: after.schedule}
        export_placements(export, comparison.machine, placed, export_to)
    if svg:
        write_atomically(svg, explain_svg(comparison))
        console.print(f"written to {svg}: both on the chip")


def _print(comparison: Comparison, top: int) -> None:
    from pmoss_agents.explaining import headline
    from pmoss_agents.explaining.differences import changed, key_figures
    from pmoss_env.backends.data_facts import misplaced_lines

    a, b = comparison.before, comparison.after
    console.print(headline(comparison), highlight=False)
    for run in (a, b):
        for line in misplaced_lines(run.snapshot.provenance, run.name):
            console.print(line, highlight=False)
    console.print()
    counters = comparison.tables["machine"]
    first, second = counters.column("per_query")
    ranked = counters.ranked(["per_query"])[:top]
    rows = key_figures(comparison) + [
        changed(f"{counters.places[i]} per query", first[i], second[i])
        for i in ranked
        if first[i] != second[i]
    ]
    console.print(table("Whole machine", ["", f">{a.name}", f">{b.name}", ">change"], rows))
    for kind, columns in SHOWN.items():
        _print_places(comparison.tables[kind], columns, top)


def _print_places(places: Table, columns: tuple[str, ...], top: int) -> None:
    """The places of one kind where anything changed; only columns in which anything did."""
    import numpy as np

    differs = {
        name: np.abs(np.subtract(*places.column(name))) > 0  # not where it was not counted
        for name in columns
    }
    changed = [name for name in columns if differs[name].any()]
    ranked = [
        place
        for place in (places.ranked(changed) if changed else [])
        if any(differs[name][place] for name in changed)
    ]
    if not ranked:
        verdict = "nothing changes" if places.ranked(columns) else "not counted"
        console.print(f"{places.kind.capitalize()}s: {verdict}.\n", highlight=False)
        return
    lines = [places.row(place, changed) for place in ranked[:top]]
    rest = len(ranked) - len(lines)
    title = f"{places.kind.capitalize()}s, biggest difference first"
    title += f" ({rest} more)" if rest else ""
    heads = [f">{HEADS.get(name, name)}" for name in changed]
    console.print(table(title, [places.kind, *heads], lines))
