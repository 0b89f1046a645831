"""What the cells of the offline benchmark say together: summary, table and learning curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.curves import (
    draw_curves,
    draw_played,
    learned_by_playing,
    same_curves,
)
from pmoss_benchmarks.offline.opponents import OPPONENTS, has_learned, is_opponent
from pmoss_benchmarks.offline.pairs import paired, paired_tables
from pmoss_benchmarks.offline.plan import USUAL_TIER, Plan
from pmoss_benchmarks.offline.scores import (
    REPETITIONS,
    STATISTICS,
    runs_of,
    stratified_bootstrap,
)
from pmoss_benchmarks.offline.store import HEADING, README, SUMMARY, facts_of, write_rows
from pmoss_benchmarks.offline.tracks import TRACKS, load_track, track_place
from pmoss_benchmarks.offline.work import best_name, to_rows
from pmoss_benchmarks.report import markdown_row
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import EpisodeResult, aggregate
from pmoss_env.files import write_atomically
from pmoss_env.provenance import processors_of, provenance

Rows = dict[tuple[str, str], list[EpisodeResult]]


def write_report(
    out: Path,
    plan: Plan,
    results: Mapping[str, Mapping[str, Any]],
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Writes result files, ``summary.json``, ``README.md`` and the curves; returns the summary.

    Args:
        out: folder.
        plan: of the run; the results may hold more than it asks for.
        results: by the cell's name.
        left_out: agents that could not be used, and why.
    """
    ordered = dict(sorted(results.items(), key=lambda item: _position(item[0])))
    rows: Rows = {}
    for name, result in ordered.items():
        track, task = name.split("/")[:2]
        rows.setdefault((track, task), []).extend(to_rows(dict(result)))
    cells = {name: facts_of(name, result) for name, result in ordered.items()}
    summary = {
        **provenance(["pmoss_benchmarks.offline", "pmoss_agents", "pmoss_datasets"]),
        "suite": plan.name,
        "settings": plan.settings,
        "left_out": dict(left_out),
        "tracks": {
            track: statistics_of(plan.settings, track, _of_track(rows, track))
            for track in dict.fromkeys(track for track, _ in rows)
        },
        "cells": cells,
    }
    write_rows(out, plan.settings, rows)
    for track in summary["tracks"]:
        if curves_of(cells.values(), track) == track:
            draw_curves(_in_track(cells.values(), track), out / f"{track}.png")
            draw_played(_in_track(cells.values(), track), out / f"{track}-played.png")
    write_atomically(out / README, as_markdown(summary))
    # Last: it says that the other files are whole.
    write_atomically(out / SUMMARY, json.dumps(summary, indent=1) + "\n")
    return summary


def _of_track(rows: Rows, track: str) -> dict[str, list[EpisodeResult]]:
    return {task: of_task for (name, task), of_task in rows.items() if name == track}


def statistics_of(
    settings: Mapping[str, Any], track: str, rows: Mapping[str, list[EpisodeResult]]
) -> dict[str, Any]:
    """What a summary says of a track: summarise(), and paired differences of common episodes."""
    found = summarise(rows)
    if settings.get("common"):
        found["paired"] = paired(rows, find_domain(load_track(track).domain))
    return found


def _in_track(cells: Iterable[Mapping[str, Any]], track: str) -> list[Mapping[str, Any]]:
    return [cell for cell in cells if cell["track"] == track]


def curves_of(cells: Iterable[Mapping[str, Any]], track: str) -> str:
    """The track whose figure shows the learning curves of a track: itself, or same-task."""
    cells = list(cells)
    first = next(iter(TRACKS))
    alike = same_curves(_in_track(cells, track), _in_track(cells, first))
    return first if alike else track


def _position(name: str) -> tuple[Any, ...]:
    """Where a cell stands: opponents first, then agents; by name and seed."""
    track, task, agent, seed, _ = name.split("/")
    return *track_place(track), task, not is_opponent(agent, task), agent, int(seed)


def summarise(rows: Mapping[str, list[EpisodeResult]]) -> dict[str, Any]:
    """The statistics of one track: of each policy over all tasks, and on each."""
    overall = {
        policy: {
            name: asdict(stratified_bootstrap(runs, statistic))
            for name, statistic in STATISTICS.items()
        }
        for policy, runs in runs_of(rows).items()
    }
    tasks = {
        task: {summary.policy: asdict(summary) for summary in aggregate(of_task)}
        for task, of_task in rows.items()
    }
    return {"overall": overall, "tasks": tasks}


def as_markdown(summary: Mapping[str, Any]) -> str:
    """The tables of a summary."""
    settings = summary["settings"]
    lines = [
        f"{HEADING}, suite {summary['suite']}{_of_tier(summary, ', data of the tier ')}",
        "",
        f"Made with pmoss-env {summary['version']} on {processors_of(summary)}; the last "
        f"call was `{summary['command']}`.",
        "",
        f"Scores: {_scales(summary)}; one run is the mean over {settings['episodes']} episodes "
        "that no dataset holds. Brackets: 95 % intervals, of the mean over the runs of a task by a "
        "two-level bootstrap, of statistics over tasks by one stratified by task "
        f"({REPETITIONS} repetitions). IQM: interquartile mean over all runs. "
        f'"Best": the checkpoint of {settings["checkpoints"]} that was best on '
        f"{settings['validation_episodes']} other episodes. "
        f"Illegal: actions on masked {_choices(summary)}. Training: CPU time of one run. "
        "`pmoss study replay` replays the rows.",
    ]
    for track, found in summary["tracks"].items():
        seeds = len({c["seed"] for c in summary["cells"].values() if c["track"] == track})
        told = f"{load_track(track).description} {seeds} training seeds a task."
        lines += ["", f"## Track {track}", "", told, ""]
        if "paired" in found:
            unit = find_domain(load_track(track).domain).unit
            lines += [*paired_tables(found["paired"], unit), "", "### Over all tasks", ""]
        lines += _track(summary, track, found)
    if summary["left_out"]:
        lines += ["", "Left out: " + "; ".join(summary["left_out"].values()) + "."]
    return "\n".join(lines) + "\n"


def _domains(summary: Mapping[str, Any]) -> list[Domain]:
    """Those of the tracks of a summary."""
    return [find_domain(n) for n in dict.fromkeys(load_track(t).domain for t in summary["tracks"])]


def _scales(summary: Mapping[str, Any]) -> str:
    """What scores 0 and 100, domain by domain if there are several."""
    settings, domains = summary["settings"], _domains(summary)
    if "long_search" in settings:
        return (
            "0 is the mean of random schedules, 100 the best of several searches with "
            f"{settings['long_search']} evaluations together (the study `references`); in "
            "tracks of other worlds than the task's, 100 is a search with "
            f"{settings['search_budget']}"
        )
    scales = [
        domain.scale(settings["search_budget"], settings["random_schedules"]) for domain in domains
    ]
    if len(scales) == 1:
        return scales[0]
    named = zip(domains, scales, strict=True)
    return "; ".join(f"of {domain.name} {scale}" for domain, scale in named)


def _choices(summary: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(domain.choices for domain in _domains(summary)))


def _track(summary: Mapping[str, Any], track: str, found: Mapping[str, Any]) -> list[str]:
    cells = [cell for cell in summary["cells"].values() if cell["track"] == track]
    tasks, domain = list(found["tasks"]), find_domain(load_track(track).domain)
    columns = ["policy", "knows", "IQM", "best", "median", "mean", *tasks]
    columns += ["illegal", "training s", "ms / decision", "command"]
    lines = [markdown_row(columns), markdown_row(["---"] * len(columns))]
    agents = list(dict.fromkeys(c["agent"] for c in cells if has_learned(c)))
    played = {name for task in tasks for name in found["tasks"][task]}
    others = dict.fromkeys(p for c in cells if not has_learned(c) for p in c["policies"])
    opponents = [*(name for name in domain.opponents() if name in others), *others]
    names = [name for name in dict.fromkeys((*opponents, *agents)) if name in played]
    for name in sorted(names, key=lambda name: -_rank(found, name)):
        of_tasks = [found["tasks"][task].get(name) for task in tasks]
        overall = found["overall"].get(name, {})
        best = found["overall"].get(best_name(name), {})
        mine = [cell for cell in cells if cell["agent"] == name and "training" in cell]
        told = [summary_ for summary_ in of_tasks if summary_]
        lines.append(
            markdown_row(
                [
                    f"**{name}**" if name in agents else name,
                    _knows(domain, name, mine, summary["settings"]),
                    *(_interval(d.get("iqm")) for d in (overall, best)),
                    *(_interval(overall.get(statistic)) for statistic in ("median", "mean")),
                    *(_task_score(s) for s in of_tasks),
                    str(sum(s["illegal_actions"] for s in told)),
                    f"{np.mean([c['training']['seconds'] for c in mine]):.0f}" if mine else "",
                    f"{1e3 * np.mean([s['seconds_per_decision'] for s in told]):.2f}",
                    f"`{_command(summary, track, name if name in agents else OPPONENTS)}`",
                ]
            )
        )
    shared = shared_means(domain, cells, tasks)
    lines += ["", *_verdicts(domain, found, agents)]
    absent = {reason for c in cells for reason in c.get("absent", {}).values()}
    lines += [f"- absent: {reason}" for reason in sorted(absent)]
    for agent in agents:
        refusals = {c["refused"] for c in cells if c["agent"] == agent and "refused" in c}
        lines += [f"- {agent} refused: {reason}" for reason in sorted(refusals)]
    lines += _ratios(domain, found, agents, shared)
    if any("curve" in cell for cell in cells):
        shown = curves_of(summary["cells"].values(), track)
        if shown != track:
            lines += ["", f"The agents were trained as in the track {shown}: its curves show them."]
        else:
            lines += ["", f"![Learning curves of the track {track}]({track}.png)"]
            if learned_by_playing(cells):
                picture = f"{track}-played.png"
                lines += ["", f"![Returns of agents that learned by playing]({picture})"]
    return lines


def _rank(found: Mapping[str, Any], name: str) -> float:
    if name in found["overall"]:
        return float(found["overall"][name]["iqm"]["value"])
    return -math.inf


def _knows(
    domain: Domain, name: str, cells: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> str:
    """What a policy may use: an equal budget is stated where there is one."""
    if not cells:
        if name not in domain.opponents():
            return ""  # it learns nothing, or is of a package that is not installed here
        budget = f", {settings['search_budget']} evaluations per episode"
        return domain.knows(name) + budget * domain.takes_budget(name)
    source = cells[0]["training"]["source"]
    if "steps" in source:
        return f"{source['steps']} steps of the environment"
    if "updates" in source:
        return f"{source['updates']} updates by playing"
    return f"{source['episodes']} logged episodes"


def _command(summary: Mapping[str, Any], track: str, agent: str) -> str:
    suite = f"{summary['suite']}{_of_tier(summary, ' --tier ')}"
    return f"pmoss benchmark offline --suite {suite} --track {track} --agent {agent}"


def _of_tier(summary: Mapping[str, Any], words: str) -> str:
    """The tier of the data after some words; nothing where it is the usual one."""
    tier = summary["settings"]["tier"]
    return "" if tier == USUAL_TIER else f"{words}{tier}"


def _interval(estimate: Mapping[str, Any] | None) -> str:
    if not estimate:
        return ""
    if estimate["low"] is None:
        return f"{estimate['value']:.1f}"
    return f"{estimate['value']:.1f} [{estimate['low']:.1f}, {estimate['high']:.1f}]"


def _task_score(summary: Mapping[str, Any] | None) -> str:
    if not summary or summary["score"] is None:
        return ""
    keys = ("score", "score_low", "score_high")
    return _interval(dict(zip(("value", "low", "high"), (summary[k] for k in keys), strict=True)))


def shared_means(
    domain: Domain, cells: Iterable[Mapping[str, Any]], tasks: Sequence[str]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean throughput and score, by task, of the paper's schedules whose workers share slices."""
    opponents = [cell for cell in cells if "shared" in cell]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for task in tasks:
        for name in domain.unplaced:
            episodes = [
                e for c in opponents if c["task"] == task for e in c["shared"].get(name, ())
            ]
            scores = [score for _, score in episodes if score is not None]
            if scores:
                mean = float(np.mean([throughput for throughput, _ in episodes]))
                found.setdefault(task, {})[name] = mean, float(np.mean(scores))
    return found


def _verdicts(domain: Domain, found: Mapping[str, Any], agents: Sequence[str]) -> list[str]:
    """Of each task: the best learned agent beside the best simple policy."""
    lines = []
    what = domain.outcome_name.removeprefix("final ").removesuffix(", negated")
    for task, policies in found["tasks"].items():
        best, rule = _best(policies, agents), _best(policies, domain.simple)
        if best is None or rule is None:
            continue
        ahead = best["score"] - rule["score"]
        words = "above" if ahead > 0 else "BELOW" if ahead < 0 else "level with"
        lines.append(
            f"- {task}: best learned {best['policy']} {best['score']:.1f}, {words} the best "
            f"simple {domain.kind} {rule['policy']} {rule['score']:.1f}; "
            f"{best['throughput'] / rule['throughput']:.2f} times its {what}"
        )
    return lines


def _best(policies: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any] | None:
    """The summary of the policy with the highest score on a task."""
    known = [policies[n] for n in names if n in policies and policies[n]["score"] is not None]
    return max(known, key=lambda summary: summary["score"]) if known else None


def _ratios(
    domain: Domain,
    found: Mapping[str, Any],
    agents: Sequence[str],
    shared: Mapping[str, Mapping[str, tuple[float, float]]],
) -> list[str]:
    """Throughput of the best learned agent over schedules whose workers share slices (D3 to D12).

    They are measured, not placed: no actions lead to them. What search reaches over the best of
    them is what the machine allows.
    """
    names = [name for name in domain.unplaced if any(name in of for of in shared.values())]
    columns = ["task", "best learned", domain.unit, *(f"over {name}" for name in names)]
    columns += ["mean of these", "over the best of them", "local-search over the best of them"]
    columns.append("over the best simple schedule")
    rows = []
    for task, of_task in shared.items():
        policies = found["tasks"][task]
        best, rule = _best(policies, agents), _best(policies, domain.simple)
        if best is None or rule is None:
            continue
        mine = best["throughput"]
        others = [of_task[name][0] for name in names]
        over = [mine / other for other in others]
        search = policies.get("local-search", {}).get("throughput", math.nan) / max(others)
        ratios = [*over, float(np.mean(over)), min(over), search, mine / rule["throughput"]]
        shown = ["" if math.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios]
        rows.append(markdown_row([task, best["policy"], f"{mine:.1f}", *shown]))
    if not rows:
        return []
    heading = "Throughput over that of schedules whose workers share slices (measured, not placed):"
    return ["", heading, "", markdown_row(columns), markdown_row(["---"] * len(columns)), *rows]
