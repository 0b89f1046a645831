"""Blocks on how methods are tuned and chosen, and how they do on machines that they never met."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_agents.configs import read_ranges
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_datasets.suite import load_task, splits
from pmoss_env.errors import DatasetError

#: Pulls that the table shows.
_PULLS = (1, 8, 16, 50, 100, 200)
#: Results of `pmoss benchmark wanted`, an agent each.
_WANTED = ("wanted.json", "wanted-judged.json")


def task_splits(stored: Stored) -> str:
    """The tasks of each split."""
    rows = []
    for split, tasks in splits().items():
        for task in tasks:
            env = load_task(task).env
            family = env.get("interference", "none")
            rows.append([split, f"`{task}`", env["machine"], env["workload"], family])
    return table(["split", "task", "machine", "workload", "co-tenants"], rows)


def method_ranges(stored: Stored) -> str:
    """The range of each method's settings, and how the committed ones were found."""
    rows = [
        [
            name,
            "; ".join(
                f"{field} {', '.join(f'{value:g}' for value in values)}"
                for field, values in one.values.items()
            ),
            one.tuning,
        ]
        for name, one in read_ranges().items()
    ]
    return table(["method", "range", "how the committed settings were found"], rows)


def selection(stored: Stored) -> str:
    """Scores of the policy that is kept after so many pulls."""
    report = stored["selection.json"]
    rows = []
    for cell in report["cells"]:
        curve = cell["curve"]
        shown = [
            interval(*(curve[name][pulls - 1] for name in ("mean", "low", "high")))
            for pulls in _PULLS
        ]
        rows.append([cell["agent"], *shown])
    settings = report["settings"]
    told = (
        f"`{settings['task']}`, {settings['policies']} policies per method, "
        f"{counted(settings['episodes'], 'episode')}, the counters with noise "
        f"{settings['noise']:g}. Brackets hold 95 % of 1,000 trials."
    )
    columns = ["method", *(counted(pulls, "pull") for pulls in _PULLS)]
    return "\n\n".join(
        [told, table(columns, rows), made(report, "benchmarks/results/selection.json")]
    )


def transfer(stored: Stored) -> str:
    """Policies on a machine that no data are of."""
    report = stored["transfer.json"]
    names = list(report["cells"][0]["policies"])
    trainings = len({cell["seed"] for cell in report["cells"]})
    rows = []
    for cell in report["cells"]:
        policies = cell["policies"]
        ahead = policies["surrogate"]["over_rule"]
        rows.append(
            [
                cell["machine"] + f", training {cell['seed']}" * (trainings > 1),
                *(interval(*_ends(policies[name]["score"])) for name in names),
                f"{interval(*_ends(ahead))} over {cell['best_rule']}",
            ]
        )
    settings = report["settings"]
    partly = settings.get("partly", 0)  # results of earlier versions lack it
    made_up = counted(settings["made_up"] + settings["threaded"] + partly, "made-up one")
    if settings["threaded"]:
        made_up += f", {settings['threaded']} of them with two threads per core"
    if partly:
        made_up += f", {partly} of them with some cores' second threads"
    told = (
        f"A checkpoint learned on the other machines and on "
        f"{made_up}. Each gave {settings['data']} episodes. "
        f"It then met {counted(settings['episodes'], 'episode')} with co-tenants "
        f"`{settings['interference']}`. A number after a comma is of measurements."
    )
    columns = ["left out", *names, "surrogate, paired"]
    return "\n\n".join(
        [told, table(columns, rows), made(report, "benchmarks/results/transfer.json")]
    )


def generalist(stored: Stored) -> str:
    """One checkpoint in the worlds of its data and in others."""
    report = stored["generalist.json"]
    settings = report["settings"]
    rows, verdicts = [], {"above": 0, "level with": 0, "below": 0}
    for cell in report["cells"]:
        policies, rule = cell["policies"], cell["best_rule"]
        ahead = policies["surrogate"]["over_rule"]
        side = "above" if ahead["low"] > 0 else "below" if ahead["high"] < 0 else "level with"
        verdicts[side] += 1
        env = cell["world"]
        rows.append(
            [
                env["machine"],
                env["workload"],
                env.get("interference", "none"),
                "yes" if cell["learned"] else cell["track"].replace("same-task", "no"),
                interval(*_ends(policies["surrogate"]["score"])),
                f"{rule} {policies[rule]['score']['value']:.1f}",
                interval(*_ends(ahead)),
            ]
        )
    told = ", ".join(f"{side} the best rule in {number}" for side, number in verdicts.items())
    tasks = counted(len(settings["learned_on"]), "task")
    head = (
        f"One checkpoint of `surrogate` learned from {tasks} together, from data of the tier "
        f"`{settings['tier']}`. "
        f"It plays {counted(settings['episodes'], 'episode')} in each world, without a measurement."
    )
    end = (
        f"The agent is {told} of {counted(len(rows), 'world')}. "
        "Level: the interval of the paired difference holds 0. "
        "Score 100 is the best of several long searches in a world that has references. "
        f"Elsewhere it is a search with {settings['budget']:,} evaluations."
    )
    columns = ["machine", "workload", "co-tenants", "learned on", "surrogate", "best rule", "ahead"]
    source = made(report, "benchmarks/results/generalist.json")
    return "\n\n".join([head, table(columns, rows), end, source])


def wanted(stored: Stored) -> str:
    """What is served where a share of the best is wanted, by one agent after the other."""
    reports = {name: stored[name] for name in _WANTED}
    settings = next(iter(reports.values()))["settings"]
    shares = list(dict.fromkeys(s for one in reports.values() for s in one["settings"]["shares"]))
    rows, told = [], []
    for report in reports.values():
        for cell in report["cells"]:
            name = f"`{report['settings']['agent']}`"
            if len(report["cells"]) > 1:
                name += f", training {cell['seed']}"
            curve = dict(zip(report["settings"]["shares"], cell["curve"], strict=True))
            shown = [
                f"{curve[share]['value']:.2f} {_within(curve[share])}".strip()
                if share in curve
                else ""
                for share in shares
            ]
            rows.append([name, *shown])
            ranks = cell["correlation"]
            told.append(
                f"Rank correlation of wanted and served from 0.3 to 1.1, {name}: "
                f"{ranks['value']:.2f} {_within(ranks)} over all episodes, "
                f"{ranks['of_means']:.2f} of the means. Within a share the episodes differ by "
                f"{_scatter(report, cell):.2f} (standard deviation, mean of the shares)."
            )
    head = (
        f"`{settings['task']}`, data of the tier `{settings['tier']}`, "
        f"{counted(settings['episodes'], 'episode')} of evaluation. "
        "All are shares of the best that long searches found in the same episode."
    )
    columns = ["wanted", *(f"{share:g}" for share in shares)]
    sources = [made(report, f"benchmarks/results/{name}") for name, report in reports.items()]
    return "\n\n".join([head, table(columns, rows), *told, *sources])


def _scatter(report: Mapping[str, Any], cell: Mapping[str, Any]) -> float:
    """By how much episodes that were asked for the same share differ; up to 1.1."""
    served = np.array(cell["served"]) / np.array(cell["best"])
    ranked = np.array(report["settings"]["shares"]) <= 1.1
    return float(served[ranked].std(axis=1).mean())


def ablation(stored: Stored) -> str:
    """The surrogate without single groups of inputs."""
    path = stored.folder / "ablation.jsonl"
    try:
        header, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    # The seeds of a group together, and what lacks nothing first.
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["without"], []).append(row["score"])
    mean = {group: sum(of) / len(of) for group, of in scores.items()}
    shown = [
        [group or "nothing", f"{value:.1f}", f"{mean[''] - value:+.1f}"]
        for group, value in mean.items()
    ]
    config: dict[str, Any] = header["config"]
    told = (
        f"`{header['task']}`, {header['data']} episodes of data, "
        f"{counted(header['episodes'], 'episode')} of evaluation, "
        f"{counted(len(scores['']), 'training')}. "
        f"{counted(config['members'], 'member')} of {config['updates']} updates."
    )
    return "\n\n".join(
        [
            told,
            table(["left out", "score", "lost by it"], shown),
            made(header, "benchmarks/results/ablation.jsonl"),
        ]
    )


def _within(found: dict[str, float | None]) -> str:
    low, high = found["low"], found["high"]
    return "" if low is None else f"[{low:.2f}, {high:.2f}]"


def _ends(found: dict[str, float]) -> tuple[float, float | None, float | None]:
    return found["value"], found["low"], found["high"]


BLOCKS = {
    "task-splits": task_splits,
    "method-ranges": method_ranges,
    "selection-curves": selection,
    "transfer": transfer,
    "generalist": generalist,
    "ablation": ablation,
    "wanted-returns": wanted,
}
