"""Blocks on how methods are tuned and chosen, and how they do on machines that they never met."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_agents.configs import read_ranges
from pmoss_benchmarks.texts.offline import side
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_datasets.suite import load_task, splits
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array

#: Results of `pmoss benchmark generalist`: of the tasks alone, and of made-up worlds beside them.
_GENERALISTS = ("generalist.json", "generalist-made-up.json")
#: What a track of that benchmark plays in, of worlds that are no task of the data.
_WORLDS = {
    "same-task": "tasks that its data lack",
    "unseen-workload": "other workloads",
    "unseen-distribution": "other distributions of keys",
    "unseen-machine": "other machines",
}


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
    kinds = [f"{settings['threaded']} with two threads per core"] if settings["threaded"] else []
    kinds += [f"{partly} with some cores' second threads"] if partly else []
    among = f"Among these are {' and '.join(kinds)}. " if kinds else ""
    told = (
        f"A checkpoint learned on the other machines and on "
        f"{made_up}. {among}Each gave {settings['data']} episodes. "
        f"It then met {counted(settings['episodes'], 'episode')} with co-tenants "
        f"`{settings['interference']}`. A number after a comma is of measurements."
    )
    columns = ["left out", *names, "surrogate, paired"]
    return "\n\n".join(
        [told, table(columns, rows), made(report, "benchmarks/results/transfer.json")]
    )


def generalist(stored: Stored) -> str:
    """One checkpoint in the worlds of its data and in others, without and with made-up worlds."""
    plain, more = (stored[name] for name in _GENERALISTS)
    settings = more["settings"]
    names = ("of the tasks", "of tasks and made-up worlds")
    rows: list[list[str]] = []
    kinds: dict[str, list[tuple[float, ...]]] = {}
    verdicts = {name: Counter[str]() for name in names}
    for cell, other in zip(plain["cells"], more["cells"], strict=True):
        policies, rule, env = cell["policies"], cell["best_rule"], cell["world"]
        assert env == other["world"]
        shown = []
        for name, one in zip(names, (cell, other), strict=True):
            ahead = one["policies"]["surrogate"]["over_rule"]
            verdicts[name][side(ahead)] += 1
            score = one["policies"]["surrogate"]["score"]["value"]
            shown += [f"{score:.1f}", interval(*_ends(ahead))]
        kind = "tasks of its data" if cell["learned"] else _WORLDS[cell["track"]]
        best = policies[rule]["score"]["value"]
        kinds.setdefault(kind, []).append(
            (best, *(one["policies"]["surrogate"]["score"]["value"] for one in (cell, other)))
        )
        rows.append(
            [
                env["machine"],
                env["workload"],
                env.get("interference", "none"),
                kind,
                f"{rule} {best:.1f}",
                *shown,
            ]
        )
    means = {kind: np.mean(scores, axis=0) for kind, scores in kinds.items()}
    tasks = counted(len(settings["learned_on"]), "task")
    head = (
        f"One checkpoint of `surrogate` learned from {tasks} together, from data of the tier "
        f"`{settings['tier']}`. Another also learned from {settings['made_up']} made-up worlds: "
        f"each is a machine of the generator with a workload and co-tenants, and gave "
        f"{settings['made_up_episodes']} episodes. "
        f"Each plays {counted(settings['episodes'], 'episode')} in a world, without a measurement. "
        "The best rule of a world is known only after all of them played there. "
        "Ahead: of that rule, paired."
    )
    told = [
        f"The checkpoint {name}: above the best rule in {of['above']}, level with it in "
        f"{of['level with']}, below it in {of['below']} worlds."
        for name, of in verdicts.items()
    ]
    end = (
        f"{' '.join(told)} Level: the interval of the paired difference holds 0. "
        "Score 100 is the best of several long searches in a world that has references. "
        f"Elsewhere it is a search with {settings['budget']:,} evaluations."
    )
    by_kind = table(
        ["kind of world", "worlds", "best rule of each", *names],
        [
            [kind, str(len(kinds[kind])), *(f"{mean:.1f}" for mean in of)]
            for kind, of in means.items()
        ],
    )
    compared = "\n".join(
        [
            "By the means of the kinds of world:\n",
            f"- ahead of the best rules, the checkpoint of the tasks: {_where(means, 1, 0)}",
            f"- behind them: {_where(means, 0, 1)}",
            f"- higher with made-up worlds: {_where(means, 2, 1)}",
            f"- lower with them: {_where(means, 1, 2)}",
        ]
    )
    columns = ["machine", "workload", "co-tenants", "kind of world", "best rule"]
    columns += [part for name in names for part in (name, "ahead")]
    sources = [
        made(report, f"benchmarks/results/{name}")
        for name, report in zip(_GENERALISTS, (plain, more), strict=True)
    ]
    return "\n\n".join(
        [head, by_kind, compared, "World by world:", table(columns, rows), end, *sources]
    )


def _where(means: Mapping[str, Float64Array], more: int, less: int) -> str:
    """The kinds of world where one column's mean is above another's."""
    return ", ".join(kind for kind, of in means.items() if of[more] > of[less]) or "none"


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


def _ends(found: dict[str, float]) -> tuple[float, float | None, float | None]:
    return found["value"], found["low"], found["high"]


BLOCKS = {
    "task-splits": task_splits,
    "method-ranges": method_ranges,
    "transfer": transfer,
    "generalist": generalist,
    "ablation": ablation,
}
