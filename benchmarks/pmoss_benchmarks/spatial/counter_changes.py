"""Which counters differ under a learned schedule: why it is faster (P-MOSS, section 7.2).

Result files hold the throughput alone. The schedules are placed again from the recorded actions.
The environment's backend measures them beside a baseline in the same episode.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.explaining.differences import Comparison
from pmoss_agents.explaining.measuring import Choice, explain
from pmoss_agents.explaining.rows import Row
from pmoss_datasets.domain import check_offer, domain_of_env
from pmoss_datasets.evaluation import read_results
from pmoss_env.baselines import find_baseline
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.types import COUNTER_NAMES, Float64Array

#: Two measurements of one schedule differ by no more than this share.
_SAME = 1e-9
#: Digits that are kept of what a core counts, for a picture.
_DIGITS = 4


@dataclass(frozen=True)
class ChangesCell:
    """A policy of a result file beside a baseline, in its first episodes."""

    file: str
    before: str
    after: str
    episodes: int

    @property
    def name(self) -> str:
        """Decides the cell."""
        return f"{self.file}/{self.before}/{self.after}/{self.episodes}"


def changes_cells(
    files: Sequence[str], before: str, after: Sequence[str], episodes: int
) -> list[ChangesCell]:
    """A cell for each file and policy, each once.

    Raises:
        UnknownNameError: there is no such baseline.
        DescriptionError: it is to be compared with itself.
    """
    find_baseline(before, shared=True)
    if before in after:
        raise DescriptionError(f"{before} beside itself: name another one before or after")
    # The same file may be named in two ways.
    once = {os.path.realpath(file): file for file in reversed(files)}
    files = [file for file in dict.fromkeys(files) if once[os.path.realpath(file)] == file]
    return [
        ChangesCell(file, before, policy, episodes)
        for file in files
        for policy in dict.fromkeys(after)
    ]


def changes_by(cell: ChangesCell) -> dict[str, Any]:
    """What is counted under both schedules.

    Returns:
        "machine", "workload" and "load" of its environment; "counters": the names of those that
        were counted. "measured": for each episode "throughput" in Mq/s and "per_query", by counter,
        each before and after. Of the first episode "nodes": the node of each worker; "cores": for
        each counter what the workers count, before and after, in million counts per second.

    Raises:
        DatasetError: the file is damaged or holds too few episodes, or one comes out different.
        UnknownNameError: the file holds no such policy.
        UnsupportedError: the file's episodes place no slices.
    """
    header, rows = read_results(Path(cell.file))
    domain = domain_of_env(header["env_id"])
    check_offer(domain, "schedules", f"counters of {cell.file}")
    own = [row for row in rows if row.policy == cell.after]
    if not own:
        raise UnknownNameError(f"policy of {cell.file}", cell.after, {row.policy for row in rows})
    # Of several trainings the first.
    of_episode = {row.episode: row for row in own if row.seed == min(one.seed for one in own)}
    own = [of_episode[episode] for episode in sorted(of_episode)][: cell.episodes]
    if len(own) < cell.episodes:
        raise DatasetError(
            f"{cell.file}: {cell.after} has {len(own)} episodes, {cell.episodes} were asked for"
        )
    baseline = find_baseline(cell.before, shared=True)
    found: list[Comparison] = []
    with closing(domain.make_env(header["env_kwargs"], header["env_id"])) as env:
        session = env.unwrapped.session
        for row in own:
            recorded = Row(
                row.policy,
                header["env_id"],
                header["env_kwargs"],
                row.env_seed,
                actions=row.actions,
            )
            choices: dict[str, Choice] = {cell.before: baseline, cell.after: recorded}
            one = explain(env.unwrapped, row.env_seed, choices)
            now = one.after.snapshot.throughput
            if not np.isclose(now, row.throughput, rtol=_SAME, atol=0):
                raise DatasetError(
                    f"{cell.file}: {row.policy}, episode {row.episode}: recorded "
                    f"{row.throughput!r} Mq/s, now {now!r}"
                )
            found.append(one)
    machine = found[0].machine
    counted = np.flatnonzero(found[0].before.snapshot.counters_available)
    names = [COUNTER_NAMES[at] for at in counted]
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
                "per_query": [of[counted].tolist() for of in _per_query(one)],
            }
            for one in found
        ],
        "nodes": machine.node_of_core[machine.workers].tolist(),
        "cores": {
            name: [
                [float(f"{value:.{_DIGITS}g}") for value in of[machine.workers]]
                for of in found[0].tables["core"].column(name)
            ]
            for name in names
        },
    }


def _per_query(one: Comparison) -> tuple[Float64Array, Float64Array]:
    return one.tables["machine"].column("per_query")
