"""Networks that turn states of spatial scheduling into features of core tiles.

They see raw counters, their sums, and the topology. Nothing here decides, predicts or compares.
Counters are summed over a core, a last-level cache, a node and the machine; log(1 + x) of each sum
is standardised by the training data. Each group of inputs can be left out, to see what it is worth.

Small convolutions then mix the inputs and keep the grid: each tile ends with a feature vector of
its own, and all of them together make one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.observations import ALL_SLICES, KEYS, LEVELS, Layout
from pmoss_agents.standardise import Standardise
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine

#: The groups of inputs: the counters of the next slice, those of each core, those summed over
#: caches, nodes and the machine, and how many cores share what.
GROUPS = ("slice", "core", "cache", "node", "machine", "topology")
#: Score of a forbidden tile. Finite: an infinite one turns into NaN in gradients, and where a
#: target is multiplied by 0, as at the end of an episode.
FORBIDDEN = -1e9


def check_groups(
    groups: Any, field: str = "inputs", allowed: Sequence[str] = GROUPS
) -> tuple[str, ...]:
    """Groups of inputs in the order of those allowed.

    Raises:
        DescriptionError: no list; a name is unknown or given twice; or the list is empty.
    """
    given = list(groups) if isinstance(groups, (list, tuple)) else []
    if not given or any(name not in allowed or given.count(name) > 1 for name in given):
        raise DescriptionError(
            f"{field} = {groups!r}: must be a list of some of {', '.join(allowed)}, each once"
        )
    return tuple(name for name in allowed if name in given)


class _Shared(NamedTuple):
    """How the tiles of a machine share its caches and nodes.

    Attributes:
        members: of each level (tiles, groups), 1 = the tile is of the group; groups go by number.
        sizes: (tiles, 3) logarithms of how many workers share cache, node and machine; 0: none.
    """

    members: dict[str, Tensor]
    sizes: Tensor

    @classmethod
    def of(cls, places: Tensor) -> _Shared:
        """Of (2, tiles) places, see places_of()."""
        members = {}
        for level, place in zip(LEVELS, places, strict=True):
            groups = torch.arange(int(place.max()) + 1, device=places.device)
            members[level] = (place[:, None] == groups).float()
        worker = places >= 0
        alike = (places[:, :, None] == places[:, None, :]) & worker[:, :, None]
        whole = worker[1].sum() * worker[1]
        counts = torch.cat([alike.sum(-1).T, whole.unsqueeze(1)], 1)
        return cls(members, torch.log(counts.clamp(min=1).float()))


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
            counters: H, of the observation.
        """
        super().__init__()
        self.groups = check_groups(groups)
        self.register_buffer("places", torch.full((len(LEVELS), tiles), -1, dtype=torch.int64))
        self._cached: tuple[Tensor, int, _Shared] | None = None
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
        """Names of all sums that are inputs: of which group, and of which slices."""
        levels = [name for name in ("core", "cache", "node", "machine") if name in self.groups]
        sums = [f"{level}_{when}" for level in levels for when in ("placed", "before")]
        return ["slice", *sums] if "slice" in self.groups else sums

    @property
    def joins(self) -> bool:
        """Whether the sum of each core's counters and those of the next slice is an input."""
        return "slice" in self.groups and "core" in self.groups

    def set_places(self, places: npt.ArrayLike) -> None:
        """Takes (2, tiles) places, see places_of()."""
        self.places.copy_(torch.from_numpy(np.array(places, dtype=np.int64)))

    def set_up(self, parts: Sequence[tuple[Mapping[str, Array], Layout]]) -> None:
        """Takes a machine, the last one, and the statistics of the inputs of all.

        Args:
            parts: of each machine samples, ``machine_view`` and ``incumbent_view`` (n, tiles, H)
                and ``slice_view`` (n, H), and how it is laid out.
        """
        values: dict[str, list[Array]] = {name: [] for name in self.sums()}
        for samples, layout in parts:
            self.set_places(layout.places)
            views = {"placed": samples["machine_view"], "before": samples["incumbent_view"]}
            for name in self.sums():
                if name == "slice":
                    values[name].append(samples["slice_view"])
                    continue
                level, when = name.split("_")
                if level == "core":
                    # Tiles without a worker are always 0.
                    values[name].append(views[when][:, layout.tiles[layout.machine.worker_tiles]])
                else:
                    # It is set up before it learns: network and samples lie on the CPU.
                    view = torch.from_numpy(np.ascontiguousarray(views[when]))
                    values[name].append(self.summed(view, level).numpy())
        for name, of_machines in values.items():
            scale = self.scales[name]
            assert isinstance(scale, Standardise)
            rows = [each.reshape(-1, each.shape[-1]) for each in of_machines]
            scale.set(rows[0] if len(rows) == 1 else np.concatenate(rows))

    def summed(self, view: Tensor, level: str) -> Tensor:
        """(..., groups, H) sums of (..., tiles, H) over the places of a level."""
        if level == "machine":
            return view.sum(-2, keepdim=True)
        return self._shared().members[level].to(view.dtype).T @ view

    def _shared(self) -> _Shared:
        """What follows from the places, which change with the machine alone."""
        places, cached = self.places, self._cached
        if places.is_inference():  # it counts no changes
            return _Shared.of(places)
        if cached is None or cached[0] is not places or cached[1] != places._version:
            with torch.inference_mode(False):  # it may learn later
                self._cached = cached = places, places._version, _Shared.of(places)
        return cached[2]

    def standardised(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        """The counters and their sums, standardised: what forward() multiplies.

        Networks that were set up alike can share it.

        Args:
            state: see StateEncoder.forward().

        Returns:
            A tensor for each of sums(), and one more if ``joins``.
        """
        placed, before, slice_ = (
            state[key] for key in ("machine_view", "incumbent_view", "slice_view")
        )
        parts = []
        for name in self.sums():
            if name == "slice":
                values = slice_
            else:
                level, when = name.split("_")
                view = placed if when == "placed" else before
                values = view if level == "core" else self.summed(view, level)
            parts.append(self.scales[name](values))
        if self.joins:
            parts.append(self.scales["core_placed"](placed + slice_.unsqueeze(2)))
        return parts

    def forward(
        self, state: Mapping[str, Tensor], standardised: Sequence[Tensor] | None = None
    ) -> Tensor:
        """(B, n, tiles, outputs) of B x n states; see StateEncoder.forward()."""
        masks = torch.stack([state["view_mask"], state["position_mask"]], -1)
        parts = self.standardised(state) if standardised is None else standardised
        # A layer gives a view, and what is added to a view in place is copied for its gradient.
        total: Tensor = self.masks(masks).clone()
        for name, part in zip(self.sums(), parts, strict=False):
            weighted = self.weights[name](part)
            if name == "slice":
                weighted = weighted.unsqueeze(2)
            level = name.split("_")[0]
            if level in LEVELS:
                weighted = self._shared().members[level].to(weighted.dtype) @ weighted
            # In place: no gradient needs what was there before.
            total += weighted
            if name == "core_placed" and self.joins:
                total += self.weights["core_joined"](parts[-1])
        if "topology" in self.groups:
            total += self.topology(self._shared().sizes)
        return total


class StateEncoder(nn.Module):
    """Turns states into per-tile features and one token each.

    The first layer mixes the inputs of each tile. The convolutions after it look at its neighbours
    on the grid (cores of one node are neighbours). The resolution is kept throughout.

    The ``plain`` one is P-MOSS's (section 6.3): three convolutions, and the layer that makes the
    token. Its first layer is linear and so a part of the first convolution.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        counters: int,
        *,
        channels: int,
        width: int,
        inputs: Iterable[str] = GROUPS,
        plain: bool = False,
    ) -> None:
        """Makes an encoder.

        Args:
            grid: rows and columns of core tiles.
            counters: H, of the observation.
            inputs: groups of inputs, some of GROUPS.
            plain: whether there are three convolutions and nothing passes them by.
        """
        super().__init__()
        self.grid = grid
        tiles = grid[0] * grid[1]
        self.inputs = TileInputs(tiles, counters, channels, inputs)
        self.near = nn.Conv2d(channels, channels, 3, padding=1)
        self.far = nn.Conv2d(channels, channels, 3, padding=1)
        self.third = nn.Conv2d(channels, channels, 3, padding=1) if plain else None
        self.token = nn.Linear(channels * tiles, width)

    def forward(
        self, state: Mapping[str, Tensor], standardised: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Encodes B x n states.

        Args:
            state: ``view_mask``, ``position_mask`` (B, n, tiles), ``machine_view``
                (B, n, tiles, H), ``incumbent_view`` (B, 1, tiles, H), ``slice_view`` (B, n, H).
            standardised: of TileInputs.standardised(); None: it is computed.

        Returns:
            (B, n, tiles, channels) features and (B, n, width) tokens.
        """
        mixed = self.inputs(state, standardised)
        batch, steps, tiles, channels = mixed.shape
        # (B n, channels, rows, cols), with the channels innermost in memory.
        image = mixed.reshape(batch * steps, *self.grid, channels).permute(0, 3, 1, 2)
        if self.third is None:
            image = F.relu(image)
            image = image + self.far(F.relu(self.near(image)))
        else:
            image = F.relu(self.third(F.relu(self.far(F.relu(self.near(image))))))
        features = image.permute(0, 2, 3, 1).reshape(batch, steps, tiles, channels)
        return features, self.token(features.flatten(2))


class SliceSet(nn.Module):
    """A summary of all slices that no order of them changes.

    Zaheer et al., Deep Sets, NeurIPS 2017. One network sees the counters of each slice. Another
    sees two means of what it gives: over all slices, and over those that are still to be placed.
    """

    def __init__(self, counters: int, width: int) -> None:
        """Makes a network.

        Args:
            counters: H, of the observation.
            width: of the summary.
        """
        super().__init__()
        self.scale = Standardise(counters)
        self.each = nn.Linear(counters, width)
        self.both = nn.Linear(2 * width, width)

    def standardised(self, slices: Tensor) -> Tensor:
        """(B, T, H + 1) of B sets of all_slices(), their counters standardised."""
        return torch.cat([self.scale(slices[..., :-1]), slices[..., -1:]], -1)

    def forward(self, standardised: Tensor) -> Tensor:
        """(B, width) summaries of what standardised() gave."""
        each = F.relu(self.each(standardised[..., :-1]))
        left = standardised[..., -1:]
        to_come = (each * left).sum(1) / left.sum(1).clamp(min=1)
        summary: Tensor = self.both(torch.cat([each.mean(1), to_come], -1))
        return summary


class Encoded(NamedTuple):
    """What a TileEncoder makes of B observations.

    Attributes:
        token: (B, width) of the whole chip.
        features: (B, tiles, features) of each tile.
        allowed: (B, tiles) 1 = the tile may take the next slice.
    """

    token: Tensor
    features: Tensor
    allowed: Tensor


class TileEncoder(nn.Module):
    """The Decision Transformer's state encoder for single observations, with meta and slice."""

    def __init__(
        self, shapes: Sequence[Sequence[int]], *, channels: int, width: int, inputs: Iterable[str]
    ) -> None:
        """Makes an encoder.

        Args:
            shapes: of the observation's arrays, in the order of KEYS; one more where all_slices()
                stands behind them.
            inputs: groups of inputs, some of GROUPS.
        """
        super().__init__()
        self.keys = (*KEYS, ALL_SLICES)[: max(len(shapes), len(KEYS))]
        by_key = dict(zip(self.keys, shapes, strict=True))
        rows, cols, counters = by_key["machine_view"]
        self.states = StateEncoder(
            (rows, cols), counters, channels=channels, width=width, inputs=inputs
        )
        self.tiles = rows * cols
        self.features = channels
        self.width = width
        self.meta_standard = Standardise(by_key["meta"][0])
        self.meta = nn.Linear(by_key["meta"][0], width)
        self.place = nn.Linear(1, width)
        self.join = nn.Linear(width, width)
        # Last: without it the other layers begin as ever.
        self.every = SliceSet(counters, width) if ALL_SLICES in by_key else None

    def set_up(self, samples: Mapping[str, Array], machine: Machine) -> None:
        """Takes the machine, and the statistics of its inputs; see input_samples()."""
        self.states.inputs.set_up([(samples, Layout(machine))])
        self.meta_standard.set(samples["meta"])
        if self.every is not None:
            self.every.scale.set(samples["slice_view"])

    def shared(self, observation: Sequence[Tensor]) -> list[Tensor]:
        """B observations with their standardised counters, for all encoders that were set up alike.

        Args:
            observation: arrays in the order of KEYS with a leading batch axis.
        """
        with torch.no_grad():
            parts = self.states.inputs.standardised(self._state(observation))
            if self.every is not None:
                slices = self.every.standardised(observation[len(KEYS)])
                return [*observation[: len(KEYS)], slices, *parts]
            return [*observation, *parts]

    def encode(self, observation: Sequence[Tensor]) -> Encoded:
        """Encodes B observations: arrays in the order of KEYS, or what shared() made of them."""
        part = dict(zip(self.keys, observation, strict=False))
        standardised = observation[len(self.keys) :] or None
        features, token = self.states(self._state(observation), standardised)
        meta = self.meta(self.meta_standard(part["meta"]))
        whole = token.squeeze(1) + meta + self.place(part["slice"])
        if self.every is not None:
            slices = part[ALL_SLICES]
            whole = whole + self.every(slices if standardised else self.every.standardised(slices))
        joined = F.relu(whole)
        return Encoded(F.relu(self.join(joined)), features.squeeze(1), self.allowed(observation))

    def _state(self, observation: Sequence[Tensor]) -> dict[str, Tensor]:
        """B observations as B x 1 states."""
        part = dict(zip(KEYS, observation, strict=False))
        size = part["meta"].shape[0]
        tiles = {
            key: part[key].reshape(size, 1, self.tiles) for key in ("position_mask", "view_mask")
        }
        views = {
            key: part[key].reshape(size, 1, self.tiles, -1)
            for key in ("machine_view", "incumbent_view")
        }
        return {**tiles, **views, "slice_view": part["slice_view"].unsqueeze(1)}

    def allowed(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) 1 = the tile may take the next slice."""
        mask = observation[KEYS.index("position_mask")]
        return mask.reshape(mask.shape[0], self.tiles)

    def forward(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, width) tokens: what networks with one output per observation start from."""
        return self.encode(observation).token


class TileScores(nn.Module):
    """One score per tile, FORBIDDEN where the position mask is 0."""

    def __init__(self, encoder: TileEncoder, *, level: bool) -> None:
        """Makes a head on an encoder.

        Args:
            encoder: may be shared with other heads.
            level: also learn what all tiles have in common: values need it, a softmax does not
                see it.
        """
        super().__init__()
        self.encoder = encoder
        self.pointer = nn.Linear(encoder.width, encoder.features)
        self.plain = nn.Linear(encoder.width, encoder.tiles)
        self.level = nn.Linear(encoder.width, 1) if level else None
        # Begins with all tiles nearly alike, and as far from right as from left.
        for layer in (self.pointer, self.plain):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) scores of B observations, see TileEncoder.encode()."""
        token, features, allowed = self.encoder.encode(observation)
        pointed = (features @ self.pointer(token).unsqueeze(-1)).squeeze(-1)
        scores: Tensor = pointed + self.plain(token)
        if self.level is not None:
            scores = scores + self.level(token)
        return scores.masked_fill(allowed == 0, FORBIDDEN)
