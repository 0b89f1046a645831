"""What the rows of policies that play come to, and differences of common episodes.

Where all training seeds met the same episodes, differences are paired: what makes an episode hard
is hard for both. That tells one point apart where means of different episodes do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.episodes import episodes_of, is_opponent
from pmoss_benchmarks.offline.tracks import load_track, track_place
from pmoss_benchmarks.study.function import Rows
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import (
    EpisodeResult,
    aggregate,
    paired_difference,
)
from pmoss_env.types import Float64Array

#: The opponent that may ask the model.
SEARCH = "local-search"
#: Ends the name of a policy that is an agent's best checkpoint.
BEST = " (best)"
#: An optimum is no rule, and neither is what knows the future.
BOUNDS = ("exact", "oracle")


def paired(rows: Sequence[EpisodeResult], domain: Domain) -> dict[str, Any]:
    """Each policy's mean in a task, and how far it is ahead of the best rule and of search.

    Args:
        domain: names the rules: its opponents that take no budget.
    """
    scored = [row for row in rows if row.score is not None]
    policies = list(dict.fromkeys(row.policy for row in scored))
    played = [{row.env_seed for row in scored if row.policy == policy} for policy in policies]
    episodes = sorted(set.intersection(*played)) if played else []
    if not episodes:
        return {"episodes": 0, "rule": None, "policies": {}}
    scores = {policy: _matrix(scored, policy, episodes, "score") for policy in policies}
    rules = [
        name
        for name in domain.opponents()
        if name in scores and name not in BOUNDS and not domain.takes_budget(name)
    ]
    rule = max(rules, key=lambda name: float(scores[name].mean()), default=None)
    statistics = {}
    for policy, mine in scores.items():
        ahead = {
            f"over_{name}": asdict(paired_difference(mine - scores[other]))
            for name, other in (("rule", rule), ("search", SEARCH))
            if other in scores and other != policy
        }
        statistics[policy] = {
            "seeds": mine.shape[0],
            "score": asdict(paired_difference(mine)),
            "throughput": float(_matrix(scored, policy, episodes, "throughput").mean()),
            "above": int((mine > 100).sum()),
            **ahead,
        }
    return {"episodes": len(episodes), "rule": rule, "policies": statistics}


def _matrix(
    rows: Sequence[EpisodeResult], policy: str, episodes: Sequence[int], field: str
) -> Float64Array:
    """(seeds, episodes) values of a policy; seeds that lack an episode are left out."""
    of_seeds: dict[int, dict[int, float]] = {}
    for row in rows:
        if row.policy == policy:
            of_seeds.setdefault(row.seed, {})[row.env_seed] = float(getattr(row, field))
    whole = [of for _, of in sorted(of_seeds.items()) if all(e in of for e in episodes)]
    return np.array([[of[episode] for episode in episodes] for of in whole])


def rows_by_world(rows: Rows) -> dict[str, dict[str, list[EpisodeResult]]]:
    """Episodes by track, then by task."""
    worlds: dict[str, dict[str, list[EpisodeResult]]] = {}
    for row in rows:
        if played := episodes_of(row):
            worlds.setdefault(row["track"], {}).setdefault(row["task"], []).extend(played)
    return dict(sorted(worlds.items(), key=lambda item: track_place(item[0])))


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """What the rows come to.

    Returns:
        ``tracks``: of each ``tasks``, by task and policy a summary, and ``paired``, differences of
        common episodes. ``cells``: rows without their episodes. ``settings``: of the study.
    """
    tracks = {}
    ordered = sorted(rows, key=_position)
    for track, of_tasks in rows_by_world(ordered).items():
        tasks = {
            task: {summary.policy: asdict(summary) for summary in aggregate(of_task)}
            for task, of_task in of_tasks.items()
        }
        tracks[track] = {"tasks": tasks}
        if settings.get("common"):
            domain = find_domain(load_track(track).domain)
            tracks[track]["paired"] = {task: paired(of, domain) for task, of in of_tasks.items()}
    return {
        "settings": dict(settings),
        "tracks": tracks,
        "cells": [
            {
                "agent": row["policy"],
                **{key: value for key, value in row.items() if key != "played"},
                "policies": list(row.get("played", {})),
            }
            for row in ordered
        ],
    }


def _position(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where a row stands: opponents first, then agents; by name and seed."""
    task, name = row["task"], row["policy"]
    return *track_place(row["track"]), task, not is_opponent(name, task), name, row["seed"]


def summary_of(rows: Rows) -> dict[str, Any]:
    """The summary of some rows; differences are paired where all met the same episodes."""
    met: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for row in rows:
        seeds = met.setdefault((row["track"], row["task"]), set())
        seeds |= {tuple(one["env_seed"]) for one in row.get("played", {}).values() if one != "last"}
    return summarise({"common": all(len(seeds) == 1 for seeds in met.values())}, rows)
