"""Throughput of policies over that of the schedules of P-MOSS, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.episodes import episodes_of
from pmoss_benchmarks.offline.summary import SEARCH
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.study.function import Figure, Rows
from pmoss_benchmarks.study.tables import TableOfRows, grouped, interval
from pmoss_datasets.evaluation import Difference, of_means
from pmoss_datasets.suite import load_task
from pmoss_env.pictures import new_figure
from pmoss_env.types import Float64Array

#: Published names of the paper's schedules: workers share slices, or each slice has a core.
SHARED = {
    "os-default": "OS:D",
    "os-interleave": "OS:I",
    "shared-everything": "SE:N",
    "shared-nothing-node": "SN:N",
}
PLACED = {"grouped": "Grouped", "spread": "Spread", "mixed": "Mixed", "random": "Random"}
_NAMES = {**SHARED, **PLACED, "lpt": "LPT"}
#: What learned for the paper's servers: this project's agent, and the paper's method.
LEARNED = ("surrogate", "decision-transformer")
#: The paper's means are of so many servers (section 7.1).
_SERVERS = 5
#: Columns over several schedules: of which, and what of them.
_OVER: Mapping[str, tuple[Sequence[str], Callable[..., Any]]] = {
    "mean over the four shared": (tuple(SHARED), np.mean),
    "mean over all eight": ((*SHARED, *PLACED), np.mean),
    "over the best shared": (tuple(SHARED), np.min),
    "over the better of OS:D and OS:I": (("os-default", "os-interleave"), np.min),
    "over the best SN:T": (tuple(PLACED), np.min),
    "over the best": (tuple(_NAMES), np.min),
}
#: Bars by colour: whose, and how they are called.
_BARS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "shared slices": ("#9aa5b1", SHARED),
    "a core for each slice": ("#5b8db8", PLACED),
    "a rule that reads loads": ("#7a5195", {"lpt": "LPT"}),
    "learned": ("#d9730d", dict(zip(LEARNED, ("surrogate", "Decision Transformer"), strict=True))),
    "search in the model": ("#1d2733", {SEARCH: "local search"}),
}


def throughputs(rows: Rows) -> dict[str, Float64Array]:
    """(episodes,) throughput of each policy in a world, the mean over trainings."""
    played: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        for one in episodes_of(row):
            played.setdefault(one.policy, {}).setdefault(one.episode, []).append(one.throughput)
    means = {
        policy: np.array([np.mean(of[episode]) for episode in sorted(of)])
        for policy, of in played.items()
    }
    return means | {r["policy"]: np.array(r["shared"])[:, 0] for r in rows if "shared" in r}


def ratios(of: Mapping[str, Float64Array], policy: str) -> dict[str, Difference]:
    """Ratios of a policy's mean throughput, by column; those whose schedules did not play lack."""
    columns = {f"over {label}": ((name,), np.min) for name, label in _NAMES.items()} | {**_OVER}
    return {
        column: of_means(
            np.stack([of[policy], *(of[name] for name in others)]), partial(_ratio, choose)
        )
        for column, (others, choose) in columns.items()
        if all(name in of for name in others)
    }


def _ratio(choose: Callable[..., Any], means: Float64Array) -> Float64Array:
    """What of the first mean over each of the others."""
    return np.asarray(choose(means[0] / means[1:], axis=0))


def _worlds(rows: Rows) -> dict[tuple[str, str], dict[str, Float64Array]]:
    """throughputs() by track and task, track by track of a task."""
    worlds = {task: grouped(of, "track") for task, of in grouped(rows, "task").items()}
    return {
        (track, task): throughputs(of)
        for task, tracks in worlds.items()
        for track, of in tracks.items()
    }


def by_server(rows: Rows, policy: str) -> dict[str, dict[str, float]]:
    """Values of ratios() by machine.

    Args:
        rows: of one track, a task for each machine.
    """
    return {
        load_task(task).env["machine"]: {
            name: one.value for name, one in ratios(of, policy).items()
        }
        for (_, task), of in _worlds(rows).items()
    }


def over_schedules(rows: Rows) -> TableOfRows:
    """What learned, over each schedule, by machine; rows as by_server() takes them."""
    columns = [*(f"over {label}" for label in _NAMES.values()), "mean over the four shared"]
    columns.append("over the best")
    lines = []
    for (_, task), of in _worlds(rows).items():
        search = ratios(of, SEARCH)["over the best"].value
        for policy in LEARNED:
            over = ratios(of, policy)
            values = [*(over[name].value for name in columns), search]
            line = [load_task(task).env["machine"], policy, f"{of[policy].mean():.1f}"]
            lines.append([*line, *(f"{value:.2f}" for value in values)])
    return TableOfRows(["server", "policy", "Mq/s", *columns, "search over the best"], lines)


def compared(rows: Rows, columns: Sequence[str]) -> TableOfRows:
    """What learned and a search, by world, with the means of the paper's five servers."""
    worlds, lines = _worlds(rows), []
    for load in dict.fromkeys(_load(track) for track, _ in worlds):
        values: dict[str, list[list[float]]] = {}
        for (track, task), of in worlds.items():
            if _load(track) != load:
                continue
            for policy in (name for name in (*LEARNED, SEARCH) if name in of):
                over = [ratios(of, policy)[column] for column in columns]
                values.setdefault(policy, []).append([one.value for one in over])
                lines.append(
                    [_where(track, task), load, policy, *(interval(one, 2) for one in over)]
                )
        for policy, each in values.items():
            if len(each) == _SERVERS:
                means = [f"{value:.2f}" for value in np.mean(each, axis=0)]
                lines.append([f"mean of the {len(each)} servers", load, policy, *means])
    return TableOfRows(["server and workload", "load", "policy", *columns], lines)


def _load(track: str) -> str:
    return "unbounded backlog" if track.endswith("saturated") else "closed load"


def _where(track: str, task: str) -> str:
    """Server and workload that agents met, and for what they learned if that is another."""
    trained, met = load_task(task).env, load_track(track).evaluation_env(load_task(task))
    assert met is not None
    place, learned = (f"{env['machine']}, {env['workload']}" for env in (met, trained))
    return place if place == learned else f"{place}; learned on {learned}"


def draw_throughputs(rows: Rows) -> Figure:
    """A panel of bars for each world, two in a row, with 95 % intervals."""
    worlds = _worlds(rows)
    lines = -(-len(worlds) // 2)
    figure = new_figure(9.0, 3.1 * lines + 0.4)
    named = {}
    panels = figure.subplots(lines, 2, squeeze=False).flat
    for axis, ((track, task), of) in zip(panels, worlds.items(), strict=False):
        place, _, learned = _where(track, task).partition("; ")
        axis.set_title(f"{place}, {_load(track)}\n{learned}".strip(), fontsize=8)
        for kind, (colour, names) in _BARS.items():
            for policy, label in names.items():
                if policy not in of:
                    continue
                mean = of_means(of[policy][None], partial(np.take, indices=0, axis=0))
                low, high = (mean.value if end is None else end for end in (mean.low, mean.high))
                ends = [[max(0.0, mean.value - low)], [max(0.0, high - mean.value)]]
                named[kind] = axis.barh(label, mean.value, color=colour, xerr=ends)
                axis.text(high, label, f" {mean.value:.3g}", va="center", fontsize=7)
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.tick_params(labelsize=7)
        axis.set_xlabel("Mq/s", fontsize=7)
    for axis in panels:
        axis.set_axis_off()
    figure.legend(named.values(), named.keys(), fontsize=8, ncols=5, loc="outside lower center")
    return figure
