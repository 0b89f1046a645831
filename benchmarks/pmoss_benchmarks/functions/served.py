"""What stored schedules serve under a backlog: all queries, and the workload's mix.

Under a backlog, the P-MOSS paper's load (section 7.1), a worker always has queries of its own
slices. A schedule that starves slices of costly queries then serves more in all. The mix rate is
the least, over what has a queue, of the rate served over its share of the workload. The episodes
of a study of ``play`` are played again, and the analytic model measures their schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.episodes import OfStored, play_again
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, means, percent
from pmoss_env.backends import IncrementalBackend, make_backend
from pmoss_env.types import Float64Array, Schedule

#: What is measured of a schedule, and the load that says it.
_LOADS = {"mix": "saturated:mix", "closed": "closed"}
#: A slice is starved that is served at less than this part of its share of what is served.
STARVED = 0.5


Settings = OfStored


def cells(settings: Settings) -> list[Cell]:
    """The tasks."""
    return [{"task": task} for task in settings.tasks]


def measure(run: Run, cell: Cell) -> Row:
    """What the policies of a task serve.

    Returns:
        "machine", "workload" and "load" of its environment, and "rows": by policy, "episodes":
        for each episode "served", "mix" and "closed" in Mq/s and the "starved" share of slices.

    Raises:
        DatasetError: the study has no such rows, or an episode comes out different.
    """
    settings = run.settings
    stored = settings.read(run.results)
    served: dict[str, list[dict[str, float]]] = {}
    facts: dict[str, Any] = {}
    with ExitStack() as stack:
        models: dict[str, IncrementalBackend] = {}
        for row in settings.rows_of(stored, cell["task"]):
            for again in play_again(row, stored.settings["search_budget"]):
                session = again.env.unwrapped.session
                if not models:
                    facts = {
                        "machine": session.machine.name,
                        "workload": session.backend.workload.name,
                        "load": session.arguments.load,
                    }
                    models = {
                        name: stack.enter_context(closing(_model(session, load)))
                        for name, load in _LOADS.items()
                    }
                again.check(stored.path, again.rollout.outcome)
                for model in models.values():
                    model.set_instance(again.env.unwrapped.instance)
                served.setdefault(again.policy, []).append(
                    _served(models, again.env.unwrapped.schedule)
                )
    return {**facts, "rows": {policy: {"episodes": of} for policy, of in served.items()}}


def _model(session: Any, load: str) -> Any:
    return make_backend(
        "analytic",
        machine=session.machine,
        workload=session.backend.workload,
        slices=session.backend.slices,
        load=load,
    )


def _served(models: Mapping[str, IncrementalBackend], schedule: Schedule) -> dict[str, float]:
    """What a schedule serves, by models of _LOADS, Mq/s; and its starved share of slices."""
    closed, mix = (models[name].measure(schedule, seed=0) for name in ("closed", "mix"))
    # A closed load serves the mix as it is offered.
    offered = closed.slice_throughput / closed.slice_throughput.sum()
    return {
        "served": float(mix.slice_throughput.sum()),
        "mix": mix.throughput,
        "closed": closed.throughput,
        "starved": starved_share(mix.slice_throughput, offered),
    }


def starved_share(served: Float64Array, offered: Float64Array) -> float:
    """Share of the slices that get less than STARVED of their share of what is served.

    Args:
        served: (slices,) rate of each slice.
        offered: (slices,) its share of the workload; slices without any do not count.
    """
    asked = offered > 0
    given = served[asked] / served.sum() / offered[asked]
    return float(np.mean(given < STARVED))


#: Whose schedules are shown, and how they are called.
_SHOWN = {
    "surrogate": "`surrogate`",
    "decision-transformer": "Decision Transformer",
    "random": "Random",
    "grouped": "Grouped",
    "lpt": "`lpt`",
    "local-search": "search",
}


def means_of(row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Means over the episodes, by policy, of a row."""
    return {policy: means(of["episodes"]) for policy, of in row["rows"].items()}


def _both(row: Mapping[str, float]) -> str:
    """All queries served / the mix served, and the share of starved slices."""
    return f"{row['served']:.0f} / {row['mix']:.0f}, {percent(row['starved'])}"


def _by_server(rows: Rows) -> TableOfRows:
    """Means over the episodes of all queries served and the mix served."""
    means = [(row["machine"], means_of(row)) for row in rows]
    lines = [[server, *(_both(of[policy]) for policy in _SHOWN)] for server, of in means]
    return TableOfRows(["server", *_SHOWN.values()], lines)


TABLES = {"default": _by_server}
