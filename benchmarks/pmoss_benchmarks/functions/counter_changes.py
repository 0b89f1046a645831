"""Which counters differ under a learned schedule: why it is faster (P-MOSS, section 7.2).

The episodes of a study of ``play`` are played again. The environment's backend measures their
schedules beside those of a baseline in the same episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.explaining.differences import Comparison
from pmoss_agents.explaining.measuring import Choice, explain
from pmoss_benchmarks.offline.episodes import play_again
from pmoss_benchmarks.offline.ratios import SHARED
from pmoss_benchmarks.study.function import Cell, Count, Figure, Row, Rows, Run
from pmoss_benchmarks.study.store import StoredStudy, file_of, read_stored
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import Difference, of_means
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import find_baseline
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.pictures import new_figure
from pmoss_env.types import COUNTER_NAMES, Float64Array

#: Digits that are kept of what a core counts, for a picture.
_DIGITS = 4
_INTEL, _AMD, _ARM = (
    ("sandy-bridge", "skylake-x-8n"),
    ("milan-nps1", "milan-nps4"),
    ("grace-hopper",),
)
#: What the paper says is less, the counters that show it, and the servers it says so of.
CLAIMS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "accesses to far memories": (
        ("memory_misses", "memory_write_misses", "remote_dram"),
        _AMD + _INTEL,
    ),
    "accesses to memory": (("memory_accesses", "llc_misses", "llc_write_misses"), _ARM),
    "stalls": (("cycles_l3_miss", "cycles_mem_any"), _INTEL),
    "misses of address translation": (("dtlb_misses",), _AMD + _ARM + _INTEL),
    "instructions": (("instructions",), _AMD + _ARM + _INTEL),
}
#: Changes that are smaller, in percent, are none.
_LEVEL = 0.5


@dataclass(frozen=True)
class Settings:
    """What the rows depend on; the tasks are of spatial scheduling.

    Attributes:
        study: of the function ``play``, whose rows are stored.
        track: of the study.
        tasks: of the study.
        before: a baseline.
        after: policies of the study that are compared with it.
        episodes: the first so many.
    """

    AXES: ClassVar = ("tasks", "after")

    study: str
    track: str
    tasks: tuple[str, ...]
    after: tuple[str, ...]
    before: str = "os-default"
    episodes: Count = 10

    def __post_init__(self) -> None:
        find_baseline(self.before, shared=True)
        if self.before in self.after:
            raise DescriptionError(f"{self.before} beside itself: name another one before or after")


def cells(settings: Settings) -> list[Cell]:
    """Every task and policy."""
    return [{"task": task, "after": name} for task, name in product(settings.tasks, settings.after)]


def measure(run: Run, cell: Cell) -> Row:
    """What is counted under both schedules.

    Returns:
        "machine", "workload" and "load" of the environment; "counters": the names of those that
        were counted. "measured": for each episode "throughput" in Mq/s and "per_query", by counter,
        each before and after. Of the first episode "nodes": the node of each worker; "cores": for
        each counter what the workers count, before and after, in million counts per second.

    Raises:
        DatasetError: the study holds too few episodes, or one comes out different.
    """
    settings, after = run.settings, cell["after"]
    stored = read_stored(file_of(run.results, settings.study))
    row = _row_of(stored, settings, cell["task"], after)
    domain = find_domain(load_task(cell["task"]).domain)
    baseline = find_baseline(settings.before, shared=True)
    compared: list[Comparison] = []
    for again in play_again(row, stored.settings["search_budget"], range(settings.episodes)):
        if again.policy != after:
            continue
        bare = again.env.unwrapped
        kwargs = domain.task_of(again.env)[0]
        seed = again.stored["env_seed"][again.number]
        shared = again.rollout.schedule
        played = bare.schedule if shared is None else shared
        choices: dict[str, Choice] = {settings.before: baseline, after: played}
        with closing(domain.make_env(kwargs)) as env:
            comparison = explain(env.unwrapped, seed, choices)
        again.check(stored.path, comparison.after.snapshot.throughput)
        compared.append(comparison)
        session = bare.session
    machine = compared[0].machine
    available = np.flatnonzero(compared[0].before.snapshot.counters_available)
    names = [COUNTER_NAMES[at] for at in available]
    return {
        "machine": machine.name,
        "workload": session.backend.workload.name,
        "load": session.arguments.load,
        "counters": names,
        "measured": [
            {
                "throughput": [
                    one.before.snapshot.throughput,
                    one.after.snapshot.throughput,
                ],
                "per_query": [
                    of[available].tolist() for of in one.tables["machine"].column("per_query")
                ],
            }
            for one in compared
        ],
        "nodes": machine.node_of_core[machine.workers].tolist(),
        "cores": {
            name: [
                [float(f"{value:.{_DIGITS}g}") for value in of[machine.workers]]
                for of in compared[0].tables["core"].column(name)
            ]
            for name in names
        },
    }


def _row_of(stored: StoredStudy, settings: Settings, task: str, policy: str) -> Mapping[str, Any]:
    """The row of a policy's first training; DatasetError where it has too few episodes."""
    wanted = settings.track, task, policy
    rows = (row for row in stored.rows if (row["track"], row["task"], row["policy"]) == wanted)
    row = next(rows, {})
    if len(row.get("played", {}).get(policy, {}).get("env_seed", ())) < settings.episodes:
        raise DatasetError(
            f"{stored.path}: has fewer than {settings.episodes} episodes of {policy} in "
            f"{settings.track}/{task}"
        )
    return row


def _changes(rows: Rows) -> TableOfRows:
    """What changes under one policy, a column for each server."""
    lines = [
        ["throughput", "", *map(_gain, rows)],
        ["busy, mean of the workers", "", *map(_busy, rows)],
    ]
    for claim, (names, _) in CLAIMS.items():
        lines += [[f"`{name}`", claim, *(_change(row, name) for row in rows)] for name in names]
    heads = ["counter", "the paper says less", *(row["machine"] for row in rows)]
    return TableOfRows(heads, lines)


def _gain(row: Mapping[str, Any]) -> str:
    values = np.array([one["throughput"] for one in row["measured"]]).T
    gain = of_means(values, lambda means: means[1] / means[0])
    return _shown(gain, "{:.2f}".format) + " times"


def _busy(row: Mapping[str, Any]) -> str:
    before, after = (np.mean(of) for of in row["cores"]["elapsed_us"])
    return f"{before:.0%} to {after:.0%}"


def _change(row: Mapping[str, Any], name: str) -> str:
    values = _counts(row, name)
    if values is None:
        return "not counted"
    if not values[0].any():
        return "0 before"
    change = of_means(values, lambda means: 100 * (means[1] / means[0] - 1))
    # Level is level, whichever sign rounding leaves.
    return _shown(change, lambda one: "0" if abs(one) < _LEVEL else f"{one:+.0f}") + " %"


def _counts(row: Mapping[str, Any], name: str) -> Float64Array | None:
    """(2, episodes) counts per query before and after."""
    if name not in row["counters"]:
        return None
    at = row["counters"].index(name)
    return np.array([[of[at] for of in one["per_query"]] for one in row["measured"]]).T


def _shown(one: Difference, form: Callable[[float], str]) -> str:
    value = form(one.value)
    if one.low is None or one.high is None or form(one.low) == form(one.high):
        return value
    return f"{value} [{form(one.low)}, {form(one.high)}]"


def lower(rows: Rows) -> dict[str, list[bool]]:
    """By claim whether all its counters are lower, on each server that the paper says so of."""
    results: dict[str, list[bool]] = {}
    for claim, (names, servers) in CLAIMS.items():
        for row in (row for row in rows if row["machine"] in servers):
            counts = [of for name in names if (of := _counts(row, name)) is not None]
            means = [of.mean(axis=1) for of in counts if of[0].any()]
            less = [100 * (after / before - 1) < -_LEVEL for before, after in means]
            results.setdefault(claim, []).append(bool(less) and all(less))
    return results


def _draw_cores(rows: Rows) -> Figure:
    """Heat maps of one row, before and after: what cores serve, and their counters per query."""
    (row,) = rows
    order = np.argsort(row["nodes"], kind="stable")
    nodes = np.array(row["nodes"])[order]
    names = [name for of, _ in CLAIMS.values() for name in of if name in row["counters"]]
    titles = (SHARED["os-default"], row["after"])
    maps = []
    for at in range(len(titles)):
        queries = np.array(row["cores"]["queries"][at])
        counts = np.array([row["cores"][name][at] for name in names])
        # A core without queries counts nothing.
        each = np.divide(counts, queries, out=np.zeros_like(counts), where=queries > 0)
        maps.append(np.stack([queries, *each])[:, order])
    top = np.max(maps, axis=(0, 2))[:, None]
    figure = new_figure(9, 5)
    panels = figure.subplots(2, 1)
    for at, (axis, title) in enumerate(zip(panels, titles, strict=True)):
        shares = np.divide(maps[at], top, out=np.zeros_like(maps[at]), where=top > 0)
        picture = axis.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        served = row["measured"][0]["throughput"][at]
        axis.set_title(f"{row['machine']}, {title}: {served:.1f} Mq/s", fontsize=9, loc="left")
        axis.set_yticks(range(len(names) + 1), ["queries per second", *names], fontsize=7)
        starts = np.flatnonzero(np.diff(nodes, prepend=-1))
        axis.set_xticks(starts - 0.5, [f"node {nodes[one]}" for one in starts], fontsize=7)
    figure.colorbar(picture, ax=panels, label="of the row's highest", shrink=0.6)
    return figure


TABLES = {"default": _changes}
PLOTS = {"cores": _draw_cores}
