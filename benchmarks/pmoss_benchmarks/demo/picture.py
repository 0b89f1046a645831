"""The demo's picture: what every policy serves, what it measured for that, and where slices go."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmoss_benchmarks.demo.plan import AGENT, SEARCH, DemoResult
from pmoss_env.envs.spatial.viewer import draw_placement
from pmoss_env.pictures import new_figure, write_png

#: Colours of what learned, of what measures or searches, and of rules.
LEARNED, SEARCHES, RULES = "#c0504d", "#4f7cac", "#9aa7b8"


def kind_of(policy: str) -> str:
    """What a policy of the demo is: "learned", "search" or "rule"."""
    if policy.split(" + ")[0] == AGENT:
        return "learned"
    return "search" if policy == SEARCH or " + " in policy else "rule"


def draw_demo(result: DemoResult, path: Path) -> None:
    """Draws throughput per policy, and the learned placement on the chip."""
    figure = new_figure(13, 5.8, dpi=110)
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.15])
    colours = {"learned": LEARNED, "search": SEARCHES, "rule": RULES}
    ordered = sorted(result.summaries, key=lambda summary: summary.throughput)
    values = [one.throughput for one in ordered]
    reach = [
        [one.throughput - (one.throughput_low or one.throughput) for one in ordered],
        [(one.throughput_high or one.throughput) - one.throughput for one in ordered],
    ]
    names = [one.policy for one in ordered]
    left.barh(
        names,
        values,
        xerr=reach,
        color=[colours[kind_of(name)] for name in names],
        capsize=2,
        ecolor="#333333",
        error_kw={"linewidth": 0.8},
    )
    top = max(values)
    for place, one in enumerate(ordered):
        measured = result.plan.measured(one.policy)
        left.text(
            0.02 * top,
            place,
            f"{one.throughput:.1f}" + (f", tries {measured:,} schedules" if measured else ""),
            va="center",
            fontsize=8,
            color="white",
            fontweight="bold" if kind_of(one.policy) == "learned" else "normal",
        )
    for kind, label in (("learned", "learned"), ("search", "search"), ("rule", "rule")):
        left.barh([0], [0], color=colours[kind], label=label)
    left.legend(loc="lower right", frameon=False, fontsize=8)
    left.set_xlabel("throughput, million queries per second")
    machine = result.placement.machine
    left.set_title(f"{machine.name}: what each serves on unseen incumbents\n(mean, 95 % interval)")
    left.spines[["top", "right"]].set_visible(False)

    placement = result.placement
    run = placement.after
    load = np.bincount(
        run.schedule.cores, weights=run.snapshot.counter("elapsed_us"), minlength=machine.cores
    ).astype(np.float64)
    tried = f"{result.plan.measurements} schedules tried"
    title = f"learned placement, {tried}: {run.snapshot.throughput:.1f} Mq/s"
    marks = "red triangle: a core that shares its time with another program"
    draw_placement(
        right,
        machine,
        run.schedule,
        load,
        title,
        "share of time busy",
        highest_load=1.0,
        note=marks if placement.instance.co_tenants else "",
    )
    for co_tenant in placement.instance.co_tenants:
        row, col = divmod(int(machine.tile_of_core[co_tenant.target]), machine.cols)
        right.plot(col + 0.36, row - 0.36, marker="v", color="#d62728", markersize=6)
    write_png(figure, path)
