"""Scores 0 and 100 of evaluation episodes, made once by long searches and kept in files."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pmoss_benchmarks.cells import finish_cells
from pmoss_benchmarks.spatial.references.bound import LeastTimes, upper_bound
from pmoss_benchmarks.spatial.references.search import LONG_BUDGET, STARTS, long_search
from pmoss_datasets.checked import check
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from pmoss_env.files import read_json, write_atomically
from pmoss_env.provenance import provenance

#: Random schedules of score 0.
RANDOM_SCHEDULES = 100
#: Arguments of an environment that decide what is seen of an episode, and not which it is.
_SEEN = ("noise", "counters", "observation", "order", "reward", "on_illegal", "measure_every")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Reference:
    """One episode.

    Attributes:
        task: its task.
        seed: of the evaluation.
        episode: number within the seed.
        env_seed: of the environment's reset.
        random: mean throughput of random legal schedules: score 0, Mq/s.
        best: what the searches found: score 100, Mq/s.
        start: where the best search started.
        evaluations: of all searches.
        bound: no schedule serves more, Mq/s; None where no bound is known.
    """

    task: str
    seed: int
    episode: int
    env_seed: int
    random: float
    best: float
    start: str
    evaluations: int
    bound: float | None

    @property
    def gap(self) -> float | None:
        """How far the bound lies above the best, as a share of it."""
        return None if self.bound is None else self.bound / self.best - 1


@dataclass(frozen=True)
class ReferenceCell:
    """A part of an episode's reference that is to be made.

    Attributes:
        task: of the episode.
        seed: of the evaluation.
        episode: number within the seed.
        part: "search" or "bound".
    """

    task: str
    seed: int
    episode: int
    part: str

    @property
    def name(self) -> str:
        """E.g. "toy-btree-ycsb-a-busy-core/101/0/bound"."""
        return f"{self.task}/{self.seed}/{self.episode}/{self.part}"


class ReferenceWork:
    """Makes references in one process."""

    def __init__(self, budget: int) -> None:
        """Takes the evaluations that each episode gets."""
        self._budget = budget
        self._task = ""
        self._env: Any = None
        self._judge: Any = None
        self._least: LeastTimes | None = None

    def __call__(self, cell: ReferenceCell) -> dict[str, Any]:
        """The reference as plain JSON."""
        self._begin(cell.task)
        env_seed = episode_seed(cell.seed, cell.episode)
        env, judge = self._env, self._judge
        env.reset(seed=env_seed)
        judge.begin()
        if cell.part == "bound":
            return {"bound": self._bound()}
        low, _ = judge.reference(env_seed, 3, RANDOM_SCHEDULES)
        found = long_search(env, judge.searchable, env_seed, self._budget)
        told = asdict(found)
        return {"env_seed": env_seed, "random": low, "best": told.pop("throughput"), **told}

    def _bound(self) -> float | None:
        """Of the present episode, Mq/s; None where none is known."""
        backend = self._env.backend
        if self._least is None:
            try:
                self._least = LeastTimes(
                    backend.machine, backend.workload, backend.slices, backend.load
                )
            except UnsupportedError:
                return None
        return upper_bound(self._least, self._env.instance).throughput

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


def world_of(env: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that decide an episode, without those that decide what is seen of it."""
    return {name: value for name, value in env.items() if name not in _SEEN}


def references_path(folder: Path, task: str) -> Path:
    """The file of a task."""
    return folder / f"{task}.json"


def make_references(
    folder: Path,
    tasks: Sequence[str],
    seed: int,
    episodes: int,
    *,
    budget: int = LONG_BUDGET,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
) -> dict[str, list[Reference]]:
    """Makes the references that a folder lacks; those it has stay.

    Args:
        folder: of the files, one per task. The same call goes on after an interruption.
        tasks: of spatial scheduling.
        seed: of the evaluation.
        episodes: from the first one.
        budget: evaluations of each episode's searches.
        processes: worker processes.
        progress: called with (done, total).

    Raises:
        DatasetError: a file is damaged, or of another budget.
        DescriptionError: no task, or less than one episode.
        UnknownNameError: no such task.
    """
    if episodes < 1 or not tasks:
        raise DescriptionError(f"{episodes} episodes of {len(tasks)} tasks: nothing to do")
    settings = {"budget": budget, "starts": list(STARTS), "random_schedules": RANDOM_SCHEDULES}
    known: dict[str, dict[str, Any]] = {}
    for task in tasks:
        if load_task(task).domain != FIRST_DOMAIN:
            raise DescriptionError(f"{task}: references are for tasks of {FIRST_DOMAIN}")
        path = references_path(folder, task)
        if path.exists():
            for one in read_references(path, settings):
                known |= _parts(one)
    cells = [
        ReferenceCell(t, seed, e, part)
        for e in range(episodes)
        for t in tasks
        for part in ("search", "bound")
    ]
    if all(cell.name in known for cell in cells):
        # Nothing is written: another command may be adding other references meanwhile.
        return {task: _of_task(task, known) for task in tasks}
    kept = folder / "references.partial"
    results = finish_cells(
        partial(ReferenceWork, budget),
        cells,
        settings=settings,
        kept=kept,
        known=known,
        processes=processes,
        progress=progress,
    )
    found = {task: _of_task(task, results) for task in tasks}
    for task, mine in found.items():
        if any(name not in known for one in mine for name in _parts(one)):
            _write(references_path(folder, task), settings, mine)
    # Parts of other tasks stay, if an earlier call was stopped.
    if all(name.split("/")[0] in tasks for name in results):
        kept.unlink(missing_ok=True)
    return found


def _parts(one: Reference) -> dict[str, dict[str, Any]]:
    """The results of the cells that a reference is made of."""
    whole = asdict(one)
    names = (whole.pop(name) for name in ("task", "seed", "episode"))
    name = "/".join(map(str, names))
    return {f"{name}/bound": {"bound": whole.pop("bound")}, f"{name}/search": whole}


def _of_task(task: str, results: Mapping[str, Mapping[str, Any]]) -> list[Reference]:
    """The references of a task whose parts are all there, by seed and episode."""
    found = []
    for name, result in results.items():
        of, seed, episode, part = name.rsplit("/", 3)
        bound = results.get(f"{of}/{seed}/{episode}/bound")
        if of == task and part == "search" and bound is not None:
            found.append(Reference(task, int(seed), int(episode), **result, **bound))
    return sorted(found, key=lambda one: (one.seed, one.episode))


def _write(path: Path, settings: Mapping[str, Any], found: Sequence[Reference]) -> None:
    head = {
        **provenance(["pmoss_benchmarks.spatial.references"]),
        "task": found[0].task,
        "env": world_of(load_task(found[0].task).env),
        "settings": settings,
    }
    names = list(asdict(found[0]))[1:]
    rows = [[asdict(one)[name] for name in names] for one in found]
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1)[:-2]
    columns = json.dumps(names)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'{text},\n "columns": {columns},\n "episodes": [\n  {lines}\n ]\n}}\n')


def read_references(path: Path, settings: Mapping[str, Any] | None = None) -> list[Reference]:
    """The references of a file.

    Args:
        path: of the file.
        settings: it must have been made with; None: any.

    Raises:
        DatasetError: it cannot be read, or was made with other settings.
    """
    try:
        content = read_json(path)
        task, columns, rows = content["task"], content["columns"], content["episodes"]
        made = content["settings"]
        found = []
        for number, row in enumerate(rows):
            values = {"task": task, **dict(zip(columns, row, strict=True))}
            check(Reference, values, f"episode {number}: ")
            found.append(Reference(**values))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, DescriptionError) as error:
        raise DatasetError(f"{path}: is no file of references: {error}") from error
    if settings is not None and made != settings:
        raise DatasetError(
            f"{path}: was made with {made}, not {settings}: choose another folder, or remove it"
        )
    return found


def summary(task: str, found: Sequence[Reference]) -> tuple[str, ...]:
    """A row about a task: episodes, mean best and bound, mean gap, and the best starts."""
    bounds = [one.bound for one in found if one.bound is not None]
    gaps = [one.gap for one in found if one.gap is not None]
    starts = Counter(one.start for one in found).most_common()
    return (
        task,
        str(len(found)),
        f"{fmean(one.best for one in found):.1f}",
        f"{fmean(bounds):.1f}" if bounds else "unknown",
        f"{100 * fmean(gaps):.2f}" if gaps else "",
        ", ".join(f"{start} {count}" for start, count in starts),
    )


def recheck(path: Path, episodes: int = 1, progress: Progress | None = None) -> list[str]:
    """Makes some references of a file again and compares every bit.

    Args:
        path: of the file.
        episodes: how many, evenly spread over the file.
        progress: called with (done, total).

    Returns:
        One line for each value that came out different, and for each best above its bound.

    Raises:
        DatasetError: the file is damaged.
        DescriptionError: no episode is asked for.
    """
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    found = read_references(path)
    budget = read_json(path)["settings"]["budget"]
    wrong = [
        f"episode {one.episode}: best {one.best!r} lies above the bound {one.bound!r}"
        for one in found
        if one.bound is not None and one.best > one.bound
    ]
    count = min(episodes, len(found))
    work = ReferenceWork(budget)
    try:
        for number in range(count):
            one = found[number * len(found) // count]
            for part in ("search", "bound"):
                now = work(ReferenceCell(one.task, one.seed, one.episode, part))
                wrong += [
                    f"episode {one.episode}: {name}: recorded {getattr(one, name)!r}, now {value!r}"
                    for name, value in now.items()
                    if not _same(getattr(one, name), value, part)
                ]
            if progress is not None:
                progress(number + 1, count)
    finally:
        work.close()
    return wrong


def _same(recorded: Any, now: Any, part: str) -> bool:
    """Whether two values are equal; a bound comes from a library's linear program."""
    if part == "bound" and None not in (recorded, now):
        return math.isclose(recorded, now, rel_tol=1e-6)
    return bool(recorded == now)
