"""Blocks of the studies: data, change, old counters, vendors, exploration, reward, distance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_datasets.evaluation.statistics import paired_difference
from pmoss_env.envs.access_path import FEATURES

_COUNTERS = "studies/counters/summary.json"
_SWEEPS = "studies/sweeps/summary.json"
_DATA = "studies/data/summary.json"
_CAUSES = "studies/causes/summary.json"
_THREADS = "threads"
_SCANS = "access-path"
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


def mesh(stored: Stored) -> str:
    """The farthest over the nearest cores of Grace Hopper, by what is estimated of its mesh."""
    report = stored[_CAUSES]
    (found,) = _figures(report, "mesh")
    (target,) = [one for one in stored.validation if one["number"] == "22c"]
    shape, hop = found["used"]
    rows = []
    for name, ratios in found["ratio"].items():
        cells = [_within(ratio, target) for ratio in ratios]
        rows.append([f"{name} (used)" if name == shape else name, *cells])
    hops = [f"{one:g} ns (used)" if one == hop else f"{one:g} ns" for one in found["hops"]]
    return _block(
        stored,
        _CAUSES,
        "## What of the mesh is estimated",
        table(["mesh", *hops], rows),
        "Columns: the time from a stop to the next one. Each cell: the farthest two cores over the "
        "nearest two; bold ones lie inside. No public text gives the shape. The time of a hop "
        "comes from the spread that was measured on another chip with these cores. Neither was "
        "fitted to the statement.",
    )


def thread_causes(stored: Stored, statements: Sequence[str], machine: bool = False) -> str:
    """Figures on threads again, with one condition changed.

    Args:
        stored: the results.
        statements: beginnings of those that are told.
        machine: whether they are the machine's, and no bandit's.
    """
    report = stored[_CAUSES]
    judged = {
        one["statement"]: one
        for one in stored[_THREADS]["rows"]
        if one["statement"].startswith(tuple(statements))
    }
    answers = _figures(report, "thread-causes")
    told = {"machine": ""} if machine else {"linucb": "", "linucb-learned": ", learned before"}
    shown = [name for name in judged if any(name in of for of in answers[0]["got"].values())]
    rows: list[list[str]] = []
    for policy, words in told.items():
        usual: list[str] | None = None
        for one in answers:
            got = one["got"][policy]
            cells = [_within(got[name], judged[name]) if name in got else "" for name in shown]
            if cells != usual and any(cells):
                rows.append([one["case"] + words, *cells])
            usual = usual or cells
    heads = [f"{name}, {judged[name]['low']:g} .. {judged[name]['high']:.3g}" for name in shown]
    return _block(
        stored,
        _CAUSES,
        "## With one condition changed",
        table(["", *heads], rows),
        "Bold figures lie inside. What a condition leaves as it was has no row."
        + ("" if machine else f" {_runs(report)}"),
    )


def scan_causes(stored: Stored, statements: Sequence[str]) -> str:
    """Figures of the pair of linear models again, with one condition changed."""
    report = stored[_CAUSES]
    judged = {one["what"]: one for one in stored[_SCANS]["rows"] if one["what"] in statements}
    rows = [
        [
            one["case"],
            f"{one['scans']:,}",
            *(_within(one["got"][name], judged[name]) for name in statements),
        ]
        for one in _figures(report, "scan-causes")
    ]
    heads = [f"{name}, from {judged[name]['low']:g}" for name in statements]
    return _block(
        stored,
        _CAUSES,
        "## With one condition changed",
        table(["", "scans", *heads], rows),
        "Bold figures lie inside. Fewer scans than in the table of figures, drawn anew. Products: "
        "size times latency and traffic are further features.",
    )


def _figures(report: Mapping[str, Any], study: str) -> list[Answer]:
    return [one for one in report["figures"] if one["study"] == study]


def _within(value: float, judged: Mapping[str, Any]) -> str:
    """A figure, bold where it lies inside the range of a verdict."""
    shown = f"{value:.3g}"
    return f"**{shown}**" if judged["low"] <= value <= judged["high"] else shown


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


BLOCKS: Mapping[str, Callable[[Stored], str]] = {
    "study-stale": stale,
    "study-data": sizes,
    "study-change": change,
    "study-vendors": vendors,
    "study-vendor-scores": vendor_scores,
    "study-alpha": alpha,
    "study-reward": reward,
    "study-gain": gain,
    "study-weights": weights,
    "study-mesh": mesh,
    "study-causes-models": partial(
        scan_causes, statements=("R2 of the CPU model", "R2 of the GRU model")
    ),
    "study-causes-choices": partial(
        scan_causes,
        statements=("precision of the pair", "recall of the pair", "F1 of the pair"),
    ),
    "study-causes-gap": partial(
        thread_causes, statements=("local / remote bandwidth of DRAM",), machine=True
    ),
    "study-causes-width": partial(
        thread_causes, statements=("decisions until the width of any action",)
    ),
    "study-causes-times": partial(thread_causes, statements=("reads: ", "four patterns: ")),
    "study-causes-latency": partial(thread_causes, statements=("fillrandom, 960k requests",)),
}
