"""A walk through schedules that counts its evaluations of the backend; shared by searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmoss_env.backends.base import IncrementalBackend, incremental
from pmoss_env.baselines.context import Context
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.types import HardwareSnapshot, Int32Array, Schedule

#: Default number of evaluations of a search.
DEFAULT_BUDGET = 2000


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
        schedule: the best schedule.
        throughput: its throughput on the backend, Mq/s.
        evaluations: number of evaluations of the backend.
    """

    schedule: Schedule
    throughput: float
    evaluations: int


def searchable(context: Context, budget: int, what: str) -> IncrementalBackend:
    """The context's backend for a search.

    Raises:
        UnsupportedError: there is none, or it is not incremental.
        DescriptionError: a budget below 1.
    """
    backend = incremental(context.backend) if context.backend else None
    if backend is None:
        raise UnsupportedError(
            f"{what} needs a backend that can be asked after every move, such as 'analytic': "
            "in the spatial environment context(rng, session.new_searchable_backend())"
        )
    if budget < 1:
        raise DescriptionError(f"budget = {budget}: must be at least 1")
    return backend


class Walk:
    """The current schedule of a search, its throughput, and the number of evaluations."""

    def __init__(
        self, backend: IncrementalBackend, starts: list[Schedule], context: Context
    ) -> None:
        """Begins at the best of the starts."""
        tried = [(backend.place(start), start) for start in starts]
        self.backend = backend
        self.used = len(tried)
        self.throughput, start = max(tried, key=lambda pair: pair[0])
        if start is not starts[-1]:
            backend.place(start)
            self.used += 1
        self.cores = start.cores.copy()
        self.nodes = start.nodes.copy()
        self._room, self._free = context.slices_of_node, context.chooses_node
        #: (nodes,) the node of the data of a slice that moves to a core of each node.
        self.homes = np.arange(backend.machine.nodes, dtype=np.int32)

    def schedule(self) -> Schedule:
        """The current schedule."""
        return Schedule(self.cores, self.nodes)

    def result(self) -> SearchResult:
        """The current schedule as the search's result."""
        return SearchResult(self.schedule(), self.throughput, self.used)

    def measure(self) -> HardwareSnapshot:
        """The snapshot of the current schedule; one evaluation."""
        self.used += 1
        return self.backend.measure(self.schedule(), seed=0)

    def allows(self, steps: list[tuple[int, int]]) -> bool:
        """Whether the nodes have room for the data after some moves."""
        return self._allowed(self._after(steps).nodes)

    def attempt(
        self, steps: list[tuple[int, int]], accept: Callable[[float], bool] = lambda gain: gain > 0
    ) -> bool:
        """Makes moves (slice, core) and undoes them unless accepted; undoing takes one more call.

        The data go to the core's node, or to its node in ``homes``. Data for a full node stay if
        they may. Moves that overfill a node are not tried.

        Args:
            steps: the moves in order.
            accept: function of the gain in Mq/s; by default it accepts only gains.
        """
        after = self._after(steps)
        if not self._allowed(after.nodes):
            return False
        throughput = self.throughput
        home = self.backend.machine.node_of_core
        if all(after.nodes[slice_] == home[core] for slice_, core in steps):
            for slice_, core in steps:
                throughput = self.backend.move(slice_, core)
            self.used += len(steps)
        else:
            throughput = self.backend.place(after)
            self.used += 1
        return self._settle(after, throughput, accept)

    def try_schedule(
        self, schedule: Schedule, accept: Callable[[float], bool] = lambda gain: gain > 0
    ) -> bool:
        """Places a schedule and undoes it unless accepted; see attempt()."""
        if not self._allowed(schedule.nodes):
            return False
        throughput = self.backend.place(schedule)
        self.used += 1
        return self._settle(schedule, throughput, accept)

    def _settle(self, after: Schedule, throughput: float, accept: Callable[[float], bool]) -> bool:
        if accept(throughput - self.throughput):
            self.throughput = throughput
            self.cores, self.nodes = after.cores.copy(), after.nodes.copy()
            return True
        self.backend.place(self.schedule())
        self.used += 1
        return False

    def _after(self, steps: list[tuple[int, int]]) -> Schedule:
        """The schedule after some moves."""
        cores, nodes = self.cores.copy(), self.nodes.copy()
        for slice_, core in steps:
            cores[slice_] = core
            nodes[slice_] = self.homes[self.backend.machine.node_of_core[core]]
        if self._free and not self._allowed(nodes):
            nodes = self.nodes
        return Schedule(cores, nodes)

    def _allowed(self, nodes: Int32Array) -> bool:
        if self._room is None:
            return True
        return bool((np.bincount(nodes, minlength=self._room.size) <= self._room).all())


def random_change(cores: Int32Array, context: Context) -> list[tuple[int, int]]:
    """A random move or swap as moves (slice, core); empty if it changes nothing.

    Under a limit of slices per core it is a swap.
    """
    a, b = (int(s) for s in context.rng.integers(context.slices, size=2))
    home = int(cores[a])
    if context.max_slices_per_core is None and context.rng.random() < 0.5:
        steps = [(a, int(context.rng.choice(context.machine.workers)))]
    else:
        steps = [(a, int(cores[b])), (b, home)]
    return steps if steps[0][1] != home else []
