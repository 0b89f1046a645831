"""What agents reach in worlds that their data do not hold, beside the best rule and Linux."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_benchmarks.study.function import Rows
from pmoss_benchmarks.study.tables import TableOfRows, grouped, interval, side
from pmoss_datasets.evaluation import Difference, paired_difference
from pmoss_datasets.evaluation.statistics import student
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.types import Float64Array

#: What a world is to a training, by the track that it is played on.
KINDS = {
    "same-task": "tasks that its data lack",
    "learned": "tasks of its data",
    "unseen-workload": "other workloads",
    "unseen-distribution": "other distributions of keys",
    "unseen-machine": "other machines",
    "": "new machines",
}


def _scores(rows: Rows, name: str) -> Float64Array:
    """(seeds, episodes), or (seeds, 1) of means where single ones were not kept."""
    played = [(row["rules"] | row["policies"])[name] for row in rows]
    return np.array(
        [result.get("scores", [result["score"]]) for result in played], dtype=np.float64
    )


def _agent(row: Mapping[str, Any]) -> str:
    return str(next(iter(row["policies"])))


def best_rule(row: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """Of the rules that place slices, as the agent does: under others, workers share them."""
    names = [name for name in row["rules"] if name not in (*SPATIAL.unplaced, *without)]
    return str(max(names, key=lambda name: float(row["rules"][name]["score"])))


def over_rule(row: Mapping[str, Any]) -> float:
    """The agent's throughput over that of the best rule."""
    return float(_served(row) / row["rules"][best_rule(row)]["throughput"])


def over_rules(rows: Rows) -> float:
    """The geometric mean over worlds of over_rule()."""
    return geometric_mean([over_rule(row) for row in rows])


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(ratios))))


def over_linux(row: Mapping[str, Any]) -> float | None:
    """The agent's throughput over that of the best setting of Linux; None where none played."""
    shared = [of["throughput"] for name, of in row["rules"].items() if name in SPATIAL.unplaced]
    return _served(row) / max(shared) if shared else None


def _served(row: Mapping[str, Any]) -> float:
    return float(row["policies"][_agent(row)]["throughput"])


def lead(rows: Rows, without: Sequence[str] = ()) -> Difference:
    """The mean over servers of the mean of leads() on each; its interval is over servers.

    Worlds of one server are alike, so they say less than as many servers would.

    Args:
        rows: of one training.
        without: rules that do not count.
    """
    by_server: dict[str, list[float]] = {}
    for row, ahead in zip(rows, leads(rows, without), strict=True):
        by_server.setdefault(row["env"]["machine"], []).append(ahead)
    return student(np.array([np.mean(ahead) for ahead in by_server.values()]))


def leads(rows: Rows, without: Sequence[str] = ()) -> list[float]:
    """In each world how far the agent's mean score is ahead of that of the best rule."""
    return [
        row["policies"][_agent(row)]["score"] - row["rules"][best_rule(row, without)]["score"]
        for row in rows
    ]


def best_in_hindsight(rows: Rows, episodes: int) -> float:
    """The mean over worlds of what the best rule scores in the first episodes of each."""
    scores = [
        max(
            float(np.array(of["scores"][:episodes], dtype=np.float64).mean())
            for name, of in row["rules"].items()
            if name not in SPATIAL.unplaced
        )
        for row in rows
    ]
    return float(np.mean(scores))


def _ahead(rows: Rows) -> Difference:
    """How far the agent is ahead of the best rule of a world, paired."""
    return paired_difference(_scores(rows, _agent(rows[0])) - _scores(rows, best_rule(rows[0])))


def means(rows: Rows) -> TableOfRows:
    """Mean scores of all policies in each world, by training."""
    names = list(dict.fromkeys(name for row in rows for name in row["rules"] | row["policies"]))
    several = len({row["training"] for row in rows}) > 1
    lines = []
    for (world, training), own in grouped(rows, "world", "training").items():
        line = [training, world] if several else [world]
        played = own[0]["rules"] | own[0]["policies"]
        line += [
            interval(paired_difference(_scores(own, name))) if name in played else ""
            for name in names
        ]
        if own[0]["rules"]:
            line.append(f"{interval(_ahead(own))} over {best_rule(own[0])}")
        lines.append(line)
    columns = [*(["training"] if several else []), "world", *(f">{name}" for name in names)]
    columns += [f">{_agent(rows[0])}, paired"] if rows[0]["rules"] else []
    return TableOfRows(columns, lines)


def _kind(row: Mapping[str, Any]) -> str:
    return "learned" if row["learned"] else row["world"].rpartition("/")[0]


def worlds(rows: Rows) -> TableOfRows:
    """World by world the best rule, and each training beside it and beside Linux."""
    groups, lines = grouped(rows, "world", "training"), []
    trainings = list(dict.fromkeys(row["training"] for row in rows))
    beside_linux = all(over_linux(row) is not None for row in rows)
    for world in dict.fromkeys(row["world"] for row in rows):
        first = groups[world, trainings[0]][0]
        rule, env = best_rule(first), first["env"]
        line = [env["machine"], env["workload"], env.get("interference", "none")]
        line += [KINDS[_kind(first)], f"{rule} {first['rules'][rule]['score']:.1f}"]
        for training in trainings:
            own = groups[world, training]
            line += [f"{_scores(own, _agent(own[0])).mean():.1f}", interval(_ahead(own))]
            if beside_linux:
                line.append(f"{np.mean([over_linux(row) for row in own]):.2f}")
        lines.append(line)
    columns = ["machine", "workload", "co-tenants", "kind of world", "best rule"]
    heads = [">ahead", ">over Linux"] if beside_linux else [">ahead"]
    agents = [f">{name}" for name in trainings] if len(trainings) > 1 else [f">{_agent(rows[0])}"]
    of_training = [head for agent in agents for head in (agent, *heads)]
    return TableOfRows([*columns, *of_training], lines)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """What the trainings come to.

    Returns:
        ``scores``, the agent's mean by training; and ``kinds``, where rules played: by KINDS the
        number of ``worlds``, mean scores of the best ``rule`` and by training ``scores``, and by
        training ``sides``: in how many worlds the interval of the difference from the best rule
        lies "above" 0, is "level" with it, or lies "below".
    """
    groups = grouped(rows, "world", "training")
    scores: dict[str, list[float]] = {}
    kinds: dict[str, dict[str, Any]] = {}
    for (_, training), own in groups.items():
        mean = float(_scores(own, _agent(own[0])).mean())
        scores.setdefault(training, []).append(mean)
        if own[0]["rules"]:
            kind = kinds.setdefault(_kind(own[0]), {"rule": [], "scores": {}, "sides": {}})
            kind["rule"].append(own[0]["rules"][best_rule(own[0])]["score"])
            kind["scores"].setdefault(training, []).append(mean)
            kind["sides"].setdefault(training, Counter())[side(_ahead(own))] += 1
    return {
        "scores": {name: float(np.mean(values)) for name, values in scores.items()},
        "kinds": {
            name: {
                "worlds": len(kind["rule"]) // len(scores),
                "rule": float(np.mean(kind["rule"])),
                "scores": {
                    training: np.mean(values) for training, values in kind["scores"].items()
                },
                "sides": kind["sides"],
            }
            for name, kind in kinds.items()
        },
    }


def conditions(rows: Rows) -> TableOfRows:
    """Under each condition the mean of the best rule of each world, and of all that play."""
    lines, names = [], [*rows[0]["rules"], *rows[0]["policies"]]
    for condition, own in grouped(rows, "condition").items():
        best = np.mean([row["rules"][best_rule(row)]["score"] for row in own])
        means = [best, *(_scores(own, name).mean() for name in names)]
        sides = Counter(side(_ahead([row])) for row in own)
        counts = [str(sides[name]) for name in ("above", "level", "below")]
        lines.append([condition, str(len(own)), *(f"{mean:.1f}" for mean in means), *counts])
    columns = ["condition", ">worlds", ">best rule of each", *(f">{name}" for name in names)]
    return TableOfRows([*columns, ">above", ">level", ">below"], lines)
