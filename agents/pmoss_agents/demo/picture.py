"""The demo's picture: each policy's throughput and measurements, and the placement."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmoss_agents.demo.plan import AGENT, TUNED, DemoResult, kind_of
from pmoss_env.envs.spatial.viewer import INK, draw_placement
from pmoss_env.machines import Machine
from pmoss_env.pictures import new_figure, write_png
from pmoss_env.types import CO_TENANT_FAMILIES

#: By kind of policy.
_COLOURS = {"learned": "#c0504d", "search": "#4f7cac", "rule": "#9aa7b8"}
#: What a triangle says, by what co-tenants sit on.
_MARKS = {
    "core": "triangle: a core that shares its time with another program",
    "node": "triangle: a core whose memory other programs stream",
}


def draw_demo(result: DemoResult, path: Path) -> None:
    """Draws throughput per policy, and the learned placement on the chip."""
    figure = new_figure(13, 5.8, dpi=110)
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.15])
    ordered = sorted(result.summaries, key=lambda summary: summary.throughput)
    values = np.array([summary.throughput for summary in ordered])
    ends = [
        [summary.throughput_low or summary.throughput for summary in ordered],
        [summary.throughput_high or summary.throughput for summary in ordered],
    ]
    kinds = [kind_of(summary.policy) for summary in ordered]
    left.barh(
        [summary.policy for summary in ordered],
        values,
        xerr=np.abs(values - ends),
        color=[_COLOURS[kind] for kind in kinds],
        capsize=2,
        ecolor="#333333",
        error_kw={"linewidth": 0.8},
    )
    for place, (summary, kind) in enumerate(zip(ordered, kinds, strict=True)):
        left.text(
            0.02 * values[-1],
            place,
            f"{summary.throughput:.1f}{_note(result, summary.policy)}",
            va="center",
            fontsize=8,
            color="white",
            fontweight="bold" if kind == "learned" else "normal",
        )
    for kind, colour in _COLOURS.items():
        left.barh([0], [0], color=colour, label=kind)
    left.legend(loc="lower right", frameon=False, fontsize=8)
    left.set_xlabel("throughput, million queries per second")
    machine, run = result.comparison.machine, result.comparison.after
    left.set_title(f"{machine.name}: what each serves on unseen incumbents\n(mean, 95 % interval)")
    left.spines[["top", "right"]].set_visible(False)

    load = np.bincount(
        run.schedule.cores, weights=run.snapshot.counter("elapsed_us"), minlength=machine.cores
    ).astype(np.float64)
    tried = f"{result.plan.measurements} schedules tried"
    title = f"learned placement, {tried}: {run.snapshot.throughput:.1f} Mq/s"
    targets = CO_TENANT_FAMILIES[result.plan.env_kwargs["interference"]].target
    draw_placement(
        right,
        machine,
        run.schedule,
        load,
        title,
        "share of time busy",
        highest_load=1.0,
        note=_MARKS[targets] if result.instance.co_tenants else "",
    )
    for co_tenant in result.instance.co_tenants:
        for core in _cores(machine, targets, co_tenant.target):
            row, col = divmod(int(machine.tile_of_core[core]), machine.cols)
            right.plot(
                col + 0.36, row - 0.36, marker="v", color=INK, markeredgecolor="white", markersize=7
            )
    write_png(figure, path)


def _note(result: DemoResult, policy: str) -> str:
    """What a bar says behind its figure."""
    if policy == AGENT:
        return ", as it ships"
    if policy == TUNED:
        return f", after {result.seconds['fine-tuning']:.0f} s of fine-tuning"
    tries = result.plan.measured(policy)
    return f", tries {tries:,} schedules" if tries else ""


def _cores(machine: Machine, targets: str, number: int) -> list[int]:
    """The cores that a co-tenant disturbs first: its own, or those of its node."""
    if targets == "core":
        return [number]
    return np.flatnonzero(machine.worker_mask & (machine.node_of_core == number)).tolist()
