"""Forecaster: learns from logged counters what co-tenants do next, and plans for that.

A log shows no co-tenants, but counters. ``Fit`` explains them, epoch after epoch: which cores lost
time, and how much of each node's memory bandwidth was taken. The network learns to predict those
shares of the next epoch from those of all epochs before. It has no input about the drift.

A recurrent network follows each node: its stream, and what its cores lose. It keeps how long a
phase has lasted, and how long the phases before did. A second network looks at one core beside what
its node's network remembers. Both share their weights over nodes and cores, so one checkpoint
serves any machine.

The forecast is a distribution. The agent draws a few futures from it and plans for all of them, in
the described machine. A node's draw decides about its stream and all its cores together: one job
takes either memory or time. Draws are stratified, so that few of them cover what may happen.
A future may go on: what was drawn is shown to the network, and the next epoch is drawn from that.

Where the machine is not quite as described, each core loses some time by itself. With ``quiet`` the
agent separates that from co-tenants, and learns it within the episode.

Recurrent networks: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for
Statistical Machine Translation, EMNLP 2014 (gated recurrent units).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.checks import no_dataset
from pmoss_agents.configs import Settings
from pmoss_agents.continual.base import RoundAgent
from pmoss_agents.continual.forecaster_network import (
    EDGES,
    Forecast,
    History,
    Network,
    draw,
    inputs_of,
)
from pmoss_agents.network_agent import NetworkAgent
from pmoss_agents.pytorch import F, Tensor, torch
from pmoss_agents.trainer import Course, cosine
from pmoss_agents.weights import torch_threads
from pmoss_datasets import Dataset
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.planners import MOST_FUTURES, FittedPlanner
from pmoss_datasets.continual.rounds import Move, need_described
from pmoss_datasets.continual.thorough import Reading, ThoroughPlanner
from pmoss_datasets.continual.worlds import World
from pmoss_datasets.fairness import reads_environment
from pmoss_env.envs.continual.drift import MAX_SHARE
from pmoss_env.errors import CheckpointError, DatasetError
from pmoss_env.types import COUNTER_NAMES, Float64Array, Int32Array


@dataclass(frozen=True)
class Config(Settings):
    """How the network is made and trained, and how the agent plans."""

    agent: ClassVar[str] = "forecaster"
    BOUNDS: ClassVar = {
        "ahead": "[0, 100]",
        "quiet": f"[0, {MAX_SHARE:g})",
        "calm": "[0, 1)",
        "price": "[0, inf)",
        "learning_rate": "(0, inf)",
    }

    updates: int = 600  # gradient steps
    batch_size: int = 8  # episodes per update
    learning_rate: float = 3e-3  # at its highest
    width: int = 64  # of what is remembered of a node, and of the hidden layers
    futures: int = 8  # drawn for each epoch
    price: float = 0.0005  # of a move between nodes, as a share of the throughput
    save_every: int = 100  # updates between checkpoints
    threads: int = 1  # of torch
    seed: int = 0  # of weights and batches
    # Epochs that futures go on for, with the search of ThoroughPlanner. 0: one epoch, with that of
    # FittedPlanner.
    ahead: int = 0
    quiet: float = 0.0  # see Reading; 0 where ahead is
    calm: float = 0.0  # see Fit; 0 where ahead is
    device: str = "cpu"  # where it learns, see configs.DEVICES

    def __post_init__(self) -> None:
        super().__post_init__()
        few = self.futures * max(1, self.ahead) <= MOST_FUTURES
        rule = f"be at most {MOST_FUTURES:,}, those of all epochs ahead together"
        self.check("futures", few, rule)
        for name in ("quiet", "calm"):
            self.check(name, self.ahead > 0 or getattr(self, name) == 0, "be 0 where ahead is 0")


def forecast_loss(forecast: Forecast, streams: Tensor, busy: Tensor) -> Tensor:
    """How wrong forecasts are: of ranges and levels, of cores and levels.

    Args:
        forecast: (B, T, ...) of the epochs that came.
        streams: (B, T, N) that were taken in them.
        busy: (B, T, C) time that was lost in them.
    """
    edges = torch.tensor(EDGES[1:-1], device=streams.device)
    level = torch.bucketize(streams.contiguous(), edges) + 1
    level = torch.where(streams > 0, level, 0)
    taken = forecast.stream_levels.gather(-1, (level - 1).clamp(min=0)[..., None])[..., 0]
    of_levels = (taken - streams).square() * (level > 0)
    of_cores = F.binary_cross_entropy_with_logits(
        forecast.busy, (busy > 0).float(), reduction="none"
    )
    lost = (forecast.busy_levels - busy).square() * (busy > 0)
    nodes, batch = streams.shape[-1], streams[..., 0].numel()
    return (
        F.cross_entropy(forecast.streams.flatten(0, -2), level.flatten())
        + 10.0 * of_levels.sum() / (batch * nodes)
        + (of_cores.sum() + 10.0 * lost.sum()) / (batch * nodes)
    )


def fitted_shares(dataset: Dataset, quiet: float = 0.0, calm: float = 0.0) -> Float64Array:
    """(episodes, epochs + 1, cores + nodes) what the logged counters say of co-tenants.

    Raises:
        DatasetError: no episodes of continual scheduling, or such as cannot be explained.
    """
    if not isinstance(dataset, Dataset):
        raise no_dataset(dataset)
    if dataset.domain.name != CONTINUAL.name:
        raise DatasetError(
            f"{dataset.path}: holds episodes of {dataset.domain.name!r}, not of {CONTINUAL.name!r}"
        )
    kwargs = dataset.metadata.env_kwargs
    env = CONTINUAL.make_env(kwargs)
    explains = {
        "counters": env.arguments.counters == "all",
        "drift": env.arguments.family.only_co_tenants,
    }
    for name in (name for name, enough in explains.items() if not enough):
        raise DatasetError(
            f"{dataset.path}: {name} = {kwargs[name]!r}: co-tenants cannot be fitted to its "
            "counters; learn from other episodes"
        )
    counters = dataset.column("observations/slice_counters")
    tiles = dataset.column("observations/slice_tiles")
    begins = dataset.column("observations/moves_left")[..., 0] == 1.0
    episodes = []
    try:
        for number, seed in enumerate(dataset.column("seed")):
            # Only the workload instance is taken of it, which every planner has.
            env.reset(seed=int(seed))
            reading = Reading(World(env.session), quiet, calm)
            rows = np.flatnonzero(begins[number])[: env.arguments.epochs + 1]
            shares = []
            for row in rows:
                cores = env.machine.core_of_tile[tiles[number, row]]
                shares.append(reading.see(cores, counters[number, row].astype(np.float64)))
            episodes.append(np.stack(shares))
    finally:
        env.close()
    return np.stack(episodes)


class _Planner(ThoroughPlanner):
    """Plans for what the network predicts."""

    def __init__(self, network: Network, config: Config) -> None:
        ahead = max(1, config.ahead)
        super().__init__(config.price, config.futures, ahead, config.quiet, config.calm)
        self.name = Forecaster.name
        self._network, self._config = network, config

    def start(self) -> None:
        """See RoundPolicy."""
        super().start()
        machine = self.env.machine
        self._history = History(machine)
        self._node_of = torch.from_numpy(machine.node_of_core[machine.workers]).long()
        self._remembered: Tensor | None = None

    def plan(self, cores: Int32Array) -> list[Move]:
        """Plans as the planner that the config asks for."""
        return super().plan(cores) if self._config.ahead else FittedPlanner.plan(self, cores)

    def forecast(self, shares: Float64Array) -> Sequence[Float64Array]:
        """Draws from the forecast: all futures of the next epoch, then of the one after that."""
        forecast, self._remembered = self._next([self._history], [shares], self._remembered)
        machine, futures = self.env.machine, self._config.futures
        every = drawn = draw(forecast.at(0), machine, futures, self.rng)
        if self._config.ahead > 1:
            histories = [copy.copy(self._history) for _ in range(futures)]
            memory = self._remembered.repeat(1, futures, 1)
            for _ in range(1, self._config.ahead):
                forecast, memory = self._next(histories, drawn, memory)
                drawn = draw(forecast, machine, futures, self.rng)
                every = every + drawn
        return every

    def _next(
        self, histories: Sequence[History], shares: Sequence[Float64Array], before: Tensor | None
    ) -> tuple[Forecast, Tensor]:
        """The forecast after one more epoch of each history, along the first axis."""
        added = [history.add(each) for history, each in zip(histories, shares, strict=True)]
        nodes, cores = (
            torch.from_numpy(np.stack(part))[:, None] for part in zip(*added, strict=True)
        )
        # A node's memory is one row of the network's, and rows of one history stand together.
        with torch_threads(1), torch.no_grad():
            forecast, after = self._network(nodes, cores, self._node_of, before)
        return forecast.at(slice(None), 0), after


@reads_environment
class Forecaster(RoundAgent, NetworkAgent[Dataset]):
    """The agent; see the module's docstring."""

    name = "forecaster"
    Config = Config
    TASK = ("counters",)
    network: Network | None

    # ---- learning

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """Only the counters: any machine and number of slices will do."""
        return {"counters": list(COUNTER_NAMES)}

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        """Updates of the network; the metric is ``loss``."""
        config = self.config
        shares = fitted_shares(dataset, config.quiet, config.calm)
        machine = dataset.machine
        inputs = [inputs_of(machine, episode) for episode in shares]
        with self.learning(self.task_of(dataset), lambda network: None) as device:
            nodes, cores = (
                torch.from_numpy(np.stack(part)).to(device) for part in zip(*inputs, strict=True)
            )
            streams = torch.from_numpy(shares[..., machine.cores :]).float().to(device)
            busy = torch.from_numpy(shares[..., machine.workers]).float().to(device)
            node_of = torch.from_numpy(machine.node_of_core[machine.workers]).long().to(device)
            network = self.network
            assert network is not None

            def step(update: int) -> Callable[[], dict[str, float]]:
                rng = np.random.default_rng([config.seed, update])
                rows = torch.from_numpy(rng.integers(len(shares), size=config.batch_size))
                forecast, _ = network(nodes[rows, :-1], cores[rows, :-1], node_of)
                loss = forecast_loss(forecast, streams[rows, 1:], busy[rows, 1:])
                rate = config.learning_rate * cosine(math.pi * update / config.updates)
                self.compute_gradients(update, rate, loss)
                return self.stepping(loss=loss.detach())

            yield Course(step, config.updates, config.save_every)

    # ---- acting

    def check_env(self, env: Any) -> None:
        """UnsupportedError for a machine without parameters: it plans in a model."""
        need_described(env, self.name)

    def new_planner(self) -> _Planner:
        """See RoundAgent."""
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        return _Planner(self.network, self.config)

    # ---- keeping

    def new_network(self) -> Network:
        """See NetworkAgent.new_network."""
        return Network(self.config.width)

    def new_optimiser(self, network: Network) -> torch.optim.Adam:
        """See NetworkAgent.new_optimiser."""
        return torch.optim.Adam(network.parameters(), lr=self.config.learning_rate)
