"""How far the estimates of a mesh reach: the farthest two cores over the nearest two.

No public text gives the shape of Grace Hopper's mesh. The time of a hop comes from the spread that
was measured on another chip with these cores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, bold_inside
from pmoss_benchmarks.validation.targets import choose
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.mesh import Mesh

MACHINE = "grace-hopper-mesh"
#: The statement about the machine.
STATEMENT = "22c"


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        shapes: rows, columns and cores at a stop: what 72 cores could have.
        hops: from a stop to the next one, ns.
    """

    AXES: ClassVar = ("shapes",)

    shapes: tuple[tuple[int, int, int], ...] = ((6, 6, 2), (4, 9, 2), (6, 7, 2), (8, 9, 1))
    hops: tuple[float, ...] = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)


def cells(settings: Settings) -> list[Cell]:
    """The shapes."""
    return [{"rows": r, "columns": c, "cores_per_stop": k} for r, c, k in settings.shapes]


def measure(run: Run, cell: Cell) -> Row:
    """The ``ratio`` of latencies of a modified line, by the time of a hop."""
    machine, mesh = _machine()
    mean = machine.parameter("modified_same_llc_ns")
    ratios = {}
    for hop in run.settings.hops:
        other = replace(
            mesh,
            rows=cell["rows"],
            cols=cell["columns"],
            cores_per_stop=cell["cores_per_stop"],
            hop_ns=replace(mesh.hop_ns, value=hop),
        )
        changed = replace(machine, mesh=other)
        far, near = (mean + changed.mesh_ns[1][pair] for pair in changed.mesh_ends)
        ratios[f"{hop:g}"] = float(far / near)
    return {"ratio": ratios}


def _machine() -> tuple[Machine, Mesh]:
    machine = load_machine(MACHINE)
    if machine.mesh is None:
        raise DescriptionError(f"{MACHINE} has no mesh")
    return machine, machine.mesh


def _ratios(rows: Rows) -> TableOfRows:
    """The ratio by shape and hop; bold ones lie inside what the statement accepts."""
    _, mesh = _machine()
    (target,) = choose([STATEMENT])
    accepted = {"low": target.low, "high": target.high}
    lines = []
    for row in rows:
        plural = "s" if row["cores_per_stop"] > 1 else ""
        shape = row["rows"], row["columns"], row["cores_per_stop"]
        used = " (used)" if shape == (mesh.rows, mesh.cols, mesh.cores_per_stop) else ""
        lines.append(
            [
                f"{shape[0]} x {shape[1]} stops, {shape[2]} core{plural} each{used}",
                *(bold_inside(ratio, accepted) for ratio in row["ratio"].values()),
            ]
        )
    used_hop = f"{mesh.hop_ns.value:g}"
    heads = [f"{hop} ns{' (used)' if hop == used_hop else ''}" for hop in rows[0]["ratio"]]
    return TableOfRows(["mesh", *heads], lines)


TABLES = {"default": _ratios}
