"""What the rows of policies that play come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pmoss_benchmarks.offline.episodes import episodes_of, is_opponent
from pmoss_benchmarks.offline.pairs import paired
from pmoss_benchmarks.offline.scores import STATISTICS, runs_of, stratified_bootstrap
from pmoss_benchmarks.offline.tracks import load_track, track_place
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import EpisodeResult, aggregate


def rows_by_world(
    settings: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, list[EpisodeResult]]]:
    """Episodes by track, then by task."""
    worlds: dict[str, dict[str, list[EpisodeResult]]] = {}
    for row in rows:
        played = episodes_of(row, settings)
        if played:
            worlds.setdefault(row["track"], {}).setdefault(row["task"], []).extend(played)
    return dict(sorted(worlds.items(), key=lambda item: track_place(item[0])))


def summarise(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows come to.

    Returns:
        ``tracks``: of each ``overall``, by policy the statistics over all tasks; ``tasks``, by task
        and policy a summary; and ``paired``, differences of common episodes. ``cells``: rows
        without their episodes. ``settings``: of the study.
    """
    tracks = {}
    ordered = sorted(rows, key=_position)
    for track, of_tasks in rows_by_world(settings, ordered).items():
        overall = {
            policy: {
                name: asdict(stratified_bootstrap(runs, statistic))
                for name, statistic in STATISTICS.items()
            }
            for policy, runs in runs_of(of_tasks).items()
        }
        tasks = {
            task: {summary.policy: asdict(summary) for summary in aggregate(of_task)}
            for task, of_task in of_tasks.items()
        }
        tracks[track] = {"overall": overall, "tasks": tasks}
        if settings.get("common"):
            domain = find_domain(load_track(track).domain)
            tracks[track]["paired"] = paired(of_tasks, domain)
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


def summary_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of some rows; differences are paired where all met the same episodes."""
    met: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for row in rows:
        seeds = met.setdefault((row["track"], row["task"]), set())
        seeds |= {tuple(one["env_seed"]) for one in row.get("played", {}).values() if one != "last"}
    return summarise({"common": all(len(seeds) == 1 for seeds in met.values())}, rows)
