"""The network of the pair policy, and schedules that it chooses; see ``pair_policy.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.planning.model import Reader, Reading, mean_log_time
from pmoss_agents.spatial.planning.topology import Topology


@dataclass(frozen=True)
class Scores:
    """What the network makes of one incumbent: all that the placing needs.

    Attributes:
        times: (S, W), 1 being the mean of all cores if all were equally full.
        slices: (S, hidden) part of the hidden layer.
        cores: (W, hidden) likewise.
        demands: (3, S, hidden) what a placed slice adds on its core, beside its cache, on its node.
        ends: (hidden,) part of when the core would end.
        last: (hidden,) the last layer.
        haste: () how much an early end counts.
    """

    times: Tensor
    slices: Tensor
    cores: Tensor
    demands: Tensor
    ends: Tensor
    last: Tensor
    haste: Tensor

    def order(self) -> Tensor:
        """(S,) the slices, those first that take longest."""
        return torch.argsort(-self.times.mean(1), stable=True)

    def logits(self, slices: Tensor, hidden: Tensor, ends: Tensor) -> Tensor:
        """(..., W) of placing slices, (...), given the cores' (..., W, hidden) and ends."""
        inner = self.slices[slices].unsqueeze(-2) + hidden + ends.unsqueeze(-1) * self.ends
        return F.silu(inner) @ self.last - self.haste * ends


class PairNetwork(nn.Module):
    """Reads an incumbent, and scores every pair of slice and core."""

    usual: Tensor

    def __init__(
        self,
        counters: int,
        *,
        width: int,
        hidden: int,
        features: int,
        heads: int,
        blocks: int,
        demands: int,
    ) -> None:
        """Makes a network.

        Args:
            counters: H, of each slice.
            hidden: width of the layer that is computed anew for every placed slice.
            features: of a slice and of a core; a multiple of ``heads``.
            demands: of a slice on the core, cache and node that it shares with others.
        """
        super().__init__()
        self.reader = Reader(counters, width=width, features=features, demands=demands)
        self.register_buffer("usual", torch.tensor(0.0))

        def attention() -> nn.ModuleList:
            return nn.ModuleList(
                nn.MultiheadAttention(features, heads, batch_first=True) for _ in range(blocks)
            )

        self.to_cores, self.to_slices = attention(), attention()
        self.time_of_slice = nn.Linear(features, width)
        self.time_of_core = nn.Linear(features, width, bias=False)
        self.time = nn.Linear(width, 1)
        # Untrained, all pairs take the usual time: no core is favoured by chance.
        nn.init.zeros_(self.time.weight)
        nn.init.zeros_(self.time.bias)
        self.hidden_of_slice = nn.Linear(features, hidden)
        self.hidden_of_core = nn.Linear(features, hidden, bias=False)
        self.hidden_of_demands = nn.ModuleList(
            nn.Linear(demands, hidden, bias=False) for _ in range(3)
        )
        self.ends = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Parameter(torch.zeros(hidden))
        # Draws differ by about a hundredth of a full core: wider ones are no better than chance.
        self.haste = nn.Parameter(torch.tensor(4.5))

    def set_up(self, counters: Tensor) -> None:
        """Takes the scales of the inputs and the mean time of a query from (n, H) counters."""
        self.reader.set_scales(counters)
        self.usual.fill_(mean_log_time(counters))

    def _read(
        self, topology: Topology, counters: Tensor, columns: Tensor
    ) -> tuple[Reading, Tensor, Tensor]:
        """The reading of P incumbents; slices and cores after the attention."""
        reading = self.reader.read(topology, counters, columns)
        slices, cores = reading.slices, reading.cores
        for to_cores, to_slices in zip(self.to_cores, self.to_slices, strict=True):
            attended = to_cores(slices, cores, cores, need_weights=False)[0]
            cores = cores + to_slices(cores, slices, slices, need_weights=False)[0]
            slices = slices + attended
        return reading, slices, cores

    def _logs(self, pairs: Tensor) -> Tensor:
        """(...) logarithms of the microseconds per query of (..., width) pairs."""
        logs: Tensor = self.usual + self.time(F.silu(pairs)).squeeze(-1)
        return logs

    def times(self, topology: Topology, counters: Tensor, columns: Tensor, later: Tensor) -> Tensor:
        """Predicts what a query of each slice takes where it goes.

        Args:
            counters: (P, S, H) of each slice in P incumbents.
            columns: (P, S) the worker that had it.
            later: (P, S) the worker that it goes to.

        Returns:
            (P, S) logarithms of the microseconds per query.
        """
        _, slices, cores = self._read(topology, counters, columns)
        of_core = self.time_of_core(cores)
        index = later.unsqueeze(-1).expand(-1, -1, of_core.shape[-1])
        return self._logs(self.time_of_slice(slices) + of_core.gather(1, index))

    def forward(self, topology: Topology, counters: Tensor, columns: Tensor) -> Scores:
        """Reads one incumbent.

        Args:
            counters: (S, H) of each slice.
            columns: (S,) the worker that had it.
        """
        reading, slices, cores = self._read(topology, counters[None], columns[None])
        pairs = self.time_of_slice(slices[0])[:, None] + self.time_of_core(cores[0])
        times = reading.shares[0][:, None] * self._logs(pairs).exp()
        demands = reading.demands[0] / reading.demands[0].sum(0) * len(topology.tiles)
        return Scores(
            times / (times.mean(1).sum() / len(topology.tiles)).clamp(min=1e-12),
            self.hidden_of_slice(slices[0]),
            self.hidden_of_core(cores[0]),
            torch.stack([layer(demands) for layer in self.hidden_of_demands]),
            self.ends,
            self.last,
            self.haste.exp(),
        )


def draw(scores: Scores, topology: Topology, noise: Array) -> Array:
    """Draws schedules.

    Args:
        noise: (S, n, W) float32, of Gumbel's distribution: the highest sum of logit and noise is a
            draw by the logits' chances.

    Returns:
        (n, S) the worker of each slice.
    """
    slices, n, _ = noise.shape
    gumbel = torch.from_numpy(noise)
    chosen = torch.zeros(n, slices, dtype=torch.int64)
    busy = torch.zeros(n, len(topology.tiles))
    hidden = scores.cores.repeat(n, 1, 1)
    places = (torch.eye(len(topology.tiles)), topology.caches, topology.nodes)
    for slice_ in scores.order():
        ends = busy + scores.times[slice_]
        core = (scores.logits(slice_, hidden, ends) + gumbel[slice_]).argmax(1)
        chosen[:, slice_] = core
        busy = torch.where(places[0][core] > 0, ends, busy)
        for shared, demand in zip(places, scores.demands, strict=True):
            hidden += shared[core].unsqueeze(-1) * demand[slice_]
    return chosen.numpy()


def greedy(scores: Scores, topology: Topology, max_per_core: int | None = None) -> Array:
    """Places each slice on the likeliest core: in numpy, for its calls on small arrays are faster.

    Args:
        max_per_core: slices that a core may get; None: any number.

    Returns:
        (S,) the worker of each slice.
    """
    times, slices, cores, demands, ends_part, last, haste = (
        part.detach().numpy() for part in vars(scores).values()
    )
    busy, hidden = np.zeros(len(cores), np.float32), cores.copy()
    count = np.zeros(len(cores), dtype=np.int64)
    chosen = np.zeros(len(slices), dtype=np.int64)
    beside = [
        [np.flatnonzero(row) for row in kind.numpy()] for kind in (topology.caches, topology.nodes)
    ]
    for slice_ in scores.order().tolist():
        ends = busy + times[slice_]
        inner = hidden + slices[slice_] + ends[:, None] * ends_part
        inner /= 1 + np.exp(-inner.clip(-60))
        logits = inner @ last - haste * ends
        if max_per_core is not None:
            logits[count >= max_per_core] = -np.inf
        core = int(logits.argmax())
        chosen[slice_] = core
        busy[core] = ends[core]
        count[core] += 1
        hidden[core] += demands[0, slice_]
        hidden[beside[0][core]] += demands[1, slice_]
        hidden[beside[1][core]] += demands[2, slice_]
    return chosen
