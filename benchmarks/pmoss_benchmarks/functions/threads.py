"""The Smart Scheduler paper's results on the simulated server: its figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from pmoss_benchmarks.study.function import Cell, Count, Figure, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_benchmarks.threads.studies import (
    LEARNED,
    MACHINE,
    METHODS,
    MIXES,
    OTHERS,
    P99_REQUESTS,
    PATTERNS,
    READS,
    WRITE_SHARES,
    Comparison,
    bandit_latencies,
    bandit_times,
    bandwidth_gap,
    compare,
    convergence,
    correlations,
    rule_against_best,
    settled_after,
    times_by_remote_share,
    timings,
)
from pmoss_benchmarks.validation.targets import judge
from pmoss_env.pictures import new_figure

FIGURES = Path(__file__).with_suffix(".toml")
#: Seconds by share of remote accesses (the paper's table 1).
TABLE_1 = {0.10: 151.08, 0.05: 129.35, 0.03: 126.97, 0.01: 123.97, 0.0: 123.04}


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        seeds: runs per program and method.
    """

    AXES: ClassVar = ()

    seeds: Count = 3


def cells(settings: Settings) -> list[Cell]:
    """The server."""
    return [{"machine": MACHINE}]


#: Sums of NumPy differ in their last bits from one processor to the next.
TOLERANCES = dict.fromkeys(("statements", "runs", "curves"), 1e-9)


def measure(run: Run, cell: Cell) -> Row:
    """The whole reproduction.

    Returns:
        ``statements``, a published figure each; ``runs``, by program and method a dict of results
        per seed; ``curves`` of the pictures; ``timings``, of this host.
    """
    seeds = run.settings.seeds
    comparison = compare((*PATTERNS, *MIXES), seeds=seeds)
    short, long = (
        compare(["fillrandom"], (*OTHERS, "linucb"), seeds=seeds, requests=times * P99_REQUESTS)
        for times in (1, 10)
    )
    curve = times_by_remote_share(tuple(TABLE_1))
    widths = {program: convergence(program) for program in PATTERNS}
    ours = {
        **_of_machine(curve),
        **_settling(widths),
        **_times(comparison),
        **bandit_latencies(short),
    }
    moving = short.mean("fillrandom", "linucb", "moved") / short.mean("fillrandom", "linucb")
    saved = next(iter(bandit_latencies(long).values()))
    return {
        "statements": judge(FIGURES, ours, moving=moving, saved=saved),
        "runs": comparison.runs,
        "curves": {
            "widths": widths,
            "curve": {f"{share:g}": value for share, value in curve.items()},
            "seconds": {
                program: {method: comparison.mean(program, method) for method in METHODS}
                for program in comparison.runs
            },
        },
        "timings": timings(),
    }


def _of_machine(curve: Mapping[float, float]) -> dict[str, float]:
    """Figures of memory, of remote accesses and of counters: no method decides."""
    kinds = {kind: correlations(kind) for kind in ("write", "read")}
    asked = [
        ("write", "local_slow_accesses", "slow_write_gb_per_s"),
        ("write", "remote_slow_accesses", "slow_write_gb_per_s"),
        ("write", "miss_latency_ns", "slow_write_gb_per_s"),
        ("write", "clock_ghz", "slow_write_gb_per_s"),
        ("read", "miss_latency_ns", "slow_read_gb_per_s"),
        ("read", "miss_latency_ns", "slow_write_gb_per_s"),
    ]
    gaps = {
        "non-volatile memory, largest over mixes and threads": bandwidth_gap(2, WRITE_SHARES),
        "DRAM, largest": bandwidth_gap(0, WRITE_SHARES),
    }
    return {
        **{f"local / remote bandwidth of {memory}": gap for memory, gap in gaps.items()},
        **{
            f"time with {share:.0%} remote accesses / with none": time
            for share, time in curve.items()
        },
        **{
            f"{kind}-dominated: correlation of {first} with {second}": kinds[kind][first, second]
            for kind, first, second in asked
        },
        "readrandom: rule / the best number of local threads - 1": rule_against_best("readrandom")
        - 1.0,
    }


def _settling(widths: Mapping[str, list[tuple[int, float]]]) -> dict[str, float]:
    return {
        f"decisions until the width of {words} has settled, {program}": settled_after(
            of_program, action=action
        )
        for program, of_program in widths.items()
        for words, action in (("migrating one thread", 1), ("any action", None))
    }


def _times(comparison: Comparison) -> dict[str, float]:
    """Figures of run times, of the paper's section 9."""
    ratio, usual = comparison.ratio, (*OTHERS, "linucb")
    return {
        **bandit_times(comparison),
        **{
            f"{program}: remaining time, linucb / scheduling-domain": ratio(
                program, "linucb", "scheduling-domain"
            )
            for program in ("fillrandom", "fillseq")
        },
        "reads: rule / hybrid - 1, best": max(ratio(p, "rule", "hybrid") - 1.0 for p in READS),
        "four patterns: linucb that has learned before / the best method - 1, worst": (
            comparison.loss(PATTERNS, LEARNED, tuple(METHODS))
        ),
        "reads: hybrid / the best method - 1, worst": comparison.loss(
            READS, "hybrid", (*usual, "hybrid")
        ),
        **{
            f"{program.removeprefix('mixed')} % reads: {method} / rule": ratio(
                program, method, "rule"
            )
            for program in MIXES
            for method in ("scheduling-domain", "linucb")
        },
        "50 % reads: minutes of the rule": comparison.mean("mixed50", "rule") / 60.0,
        **{
            f"sum of the seven programs: hybrid / {method}": comparison.total("hybrid")
            / comparison.total(method)
            for method in (*usual, "random")
        },
    }


def _minutes(rows: Rows) -> TableOfRows:
    """Minutes of every program under every method, and their sums."""
    (row,) = rows
    methods = list(next(iter(row["runs"].values())))
    minutes = {
        program: [
            float(np.mean([run["seconds"] for run in runs_of[method]])) / 60 for method in methods
        ]
        for program, runs_of in row["runs"].items()
    }
    minutes["sum"] = np.sum(list(minutes.values()), axis=0).tolist()
    lines = [[name, *(f"{value:.2f}" for value in values)] for name, values in minutes.items()]
    return TableOfRows(["minutes", *(f">{method}" for method in methods)], lines)


TABLES = {"default": _minutes}


def _remote_share(rows: Rows) -> Figure:
    """Run time over the share of remote accesses, ours and the paper's."""
    (row,) = rows
    curve = row["curves"]["curve"]
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    shares = sorted(float(share) for share in curve)
    percent = [100 * share for share in shares]
    axes.plot(percent, [curve[f"{share:g}"] for share in shares], "o-", label="ours")
    paper = [TABLE_1[share] / TABLE_1[0.0] for share in shares]
    axes.plot(percent, paper, "s--", color="0.4", label="paper, table 1")
    axes.set(xlabel="remote accesses, %", ylabel="time / time without")
    axes.legend(frameon=False)
    return figure


PLOTS = {"remote-share": _remote_share}
