"""A backend that counts what it is asked, up to a budget: what a search is handed."""

from __future__ import annotations

import numpy as np

from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Float64Array, HardwareSnapshot, Instance, Schedule


class CountedBackend:
    """Counts every evaluation of a backend; the episode's instance cannot be read or changed.

    A placement, a move and a measurement are one evaluation. ``marginal`` is one for each worker.

    Attributes:
        evaluations: so far.
        budget: how many are allowed; None: any number.
    """

    incremental = True

    def __init__(self, backend: IncrementalBackend, budget: int | None = None) -> None:
        """Takes a backend that is set to an episode's instance."""
        self._backend = backend
        self.evaluations, self.budget = 0, budget
        self.name, self.method = backend.name, backend.method
        self.repeatable, self.measures_host = backend.repeatable, backend.measures_host
        self.step_cost = backend.step_cost
        self.machine, self.workload = backend.machine, backend.workload
        self.slices, self.load = backend.slices, backend.load
        self.co_tenant_families = backend.co_tenant_families

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
        """Nothing: the backend is its owner's."""

    def _count(self, evaluations: int) -> None:
        if self.budget is not None and self.evaluations + evaluations > self.budget:
            asked = self.evaluations + evaluations
            raise UnsupportedError(
                f"a search asks for evaluation {asked} of the model: its budget is {self.budget}"
            )
        self.evaluations += evaluations
