"""Which workers of a machine share what: all that a model of throughput needs of a machine."""

from __future__ import annotations

from copy import copy

import numpy as np

from pmoss_agents.pytorch import Tensor, torch
from pmoss_datasets.spatial.worlds import cache_mib_of, groups_of
from pmoss_env.machines import Machine


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
        groups = groups_of(machine)
        self.siblings, self.caches, self.nodes = (
            torch.from_numpy(group[:, None] == group[None, :]).float() for group in groups
        )
        self.cache, self.node = (torch.from_numpy(group).long() for group in groups[1:])
        self.first_of_cache, self.first_of_node = (
            torch.from_numpy(np.unique(group, return_index=True)[1]) for group in groups[1:]
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


class Topologies:
    """Topologies of several machines, each filled up with workers that share nothing.

    Attributes:
        workers: W, of the largest.
        siblings, caches, nodes: (P, W, W), see Topology.
        sizes, capacity: (P, W, 2).
    """

    def __init__(self, groups: Tensor, cache_mib: Tensor) -> None:
        """Takes (P, 3, W) and (P, 2) of worlds."""
        self.workers = groups.shape[-1]
        exist = (groups >= 0).float()
        alike = (groups.unsqueeze(-1) == groups.unsqueeze(-2)).float() * exist.unsqueeze(-1)
        self.siblings, self.caches, self.nodes = alike.unbind(1)
        self.sizes = alike[:, 1:].sum(-1).clamp(min=1.0).log().transpose(1, 2)
        self.capacity = cache_mib.log().unsqueeze(1) * exist[:, 0].unsqueeze(-1)


#: Of one machine, or of several at once with an axis P before W.
Sharing = Topology | Topologies
