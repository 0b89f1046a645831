"""`pmoss machines | workloads | envs`: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import console, table

if TYPE_CHECKING:
    from pmoss_env.workloads import Workload


def machines(
    name: Annotated[str | None, typer.Argument(help="Show this machine in full.")] = None,
) -> None:
    """List the machines, or show one with the source of every value.

    Example: pmoss machines milan-nps4
    """
    from pmoss_env.machines import load_machine, machine_names

    if name is None:
        rows = []
        for known in machine_names():
            m = load_machine(known)
            workers = len(m.workers)
            rows.append((known, m.sockets, m.nodes, m.cores, workers, m.description))
        columns = ["name", ">sockets", ">nodes", ">cores", ">workers", "description"]
        console.print(table("Machines", columns, rows))
        return
    machine = load_machine(name)
    console.print(f"[bold]{machine.name}[/]: {machine.description}")
    console.print(f"grid {machine.rows} x {machine.cols}; cores by role: {machine.roles()}")
    console.print(
        table(
            "Parameters",
            ["name", ">value", "unit", "confidence", "source"],
            [
                (key, _value(p.value), p.unit, p.confidence, p.source)
                for key, p in machine.parameters.items()
            ],
        )
    )


def _value(value: float | tuple[Any, ...]) -> str:
    """A number, the entries of a list, or a matrix with one row per line."""
    if not isinstance(value, tuple):
        return f"{value:g}"
    rows = isinstance(value[0], tuple)
    return ("\n" if rows else ", ").join(
        " ".join(f"{v:g}" for v in row) if rows else f"{row:g}" for row in value
    )


def workloads(
    name: Annotated[str | None, typer.Argument(help="Show this workload in full.")] = None,
    slices: Annotated[int, typer.Option(help="Key ranges to count records of.", min=1)] = 256,
) -> None:
    """List the workloads, or show one with the sizes of its slices.

    Example: pmoss workloads osm-a --slices 64
    """
    from pmoss_env.workloads import load_workload, workload_names

    if name is not None:
        _workload(load_workload(name), slices)
        return
    rows = []
    for name in workload_names():
        w = load_workload(name)
        mix = ", ".join(
            f"{share:.0%} {kind}"
            for kind in ("lookup", "insert", "scan", "update")
            if (share := getattr(w, kind)) > 0
        )
        choice = f"zipf {w.theta:g}" if w.distribution == "zipf" else w.distribution
        rows.append((name, mix, choice, w.keys, f"{w.records:,}", w.source))
    columns = ["name", "operations", "choice", "keys", ">records", "source"]
    console.print(table("Workloads", columns, rows))


def _workload(workload: Workload, slices: int) -> None:
    """Prints every value of a workload and how its records fall on the slices."""
    from dataclasses import fields

    from pmoss_env.backends.native_forms import native_workload

    shares = native_workload(workload).record_shares(slices)
    rows = [(field.name, str(getattr(workload, field.name))) for field in fields(workload)]
    console.print(table("Workload", ["field", "value"], rows))
    sizes = sorted(share * workload.records for share in shares)
    console.print(
        f"{slices} slices of equal width hold {sizes[0]:,.0f} to {sizes[-1]:,.0f} records, "
        f"the middle one {sizes[len(sizes) // 2]:,.0f}; {sizes.count(0.0)} are empty"
    )


def envs() -> None:
    """List the registered environments; use them with gymnasium.make(id)."""
    import gymnasium

    import pmoss_env  # noqa: F401  # registers the environments

    rows = []
    for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.id):
        if spec.namespace == "pmoss":
            chosen = ", ".join(f"{key}={value}" for key, value in spec.kwargs.items())
            rows.append((spec.id, chosen or "(all defaults)"))
    console.print(table("Environments", ["id", "keyword arguments"], rows))
