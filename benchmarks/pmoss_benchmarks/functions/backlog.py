"""What a backlog makes of the goal: all queries served, against the workload's mix served.

Under a backlog, the P-MOSS paper's load (section 7.1), a worker always has queries of its own
slices. A schedule that starves slices of costly queries then serves more in all. The mix rate is
the least, over what has a queue, of the rate served over its share of the workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np

from pmoss_benchmarks.offline.ratios import PLACED, SHARED
from pmoss_benchmarks.spatial.combinations import simulation
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, means, percent, table_of
from pmoss_env.backends import Backend, IncrementalBackend, make_backend
from pmoss_env.baselines import (
    SHARED_BASELINES,
    Context,
    grouped_context,
    local_search,
    make_baseline,
)
from pmoss_env.types import Float64Array, Instance, Schedule
from pmoss_env.workloads import load_workload

#: The paper's servers, and a server of today's with as many cores.
MACHINES = (
    "sandy-bridge",
    "skylake-x-4n",
    "skylake-x-8n",
    "milan-nps1",
    "milan-nps4",
    "rome-7302",
    "grace-hopper",
)
#: W1 to W6 of the paper (sections 7.2 to 7.5); the R-tree with a tenth of its points.
WORKLOADS = ("ycsb-a", "lookups", "scans", "lookups-scans", "osm-a", "rtree-ranges-5m")
#: The paper's schedules, and rules.
SCHEDULES = (
    *SHARED_BASELINES,
    "grouped",
    "spread",
    "mixed",
    "random",
    "lpt",
    "greedy-capacity",
    "best-fit",
)
#: What a search looks at, and the load that says it.
OBJECTIVES = {"served": "saturated", "mix": "saturated:mix", "closed": "closed"}
#: A slice is starved that is served at less than this part of its share of what is served.
STARVED = 0.5


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        machines: by catalogue name.
        workloads: by catalogue name.
        instances: workload instances, of seeds 1, 2, ...
        budgets: model evaluations of the searches; one search each per objective.
        slices: of the index.
        confirmed: workloads whose first instance the simulated server measures too.
        simulated: options of the simulated backend.
    """

    AXES: ClassVar = ("machines", "workloads")

    machines: tuple[str, ...] = MACHINES
    workloads: tuple[str, ...] = WORKLOADS
    instances: int = 3
    budgets: tuple[int, ...] = (2_000, 10_000)
    slices: int = 256
    confirmed: tuple[str, ...] = ()
    simulated: dict[str, Any] | None = None


def cells(settings: Settings) -> list[Cell]:
    """Every server under every workload."""
    return [
        {"machine": machine, "workload": workload}
        for machine, workload in product(settings.machines, settings.workloads)
    ]


def measure(run: Run, cell: Cell) -> Row:
    """The row of one cell: means over its instances, Mq/s.

    Returns:
        "rows", by schedule: "served" of all queries, "mix" rate, "closed" throughput, "starved"
        share of the slices; where ``confirmed`` also "simulated_served" and "simulated_mix".
    """
    options = run.settings
    of_instances = [_instance(options, cell, seed) for seed in range(1, options.instances + 1)]
    return {"rows": {name: means([of[name] for of in of_instances]) for name in of_instances[0]}}


def _instance(options: Settings, cell: Cell, seed: int) -> dict[str, dict[str, float]]:
    instance = Instance(seed)
    with ExitStack() as stack:
        models = {}
        for objective, load in OBJECTIVES.items():
            made = stack.enter_context(closing(_backend("analytic", cell, options.slices, load)))
            made.set_instance(instance)
            models[objective] = cast(IncrementalBackend, made)
        schedules = {
            name: make_baseline(name, shared=True)(_context(models["served"], seed))
            for name in SCHEDULES
        }
        for objective, budget in product(OBJECTIVES, options.budgets):
            context = _context(models[objective], seed)
            schedules[f"search-{budget}-{objective}"] = local_search(context, budget).schedule
        rows = {name: served_row(models, schedule, seed) for name, schedule in schedules.items()}
        if cell["workload"] in options.confirmed and seed == 1:
            _confirm(options, cell, instance, schedules, rows)
        return rows


def _backend(name: str, cell: Cell, slices: int, load: str, **options: Any) -> Backend:
    return make_backend(
        name,
        machine=cell["machine"],
        workload=cell["workload"],
        index=load_workload(cell["workload"]).index,
        slices=slices,
        load=load,
        **options,
    )


def _context(model: IncrementalBackend, seed: int) -> Context:
    return grouped_context(model, np.random.default_rng(seed), seed=seed)


def served_row(
    models: Mapping[str, IncrementalBackend], schedule: Schedule, seed: int
) -> dict[str, float]:
    """What a schedule serves, by models of the loads of OBJECTIVES, Mq/s; see measure_cell()."""
    closed, mix = (models[name].measure(schedule, seed=seed) for name in ("closed", "mix"))
    # A closed load serves the mix as it is offered.
    offered = closed.slice_throughput / closed.slice_throughput.sum()
    return {
        "served": float(mix.slice_throughput.sum()),
        "mix": mix.throughput,
        "closed": closed.throughput,
        "starved": starved_share(mix.slice_throughput, offered),
    }


def starved_share(served: Float64Array, offered: Float64Array) -> float:
    """Share of the slices that get less than STARVED of their share of what is served.

    Args:
        served: (slices,) rate of each slice.
        offered: (slices,) its share of the workload; slices without any do not count.
    """
    asked = offered > 0
    given = served[asked] / served.sum() / offered[asked]
    return float(np.mean(given < STARVED))


def _confirm(
    options: Settings,
    cell: Cell,
    instance: Instance,
    schedules: dict[str, Schedule],
    rows: dict[str, dict[str, float]],
) -> None:
    """Adds what the simulated server measures."""
    more = simulation(options.simulated)
    with closing(_backend("simulated", cell, options.slices, OBJECTIVES["mix"], **more)) as server:
        server.set_instance(instance)
        for name, schedule in schedules.items():
            snapshot = server.measure(schedule, seed=instance.workload_seed)
            rows[name]["simulated_served"] = float(snapshot.slice_throughput.sum())
            rows[name]["simulated_mix"] = snapshot.throughput


#: The paper's eight schedules, by what they are called there.
PAPER = {**SHARED, **PLACED}
_RULES = ("lpt", "greedy-capacity", "best-fit")
_LARGEST = 10_000


def _search(objective: str) -> str:
    return f"search-{_LARGEST}-{objective}"


def both(row: Mapping[str, float]) -> str:
    """All queries served / the mix served, and the share of starved slices."""
    return f"{row['served']:.0f} / {row['mix']:.0f}, {percent(row['starved'])}"


def _lines(rows: Rows, names: Iterable[str]) -> list[list[str]]:
    ordered = sorted(rows, key=lambda cell: WORKLOADS.index(cell["workload"]))
    of_all = tuple(names)
    return [
        [f"{cell['machine']}, `{cell['workload']}`", *(both(cell["rows"][name]) for name in of_all)]
        for cell in ordered
    ]


def _rules(rows: Rows) -> TableOfRows:
    heads = [f"`{name}`" for name in _RULES]
    heads += [f"search, {name}" for name in ("all", "mix", "closed load")]
    names = (*_RULES, *map(_search, ("served", "mix", "closed")))
    return TableOfRows(["server, workload", *heads], _lines(rows, names))


def _simulated(rows: Rows) -> TableOfRows:
    """What the simulated server measures of the same schedules."""
    names = {
        "`random`": "random",
        "`lpt`": "lpt",
        "search, all": _search("served"),
        "search, mix": _search("mix"),
    }
    pair = "{{rows[{0}][simulated_served]:.0f}} / {{rows[{0}][simulated_mix]:.0f}}"
    columns = {head: pair.format(name) for head, name in names.items()}
    measured = [cell for cell in rows if "simulated_mix" in cell["rows"]["random"]]
    return table_of(measured, {"server, workload": "{machine}, `{workload}`", **columns})


TABLES = {
    "default": lambda rows: TableOfRows(["server, workload", *PAPER.values()], _lines(rows, PAPER)),
    "rules": _rules,
    "simulated": _simulated,
}


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Ranges over the cells: least and greatest.

    Returns:
        ``all``: what the search for all queries serves in all, over the search for the mix.
        ``mix``: what it serves of the mix, over the same. ``closed``: what the search under a
        closed load serves of the mix, over the same.
    """
    schedules = [cell["rows"] for cell in rows]
    served, mix, closed = (_search(name) for name in ("served", "mix", "closed"))
    ratios = {
        "all": [row[served]["served"] / row[mix]["served"] for row in schedules],
        "mix": [row[served]["mix"] / row[mix]["mix"] for row in schedules],
        "closed": [row[closed]["mix"] / row[mix]["mix"] for row in schedules],
    }
    return {name: {"low": min(values), "high": max(values)} for name, values in ratios.items()}
