"""What the forecaster's network sees of the epochs of an episode."""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array

#: Epochs that a core's network sees one by one.
_SEEN = 8
#: Of a node, and of a core beside them.
NODE_FEATURES, CORE_FEATURES = 4, _SEEN + 2


class Past:
    """What the network sees of some epochs that follow each other, from the first one on."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._workers = machine.workers
        self._node_of = machine.node_of_core[machine.workers]
        self._last = np.zeros((_SEEN, self._workers.size))
        self._most = np.zeros(self._workers.size)
        self._sum, self._times = np.zeros(self._workers.size), np.zeros(self._workers.size)

    def see(self, shares: Float64Array) -> tuple[Array, Array]:
        """(N, 4) and (C, 10) float32 of the next epoch.

        Args:
            shares: (cores + nodes,) that co-tenants took in it.
        """
        machine = self._machine
        busy, streams = shares[self._workers], shares[machine.cores :]
        self._last = np.concatenate([self._last[1:], busy[None]])
        self._most = np.maximum(self._most, busy)
        self._sum, self._times = self._sum + busy, self._times + (busy > 0)
        mean = self._sum / np.maximum(self._times, 1)
        in_all = np.bincount(self._node_of, busy, machine.nodes)
        count = np.bincount(self._node_of, busy > 0, machine.nodes)
        highest = np.zeros(machine.nodes)
        np.maximum.at(highest, self._node_of, busy)
        nodes = np.stack([streams, in_all, count / 4, highest], -1)
        cores = np.concatenate([self._last, self._most[None], mean[None]]).T
        return nodes.astype(np.float32), cores.astype(np.float32)


def seen(machine: Machine, shares: Float64Array) -> tuple[Array, Array]:
    """(T, N, 4) and (T, C, 10) float32 of the epochs of one episode."""
    past = Past(machine)
    nodes, cores = zip(*(past.see(epoch) for epoch in shares), strict=True)
    return np.stack(nodes), np.stack(cores)
