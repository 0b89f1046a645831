"""Which counters differ under a learned schedule: why it is faster (P-MOSS, section 7.2).

The episodes of a study of ``play`` are played again. The environment's backend measures their
schedules beside those of a baseline in the same episode.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from pmoss_agents.explaining.differences import Comparison
from pmoss_agents.explaining.measuring import Choice, explain
from pmoss_agents.explaining.rows import Row as RecordedRow
from pmoss_benchmarks.offline.episodes import play_again
from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_benchmarks.study.store import file_of, read_stored
from pmoss_datasets.domain import find_domain
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import find_baseline
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.types import COUNTER_NAMES, Float64Array

#: Two measurements of one schedule differ by no more than this share.
_SAME = 1e-9
#: Digits that are kept of what a core counts, for a picture.
_DIGITS = 4


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        study: of the function ``play``, whose rows are stored.
        track: of the study.
        tasks: of the study; of spatial scheduling.
        before: a baseline.
        after: policies of the study that are compared with it.
        episodes: the first so many.
    """

    AXES: ClassVar = ("tasks", "after")

    study: str
    track: str
    tasks: tuple[str, ...]
    after: tuple[str, ...]
    before: str = "os-default"
    episodes: int = 10

    def __post_init__(self) -> None:
        find_baseline(self.before, shared=True)
        if self.before in self.after:
            raise DescriptionError(f"{self.before} beside itself: name another one before or after")


def cells(settings: Settings) -> list[Cell]:
    """Every task and policy."""
    return [{"task": task, "after": name} for task, name in product(settings.tasks, settings.after)]


def measure(run: Run, cell: Cell) -> Row:
    """What is counted under both schedules.

    Returns:
        "machine", "workload" and "load" of the environment; "counters": the names of those that
        were counted. "measured": for each episode "throughput" in Mq/s and "per_query", by counter,
        each before and after. Of the first episode "nodes": the node of each worker; "cores": for
        each counter what the workers count, before and after, in million counts per second.

    Raises:
        DatasetError: the study holds too few episodes, or one comes out different.
    """
    settings, after = run.settings, cell["after"]
    stored = read_stored(file_of(run.results, settings.study))
    wanted = settings.track, cell["task"], after
    # Of several trainings the first.
    row = next((r for r in stored.rows if (r["track"], r["task"], r["policy"]) == wanted), None)
    played = {} if row is None else row.get("played", {})
    if row is None or len(played.get(after, {}).get("env_seed", ())) < settings.episodes:
        raise DatasetError(
            f"{stored.path}: has fewer than {settings.episodes} episodes of {wanted}"
        )
    domain = find_domain(load_task(cell["task"]).domain)
    baseline = find_baseline(settings.before, shared=True)
    compared: list[Comparison] = []
    for again in play_again(row, stored.settings["search_budget"], range(settings.episodes)):
        if again.policy != after:
            continue
        bare = again.env.unwrapped
        kwargs = domain.task_of(again.env)[0]
        seed = again.stored["env_seed"][again.number]
        recorded = RecordedRow(after, domain.env_id, kwargs, seed, actions=again.rollout.actions)
        choices: dict[str, Choice] = {settings.before: baseline, after: recorded}
        with closing(domain.make_env(kwargs)) as env:
            comparison = explain(env.unwrapped, seed, choices)
        now, then = comparison.after.snapshot.throughput, again.stored["throughput"][again.number]
        if not np.isclose(now, then, rtol=_SAME, atol=0):
            raise DatasetError(
                f"{stored.path}: {after}, episode {again.number}: stored {then!r} Mq/s, now {now!r}"
            )
        compared.append(comparison)
        session = bare.session
    machine = compared[0].machine
    available = np.flatnonzero(compared[0].before.snapshot.counters_available)
    names = [COUNTER_NAMES[at] for at in available]
    return {
        "machine": machine.name,
        "workload": session.backend.workload.name,
        "load": session.arguments.load,
        "counters": names,
        "measured": [
            {
                "throughput": [
                    one.before.snapshot.throughput,
                    one.after.snapshot.throughput,
                ],
                "per_query": [of[available].tolist() for of in _per_query(one)],
            }
            for one in compared
        ],
        "nodes": machine.node_of_core[machine.workers].tolist(),
        "cores": {
            name: [
                [float(f"{value:.{_DIGITS}g}") for value in of[machine.workers]]
                for of in compared[0].tables["core"].column(name)
            ]
            for name in names
        },
    }


def _per_query(one: Comparison) -> tuple[Float64Array, Float64Array]:
    return one.tables["machine"].column("per_query")
