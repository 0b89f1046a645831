"""A backend that counts what it is asked, up to a budget: what a search is handed."""

from __future__ import annotations

import numpy as np

from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Float64Array, HardwareSnapshot, Instance, Schedule


class CountedBackend:
    """Counts every evaluation of a backend; the episode's instance cannot be read or changed.

    A placement, a move and a measurement are one evaluation. ``marginal`` is one for each worker.
    After close() it answers no more: the backend goes on to other episodes.
    """

    incremental = True

    def __init__(self, backend: IncrementalBackend, budget: int | None = None) -> None:
        """Takes a backend that is set to an episode's instance."""
        self._backend = backend
        self._evaluations, self._budget, self._closed = 0, budget, False
        self.name, self.method = backend.name, backend.method
        self.repeatable, self.measures_host = backend.repeatable, backend.measures_host
        self.step_cost = backend.step_cost
        self.machine, self.workload = backend.machine, backend.workload
        self.slices, self.load = backend.slices, backend.load
        self.co_tenant_families = backend.co_tenant_families

    @property
    def evaluations(self) -> int:
        """Number of evaluations so far."""
        return self._evaluations

    @property
    def budget(self) -> int | None:
        """Number of allowed evaluations; None: any number."""
        return self._budget

    def place(self, schedule: Schedule) -> float:
        """See IncrementalBackend; one evaluation."""
        self._count(1)
        return self._backend.place(schedule)

    def move(self, slice_: int, core: int) -> float:
        """See IncrementalBackend; one evaluation."""
        self._count(1)
        return self._backend.move(slice_, core)

    def marginal(self, slice_: int) -> Float64Array:
        """See IncrementalBackend; one evaluation for each worker."""
        self._count(int(np.asarray(self.machine.workers).size))
        return self._backend.marginal(slice_)

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """See Backend; one evaluation."""
        self._count(1)
        return self._backend.measure(schedule, seed=seed)

    def set_instance(self, instance: Instance) -> None:
        """Refuses: a search has the episode's instance.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a search has the instance of its episode, and no other one")

    def close(self) -> None:
        """Ends the search. The backend is its owner's and stays open."""
        self._closed = True

    def _count(self, evaluations: int) -> None:
        if self._closed:
            raise UnsupportedError("the episode of this search is over: each has its own model")
        asked = self._evaluations + evaluations
        if self._budget is not None and asked > self._budget:
            raise UnsupportedError(
                f"a search asks for evaluation {asked} of the model: its budget is {self._budget}"
            )
        self._evaluations = asked
