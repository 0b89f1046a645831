"""Planning in a learned model of throughput, and measuring what was planned.

The planner uses no more than the model's times of each slice on each core. It places the longest
slices first, relieves the fullest core by moves and exchanges, asks the model anew and repeats. It
counts on times that are longer where the members of the ensemble differ. It may also search on at
random, and weigh a plan for cores that are all alike. The model says which plan is worth most.

Where it may measure, it runs its plan, corrects the times and plans again. The plan that it ends
with is the best by all that it measured, which is more than the noisy readings of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.planning.balancing import balance, longest_first, refine
from pmoss_agents.spatial.planning.model import (
    ELAPSED,
    QUERIES,
    Reading,
    ThroughputModel,
)
from pmoss_agents.spatial.planning.topology import Topology

#: Million per second: no counter of a slice comes near it.
_ABSURD = 1e15
#: Rounds of asking the model and balancing, after each measurement.
_ROUNDS = 2
#: Standard deviation of a measured logarithm of time.
NOISE = 0.022
#: Those of the parts of an error before anything is measured: machine, node, core, slice and pair.
SPREADS = (0.2, 0.1, 0.1, 0.03, 0.04)
#: Schedules that the model weighs at a look: for other prices of nodes, and with a few changes.
_PRICED, _CHANGED = 24, 8
#: Standard deviation of a price's logarithm at first.
_PRICE_SPREAD = 0.3
#: Rounds of backfitting.
_FITS = 30


@dataclass(frozen=True)
class Correction:
    """What to add to predicted logarithms of times.

    Attributes:
        shift: (slices, cores) to be added.
        variance: (slices, cores) of the shift's error.
        left: (slices, cores) the share of a model's own uncertainty that is left: 1 for a pair that
            was never measured.
    """

    shift: Array
    variance: Array
    left: Array


def fit_correction(errors: Sequence[Array], columns: Sequence[Array], nodes: Array) -> Correction:
    """Learns from measured schedules how far a model's times are off.

    The error of a slice's logarithm of time is split into five parts: of the machine, the node, the
    core, the slice, and the pair of slice and core. Each part is drawn towards 0. So a core that
    was never used shares what is learned of its node. This is a Bayesian linear model with an
    indicator as each feature; backfitting finds its mean (Hastie and Tibshirani, Generalized
    Additive Models, 1986).

    Args:
        errors: for each schedule (slices,) measured less predicted logarithms; NaN: not measured.
        columns: for each schedule (slices,) the core of each slice.
        nodes: (cores,) the node of each core.
    """
    cores, slices = nodes.size, errors[0].size
    every = np.concatenate(errors)
    measured = np.isfinite(every)
    left = every[measured]
    core = np.concatenate(columns)[measured]
    slice_ = np.tile(np.arange(slices), len(errors))[measured]
    groups = (
        (np.zeros_like(core), 1),
        (nodes[core], int(nodes.max()) + 1),
        (core, cores),
        (slice_, slices),
        (slice_ * cores + core, slices * cores),
    )
    effects, counts = [], []
    for (group, size), spread in zip(groups, SPREADS, strict=True):
        effects.append(np.zeros(size))
        counts.append(np.bincount(group, minlength=size) + (NOISE / spread) ** 2)
    for _ in range(_FITS):
        for (group, size), effect, count in zip(groups, effects, counts, strict=True):
            left = left + effect[group]
            effect[:] = np.bincount(group, left, size) / count
            left = left - effect[group]
    machine, node, of_core, of_slice, pair = effects
    _, for_node, for_core, for_slice, for_pair = (NOISE**2 / count for count in counts)
    return Correction(
        (machine + node[nodes] + of_core) + of_slice[:, None] + pair.reshape(slices, cores),
        (for_node[nodes] + for_core) + for_slice[:, None] + SPREADS[-1] ** 2,
        for_pair.reshape(slices, cores) / SPREADS[-1] ** 2,
    )


def cleaned(counters: Array) -> Array:
    """Counters as contiguous float32; an impossible value counts as 0."""
    # A comparison with NaN is false.
    counted = np.where((counters >= 0) & (counters < _ABSURD), counters, 0.0)
    return np.ascontiguousarray(counted, dtype=np.float32)


class Planner:
    """Looks for the schedule of which an ensemble expects most.

    Attributes:
        shares: (S,) float64, of all queries.
    """

    shares: Array

    def __init__(
        self,
        members: Sequence[ThroughputModel],
        topology: Topology,
        *,
        pessimism: float,
        rounds: int,
        max_per_core: int | None = None,
        tries: int = 0,
        looks: int = 0,
    ) -> None:
        """Makes a planner; observe() comes before all else.

        Args:
            pessimism: standard deviations that it adds to each time.
            rounds: of asking the model and balancing, for the first plan.
            max_per_core: slices that a core may get; None: any number.
            tries: of refine(), after each balancing of the first plan; with any, a plan for like
                cores is weighed.
            looks: rounds of changes that the model itself weighs, after the first plan; see
                _searched().
        """
        self._looks = looks
        self._members, self._topology = members, topology
        self._tries, self._rng = tries, np.random.default_rng(0)
        self._pessimism, self._rounds, self._max_per_core = pessimism, rounds, max_per_core
        self._readings: list[Reading] = []
        self._columns: list[Array] = []
        self._logs: list[Array] = []
        self._correction: Correction | None = None
        self._times: dict[bytes, Array] = {}  # of times(), by schedule; since observe()

    def observe(self, counters: Array, columns: Array) -> None:
        """Takes what was measured under a schedule: the latest one is what the members read.

        Args:
            counters: (S, H) of each slice, million per second; an impossible value counts as 0.
                Without a single query slices count alike.
            columns: (S,) the worker of each slice.
        """
        counters = cleaned(counters)
        self._times.clear()
        with torch.inference_mode():
            rows = torch.from_numpy(counters).unsqueeze(0), _batch(columns)
            self._readings = [member.read(self._topology, *rows) for member in self._members]
            if not counters[:, QUERIES].any():  # or all of them would go to one core
                alike = torch.full_like(self._readings[0].shares, 1 / len(columns))
                self._readings = [replace(reading, shares=alike) for reading in self._readings]
        self.shares = self._readings[0].shares[0].double().numpy()
        elapsed, queries = (counters[:, i].astype(np.float64) for i in (ELAPSED, QUERIES))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(elapsed / queries)
        self._columns.append(columns)
        self._logs.append(np.where(np.isfinite(logs), logs, np.nan))
        if len(self._logs) > 1:
            errors = [
                log - self._predicted(schedule[None])[0][:, 0].mean(0)
                for log, schedule in zip(self._logs, self._columns, strict=True)
            ]
            self._correction = fit_correction(errors, self._columns, self._topology.node.numpy())

    def plan(self, start: Array | None = None, rounds: int | None = None) -> Array:
        """Plans.

        Args:
            start: (S,) a schedule to improve; None: it begins anew.
            rounds: of asking the model and balancing; None: as for the first plan.

        Returns:
            (S,) the worker of each slice.
        """
        times = self.times(self._columns[-1] if start is None else start)
        first = longest_first(times, self._max_per_core) if start is None else start
        # A longer search in times that noisy measurements corrected finds their errors.
        tries = self._tries if start is None else 0
        plans = [self._balanced(times, first, tries)]
        for _ in range((rounds or self._rounds) - 1):
            times = 0.5 * (times + self.times(plans[-1]))
            plans.append(self._balanced(times, plans[-1], tries))
        if tries:
            # Where cores hardly differ, what is predicted of their differences is error, and to use
            # it costs more than it gains. Where one slice fills a core, no exchange mends that.
            alike = np.broadcast_to(times.mean(1, keepdims=True), times.shape)
            plans.append(longest_first(alike, self._max_per_core))
            plans.append(self._balanced(times, plans[-1], tries))
        best = max(plans, key=self.worth)
        return self._searched(best) if start is None else best

    def _searched(self, best: Array) -> Array:
        """Looks for changes of a plan that the model expects more of.

        Times are those of a slice while the others stay. So balancing cannot see that a hot slice
        is faster on a node that others leave. Here the model is asked about whole schedules: most
        are balanced for times that are dearer on some nodes, the others differ in a few slices.
        """
        times, prices = self.times(best), np.zeros(self._topology.workers)
        (top,), (load,) = self._weighed([best])
        spread = _PRICE_SPREAD
        for _ in range(self._looks):
            priced = [self._priced(times, prices, spread, best) for _ in range(_PRICED)]
            plans = [plan for plan, _ in priced] + self._changed(best, load)
            worths, loads = self._weighed(plans)
            chosen = int(worths.argmax())
            if worths[chosen] > top:
                best, top, load = plans[chosen], worths[chosen], loads[chosen]
                prices = priced[chosen][1] if chosen < len(priced) else prices
            else:
                spread *= 0.8
        return best

    def _priced(
        self, times: Array, prices: Array, spread: float, best: Array
    ) -> tuple[Array, Array]:
        """(S,) a plan for other prices than (W,) logarithms of today's, and these prices."""
        rng, nodes = self._rng, self._topology.node.numpy()
        step = spread * rng.standard_normal(nodes.max() + 1)[nodes]
        if rng.random() < 0.3:  # of one node only
            step[nodes != rng.integers(nodes.max() + 1)] = 0.0
        prices = prices + step
        dear, limit = times * np.exp(prices), self._max_per_core
        start = best if rng.random() < 0.5 else longest_first(dear, limit)
        return balance(dear, start, max_per_core=limit), prices

    def _changed(self, best: Array, load: Array) -> list[Array]:
        """Plans in which slices leave the node of the fullest core, or that core's change."""
        rng, nodes, workers = self._rng, self._topology.node.numpy(), self._topology.workers
        full, idle = int(load.argmax()), np.argsort(load)[: max(4, workers // 3)]
        mine = np.flatnonzero(best == full)
        beside = np.flatnonzero((nodes == nodes[full])[best] & (best != full))
        far = idle[nodes[idle] != nodes[full]]
        plans = []
        for draw in rng.random(_CHANGED):
            plan = best.copy()
            if draw < 0.6 and beside.size and far.size:
                size = min(beside.size, int(rng.choice([1, 2, 4, 8])))
                plan[rng.choice(beside, size, replace=False)] = rng.choice(far, size)
            elif draw < 0.8 and mine.size:
                plan[rng.choice(mine)] = rng.choice(idle)
            else:
                other = int(rng.integers(workers))
                plan[best == full], plan[best == other] = other, full
            if np.bincount(plan, minlength=workers).max() <= (self._max_per_core or len(best)):
                plans.append(plan)
        return plans

    def _balanced(self, times: Array, start: Array, tries: int) -> Array:
        limit = self._max_per_core
        balanced = balance(times, start, max_per_core=limit)
        return refine(times, balanced, tries, self._rng, max_per_core=limit)

    def plan_measuring(self, measure: Callable[[Array], Array], budget: int) -> Array:
        """Measures plan after plan.

        Args:
            measure: runs a schedule, (S,) the worker of each slice; returns its (S, H) counters.

        Returns:
            (S,) the worker of each slice in the best schedule, by all that was measured.
        """
        measured: list[Array] = []
        plan = self.plan()
        for _ in range(budget):
            counters = measure(plan)
            self.observe(counters, plan)
            measured.append(plan)
            plan = self.plan(max(measured, key=self.worth), _ROUNDS)
        return max([*measured, plan], key=self.worth)

    def times(self, columns: Array) -> Array:
        """(S, W) float64: what each slice takes on each worker per query, with caution.

        Args:
            columns: (S,) where the other slices are.
        """
        key = columns.astype(np.int64).tobytes()
        if key not in self._times:
            self._times[key] = self._times_of(_batch(columns))
        return self._times[key]

    def _times_of(self, schedule: Tensor) -> Array:
        with torch.inference_mode():
            logs = torch.stack(
                [
                    member.everywhere(self._topology, reading, schedule)
                    for member, reading in zip(self._members, self._readings, strict=True)
                ]
            )
            mean, variance = logs.double().mean(0), logs.double().var(0, correction=0)
        cautious = self._cautious(mean.numpy(), variance.numpy(), self._correction)
        times: Array = self.shares[:, None] * np.exp(cautious)
        return times

    def worth(self, columns: Array) -> float:
        """worths() of one schedule, (S,)."""
        return float(self.worths(columns[None])[0])

    def worths(self, columns: Array) -> Array:
        """(n,) float64: logarithms of the throughputs that schedules reach, with caution.

        Once something was measured they are those of the fullest core's time, of unknown scale.

        Args:
            columns: (n, S) the worker of each slice.
        """
        times, totals = self._predicted(columns)
        if self._correction is None:
            cautious: Array = totals.mean(0) - self._pessimism * totals.std(0)
            return cautious
        pairs = np.arange(columns.shape[1]), columns
        correction = Correction(*(part[pairs] for part in vars(self._correction).values()))
        logs = self._cautious(times.mean(0), times.var(0), correction)
        workers = len(self._topology.tiles)
        busy = [
            np.bincount(schedule, self.shares * np.exp(log), workers)
            for schedule, log in zip(columns, logs, strict=True)
        ]
        # Nothing runs where no query was counted.
        worth: Array = -np.log(np.maximum(np.max(busy, axis=1), 1e-30))
        return worth

    def _weighed(self, plans: Sequence[Array]) -> tuple[Array, Array]:
        """worths() before anything is measured, up to rounding, but faster; and loads.

        Returns:
            (n,) float64, and (n, W) microseconds that each worker is busy per query of the machine.
        """
        # Other prices may lead to the same plan.
        places = {plan.tobytes(): place for place, plan in enumerate(plans)}
        different = [plans[place] for place in places.values()]
        chosen = torch.from_numpy(np.stack(different)).long()
        with torch.inference_mode():
            predictions = [
                member.several(self._topology, reading, chosen)
                for member, reading in zip(self._members, self._readings, strict=True)
            ]
            logs, totals = (torch.stack(part) for part in zip(*predictions, strict=True))
            worths = totals.mean(0) - self._pessimism * totals.std(0, correction=0)
            busy = self.shares * logs.double().mean(0).exp().numpy()
        workers = self._topology.workers
        loads = [np.bincount(*each, workers) for each in zip(different, busy, strict=True)]
        row_of = {plan: row for row, plan in enumerate(places)}
        rows = [row_of[plan.tobytes()] for plan in plans]
        return worths.double().numpy()[rows], np.stack(loads)[rows]

    def _cautious(self, mean: Array, variance: Array, correction: Correction | None) -> Array:
        if correction is not None:
            mean = mean + correction.shift
            variance = (variance + correction.variance) * correction.left
        cautious: Array = mean + self._pessimism * np.sqrt(variance)
        return cautious

    def _predicted(self, columns: Array) -> tuple[Array, Array]:
        """(members, n, S) logarithms of times and (members, n) of throughputs, both float64."""
        chosen = torch.from_numpy(columns).long()
        with torch.inference_mode():
            predictions = [
                member(self._topology, reading.repeated(len(columns)), chosen)
                for member, reading in zip(self._members, self._readings, strict=True)
            ]
            times, totals = (torch.stack(p).double() for p in zip(*predictions, strict=True))
        return times.numpy(), totals.numpy()


def _batch(columns: Array) -> Tensor:
    return torch.from_numpy(columns).long().unsqueeze(0)
