"""The catalogues of machines, workloads and environments, for `pmoss list`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from pmoss_env.cli.console import console, show_json, show_rows, table
from pmoss_env.errors import PlatformError, UnknownNameError

if TYPE_CHECKING:
    from pmoss_env.workloads import Workload


def machines(name: str | None = None, as_json: bool = False) -> None:
    """Lists the machines, or shows one with the source of every value."""
    from pmoss_env.machines import load_machine, machine_names

    if name is None:
        rows: list[tuple[Any, ...]] = []
        for catalogue_name in machine_names():
            try:
                m = load_machine(catalogue_name)
            except PlatformError:
                rows.append((catalogue_name, "", "", "", "", "this host cannot be read"))
                continue
            workers = len(m.workers)
            rows.append((catalogue_name, m.sockets, m.nodes, m.cores, workers, m.description))
        columns = ["name", ">sockets", ">nodes", ">cores", ">workers", "description"]
        show_rows("Machines", columns, rows, as_json)
        return
    machine = load_machine(name)
    if as_json:
        shape = {"grid": [machine.rows, machine.cols], "roles": machine.roles()}
        parameters_of = {key: asdict(value) for key, value in machine.parameters.items()}
        about = {"name": machine.name, "description": machine.description}
        show_json({**about, **shape, "parameters": parameters_of})
        return
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


def _value(value: float | tuple[Any, ...]) -> str:
    """A number, the entries of a list, or a matrix with one row per line."""
    if not isinstance(value, tuple):
        return f"{value:g}"
    rows = isinstance(value[0], tuple)
    return ("\n" if rows else ", ").join(
        " ".join(f"{v:g}" for v in row) if rows else f"{row:g}" for row in value
    )


def workloads(name: str | None = None, slices: int = 256, as_json: bool = False) -> None:
    """Lists the workloads, or shows one with the sizes of its slices."""
    from pmoss_env.workloads import load_workload, workload_names
    from pmoss_env.workloads.description import FRACTIONS

    if name is not None:
        workload = load_workload(name)
        if as_json:
            show_json(asdict(workload))
        else:
            _workload(workload, slices)
        return
    rows = []
    for name in workload_names():
        w = load_workload(name)
        mix = ", ".join(
            f"{share:.0%} {kind.replace('_', '-')}"
            for kind in FRACTIONS
            if (share := getattr(w, kind)) > 0
        )
        choice = f"{w.distribution} {w.theta:g}" if "zipf" in w.distribution else w.distribution
        rows.append((name, mix, choice, w.keys, f"{w.records:,}", w.source))
    columns = ["name", "operations", "choice", "keys", ">records", "source"]
    show_rows("Workloads", columns, rows, as_json)


def _workload(workload: Workload, slices: int) -> None:
    """Prints every value of a workload and how its records fall on the slices."""
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


def environments(name: str | None = None, as_json: bool = False) -> None:
    """Lists the registered environments, or shows the arguments of one."""
    import gymnasium

    import pmoss_env  # noqa: F401  # registers the environments

    rows = []
    for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.id):
        if spec.namespace == "pmoss" and name in (None, spec.id):
            chosen = ", ".join(f"{key}={value}" for key, value in spec.kwargs.items())
            rows.append((spec.id, chosen or "(all defaults)"))
    if name is not None and not rows:
        ids = [spec.id for spec in gymnasium.registry.values() if spec.namespace == "pmoss"]
        raise UnknownNameError("environment", name, sorted(ids))
    show_rows("Environments", ["id", "keyword arguments"], rows, as_json)
    if not as_json and name is None:
        console.print(
            "The first environment of an R-tree builds and records it: minutes; with -5m, seconds."
        )


def rules(name: str | None = None, as_json: bool = False) -> None:
    """Lists the baselines in the words of their own code, or one of them."""
    import inspect

    from pmoss_env.baselines import (
        BASELINES,
        SHARED_BASELINES,
        find_baseline,
        information_of,
        needs_backend,
    )

    rows = []
    for each in [name] if name else [*BASELINES, *SHARED_BASELINES]:
        baseline = find_baseline(each, shared=True)
        first = " ".join((inspect.getdoc(baseline) or "").split("\n\n", 1)[0].split())
        budget = inspect.signature(baseline).parameters.get("budget")
        evaluations = (
            f"{budget.default:,}" if budget else "all it needs" if needs_backend(baseline) else "0"
        )
        rows.append((each, first, information_of(each), evaluations))
    columns = ["name", "what it does", "what it may use", "evaluations of the model"]
    show_rows("Rules and searches", columns, rows, as_json)
