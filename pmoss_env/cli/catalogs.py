"""`pmoss machines | workloads | envs`: the catalogues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pmoss_env.cli.console import AsJson, console, show_rows, table
from pmoss_env.cli.output import check_output, printable

if TYPE_CHECKING:
    from pmoss_env.workloads import Workload


class _ShowsByDefault(TyperGroup):
    """Runs `show` unless the first word is a command of the group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


machines = typer.Typer(cls=_ShowsByDefault)


@machines.callback()
def machines_() -> None:
    """List the machines, show one with the source of every value, or import one.

    Example: pmoss machines milan-nps4
    """


@machines.command()
def show(
    name: Annotated[str | None, typer.Argument(help="Show this machine in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the machines, or show one with the source of every value.

    Example: pmoss machines milan-nps4
    """
    from pmoss_env.machines import load_machine, machine_names

    if name is None:
        rows = []
        for catalogue_name in machine_names():
            m = load_machine(catalogue_name)
            workers = len(m.workers)
            rows.append((catalogue_name, m.sockets, m.nodes, m.cores, workers, m.description))
        columns = ["name", ">sockets", ">nodes", ">cores", ">workers", "description"]
        show_rows("Machines", columns, rows, as_json)
        return
    machine = load_machine(name)
    console.print(f"{machine.name}: {machine.description}", style="bold")
    roles = ", ".join(f"{count} {role}" for role, count in machine.roles().items())
    console.print(f"grid {machine.rows} x {machine.cols}; cores by role: {roles}")
    parameters = dict(machine.parameters)
    if (mesh := machine.mesh) is not None:
        console.print(
            f"mesh of {mesh.rows} x {mesh.cols} stops with {mesh.cores_per_stop} cores each"
        )
        parameters["mesh.hop_ns"] = mesh.hop_ns
    console.print(
        table(
            "Parameters",
            ["name", ">value", "unit", "confidence", "source"],
            [
                (key, _value(p.value), p.unit, p.confidence, p.source)
                for key, p in parameters.items()
            ],
        )
    )


@machines.command("import")
def import_(
    lstopo: Annotated[
        Path | None,
        typer.Argument(help="XML file that `lstopo --of xml` wrote; without it, this host."),
    ] = None,
    sysfs: Annotated[
        Path | None, typer.Option(help="Folder with a copy of another host's /sys.")
    ] = None,
    latency: Annotated[
        Path | None,
        typer.Option(help="CSV of core-to-core latencies in ns: a row and a column per CPU."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the machine to this .toml file, else print it.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the output.")] = False,
) -> None:
    """Make a machine of this host or of an lstopo file; values that cannot be read are guesses.

    Example: pmoss machines import --latency c2c.csv --output server.toml
    """
    from pmoss_env.errors import DescriptionError
    from pmoss_env.files import write_atomically
    from pmoss_env.machines.importing import import_machine, read_host, read_lstopo

    if lstopo and sysfs:
        raise DescriptionError(f"--sysfs {sysfs}: cannot be given beside {lstopo}")
    if output:
        if output.suffix != ".toml":
            raise DescriptionError(f"--output {output}: must end in .toml")
        check_output(output)
        if output.exists() and not force:
            raise DescriptionError(f"--output {output}: exists: give --force to overwrite it")
    server = read_lstopo(lstopo) if lstopo else read_host(str(sysfs or "/"))
    text = import_machine(server, output.stem if output else "imported", latency)
    if output:
        write_atomically(output, text)
        console.print(f"written to {output}")
    else:
        typer.echo(printable(text), nl=False)


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
    as_json: AsJson = False,
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
        choice = f"{w.distribution} {w.theta:g}" if "zipf" in w.distribution else w.distribution
        rows.append((name, mix, choice, w.keys, f"{w.records:,}", w.source))
    columns = ["name", "operations", "choice", "keys", ">records", "source"]
    show_rows("Workloads", columns, rows, as_json)


def _workload(workload: Workload, slices: int) -> None:
    """Prints every value of a workload and how its records fall on the slices."""
    from dataclasses import fields

    from pmoss_env.backends.native_forms import record_shares
    from pmoss_env.indexes import holds_points

    shares = record_shares(workload, slices)
    rows = [(field.name, str(getattr(workload, field.name))) for field in fields(workload)]
    console.print(table("Workload", ["field", "value"], rows))
    sizes = sorted(share * workload.records for share in shares)
    console.print(
        f"{slices} {'cells' if holds_points(workload.index) else 'slices of equal width'} hold "
        f"{sizes[0]:,.0f} to {sizes[-1]:,.0f} records, "
        f"the middle one {sizes[len(sizes) // 2]:,.0f}; {sizes.count(0.0)} are empty"
    )


def envs(as_json: AsJson = False) -> None:
    """List the registered environments; use them with gymnasium.make(id).

    An R-tree is built and recorded when its first environment is made: with the papers' 50 million
    points in minutes, with the 5 million of the ids in -5m in seconds.
    """
    import gymnasium

    import pmoss_env  # noqa: F401  # registers the environments

    rows = []
    for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.id):
        if spec.namespace == "pmoss":
            chosen = ", ".join(f"{key}={value}" for key, value in spec.kwargs.items())
            rows.append((spec.id, chosen or "(all defaults)"))
    show_rows("Environments", ["id", "keyword arguments"], rows, as_json)
    if not as_json:
        console.print(
            "The first environment of an R-tree builds and records it: minutes; with -5m, seconds."
        )
