"""Tables and learning curves of studies in which policies play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapreplace
from statistics import fmean
from typing import Any

import numpy as np

from pmoss_agents.registry import agent_names
from pmoss_benchmarks.offline.ratios import PLACED
from pmoss_benchmarks.offline.summary import BEST
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.study.function import Cell, Figure, Rows
from pmoss_benchmarks.study.tables import TableOfRows, interval, side
from pmoss_datasets.domain import find_domain
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.pictures import new_figure


def shared_means(row: Mapping[str, Any]) -> tuple[float, float | None]:
    """Mean outcome and score of a schedule whose workers share slices."""
    scores = [score for _, score in row["shared"] if score is not None]
    return fmean(outcome for outcome, _ in row["shared"]), fmean(scores) if scores else None


def _chosen(summary: Mapping[str, Any], tracks: Sequence[str]) -> list[tuple[str, Any]]:
    return [one for one in summary["tracks"].items() if not tracks or one[0] in tracks]


def by_world(summary: Mapping[str, Any], *tracks: str) -> TableOfRows:
    """Every policy in each world of some tracks, or of all; few trainings have no interval."""
    lines: list[tuple[Any, list[str]]] = []
    learned = {row["agent"] for row in summary["cells"] if "training" in row}
    for number, (track, statistics) in enumerate(_chosen(summary, tracks)):
        domain = find_domain(load_track(track).domain)
        for task, policies in statistics["tasks"].items():
            world = number, task
            paired = statistics.get("paired", {}).get(task, {"rule": None, "policies": {}})
            for name, one in policies.items():
                both = paired["policies"].get(name, {})
                ends = {"value": one["score"], "low": one["score_low"], "high": one["score_high"]}
                trainings = one["seeds"] if name.removesuffix(BEST) in learned else None
                reached = interval(both.get("score") or ends, trainings=trainings)
                ahead = (both.get("over_rule"), both.get("over_search"))
                line = [
                    *(track, task, name, str(one["seeds"]), reached),
                    f"{domain.shown(one['throughput']):.1f} {domain.unit}",
                    paired["rule"] or "",
                    *(interval(each, sign="+", trainings=trainings) for each in ahead),
                ]
                lines.append(((world, -(one["score"] or 0.0)), line))
            for row in summary["cells"]:
                if (row["track"], row["task"]) == (track, task) and "shared" in row:
                    outcome, score = shared_means(row)
                    value = "" if score is None else f"{score:.1f}"
                    unit = f"{domain.shown(outcome):.1f} {domain.unit}"
                    line = [track, task, row["policy"], "1", value, unit, "", "", ""]
                    lines.append(((world, -(score or 0.0)), line))
    heads = ["track", "task", "policy", ">seeds", ">score", ">outcome", "best rule"]
    heads += [">ahead of it", ">ahead of search"]
    return TableOfRows(heads, [line for _, line in sorted(lines, key=lambda one: one[0])])


def players(summary: Mapping[str, Any], task: str) -> list[Mapping[str, Any]]:
    """The rows of agents that learned by playing a task."""
    where = "same-task", task
    return [
        row
        for row in summary["cells"]
        if (row["track"], row["task"]) == where
        # Agents of other domains log updates alone.
        and (played := row.get("training", {}).get("played"))
        and all({"steps", "return"} <= set(of_update) for of_update in played)
    ]


def _learned(own: Mapping[str, Any], field: str) -> str:
    """An estimate of a learner; empty where it did not play."""
    return interval(own.get(field), trainings=own.get("seeds"))


def after_playing(summary: Mapping[str, Any], task: str) -> TableOfRows:
    """What agents that learned by playing a task reach in new episodes."""
    paired = summary["tracks"]["same-task"]["paired"][task]["policies"]
    lines = []
    for row in players(summary, task):
        training, own = row["training"], paired[row["agent"]]
        steps, hours = training["source"]["steps"] / 1e6, training["seconds"] / 3600
        scores = [_learned(own, name) for name in ("score", "over_rule")]
        lines.append([row["agent"], f"{steps:.2f}", f"{hours:.2f}", *scores])
    heads = ["agent", ">million steps", ">CPU hours", ">score", ">ahead of the best rule"]
    return TableOfRows(heads, lines)


def of_agent(agent: str, *summaries: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By task what an agent and all others did in common episodes; the first summary counts."""
    tasks: dict[str, Mapping[str, Any]] = {}
    for summary in summaries:
        for task, paired in summary["tracks"]["same-task"]["paired"].items():
            if agent in paired["policies"]:
                tasks.setdefault(task, paired)
    return tasks


def sides(agent: str, tasks: Mapping[str, Mapping[str, Any]]) -> Counter[str]:
    """On how many tasks of of_agent() an agent is above, level with and below the best rule."""
    ahead = [one["policies"].get(agent, {}).get("over_rule") for one in tasks.values()]
    return Counter(side(one) for one in ahead if one)


def agent_by_task(agent: str, tasks: Mapping[str, Mapping[str, Any]]) -> TableOfRows:
    """Each task of of_agent(): the agent beside the best rule and the paper's schedules."""
    lines = []
    for task, paired in tasks.items():
        policies, rule = paired["policies"], paired["rule"]
        mine = policies[agent]
        others = (f"{policies[name]['score']['value']:.1f}" for name in (*PLACED, "lpt"))
        best = f"{rule} {policies[rule]['score']['value']:.1f}"
        score, *both = (_learned(mine, key) for key in ("score", "over_rule", "over_search"))
        lines.append([task, str(paired["episodes"]), score, best, *both, *others])
    heads = ["task", "episodes", agent, "best rule", "points ahead of it", "ahead of search"]
    return TableOfRows([*heads, *PLACED.values(), "LPT"], lines)


def learners(tasks: Mapping[str, Mapping[str, Any]]) -> TableOfRows:
    """Mean scores of all agents on the tasks of of_agent() that at least two of them played."""
    above = {name: sides(name, tasks) for name in agent_names(SPATIAL.name)}
    names = sorted((name for name in above if above[name]), key=lambda n: -above[n].total())
    lines = [
        [task, *(_learned(paired["policies"].get(name, {}), "score") for name in names)]
        for task, paired in tasks.items()
        if sum(name in paired["policies"] for name in names) > 1
    ]
    counts = [f"{above[name]['above']} of {above[name].total()}" for name in names]
    return TableOfRows(["task", *names], [*lines, ["above the best rule, of all tasks", *counts]])


def plan(trainings: Sequence[Cell], rows: Rows, episodes: int) -> TableOfRows:
    """The hours that trainings take on 1, 16 and 256 CPUs, from the seconds of those stored.

    A cell goes to the CPU that is free first, in the order of the study. What a task and agent lack
    is the agent's mean over tasks; what an agent lacks is the mean over all.

    Args:
        trainings: cells of agents, done or not.
        rows: of the same study.
        episodes: that each training plays: of the evaluation, and of validation.
    """
    stored: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if "training" in row:
            own = row["played"][row["policy"]]
            decisions = episodes * fmean(own["actions"]["steps"])
            both = row["training"]["seconds"], decisions * own["seconds_per_decision"]
            for key in ((row["task"], row["policy"]), ("", row["policy"]), ("", "")):
                stored.setdefault(key, []).append(both)
    means = {
        key: [fmean(values) for values in zip(*costs, strict=True)] for key, costs in stored.items()
    }
    lines = []
    for cpus in (1, 16, 256):
        learning, all_of_it = [0.0] * cpus, [0.0] * cpus
        for cell in trainings:
            keys = (cell["task"], cell["policy"]), ("", cell["policy"]), ("", "")
            training, playing = next(means[key] for key in keys if key in means)
            heapreplace(learning, learning[0] + training)
            heapreplace(all_of_it, all_of_it[0] + training + playing)
        hours = (max(each) / 3600 for each in (learning, all_of_it))
        lines.append([str(cpus), *(f"{value:.2f}" for value in hours)])
    return TableOfRows([">CPUs", ">hours of training", ">with the episodes played"], lines)


_COLUMNS = 4


def draw_curves(cells: Rows) -> Figure:
    """Draws one panel per task: means over seeds, shaded from the lowest to the highest.

    Panels stand in rows of ``_COLUMNS``, with one legend below all.
    """
    learned = [cell for cell in cells if "curve" in cell]
    tasks = sorted({cell["task"] for cell in learned})
    agents = sorted({cell["policy"] for cell in learned})
    columns = min(_COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = new_figure(4.2 * columns, 3.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axis in panels.flat[len(tasks) :]:
        axis.set_axis_off()
    named: dict[str, Any] = {}
    for axis, task in zip(panels.flat, tasks, strict=False):
        for number, agent in enumerate(agents):
            mine = [c for c in learned if (c["task"], c["policy"]) == (task, agent)]
            curves = [np.array(cell["curve"]) for cell in mine]
            if not curves or len({curve.shape for curve in curves}) > 1:
                continue
            scores = np.array([curve[:, 1] for curve in curves])
            # Agents count updates of different sizes: what they share is the end.
            share = 100 * curves[0][:, 0] / curves[0][-1, 0]
            mean = scores.mean(axis=0)
            # Wide ones below narrow ones: curves that lie on each other are all seen.
            wide = 1.0 + 2.5 * (len(agents) - 1 - number) / max(1, len(agents) - 1)
            (named[agent],) = axis.plot(share, mean, "o-", color=f"C{number}", ms=3, lw=wide)
            axis.fill_between(
                share, scores.min(axis=0), scores.max(axis=0), color=f"C{number}", alpha=0.15
            )
        axis.axhline(0, color="0.7", lw=0.8)
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_title(task, fontsize=8)
        axis.set_xlabel("% of the training")
    for row in panels:
        row[0].set_ylabel("score on validation episodes")
    # Below the panels, where it covers no curve.
    figure.legend(named.values(), named.keys(), fontsize=8, ncols=4, loc="outside lower center")
    return figure
