"""A thorough search for a round of moves: it estimates all changes, and evaluates the best few.

The search of planners takes the first change that helps. Where few moves are allowed, that wastes
them. This one estimates every move and swap of the cores that limit most, in all worlds at once. It
asks the model about the best few of them, and keeps the one that gains most for each move.

An estimate takes a core's load for what limits: the throughput goes with a high norm of all loads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pmoss_datasets.continual.rounds import Move
from pmoss_datasets.continual.worlds import World
from pmoss_env.types import Float64Array, Int32Array

#: Cores that are relieved, the most limiting first.
_SOURCES = 3
#: Changes that are asked at once, and how often, until one of them helps.
_ASKED, _TIMES = 6, 2
#: The norm is that of the power 2 ** this.
_SQUARES = 4
#: What a move within a node costs, of one between nodes.
_NEAR = 0.25
#: A gain below this share is none.
_LEAST = 1e-6


def thorough_moves(
    worlds: Sequence[World],
    weights: Float64Array,
    speeds: Float64Array,
    cores: Int32Array,
    most_moves: int,
    price: float,
) -> list[Move]:
    """Moves that serve more in the weighted mean of several worlds.

    Args:
        worlds: that believe() has set.
        weights: (worlds,) of each.
        speeds: (worlds, workers) share of its time that each worker core has, above 0.
        cores: (slices,) that serve the slices now.
        price: of a move between nodes, as a share of the throughput; within a node a quarter.

    Returns:
        At most ``most_moves`` moves, in the order in which they were found; a slice moves once.
    """
    search = _Search(worlds, weights / weights.sum(), speeds, cores, price)
    while search.moves < most_moves and search.improve(most_moves):
        pass
    return [(int(s), int(search.now[s])) for s in search.order if search.now[s] != cores[s]]


class _Search:
    def __init__(
        self,
        worlds: Sequence[World],
        weights: Float64Array,
        speeds: Float64Array,
        cores: Int32Array,
        price: float,
    ) -> None:
        machine = worlds[0].machine
        self._worlds, self._weights, self._speeds = worlds, weights, speeds
        self._workers, self._nodes = machine.workers, machine.nodes
        self._node = machine.node_of_core
        self._node_of_worker = self._node[self._workers]
        self._before = cores
        self.now = cores.copy()
        self.order: list[int] = []
        self._served = np.array([world.place(cores) for world in worlds])
        self._worth = float(weights @ self._served)
        self._price = price * self._worth

    @property
    def moves(self) -> int:
        """Number of moved slices."""
        return int(np.count_nonzero(self.now != self._before))

    def improve(self, most_moves: int) -> bool:
        """Makes the change that gains most for each move; whether there is one."""
        changes = self._changes(most_moves)
        return any(self._best_of(changes[i : i + _ASKED]) for i in range(0, len(changes), _ASKED))

    def _best_of(self, changes: Sequence[Sequence[Move]]) -> bool:
        """Asks about some changes, and makes the best one; whether one helps."""
        moves, best, best_change = self.moves, 0.0, None
        for steps in changes:
            old = [(slice_, int(self.now[slice_])) for slice_, _ in steps]
            served = self._make(steps)
            worth = float(self._weights @ served) - self._cost()
            gain = (worth - self._worth) / max(1, self.moves - moves)
            if worth > self._worth * (1.0 + _LEAST) and gain > best:
                best, best_change = gain, (steps, served, worth)
            self._make(old)
        if best_change is None:
            return False
        steps, self._served, self._worth = best_change
        self._make(steps)
        self.order += [slice_ for slice_, _ in steps if slice_ not in self.order]
        return True

    def _make(self, steps: Sequence[Move]) -> Float64Array:
        """(worlds,) what each serves after some moves."""
        for slice_, core in steps:
            self.now[slice_] = core
        return np.array([[world.move(*step) for step in steps][-1] for world in self._worlds])

    def _cost(self) -> float:
        return self._price * float(self._units(np.arange(self.now.size), self.now).sum())

    def _units(self, slices: npt.NDArray[np.intp], cores: Int32Array) -> Float64Array:
        """The cost of slices at cores, in moves between nodes; arguments broadcast."""
        far = self._node[cores] != self._node[self._before[slices]]
        units: Float64Array = np.where(far, 1.0, _NEAR * (cores != self._before[slices]))
        return units

    def _changes(self, most_moves: int) -> list[list[Move]]:
        """Moves and swaps off the cores that limit most, the most promising first."""
        at = np.searchsorted(self._workers, self.now)
        work, load, pace = self._loads(at)
        powers = _power(load)
        total = powers.sum(axis=1)
        limiting = (self._weights * self._served) @ (powers / total[:, None])
        full = np.zeros(load.shape[1], dtype=np.bool_)
        full[np.argsort(-limiting, kind="stable")[:_SOURCES]] = True
        mine, every = np.flatnonzero(full[at]), np.arange(at.size)
        source, targets = at[mine], np.arange(load.shape[1])

        def exchanged(to: npt.NDArray[np.intp], back: Float64Array) -> Float64Array:
            """(mine, targets) gains where slices go ``to``, and ``back`` comes in return."""
            # Where misses cost more, the same queries take longer.
            longer = pace[:, None, to] / pace[:, source, None]
            source_load = (
                load[:, source, None]
                + (back / longer - work[:, mine, None]) / (self._speeds[:, source, None])
            )
            target_load = (
                load[:, None, to]
                + (work[:, mine, None] * longer - back) / (self._speeds[:, None, to])
            )
            kept = total[:, None, None] - powers[:, source, None] - powers[:, None, to]
            after = (
                kept + _power(np.maximum(source_load, 0.0)) + _power(np.maximum(target_load, 0.0))
            )
            less = _root(total[:, None, None] / np.maximum(after, 1e-9)) - 1.0
            gains = np.tensordot(self._weights * self._served, less, 1)
            gains[source[:, None] == to] = -np.inf
            return gains

        def each(gains: Float64Array, units: Float64Array, moves: Float64Array) -> Float64Array:
            allowed = moves <= most_moves - self.moves
            return np.where(
                allowed, (gains - self._price * units) / np.maximum(moves, 1.0), -np.inf
            ).ravel()

        cost, moved = self._units(every, self.now), (self.now != self._before).astype(np.float64)
        sent = self._units(mine[:, None], self._workers) - cost[mine, None]
        away = (self._before[mine, None] != self._workers) - moved[mine, None]
        # Of swaps: where each of the others would be.
        taken = self._units(every, self.now[mine, None]) - cost
        taken_moves = (self._before != self.now[mine, None]) - moved
        gains = np.concatenate(
            [
                each(exchanged(targets, np.zeros((1, 1, 1))), sent, away),
                each(
                    exchanged(at, work[:, None, :]), sent[:, at] + taken, away[:, at] + taken_moves
                ),
            ]
        )
        best = np.argsort(-gains, kind="stable")[: _ASKED * _TIMES]
        singles = mine.size * targets.size
        changes: list[list[Move]] = []
        for choice in map(int, best[gains[best] > 0.0]):
            if choice < singles:
                i, j = divmod(choice, targets.size)
                changes.append([(int(mine[i]), int(self._workers[j]))])
            else:
                i, j = divmod(choice - singles, at.size)
                swap = (int(mine[i]), int(self.now[j])), (j, int(self.now[mine[i]]))
                changes.append(list(swap))
        return changes

    def _loads(self, at: npt.NDArray[np.intp]) -> tuple[Float64Array, Float64Array, Float64Array]:
        """(worlds, slices) work, (worlds, workers) load, and time of a query at each worker.

        Work and load are in units of the highest load.
        """
        count, node = self._workers.size, self._node_of_worker[at]
        works, loads, paces = [], [], []
        for world, speeds in zip(self._worlds, self._speeds, strict=True):
            work, queries = world.counters("task_clock_us", "queries")
            load = np.bincount(at, work, count) / speeds
            spent = np.bincount(node, work, self._nodes)
            asked = np.bincount(node, queries, self._nodes)
            usual = work.sum() / queries.sum()
            pace = np.divide(spent, asked, out=np.full(self._nodes, usual), where=asked > 0)
            works.append(work / load.max())
            loads.append(load / load.max())
            paces.append(pace[self._node_of_worker])
        return np.stack(works), np.stack(loads), np.stack(paces)


def _power(values: Float64Array) -> Float64Array:
    for _ in range(_SQUARES):
        values = values * values
    return values


def _root(values: Float64Array) -> Float64Array:
    for _ in range(_SQUARES):
        values = np.sqrt(values)
    return values
