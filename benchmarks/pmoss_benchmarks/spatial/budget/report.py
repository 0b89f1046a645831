"""Scores at every budget of measurements: summary, tables and picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.report import markdown_row
from pmoss_benchmarks.spatial.budget.benchmark import Rows, cell_of
from pmoss_benchmarks.spatial.budget.work import BUDGETS, RULES, SEARCHES
from pmoss_benchmarks.spatial.references import Reference
from pmoss_datasets.evaluation import paired_difference
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically
from pmoss_env.pictures import new_figure, write_png
from pmoss_env.provenance import provenance
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
        played: dict[tuple[str, int], set[int]] = {}
        for name in names:
            run = cells[name].policy, cells[name].seed
            played.setdefault(run, set()).add(cells[name].episode)
        if (OPPONENT, 0) not in played:
            continue

        def told(
            policy: str, noise: float = noise, played: Mapping[tuple[str, int], set[int]] = played
        ) -> dict[str, Any]:
            """Figures of a policy, of the episodes that all its seeds and the opponent played."""
            seeds = sorted(seed for name, seed in played if name == policy)
            both = [played[OPPONENT, 0], *(played[policy, seed] for seed in seeds)]
            common = sorted(set(references).intersection(*both))
            if not common:
                return {}
            runs = _Runs(rows, references, task, noise, common)
            mine, other = runs.scores(policy, seeds), runs.scores(OPPONENT, [0])
            budgets = range(mine.shape[2])
            return {
                "seeds": len(seeds),
                "episodes": len(common),
                "score": [asdict(paired_difference(mine[:, :, b])) for b in budgets],
                "ahead": [
                    asdict(paired_difference(mine[:, :, b] - other[:, :, b])) for b in budgets
                ],
                "throughput": runs.throughputs(policy, seeds).mean(axis=(0, 1)).tolist(),
                "seconds": runs.seconds(policy, seeds),
                "above": [int((mine[:, :, b] > 100).sum()) for b in budgets],
            }

        figures = {policy: told(policy) for policy in policies}
        figures = {policy: of for policy, of in figures.items() if of}
        if figures:
            episodes = figures[OPPONENT]["episodes"]
            found["noise"][str(noise)] = {"episodes": episodes, "policies": figures}
    return found


def _gap(references: Mapping[int, Reference]) -> dict[str, float] | None:
    """How far the bound lies above the best, in per cent: mean and largest."""
    gaps = [100 * one.gap for one in references.values() if one.gap is not None]
    return {"mean": float(np.mean(gaps)), "most": max(gaps)} if gaps else None


@dataclass(frozen=True)
class _Runs:
    """Rows of one task and noise.

    Attributes:
        rows: by the name of their cell.
        references: by episode.
        task: its name.
        noise: strength.
        episodes: that are looked at.
    """

    rows: Rows
    references: Mapping[int, Reference]
    task: str
    noise: float
    episodes: Sequence[int]

    def scores(self, policy: str, seeds: Sequence[int]) -> Float64Array:
        """(seeds, episodes, budgets) scores.

        Raises:
            DatasetError: a row is of another episode than its reference.
        """
        known = [self.references[episode] for episode in self.episodes]
        for run in self._of(policy, seeds):
            for row, one in zip(run, known, strict=True):
                if row["env_seed"] != one.env_seed:
                    raise DatasetError(
                        f"{self.task}: episode {one.episode}: is another one in the references"
                    )
        low = np.array([one.random for one in known])[:, None]
        high = np.array([one.best for one in known])[:, None]
        return np.asarray(100 * (self.throughputs(policy, seeds) - low) / (high - low))

    def throughputs(self, policy: str, seeds: Sequence[int]) -> Float64Array:
        """(seeds, episodes, budgets) Mq/s."""
        runs = self._of(policy, seeds)
        values = [[_at_all(row["throughput"]) for row in run] for run in runs]
        fewest = min(len(value) for run in values for value in run)
        return np.array([[value[:fewest] for value in run] for run in values])

    def seconds(self, policy: str, seeds: Sequence[int]) -> list[float]:
        """Mean time of a policy beside its measurements, by budget, or of one plan."""
        runs = [row["seconds"] for run in self._of(policy, seeds) for row in run]
        return [float(np.mean(values)) for values in zip(*runs, strict=False)]

    def _of(self, policy: str, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
        return [
            [self.rows[f"{self.task}/{policy}/{seed}/{self.noise}/{e}"] for e in self.episodes]
            for seed in seeds
        ]


def _at_all(values: Sequence[float]) -> list[float]:
    """One value per budget: what measures nothing has the same at each."""
    return list(values) if len(values) > 1 else [values[0]] * len(BUDGETS)


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
        fewer = told["episodes"] < found["episodes"]
        shown = f"{name} ({told['episodes']} episodes)" if fewer else name
        lines.append(_row(shown, budgets, [_spread(each) for each in told["score"]]))
    lines += ["", f"Mq/s, {words}:", "", markdown_row(columns), ruler]
    for name, told in policies.items():
        lines.append(_row(name, budgets, [f"{value:.1f}" for value in told["throughput"]]))
    passed = [
        f"{name} {told['above'][-1]} of {told['seeds'] * told['episodes']}"
        for name, told in policies.items()
        if told["above"][-1]
    ]
    if passed:
        lines += ["", f"Episodes above 100 at the largest budget: {', '.join(passed)}."]
    others = {n: t for n, t in policies.items() if n != OPPONENT and t["ahead"]}
    if others:
        lines += ["", f"Points ahead of {OPPONENT} at the same budget, {words}:", ""]
        lines += [markdown_row(columns), ruler]
        for name, told in others.items():
            lines.append(_row(name, budgets, [_spread(each, "+") for each in told["ahead"]]))
    return lines


def _row(name: str, budgets: Sequence[int], cells: Sequence[str]) -> str:
    """A row; the budgets that a policy did not get are empty."""
    return markdown_row([name, *cells, *[""] * (len(budgets) - len(cells))])


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
            (named[name],) = axis.plot(
                places[: len(values)], values, style, color=f"C{number}", ms=3
            )
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_xticks(list(places), [str(budget) for budget in summary["budgets"]])
        axis.set_title(f"{task}, noise {float(noise):g}", fontsize=7)
        axis.set_ylim(bottom=40)
    for row in axes:
        row[0].set_ylabel("score")
    for axis in axes[-1]:
        axis.set_xlabel("evaluations")
    columns = 2 * len(tasks)
    figure.legend(
        named.values(), named.keys(), fontsize=8, ncols=columns, loc="outside lower center"
    )
    write_png(figure, path)
