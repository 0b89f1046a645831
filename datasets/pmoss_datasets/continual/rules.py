"""Rules of continual scheduling: they know the counters of the last epoch, and their own past."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmoss_datasets.continual.rounds import Move, RoundPolicy, moves_between
from pmoss_env.baselines import slice_load
from pmoss_env.baselines.best_fit import best_fit, predicted_times
from pmoss_env.baselines.kernel_like import balance_two_levels
from pmoss_env.baselines.search import promising_changes
from pmoss_env.types import Float64Array, Int32Array


class Stay(RoundPolicy):
    """Moves nothing."""

    def plan(self, cores: Int32Array) -> list[Move]:
        """None."""
        return []


class Interleave(RoundPolicy):
    """Slice after slice to the next worker, so that neighbours in the index are far apart."""

    def plan(self, cores: Int32Array) -> list[Move]:
        """What still lies elsewhere."""
        workers = self.env.machine.workers
        return moves_between(cores, workers[np.arange(cores.size) % workers.size])


class BestFit(RoundPolicy):
    """Best-fit by the counters of the last epoch; a wave of moves may take several epochs.

    Args:
        every: epochs between two decisions; 0: one decision, at the first epoch.
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._wanted: Int32Array | None = None

    def start(self) -> None:
        """See RoundPolicy."""
        self._wanted = None

    def plan(self, cores: Int32Array) -> list[Move]:
        """The heaviest slices first, of those that are not at their targets."""
        epoch = self.env.session.epoch
        if self._wanted is None or (self._every and epoch % self._every == 0):
            self._wanted = best_fit(self.env.context(self.rng)).cores
        load = slice_load(self.env.session.snapshot)
        return sorted(moves_between(cores, self._wanted), key=lambda move: -load[move[0]])


class KernelLike(RoundPolicy):
    """Balances in every epoch in the manner of an operating system: by thresholds, without a model.

    Between nodes first, then within them; see ``pmoss_env.baselines.kernel_like``.
    """

    def plan(self, cores: Int32Array) -> list[Move]:
        """What the rule would move; the heaviest slices first."""
        wanted = balance_two_levels(self.env.context(self.rng)).cores
        load = slice_load(self.env.session.snapshot)
        return sorted(moves_between(cores, wanted), key=lambda move: -load[move[0]])


class Repair(RoundPolicy):
    """Takes work off the fullest core while that pays, by times predicted from the counters.

    Args:
        gain: share of the fullest core's time that one move must save.
        act: imbalance from which it acts, as a share of what balanced cores would need.
        memory: weight of the latest epoch in the mean of the predicted times.
    """

    def __init__(self, gain: float = 0.01, act: float = 0.05, memory: float = 0.5) -> None:
        super().__init__()
        self._gain, self._act, self._memory = gain, act, memory
        self._times: Float64Array | None = None

    def start(self) -> None:
        """See RoundPolicy."""
        self._times = None

    def plan(self, cores: Int32Array) -> list[Move]:
        """Moves and swaps off the fullest core."""
        times, beside = self.predicted_times(), self.beside()
        workers = self.env.machine.workers
        place = np.searchsorted(workers, cores).astype(np.int32)
        moves = self._relieve(times, place, self.max_moves, beside)
        after = place.copy()
        for slice_, to in moves:
            after[slice_] = to
        # The fullest core is what holds the others up.
        fullest = [(_load(times, each) + beside).max() for each in (place, after)]
        self.expected = float(fullest[0] / fullest[1] - 1.0) if moves else None
        return [(slice_, int(workers[to])) for slice_, to in moves]

    def predicted_times(self) -> Float64Array:
        """(slices, workers) float64, what each slice should take of each worker's time per query.

        The mean of the last epochs, the latest counting most.
        """
        times = self.expected_times()
        if self._times is not None:
            times = self._memory * times + (1.0 - self._memory) * self._times
        self._times = times
        return times

    def expected_times(self) -> Float64Array:
        """(slices, workers) float64, those of the last epoch alone."""
        served = max(self.env.session.snapshot.throughput, 1e-9)
        times: Float64Array = predicted_times(self.env.context(self.rng)) / served
        return times

    def beside(self) -> Float64Array:
        """(workers,) float64, what each worker does per query for no slice: it stays where it is.

        On a real host a worker may route, too. On models there is nothing of the kind.
        """
        snapshot, workers = self.env.session.snapshot, self.env.machine.workers
        other_share = np.asarray(
            snapshot.provenance.get("worker_other_share", np.zeros(workers.size))
        )
        if snapshot.provenance.get("routers") == "workers":
            # All workers route, and one with less to do routes more: it goes where time is left.
            other_share = np.full(workers.size, other_share.mean())
        per_query: Float64Array = other_share / max(snapshot.throughput, 1e-9)
        return per_query

    def _relieve(
        self, times: Float64Array, place: Int32Array, most_moves: int, beside: Float64Array
    ) -> list[Move]:
        """Moves (slice, position of the worker); never the same slice twice.

        Args:
            times: (slices, workers) of each slice on each worker.
            place: (slices,) position of each slice's worker.
            beside: (workers,) of beside().
        """
        slices = times.shape[0]
        place = place.copy()
        load: Any = _load(times, place) + beside
        whole = np.maximum(times.sum(axis=0), 1e-12)
        balanced = (1.0 + (beside / whole).sum()) / (1.0 / whole).sum()
        if load.max() <= balanced * (1.0 + self._act):
            return []
        moves: list[Move] = []
        free = np.ones(slices, dtype=np.bool_)
        while len(moves) < most_moves:
            full = int(load.argmax())
            mine: Any = np.flatnonzero((place == full) & free)
            if not mine.size:
                break
            moved, swapped = _moved(times, load, mine, full), None
            best, steps = moved.min(), 1
            if len(moves) + 2 <= most_moves:
                others: Any = np.flatnonzero((place != full) & free)
                swapped = _swapped(times, load, mine, others, place[others], full)
                # A swap is two moves, and must save as much with each.
                if swapped.size and load[full] - swapped.min() > 2 * (load[full] - best):
                    best, steps = swapped.min(), 2
            if (load[full] - best) / load[full] / steps < max(self._gain, 1e-4):
                break
            if steps == 1 or swapped is None:
                i, j = np.unravel_index(moved.argmin(), moved.shape)
                pairs = [(int(mine[i]), int(j))]
            else:
                i, j = np.unravel_index(swapped.argmin(), swapped.shape)
                pairs = [(int(mine[i]), int(place[others[j]])), (int(others[j]), full)]
            for slice_, to in pairs:
                load[place[slice_]] -= times[slice_, place[slice_]]
                load[to] += times[slice_, to]
                place[slice_], free[slice_] = to, False
            moves += pairs
        return moves


def _load(times: Float64Array, place: Int32Array) -> Float64Array:
    """(workers,) of each slice's time on the worker that it is on."""
    slices, workers = times.shape
    own: Float64Array = times[np.arange(slices), place]
    total: Float64Array = np.bincount(place, own, workers).astype(np.float64)
    return total


def _moved(times: Float64Array, load: Float64Array, mine: Int32Array, full: int) -> Float64Array:
    """(mine, workers) the greater load of the two cores after each move."""
    left = load[full] - times[mine, full]
    after: Float64Array = np.maximum(load + times[mine], left[:, None])
    after[:, full] = np.inf
    return after


def _swapped(
    times: Float64Array,
    load: Float64Array,
    mine: Int32Array,
    others: Int32Array,
    at: Int32Array,
    full: int,
) -> Float64Array:
    """(mine, others) the greater load of the two cores after each swap."""
    source_load = load[full] - times[mine, full][:, None] + times[others, full]
    target_load = (load[at] - times[others, at]) + times[mine][:, at]
    after: Float64Array = np.maximum(source_load, target_load)
    return after


class Tries(RoundPolicy):
    """Local search whose every try is an epoch: a change is kept if its epoch served more.

    Args:
        margin: by what share an epoch must be better for its change to be kept.
    """

    def __init__(self, margin: float = 0.0) -> None:
        super().__init__()
        self._margin = margin
        self._kept: tuple[float, Int32Array] | None = None

    def start(self) -> None:
        """See RoundPolicy."""
        self._kept = None

    def plan(self, cores: Int32Array) -> list[Move]:
        """Back to what was better; else one of the most promising changes."""
        session = self.env.session
        reading = session.snapshot.throughput
        if self._kept is not None and reading < self._kept[0] * (1.0 + self._margin):
            back = moves_between(cores, self._kept[1])
            self._kept = None
            return back
        self._kept = (reading, cores.copy())
        changes = list(promising_changes(self.env.context(self.rng), cores, session.snapshot, 6))
        if not changes:
            self._kept = None
            return []
        return list(changes[int(self.rng.integers(len(changes)))])
