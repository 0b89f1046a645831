"""What stored schedules serve under a backlog: all queries, and the workload's mix.

The episodes of a study of ``play`` are played again. The analytic model measures their schedules
under each load of the function ``backlog``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any, cast

import numpy as np

from pmoss_benchmarks.functions.backlog import OBJECTIVES, both, served_row
from pmoss_benchmarks.offline.episodes import OfStored, play_again
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, means
from pmoss_env.backends import IncrementalBackend, make_backend
from pmoss_env.errors import DatasetError

#: Two models of one load differ by no more than this share.
_SAME = 1e-9


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
                        objective: cast(
                            IncrementalBackend, stack.enter_context(closing(_model(session, load)))
                        )
                        for objective, load in OBJECTIVES.items()
                    }
                then = again.stored["throughput"][again.number]
                if not np.isclose(again.rollout.outcome, then, rtol=_SAME, atol=0):
                    raise DatasetError(
                        f"{stored.path}: {again.policy}, episode {again.number}: stored {then!r} "
                        f"Mq/s, now {again.rollout.outcome!r}"
                    )
                for model in models.values():
                    model.set_instance(again.env.unwrapped.instance)
                served.setdefault(again.policy, []).append(
                    served_row(models, again.env.unwrapped.schedule, seed=0)
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


def _by_server(rows: Rows) -> TableOfRows:
    """Means over the episodes of all queries served and the mix served."""
    means = [(row["machine"], means_of(row)) for row in rows]
    lines = [[server, *(both(of[policy]) for policy in _SHOWN)] for server, of in means]
    return TableOfRows(["server", *_SHOWN.values()], lines)


TABLES = {"default": _by_server}
