"""A model of throughput that shares its weights over slices and cores; see ``surrogate.py``."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX

QUERIES, ELAPSED = COUNTER_INDEX["queries"], COUNTER_INDEX["elapsed_us"]
#: Below this, in million counts per second, a counter is as good as 0.
_LEAST = 1e-4


class Topology:
    """Which workers of a machine share what.

    Attributes:
        tiles: (W,) the tile of each worker.
        column: (tiles,) the worker on each tile, -1 where there is none.
        cache, node: (W,) int64, dense numbers of its last-level cache and its node.
        first_of_cache, first_of_node: (caches,) and (nodes,) int64, one worker of each.
        caches, nodes: (W, W) 1 where two workers share it.
        sizes: (W, 2) logarithms of how many workers share its cache and its node.
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
        self.cache, self.node = (torch.from_numpy(one).long() for one in places)
        self.first_of_cache, self.first_of_node = (
            torch.from_numpy(np.unique(one, return_index=True)[1]) for one in places
        )
        self.caches, self.nodes = (
            torch.from_numpy(one[:, None] == one[None, :]).float() for one in places
        )
        self.sizes = torch.stack([self.caches.sum(1), self.nodes.sum(1)], 1).log()

    def to(self, device: torch.device) -> Topology:
        """The same with all tensors on a device."""
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved


@dataclass(frozen=True)
class Known:
    """What one member reads off a batch of incumbents: P schedules, S slices, W workers.

    Attributes:
        slices: (P, S, features).
        cores: (P, W, features).
        demands: (P, S, demands), above 0.
        shares: (P, S) of all queries.
    """

    slices: Tensor
    cores: Tensor
    demands: Tensor
    shares: Tensor

    def repeated(self, schedules: int) -> Known:
        """The same, P = 1, for so many schedules."""
        return Known(
            self.slices.expand(schedules, -1, -1),
            self.cores.expand(schedules, -1, -1),
            self.demands.expand(schedules, -1, -1),
            self.shares.expand(schedules, -1),
        )


def _layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(inputs, width), nn.SiLU()),
        *(nn.Linear(width, width), nn.SiLU()),
        nn.Linear(width, outputs),
    )


def _log(values: Tensor) -> Tensor:
    return torch.log(values + _LEAST)


def usual_time(counters: Tensor) -> float:
    """The logarithm of the mean microseconds per query of (n, H) counters."""
    queries = counters[:, QUERIES].sum().clamp(min=1e-9)
    return float((counters[:, ELAPSED].sum() / queries).log())


class Reader(nn.Module):
    """Reads the counters of schedules that ran: standardised logarithms of counts and sums."""

    mean: Tensor
    std: Tensor

    def __init__(self, counters: int, *, width: int, features: int, demands: int) -> None:
        """Makes a reader.

        Args:
            counters: H, of each slice.
            width: of the hidden layers.
            features: of a slice and of a core.
            demands: of a slice on the core, cache, node and machine that it shares with others.
        """
        super().__init__()
        self.register_buffer("mean", torch.zeros(counters))
        self.register_buffer("std", torch.ones(counters))
        self.of_slice = _layers(5 * counters, width, features)
        self.of_core = _layers(4 * counters + 3, width, features)
        self.demand = nn.Linear(features, demands)

    def set_scales(self, counters: Tensor) -> None:
        """Takes the scales of the inputs from (n, H) counters."""
        logs = _log(counters.double())
        std = logs.std(0)
        # A counter that never changes says nothing; dividing by its rounding would make it loud.
        std[std < 1e-3] = 1.0
        self.mean.copy_(logs.mean(0))
        self.std.copy_(std)

    def read(self, topology: Topology, counters: Tensor, columns: Tensor) -> Known:
        """Reads the counters of schedules that ran.

        Args:
            topology: of the machine.
            counters: (P, S, H) of each slice.
            columns: (P, S) the worker that had it.
        """
        slices, width = counters.shape[1], counters.shape[2]
        there = F.one_hot(columns, len(topology.tiles)).float()
        core = there.transpose(1, 2) @ counters
        cache, node = topology.caches @ core, topology.nodes @ core
        machine = counters.sum(1, keepdim=True)
        ran = (core[..., ELAPSED, None] > 0).float()

        def standard(values: Tensor) -> Tensor:
            return (_log(values) - self.mean) / self.std

        def under(values: Tensor) -> Tensor:
            return values.gather(1, columns.unsqueeze(-1).expand(-1, -1, width))

        parts = [standard(values) for values in (core, cache, node)]
        whole = standard(machine)
        seen = [standard(counters), *map(under, parts), whole.expand(-1, slices, -1)]
        around = [parts[0] * ran, parts[1], parts[2], whole.expand(-1, len(topology.tiles), -1)]
        sizes = topology.sizes.expand(len(counters), -1, -1)
        features = self.of_slice(torch.cat(seen, -1))
        queries = counters[..., QUERIES]
        return Known(
            features,
            self.of_core(torch.cat([*around, ran, sizes], -1)),
            F.softplus(self.demand(features)),
            queries / queries.sum(1, keepdim=True).clamp(min=1e-9),
        )


class Member(Reader):
    """One model of throughput."""

    def __init__(self, counters: int, *, width: int, features: int, demands: int) -> None:
        """Makes a model; arguments as of Reader."""
        super().__init__(counters, width=width, features=features, demands=demands)
        self.time = _layers(2 * features + 4 * demands + 2, width, 1)
        self.sharpness = nn.Parameter(torch.tensor(3.5))
        self.scale = nn.Parameter(torch.tensor(0.0))

    def set_up(self, counters: Tensor) -> None:
        """Takes the scales of the inputs and the mean time of a query from (n, H) counters.

        Untrained, every query takes that time everywhere: no core is favoured by chance.
        """
        self.set_scales(counters)
        last = self.time[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, usual_time(counters))

    def forward(self, topology: Topology, known: Known, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Foretells other schedules of the same slices.

        Args:
            topology: of the machine.
            known: of read().
            columns: (P, S) the worker that each slice goes to.

        Returns:
            (P, S) logarithms of the microseconds per query, and (P,) of the throughput.
        """
        there = F.one_hot(columns, len(topology.tiles)).float()
        core = there.transpose(1, 2) @ known.demands
        cache, node = topology.caches @ core, topology.nodes @ core

        def at(values: Tensor) -> Tensor:
            return values.gather(1, columns.unsqueeze(-1).expand(-1, -1, values.shape[-1]))

        machine = known.demands.sum(1, keepdim=True).expand(-1, columns.shape[1], -1)
        shared = [_log(at(values)) for values in (core, cache, node)]
        inputs = [known.slices, at(known.cores), *shared, _log(machine), topology.sizes[columns]]
        times = self.time(torch.cat(inputs, -1)).squeeze(-1)
        busy = (there * (known.shares * times.exp()).unsqueeze(-1)).sum(1)
        # The norm, taken where nothing overflows.
        most = busy.amax(-1, keepdim=True)
        norm = ((busy / most).clamp(min=1e-6) ** self.sharpness.exp()).sum(-1)
        bound = most.squeeze(-1).log() + norm.log() / self.sharpness.exp()
        return times, self.scale - bound

    def everywhere(self, topology: Topology, known: Known, columns: Tensor) -> Tensor:
        """Foretells each slice on each worker while the others stay: one schedule, P = 1.

        Returns:
            (S, W) logarithms of the microseconds per query.
        """
        there = F.one_hot(columns[0], len(topology.tiles)).float()
        own = known.demands[0].unsqueeze(1)
        core = there.T @ known.demands[0]
        one_cache, one_node = topology.first_of_cache, topology.first_of_node
        cache, node = topology.caches[one_cache] @ core, topology.nodes[one_node] @ core
        # A slice adds its demand where it is not already.
        same = [there, there @ topology.caches[:, one_cache], there @ topology.nodes[:, one_node]]
        shared = [
            _log(values.unsqueeze(0) + own * (1 - already).unsqueeze(-1))
            for values, already in zip((core, cache, node), same, strict=True)
        ]
        # The first layer is linear: each part is done once, not once per slice and core.
        first = self.time[0]
        assert isinstance(first, nn.Linear)
        features, demands = known.slices.shape[-1], known.demands.shape[-1]
        of_slice, of_core, *of_shared, of_machine, of_sizes = torch.split(
            first.weight, [features, features, demands, demands, demands, demands, 2], dim=1
        )
        on_core, on_cache, on_node = (
            values @ weight.T for values, weight in zip(shared, of_shared, strict=True)
        )
        slices = known.slices[0] @ of_slice.T + (
            _log(known.demands[0].sum(0)) @ of_machine.T + first.bias
        )
        cores = known.cores[0] @ of_core.T + topology.sizes @ of_sizes.T
        hidden = on_core.add_(on_cache[:, topology.cache]).add_(on_node[:, topology.node])
        hidden += slices.unsqueeze(1) + cores
        times: Tensor = self.time[1:](hidden).squeeze(-1)
        return times


def loss_of(member: Member, topology: Topology, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """What a member is trained by, and how far its throughputs are off.

    The error of a slice's time counts as much as the time that the slice takes. Both errors are of
    logarithms, by Huber's loss: a schedule that is rarely so slow shall not decide.

    Args:
        member: to be trained.
        topology: of the machine.
        batch: of Pairs.batch().

    Returns:
        The loss, and the mean error of the logarithm of throughput.
    """
    before, there, columns, after, throughput = batch
    times, total = member(topology, member.read(topology, before, there), columns)
    elapsed = after[..., ELAPSED]
    truth = _log(elapsed) - _log(after[..., QUERIES])
    weight = elapsed / elapsed.mean(1, keepdim=True).clamp(min=1e-9)
    of_times = (weight * F.smooth_l1_loss(times, truth, beta=0.05, reduction="none")).mean()
    wanted = throughput.clamp(min=1e-9).log()
    of_total = F.smooth_l1_loss(total, wanted, beta=0.05)
    return of_times + 0.3 * of_total, (total - wanted).abs().mean()
