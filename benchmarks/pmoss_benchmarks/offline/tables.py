"""Tables of studies in which policies play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.domain import find_domain


def shown(estimate: Mapping[str, Any] | None, sign: str = "") -> str:
    """An estimate with its interval; empty without one."""
    if not estimate or estimate["value"] is None:
        return ""
    value = f"{estimate['value']:{sign}.1f}"
    if estimate["low"] is None:
        return value
    return f"{value} [{estimate['low']:.1f}, {estimate['high']:.1f}]"


def shared_means(row: Mapping[str, Any]) -> tuple[float, float | None]:
    """Mean outcome and score of a schedule whose workers share slices."""
    scores = [score for _, score in row["shared"] if score is not None]
    return fmean(outcome for outcome, _ in row["shared"]), fmean(scores) if scores else None


def _chosen(summary: Mapping[str, Any], tracks: Sequence[str]) -> list[tuple[str, Any]]:
    return [one for one in summary["tracks"].items() if not tracks or one[0] in tracks]


def by_world(summary: Mapping[str, Any], *tracks: str) -> TableOfRows:
    """Every policy in every world, the best one first.

    Args:
        summary: of play.summarise().
        *tracks: only these; none: all.
    """
    lines: list[tuple[Any, list[str]]] = []
    for number, (track, statistics) in enumerate(_chosen(summary, tracks)):
        domain = find_domain(load_track(track).domain)
        for task, policies in statistics["tasks"].items():
            world = number, task
            paired = statistics.get("paired", {}).get(task, {"rule": None, "policies": {}})
            for name, one in policies.items():
                both = paired["policies"].get(name, {})
                ends = {"value": one["score"], "low": one["score_low"], "high": one["score_high"]}
                line = [
                    *(track, task, name, str(one["seeds"]), shown(both.get("score") or ends)),
                    f"{domain.shown(one['throughput']):.1f} {domain.unit}",
                    paired["rule"] or "",
                    shown(both.get("over_rule"), "+"),
                    shown(both.get("over_search"), "+"),
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


def over_tasks(summary: Mapping[str, Any], *tracks: str) -> TableOfRows:
    """Statistics of every policy over all tasks of a track.

    Args:
        summary: of play.summarise().
        *tracks: only these; none: all.
    """
    lines = [
        [track, policy, *(shown(of[name]) for name in ("iqm", "median", "mean"))]
        for track, statistics in _chosen(summary, tracks)
        for policy, of in sorted(
            statistics["overall"].items(), key=lambda item: -item[1]["iqm"]["value"]
        )
    ]
    heads = ["track", "policy", ">interquartile mean", ">median", ">mean"]
    return TableOfRows(heads, lines)
