"""Blocks of the studies: data, change, old counters, vendors, exploration, reward, distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_benchmarks.evaluation.statistics import paired_difference
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_env.envs.access_path import FEATURES

_COUNTERS = "studies/counters/summary.json"
_SWEEPS = "studies/sweeps/summary.json"
_DATA = "studies/data/summary.json"
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
        stored,
        _COUNTERS,
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
        stored,
        _SWEEPS,
        "## What is lacking",
        table(["CPU", "has no event for"], rows),
        "Counters that the models compute, and that the table of counters has no event for there. "
        "A kind of CPU that is not listed has one for each. A virtual machine has no PMU.",
    )


def sizes(stored: Stored) -> str:
    """Scores by the number of episodes that were learned from."""
    report = stored[_DATA]
    rows = [
        [one["case"], _told(one["score"]), f"{_told(one['over_rule'])} over `{one['best_rule']}`"]
        for one in _answers(report, "data")
    ]
    return _block(
        stored,
        _DATA,
        "## Score by the size of the data",
        table(["episodes of data", "score", "against the best rule"], rows),
        f"{_world(report)} {_learner(report)} The episodes are of the mixture `mixed`. Each has a "
        "workload instance, co-tenants and an incumbent of its own.",
    )


def change(stored: Stored) -> str:
    """Scores under workloads that came after that of the data."""
    report = stored[_DATA]
    home, usual = report["settings"]["workload"], report["settings"]["usual"]
    told = {
        "zero-shot": f"on `{home}` alone",
        "trained anew": "on the new workload alone",
        "trained on both": "on both",
    }
    answers = _answers(report, "change")
    rows = []
    for workload in dict.fromkeys(one["workload"] for one in answers):
        mine = [one for one in answers if one["workload"] == workload]
        rows += [
            [f"`{workload}`", f"surrogate, trained {told[one['case']]}", _told(one["score"])]
            for one in mine
        ]
        rule = mine[0]["best_rule"]
        (best,) = [
            one
            for one in _answers(report, "rules")
            if (one["workload"], one["case"]) == (workload, rule)
        ]
        rows.append([f"`{workload}`", f"the best rule, `{rule}`", _told(best["score"])])
    return _block(
        stored,
        _DATA,
        "## After the workload changed",
        table(["workload now", "policy", "score"], rows),
        f"{_world(report)} {_learner(report)} Each training has {usual} episodes of a workload.",
    )


def vendor_scores(stored: Stored) -> str:
    """Scores without the counters that a kind of CPU lacks."""
    report = stored[_DATA]
    usual = str(report["settings"]["usual"])
    rows = [
        ["all counters", "", _told(one["score"]), ""]
        for one in _answers(report, "data")
        if one["case"] == usual
    ]
    rows += [
        [
            one["case"],
            str(len(report["lost"][one["case"]])),
            _told(one["score"]),
            _told(one["over_usual"]),
        ]
        for one in _answers(report, "vendors")
    ]
    return _block(
        stored,
        _DATA,
        "## What it costs",
        table(["counters of", "lost", "score", "against the first row"], rows),
        f"{_world(report)} {_learner(report)} It learned from {usual} episodes and plays without "
        "the counters that are lost. The machine is the same in all rows.",
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
        stored,
        _SWEEPS,
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
        stored,
        _SWEEPS,
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
        stored,
        _SWEEPS,
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
        stored,
        _SWEEPS,
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


def _learner(report: Mapping[str, Any]) -> str:
    changes = report["settings"]["changes"]
    told = ", ".join(f"`{name} = {value}`" for name, value in changes.items())
    return f"A surrogate with {told} plays." if changes else "A surrogate plays."


def _runs(report: Mapping[str, Any]) -> str:
    return f"Means over {counted(report['settings']['seeds'], 'run')}."


def _block(stored: Stored, name: str, *parts: str) -> str:
    return "\n\n".join([*parts, made(stored[name], f"benchmarks/results/{name}")])


BLOCKS = {
    "study-stale": stale,
    "study-data": sizes,
    "study-change": change,
    "study-vendors": vendors,
    "study-vendor-scores": vendor_scores,
    "study-alpha": alpha,
    "study-reward": reward,
    "study-gain": gain,
    "study-weights": weights,
}
