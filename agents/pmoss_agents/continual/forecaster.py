"""Forecaster: learns from logged counters what co-tenants do next, and plans for that.

A log shows no co-tenants, but counters. ``Fit`` explains them, epoch after epoch: which cores lost
time, and how much of each node's memory bandwidth was taken. The network learns to foretell those
shares of the next epoch from those of all epochs before. Nobody tells it of the drift.

A recurrent network follows each node: its stream, and what its cores lose. It knows how long a
phase has lasted, and how long the phases before did. A second network looks at one core beside what
its node's network remembers. Both share their weights over nodes and cores, so one checkpoint
serves any machine.

The forecast is a distribution. The agent draws a few futures from it and plans for all of them, in
the described machine. A node's draw decides about its stream and all its cores together: one job
takes either memory or time. Draws are stratified, so that few of them cover what may happen.
A future may go on: what was drawn is shown to the network, and the next epoch is drawn from that.

Where the machine is not quite as described, each core loses some time by itself. With ``quiet`` the
agent tells that from co-tenants, and learns it within the episode.

Recurrent networks: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for
Statistical Machine Translation, EMNLP 2014 (gated recurrent units).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmoss_agents.agent import Array, Observation, OfflineAgent
from pmoss_agents.configs import LATER, checker
from pmoss_agents.continual.past import CORE_FEATURES, NODE_FEATURES, Past, seen
from pmoss_agents.devices import find_device, isolated_rng, learning_on, seed_torch
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_datasets import Dataset
from pmoss_datasets.continual.checks import MOST_FUTURES
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.planners import FittedPlanner
from pmoss_datasets.continual.rounds import Move, need_described
from pmoss_datasets.continual.thorough import Reading, ThoroughPlanner
from pmoss_datasets.continual.worlds import World
from pmoss_datasets.fairness import reads_environment
from pmoss_env.envs.continual.drift import MAX_SHARE
from pmoss_env.errors import CheckpointError, DatasetError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_NAMES, Float64Array, Int32Array

#: Streams are foretold as one of these: none, then ranges of the share of a node's memory.
EDGES = (0.0, 0.2, 0.45, 0.7, MAX_SHARE)


@dataclass(frozen=True)
class Config:
    """How the network is made and trained, and how the agent plans.

    Attributes:
        updates: gradient steps.
        batch_size: episodes per update.
        learning_rate: at its highest.
        width: of what is remembered of a node, and of the hidden layers.
        futures: drawn for each epoch.
        price: of a move between nodes, as a share of the throughput.
        save_every: updates between checkpoints.
        threads: of torch.
        seed: of weights and batches.
        ahead: epochs that futures go on for, with the search of ThoroughPlanner. 0: one epoch, with
            that of FittedPlanner.
        quiet: see Reading; 0 where ahead is.
        calm: see Fit; 0 where ahead is.
        device: where it learns, one of configs.DEVICES; it plans on the CPU.
    """

    updates: int = 600
    batch_size: int = 8
    learning_rate: float = 3e-3
    width: int = 64
    futures: int = 8
    price: float = 0.0005
    save_every: int = 100
    threads: int = 1
    seed: int = 0
    ahead: int = field(default=0, metadata=LATER)
    quiet: float = field(default=0.0, metadata=LATER)
    calm: float = field(default=0.0, metadata=LATER)
    device: str = field(default="cpu", metadata=LATER)

    def __post_init__(self) -> None:
        check = checker("forecaster", self)
        check("updates", self.updates >= 0, "not be negative")
        for name in ("batch_size", "width", "futures", "save_every"):
            check(name, getattr(self, name) >= 1, "be at least 1")
        check("ahead", 0 <= self.ahead <= 100, "lie in [0, 100]")
        check(
            "futures",
            self.futures * max(1, self.ahead) <= MOST_FUTURES,
            f"be at most {MOST_FUTURES:,}, those of all epochs ahead together",
        )
        check("quiet", 0 <= self.quiet < MAX_SHARE, f"lie in [0, {MAX_SHARE:g})")
        check("calm", 0 <= self.calm < 1, "lie in [0, 1)")
        for name in ("quiet", "calm"):
            check(name, self.ahead > 0 or getattr(self, name) == 0, "be 0 where ahead is 0")
        check("price", 0 <= self.price < math.inf, "be a number from 0")
        check("learning_rate", 0 < self.learning_rate < math.inf, "be a number above 0")


@dataclass(frozen=True)
class Forecast:
    """What may come next; N nodes, C worker cores, both after any number of axes.

    Attributes:
        streams: (..., N, 5) logarithms of the odds of each range of EDGES.
        stream_levels: (..., N, 4) the share of memory in each range but the first.
        busy: (..., C) logarithms of the odds that a core loses time.
        busy_levels: (..., C) the share of its time that it then loses.
    """

    streams: Tensor
    stream_levels: Tensor
    busy: Tensor
    busy_levels: Tensor


class Network(nn.Module):
    """The two networks; see the module's docstring."""

    _middle: Tensor
    _half: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        ranges = len(EDGES) - 1
        self.memory = nn.GRU(NODE_FEATURES, width, batch_first=True)
        self.of_node = nn.Sequential(
            nn.Linear(width + NODE_FEATURES, width), nn.SiLU(), nn.Linear(width, 2 * ranges + 1)
        )
        self.of_core = nn.Sequential(
            nn.Linear(width + NODE_FEATURES + CORE_FEATURES, width), nn.SiLU(), nn.Linear(width, 2)
        )
        edges = torch.tensor(EDGES)
        self.register_buffer("_middle", (edges[1:] + edges[:-1]) / 2, persistent=False)
        self.register_buffer("_half", (edges[1:] - edges[:-1]) / 2, persistent=False)

    def forward(
        self, nodes: Tensor, cores: Tensor, node_of: Tensor, before: Tensor | None = None
    ) -> tuple[Forecast, Tensor]:
        """Foretells the epoch after each one that is shown.

        Args:
            nodes: (B, T, N, 4) of Past.
            cores: (B, T, C, 10) of Past.
            node_of: (C,) the node of each core.
            before: what was remembered before the first epoch; None: nothing.

        Returns:
            The forecasts, (B, T, ...), and what to remember.
        """
        batch, epochs, count, features = nodes.shape
        rows = nodes.transpose(1, 2).reshape(batch * count, epochs, features)
        remembered, after = self.memory(rows, before)
        known = remembered.reshape(batch, count, epochs, -1).transpose(1, 2)
        known = torch.cat([known, nodes], -1)
        told = self.of_node(known)
        ranges = len(EDGES) - 1
        core = self.of_core(torch.cat([known[:, :, node_of], cores], -1))
        # What a core lost where it lost time, if it ever did.
        usual = torch.where(cores[..., -1] > 0, cores[..., -1], 0.5)
        return Forecast(
            told[..., : ranges + 1],
            self._middle + self._half * torch.tanh(told[..., ranges + 1 :]),
            core[..., 0],
            (usual + 0.2 * torch.tanh(core[..., 1])).clamp(0.0, MAX_SHARE),
        ), after


def draw(
    forecast: Forecast, machine: Machine, futures: int, rng: np.random.Generator
) -> list[Float64Array]:
    """Futures, equally likely: (cores + nodes,) shares of each.

    A node's number between 0 and 1 decides all of its future. Cores are busy from below: those with
    odds above it. Streams are taken from above, the strongest first.

    Args:
        forecast: of one epoch, without further axes; or of each future, along the first axis.
        machine: what it is of.
        futures: how many; a node's numbers are spread evenly over them.
        rng: the only source of chance.
    """
    turns = rng.permuted(np.tile(np.arange(futures), (machine.nodes, 1)), axis=1)
    numbers = (turns + rng.random((machine.nodes, futures))) / futures
    odds = torch.softmax(forecast.streams, -1).double().numpy()
    # (..., N, 5) the chance of at least each range.
    at_least = np.cumsum(odds[..., ::-1], axis=-1)[..., ::-1]
    some = forecast.stream_levels.double().numpy()
    levels = np.concatenate([np.zeros((*some.shape[:-1], 1)), some], axis=-1)
    busy = torch.sigmoid(forecast.busy).double().numpy()
    lost = forecast.busy_levels.double().numpy()
    workers = machine.workers
    found = []
    for future, number in enumerate(numbers.T):
        own = future if busy.ndim > 1 else ...
        shares = np.zeros(machine.cores + machine.nodes)
        taken = number[machine.node_of_core[workers]] < busy[own]
        shares[workers] = np.where(taken, lost[own], 0.0)
        which = np.count_nonzero((1.0 - number)[:, None] < at_least[own][:, 1:], axis=1)
        shares[machine.cores :] = levels[own][np.arange(machine.nodes), which]
        found.append(shares)
    return found


def losses(forecast: Forecast, streams: Tensor, busy: Tensor) -> Tensor:
    """How wrong forecasts are: of ranges and levels, of cores and levels.

    Args:
        forecast: (B, T, ...) of the epochs that came.
        streams: (B, T, N) that were taken in them.
        busy: (B, T, C) time that was lost in them.
    """
    edges = torch.tensor(EDGES[1:-1], device=streams.device)
    which = torch.bucketize(streams.contiguous(), edges) + 1
    which = torch.where(streams > 0, which, 0)
    taken = forecast.stream_levels.gather(-1, (which - 1).clamp(min=0)[..., None])[..., 0]
    off = (taken - streams).square() * (which > 0)
    of_cores = F.binary_cross_entropy_with_logits(
        forecast.busy, (busy > 0).float(), reduction="none"
    )
    lost = (forecast.busy_levels - busy).square() * (busy > 0)
    nodes, batch = streams.shape[-1], streams[..., 0].numel()
    return (
        F.cross_entropy(forecast.streams.flatten(0, -2), which.flatten())
        + 10.0 * off.sum() / (batch * nodes)
        + (of_cores.sum() + 10.0 * lost.sum()) / (batch * nodes)
    )


def fitted_shares(dataset: Dataset, quiet: float = 0.0, calm: float = 0.0) -> Float64Array:
    """(episodes, epochs + 1, cores + nodes) what the logged counters say of co-tenants.

    Args:
        dataset: of continual scheduling.
        quiet: see Config.
        calm: likewise.

    Raises:
        DatasetError: no episodes of continual scheduling, or such as cannot be explained.
    """
    if dataset.domain.name != CONTINUAL.name:
        raise DatasetError(
            f"{dataset.path}: holds episodes of {dataset.domain.name!r}, not of {CONTINUAL.name!r}"
        )
    kwargs = dataset.metadata.env_kwargs
    env = CONTINUAL.make_env(kwargs)
    told = {
        "counters": env.arguments.counters == "all",
        "drift": env.arguments.family.only_co_tenants,
    }
    for name, tells in told.items():
        if not tells:
            raise DatasetError(
                f"{dataset.path}: {name} = {kwargs[name]!r}: co-tenants cannot be fitted to its "
                "counters; learn from other episodes"
            )
    counters = dataset.column("observations/slice_counters")
    tiles = dataset.column("observations/slice_tiles")
    begins = dataset.column("observations/moves_left")[..., 0] == 1.0
    found = []
    try:
        for number, seed in enumerate(dataset.column("seed")):
            # Only the workload instance is taken of it, which every planner knows.
            env.reset(seed=int(seed))
            reading = Reading(World(env.session), quiet, calm)
            rows = np.flatnonzero(begins[number])[: env.arguments.epochs + 1]
            shares = []
            for row in rows:
                cores = env.machine.core_of_tile[tiles[number, row]]
                shares.append(reading.see(cores, counters[number, row].astype(np.float64)))
            found.append(np.stack(shares))
    finally:
        env.close()
    return np.stack(found)


class _Planner(ThoroughPlanner):
    """Plans for what the network foretells."""

    def __init__(self, network: Network, config: Config) -> None:
        ahead = max(1, config.ahead)
        super().__init__(config.price, config.futures, ahead, config.quiet, config.calm)
        self.name = Forecaster.name
        self._network, self._config = network, config

    def start(self) -> None:
        """See RoundPolicy."""
        super().start()
        machine = self.env.machine
        self._past = Past(machine)
        self._node_of = torch.from_numpy(machine.node_of_core[machine.workers]).long()
        self._remembered: Tensor | None = None

    def plan(self, cores: Int32Array) -> list[Move]:
        """As the planner that the config asks for."""
        return super().plan(cores) if self._config.ahead else FittedPlanner.plan(self, cores)

    def foretold(self, shares: Float64Array) -> Sequence[Float64Array]:
        """Draws from the forecast: all futures of the next epoch, then of the one after that."""
        forecast, self._remembered = self._told([self._past], [shares], self._remembered)
        one = Forecast(**{name: part[0] for name, part in vars(forecast).items()})
        machine, futures = self.env.machine, self._config.futures
        found = drawn = draw(one, machine, futures, self.rng)
        if self._config.ahead > 1:
            pasts = [copy.copy(self._past) for _ in range(futures)]
            memory = self._remembered.repeat(1, futures, 1)
            for _ in range(1, self._config.ahead):
                forecast, memory = self._told(pasts, drawn, memory)
                drawn = draw(forecast, machine, futures, self.rng)
                found = found + drawn
        return found

    def _told(
        self, pasts: Sequence[Past], shares: Sequence[Float64Array], before: Tensor | None
    ) -> tuple[Forecast, Tensor]:
        """The forecast after one more epoch of each past, along the first axis."""
        seen = [past.see(each) for past, each in zip(pasts, shares, strict=True)]
        nodes, cores = (
            torch.from_numpy(np.stack(part))[:, None] for part in zip(*seen, strict=True)
        )
        # A node's memory is one row of the network's, and rows of one past stand together.
        with torch_threads(1), torch.no_grad():
            forecast, after = self._network(nodes, cores, self._node_of, before)
        return Forecast(**{name: part[:, 0] for name, part in vars(forecast).items()}), after


@reads_environment
class Forecaster(OfflineAgent[Dataset]):
    """The agent; see the module's docstring."""

    name = "forecaster"
    domain = "continual"
    Config = Config
    TASK = ("counters",)

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.config: Config
        self.network: Network | None = None
        self._optimiser: torch.optim.Adam | None = None
        self._planner: _Planner | None = None

    # ---- learning

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """Only the counters: any machine and number of slices will do."""
        return {"counters": list(COUNTER_NAMES)}

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        """Updates of the network; the metric is ``loss``."""
        config, machine = self.config, dataset.machine
        shares = fitted_shares(dataset, config.quiet, config.calm)
        parts = [seen(machine, episode) for episode in shares]
        device = find_device(config.device)
        nodes, cores = (
            torch.from_numpy(np.stack(part)).to(device) for part in zip(*parts, strict=True)
        )
        streams = torch.from_numpy(shares[..., machine.cores :]).float().to(device)
        busy = torch.from_numpy(shares[..., machine.workers]).float().to(device)
        node_of = torch.from_numpy(machine.node_of_core[machine.workers]).long().to(device)
        self.task = self.task_of(dataset)
        with torch_threads(config.threads), isolated_rng(device):
            if self.network is None:
                seed_torch(config.seed, device)
                self.network = Network(config.width)
            if self._optimiser is None:
                self._optimiser = self._new_optimiser()
            network, optimiser = self.network, self._optimiser

            def step(update: int) -> Callable[[], dict[str, float]]:
                for group in optimiser.param_groups:
                    group["lr"] = config.learning_rate * cosine(math.pi * update / config.updates)
                rng = np.random.default_rng([config.seed, update])
                rows = torch.from_numpy(rng.integers(len(shares), size=config.batch_size))
                optimiser.zero_grad(set_to_none=True)
                forecast, _ = network(nodes[rows, :-1], cores[rows, :-1], node_of)
                loss = losses(forecast, streams[rows, 1:], busy[rows, 1:])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                told = float(loss.detach())
                check_loss(self.name, update, told)

                def change() -> dict[str, float]:
                    optimiser.step()
                    return {"loss": told}

                return change

            with learning_on(device, network, optimiser):
                yield Course(step, config.updates, config.save_every)

    def _new_optimiser(self) -> torch.optim.Adam:
        assert self.network is not None
        return torch.optim.Adam(self.network.parameters(), lr=self.config.learning_rate)

    # ---- acting

    def check_env(self, env: Any) -> None:
        """UnsupportedError for a machine without parameters: it plans in a model."""
        need_described(env, self.name)

    def begin(self, env: Any, rng: np.random.Generator) -> None:
        """Takes the environment and the chance of an episode that has just begun.

        Raises:
            CheckpointError: nothing was learned yet.
        """
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        self._planner = _Planner(self.network, self.config)
        self._planner.begin(env, rng)

    def act(self, observation: Observation, action_mask: Array | None = None) -> Any:
        """The next move: two int32, slice and tile; see Agent.act."""
        if self._planner is None:
            raise CheckpointError(f"{self.name}: call begin(env, rng) first: it plans in its model")
        if action_mask is None:
            action_mask = np.concatenate([observation["slice_mask"], observation["tile_mask"]])
        return self._planner.act(observation, action_mask)

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.network is not None
        arrays = weights_of(self.network, "network/")
        if self._optimiser is not None:
            arrays |= moments_of(self._optimiser, "optimiser/")
        return arrays, {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            self.network = Network(self.config.width)
        load_weights(self.network, arrays, "network/")
        self.updates = int(values["updates"])
        self._optimiser = self._new_optimiser()
        load_moments(self._optimiser, arrays, "optimiser/")
