"""What schedules of stored episodes serve under a backlog: all queries, and the workload's mix.

Result files hold the throughput alone. The schedules are placed again from the recorded actions and
measured by the analytic model under each count of backlog.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pmoss_benchmarks.functions.backlog import OBJECTIVES, served_row
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import read_results
from pmoss_datasets.evaluation.results import EpisodeResult
from pmoss_env.backends import IncrementalBackend, make_backend
from pmoss_env.errors import DatasetError

#: Two models of one load differ by no more than this share.
_SAME = 1e-9


@dataclass(frozen=True)
class ServedCell:
    """One result file of episodes on the model."""

    file: str

    @property
    def name(self) -> str:
        """Decides the cell."""
        return self.file


def served_cells(paths: Sequence[Path]) -> list[ServedCell]:
    """A cell for each file; a folder stands for its result files in order.

    Raises:
        DatasetError: a folder without result files.
    """
    found = []
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise DatasetError(f"{path}: holds no result files (*.jsonl)")
        found += [ServedCell(file.as_posix()) for file in files]
    return found


def digests_of(cells: Sequence[ServedCell]) -> dict[str, Any]:
    """What a run over result files depends on: a digest of each, so that none goes on with another.

    Raises:
        DatasetError: one cannot be read.
    """
    found = {}
    for cell in cells:
        try:
            found[cell.file] = hashlib.sha256(Path(cell.file).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise DatasetError(f"{cell.file}: cannot be read: {error}") from error
    return {"files": found}


def served_by(cell: ServedCell) -> dict[str, Any]:
    """What the policies of a file serve.

    Returns:
        "machine", "workload" and "load" of its environment, and "rows": by policy, "episodes":
        for each episode "served", "mix" and "closed" in Mq/s and the "starved" share of slices.

    Raises:
        DatasetError: the file is damaged, its episodes are on no model, or one comes out different.
    """
    header, rows = read_results(Path(cell.file))
    domain = domain_of_env(header["env_id"])
    env = domain.make_env(header["env_kwargs"], header["env_id"])
    found: dict[str, list[dict[str, float]]] = {}
    with ExitStack() as stack:
        stack.callback(env.close)
        session = env.unwrapped.session
        if session.backend.name != "analytic":
            raise DatasetError(f"{cell.file}: its backend is {session.backend.name!r}, no model")
        asked = session.arguments
        models = {}
        for objective, load in OBJECTIVES.items():
            made = make_backend(
                "analytic",
                machine=session.machine,
                workload=session.backend.workload,
                slices=session.backend.slices,
                load=load,
            )
            models[objective] = cast(IncrementalBackend, stack.enter_context(closing(made)))
        for row in rows:
            played = domain.rerun(env, row.env_seed, row.actions)
            _check(cell, row, played.outcome)
            for model in models.values():
                model.set_instance(env.unwrapped.instance)
            found.setdefault(row.policy, []).append(
                served_row(models, env.unwrapped.schedule, seed=0)
            )
    return {
        "machine": session.machine.name,
        "workload": session.backend.workload.name,
        "load": asked.load,
        "rows": {policy: {"episodes": episodes} for policy, episodes in found.items()},
    }


def means_of(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Means over the episodes, by policy, of a result of served_by()."""
    return {
        policy: {
            name: float(np.mean([one[name] for one in row["episodes"]]))
            for name in row["episodes"][0]
        }
        for policy, row in result["rows"].items()
    }


def _check(cell: ServedCell, row: EpisodeResult, throughput: float) -> None:
    if not np.isclose(throughput, row.throughput, rtol=_SAME, atol=0):
        raise DatasetError(
            f"{cell.file}: {row.policy}, episode {row.episode}: recorded {row.throughput!r} Mq/s, "
            f"now {throughput!r}"
        )
