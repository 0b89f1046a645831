"""Fitting co-tenants to counters: the ones that explain the last epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pmoss_datasets.continual.worlds import World
from pmoss_env.envs.continual.drift import DEFAULT_DEMAND, MAX_SHARE, Demand
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX, CoTenant, Float64Array, Int32Array

#: Shares below these are taken for noise.
LEAST_BUSY, LEAST_STREAM = 0.08, 0.05
#: Steps of the fit of memory streams, and how near the costs must come.
_FIT_STEPS, _FIT_NEAR = 6, 0.03
#: Epochs of a node that weigh as much as what all nodes say of a miss without streams.
_SHARED = 5.0
#: The counters that the fit reads.
_ELAPSED, _WORK, _CYCLES, _MISSES = (
    COUNTER_INDEX[name] for name in ("elapsed_us", "task_clock_us", "cycles_l3_miss", "llc_misses")
)


class Fit:
    """Co-tenants that explain the counters of one epoch after the other.

    It knows what the slices of the workload instance ask for. Busy cores are those whose time runs
    faster than their work. Memory streams are fitted until misses cost what they did.

    Attributes:
        busy: (cores,) share of its time that each core loses.
        streams: (nodes,) share of each node's memory bandwidth that is taken.

    Args:
        world: asked what counters would be; what it believes changes.
        calm: quantile of a node's costs of a miss, over all epochs, that is taken for the cost
            without streams. So a machine whose misses cost more or less than described is learned.
            Streams that last for a larger share of the epochs than 1 - calm are taken for none. 0:
            misses cost what is described.
    """

    def __init__(self, world: World, calm: float = 0.0) -> None:
        self._world, self._calm = world, calm
        machine = world.machine
        #: (nodes,) of each epoch, logarithm of the seen cost over that of a model without streams.
        self._ratios: list[Float64Array] = []
        self.busy: Float64Array = np.zeros(machine.cores)
        self.streams: Float64Array = np.zeros(machine.nodes)
        self._slope = np.full(machine.nodes, 2.0)

    @property
    def shares(self) -> Float64Array:
        """(cores + nodes,) busy cores, then streams; see co_tenants()."""
        return np.concatenate([self.busy, self.streams])

    def see(
        self, cores: Int32Array, counters: Float64Array, asked: Demand = DEFAULT_DEMAND
    ) -> None:
        """Explains an epoch; where nothing ran, co-tenants are what they were before.

        Args:
            cores: (slices,) that served in it.
            counters: (slices, H) of it, all in one unit of any size.
        """
        world, machine = self._world, self._world.machine
        elapsed = np.bincount(cores, counters[:, _ELAPSED], machine.cores)
        work = np.bincount(cores, counters[:, _WORK], machine.cores)
        lost = 1.0 - np.divide(work, elapsed, out=np.ones_like(work), where=elapsed > 0)
        lost = np.where(lost < LEAST_BUSY, 0.0, np.minimum(lost, MAX_SHARE))
        self.busy = np.where(elapsed > 0, lost, self.busy)
        nodes = machine.node_of_core[cores]
        ran = np.bincount(nodes, minlength=machine.nodes) > 0
        measured = _cost_of_misses(nodes, machine.nodes, counters[:, _CYCLES], counters[:, _MISSES])
        if self._calm:
            measured = measured / self._usual(measured, ran, cores, asked)
        streams = self.streams.copy()
        best, least = streams, np.inf
        before: tuple[Float64Array, Float64Array] | None = None
        for _ in range(_FIT_STEPS):
            world.believe(co_tenants(machine, np.concatenate([self.busy, streams])), asked)
            world.place(cores)
            counted = world.counters("cycles_l3_miss", "llc_misses")
            cost = _cost_of_misses(nodes, machine.nodes, *counted)
            ratio = np.maximum(measured, 1e-9) / np.maximum(cost, 1e-9)
            off = np.where(ran, np.log(ratio), 0.0)
            if np.abs(off).sum() < least:
                best, least = streams.copy(), float(np.abs(off).sum())
            if np.abs(off).max() < _FIT_NEAR:
                break
            if before is not None:
                change = streams - before[0]
                moved = np.abs(change) > 0.01
                rise = np.log(np.maximum(cost, 1e-9) / np.maximum(before[1], 1e-9))
                slope = np.where(moved, rise / np.where(moved, change, 1.0), self._slope)
                self._slope = np.clip(slope, 0.5, 20.0)
            before = streams.copy(), cost
            streams = np.clip(streams + np.clip(off / self._slope, -0.3, 0.3), 0.0, MAX_SHARE)
        self.streams = np.where(best < LEAST_STREAM, 0.0, best)

    def _usual(
        self, measured: Float64Array, ran: npt.NDArray[np.bool_], cores: Int32Array, asked: Demand
    ) -> Float64Array:
        """(nodes,) what a miss costs without streams, over what it costs by the model."""
        world, machine = self._world, self._world.machine
        calm = np.concatenate([self.busy, np.zeros(machine.nodes)])
        world.believe(co_tenants(machine, calm), asked)
        world.place(cores)
        counted = world.counters("cycles_l3_miss", "llc_misses")
        cost = _cost_of_misses(machine.node_of_core[cores], machine.nodes, *counted)
        comparable = ran & (measured > 0.0) & (cost > 0.0)
        ratio = np.divide(measured, cost, out=np.ones(machine.nodes), where=comparable)
        self._ratios.append(np.where(comparable, np.log(ratio), np.nan))
        past = np.stack(self._ratios)
        if not np.isfinite(past).any():
            return np.ones(machine.nodes)
        everywhere = float(np.nanquantile(past, self._calm))
        usual = np.full(machine.nodes, everywhere)
        for node in range(machine.nodes):
            own = past[np.isfinite(past[:, node]), node]
            if own.size:
                # What all nodes say counts as much as so many epochs of the node itself.
                weight = own.size / (own.size + _SHARED)
                usual[node] += weight * (float(np.quantile(own, self._calm)) - everywhere)
        return np.exp(usual)


def co_tenants(machine: Machine, shares: Float64Array) -> list[CoTenant]:
    """The co-tenants of (cores + nodes,) shares: busy cores, then memory streams."""
    busy, streams = shares[: machine.cores], shares[machine.cores :]
    return [
        *(CoTenant("busy_core", int(c), float(busy[c])) for c in np.flatnonzero(busy)),
        *(CoTenant("memory_stream", int(n), float(streams[n])) for n in np.flatnonzero(streams)),
    ]


def _cost_of_misses(
    nodes: Int32Array, count: int, cycles: Float64Array, misses: Float64Array
) -> Float64Array:
    """(nodes,) cycles of a miss of the slices that each node's cores serve."""
    spent = np.bincount(nodes, cycles, count)
    return spent / np.maximum(np.bincount(nodes, misses, count), 1e-9)
