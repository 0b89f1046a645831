"""What the schedules that P-MOSS published are worth by our models.

The public repositories hold schedules that the authors' policy wrote, and no throughput of any. Our
models tell what they would serve beside Random, Grouped, LPT and search. The repositories have no
licence, so a report holds figures of the schedules and none of their contents.

Which slices were hot in the authors' runs is not published, but for one run. So a schedule meets
many workload instances, whose hot slices lie anywhere. That tells what its shape is worth: how many
slices share a core, and how far their data are. Where snapshots of the machine exist, a second test
tells whether the schedule knew the load: its slices are exchanged at random, and the busiest core
of the result is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import Columns, TableOfRows, table_of
from pmoss_datasets.original import OriginalData, OriginalSchedule, import_folder
from pmoss_env.backends import IncrementalBackend, make_backend
from pmoss_env.baselines import grouped_context, local_search, make_baseline
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import Float64Array, Instance, Int32Array, Schedule
from pmoss_env.workloads import load_workload

#: Our description of each machine, by the name of its machine file.
MACHINES = {
    "amd_epyc7302_2s_2n": "rome-7302",
    "amd_epyc7543_2s_2n": "milan-nps1",
    "amd_epyc7543_2s_8n": "milan-nps4",
    "intel_sb_4s_4n": "sandy-bridge",
    "intel_skx_4s_4n": "skylake-x-4n",
    "intel_skx_4s_8n": "skylake-x-8n",
    "nvidia_gh_1s_1n": "grace-hopper",
}
#: Our workload of each of the original's ids.
WORKLOADS = {"11": "ycsb-a", "12": "lookups-zipf", "13": "scans"}
#: What published schedules are held against.
OPPONENTS = ("random", "grouped", "lpt", "greedy-capacity", "search")
LOADS = ("closed", "saturated:mix")
#: Random exchanges of a schedule's slices.
EXCHANGES = 2_000


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        folder: of the original's files; rows do not name it.
        machines: names of machine files; none: all of MACHINES that the folder has.
        instances: workload instances, of seeds 1, 2, ...
        budget: model evaluations of the search.
    """

    AXES: ClassVar = ("folder", "machines")

    folder: str = "original"
    machines: tuple[str, ...] = ()
    instances: int = 20
    budget: int = 2_000


def cells(settings: Settings) -> list[Cell]:
    """A cell per machine and workload with learned schedules in the folder.

    Raises:
        DatasetError: a machine that was asked for is not there, or damaged.
        UnsupportedError: a machine that we have no description of, or nothing to score.
    """
    folder = Path(settings.folder)
    learned: list[Cell] = []
    for name in settings.machines or [name for name in MACHINES if _has(folder, name)]:
        if name not in MACHINES:
            raise UnsupportedError(
                f"machine {name!r}: no description of it here: choose of {', '.join(MACHINES)}"
            )
        workloads = sorted({workload for workload, _ in import_folder(folder, name).learned})
        learned += [{"original": name, "workload": w} for w in workloads if w in WORKLOADS]
    if not learned:
        raise UnsupportedError(
            f"{folder}: holds no learned schedule for the workloads {', '.join(WORKLOADS)} (below "
            "learned/ or pmoss_machine_configs/)"
        )
    return learned


def _has(folder: Path, machine: str) -> bool:
    return any((folder / home / machine).is_dir() for home in ("learned", "pmoss_machine_configs"))


def measure(run: Run, cell: Cell) -> Row:
    """The row of one cell.

    Returns:
        "rows", by schedule: per load the throughput of each instance in Mq/s; of published ones
        also "cores" in use, "most" slices of one core, and the "agreement" of nodes and cores.
        "awareness", by published schedule, see exchanged(); empty without snapshots.
    """
    options, folder = run.settings, Path(run.settings.folder)
    data = import_folder(folder, cell["original"])
    machine = load_machine(MACHINES[cell["original"]])
    originals = {
        f"published-{number}": schedule
        for (workload, number), schedule in sorted(data.learned.items())
        if workload == cell["workload"]
    }
    fixed = {name: translated(schedule, data, machine) for name, schedule in originals.items()}
    fixed |= {
        f"{name}-as-written": Schedule(fixed[name].cores, schedule.executed_nodes)
        for name, schedule in originals.items()
        if schedule.agreement < 1
    }
    rows: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        models = {
            load: stack.enter_context(closing(_model(machine, WORKLOADS[cell["workload"]], load)))
            for load in LOADS
        }
        for seed in range(1, options.instances + 1):
            for model in models.values():
                model.set_instance(Instance(seed))
            schedules = fixed | _opponents(models["closed"], seed, options.budget)
            for name, schedule in schedules.items():
                row = rows.setdefault(name, {load: [] for load in LOADS})
                for load, model in models.items():
                    row[load].append(float(model.place(schedule)))
    for name, original in originals.items():
        counts = np.unique(original.schedule.cores, return_counts=True)[1]
        rows[name] |= {
            "cores": int(counts.size),
            "most": int(counts.max()),
            "agreement": original.agreement,
        }
    return {"machine": machine.name, "rows": rows, "awareness": _awareness(data, cell, originals)}


def translated(schedule: OriginalSchedule, data: OriginalData, machine: Machine) -> Schedule:
    """A published schedule on our description of its machine: its k-th worker is our k-th.

    Raises:
        UnsupportedError: the machines have other numbers of workers or nodes.
    """
    theirs = data.machine
    if theirs.workers.size != machine.workers.size or theirs.nodes != machine.nodes:
        raise UnsupportedError(
            f"{theirs.name}: {theirs.workers.size} workers on {theirs.nodes} nodes: "
            f"{machine.name} has {machine.workers.size} on {machine.nodes}"
        )
    ours = dict(zip(theirs.workers.tolist(), machine.workers.tolist(), strict=True))
    cores = np.array([ours[cpu] for cpu in schedule.schedule.cores.tolist()])
    return machine.local_schedule(cores)


def _model(machine: Machine, workload: str, load: str) -> IncrementalBackend:
    model = make_backend(
        "analytic",
        machine=machine,
        workload=workload,
        index=load_workload(workload).index,
        slices=256,
        load=load,
    )
    assert isinstance(model, IncrementalBackend)
    return model


def _opponents(model: IncrementalBackend, seed: int, budget: int) -> dict[str, Schedule]:
    context = grouped_context(model, np.random.default_rng(seed), seed=seed)
    made = {name: make_baseline(name)(context) for name in OPPONENTS if name != "search"}
    return {**made, "search": local_search(context, budget).schedule}


def _awareness(
    data: OriginalData, cell: Cell, schedules: dict[str, OriginalSchedule]
) -> dict[str, dict[str, float]]:
    if data.snapshots is None or int(cell["workload"]) not in data.snapshots.workload:
        return {}
    share = data.snapshots.slice_share
    return {
        name: exchanged(schedule.schedule.cores, share, np.random.default_rng(0))
        for name, schedule in schedules.items()
    }


def exchanged(cores: Int32Array, share: Float64Array, rng: np.random.Generator) -> dict[str, float]:
    """Whether a schedule knows the load of slices: it, against itself with exchanged slices.

    Args:
        cores: (slices,) of a schedule.
        share: (slices,) of all queries.

    Returns:
        "busiest": the share of the busiest core, over the mean of the cores in use. "exchanged":
        its mean over EXCHANGES random exchanges. "as_good": share of these that are as good.
    """
    used = np.unique(cores, return_inverse=True)[1].astype(np.int32)

    def busiest(placed: Int32Array) -> float:
        loads = np.bincount(placed, weights=share)
        return float(loads.max() / loads.mean())

    own = busiest(used)
    others = np.array([busiest(rng.permutation(used)) for _ in range(EXCHANGES)])
    return {
        "busiest": own,
        "exchanged": float(others.mean()),
        "as_good": float(np.mean(others <= own)),
    }


def _table(rows: Rows) -> TableOfRows:
    """Throughput under a closed load as a multiple of Random's on the same instance."""
    published = [
        {**cell, "name": name, "own": own, "of": cell["rows"]}
        for cell in rows
        for name, own in cell["rows"].items()
        if "agreement" in own
    ]
    columns: Columns = {
        "server, workload": lambda row: f"{row['machine']}, `{WORKLOADS[row['workload']]}`",
        "id": lambda row: row["name"].removeprefix("published-"),
        "cores / most slices": "{own[cores]} / {own[most]}",
        "nodes agree": "{own[agreement]:percent}",
        "published": lambda row: _ratio(row["of"], row["name"]),
        "as written": lambda row: _ratio(row["of"], f"{row['name']}-as-written", "the same"),
    }
    opponents = {
        f"`{name}`": lambda row, name=name: _ratio(row["of"], name) for name in OPPONENTS[1:]
    }
    return table_of(published, {**columns, **opponents})


def _ratio(schedules: Mapping[str, Mapping[str, Any]], name: str, lacking: str = "") -> str:
    """Paired by instance, with a 95 % interval; ``lacking`` where there is no such schedule."""
    if name not in schedules:
        return lacking
    random = np.array(schedules["random"]["closed"])
    own: Float64Array = np.array(schedules[name]["closed"]) / random
    half = 1.96 * own.std(ddof=1) / np.sqrt(own.size)
    return f"{own.mean():.2f} [{own.mean() - half:.2f}, {own.mean() + half:.2f}]"


TABLES = {"default": _table}
