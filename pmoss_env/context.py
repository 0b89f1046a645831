"""What whoever plans a whole episode at its beginning may look at."""

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
    """What a baseline, or an agent that plans whole episodes, may look at.

    Attributes:
        machine: where the slices go.
        slices: how many there are.
        incumbent: the schedule that runs now; None where nothing runs yet.
        snapshot: what the incumbent measures.
        rng: the only source of chance.
        backend: set to the episode's instance; its current schedule may be changed.
        max_slices_per_core: the constraint of this name, None without.
        slices_of_node: (nodes,) how many slices' data each node may hold; None: no limit.
        chooses_node: whether the data of a slice may lie elsewhere than on its core's node.
        order: (slices,) the slice placed at each step; None: the heaviest by slice_load() first.
        measurements: schedules that may be run before the decision; None: not one.
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

        The slices with most queries stay where they are wanted. The data of the others go to the
        next node with room, or the slices do where an action cannot choose the node.

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
        """Whether a schedule is one that an episode can end with."""
        most = self.max_slices_per_core
        if most is not None and int(np.bincount(schedule.cores).max()) > most:
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
