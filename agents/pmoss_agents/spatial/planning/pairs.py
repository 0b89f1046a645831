"""Schedules that ran, two by two: what models of throughput learn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.planning.model import ELAPSED
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_datasets import Dataset
from pmoss_env.errors import DatasetError


class PairBatch(NamedTuple):
    """P incumbents, and the schedules that ran after them.

    Attributes:
        before: (P, S, H) counters of each slice under the incumbent, million per second.
        incumbent: (P, S) the worker of each slice in it.
        columns: (P, S) the worker of each slice in the schedule after it.
        after: (P, S, H) counters under that schedule.
        throughput: (P,) of that schedule, Mq/s.
    """

    before: Tensor
    incumbent: Tensor
    columns: Tensor
    after: Tensor
    throughput: Tensor


class Pairs:
    """The schedules before and after each episode of a dataset, in both directions.

    Attributes:
        machine: on which they ran.
        topology: of the machine.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Reads a dataset.

        Raises:
            DatasetError: it lacks the counters before or after an episode, or no schedule keeps to
                the machine's workers.
        """
        self.machine = machine = dataset.machine
        self.topology = Topology(machine)
        self.counters, self.columns, self.throughput = [], [], []
        for when in ("incumbent", "final"):
            read = dataset.column(f"{when}_counters").astype(np.float32)
            counters = np.nan_to_num(read, posinf=0.0, neginf=0.0)
            if not (counters[..., ELAPSED] > 0).any(axis=1).all():
                raise DatasetError(
                    f"{dataset.path}: {when}_counters: elapsed_us is 0 in a whole episode: a "
                    "surrogate learns from the counters before and after an episode"
                )
            self.counters.append(torch.from_numpy(counters))
            columns = self.topology.column[machine.tile_of_core[dataset.column(f"{when}_cores")]]
            self.columns.append(torch.from_numpy(columns).long())
            self.throughput.append(torch.tensor(dataset.column(f"{when}_throughput")).float())
        # A core that is no worker's has no column: such schedules of others teach nothing.
        usable = [(columns >= 0).all(1) for columns in self.columns]
        self._rows = torch.nonzero(usable[0] & usable[1]).squeeze(1).numpy()
        if not self._rows.size:
            raise DatasetError(f"{dataset.path}: no schedule keeps to the machine's workers")

    def samples(self) -> Tensor:
        """(n, H) counters of slices under all incumbents."""
        return self.counters[0][self._rows].flatten(0, 1)

    def batch(self, rng: np.random.Generator, size: int) -> PairBatch:
        """Pairs that are drawn, each in one of both directions."""
        rows = torch.from_numpy(rng.choice(self._rows, size))
        forward = torch.from_numpy(rng.random(size) < 0.5)

        def chosen(parts: list[Tensor], first: bool) -> Tensor:
            mask = (forward if first else ~forward).reshape(-1, *[1] * (parts[0].ndim - 1))
            return torch.where(mask, parts[0][rows], parts[1][rows])

        return PairBatch(
            chosen(self.counters, True),
            chosen(self.columns, True),
            chosen(self.columns, False),
            chosen(self.counters, False),
            chosen(self.throughput, False),
        )
