"""What the searches share: a walk through schedules that counts its evaluations of the backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmoss_env.backends.base import IncrementalBackend, incremental
from pmoss_env.baselines.context import Context
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.types import HardwareSnapshot, Int32Array, Schedule

#: Evaluations of the backend that a search may use by default.
DEFAULT_BUDGET = 2000


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        schedule: the best schedule seen.
        throughput: its throughput by the backend, Mq/s.
        evaluations: calls of the backend used.
    """

    schedule: Schedule
    throughput: float
    evaluations: int


def searchable(context: Context, budget: int, what: str) -> IncrementalBackend:
    """The context's backend, if it can be searched with this budget.

    Raises:
        UnsupportedError: there is none, or it is not incremental.
        DescriptionError: a budget below 1.
    """
    backend = incremental(context.backend) if context.backend else None
    if backend is None:
        raise UnsupportedError(
            f"{what} needs a backend that can be asked after every move, such as 'analytic'"
        )
    if budget < 1:
        raise DescriptionError(f"budget = {budget}: must be at least 1")
    return backend


class Walk:
    """A search's current schedule, its throughput, and the evaluations used."""

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
        #: (nodes,) where the data of a slice go that moves to a core of each node.
        self.homes = np.arange(backend.machine.nodes, dtype=np.int32)

    def schedule(self) -> Schedule:
        """The current one."""
        return Schedule(self.cores, self.nodes)

    def result(self) -> SearchResult:
        """The current schedule as the search's result."""
        return SearchResult(self.schedule(), self.throughput, self.used)

    def measure(self) -> HardwareSnapshot:
        """Of the current schedule; one evaluation."""
        self.used += 1
        return self.backend.measure(self.schedule(), seed=0)

    def allows(self, steps: list[tuple[int, int]]) -> bool:
        """Whether the nodes have room for the data after some moves."""
        return self._allowed(self._after(steps).nodes)

    def attempt(
        self, steps: list[tuple[int, int]], accept: Callable[[float], bool] = lambda gain: gain > 0
    ) -> bool:
        """Makes moves (slice, core), and undoes them unless accepted; at most one call more.

        The data go to the core's node, or to what stands for it in ``homes``. Where that is full
        they stay if they may. What overfills a node is not tried.

        Args:
            steps: in this order.
            accept: gets the gain in Mq/s; by default only gains are kept.
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
        """Places a schedule, and goes back unless accepted; see attempt()."""
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
    """A random move or swap as moves (slice, core); empty where it would change nothing.

    Under a limit of slices per core only swaps are drawn.
    """
    a, b = (int(s) for s in context.rng.integers(context.slices, size=2))
    home = int(cores[a])
    if context.max_slices_per_core is None and context.rng.random() < 0.5:
        steps = [(a, int(context.rng.choice(context.machine.workers)))]
    else:
        steps = [(a, int(cores[b])), (b, home)]
    return steps if steps[0][1] != home else []
