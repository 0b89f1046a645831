"""A model of throughput for machines that it never met: what it reads is mixed along their tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.planning.model import (
    ROWS,
    Reading,
    ThroughputModel,
    at,
    exactly,
    layers,
    linear,
    log,
)
from pmoss_agents.spatial.planning.topology import Sharing, Topology

#: Below this a core's time is nothing.
_LEAST_BUSY = 1e-12


class Prediction(NamedTuple):
    """What n schedules for each of P incumbents would serve.

    Attributes:
        times: (P, n, S) logarithms of the microseconds that a query of a slice takes.
        busy: (P, n, W) microseconds that a core is busy per query of the machine.
        total: (P, n) logarithms of the throughput.
    """

    times: Tensor
    busy: Tensor
    total: Tensor


class MixingModel(ThroughputModel):
    """A model of throughput whose features are mixed along the machine's tree.

    With a context it also mixes what is asked about: each core tells what it would bear, and hears
    what its cache, its node and the machine would.
    """

    def __init__(
        self, counters: int, *, rounds: int, width: int, features: int, context: int, **sizes: Any
    ) -> None:
        """Makes a model.

        Args:
            counters: H, of each slice.
            width: of the hidden layers.
            context: features that a core tells under the schedule that is asked about; 0: none.
        """
        super().__init__(counters, width=width, features=features, contexts=4 * context, **sizes)
        self.mix_cores = nn.ModuleList(layers(5 * features, width, features) for _ in range(rounds))
        self.mix_slices = nn.ModuleList(
            layers(3 * features, width, features) for _ in range(rounds)
        )
        last_layers = [part[-1] for part in (*self.mix_cores, *self.mix_slices)]
        if context:
            demands = len(self.levels) * self.demand.out_features
            self.load = layers(features + demands + self.sizes, width // 2, context)
            self.spread = layers(5 * context, width // 2, context)
            self.slack = nn.Linear(2 * context, 1)
            last_layers += [self.spread[-1], self.slack]
        for last in last_layers:
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def mix(
        self, topology: Any, slices: Tensor, cores: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See Reader.mix."""
        if not len(self.mix_cores):
            return slices, cores
        ran_on = F.one_hot(columns, topology.workers).to(slices.dtype).transpose(1, 2)
        count = ran_on.sum(2, keepdim=True)
        ran = (count > 0).to(slices.dtype)
        levels = [level.to(slices.dtype) for level in (topology.caches, topology.nodes)]
        shares = [level / (level @ ran).clamp(min=1.0) for level in levels]
        for of_core, of_slice in zip(self.mix_cores, self.mix_slices, strict=True):
            used = cores * ran
            whole = used.sum(1, keepdim=True) / ran.sum(1, keepdim=True).clamp(min=1.0)
            own = (ran_on @ slices) / count.clamp(min=1.0)
            around = [share @ used for share in shares]
            cores = cores + of_core(torch.cat([cores, own, *around, whole.expand_as(cores)], -1))
            mean = slices.mean(1, keepdim=True).expand_as(slices)
            slices = slices + of_slice(torch.cat([slices, at(cores, columns), mean], -1))
        return slices, cores

    def forward(
        self, topology: Sharing, reading: Reading, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See ThroughputModel.forward."""
        if not self.contexts:
            return super().forward(topology, reading, columns)
        prediction = self.predict(topology, reading, columns.unsqueeze(1))
        return prediction.times.squeeze(1), prediction.total.squeeze(1)

    def several(
        self, topology: Sharing, reading: Reading, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See ThroughputModel.several."""
        prediction = self.predict(topology, reading, columns.unsqueeze(0))
        return prediction.times.squeeze(0), prediction.total.squeeze(0)

    def predict(self, topology: Sharing, reading: Reading, columns: Tensor) -> Prediction:
        """Predicts n schedules for each incumbent, as forward() does up to rounding, but faster.

        The first layer is linear: what it takes from a core is done once a core.

        Args:
            reading: of read(), of P schedules.
            columns: (P, n, S) the worker that each slice goes to.
        """
        first = self.time[0]
        assert isinstance(first, nn.Linear)
        features, demands = reading.slices.shape[-1], reading.demands.shape[-1]
        widths = [features, features, demands * len(self.levels)]
        widths += [demands * ("machine" in self.inputs), self.sizes, self.contexts]
        of_slice, of_core, of_shared, of_machine, of_sizes, of_context = torch.split(
            first.weight, widths, dim=1
        )
        workers = torch.arange(topology.workers, device=columns.device)
        placement = (columns.unsqueeze(-1) == workers).float()
        shared = self._shared(topology, reading, placement)
        core = F.linear(reading.cores, of_core)
        if "machine" in self.inputs:
            core = core + F.linear(log(reading.demands.float().sum(1, keepdim=True)), of_machine)
        if self.sizes:
            core = core + F.linear(self._sizes(topology), of_sizes)
        cores = linear(shared, of_shared) + core.unsqueeze(1)
        slack: Tensor | float = 0.0
        if self.contexts:
            around, slack = self._around(topology, reading.cores, shared)
            cores = cores + linear(around, of_context)
        slices = F.linear(reading.slices, of_slice, first.bias).unsqueeze(1)
        hidden_layers, parts = self.time[1:], []
        learns, schedules = torch.is_grad_enabled(), columns.shape[1]
        step = schedules if learns else max(1, ROWS // columns.shape[2])
        for start in range(0, schedules, step):
            some = slice(start, start + step)
            if learns or len(columns) > 1:
                hidden = placement[:, some].to(cores.dtype) @ cores[:, some] + slices
            else:  # the product only copies rows
                chosen = zip(cores[0, some], columns[0, some], strict=True)
                hidden = torch.stack([of.index_select(0, place) for of, place in chosen])
                hidden = hidden.unsqueeze(0).add_(slices)
            parts.append(hidden_layers(hidden).squeeze(-1))
        times = torch.cat(parts, 1).float()
        if "measured" in self.inputs:
            times = times + reading.base.unsqueeze(1)
        with exactly(columns.device):
            served = (reading.shares.unsqueeze(1) * times.exp()).unsqueeze(-2)
            busy = (served @ placement).squeeze(-2)
            # The norm, taken where nothing overflows.
            top = busy.amax(-1, keepdim=True).clamp(min=_LEAST_BUSY)
            norm = ((busy / top).clamp(min=1e-6) ** self.sharpness.exp()).sum(-1)
            bound = top.squeeze(-1).log() + norm.log() / self.sharpness.exp()
        return Prediction(times, busy, self.scale - bound + slack)

    def context(self, topology: Topology, reading: Reading, columns: Tensor) -> Tensor:
        """See ThroughputModel.context."""
        placement = F.one_hot(columns.unsqueeze(1), topology.workers).float()
        shared = self._shared(topology, reading, placement)
        return self._around(topology, reading.cores, shared)[0][0, 0]

    def _shared(self, topology: Sharing, reading: Reading, placement: Tensor) -> Tensor:
        """(P, n, W, demands of all levels) logarithms of what (P, n, S, W) schedules ask for."""
        with exactly(placement.device):
            core = placement.transpose(-2, -1) @ reading.demands.float().unsqueeze(1)
            sums = {"core": core}
            for level in self.levels[1:]:
                groups = {
                    "sibling": topology.siblings,
                    "cache": topology.caches,
                    "node": topology.nodes,
                }[level]
                sums[level] = groups.unsqueeze(-3) @ core
            return log(torch.cat([sums[level] for level in self.levels], -1))

    def _around(self, topology: Sharing, cores: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
        """(P, n, W, contexts) what a core hears of those around it, and (P, n) of the machine.

        Args:
            cores: (P, W, features).
            shared: (P, n, W, demands of all levels).
        """
        levels = [level.unsqueeze(-3) for level in (topology.caches, topology.nodes)]
        shares = [level / level.sum(-1, keepdim=True).clamp(min=1.0) for level in levels]
        # Workers that fill a batch up are alike with none, not even with themselves.
        exist = levels[-1].diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        is_full = isinstance(topology, Topology)  # a machine of its own fills nothing up

        def heard(values: Tensor) -> tuple[Tensor, ...]:
            own = values if is_full else values * exist
            mean = own.sum(-2, keepdim=True) / exist.sum(-2, keepdim=True)
            own = values if is_full else torch.where(exist > 0, values, -1e4)
            top = own.amax(-2, keepdim=True)
            near = [share.to(values.dtype) @ values for share in shares]
            return *near, *(whole.expand_as(values) for whole in (mean, top))

        own = _joined((cores.unsqueeze(1), shared), self._sizes(topology) if self.sizes else None)
        message = self.load(own)
        message = message + self.spread(torch.cat([message, *heard(message)], -1))
        around = heard(message)
        slack = self.slack(torch.cat([part[..., 0, :] for part in around[2:]], -1))
        return torch.cat(around, -1), slack.squeeze(-1).float()


def _joined(parts: Iterable[Tensor], sizes: Tensor | None) -> Tensor:
    """Features of cores side by side, with (..., W, sizes) that are the same for all schedules."""
    every = [*parts, *([] if sizes is None else [sizes.unsqueeze(-3)])]
    rows = np.broadcast_shapes(*(part.shape[:-1] for part in every))
    return torch.cat([part.expand(*rows, -1) for part in every], -1)
