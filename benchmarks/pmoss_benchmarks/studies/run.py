"""Doing the cells of the studies, and writing down what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_benchmarks.cells import Progress, finish_cells
from pmoss_benchmarks.report import write_report
from pmoss_benchmarks.studies.causes import mesh_figures, scan_causes, thread_causes
from pmoss_benchmarks.studies.figures import (
    alpha_figures,
    gain_figures,
    reward_figures,
    weight_figures,
)
from pmoss_benchmarks.studies.plan import (
    FIGURES,
    STALE,
    SWITCHES,
    StudyCell,
    StudyOptions,
    distinct_vendors,
)
from pmoss_benchmarks.studies.seeing import Fresh, Seen, Stale, Without
from pmoss_benchmarks.studies.switches import switched
from pmoss_benchmarks.trained import trained
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.evaluation import (
    DEFAULT_ENV,
    EpisodeResult,
    Evaluation,
    evaluate,
    paired_difference,
    write_results,
)
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.suite import obtain

#: Episodes of the evaluation begin here: no dataset has them.
_EVALUATION = 101
_AGENT = "surrogate"
_RANDOM_SCHEDULES = 100
#: The summary's name in the folder of results.
SUMMARY = "summary.json"


class StudyWork:
    """Does the cells in one process."""

    def __init__(self, options: StudyOptions) -> None:
        self._options = options
        # Throughputs of score 0 and 100 by workload, then by the episode's seed.
        self._references: dict[str, dict[int, tuple[float, float]]] = {}

    def __call__(self, cell: StudyCell) -> dict[str, Any]:
        """The result of a cell: "rows" of its episodes, or "figures"."""
        options = self._options
        if cell.study in FIGURES:
            make: Mapping[str, Callable[[], dict[str, Any]]] = {
                "switches": lambda: switched(
                    SWITCHES[cell.case], 1 if SWITCHES[cell.case] else options.instances
                ),
                "thread-causes": lambda: thread_causes(cell.case, options.seeds),
                "scan-causes": lambda: scan_causes(cell.case),
                "mesh": mesh_figures,
                "alpha": lambda: alpha_figures(float(cell.case), options.seeds),
                "raw": lambda: reward_figures(cell.case, options.seeds),
                "gain": gain_figures,
                "weights": weight_figures,
            }
            return {"figures": make[cell.study]()}
        found = evaluate(
            {**options.env(cell.workload), "observation": "complete"},
            {cell.name: self._policy(cell)},
            [_EVALUATION],
            options.episodes,
            search_budget=options.budget,
            random_schedules=_RANDOM_SCHEDULES,
            references=self._references.setdefault(cell.workload, {}),
        )
        return {"rows": [asdict(row) for row in found.rows]}

    def close(self) -> None:
        """Nothing is held."""

    def _policy(self, cell: StudyCell) -> Policy:
        options, home = self._options, self._options.workload
        if cell.study == "rules":
            return SchedulePolicy(cell.case)
        if cell.study == "data":
            return self._agent([home], int(cell.case))
        if cell.study == "stale":
            return Stale(self._agent([home], options.usual), STALE[cell.case])
        if cell.study == "fresh":
            return Fresh(self._agent([home], options.usual), int(cell.case))
        if cell.study == "vendors":
            lost = distinct_vendors()[cell.case]
            return Without(self._agent([home], options.usual, lost), lost)
        workloads = {
            "zero-shot": [home],
            "trained anew": [cell.workload],
            "trained on both": [home, cell.workload],
        }
        return self._agent(workloads[cell.case], options.usual)

    def _agent(
        self, workloads: Sequence[str], episodes: int, lost: Sequence[str] = ()
    ) -> Surrogate:
        """A surrogate that learned from so many episodes of each workload; kept for other cells."""
        options = self._options
        if options.agent and (list(workloads), episodes, lost) == (
            [options.workload],
            options.usual,
            (),
        ):
            given = pmoss_agents.load(options.agent)
            assert isinstance(given, Surrogate)
            return given
        data: list[Dataset] = [Seen(self._data(name), episodes, lost) for name in workloads]
        config = {**read_config(_AGENT, data[0].metadata.id.split("/")[1]), **options.changes}
        config.pop("agent", None)
        path = trained(_AGENT, config, data, Path(options.folder) / "agents")
        kept = pmoss_agents.load(path, _AGENT)
        assert isinstance(kept, Surrogate)
        return kept

    def _data(self, workload: str) -> Dataset:
        """The dataset of a workload, as it lies there or made."""
        options = self._options
        count = max(options.sizes) if workload == options.workload else options.usual
        recipe = Recipe(
            env=options.env(workload), episodes=count, tier="mixed", reference_episodes=0
        )
        return obtain(recipe, Path(options.folder) / recipe.id)


def run_studies(
    options: StudyOptions,
    cells: Sequence[StudyCell],
    out: Path | None = None,
    progress: Progress = lambda done, total: None,
    processes: int = 1,
) -> dict[str, Any]:
    """Does the cells and returns the summary; with ``out`` it is written there, too.

    Args:
        options: what the answers depend on.
        cells: of study_cells().
        out: folder; every cell is kept in it as soon as it is done. The episodes of each
            workload go to a result file of its own.
        progress: called with (cells done, cells in all).
        processes: that do cells. Of the spatial studies each would train the agent that others
            train at the same time.

    Returns:
        "episodes": for each answer its ``study``, ``case``, ``workload``, mean ``score``, and how
        far it is ``over_rule`` and ``over_usual``, each with an interval; "figures" of the others.

    Raises:
        DatasetError: results of another run are in the way.
        MissingExtraError: torch, or scikit-learn for the weights, is not installed.
    """
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    results = finish_cells(
        partial(StudyWork, options),
        cells,
        settings=options.settings,
        kept=None if out is None else out / "cells.partial",
        progress=progress,
        processes=processes,
    )
    summary = summarise(options, cells, results)
    if out is not None:
        for workload in dict.fromkeys(cell.workload for cell in cells if cell.workload):
            mine = [cell for cell in cells if cell.workload == workload]
            rows = [row for cell in mine for row in _rows(results[cell.name])]
            write_results(
                out / f"{workload}.jsonl", _evaluation(options, workload, rows), compact=True
            )
        write_report(out / SUMMARY, [__name__], settings=options.settings, **summary)
        (out / "cells.partial").unlink(missing_ok=True)
    return summary


def summarise(
    options: StudyOptions, cells: Sequence[StudyCell], results: Mapping[str, Any]
) -> dict[str, Any]:
    """See run_studies()."""
    scores = {
        cell.name: np.array([[row.score for row in _rows(results[cell.name])]], dtype=np.float64)
        for cell in cells
        if cell.workload
    }
    usual = f"data, {options.usual}, {options.workload}"
    episodes = []
    for cell in cells:
        if not cell.workload:
            continue
        mine = scores[cell.name]
        rules = [c for c in cells if c.study == "rules" and c.workload == cell.workload]
        best = max(rules, key=lambda rule: float(scores[rule.name].mean()))
        found = {
            **asdict(cell),
            "score": asdict(paired_difference(mine)),
            "best_rule": best.case,
            "over_rule": asdict(paired_difference(mine - scores[best.name])),
        }
        if cell.workload == options.workload and usual in scores:
            found["over_usual"] = asdict(paired_difference(mine - scores[usual]))
        episodes.append(found)
    figures = [
        {"study": cell.study, "case": cell.case, **results[cell.name]["figures"]}
        for cell in cells
        if cell.study in FIGURES
    ]
    lost = {name: list(counters) for name, counters in distinct_vendors().items()}
    return {"episodes": episodes, "figures": figures, "lost": lost}


def _evaluation(options: StudyOptions, workload: str, rows: list[EpisodeResult]) -> Evaluation:
    env = {**options.env(workload), "observation": "complete"}
    return Evaluation(DEFAULT_ENV, env, options.budget, _RANDOM_SCHEDULES, rows)


def _rows(result: Mapping[str, Any]) -> list[EpisodeResult]:
    return [EpisodeResult(**{**row, "actions": tuple(row["actions"])}) for row in result["rows"]]
