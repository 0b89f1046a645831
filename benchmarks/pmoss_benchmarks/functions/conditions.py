"""A surrogate under other conditions: less data, older or fewer counters, another workload.

P-MOSS gives no number of trajectories (section 6.1), and plans from counters that an earlier
schedule had (section 6.4). It meets workloads that no data hold (section 7.5), and counters that
differ by vendor (section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.configs import committed_config
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_benchmarks.spatial.other_counters import Fresh, Part, Stale, Without
from pmoss_benchmarks.spatial.trained import trained
from pmoss_benchmarks.study.function import Cell, Progress, Row, Run
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import (
    DEFAULT_ENV,
    Difference,
    evaluate,
    pack_actions,
    paired_difference,
    unpack_actions,
)
from pmoss_datasets.interfaces import score_of
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.suite import obtain
from pmoss_env.counter_table import Counter
from pmoss_env.errors import DescriptionError, UnknownNameError
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
        for name in self.kinds:
            if name not in KINDS:
                raise UnknownNameError("kind", name, KINDS)

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


class Work:
    """Does the cells in one process."""

    def __init__(self, run: Run) -> None:
        self._run, self._settings = run, run.settings
        # Throughputs of score 0 and 100 by workload, then by the episode's seed.
        self._references: dict[str, dict[int, tuple[float, float]]] = {}

    def __call__(self, cell: Cell) -> Row:
        """The episodes of a cell: a list for each of _COLUMNS.

        What a surrogate did is in ``actions``, packed. Rules decide the same again.
        """
        settings: Settings = self._settings
        evaluation = evaluate(
            _world(settings, cell["workload"]),
            {cell["case"]: self._policy(cell)},
            [_EVALUATION],
            settings.episodes,
            search_budget=settings.budget,
            random_schedules=_RANDOM_SCHEDULES,
            references=self._references.setdefault(cell["workload"], {}),
        )
        columns = {name: [getattr(row, name) for row in evaluation.rows] for name in _COLUMNS}
        if cell["kind"] == RULE:
            return columns
        return {**columns, "actions": [pack_actions(row.actions) for row in evaluation.rows]}

    def _policy(self, cell: Cell) -> Policy:
        kind, case = cell["kind"], cell["case"]
        settings, home = self._settings, self._settings.workload
        if kind == RULE:
            return SchedulePolicy(case)
        if kind == "change":
            workloads = {
                "zero-shot": [home],
                "trained anew": [cell["workload"]],
                "trained on both": [home, cell["workload"]],
            }
            return self._agent(workloads[case], settings.usual)
        if kind == "vendors":
            lost = distinct_vendors()[case]
            return Without(self._agent([home], settings.usual, lost), lost)
        agent = self._agent([home], int(case) if kind == "data" else settings.usual)
        if kind == "stale":
            return Stale(agent, STALE[case])
        return Fresh(agent, int(case)) if kind == "fresh" else agent

    def _agent(
        self, workloads: Sequence[str], episodes: int, lost: Sequence[str] = ()
    ) -> Surrogate:
        """A surrogate that learned from so many episodes of each workload; kept for other cells."""
        settings: Settings = self._settings
        if settings.agent and ([*workloads], episodes, lost) == (
            [settings.workload],
            settings.usual,
            (),
        ):
            agent = pmoss_agents.load(settings.agent)
        else:
            data: list[Dataset] = [Part(_data(self._run, w), episodes, lost) for w in workloads]
            task = data[0].metadata.id.split("/")[1]
            config = {**committed_config(_AGENT, task), **settings.changes}
            path = trained(_AGENT, config, data, self._run.keep / "conditions" / "agents")
            agent = pmoss_agents.load(path, _AGENT)
        assert isinstance(agent, Surrogate)
        return agent


def _world(settings: Settings, workload: str) -> dict[str, Any]:
    return {**settings.env(workload), "observation": "complete"}


def recheck(run: Run, row: Row) -> list[str]:
    """Runs a row's episodes again: rules decide anew, the surrogate's actions are run again."""
    domain, differences = domain_of_env(DEFAULT_ENV), []
    with closing(domain.make_env(_world(run.settings, row["workload"]))) as env:
        judge = domain.judge(env)
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
            now = {
                "random_throughput": ends[0],
                "search_throughput": ends[1],
                "incumbent_throughput": rollout.start,
                "throughput": rollout.outcome,
                "score": score_of(judge.outcome(rollout), *ends),
            }
            differences += [
                f"episode {number}: {name}: stored {row[name][number]!r}, now {value!r}"
                for name, value in now.items()
                if value != row[name][number]
            ]
        judge.close()
    return differences


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


@dataclass(frozen=True)
class Score:
    """What a row comes to.

    Attributes:
        row: of the study.
        score: mean over its episodes.
        best_rule: the rule with the highest mean score under the workload.
        over_rule: points ahead of it, in the same episodes.
        over_usual: points ahead of the usual surrogate; None under another workload.
    """

    row: Mapping[str, Any]
    score: Difference
    best_rule: str
    over_rule: Difference
    over_usual: Difference | None


def scores(rows: Sequence[Mapping[str, Any]]) -> list[Score]:
    """The scores of all rows."""
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
            Score(
                row,
                paired_difference(mine),
                rows[best]["case"],
                paired_difference(mine - points[best]),
                paired_difference(mine - points[usual]) if same_world else None,
            )
        )
    return compared


def _sizes(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    chosen = [score for score in scores(rows) if score.row["kind"] in ("data", USUAL)]
    chosen.sort(key=lambda score: int(score.row["case"]))
    lines = [
        [
            score.row["case"],
            interval(score.score),
            f"{interval(score.over_rule)} over `{score.best_rule}`",
        ]
        for score in chosen
    ]
    return TableOfRows(["episodes of data", "score", "against the best rule"], lines)


def _counters(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    lines = []
    for score in scores(rows):
        kind, case = score.row["kind"], score.row["case"]
        words = {
            USUAL: "of the incumbent, as it runs",
            "stale": f"read before a change of: {case.removeprefix('other ')}",
            "fresh": f"of its own plan, after {case} plan{'' if case == '1' else 's'}",
        }
        if kind in words:
            against = "" if kind == USUAL else interval(score.over_usual)
            lines.append([words[kind], interval(score.score), against])
    return TableOfRows(["counters", "score", "against the first row"], lines)


def _vendors(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    lost = distinct_vendors()
    lines = []
    for score in scores(rows):
        if score.row["kind"] == USUAL:
            lines.append(["all counters", "", interval(score.score), ""])
        elif score.row["kind"] == "vendors":
            case = score.row["case"]
            lines.append(
                [case, str(len(lost[case])), interval(score.score), interval(score.over_usual)]
            )
    return TableOfRows(["counters of", "lost", "score", "against the first row"], lines)


def _later(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    home = next(row["workload"] for row in rows if row["kind"] == USUAL)
    trained_on = dict(
        zip(ANSWERS, (f"on `{home}` alone", "on the new workload alone", "on both"), strict=True)
    )
    lines: dict[str, list[list[str]]] = {}
    for score in scores(rows):
        workload, kind, case = (score.row[name] for name in ("workload", "kind", "case"))
        of_workload = lines.setdefault(workload, [])
        if kind == "change":
            words = f"surrogate, trained {trained_on[case]}"
            of_workload.append([f"`{workload}`", words, interval(score.score)])
        elif kind == RULE and case == score.best_rule and workload != home:
            best = [f"`{workload}`", f"the best rule, `{case}`", interval(score.score)]
            of_workload.append(best)
    # The rule stands below the surrogates.
    ordered = [line for group in lines.values() for line in [*group[1:], *group[:1]]]
    return TableOfRows(["workload now", "policy", "score"], ordered)


TABLES = {"default": _sizes, "counters": _counters, "vendors": _vendors, "later": _later}
