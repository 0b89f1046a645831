"""A model of throughput that shares its weights over slices and cores; see ``surrogate.py``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX

QUERIES, ELAPSED = COUNTER_INDEX["queries"], COUNTER_INDEX["elapsed_us"]
#: The groups of inputs that a model reads: counters and their sums, and what one event costs.
GROUPS = (*SUMS, "cost")
#: And what a model for machines that it never met may be told: which workers are siblings, how
#: large caches are, and the time that each slice took, which it then only changes.
MORE_GROUPS = (*GROUPS, "sibling", "capacity", "measured")
#: What an event costs: one counter over the sum of others. A node whose memory answers late shows
#: in cycles per line from memory long before it shows in any sum.
COSTS = (
    ("elapsed_us", ("queries",)),
    ("task_clock_us", ("elapsed_us",)),
    ("llc_misses", ("queries",)),
    ("cycles_mem_any", ("memory_accesses",)),
    ("cycles_l3_miss", ("local_dram", "remote_dram")),
)
#: Costs that differ by less, as logarithms, are as good as equal; and outliers end here.
_LEAST_COST_SPREAD, _MOST_COST = 0.1, 5.0
#: The levels that a core shares with others, itself the first.
_LEVELS = ("core", "sibling", "cache", "node")
#: Below this, in million counts per second, a counter is as good as 0.
_LEAST = 1e-4


class Topology:
    """Which workers of a machine share what.

    Attributes:
        tiles: (W,) the tile of each worker.
        column: (tiles,) the worker on each tile, -1 where there is none.
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
        self.cache, self.node = (torch.from_numpy(one).long() for one in places)
        self.first_of_cache, self.first_of_node = (
            torch.from_numpy(np.unique(one, return_index=True)[1]) for one in places
        )
        physical = machine.physical_of_core[workers].astype(np.int64)
        self.siblings, self.caches, self.nodes = (
            torch.from_numpy(one[:, None] == one[None, :]).float() for one in (physical, *places)
        )
        self.sizes = torch.stack([self.caches.sum(1), self.nodes.sum(1)], 1).log()
        known = [machine.parameters.get(name) for name in ("l2_kib", "llc_kib")]
        mib = [float(np.max(one.value)) / 1024 if one is not None else 1.0 for one in known]
        self.capacity = torch.tensor(mib).log().expand(len(workers), -1).contiguous()

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
        base: (P, S) logarithms of the microseconds per query that were measured; or 0.
    """

    slices: Tensor
    cores: Tensor
    demands: Tensor
    shares: Tensor
    base: Tensor

    def repeated(self, schedules: int) -> Known:
        """The same, P = 1, for so many schedules."""
        return Known(
            self.slices.expand(schedules, -1, -1),
            self.cores.expand(schedules, -1, -1),
            self.demands.expand(schedules, -1, -1),
            self.shares.expand(schedules, -1),
            self.base.expand(schedules, -1),
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


def _costs(counters: Tensor) -> Tensor:
    """(..., COSTS) logarithms of what events cost, NaN where one was not counted."""
    known = counters.shape[-1]
    found = []
    for name, others in COSTS:
        above, below = COUNTER_INDEX[name], [COUNTER_INDEX[other] for other in others]
        if max(above, *below) >= known:  # of a dataset that is older than the counter
            found.append(torch.full_like(counters[..., 0], torch.nan))
            continue
        of, over = counters[..., above], counters[..., below].sum(-1)
        ratio = _log(of) - _log(over)
        found.append(torch.where((of > 0) & (over > 0), ratio, torch.nan))
    return torch.stack(found, -1)


class Reader(nn.Module):
    """Reads the counters of schedules that ran: standardised logarithms of counts and sums."""

    mean: Tensor
    std: Tensor
    cost_mean: Tensor
    cost_std: Tensor

    def __init__(
        self,
        counters: int,
        *,
        width: int,
        features: int,
        demands: int,
        inputs: Sequence[str] = SUMS,
    ) -> None:
        """Makes a reader.

        Args:
            counters: H, of each slice.
            width: of the hidden layers.
            features: of a slice and of a core.
            demands: of a slice on the core, cache, node and machine that it shares with others.
            inputs: some of GROUPS.
        """
        super().__init__()
        self.inputs = tuple(inputs)
        self.register_buffer("mean", torch.zeros(counters))
        self.register_buffer("std", torch.ones(counters))
        told = counters
        if "cost" in self.inputs:
            self.register_buffer("cost_mean", torch.zeros(len(COSTS)))
            self.register_buffer("cost_std", torch.ones(len(COSTS)))
            told += len(COSTS)
        self.levels = tuple(level for level in _LEVELS if level in self.inputs)
        shared = len(self.levels) + ("machine" in self.inputs)
        self.sizes = 2 * ("topology" in self.inputs) + 2 * ("capacity" in self.inputs)
        self.of_slice = _layers((shared + ("slice" in self.inputs)) * told, width, features)
        self.of_core = _layers(shared * told + 1 + self.sizes, width, features)
        self.demand = nn.Linear(features, demands)

    def set_scales(self, counters: Tensor) -> None:
        """Takes the scales of the inputs from (n, H) counters."""
        logs = _log(counters.double())
        std = logs.std(0)
        # A counter that never changes says nothing; dividing by its rounding would make it loud.
        std[std < 1e-3] = 1.0
        self.mean.copy_(logs.mean(0))
        self.std.copy_(std)
        if "cost" in self.inputs:
            costs = _costs(counters.double())
            known = costs.isfinite()
            count = known.sum(0).clamp(min=1)
            mean = costs.nan_to_num(0.0).sum(0) / count
            off = torch.where(known, costs - mean, 0.0)
            self.cost_mean.copy_(mean)
            self.cost_std.copy_(((off**2).sum(0) / count).sqrt().clamp(min=_LEAST_COST_SPREAD))

    def read(self, topology: Topology, counters: Tensor, columns: Tensor) -> Known:
        """Reads the counters of schedules that ran.

        Args:
            topology: of the machine.
            counters: (P, S, H) of each slice.
            columns: (P, S) the worker that had it.
        """
        slices, workers = counters.shape[1], len(topology.tiles)
        there = F.one_hot(columns, workers).float()
        core = there.transpose(1, 2) @ counters
        ran = (core[..., ELAPSED, None] > 0).float()
        sums = {"core": core, "cache": topology.caches @ core, "node": topology.nodes @ core}
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core
        seen = [self._standard(counters)] if "slice" in self.inputs else []
        around = []
        for level in self.levels:
            part = self._standard(sums[level])
            seen.append(part.gather(1, columns.unsqueeze(-1).expand(-1, -1, part.shape[-1])))
            around.append(part * ran if level == "core" else part)
        if "machine" in self.inputs:
            whole = self._standard(counters.sum(1, keepdim=True))
            seen.append(whole.expand(-1, slices, -1))
            around.append(whole.expand(-1, workers, -1))
        around.append(ran)
        if self.sizes:
            around.append(self._sizes(topology).expand(len(counters), -1, -1))
        features = self.of_slice(torch.cat(seen, -1))
        queries = counters[..., QUERIES]
        return Known(
            features,
            self.of_core(torch.cat(around, -1)),
            F.softplus(self.demand(features)),
            queries / queries.sum(1, keepdim=True).clamp(min=1e-9),
            self._base(counters),
        )

    def _sizes(self, topology: Topology) -> Tensor:
        """(W, sizes): what the description says of each worker's place."""
        groups = {"topology": topology.sizes, "capacity": topology.capacity}
        return torch.cat([part for name, part in groups.items() if name in self.inputs], 1)

    def _base(self, counters: Tensor) -> Tensor:
        """Known.base; of a slice that served no query the mean of the others."""
        elapsed, queries = counters[..., ELAPSED], counters[..., QUERIES]
        if "measured" not in self.inputs:
            return torch.zeros_like(elapsed)
        ran = (elapsed > 0) & (queries > 0)
        times = torch.where(ran, _log(elapsed) - _log(queries), 0.0)
        usual = times.sum(1, keepdim=True) / ran.sum(1, keepdim=True).clamp(min=1)
        return torch.where(ran, times, usual)

    def _standard(self, values: Tensor) -> Tensor:
        """Counters, or sums of them, as the network sees them."""
        counts = (_log(values) - self.mean) / self.std
        if "cost" not in self.inputs:
            return counts
        costs = (_costs(values) - self.cost_mean) / self.cost_std
        costs = costs.clamp(-_MOST_COST, _MOST_COST).nan_to_num(0.0)
        return torch.cat([counts, costs], -1)


class Member(Reader):
    """One model of throughput."""

    def __init__(
        self,
        counters: int,
        *,
        width: int,
        features: int,
        demands: int,
        inputs: Sequence[str] = GROUPS,
    ) -> None:
        """Makes a model; arguments as of Reader."""
        super().__init__(counters, width=width, features=features, demands=demands, inputs=inputs)
        # What is shared with others, then what the machine bears.
        sums = len(self.levels) + ("machine" in self.inputs)
        self.time = _layers(2 * features + sums * demands + self.sizes, width, 1)
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
        usual = 0.0 if "measured" in self.inputs else usual_time(counters)
        nn.init.constant_(last.bias, usual)

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

        sums = {"core": core, "cache": cache, "node": node}
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core
        inputs = [known.slices, at(known.cores), *(_log(at(sums[level])) for level in self.levels)]
        if "machine" in self.inputs:
            machine = known.demands.sum(1, keepdim=True).expand(-1, columns.shape[1], -1)
            inputs.append(_log(machine))
        if self.sizes:
            inputs.append(self._sizes(topology)[columns])
        times = self.time(torch.cat(inputs, -1)).squeeze(-1)
        if "measured" in self.inputs:
            times = times + known.base
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
        sums = {
            "core": (core, there),
            "cache": (cache, there @ topology.caches[:, one_cache]),
            "node": (node, there @ topology.nodes[:, one_node]),
        }
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core, there @ topology.siblings
        spread = {"cache": topology.cache, "node": topology.node}
        # The first layer is linear: each part is done once, not once per slice and core.
        first = self.time[0]
        assert isinstance(first, nn.Linear)
        features, demands = known.slices.shape[-1], known.demands.shape[-1]
        widths = [features, features, *[demands] * len(self.levels)]
        widths += [demands] * ("machine" in self.inputs) + [self.sizes]
        of_slice, of_core, *others = torch.split(first.weight, widths, dim=1)
        of_machine: Tensor = first.bias
        if "machine" in self.inputs:
            of_machine = _log(known.demands[0].sum(0)) @ others[-2].T + of_machine
        slices = known.slices[0] @ of_slice.T + of_machine
        cores = known.cores[0] @ of_core.T
        if self.sizes:
            cores = cores + self._sizes(topology) @ others[-1].T
        parts = []
        for level, weight in zip(self.levels, others, strict=False):
            now, already = sums[level]
            part = _log(now.unsqueeze(0) + own * (1 - already).unsqueeze(-1)) @ weight.T
            parts.append(part[:, spread[level]] if level in spread else part)
        # In place: these are the largest arrays of a plan.
        hidden, *rest = [*parts, slices.unsqueeze(1) + cores]
        for part in rest:
            hidden += part
        times: Tensor = self.time[1:](hidden).squeeze(-1)
        if "measured" in self.inputs:
            times = times + known.base[0].unsqueeze(1)
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
