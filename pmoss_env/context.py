"""The information for policies that plan a whole episode at its beginning."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pmoss_env.backends.base import Backend
from pmoss_env.errors import ScheduleError
from pmoss_env.machines import Machine
from pmoss_env.measurements import Measurements
from pmoss_env.memory import check_memory, relocated, spilled
from pmoss_env.types import COUNTER_INDEX, HardwareSnapshot, Int32Array, Schedule


@dataclass(frozen=True)
class Context:
    """The information for a baseline, or for an agent that plans whole episodes.

    Attributes:
        machine: the server.
        slices: number of slices.
        incumbent: the current schedule; None before the first one.
        snapshot: of the incumbent.
        rng: source of randomness.
        backend: with the episode's instance; its current schedule may be changed.
        max_slices_per_core: the constraint; None: no limit.
        slices_of_node: (nodes,) limit of slices' data per node; None: no limit.
        chooses_node: whether the data of a slice may lie on another node than its core.
        order: (slices,) the slice placed at each step; None: the heaviest by slice_load() first.
        measurements: budget of measurements before the decision; None: no measurement.
    """

    machine: Machine
    slices: int
    incumbent: Schedule | None = None
    snapshot: HardwareSnapshot | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    backend: Backend | None = None
    max_slices_per_core: int | None = None
    order: Int32Array | None = None
    slices_of_node: Int32Array | None = None
    chooses_node: bool = False
    measurements: Measurements | None = None

    def local_schedule(self, cores: Int32Array) -> Schedule:
        """The schedule of ``cores`` with data on their nodes, as far as these have room.

        On a full node the slices with most queries stay. The data of the others go to the nearest
        node with room; if actions cannot choose nodes, the slices go with them.

        Args:
            cores: (slices,) the core of each slice.

        Raises:
            ScheduleError: the nodes with workers have no room for all slices.
        """
        if self.slices_of_node is None:
            return self.machine.local_schedule(cores)
        queries = np.zeros(self.slices)
        if self.snapshot is not None:
            queries = self.snapshot.slice_counters[:, COUNTER_INDEX["queries"]]
        if self.chooses_node:
            order = np.argsort(-queries, kind="stable").astype(np.int32)
            return spilled(self.machine, cores, self.slices_of_node, order)
        limit = self.max_slices_per_core
        return relocated(self.machine, cores, self.slices_of_node, queries, limit)

    def allows(self, schedule: Schedule) -> bool:
        """Whether an episode can end with a schedule."""
        limit = self.max_slices_per_core
        if limit is not None and int(np.bincount(schedule.cores).max()) > limit:
            return False
        if not self.chooses_node and (
            (self.machine.node_of_core[schedule.cores] != schedule.nodes).any()
        ):
            return False
        try:
            check_memory(self.machine, schedule, self.slices_of_node)
        except ScheduleError:
            return False
        return True
