"""What the networks of spatial scheduling see: raw counters, their sums, and the topology.

Nothing here decides, foretells or compares. Counters are summed over a core, a last-level cache, a
node and the machine; log(1 + x) of each sum is standardised by the training data. What a schedule
makes of them is left to the learner.

Each group of inputs can be left out, to see what it is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.standardise import Standardise
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.machines import Machine

#: The groups of inputs: the counters of the next slice, those of each core, those summed over
#: caches, nodes and the machine, and how many cores share what.
GROUPS = ("slice", "core", "cache", "node", "machine", "topology")
#: Rows of places_of(): the last-level cache and the node of a tile.
_LEVELS = ("cache", "node")


def check_groups(
    groups: Any, field: str = "inputs", known: Sequence[str] = GROUPS
) -> tuple[str, ...]:
    """Groups of inputs in the order of those known.

    Args:
        groups: their names.
        field: what holds them, for the message.
        known: all names that there are.

    Raises:
        DescriptionError: no list; one is unknown or named twice; or there is none.
    """
    given = list(groups) if isinstance(groups, (list, tuple)) else []
    if not given or any(name not in known or given.count(name) > 1 for name in given):
        raise DescriptionError(
            f"{field} = {groups!r}: must be a list of some of {', '.join(known)}, each once"
        )
    return tuple(name for name in known if name in given)


def check_era(config: Mapping[str, Any]) -> None:
    """Refuses the config of a checkpoint or export from before raw inputs.

    Raises:
        CheckpointError: it knows the switch of the inputs that were taken out.
    """
    if "derived" in config:
        raise CheckpointError(
            "was made with inputs that no longer exist: they told a rule's decision; train the "
            "agent anew, on raw counters"
        )


def places_of(machine: Machine) -> npt.NDArray[np.int64]:
    """(2, tiles): the last-level cache and the node of the worker on each tile, -1: no worker."""
    places = np.full((len(_LEVELS), machine.tiles), -1, dtype=np.int64)
    workers = machine.workers
    for row, kind in zip(places, (machine.llc_of_core, machine.node_of_core), strict=True):
        row[machine.tile_of_core[workers]] = kind[workers]
    return places


class TileInputs(nn.Module):
    """A linear layer over all inputs of each core tile, every sum multiplied only once.

    The inputs of a tile are the masks; the counters of the next slice; the counters of the slices
    placed on it so far, without and with the next one, and those under the incumbent; the latter
    two summed over its cache, its node and the machine; how many workers share cache and node, and
    how many there are.

    Attributes:
        places: (2, tiles) int64, see places_of().
    """

    places: Tensor

    def __init__(self, tiles: int, counters: int, outputs: int, groups: Iterable[str]) -> None:
        """Makes a layer.

        Args:
            tiles: of the grid.
            counters: H, of the observation.
            outputs: features per tile.
            groups: of inputs, some of GROUPS.
        """
        super().__init__()
        self.groups = check_groups(groups)
        self.register_buffer("places", torch.full((len(_LEVELS), tiles), -1, dtype=torch.int64))
        self.masks = nn.Linear(2, outputs)
        self.scales, self.weights = nn.ModuleDict(), nn.ModuleDict()
        for name in self.sums():
            self.scales[name] = Standardise(counters)
            self.weights[name] = nn.Linear(counters, outputs, bias=False)
        if self.joins:
            self.weights["core_joined"] = nn.Linear(counters, outputs, bias=False)
        if "topology" in self.groups:
            self.topology = nn.Linear(3, outputs, bias=False)

    def sums(self) -> list[str]:
        """Names of all sums that are seen: of which group, and of which slices."""
        named = [name for name in ("core", "cache", "node", "machine") if name in self.groups]
        sums = [f"{name}_{when}" for name in named for when in ("placed", "before")]
        return ["slice", *sums] if "slice" in self.groups else sums

    @property
    def joins(self) -> bool:
        """Whether the counters of each core are also seen together with those of the next slice."""
        return "slice" in self.groups and "core" in self.groups

    def set_places(self, places: npt.ArrayLike) -> None:
        """Takes (2, tiles) places, see places_of()."""
        self.places.copy_(torch.from_numpy(np.array(places, dtype=np.int64)))

    def set_up(self, samples: Mapping[str, Array], machine: Machine) -> None:
        """Takes the machine, and the statistics of its inputs.

        Args:
            samples: ``machine_view`` and ``incumbent_view`` (n, tiles, H), ``slice_view`` (n, H).
            machine: whose tiles they are of.
        """
        self.set_places(places_of(machine))
        views = {"placed": samples["machine_view"], "before": samples["incumbent_view"]}
        for name in self.sums():
            if name == "slice":
                values = samples["slice_view"]
            else:
                level, when = name.split("_")
                # It is set up before it learns: network and samples lie on the CPU.
                view = torch.from_numpy(np.ascontiguousarray(views[when]))
                if level == "core":
                    # Tiles without a worker are always 0.
                    values = views[when][:, machine.worker_tiles]
                else:
                    values = self._summed(view, level).numpy()
            scale = self.scales[name]
            assert isinstance(scale, Standardise)
            scale.set(values.reshape(-1, values.shape[-1]))

    def _summed(self, view: Tensor, level: str) -> Tensor:
        """(..., groups, H) sums of (..., tiles, H) over the places of a level."""
        if level == "machine":
            return view.sum(-2, keepdim=True)
        return self.member(level).to(view.dtype).T @ view

    def member(self, level: str) -> Tensor:
        """(tiles, groups) 1 = the tile is of the group; groups go by their number."""
        place = self.places[_LEVELS.index(level)]
        return place[:, None] == torch.arange(int(place.max()) + 1, device=place.device)

    def forward(self, state: Mapping[str, Tensor]) -> Tensor:
        """(B, n, tiles, outputs) of B x n states; see StateEncoder.forward()."""
        placed, before, slice_ = (
            state[key] for key in ("machine_view", "incumbent_view", "slice_view")
        )
        masks = torch.stack([state["view_mask"], state["position_mask"]], -1)
        total: Tensor = self.masks(masks)
        for name in self.sums():
            scale, weight = self.scales[name], self.weights[name]
            if name == "slice":
                total = total + weight(scale(slice_)).unsqueeze(2)
                continue
            level, when = name.split("_")
            view = placed if when == "placed" else before
            if level == "core":
                total = total + weight(scale(view))
                if when == "placed" and self.joins:
                    joined = self.weights["core_joined"]
                    total = total + joined(scale(view + slice_.unsqueeze(2)))
                continue
            seen = weight(scale(self._summed(view, level)))
            if level != "machine":
                seen = self.member(level).to(seen.dtype) @ seen
            total = total + seen
        if "topology" in self.groups:
            total = total + self.topology(self.sizes())
        return total

    def sizes(self) -> Tensor:
        """(tiles, 3) logarithms of how many workers share cache, node and machine; 0: no worker."""
        worker = self.places >= 0
        alike = (self.places[:, :, None] == self.places[:, None, :]) & worker[:, :, None]
        shared = alike.sum(-1).T
        whole = worker[1].sum() * worker[1]
        return torch.log(torch.cat([shared, whole.unsqueeze(1)], 1).clamp(min=1).float())
