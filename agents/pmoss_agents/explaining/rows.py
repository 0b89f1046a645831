"""Schedules of result files: rows of `pmoss evaluate` and `pmoss run rollout`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.rollouts import is_rollout, read_rollouts
from pmoss_datasets.domain import check_offer, find_domain
from pmoss_datasets.evaluation import DEFAULT_ENV, episode_seed, read_results
from pmoss_env.backends.frames import unpack_schedule
from pmoss_env.baselines import SHARED_BASELINES, make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, UnknownNameError
from pmoss_env.types import Schedule


@dataclass(frozen=True)
class Row:
    """One episode of a result file.

    Attributes:
        actions: what the policy chose, of `pmoss evaluate`; else empty.
        cores: where the slices came to lie, of `pmoss run rollout`; else empty.
        shared: the schedule, where workers share slices, of `pmoss run rollout`; else None.
    """

    name: str
    env_id: str
    env_kwargs: Mapping[str, Any]
    env_seed: int
    actions: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    shared: Schedule | None = None

    def schedule(self, env: SpatialSchedulingEnv) -> Schedule:
        """The final schedule of the episode that ``env`` has just been reset to.

        Raises:
            DatasetError: it has more actions than the episode has steps.
        """
        if self.shared is not None:
            env.machine.check_schedule(self.shared, env.slices)
            return self.shared
        if self.name in SHARED_BASELINES and not self.actions and not self.cores:
            rule = make_baseline(self.name, shared=True)
            return rule(env.context(np.random.default_rng(0)))
        if self.cores:
            return env.machine.local_schedule(self.cores)
        if len(self.actions) > env.slices:
            raise DatasetError(
                f"{self.name}: {len(self.actions)} actions for an episode of {env.slices} slices"
            )
        for action in self.actions:
            env.step(action)
        return env.schedule


def names_row(word: str) -> bool:
    """Whether a word means a row, as read_row() takes it."""
    return ".jsonl:" in word


def read_row(word: str) -> Row:
    """The row that ``FILE.jsonl:ROW`` means.

    ROW is the number of its line, as `pmoss study replay` prints it, or the name of a policy, whose
    first row it is.

    Raises:
        DatasetError: the file cannot be read or is no result file.
    """
    stem, _, which = word.rpartition(".jsonl:")
    path = Path(f"{stem}.jsonl")
    rows = _rollout_rows(path) if is_rollout(path) else _evaluation_rows(path)
    for number, row in enumerate(rows, 2):
        if which in (str(number), row.name):
            return row
    names = [f"2 to {len(rows) + 1}", *dict.fromkeys(row.name for row in rows)]
    raise UnknownNameError(f"row of {path}", which, names)


def _evaluation_rows(path: Path) -> list[Row]:
    header, rows = read_results(path)
    return [
        Row(row.policy, header["env_id"], header["env_kwargs"], row.env_seed, actions=row.actions)
        for row in rows
    ]


def _rollout_rows(path: Path) -> list[Row]:
    header, rows = read_rollouts(path)
    check_offer(find_domain(header["domain"]), "schedules", f"explain {path}")
    result = []
    for number, row in enumerate(rows, 2):
        cores = row.get("cores")
        if not isinstance(cores, list) or not cores or {type(core) for core in cores} != {int}:
            raise DatasetError(f"{path}: line {number}: cores = {cores!r}: must be whole numbers")
        seed = episode_seed(header["seed"], row["episode"])
        episode = Row(row["policy"], DEFAULT_ENV, header["env"], seed, cores=tuple(cores))
        if "schedule" in row:
            try:
                episode = replace(episode, shared=unpack_schedule(row["schedule"]))
            except (TypeError, ValueError) as error:
                raise DatasetError(f"{path}: line {number}: schedule: {error}") from error
        result.append(episode)
    return result
