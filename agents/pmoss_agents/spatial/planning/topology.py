"""Which workers of a machine share what: all that a model of throughput needs of a machine."""

from __future__ import annotations

from copy import copy
from typing import Protocol

import numpy as np

from pmoss_agents.pytorch import Tensor, torch
from pmoss_datasets.spatial.worlds import cache_mib_of
from pmoss_env.machines import Machine


class Sharing(Protocol):
    """What a model needs of a topology; of several machines at once with an axis P before W.

    Attributes:
        siblings, caches, nodes: (..., W, W) 1 where two workers share the core's units, a cache or
            a node.
        sizes, capacity: (..., W, 2), see Topology.
    """

    siblings: Tensor
    caches: Tensor
    nodes: Tensor
    sizes: Tensor
    capacity: Tensor

    @property
    def workers(self) -> int:
        """W."""


class Topology:
    """Which workers of a machine share what.

    Attributes:
        tiles: (W,) the tile of each worker.
        column: (tiles,) the worker on each tile, -1: no worker.
        cache, node: (W,) int64, dense numbers of its last-level cache and its node.
        first_of_cache, first_of_node: (caches,) and (nodes,) int64, one worker of each.
        siblings, caches, nodes: (W, W) 1 where two workers share the core's units, cache or node.
        sizes: (W, 2) logarithms of how many workers share its cache and its node.
        capacity: (W, 2) logarithms of the MiB of its second-level and last-level cache, as far as
            the machine's description says.
    """

    def __init__(self, machine: Machine) -> None:
        workers = machine.workers
        self.tiles = machine.tile_of_core[workers]
        self.column = np.full(machine.tiles, -1)
        self.column[self.tiles] = np.arange(workers.size)
        places = [
            np.unique(kind[workers], return_inverse=True)[1]
            for kind in (machine.llc_of_core, machine.node_of_core)
        ]
        self.cache, self.node = (torch.from_numpy(place).long() for place in places)
        self.first_of_cache, self.first_of_node = (
            torch.from_numpy(np.unique(place, return_index=True)[1]) for place in places
        )
        physical = machine.physical_of_core[workers].astype(np.int64)
        self.siblings, self.caches, self.nodes = (
            torch.from_numpy(place[:, None] == place[None, :]).float()
            for place in (physical, *places)
        )
        self.sizes = torch.stack([self.caches.sum(1), self.nodes.sum(1)], 1).log()
        self.capacity = (
            torch.tensor(cache_mib_of(machine)).log().expand(len(workers), -1).contiguous()
        )

    @property
    def workers(self) -> int:
        """W."""
        return len(self.tiles)

    def to(self, device: torch.device) -> Topology:
        """The same with all tensors on a device."""
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved
