"""Planning in a learned model of throughput, and measuring what was planned.

The planner knows no more than the model's times of each slice on each core. It places the longest
slices first, relieves the fullest core by moves and exchanges, asks the model anew and repeats. It
counts on times that are longer where the members of the ensemble differ. It may also search on by
chance, and weigh a plan for cores that are all alike. The model says which plan is worth most.

Where it may measure, it runs its plan, corrects the times and plans again. The plan that it ends
with is the best by all that it measured, which is more than the noisy readings of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.balancing import balance, longest_first, refine
from pmoss_agents.spatial.corrections import Correction, corrected
from pmoss_agents.spatial.throughput_model import ELAPSED, QUERIES, Known, Member, Topology

#: Million per second: no counter of a slice comes near it.
_ABSURD = 1e15
#: Rounds of asking the model and balancing, after each measurement.
_ROUNDS = 2


class Planner:
    """Looks for the schedule of which an ensemble expects most.

    Attributes:
        shares: (S,) float64, of all queries.
    """

    shares: Array

    def __init__(
        self,
        members: Sequence[Member],
        topology: Topology,
        *,
        pessimism: float,
        rounds: int,
        most: int | None = None,
        tries: int = 0,
    ) -> None:
        """Makes a planner that saw nothing yet.

        Args:
            members: of the ensemble.
            topology: of the machine.
            pessimism: standard deviations that it adds to each time.
            rounds: of asking the model and balancing, for the first plan.
            most: slices that a core may get; None: any number.
            tries: of refine(), after each balancing of the first plan; with any, a plan for like
                cores is weighed.
        """
        self._members, self._topology = members, topology
        self._tries, self._rng = tries, np.random.default_rng(0)
        self._pessimism, self._rounds, self._most = pessimism, rounds, most
        self._known: list[Known] = []
        self._columns: list[Array] = []
        self._logs: list[Array] = []
        self._correction: Correction | None = None

    def saw(self, counters: Array, columns: Array) -> None:
        """Takes what a schedule measured: the latest one is what the members read.

        Args:
            counters: (S, H) of each slice; what no counter can show counts as 0.
            columns: (S,) the worker of each slice.
        """
        finite = np.nan_to_num(counters, posinf=0.0, neginf=0.0)
        possible = np.where((finite >= 0) & (finite < _ABSURD), finite, 0.0)
        known = np.ascontiguousarray(possible, dtype=np.float32)
        with torch.inference_mode():
            seen = torch.from_numpy(known).unsqueeze(0)
            self._known = [one.read(self._topology, seen, _batch(columns)) for one in self._members]
        self.shares = self._known[0].shares[0].double().numpy()
        elapsed, queries = (known[:, i].astype(np.float64) for i in (ELAPSED, QUERIES))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(elapsed / queries)
        self._columns.append(columns)
        self._logs.append(np.where(np.isfinite(logs), logs, np.nan))
        if len(self._logs) > 1:
            off = [
                log - self._asked(there[None])[0][:, 0].mean(0)
                for log, there in zip(self._logs, self._columns, strict=True)
            ]
            self._correction = corrected(off, self._columns, self._topology.node.numpy())

    def best(self, start: Array | None = None, rounds: int | None = None) -> Array:
        """Plans.

        Args:
            start: (S,) a schedule to improve; None: it begins anew.
            rounds: of asking the model and balancing; None: as for the first plan.

        Returns:
            (S,) the worker of each slice.
        """
        times = self.times(self._columns[-1] if start is None else start)
        first = longest_first(times, self._most) if start is None else start
        # A longer search in times that noisy measurements corrected finds their errors.
        tries = self._tries if start is None else 0
        plans = [self._balanced(times, first, tries)]
        for _ in range((rounds or self._rounds) - 1):
            times = 0.5 * (times + self.times(plans[-1]))
            plans.append(self._balanced(times, plans[-1], tries))
        if tries:
            # Where cores hardly differ, what is foretold of their differences is error, and to use
            # it costs more than it gains. Where one slice fills a core, no exchange mends that.
            alike = np.broadcast_to(times.mean(1, keepdims=True), times.shape)
            plans.append(longest_first(alike, self._most))
            plans.append(self._balanced(times, plans[-1], tries))
        return max(plans, key=self.worth)

    def _balanced(self, times: Array, start: Array, tries: int) -> Array:
        found = balance(times, start, most=self._most)
        return refine(times, found, tries, self._rng, most=self._most)

    def measured(self, measure: Callable[[Array], Array], budget: int) -> Array:
        """Measures plan after plan.

        Args:
            measure: runs a schedule, (S,) the worker of each slice; returns its (S, H) counters.
            budget: how often.

        Returns:
            (S,) the worker of each slice in the best schedule, by all that was measured.
        """
        seen: list[Array] = []
        plan = self.best()
        for _ in range(budget):
            counters = measure(plan)
            self.saw(counters, plan)
            seen.append(plan)
            plan = self.best(max(seen, key=self.worth), _ROUNDS)
        return max([*seen, plan], key=self.worth)

    def times(self, columns: Array) -> Array:
        """(S, W) float64: what each slice takes on each worker per query, with caution.

        Args:
            columns: (S,) where the other slices are.
        """
        there = _batch(columns)
        with torch.inference_mode():
            logs = torch.stack(
                [
                    member.everywhere(self._topology, known, there)
                    for member, known in zip(self._members, self._known, strict=True)
                ]
            )
            mean, variance = logs.double().mean(0), logs.double().var(0, correction=0)
        known = self._cautious(mean.numpy(), variance.numpy(), self._correction)
        result: Array = self.shares[:, None] * np.exp(known)
        return result

    def worth(self, columns: Array) -> float:
        """worths() of one schedule, (S,)."""
        return float(self.worths(columns[None])[0])

    def worths(self, columns: Array) -> Array:
        """(n,) float64: logarithms of the throughputs that schedules reach, with caution.

        Once something was measured they are those of the fullest core's time, of unknown scale.

        Args:
            columns: (n, S) the worker of each slice.
        """
        times, totals = self._asked(columns)
        if self._correction is None:
            foretold: Array = totals.mean(0) - self._pessimism * totals.std(0)
            return foretold
        at = np.arange(columns.shape[1]), columns
        correction = self._correction
        here = Correction(correction.shift[at], correction.variance[at], correction.left[at])
        logs = self._cautious(times.mean(0), times.var(0), here)
        workers = len(self._topology.tiles)
        busy = [
            np.bincount(one, self.shares * np.exp(log), workers)
            for one, log in zip(columns, logs, strict=True)
        ]
        # Nothing runs where no query was counted.
        worth: Array = -np.log(np.maximum(np.max(busy, axis=1), 1e-30))
        return worth

    def _cautious(self, mean: Array, variance: Array, correction: Correction | None) -> Array:
        if correction is not None:
            mean = mean + correction.shift
            variance = (variance + correction.variance) * correction.left
        result: Array = mean + self._pessimism * np.sqrt(variance)
        return result

    def _asked(self, columns: Array) -> tuple[Array, Array]:
        """(members, n, S) logarithms of times and (members, n) of throughputs, both float64."""
        chosen = torch.from_numpy(columns).long()
        with torch.inference_mode():
            asked = [
                member(self._topology, known.repeated(len(columns)), chosen)
                for member, known in zip(self._members, self._known, strict=True)
            ]
            times, totals = (torch.stack(parts).double() for parts in zip(*asked, strict=True))
        return times.numpy(), totals.numpy()


def _batch(columns: Array) -> Tensor:
    return torch.from_numpy(columns).long().unsqueeze(0)
