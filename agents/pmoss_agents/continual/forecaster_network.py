"""The forecaster's network, what it gets of the past, and futures drawn from its forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_env.envs.continual.drift import MAX_SHARE
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array

#: A stream is predicted as one of these: none, then ranges of the share of a node's memory.
EDGES = (0.0, 0.2, 0.45, 0.7, MAX_SHARE)
#: Epochs that a core's network gets one by one.
_EPOCHS = 8
#: Inputs of a node, and of a core beside them.
NODE_FEATURES, CORE_FEATURES = 4, _EPOCHS + 2


class History:
    """What the network gets of epochs that follow each other, from the first one on."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._workers = machine.workers
        self._node_of = machine.node_of_core[machine.workers]
        self._last = np.zeros((_EPOCHS, self._workers.size))
        self._largest = np.zeros(self._workers.size)
        self._sum, self._times = np.zeros(self._workers.size), np.zeros(self._workers.size)

    def add(self, shares: Float64Array) -> tuple[Array, Array]:
        """(N, 4) and (C, 10) float32 of the next epoch.

        Args:
            shares: (cores + nodes,) that co-tenants took in it.
        """
        machine = self._machine
        busy, streams = shares[self._workers], shares[machine.cores :]
        self._last = np.concatenate([self._last[1:], busy[None]])
        self._largest = np.maximum(self._largest, busy)
        self._sum, self._times = self._sum + busy, self._times + (busy > 0)
        mean = self._sum / np.maximum(self._times, 1)
        in_all = np.bincount(self._node_of, busy, machine.nodes)
        count = np.bincount(self._node_of, busy > 0, machine.nodes)
        highest = np.zeros(machine.nodes)
        np.maximum.at(highest, self._node_of, busy)
        nodes = np.stack([streams, in_all, count / 4, highest], -1)
        cores = np.concatenate([self._last, self._largest[None], mean[None]]).T
        return nodes.astype(np.float32), cores.astype(np.float32)


def inputs_of(machine: Machine, shares: Float64Array) -> tuple[Array, Array]:
    """(T, N, 4) and (T, C, 10) float32 of the epochs of one episode."""
    history = History(machine)
    nodes, cores = zip(*(history.add(epoch) for epoch in shares), strict=True)
    return np.stack(nodes), np.stack(cores)


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

    def at(self, *index: Any) -> Forecast:
        """A part of it, by an index of the leading axes."""
        return Forecast(*(part[index] for part in vars(self).values()))


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
        """Predicts the epoch after each one that is shown.

        Args:
            nodes: (B, T, N, 4) of History.
            cores: (B, T, C, 10) of History.
            node_of: (C,) the node of each core.
            before: what was remembered before the first epoch; None: nothing.

        Returns:
            The forecasts, (B, T, ...), and what to remember.
        """
        batch, epochs, count, features = nodes.shape
        rows = nodes.transpose(1, 2).reshape(batch * count, epochs, features)
        remembered, after = self.memory(rows, before)
        memory = remembered.reshape(batch, count, epochs, -1).transpose(1, 2)
        memory = torch.cat([memory, nodes], -1)
        node = self.of_node(memory)
        core = self.of_core(torch.cat([memory[:, :, node_of], cores], -1))
        # What a core lost where it lost time, if it ever did.
        usual = torch.where(cores[..., -1] > 0, cores[..., -1], 0.5)
        return Forecast(
            node[..., : len(EDGES)],
            self._middle + self._half * torch.tanh(node[..., len(EDGES) :]),
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
        futures: how many; a node's numbers are spread evenly over them.
    """
    turns = rng.permuted(np.tile(np.arange(futures), (machine.nodes, 1)), axis=1)
    numbers = (turns + rng.random((machine.nodes, futures))) / futures
    odds = torch.softmax(forecast.streams, -1).double().numpy()
    # (..., N, 5) the chance of at least each range.
    at_least = np.cumsum(odds[..., ::-1], axis=-1)[..., ::-1]
    levels = forecast.stream_levels.double().numpy()
    levels = np.concatenate([np.zeros((*levels.shape[:-1], 1)), levels], axis=-1)
    busy = torch.sigmoid(forecast.busy).double().numpy()
    lost = forecast.busy_levels.double().numpy()
    workers = machine.workers
    drawn = []
    for future, number in enumerate(numbers.T):
        own = future if busy.ndim > 1 else ...
        shares = np.zeros(machine.cores + machine.nodes)
        taken = number[machine.node_of_core[workers]] < busy[own]
        shares[workers] = np.where(taken, lost[own], 0.0)
        level = np.count_nonzero((1.0 - number)[:, None] < at_least[own][:, 1:], axis=1)
        shares[machine.cores :] = levels[own][np.arange(machine.nodes), level]
        drawn.append(shares)
    return drawn
