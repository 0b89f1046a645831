"""A model of throughput that shares its weights over slices and cores.

A query of slice s takes ``t[s, c]`` on core c, and a share ``q[s]`` of all queries goes to slice s.
Core c is busy for ``D[c] = sum(q[s] t[s, c])`` per query. The fullest core bounds the throughput;
how sharply it does is learned: ``log X = a - log(norm_p(D))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.planning.topology import Sharing, Topology
from pmoss_env.types import COUNTER_INDEX

QUERIES, ELAPSED = COUNTER_INDEX["queries"], COUNTER_INDEX["elapsed_us"]
#: The groups of inputs that a model reads: counters and their sums, and what one event costs.
GROUPS = (*SUMS, "cost")
#: And what a model for machines that it never met may read: which workers are siblings, how large
#: caches are, and the time that each slice took, which it then only changes.
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
_LEAST_COST_SPREAD, _MAX_COST = 0.1, 5.0
#: The levels that a core shares with others, itself the first.
_LEVELS = ("core", "sibling", "cache", "node")
#: Below this, in million counts per second, a counter is as good as 0.
_LEAST = 1e-4
#: Rows of hidden layers that are computed at a time: those of a few hundred KiB stay in a cache.
ROWS = 1024
#: Inputs of a linear layer that MKL adds up one after the other, from so many rows on.
_SUMMED_AT_ONCE, _LEAST_ROWS = 192, 4
#: Whether PyTorch was built with oneDNN, and lets us call it.
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn, "_linear_pointwise"
)


@dataclass(frozen=True)
class Reading:
    """What a model reads off a batch of incumbents: P schedules, S slices, W workers.

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

    def repeated(self, schedules: int) -> Reading:
        """The same, P = 1, for so many schedules."""
        return Reading(*(part.expand(schedules, *part.shape[1:]) for part in vars(self).values()))


def linear(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``F.linear`` for float32.

    Where nothing is learned, oneDNN multiplies: on processors of AMD it takes half the time of
    MKL, which PyTorch asks. MKL adds up more inputs than _SUMMED_AT_ONCE in two halves, and so does
    this: another order would change the last bits.
    """
    asks = _ONEDNN and torch.is_inference_mode_enabled() and values.device.type == "cpu"
    outputs, inputs = weight.shape
    # For one output it is no faster; where the rows of a weight lie apart, a thousand times slower.
    # MKL adds up an odd number, or those of a few rows, in another way.
    halves = inputs % 2 == 0 and values.numel() >= _LEAST_ROWS * inputs
    once = inputs <= _SUMMED_AT_ONCE
    if not asks or outputs == 1 or inputs > 2 * _SUMMED_AT_ONCE or not (once or halves):
        return F.linear(values, weight, bias)
    ask = torch.ops.mkldnn._linear_pointwise
    if once:
        return ask(values, weight.contiguous(), bias, "none", [], "")  # type: ignore[no-any-return]
    (first, second), (one, other) = (
        [half.contiguous() for half in part.chunk(2, dim=-1)] for part in (values, weight)
    )
    added: Tensor = ask.binary(second, ask(first, one, bias, "none", [], ""), other, None, "add")
    return added


class _Layers(nn.Sequential):
    """Layers that multiply by linear(); where nothing is learned, SiLU writes into its inputs."""

    def forward(self, input: Tensor) -> Tensor:
        """As of nn.Sequential."""
        values = input
        for layer in self:
            if isinstance(layer, nn.Linear):
                values = linear(values, layer.weight, layer.bias)
            else:
                values = F.silu(values, inplace=torch.is_inference_mode_enabled())
        return values


def layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of a width, and linear outputs."""
    return _Layers(
        *(nn.Linear(inputs, width), nn.SiLU()),
        *(nn.Linear(width, width), nn.SiLU()),
        nn.Linear(width, outputs),
    )


def log(values: Tensor) -> Tensor:
    """Logarithms of counts in million per second, finite where nothing was counted."""
    return torch.log(values + _LEAST)


def mean_log_time(counters: Tensor) -> float:
    """The logarithm of the mean microseconds per query of (n, H) counters."""
    queries = counters[:, QUERIES].sum().clamp(min=1e-9)
    return float((counters[:, ELAPSED].sum() / queries).log())


def _costs(counters: Tensor) -> Tensor:
    """(..., COSTS) logarithms of what events cost, NaN where one was not counted."""
    columns = []
    for name, others in COSTS:
        above, below = COUNTER_INDEX[name], [COUNTER_INDEX[other] for other in others]
        if max(above, *below) >= counters.shape[-1]:  # of a dataset that is older than the counter
            columns.append(torch.full_like(counters[..., 0], torch.nan))
            continue
        # No list as an index: it would be copied to a GPU each time.
        events, causes = counters[..., above], counters[..., below[0]]
        for index in below[1:]:
            causes = causes + counters[..., index]
        ratio = log(events) - log(causes)
        columns.append(torch.where((events > 0) & (causes > 0), ratio, torch.nan))
    return torch.stack(columns, -1)


def exactly(device: torch.device) -> torch.autocast:
    """Products in float32 inside a training in bfloat16: sums of counts have more digits."""
    return torch.autocast(device.type, enabled=False)


def at(values: Tensor, columns: Tensor) -> Tensor:
    """(P, S, n) of (P, W, n) values, those of (P, S) workers."""
    return values.gather(1, columns.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


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
            demands: of a slice on the core, cache, node and machine that it shares with others.
            inputs: some of MORE_GROUPS.
        """
        super().__init__()
        self.inputs = tuple(inputs)
        self.register_buffer("mean", torch.zeros(counters))
        self.register_buffer("std", torch.ones(counters))
        numbers = counters
        if "cost" in self.inputs:
            self.register_buffer("cost_mean", torch.zeros(len(COSTS)))
            self.register_buffer("cost_std", torch.ones(len(COSTS)))
            numbers += len(COSTS)
        self.levels = tuple(level for level in _LEVELS if level in self.inputs)
        shared = len(self.levels) + ("machine" in self.inputs)
        self.sizes = 2 * ("topology" in self.inputs) + 2 * ("capacity" in self.inputs)
        self.of_slice = layers((shared + ("slice" in self.inputs)) * numbers, width, features)
        self.of_core = layers(shared * numbers + 1 + self.sizes, width, features)
        self.demand = nn.Linear(features, demands)

    def set_scales(self, counters: Tensor) -> None:
        """Takes the scales of the inputs from (n, H) counters."""
        logs = log(counters.double())
        std = logs.std(0)
        # A counter that never changes says nothing; dividing by its rounding would make it loud.
        std[std < 1e-3] = 1.0
        self.mean.copy_(logs.mean(0))
        self.std.copy_(std)
        if "cost" in self.inputs:
            costs = _costs(counters.double())
            counted = costs.isfinite()
            count = counted.sum(0).clamp(min=1)
            mean = costs.nan_to_num(0.0).sum(0) / count
            off = torch.where(counted, costs - mean, 0.0)
            self.cost_mean.copy_(mean)
            self.cost_std.copy_(((off**2).sum(0) / count).sqrt().clamp(min=_LEAST_COST_SPREAD))

    def read(self, topology: Sharing, counters: Tensor, columns: Tensor) -> Reading:
        """Reads the counters of schedules that ran.

        Args:
            counters: (P, S, H) of each slice, million per second.
            columns: (P, S) the worker that had it.
        """
        with exactly(counters.device):
            of_slices, of_cores = self._inputs(topology, counters, columns)
        features, cores = self.mix(
            topology, self.of_slice(of_slices), self.of_core(of_cores), columns
        )
        queries = counters[..., QUERIES]
        return Reading(
            features,
            cores,
            F.softplus(self.demand(features)),
            queries / queries.sum(1, keepdim=True).clamp(min=1e-9),
            self._base(counters),
        )

    def _inputs(
        self, topology: Sharing, counters: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(P, S, n) what of_slice reads, and (P, W, m) what of_core reads."""
        slices, workers = counters.shape[1], topology.workers
        core = F.one_hot(columns, workers).float().transpose(1, 2) @ counters
        ran = (core[..., ELAPSED, None] > 0).float()
        sums = {"core": core, "cache": topology.caches @ core, "node": topology.nodes @ core}
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core
        of_slices = [self._standard(counters)] if "slice" in self.inputs else []
        of_cores = []
        for level in self.levels:
            part = self._standard(sums[level])
            of_slices.append(at(part, columns))
            of_cores.append(part * ran if level == "core" else part)
        if "machine" in self.inputs:
            whole = self._standard(counters.sum(1, keepdim=True))
            of_slices.append(whole.expand(-1, slices, -1))
            of_cores.append(whole.expand(-1, workers, -1))
        of_cores.append(ran)
        if self.sizes:
            of_cores.append(self._sizes(topology).expand(len(counters), -1, -1))
        return torch.cat(of_slices, -1), torch.cat(of_cores, -1)

    def mix(
        self, topology: Sharing, slices: Tensor, cores: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Features of slices and cores that also know of each other; here as they are.

        Args:
            slices: (P, S, features).
            cores: (P, W, features).
            columns: (P, S) the worker that each slice ran on.
        """
        return slices, cores

    def _sizes(self, topology: Sharing) -> Tensor:
        """(W, sizes): what the description says of each worker's place."""
        groups = {"topology": topology.sizes, "capacity": topology.capacity}
        return torch.cat([part for name, part in groups.items() if name in self.inputs], -1)

    def _base(self, counters: Tensor) -> Tensor:
        """Reading.base; of a slice that served no query the mean of the others."""
        elapsed, queries = counters[..., ELAPSED], counters[..., QUERIES]
        if "measured" not in self.inputs:
            return torch.zeros_like(elapsed)
        ran = (elapsed > 0) & (queries > 0)
        times = torch.where(ran, log(elapsed) - log(queries), 0.0)
        usual = times.sum(1, keepdim=True) / ran.sum(1, keepdim=True).clamp(min=1)
        return torch.where(ran, times, usual)

    def _standard(self, values: Tensor) -> Tensor:
        """Counters, or sums of them, as the network reads them."""
        counts = (log(values) - self.mean) / self.std
        if "cost" not in self.inputs:
            return counts
        costs = (_costs(values) - self.cost_mean) / self.cost_std
        costs = costs.clamp(-_MAX_COST, _MAX_COST).nan_to_num(0.0)
        return torch.cat([counts, costs], -1)


class ThroughputModel(Reader):
    """A model of throughput; see the module's docstring."""

    def __init__(
        self,
        counters: int,
        *,
        width: int,
        features: int,
        demands: int,
        inputs: Sequence[str] = GROUPS,
        time_width: int | None = None,
        contexts: int = 0,
    ) -> None:
        """Makes a model; arguments as of Reader, and two more.

        Args:
            time_width: of the layers that predict a time; None: width.
            contexts: further features of a core under the schedule that is asked about.
        """
        super().__init__(counters, width=width, features=features, demands=demands, inputs=inputs)
        self.contexts = contexts
        # What is shared with others, then what the machine bears.
        sums = len(self.levels) + ("machine" in self.inputs)
        inputs_of_time = 2 * features + sums * demands + self.sizes + contexts
        self.time = layers(inputs_of_time, time_width or width, 1)
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
        usual = 0.0 if "measured" in self.inputs else mean_log_time(counters)
        nn.init.constant_(last.bias, usual)

    def forward(
        self, topology: Sharing, reading: Reading, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Predicts other schedules of the same slices.

        Args:
            columns: (P, S) the worker that each slice goes to.

        Returns:
            (P, S) logarithms of the microseconds per query, and (P,) of the throughput.
        """
        placement = F.one_hot(columns, topology.workers).float()
        core = placement.transpose(1, 2) @ reading.demands
        sums = {"core": core, "cache": topology.caches @ core, "node": topology.nodes @ core}
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core
        shared = [log(at(sums[level], columns)) for level in self.levels]
        inputs = [reading.slices, at(reading.cores, columns), *shared]
        if "machine" in self.inputs:
            machine = reading.demands.sum(1, keepdim=True).expand(-1, columns.shape[1], -1)
            inputs.append(log(machine))
        if self.sizes:
            sizes = self._sizes(topology).expand(len(columns), -1, -1)
            inputs.append(at(sizes, columns))
        times = self.time(torch.cat(inputs, -1)).squeeze(-1)
        if "measured" in self.inputs:
            times = times + reading.base
        busy = (placement * (reading.shares * times.exp()).unsqueeze(-1)).sum(1)
        # The norm, taken where nothing overflows.
        top = busy.amax(-1, keepdim=True)
        norm = ((busy / top).clamp(min=1e-6) ** self.sharpness.exp()).sum(-1)
        bound = top.squeeze(-1).log() + norm.log() / self.sharpness.exp()
        return times, self.scale - bound

    def several(
        self, topology: Sharing, reading: Reading, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """forward() of (n, S) schedules for one incumbent, P = 1, up to rounding: (n, S), (n,)."""
        return self.forward(topology, reading.repeated(len(columns)), columns)

    def context(self, topology: Topology, reading: Reading, columns: Tensor) -> Tensor:
        """(W, contexts) further features of the cores under one schedule, P = 1."""
        raise NotImplementedError

    def everywhere(self, topology: Topology, reading: Reading, columns: Tensor) -> Tensor:
        """Predicts each slice on each worker while the others stay: one schedule, P = 1.

        What context() says stays as it is, too: one slice of many changes it little.

        Returns:
            (S, W) logarithms of the microseconds per query.
        """
        placement = F.one_hot(columns[0], topology.workers).float()
        own = reading.demands[0].unsqueeze(1)
        core = placement.T @ reading.demands[0]
        first_cache, first_node = topology.first_of_cache, topology.first_of_node
        cache, node = topology.caches[first_cache] @ core, topology.nodes[first_node] @ core
        # A slice adds its demand where it is not already.
        sums = {
            "core": (core, placement),
            "cache": (cache, placement @ topology.caches[:, first_cache]),
            "node": (node, placement @ topology.nodes[:, first_node]),
        }
        if "sibling" in self.levels:
            sums["sibling"] = topology.siblings @ core, placement @ topology.siblings
        spread = {"cache": topology.cache, "node": topology.node}
        # Where no worker has a sibling, what siblings bear is what the core bears.
        repeats = "core" in self.levels and bool((topology.siblings.sum(0) == 1).all())
        # The first layer is linear: each part is done once, not once per slice and core.
        first = self.time[0]
        assert isinstance(first, nn.Linear)
        features, demands = reading.slices.shape[-1], reading.demands.shape[-1]
        widths = [features, features, *[demands] * len(self.levels)]
        widths += [demands] * ("machine" in self.inputs) + [self.sizes]
        if self.contexts:
            widths.append(self.contexts)
        of_slice, of_core, *others = torch.split(first.weight, widths, dim=1)
        of_context = others.pop() if self.contexts else None
        of_machine: Tensor = first.bias
        if "machine" in self.inputs:
            of_machine = log(reading.demands[0].sum(0)) @ others[-2].T + of_machine
        slices = reading.slices[0] @ of_slice.T + of_machine
        cores = reading.cores[0] @ of_core.T
        if of_context is not None:
            cores = cores + self.context(topology, reading, columns) @ of_context.T
        if self.sizes:
            cores = cores + self._sizes(topology) @ others[-1].T
        weights = [weight.contiguous() for weight in others[: len(self.levels)]]
        hidden_layers, parts = self.time[1:], []
        # MKL adds up the last few of an odd number of rows in another order.
        step = max(16, ROWS // topology.workers // 16 * 16)
        for start in range(0, len(own), step):
            rows = slice(start, start + step)
            # In place: these are the largest arrays of a plan.
            hidden: Tensor | None = None
            for level, weight in zip(self.levels, weights, strict=True):
                if not (repeats and level == "sibling"):
                    now, already = sums[level]
                    asked = now.unsqueeze(0) + own[rows] * (1 - already[rows]).unsqueeze(-1)
                    asked = asked.add_(_LEAST).log_()
                part = linear(asked, weight)
                part = part.index_select(1, spread[level]) if level in spread else part
                hidden = part if hidden is None else hidden.add_(part)
            placed = slices[rows].unsqueeze(1) + cores
            hidden = placed if hidden is None else hidden.add_(placed)
            parts.append(hidden_layers(hidden).squeeze(-1))
        times = torch.cat(parts)
        if "measured" in self.inputs:
            times = times + reading.base[0].unsqueeze(1)
        return times
