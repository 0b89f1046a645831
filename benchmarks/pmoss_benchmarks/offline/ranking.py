"""Policies ranked over the tasks that all of them may play, with as many trainings as are there.

A table says how many trainings its values are of. A learner with fewer than LEAST of them gets no
interval: one of episodes alone would leave out what differs between trainings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from pmoss_agents.registry import agent_class
from pmoss_benchmarks.offline.episodes import is_opponent
from pmoss_benchmarks.study.function import Figure, Rows
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import Difference
from pmoss_datasets.evaluation.scores import (
    STATISTICS,
    compare,
    score_profile,
    two_level_bootstrap,
)
from pmoss_datasets.evaluation.statistics import LEAST, student
from pmoss_datasets.policies import Planner
from pmoss_datasets.suite import load_task
from pmoss_env.pictures import new_figure
from pmoss_env.types import Float64Array

#: What learners are shown of an episode.
_AT_ONCE, _STEPWISE = "all slices at once", "one slice a step"


@dataclass
class Ranked:
    """A policy and all that it played.

    Attributes:
        name: of the policy.
        learns: whether its weights come from a training, in the study or before.
        logged: whether it is episodes of the data, each scored in its own instance.
        tasks: by task and seed the scores of its episodes.
        updates: of each of its trainings.
        seconds: CPU time of each of them.
        measurements: that it may make in each episode.
        sees: what it is shown, in words.
        differ: whether its seeds played other episodes of a task.
    """

    name: str
    learns: bool
    sees: str
    measurements: int = 0
    logged: bool = False
    differ: bool = False
    tasks: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    updates: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def seeds(self, tasks: Sequence[str]) -> int:
        """The least number of seeds that it has on any of some tasks."""
        return min((len(self.tasks.get(task, ())) for task in tasks), default=0)

    def scores(self, task: str) -> Float64Array:
        """(seeds, episodes) of a task."""
        return np.array([of for _, of in sorted(self.tasks[task].items())], dtype=np.float64)

    def estimate(self, tasks: Sequence[str], statistic: str) -> Difference | None:
        """A statistic over some tasks; None where it lacks one. All tasks count alike."""
        if not (seeds := self.seeds(tasks)):
            return None
        # Of the interquartile mean all tasks count alike, so each gives as many trainings.
        each = [self.scores(task)[: seeds if statistic == "iqm" else None] for task in tasks]
        estimate = two_level_bootstrap(each, STATISTICS[statistic], common=not self.differ)
        return estimate if self.has_interval(tasks) else Difference(estimate.value, None, None)

    def has_interval(self, tasks: Sequence[str]) -> bool:
        """Whether it has enough trainings on each of some tasks to have an interval."""
        return not self.learns or self.seeds(tasks) >= LEAST

    def runs(self, tasks: Sequence[str]) -> list[Float64Array]:
        """(seeds,) mean scores for each task."""
        return [self.scores(task).mean(axis=1) for task in tasks]


def ranked(rows: Rows, track: str = "same-task") -> tuple[list[str], list[Ranked]]:
    """The tasks, and the policies: first those that played all tasks, the best first.

    Args:
        rows: of a study of the function ``play``.
        track: whose rows count.
    """
    policies: dict[str, Ranked] = {}
    episodes: dict[tuple[str, str], Any] = {}
    rows = [row for row in rows if row["track"] == track]
    for row in rows:
        scores = _scores_of(row)
        if not scores:
            continue
        name = row["policy"]
        if name not in policies:
            # A guest that measures is named after what it begins with.
            rule = is_opponent(name.partition(" + ")[0], row["task"])
            logged = "shared" in row and not rule
            learns = not rule and not logged
            policies[name] = Ranked(name, learns, _sees(row), logged=logged)
        ranked = policies[name]
        ranked.measurements = row.get("measurements", 0)
        env_seeds = row.get("played", {}).get(name, {}).get("env_seed")
        ranked.differ |= episodes.setdefault((name, row["task"]), env_seeds) != env_seeds
        ranked.tasks.setdefault(row["task"], {})[row["seed"]] = scores
        if "training" in row:
            ranked.updates.append(row["training"]["updates"])
            ranked.seconds.append(row["training"]["seconds"])
    tasks = list(dict.fromkeys(row["task"] for row in rows))

    def place(ranked: Ranked) -> tuple[int, float]:
        means = [ranked.scores(task).mean() for task in ranked.tasks]
        return -len(ranked.tasks), -float(np.mean(means))

    return tasks, sorted(policies.values(), key=place)


def _scores_of(row: Mapping[str, Any]) -> list[float]:
    if "shared" in row:
        scores = [score for _, score in row["shared"]]
    else:
        scores = row.get("played", {}).get(row["policy"], {}).get("score", [])
    return [score for score in scores if score is not None]


def _sees(row: Mapping[str, Any]) -> str:
    name, task = row["policy"], row["task"]
    if is_opponent(name, task):
        return find_domain(load_task(task).domain).knows(name)
    if "training" in row:
        return _AT_ONCE if issubclass(agent_class(name), Planner) else _STEPWISE
    return "" if "shared" in row else _AT_ONCE


def overall(rows: Rows, track: str = "same-task") -> dict[str, dict[str, Difference]]:
    """By policy that played all tasks of a track: its statistics over them, the best mean first."""
    tasks, policies = ranked(rows, track)
    estimates = {
        one.name: {name: one.estimate(tasks, name) for name in STATISTICS} for one in policies
    }
    return {
        name: {statistic: value for statistic, value in of.items() if value is not None}
        for name, of in estimates.items()
        if all(of.values())
    }


def best_of(rows: Rows, names: Sequence[str]) -> str:
    """Of some policies the one with the best mean over all tasks; one at least played them."""
    return next(name for name in overall(rows) if name in names)


def over_tasks(rows: Rows, track: str) -> TableOfRows:
    """Statistics over all tasks of a track, the best interquartile mean first."""
    of_policies = sorted(overall(rows, track).items(), key=lambda item: -item[1]["iqm"].value)
    lines = [[name, interval(of["iqm"]), interval(of["mean"])] for name, of in of_policies]
    return TableOfRows(["policy", ">interquartile mean", ">mean"], lines)


def scores_by_task(rows: Rows) -> TableOfRows:
    """Mean scores over all tasks and of each, and how many trainings they are of."""
    tasks, policies = ranked(rows)
    overall = {"mean": ">mean", "iqm": ">interquartile mean"} if len(tasks) > 1 else {}
    lines = []
    for one in policies:
        cells = [interval(one.estimate([task], "mean")) for task in tasks]
        whole = [interval(one.estimate(tasks, name)) for name in overall]
        lines.append([one.name, _seeds(one, tasks), *whole, *cells])
    heads = [f">{task}" for task in tasks]
    return TableOfRows(["policy", ">trainings", *overall.values(), *heads], lines)


def _seeds(one: Ranked, tasks: Sequence[str]) -> str:
    """Of how many trainings the values are: one number where it is that of every task."""
    if not one.learns:
        return ""
    counts = {len(one.tasks.get(task, ())) for task in tasks}
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)


def informed(rows: Rows) -> TableOfRows:
    """What each policy sees and may measure, and what its trainings took."""
    tasks, policies = ranked(rows)
    lines = [
        [
            *(one.name, one.sees, str(one.measurements)),
            f"{median(one.updates):,.0f}" if one.updates else "",
            f"{median(one.seconds):.0f}" if one.seconds else "",
            _seeds(one, tasks),
        ]
        for one in policies
    ]
    heads = ["policy", "sees", ">measures", ">updates", ">CPU seconds of a training"]
    return TableOfRows([*heads, ">trainings"], lines)


def _compared(one: Ranked, other: Ranked, tasks: Sequence[str]) -> tuple[Difference, Difference]:
    """See compare(); without intervals where one of both has too few trainings."""
    both = compare(*([*map(each.scores, tasks)] for each in (one, other)))
    if one.has_interval(tasks) and other.has_interval(tasks):
        return both
    difference, share = (Difference(each.value, None, None) for each in both)
    return difference, share


def gain(before: Sequence[float], after: Sequence[float]) -> Difference:
    """How far mean scores of tasks rise; Student's interval over the tasks, of LEAST at least.

    So it holds what differs between trainings, of which each task has its own.
    """
    rise = student(np.array(after) - np.array(before))
    return rise if len(after) >= LEAST else Difference(rise.value, None, None)


def ahead(rows: Rows, name: str, other: str) -> Difference:
    """How far a policy's mean over all tasks is ahead of another's, in the same episodes."""
    tasks, policies = ranked(rows)
    of_names = {one.name: one for one in policies if one.seeds(tasks)}
    return _compared(of_names[name], of_names[other], tasks)[0]


def neighbours(rows: Rows) -> TableOfRows:
    """How far each policy is ahead of the next in rank, of those that played all tasks.

    Logged episodes are left out: they were not played in the same instances.
    """
    tasks, policies = ranked(rows)
    lines = []
    for one, other in pairwise(one for one in policies if one.seeds(tasks) and not one.logged):
        difference, share = _compared(one, other, tasks)
        counts = [_seeds(each, tasks) for each in (one, other)]
        differs = [interval(difference, sign="+"), interval(share, digits=2)]
        lines.append([one.name, counts[0], other.name, counts[1], *differs])
    heads = ["policy", ">trainings", "next in rank", ">trainings", ">points ahead"]
    return TableOfRows([*heads, ">probability of improvement"], lines)


@dataclass(frozen=True)
class Changed:
    """What a variant of a study makes of a learner, in the mean over the tasks that both have.

    Attributes:
        trainings: that both have, of all these tasks.
        before: score in the study.
        after: score of the same trainings in the variant.
        gain: their difference, see gain().
    """

    policy: str
    tasks: int
    trainings: int
    before: float
    after: float
    gain: Difference


def changed(study: Rows, variant: Rows) -> list[Changed]:
    """The learners of a variant beside themselves in the study, with the same seeds.

    Args:
        study: whose track "same-task" counts.
        variant: rows of one track.
    """
    of_study, of_variant = (
        {
            (row["policy"], row["task"], row["seed"]): float(np.mean(_scores_of(row)))
            for row in rows
            if "training" in row
        }
        for rows in ([row for row in study if row["track"] == "same-task"], variant)
    )
    both: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (policy, task, seed), after in of_variant.items():
        if (before := of_study.get((policy, task, seed))) is not None:
            both.setdefault(policy, {}).setdefault(task, []).append((before, after))
    lines = []
    for policy, of_tasks in both.items():
        means = np.array([np.mean(pairs, axis=0) for pairs in of_tasks.values()])
        before, after = means.mean(axis=0).tolist()
        count = sum(map(len, of_tasks.values()))
        lines.append(Changed(policy, len(means), count, before, after, gain(*means.T)))
    return lines


def draw_profiles(rows: Rows) -> Figure:
    """The share of runs above each score, for the policies that played all tasks.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tasks, policies = ranked(rows)
    levels = np.linspace(-50, 105, 156)
    figure = new_figure(7.0, 4.2)
    axis = figure.add_subplot()
    for number, one in enumerate(one for one in policies if one.seeds(tasks)):
        profile = score_profile(one.runs(tasks), levels)
        style = "-" if one.learns else "--"
        axis.step(levels, profile, style, color=f"C{number % 10}", lw=1.2, label=one.name)
    axis.set_xlabel("score")
    axis.set_ylabel("share of runs above it")
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize=7, frameon=False, loc="lower left")
    return figure
