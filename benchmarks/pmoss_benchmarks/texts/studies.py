"""Blocks of the studies: old counters, vendors, exploration, reward, distance, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_benchmarks.evaluation.statistics import paired_difference
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_env.envs.access_path import FEATURES

_COUNTERS = "studies/counters/summary.json"
_SWEEPS = "studies/sweeps/summary.json"
Answer = Mapping[str, Any]


def stale(stored: Stored) -> str:
    """Plans from old counters, and from fresh ones."""
    report = stored[_COUNTERS]
    usual = str(report["settings"]["usual"])
    names = {"stale": "read before a change of: {}", "fresh": "of its own plan, after {}"}
    rows = [
        ["of the incumbent, as it runs", _told(one["score"]), ""]
        for one in _answers(report, "data")
        if one["case"] == usual
    ]
    for study, words in names.items():
        for one in _answers(report, study):
            case = one["case"]
            what = counted(int(case), "plan") if study == "fresh" else case.replace("other ", "")
            rows.append([words.format(what), _told(one["score"]), _told(one["over_usual"])])
    return _block(
        report,
        "## Stale and fresh counters",
        table(["counters", "score", "against the first row"], rows),
        f"{_world(report)} One surrogate that learned from {usual} episodes plays all rows. It "
        "plans all slices at once from counters of the incumbent, so they are older than its plan.",
        "Fresh: the plan runs, its counters are read, and the next plan is made from these alone.",
    )


def vendors(stored: Stored) -> str:
    """Which counters of the models a kind of CPU has no event for."""
    report = stored[_SWEEPS]
    rows = [[name, ", ".join(f"`{one}`" for one in lost)] for name, lost in report["lost"].items()]
    return _block(
        report,
        "## What is lacking",
        table(["CPU", "has no event for"], rows),
        "Counters that the models compute, and that the table of counters has no event for there. "
        "A kind of CPU that is not listed has one for each. A virtual machine has no PMU.",
    )


def alpha(stored: Stored) -> str:
    """Run times of the bandit by its width of exploration."""
    report = stored[_SWEEPS]
    answers = [one for one in report["figures"] if one["study"] == "alpha"]
    programs = [name for name in answers[0] if name not in ("study", "case")]
    rows = [
        [
            one["case"],
            *(
                f"{_ratio(one[name]['seconds'], one[name]['rule'])}; {one[name]['settled']}"
                for name in programs
            ),
        ]
        for one in answers
    ]
    return _block(
        report,
        "## Width of exploration",
        table(["alpha", *programs], rows),
        "Each cell: the time of LinUCB over that of the rule, and the decisions until the width of "
        f"migrating one thread has settled. {_runs(report)} The bandit knew nothing before.",
    )


def reward(stored: Stored) -> str:
    """Run times of the bandit by the form of its reward."""
    report = stored[_SWEEPS]
    answers = [one for one in report["figures"] if one["study"] == "raw"]
    programs = [name for name in answers[0] if name not in ("study", "case")]
    rows = [
        [name, *(_ratio(one[name]["seconds"], one[name]["rule"]) for one in answers)]
        for name in programs
    ]
    return _block(
        report,
        "## The reward with and without scaling",
        table(["program", *(f"{one['case']} reward" for one in answers)], rows),
        "Each cell: the time of LinUCB over that of the rule. The paper's reward adds a count, a "
        f"bandwidth in MB/s and a share as they are: that is the raw one. {_runs(report)}",
    )


def gain(stored: Stored) -> str:
    """What offloading gains, by distance and size."""
    report = stored[_SWEEPS]
    (found,) = [one for one in report["figures"] if one["study"] == "gain"]
    rows = [[place, *(f"{ratio:.2f}" for ratio in row)] for place, row in found["gain"].items()]
    return _block(
        report,
        "## Gain by distance and size",
        table(["column lies", *(f"{size:g} MB" for size in found["sizes"])], rows),
        "Throughput of an offloaded scan over that of a loaded one, idle, with one result. The "
        "model draws nothing here, so there is no interval.",
    )


def weights(stored: Stored) -> str:
    """The linear models of run time, with their units."""
    report = stored[_SWEEPS]
    (found,) = [one for one in report["figures"] if one["study"] == "weights"]
    rows = []
    for number, term in enumerate(found["terms"]):
        scale = found["scale"][number]
        rows.append(
            [
                f"{term}, {FEATURES[term]}" if term in FEATURES else term,
                f"{scale:.4g}",
                *(f"{of[number]:.2f}" for of in found["weights"].values()),
            ]
        )
    columns = ["term", "divided by", *(f"{path}, ms" for path in found["weights"])]
    return _block(
        report,
        "## Weights of the two models",
        table(columns, rows),
        f"Fitted to {found['scans']:,} simulated scans. A weight is what the term adds at its "
        "largest value in the data. The paper gives five weights per model, and no units, scale or "
        "constant: its numbers cannot be compared.",
    )


def _answers(report: Mapping[str, Any], study: str) -> list[Answer]:
    return [one for one in report["episodes"] if one["study"] == study]


def _told(found: Mapping[str, Any]) -> str:
    return interval(found["value"], found["low"], found["high"])


def _ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Paired by seed, with its interval."""
    found = paired_difference((np.array(above) / np.array(below))[None])
    same = found.low is None or found.low == found.high
    return f"{found.value:.3f}" + ("" if same else f" [{found.low:.3f}, {found.high:.3f}]")


def _world(report: Mapping[str, Any]) -> str:
    settings = report["settings"]
    return (
        f"{settings['machine']}, `{settings['workload']}`, co-tenants "
        f"`{settings['interference']}`, {counted(settings['episodes'], 'episode')}, one training; "
        "brackets hold 95 %."
    )


def _runs(report: Mapping[str, Any]) -> str:
    return f"Means over {counted(report['settings']['seeds'], 'run')}."


def _block(report: Mapping[str, Any], *parts: str) -> str:
    name = _SWEEPS if report["figures"] else _COUNTERS
    return "\n\n".join([*parts, made(report, f"benchmarks/results/{name}")])


BLOCKS = {
    "study-stale": stale,
    "study-vendors": vendors,
    "study-alpha": alpha,
    "study-reward": reward,
    "study-gain": gain,
    "study-weights": weights,
}
