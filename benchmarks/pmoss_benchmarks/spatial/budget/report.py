"""Scores at every budget of measurements: summary, tables and picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.evaluation import paired_difference
from pmoss_benchmarks.provenance import provenance
from pmoss_benchmarks.report import markdown_row
from pmoss_benchmarks.spatial.budget.benchmark import Rows, cell_of
from pmoss_benchmarks.spatial.budget.work import BUDGETS, RULES, SEARCHES
from pmoss_benchmarks.spatial.references import Reference
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically
from pmoss_env.pictures import new_figure, write_png
from pmoss_env.types import Float64Array

#: What every policy is compared with at the same budget.
OPPONENT = "best-fit + search"


def summarise(
    rows: Mapping[str, Rows], references: Mapping[str, Sequence[Reference]]
) -> dict[str, Any]:
    """The figures of every task, noise and policy.

    Args:
        rows: by task, by the name of their cell.
        references: by task; episodes without one are left out.

    Raises:
        DatasetError: a row is of another episode than its reference.
    """
    return {
        task: _of_task(task, of_task, {one.episode: one for one in references[task]})
        for task, of_task in rows.items()
    }


def _of_task(task: str, rows: Rows, references: Mapping[int, Reference]) -> dict[str, Any]:
    cells = {name: cell_of(name) for name in rows}
    found: dict[str, Any] = {"gap": _gap(references), "noise": {}}
    for noise in sorted({cell.noise for cell in cells.values()}):
        names = [name for name, cell in cells.items() if cell.noise == noise]
        policies = list(dict.fromkeys(cells[name].policy for name in names))
        order = [*RULES, *SEARCHES]
        policies.sort(key=lambda p: order.index(p) if p in order else len(order))
        # The episodes that all played, so that every mean is of the same ones.
        played: dict[tuple[str, int], set[int]] = {}
        for name in names:
            run = cells[name].policy, cells[name].seed
            played.setdefault(run, set()).add(cells[name].episode)
        common = sorted(set(references).intersection(*played.values()))
        if not common:
            continue
        tables = {
            policy: _scores(task, policy, noise, rows, references, common, played)
            for policy in policies
        }
        throughput = {
            policy: _throughput(task, policy, noise, rows, common, played) for policy in policies
        }
        found["noise"][str(noise)] = {
            "episodes": len(common),
            "policies": {
                policy: {
                    "seeds": table.shape[0],
                    "score": [
                        asdict(paired_difference(table[:, :, b])) for b in range(len(BUDGETS))
                    ],
                    "ahead": [
                        asdict(paired_difference(table[:, :, b] - tables[OPPONENT][:, :, b]))
                        for b in range(len(BUDGETS))
                    ]
                    if OPPONENT in tables
                    else [],
                    "throughput": [float(v) for v in throughput[policy]],
                    "seconds": _seconds(policy, names, cells, rows),
                    "above": int((table[:, :, -1] > 100).sum()),
                }
                for policy, table in tables.items()
            },
        }
    return found


def _gap(references: Mapping[int, Reference]) -> dict[str, float] | None:
    """How far the bound lies above the best, in per cent: mean and largest."""
    gaps = [100 * one.gap for one in references.values() if one.gap is not None]
    return {"mean": float(np.mean(gaps)), "most": max(gaps)} if gaps else None


def _runs(
    task: str,
    policy: str,
    noise: float,
    rows: Rows,
    common: Sequence[int],
    played: Mapping[tuple[str, int], set[int]],
) -> list[list[dict[str, Any]]]:
    """The rows of every training seed, episode by episode."""
    seeds = sorted(seed for name, seed in played if name == policy)
    return [
        [rows[f"{task}/{policy}/{seed}/{noise}/{episode}"] for episode in common] for seed in seeds
    ]


def _throughput(
    task: str,
    policy: str,
    noise: float,
    rows: Rows,
    common: Sequence[int],
    played: Mapping[tuple[str, int], set[int]],
) -> Float64Array:
    """(budgets,) mean over seeds and episodes, Mq/s."""
    runs = _runs(task, policy, noise, rows, common, played)
    values = np.array([[_at_all(row["throughput"]) for row in run] for run in runs])
    return np.asarray(values.mean(axis=(0, 1)))


def _scores(
    task: str,
    policy: str,
    noise: float,
    rows: Rows,
    references: Mapping[int, Reference],
    common: Sequence[int],
    played: Mapping[tuple[str, int], set[int]],
) -> Float64Array:
    """(seeds, episodes, budgets) scores."""
    runs = _runs(task, policy, noise, rows, common, played)
    for run in runs:
        for row, episode in zip(run, common, strict=True):
            if row["env_seed"] != references[episode].env_seed:
                raise DatasetError(f"{task}: episode {episode}: is another one in the references")
    values = np.array([[_at_all(row["throughput"]) for row in run] for run in runs])
    low = np.array([references[episode].random for episode in common])[:, None]
    high = np.array([references[episode].best for episode in common])[:, None]
    return np.asarray(100 * (values - low) / (high - low))


def _at_all(values: Sequence[float]) -> list[float]:
    """One value per budget: what measures nothing has the same at each."""
    return list(values) if len(values) == len(BUDGETS) else [values[0]] * len(BUDGETS)


def _seconds(
    policy: str, names: Sequence[str], cells: Mapping[str, Any], rows: Rows
) -> list[float]:
    """Mean time of a policy beside its measurements, by budget, or of one plan."""
    mine = [rows[name]["seconds"] for name in names if cells[name].policy == policy]
    return [float(np.mean(values)) for values in zip(*mine, strict=True)]


def write_report(
    out: Path, rows: Mapping[str, Rows], references: Mapping[str, Sequence[Reference]]
) -> dict[str, Any]:
    """Writes ``README.md``, ``summary.json`` and ``budget.png``; returns the summary.

    Args:
        out: folder.
        rows: by task.
        references: by task.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    summary = {
        **provenance(["pmoss_benchmarks.spatial.budget", "pmoss_agents"]),
        "budgets": list(BUDGETS),
        "tasks": summarise(rows, references),
    }
    draw(summary, out / "budget.png")
    write_atomically(out / "README.md", as_markdown(summary))
    write_atomically(out / "summary.json", json.dumps(summary, indent=1) + "\n")
    return summary


def as_markdown(summary: Mapping[str, Any]) -> str:
    """The tables of a summary."""
    lines = [
        "# Scores at every budget of measurements",
        "",
        f"Made with pmoss-env {summary['version']} on {summary['machine']['cpu_model']}; the last "
        f"call was `{summary['command']}`.",
        "",
        "A budget counts evaluations of the episode's backend: schedules that ran, each read with "
        "the noise of hardware where the table says so. Scores are of the true throughput: 0 is "
        "the mean of random schedules, 100 the best of several long searches "
        "(`pmoss benchmark references`). Above 100 a policy passed these searches. Rules measure "
        "nothing beyond the incumbent. A search answers with the schedule of its best reading. "
        "Brackets: 95 % intervals of a bootstrap over the common episodes. `pmoss validate` runs "
        "the rows again.",
        "",
        "![Scores by evaluations](budget.png)",
    ]
    for task, of_task in summary["tasks"].items():
        lines += ["", f"## {task}", ""]
        if of_task["gap"]:
            lines.append(
                f"An upper bound lies {of_task['gap']['mean']:.2f} % above the best schedule on "
                f"average, and {of_task['gap']['most']:.2f} % at most."
            )
        for noise, found in of_task["noise"].items():
            lines += _tables(summary["budgets"], noise, found)
    lines += ["", "## Time", "", "Seconds that a plan takes beside its measurements.", ""]
    return "\n".join([*lines, *_times(summary)]) + "\n"


def _tables(budgets: Sequence[int], noise: str, found: Mapping[str, Any]) -> list[str]:
    words = "without noise" if float(noise) == 0 else f"noise {float(noise):g}"
    columns = ["policy", *(f"{budget}" for budget in budgets)]
    ruler = markdown_row(["---"] * len(columns))
    policies = found["policies"]
    lines = ["", f"Score, {words}, {found['episodes']} episodes, by evaluations:", ""]
    lines += [markdown_row(columns), ruler]
    for name, told in policies.items():
        lines.append(markdown_row([name, *(_spread(each) for each in told["score"])]))
    lines += ["", f"Mq/s, {words}:", "", markdown_row(columns), ruler]
    for name, told in policies.items():
        lines.append(markdown_row([name, *(f"{value:.1f}" for value in told["throughput"])]))
    others = {n: t for n, t in policies.items() if n != OPPONENT and t["ahead"]}
    if others:
        lines += ["", f"Points ahead of {OPPONENT} at the same budget, {words}:", ""]
        lines += [markdown_row(columns), ruler]
        for name, told in others.items():
            lines.append(markdown_row([name, *(_spread(each, "+") for each in told["ahead"])]))
    return lines


def _spread(told: Mapping[str, Any], sign: str = "") -> str:
    value = f"{told['value']:{sign}.1f}"
    return value if told["low"] is None else f"{value} [{told['low']:.1f}, {told['high']:.1f}]"


def _times(summary: Mapping[str, Any]) -> list[str]:
    """Rules and searches have one time; a search that of its largest budget."""
    columns = ["task", "policy", *(str(budget) for budget in summary["budgets"])]
    lines = [markdown_row(columns), markdown_row(["---"] * len(columns))]
    for task, of_task in summary["tasks"].items():
        for found in list(of_task["noise"].values())[:1]:
            for name, told in found["policies"].items():
                shown = [f"{value:.3f}" for value in told["seconds"]]
                left = [""] * (len(summary["budgets"]) - len(shown))
                cells = [*left, *shown] if name in SEARCHES else [*shown, *left]
                lines.append(markdown_row([task, name, *cells]))
    return lines


def draw(summary: Mapping[str, Any], path: Path) -> None:
    """Draws a panel for each task and noise: scores by evaluations.

    Args:
        summary: with ``tasks``.
        path: PNG file.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    panels = [
        (task, noise, found)
        for task, of_task in summary["tasks"].items()
        for noise, found in of_task["noise"].items()
    ]
    if not panels:
        return
    noises = list(dict.fromkeys(noise for _, noise, _ in panels))
    tasks = list(dict.fromkeys(task for task, _, _ in panels))
    figure = new_figure(4.2 * len(tasks), 3.2 * len(noises) + 0.5)
    axes = figure.subplots(len(noises), len(tasks), squeeze=False, sharex=True)
    places = range(len(summary["budgets"]))
    named: dict[str, Any] = {}
    for task, noise, found in panels:
        axis = axes[noises.index(noise)][tasks.index(task)]
        for number, (name, told) in enumerate(found["policies"].items()):
            if name == "random":
                continue
            values = [each["value"] for each in told["score"]]
            style = "--" if name in RULES else "o-"
            (named[name],) = axis.plot(places, values, style, color=f"C{number}", ms=3)
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_xticks(list(places), [str(budget) for budget in summary["budgets"]])
        axis.set_title(f"{task}, noise {float(noise):g}", fontsize=7)
        axis.set_ylim(bottom=40)
    for row in axes:
        row[0].set_ylabel("score")
    for axis in axes[-1]:
        axis.set_xlabel("evaluations")
    figure.legend(named.values(), named.keys(), fontsize=8, ncols=4, loc="outside lower center")
    write_png(figure, path)
