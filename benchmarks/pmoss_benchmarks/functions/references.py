"""What an episode is scored by: the best schedule that long searches find, and a bound above it.

Other studies read these rows with reference_rows(): score 0 is ``random``, score 100 is ``best``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.spatial.bound import LeastTimes, upper_bound
from pmoss_benchmarks.study.function import (
    Cell,
    Count,
    Progress,
    Row,
    Rows,
    Run,
    identity_of,
    silent,
)
from pmoss_benchmarks.study.store import file_of, header_to_go_on
from pmoss_benchmarks.study.tables import TableOfRows, grouped
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import Context, SearchResult, best_fit, local_search, lpt, random
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.result_files import ResultFile, read_rows
from pmoss_env.types import Schedule

#: Evaluations of all searches of an episode together.
LONG_BUDGET = 40_000
#: Seed of the evaluation: its episodes are in no dataset.
SEED = 101
#: Where searches start. Each gets an eighth of the budget; the best goes on with the other half.
STARTS = ("lpt", "best-fit", "random", "incumbent")
#: Streams of chance under an episode's seed: those of Judge.reference() and play() are below.
_STREAM = 10
#: A bound comes from a library's linear program.
TOLERANCES = {"bound": 1e-6}
#: The fields of a cell.
_KEYS = ("task", "episode")
#: Arguments of an environment that decide what is observed of an episode, and not which it is.
_OBSERVED = (
    *("noise", "counters", "observation", "order", "reward", "on_illegal", "measure_every"),
)


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        tasks: of spatial scheduling.
        episodes: of each task, from the first one.
        episodes_of: for each task named here, its own number.
        seed: of the evaluation.
        budget: evaluations of each episode's searches together, at least 24.
        random_schedules: whose mean is score 0.
    """

    AXES: ClassVar = ("tasks", "episodes", "episodes_of")

    tasks: tuple[str, ...]
    episodes: Count = 100
    episodes_of: dict[str, int] = field(default_factory=dict)
    seed: int = SEED
    budget: int = LONG_BUDGET
    random_schedules: Count = 100

    def __post_init__(self) -> None:
        for name in self.tasks:
            if load_task(name).domain != FIRST_DOMAIN:
                raise DescriptionError(f"{name}: references are for tasks of {FIRST_DOMAIN}")


def cells(settings: Settings) -> list[Cell]:
    """The episodes of each task."""
    return [
        {"task": task, "episode": episode}
        for task in settings.tasks
        for episode in range(settings.episodes_of.get(task, settings.episodes))
    ]


def world_of(env: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that decide an episode, without those that decide what is observed of it."""
    return {name: value for name, value in env.items() if name not in _OBSERVED}


class Work:
    """Makes the references of one episode after the other; environments of a task are kept."""

    def __init__(self, run: Run) -> None:
        self._settings, self._task = run.settings, ""
        self._env: Any = None
        self._judge: Any = None
        self._least: LeastTimes | None = None

    def __call__(self, cell: Cell) -> Row:
        """The row of an episode.

        Returns:
            ``env_seed``, of the environment's reset; ``random``, mean throughput of random legal
            schedules; ``best``, that of the searches; ``start``, where the best one started;
            ``evaluations`` of all; and ``bound``, None where none is known. Throughputs in Mq/s.
        """
        settings = self._settings
        self._begin(cell["task"])
        env_seed = episode_seed(settings.seed, cell["episode"])
        self._env.reset(seed=env_seed)
        self._judge.begin()
        low, _ = self._judge.reference(env_seed, 3, settings.random_schedules)
        best = long_search(self._env, self._judge.searchable, env_seed, settings.budget)
        bound = upper_bound(self._least, self._env.instance) if self._least else None
        return {"env_seed": env_seed, "random": low, **best, "bound": bound}

    def close(self) -> None:
        """Releases the environment."""
        if self._env is not None:
            self._judge.close()
            self._env.close()
        self._env = self._judge = self._least = None

    def _begin(self, task: str) -> None:
        if task == self._task:
            return
        self.close()
        domain = find_domain(FIRST_DOMAIN)
        self._env = domain.make_env(world_of(load_task(task).env))
        self._judge, self._task = domain.judge(self._env), task
        backend = self._env.backend
        try:
            self._least = LeastTimes(
                backend.machine, backend.workload, backend.slices, backend.load
            )
        except UnsupportedError:
            self._least = None


def long_search(env: Any, backend: Any, seed: int, budget: int) -> dict[str, Any]:
    """Searches an episode from several starts; the same seed gives the same bits.

    Args:
        env: in the episode, without noise.
        backend: of the same kind, set to the episode's instance; it can be asked move by move.
        budget: evaluations in all, at least 8 times 3.

    Returns:
        ``best``, ``start`` and ``evaluations`` of a row.
    """
    used = 0
    results: dict[str, SearchResult] = {}
    for number, start in enumerate(STARTS):
        context = env.context(np.random.default_rng((seed, _STREAM + number)), backend)
        results[start] = local_search(context, budget // 8, _begin(start, context))
        used += results[start].evaluations
    best = max(results, key=lambda name: results[name].throughput)
    context = env.context(np.random.default_rng((seed, _STREAM + len(STARTS))), backend)
    last = local_search(context, budget - used, results[best].schedule)
    # Fresh: what a backend tells after many moves may differ in the last bits.
    throughput = float(backend.place(last.schedule))
    return {"best": throughput, "start": best, "evaluations": used + last.evaluations}


def _begin(start: str, context: Context) -> Schedule:
    if start == "incumbent":
        assert context.incumbent is not None
        return context.incumbent
    return {"lpt": lpt, "best-fit": best_fit, "random": random}[start](context)


def reference_rows(
    results: Path,
    keep: Path,
    tasks: Sequence[str],
    episodes: int,
    *,
    budget: int = LONG_BUDGET,
    seed: int = SEED,
    progress: Progress = silent,
) -> dict[str, list[Row]]:
    """The rows of the first episodes of some tasks; those that are not stored are made and kept.

    Args:
        keep: folder of what a run keeps.
        budget: evaluations of each episode's searches.
        seed: of the evaluation.
        progress: called with (what, done, total) while rows are made.

    Raises:
        DatasetError: rows are damaged, or another command makes some now.
    """
    settings = Settings(tuple(tasks), episodes, budget=budget, seed=seed)
    identity = json.loads(json.dumps(identity_of(settings)))
    kept = keep / f"references-{budget}-{seed}.jsonl"
    rows: dict[tuple[str, int], Row] = {}
    for path in (kept, file_of(results, "references")):
        if path.exists():
            own_header, lines = read_rows(path)
            if own_header == header_to_go_on(path, "references", identity, _KEYS):
                rows |= {(line["task"], line["episode"]): line for line in lines if "task" in line}
    lacking = [cell for cell in cells(settings) if (cell["task"], cell["episode"]) not in rows]
    if lacking:
        run = Run(settings, keep, keep, results)
        header = header_to_go_on(kept, "references", identity, _KEYS)
        with ResultFile(kept, header, key=_KEYS) as file, closing(Work(run)) as work:
            for done, cell in enumerate(lacking):
                progress("references", done, len(lacking))
                rows[cell["task"], cell["episode"]] = file.append({**cell, **work(cell)})
    return {task: [rows[task, episode] for episode in range(episodes)] for task in tasks}


def reference_ends(
    run: Run, task: str, *, budget: int = LONG_BUDGET, progress: Progress = silent
) -> dict[int, tuple[float, float]]:
    """Throughputs of score 0 and 100 of a task's first episodes, by the environment's seed.

    Args:
        run: whose settings have ``episodes``.
    """
    rows = reference_rows(
        run.results, run.keep, [task], run.settings.episodes, budget=budget, progress=progress
    )
    return {row["env_seed"]: (row["random"], row["best"]) for row in rows[task]}


def _by_task(rows: Rows) -> TableOfRows:
    """Mean best and bound of each task, how far the bound lies above, and the best starts."""
    lines = []
    for task, own in grouped(rows, "task").items():
        bounded = [row for row in own if row["bound"] is not None]
        starts = Counter(row["start"] for row in own).most_common()
        lines.append(
            [
                f"`{task}`",
                str(len(own)),
                f"{fmean(row['best'] for row in own):.1f}",
                f"{fmean(row['bound'] for row in bounded):.1f}" if bounded else "unknown",
                f"{100 * gap_of(own)['mean']:.2f}" if bounded else "",
                ", ".join(f"{start} {count}" for start, count in starts),
            ]
        )
    heads = ["task", ">episodes", ">best, Mq/s", ">bound, Mq/s", ">gap, %", "best start"]
    return TableOfRows(heads, lines)


def gap_of(rows: Rows) -> dict[str, float]:
    """How far bounds lie above the best, as a share: ``mean`` and ``max``; empty without bounds."""
    gaps = [row["bound"] / row["best"] - 1 for row in rows if row["bound"] is not None]
    return {"mean": fmean(gaps), "max": max(gaps)} if gaps else {}


TABLES = {"default": _by_task}
