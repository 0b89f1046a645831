"""Inputs of an online learner of continual scheduling, and the networks that score its moves.

The inputs are raw counters, the topology, and the history: what each core counted when it last
served, and how long ago that was. Nothing here decides or predicts.

Slices share one network, and so do tiles. So a network has the same weights for any number of
slices and any machine. A slice is shown with its core, a tile with its node. Sums are over the
slices that a core has now, the moves made so far among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array, Observation
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.standardise import Standardise
from pmoss_env.machines import Machine

#: Of a slice, of a tile and of the whole, beside counters: see History.
_SLICE_FACTS, _TILE_FACTS, _WHOLE = 3, 3, 3
#: Inputs that are counters, each with statistics of its own: of a slice, of a tile now and when it
#: last served, and of a node. Names are those of checkpoints.
_SCALES = ("slice", "now", "seen", "node")
#: Score of what is forbidden. Finite: an infinite one turns into NaN where it is multiplied by 0.
FORBIDDEN = -1e9
#: The untrained odds of leaving it for now are e to 1, however many slices there are.
_CALM = 1.0


def nodes_of(machine: Machine) -> list[int]:
    """The node of the worker on each tile, -1: no worker."""
    nodes = np.full(machine.tiles, -1)
    workers = machine.workers
    nodes[machine.tile_of_core[workers]] = machine.node_of_core[workers]
    result: list[int] = nodes.tolist()
    return result


class History:
    """The epochs of some episodes as networks see them; episodes are rows that advance together.

    Args:
        nodes: of nodes_of().
        counters: how many of an observation are used; those that came later are left out.
    """

    def __init__(self, rows: int, nodes: Sequence[int], counters: int) -> None:
        self._nodes = np.array(nodes)
        self._last_counters = np.zeros((rows, len(nodes), counters), dtype=np.float32)
        self._age = np.zeros((rows, len(nodes)), dtype=np.float32)
        self._served = np.zeros((rows, 2), dtype=np.float32)

    def forget(self, rows: npt.NDArray[np.bool_]) -> None:
        """Begins episodes in some rows, before their first epoch is taken."""
        for array in (self._last_counters, self._age, self._served):
            array[rows] = 0.0

    def take(self, observation: Observation, new: npt.NDArray[np.bool_]) -> None:
        """Remembers an epoch.

        Args:
            observation: with a row per episode.
            new: (rows,) whether it shows an epoch that was not taken yet.
        """
        of_cores = self._own(observation["core_counters"].reshape(*self._age.shape, -1))
        served = of_cores.any(axis=2) & new[:, None]
        self._last_counters[served] = of_cores[served]
        self._age[new] += 1.0
        self._age[served] = 0.0
        last = observation["last"][new, 0]
        self._served[new] = np.stack([last, self._served[new, 0]], axis=1)

    def show(self, observation: Observation) -> dict[str, Array]:
        """The inputs for each episode now: float32 arrays with a row per episode.

        ``counters`` (S, H) of slices. ``facts`` (S, 3): pending, moved, and far from the data.
        ``tiles`` (S,) the tile of each, ``allowed`` (S,) whether it may move. ``last`` (T, H):
        counters of each core when it last served; ``age`` (T,): epochs since then. ``worker`` (T,).
        ``whole`` (3,): moves left, and what the last two epochs served.
        """
        tiles = observation["slice_tiles"]
        far = observation["slice_nodes"] != self._nodes[tiles]
        parts = {
            "counters": self._own(observation["slice_counters"]),
            "facts": np.stack([observation["pending"], observation["moved"], far], axis=2),
            "tiles": tiles,
            "allowed": observation["slice_mask"][:, : tiles.shape[1]],
            "last": self._last_counters.copy(),
            "age": self._age.copy(),
            "worker": observation["tile_mask"],
            "whole": np.concatenate([observation["moves_left"], self._served], axis=1),
        }
        return {key: np.asarray(part, dtype=np.float32) for key, part in parts.items()}

    def _own(self, counters: Array) -> Array:
        return counters[..., : self._last_counters.shape[2]]


def epoch_begins(observation: Observation) -> npt.NDArray[np.bool_]:
    """(rows,) whether an epoch has just been: only then all moves are left."""
    begins: npt.NDArray[np.bool_] = observation["moves_left"][:, 0] == 1.0
    return begins


def shapes_of(slices: int, tiles: int, counters: int) -> dict[str, tuple[int, ...]]:
    """The shape of each part that History.show() gives, without the rows."""
    return {
        "counters": (slices, counters),
        "facts": (slices, _SLICE_FACTS),
        "tiles": (slices,),
        "allowed": (slices,),
        "last": (tiles, counters),
        "age": (tiles,),
        "worker": (tiles,),
        "whole": (_WHOLE,),
    }


class RoundEncoder(nn.Module):
    """Tokens of every slice, of every tile, and of the whole.

    Args:
        nodes: of nodes_of().
        counters: H.
    """

    member: Tensor

    def __init__(self, nodes: Sequence[int], counters: int, width: int) -> None:
        super().__init__()
        node = torch.tensor(nodes)
        member = (node[:, None] == torch.arange(max(nodes) + 1)).float()
        # (T, T) whether two tiles are workers of one node; the checkpoint's task holds it.
        self.register_buffer("member", member @ member.T, persistent=False)
        self.scales = nn.ModuleDict({name: Standardise(counters) for name in _SCALES})
        self.tile = nn.Linear(2 * counters + _TILE_FACTS, width)
        self.node = nn.Linear(counters, width, bias=False)
        self.slice = nn.Linear(counters + _SLICE_FACTS, width)
        self.there = nn.Linear(width, width, bias=False)
        self.deep_tile, self.deep_slice = nn.Linear(width, width), nn.Linear(width, width)
        self.whole = nn.Linear(4 * width + _WHOLE, width)

    def set_up(self, parts: Mapping[str, Tensor]) -> None:
        """Takes the statistics of inputs from B states."""
        now, of_nodes = self.sums(parts)
        worker = parts["worker"] > 0
        samples = {
            "slice": parts["counters"].flatten(0, 1),
            "now": now[worker],
            "seen": parts["last"][worker],
            "node": of_nodes[worker],
        }
        for name, scale in self.scales.items():
            assert isinstance(scale, Standardise)
            scale.set(samples[name].numpy())

    def sums(self, parts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, T, H) each: counters of the slices that a tile, and that its node, has now."""
        counters = parts["counters"]
        batch, _, width = counters.shape
        where = parts["tiles"].long()[..., None].expand(-1, -1, width)
        now = counters.new_zeros(batch, self.member.shape[0], width)
        now = now.scatter_add(1, where, counters)
        return now, self.member @ now

    def forward(self, parts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """(B, S, width) of slices, (B, T, width) of tiles, (B, width) of the whole."""
        now, of_nodes = self.sums(parts)
        where, worker = parts["tiles"].long(), parts["worker"][..., None]
        count = now.new_zeros(now.shape[:2]).scatter_add(1, where, torch.ones_like(parts["tiles"]))
        facts = torch.stack([torch.log1p(parts["age"]), torch.log1p(count), parts["worker"]], -1)
        of_core = [self.scales["now"](now), self.scales["seen"](parts["last"]), facts]
        tiles = self.tile(torch.cat(of_core, -1)) + self.node(self.scales["node"](of_nodes))
        tiles = F.silu(self.deep_tile(F.silu(tiles))) * worker
        slices = self.slice(
            torch.cat([self.scales["slice"](parts["counters"]), parts["facts"]], -1)
        )
        slices = slices + gathered(self.there(tiles), where)
        slices = F.silu(self.deep_slice(F.silu(slices)))
        pooled = [
            slices.mean(1),
            slices.amax(1),
            tiles.sum(1) / worker.sum(1),
            tiles.amax(1),
            torch.cat([parts["whole"][:, :1], torch.log1p(parts["whole"][:, 1:]) / 4.0], 1),
        ]
        return slices, tiles, F.silu(self.whole(torch.cat(pooled, -1)))


def gathered(tokens: Tensor, where: Tensor) -> Tensor:
    """(B, n, width) of (B, m, width) tokens, those of (B, n) numbers."""
    return tokens.gather(1, where[..., None].expand(-1, -1, tokens.shape[-1]))


class RoundActor(nn.Module):
    """Scores slices and "leave it for now"; then tiles, for the slice that was chosen.

    Untrained, all slices have the same odds, and so have all workers. It is more likely to leave
    it for now than to move anything.

    Args:
        nodes: of nodes_of().
        counters: H.
    """

    def __init__(self, nodes: Sequence[int], counters: int, width: int) -> None:
        super().__init__()
        self.encoder = RoundEncoder(nodes, counters, width)
        self.of_slice, self.of_tile = nn.Linear(2 * width, width), nn.Linear(3 * width + 2, width)
        self.slice_score, self.tile_score = nn.Linear(width, 1), nn.Linear(width, 1)
        self.leave_score = nn.Linear(width, 1)
        for last in (self.slice_score, self.tile_score, self.leave_score):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, parts: Mapping[str, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """(B, S + 1) logarithms of the odds of slices, the last one leaves it; and the tokens."""
        slices, _, whole = tokens = self.encoder(parts)
        beside = whole[:, None].expand(-1, slices.shape[1], -1)
        scores = self.slice_score(F.silu(self.of_slice(torch.cat([slices, beside], -1))))[..., 0]
        scores = torch.where(parts["allowed"] > 0, scores, FORBIDDEN)
        leave = self.leave_score(whole) + math.log(slices.shape[1]) + _CALM
        return torch.log_softmax(torch.cat([scores, leave], 1), 1), tokens

    def tiles(
        self, parts: Mapping[str, Tensor], tokens: tuple[Tensor, Tensor, Tensor], chosen: Tensor
    ) -> Tensor:
        """(B, T) logarithms of the odds of tiles.

        Args:
            parts: of History.show().
            tokens: of forward().
            chosen: (B,) the slice; where it is left for now, tiles are scored for any.
        """
        slices, tiles, whole = tokens
        slice_ = chosen.clamp(max=slices.shape[1] - 1)[:, None]
        own = parts["tiles"].long().gather(1, slice_)[:, 0]
        count = tiles.shape[1]
        inputs = [
            tiles,
            gathered(slices, slice_).expand(-1, count, -1),
            whole[:, None].expand(-1, count, -1),
            # Whether the slice is on the tile, and on its node.
            torch.stack([F.one_hot(own, count).to(tiles.dtype), self.encoder.member[own]], -1),
        ]
        scores = self.tile_score(F.silu(self.of_tile(torch.cat(inputs, -1))))[..., 0]
        return torch.log_softmax(torch.where(parts["worker"] > 0, scores, FORBIDDEN), 1)

    def likeliest(self, parts: Mapping[str, Tensor]) -> tuple[int, int]:
        """Slice and tile of one state: left for now if that is at least as likely as all moves."""
        slices, tokens = self(parts)
        last = slices.shape[1] - 1
        leaves = bool(slices[0, last] >= math.log(0.5))
        chosen = torch.tensor([last]) if leaves else slices[:, :last].argmax(1)
        return int(chosen), int(self.tiles(parts, tokens, chosen).argmax())


class RoundCritic(nn.Module):
    """The value of a state; it shares nothing with the actor. Arguments are those of RoundActor."""

    def __init__(self, nodes: Sequence[int], counters: int, width: int) -> None:
        super().__init__()
        self.encoder = RoundEncoder(nodes, counters, width)
        self.value = nn.Linear(width, 1)

    def forward(self, parts: Mapping[str, Tensor]) -> Tensor:
        """(B, 1) values."""
        value: Tensor = self.value(self.encoder(parts)[2])
        return value
