"""Schedules of result files: rows of `pmoss evaluate` and `pmoss rollout`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_datasets.domain import check_offer, find_domain
from pmoss_datasets.evaluation import DEFAULT_ENV, episode_seed, read_results
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, UnknownNameError
from pmoss_env.files import MAX_JSON_BYTES, open_regular, parse_json, read_text
from pmoss_env.types import Schedule


@dataclass(frozen=True)
class Row:
    """One episode of a result file.

    Attributes:
        name: the policy's.
        env_id: of the environment.
        env_kwargs: its arguments.
        env_seed: of its reset.
        actions: what the policy chose, of `pmoss evaluate`; else empty.
        cores: where the slices came to lie, of `pmoss rollout`; else empty.
    """

    name: str
    env_id: str
    env_kwargs: Mapping[str, Any]
    env_seed: int
    actions: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()

    def schedule(self, env: SpatialSchedulingEnv) -> Schedule:
        """The final schedule of the episode that ``env`` has just been reset to.

        Raises:
            DatasetError: it has more actions than the episode has steps.
        """
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

    ROW is the number of its line, as `pmoss validate` tells it, or the name of a policy, whose
    first row it is.

    Raises:
        DatasetError: the file cannot be read or is no result file.
        UnknownNameError: it holds no such row.
    """
    stem, _, which = word.rpartition(".jsonl:")
    path = Path(f"{stem}.jsonl")
    try:
        with os.fdopen(open_regular(path), encoding="utf-8") as file:
            first = parse_json(file.readline(MAX_JSON_BYTES))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    kept = isinstance(first, dict) and first.get("kind") == "rollout"
    rows = _rollout_rows(path) if kept else _evaluation_rows(path)
    for number, row in enumerate(rows, 2):
        if which in (str(number), row.name):
            return row
    known = [f"2 to {len(rows) + 1}", *dict.fromkeys(row.name for row in rows)]
    raise UnknownNameError(f"row of {path}", which, known)


def _evaluation_rows(path: Path) -> list[Row]:
    header, rows = read_results(path)
    return [
        Row(row.policy, header["env_id"], header["env_kwargs"], row.env_seed, actions=row.actions)
        for row in rows
    ]


def _rollout_rows(path: Path) -> list[Row]:
    lines = read_text(path).splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            if number == 1:
                check_offer(
                    find_domain(row.get("domain", FIRST_DOMAIN)), "schedules", f"explain {path}"
                )
                kwargs, seed = dict(row["env"]), int(row["seed"])
                continue
            found.append(
                Row(
                    str(row["policy"]),
                    DEFAULT_ENV,
                    kwargs,
                    episode_seed(seed, int(row["episode"])),
                    cores=tuple(int(core) for core in row["cores"]),
                )
            )
            if not found[-1].cores:
                raise ValueError("cores: is empty")
        except (ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{path}: line {number}: is no row of a rollout: {error}") from error
    return found
