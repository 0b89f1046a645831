"""Thread scheduling under other conditions: width of exploration, form of the reward, world.

Figures of the Smart Scheduler paper that lie outside their range have a cause in words. A cause
changes one condition, and the same figures are measured again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.threads import run_episode
from pmoss_agents.threads.bandits import ThreadLinUCB
from pmoss_benchmarks.study.function import Cell, Count, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, bold_inside
from pmoss_benchmarks.threads.studies import (
    LEARNED,
    MACHINE,
    METHODS,
    MIXES,
    OTHERS,
    P99_REQUESTS,
    PATTERNS,
    WRITE_SHARES,
    bandit_latencies,
    bandit_times,
    bandwidth_gap,
    compare,
    convergence,
    learned,
    settled_after,
)
from pmoss_datasets.evaluation import paired_difference
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.machines.importing.toml_text import machine_toml

ALPHAS = ("0.03", "0.1", "0.3", "1", "3")
REWARDS = ("normalised", "raw")
#: Options of the environment. But "times" as many requests where latency is asked, "ridge" is the
#: bandit's, and "parameters" are factors of the machine's.
CAUSES: Mapping[str, Mapping[str, Any]] = {
    "as judged": {},
    "20 threads": {"threads": 20},
    "72 threads": {"threads": 72},
    "eight decisions a second": {"epoch_seconds": 0.125},
    "ten times the requests": {"times": 10},
    "a tenth of the regularisation": {"ridge": 0.1},
    "page faults half as long again": {"parameters": {"page_fault_ns": 1.5}},
    "remote reads twice as slow": {"parameters": {"slow_remote_read_ratio": 2.0}},
    "half of the link": {"parameters": {"link_gb_per_s": 0.5}},
}
#: Bandits whose figures count: one that knew nothing, and one that has learned before.
BANDITS = ("linucb", LEARNED)
#: Whose figures they are where no bandit decides.
OF_MACHINE = "machine"


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        kinds: "alpha", "reward" and "cause".
        seeds: runs of each program.
    """

    AXES: ClassVar = ("kinds",)

    kinds: tuple[str, ...] = ("alpha", "reward", "cause")
    seeds: Count = 3


def cells(settings: Settings) -> list[Cell]:
    """Every case of each kind."""
    cases: Mapping[str, Any] = {"alpha": ALPHAS, "reward": REWARDS, "cause": CAUSES}
    return [{"kind": kind, "case": case} for kind in settings.kinds for case in cases[kind]]


def measure(run: Run, cell: Cell) -> Row:
    """The figures of a case.

    Returns:
        ``programs``: by program the seconds of each run of the ``bandit`` and of the ``rule``. With
        a width of exploration also ``settled``, the decisions until the width of migrating one
        thread has settled. Of a cause instead ``got``: by bandit and statement of the study
        ``threads`` the value; what no bandit decides is under "machine".
    """
    kind, case, seeds = cell["kind"], cell["case"], run.settings.seeds
    if kind == "cause":
        return {"got": _changed_world(case, seeds)}
    if kind == "reward":
        return {"programs": {p: _beside_rule(p, seeds, 0.3, case) for p in (*PATTERNS, *MIXES)}}
    alpha = float(case)
    return {
        "programs": {
            program: {
                **_beside_rule(program, seeds, alpha),
                "settled": settled_after(convergence(program, alpha=alpha), action=1),
            }
            for program in PATTERNS
        }
    }


def _beside_rule(
    program: str, seeds: int, alpha: float, reward: str = "normalised"
) -> dict[str, Any]:
    bandit = {"linucb": pmoss_agents.make(METHODS["linucb"], alpha=alpha)}
    runs = compare([program], bandit, seeds=seeds, reward=reward).runs[program]["linucb"]
    return {"bandit": [run["seconds"] for run in runs], "rule": _of_rule(program, seeds)}


@cache
def _of_rule(program: str, seeds: int) -> list[float]:
    return [
        run["seconds"] for run in compare([program], ["rule"], seeds=seeds).runs[program]["rule"]
    ]


def _changed_world(case: str, seeds: int) -> dict[str, dict[str, float]]:
    changes = dict(CAUSES[case])
    ridge, times = changes.pop("ridge", 1.0), changes.pop("times", 1)
    with TemporaryDirectory() as folder:
        if factors := changes.pop("parameters", {}):
            changes["machine"] = str(_changed_machine(Path(folder), factors))
        agents = {"linucb": ThreadLinUCB(ridge=ridge), LEARNED: learned()}
        agents |= {name: pmoss_agents.make(METHODS[name]) for name in OTHERS}
        runs = compare(PATTERNS, agents, seeds=seeds, **changes)
        short = {**changes, "requests": times * P99_REQUESTS}
        late = compare(["fillrandom"], agents, seeds=seeds, **short)
        got: dict[str, dict[str, float]] = {
            name: {**bandit_times(runs, name), **bandit_latencies(late, name)} for name in BANDITS
        }
        for program in PATTERNS:
            words = f"decisions until the width of any action has settled, {program}"
            bandit = ThreadLinUCB(ridge=ridge)
            run_episode(ThreadSchedulingEnv(program=program, **changes), bandit, seed=0)
            got["linucb"][words] = settled_after(bandit.widths)
        gap = bandwidth_gap(0, WRITE_SHARES, machine=changes.get("machine", MACHINE))
    return {**got, OF_MACHINE: {"local / remote bandwidth of DRAM, largest": gap}}


def _changed_machine(folder: Path, factors: Mapping[str, float]) -> Path:
    """A file of the machine with some parameters multiplied."""
    data = tomllib.loads((PRESETS / f"{MACHINE}.toml").read_text(encoding="utf-8"))
    for name, factor in factors.items():
        data["parameters"][name]["value"] *= factor
    path = folder / f"{MACHINE}.toml"
    path.write_text(machine_toml(data), encoding="utf-8")
    return path


def _over_rule(of_program: Mapping[str, Any]) -> str:
    """The bandit's time over the rule's, paired by seed, with its interval."""
    ratios = np.array(of_program["bandit"]) / np.array(of_program["rule"])
    ratio = paired_difference(ratios[None])
    is_point = ratio.low is None or ratio.low == ratio.high
    return f"{ratio.value:.3f}" + ("" if is_point else f" [{ratio.low:.3f}, {ratio.high:.3f}]")


def _alphas(rows: Rows) -> TableOfRows:
    """By width of exploration the bandit's time over the rule's; decisions until it settled."""
    rows = [row for row in rows if row["kind"] == "alpha"]
    lines = [
        [
            row["case"],
            *(f"{_over_rule(result)}; {result['settled']}" for result in row["programs"].values()),
        ]
        for row in rows
    ]
    return TableOfRows(["alpha", *rows[0]["programs"]], lines)


def _rewards(rows: Rows) -> TableOfRows:
    """By program the bandit's time over the rule's, with each form of the reward."""
    rows = [row for row in rows if row["kind"] == "reward"]
    lines = [
        [program, *(_over_rule(row["programs"][program]) for row in rows)]
        for program in rows[0]["programs"]
    ]
    return TableOfRows(["program", *(f"{row['case']} reward" for row in rows)], lines)


TABLES = {"alpha": _alphas, "reward": _rewards}


def causes(
    rows: Rows,
    judged: Rows,
    *beginnings: str,
    of_machine: bool = False,
) -> TableOfRows:
    """Figures under each cause; bold ones lie inside. A cause that changes none has no row.

    Args:
        *beginnings: of the statements that are shown.
        of_machine: whether they are the machine's, and no bandit's.
    """
    rows = [row for row in rows if row["kind"] == "cause"]
    ranges = {
        each["statement"]: each for each in judged if each["statement"].startswith(beginnings)
    }
    words = {OF_MACHINE: ""} if of_machine else {BANDITS[0]: "", BANDITS[1]: ", learned before"}
    shown = [name for name in ranges if any(name in values for values in rows[0]["got"].values())]
    lines: list[list[str]] = []
    for policy, remark in words.items():
        usual: list[str] | None = None
        for row in rows:
            got = row["got"][policy]
            line = [bold_inside(got[name], ranges[name]) if name in got else "" for name in shown]
            if line != usual and any(line):
                lines.append([row["case"] + remark, *line])
            usual = usual or line
    heads = [f"{name}, {ranges[name]['low']:g} .. {ranges[name]['high']:.3g}" for name in shown]
    return TableOfRows(["", *heads], lines)
