"""A surrogate under other conditions: less data, older or fewer counters, another workload.

P-MOSS gives no number of trajectories (section 6.1), and plans from counters that an earlier
schedule had (section 6.4). It meets workloads that no data hold (section 7.5), and counters that
differ by vendor (section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_benchmarks.offline.training import learned
from pmoss_benchmarks.spatial.other_counters import Fresh, Part, Stale, Without
from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, check_names
from pmoss_benchmarks.study.tables import Columns, TableOfRows, grouped, interval, table_of
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import (
    DEFAULT_ENV,
    evaluate,
    pack_actions,
    paired_difference,
    unpack_actions,
)
from pmoss_datasets.interfaces import score_of
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.suite import obtain
from pmoss_env.counter_table import Counter
from pmoss_env.errors import DescriptionError
from pmoss_env.types import COUNTERS

#: Rules that every world is played by, too.
RULES = ("best-fit", "lpt-capacity", "lpt")
#: What has changed since the counters were read, by case.
STALE: Mapping[str, tuple[str, ...]] = {
    "other hot keys": ("keys",),
    "other co-tenants": ("co-tenants",),
    "both": ("keys", "co-tenants"),
}
#: Plans that are run and read before the last one.
FRESH = ("1", "3")
#: What a surrogate does about a workload that its data do not hold.
ANSWERS = ("zero-shot", "trained anew", "trained on both")
#: Workloads that come after that of the data.
LATER = ("scans", "lookups-zipf")
#: Kinds of CPU of the counter table; empty for a virtual machine, which counts no hardware events.
VENDORS: Mapping[str, str] = {
    "Intel from Skylake-X on": "mesh_server",
    "Intel Sandy Bridge": "ring_server",
    "AMD Zen": "zen",
    "Arm": "arm",
    "a virtual machine": "",
}
#: What a cell can be about, beside the rules and the usual surrogate that others are compared with.
KINDS = ("data", "stale", "fresh", "vendors", "change")
RULE, USUAL = "rule", "usual"
#: Episodes of the evaluation begin here: no dataset has them.
_EVALUATION = 101
_AGENT = "surrogate"
_RANDOM_SCHEDULES = 100
#: What is kept of an episode.
_COLUMNS = (
    *("env_seed", "incumbent_throughput", "throughput", "score"),
    *("random_throughput", "search_throughput"),
)


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        kinds: some of KINDS.
        machine: catalogue name.
        workload: of the data.
        interference: family of co-tenants.
        slices: of the index.
        sizes: episodes of data.
        usual: episodes of data of all kinds but "data"; one of ``sizes``.
        episodes: of each evaluation.
        budget: evaluations of the search that scores 100.
        changes: fields that override the agent's committed config.
        agent: a checkpoint that stands for the surrogate of ``usual`` episodes; empty: none.
    """

    AXES: ClassVar = ("kinds",)

    kinds: tuple[str, ...] = KINDS
    machine: str = "skylake-x-8n"
    workload: str = "ycsb-a"
    interference: str = "busy_core"
    slices: int = 256
    sizes: tuple[int, ...] = (10, 30, 100, 300)
    usual: int = 100
    episodes: int = 20
    budget: int = 2000
    changes: dict[str, Any] = field(default_factory=dict)
    agent: str = ""

    def __post_init__(self) -> None:
        if self.usual not in self.sizes:
            raise DescriptionError(
                f"usual = {self.usual}: must be one of sizes = {list(self.sizes)}"
            )
        check_names("kind", self.kinds, KINDS)

    def env(self, workload: str) -> dict[str, Any]:
        """Arguments of the environment under a workload."""
        return {
            "machine": self.machine,
            "workload": workload,
            "interference": self.interference,
            "slices": self.slices,
        }


def cells(settings: Settings) -> list[Cell]:
    """The rules and the usual surrogate, then the cases of each kind."""
    cases: dict[str, Sequence[str]] = {
        "data": [str(size) for size in settings.sizes if size != settings.usual],
        "stale": tuple(STALE),
        "fresh": FRESH,
        "vendors": tuple(distinct_vendors()),
    }
    kinds: dict[str, Sequence[str]] = {RULE: RULES, USUAL: (str(settings.usual),)}
    kinds |= {kind: cases[kind] for kind in settings.kinds if kind in cases}
    chosen = [
        {"kind": kind, "case": case, "workload": settings.workload}
        for kind, of_kind in kinds.items()
        for case in of_kind
    ]
    for workload in LATER if "change" in settings.kinds else ():
        chosen += [{"kind": RULE, "case": rule, "workload": workload} for rule in RULES]
        chosen += [{"kind": "change", "case": answer, "workload": workload} for answer in ANSWERS]
    return chosen


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data."""
    settings: Settings = run.settings
    kinds = {cell["kind"] for cell in cells(settings)} - {RULE}
    if settings.agent and kinds <= {USUAL, "stale", "fresh"}:
        return
    for workload in (settings.workload, *(LATER if "change" in kinds else ())):
        _data(run, workload)


def _data(run: Run, workload: str) -> Dataset:
    """The dataset of a workload, as it lies there or made."""
    settings: Settings = run.settings
    count = max(settings.sizes) if workload == settings.workload else settings.usual
    recipe = Recipe(env=settings.env(workload), episodes=count, tier="mixed", reference_episodes=0)
    return obtain(recipe, run.keep / "conditions" / recipe.id)


def measure(run: Run, cell: Cell) -> Row:
    """The episodes of a cell: a list for each of _COLUMNS.

    What a surrogate did is in ``actions``, packed. Rules decide the same again.
    """
    rows = evaluate(
        _world(run.settings, cell["workload"]),
        {cell["case"]: _policy(run, cell)},
        [_EVALUATION],
        run.settings.episodes,
        search_budget=run.settings.budget,
        random_schedules=_RANDOM_SCHEDULES,
    ).rows
    columns = {name: [getattr(row, name) for row in rows] for name in _COLUMNS}
    if cell["kind"] == RULE:
        return columns
    return {**columns, "actions": [pack_actions(row.actions) for row in rows]}


def _policy(run: Run, cell: Cell) -> Policy:
    settings, kind, case = run.settings, cell["kind"], cell["case"]
    home = settings.workload
    if kind == RULE:
        return SchedulePolicy(case)
    if kind == "change":
        lessons = {"zero-shot": [home], "trained anew": [cell["workload"]]}
        return _agent(run, lessons.get(case, [home, cell["workload"]]), settings.usual)
    if kind == "vendors":
        lost = distinct_vendors()[case]
        return Without(_agent(run, [home], settings.usual, lost), lost)
    agent = _agent(run, [home], int(case) if kind == "data" else settings.usual)
    if kind == "stale":
        return Stale(agent, STALE[case])
    return Fresh(agent, int(case)) if kind == "fresh" else agent


def _agent(
    run: Run, workloads: Sequence[str], episodes: int, lost: Sequence[str] = ()
) -> Surrogate:
    """A surrogate that learned from so many episodes of each workload; kept for other cells."""
    settings: Settings = run.settings
    usual = [settings.workload], settings.usual, ()
    if settings.agent and ([*workloads], episodes, lost) == usual:
        agent = pmoss_agents.load(settings.agent)
    else:
        data: list[Dataset] = [Part(_data(run, w), episodes, lost) for w in workloads]
        task = data[0].metadata.id.split("/")[1]
        kept = replace(run, keep=run.keep / "conditions" / "agents")
        agent = learned(kept, _AGENT, task, data, settings.changes)
    assert isinstance(agent, Surrogate)
    return agent


def _world(settings: Settings, workload: str) -> dict[str, Any]:
    return {**settings.env(workload), "observation": "complete"}


def again(run: Run, row: Row) -> Row:
    """A row's episodes: rules decide anew, the surrogate's actions are run again."""
    domain = domain_of_env(DEFAULT_ENV)
    columns: Row = {name: [] for name in _COLUMNS}
    with (
        closing(domain.make_env(_world(run.settings, row["workload"]))) as env,
        closing(domain.judge(env)) as judge,
    ):
        for number, env_seed in enumerate(row["env_seed"]):
            env.reset(seed=env_seed)
            judge.begin()
            ends = judge.reference(env_seed, run.settings.budget, _RANDOM_SCHEDULES)
            judge.begin()
            if "actions" in row:
                rollout = domain.rerun(env, env_seed, unpack_actions(row["actions"][number]))
                judge.begin()
            else:
                rollout = domain.play(env, SchedulePolicy(row["case"]), env_seed, judge)
            score = score_of(judge.outcome(rollout), *ends)
            episode = env_seed, rollout.start, rollout.outcome, score, *ends
            for name, value in zip(_COLUMNS, episode, strict=True):
                columns[name].append(value)
    return columns


def lost_counters(kind: str) -> tuple[str, ...]:
    """Counters that the model has and a kind of CPU of VENDORS has no event for."""
    return tuple(
        counter.name
        for counter in COUNTERS
        if "analytic" in counter.models
        and counter.source == "hardware"
        and not (kind and _is_counted(counter, kind))
    )


def _is_counted(counter: Counter, kind: str) -> bool:
    # Names of libpfm4 are tried on every CPU, but they are those of Intel's events.
    return any(kind in way.on if way.on else way.kind != "name" for way in counter.perf)


def distinct_vendors() -> dict[str, tuple[str, ...]]:
    """Counters that are lost, by the names of all that lose exactly these; none lost: left out."""
    names: dict[tuple[str, ...], str] = {}
    for name, kind in VENDORS.items():
        if lost := lost_counters(kind):
            names[lost] = f"{names[lost]}, {name}" if lost in names else name
    return {name: lost for lost, name in names.items()}


def scores(rows: Rows) -> list[dict[str, Any]]:
    """The rows with what they come to.

    Returns:
        Beside a row's own fields ``mean``, over its episodes; ``best_rule``, the rule with the
        highest mean under the workload; and points ahead in the same episodes: ``over_rule`` and,
        under the same workload, ``over_usual``.
    """
    points = [np.array([row["score"]], dtype=np.float64) for row in rows]
    (usual,) = (n for n, row in enumerate(rows) if row["kind"] == USUAL)
    compared = []
    for row, mine in zip(rows, points, strict=True):
        rules = [
            n
            for n, other in enumerate(rows)
            if other["kind"] == RULE and other["workload"] == row["workload"]
        ]
        best = max(rules, key=lambda n: float(points[n].mean()))
        same_world = row["workload"] == rows[usual]["workload"]
        compared.append(
            {
                **row,
                "mean": paired_difference(mine),
                "best_rule": rows[best]["case"],
                "over_rule": paired_difference(mine - points[best]),
                "over_usual": paired_difference(mine - points[usual]) if same_world else None,
            }
        )
    return compared


def _of_kinds(rows: Rows, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in scores(rows) if row["kind"] in kinds]


def _over_usual(row: Mapping[str, Any]) -> str:
    return "" if row["kind"] == USUAL else interval(row["over_usual"])


def _sizes(rows: Rows) -> TableOfRows:
    columns = {
        "episodes of data": "{case}",
        "score": "{mean:interval}",
        "against the best rule": "{over_rule:interval} over `{best_rule}`",
    }
    return table_of(sorted(_of_kinds(rows, "data", USUAL), key=lambda r: int(r["case"])), columns)


def _read(row: Mapping[str, Any]) -> str:
    """When a surrogate's counters were read."""
    if row["kind"] == USUAL:
        return "of the incumbent, as it runs"
    if row["kind"] == "stale":
        return f"read before a change of: {row['case'].removeprefix('other ')}"
    return f"of its own plan, after {row['case']} plan{'' if row['case'] == '1' else 's'}"


def _counters(rows: Rows) -> TableOfRows:
    columns: Columns = {
        "counters": _read,
        "score": "{mean:interval}",
        "against the first row": _over_usual,
    }
    return table_of(_of_kinds(rows, USUAL, "stale", "fresh"), columns)


def _vendors(rows: Rows) -> TableOfRows:
    lost = distinct_vendors()
    columns: Columns = {
        "counters of": lambda row: "all counters" if row["kind"] == USUAL else row["case"],
        # Rows may be older than the counter table, which then has other groups of CPUs.
        "lost": lambda row: str(len(lost[row["case"]])) if row.get("case") in lost else "",
        "score": "{mean:interval}",
        "against the first row": _over_usual,
    }
    return table_of(_of_kinds(rows, USUAL, "vendors"), columns)


#: What a surrogate that plays another workload has learned from.
_LESSONS = dict(
    zip(ANSWERS, ("on `{}` alone", "on the new workload alone", "on both"), strict=True)
)


def _later(rows: Rows) -> TableOfRows:
    home = next(row["workload"] for row in rows if row["kind"] == USUAL)
    shown = []
    for of_workload in grouped(_of_kinds(rows, "change", RULE), "workload").values():
        # The rule stands below the surrogates.
        shown += [row for row in of_workload if row["kind"] == "change"]
        shown += [row for row in of_workload if row["case"] == row["best_rule"] != ""]
    columns: Columns = {
        "workload now": "`{workload}`",
        "policy": lambda row: (
            f"the best rule, `{row['case']}`"
            if row["kind"] == RULE
            else f"surrogate, trained {_LESSONS[row['case']].format(home)}"
        ),
        "score": "{mean:interval}",
    }
    return table_of([row for row in shown if row["workload"] != home], columns)


TABLES = {"default": _sizes, "counters": _counters, "vendors": _vendors, "later": _later}
