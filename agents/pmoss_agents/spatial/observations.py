"""What the agents' networks read of an observation.

They expect the full one: what the paper's leaves out is shown to them as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_agents.agent import Array
from pmoss_datasets import Dataset
from pmoss_datasets.formats import SequenceView
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES

_QUERIES = COUNTER_INDEX["queries"]

#: The keys of the environment's observation, in the order of its space and of the d3rlpy view.
KEYS = (
    "incumbent_view",
    "machine_view",
    "meta",
    "position_mask",
    "slice",
    "slice_view",
    "view_mask",
)


#: Rows of places_of(): the last-level cache and the node of a tile.
LEVELS = ("cache", "node")
#: Behind KEYS, of learners that see all slices at each step; see all_slices().
ALL_SLICES = "all_slices"


def all_slices(counters: Array, left: Array) -> Array:
    """(T, H + 1) float32: the counters of every slice, and 1 where it is still to be placed.

    Args:
        counters: (T, H) of the slices, in any order.
        left: (T,) whether each of them is still to be placed, in the same order.
    """
    return np.concatenate([counters, left[:, None]], axis=1).astype(np.float32, copy=False)


def slices_left(observation: Mapping[str, Array], order: str) -> Array:
    """(T,) bool: which slices are still to be placed, by their numbers.

    Args:
        observation: of an environment with ``observation="complete"``.
        order: of placement, "index" or "load".
    """
    counters = observation["slice_counters"]
    total = len(counters)
    slices = np.arange(total)
    if order == "load":
        slices = np.argsort(-counters[:, _QUERIES], kind="stable")
    now = round(float(observation["slice"].item()) * total)
    left = np.zeros(total, dtype=bool)
    if now < total:
        left[slices[int(np.flatnonzero(slices == now)[0]) :]] = True
    return left


def in_own_counters(
    observation: Mapping[str, Array], counters: Sequence[str]
) -> Mapping[str, Array]:
    """An observation without the counters that are younger than the agent.

    Args:
        observation: of the environment, with today's counters.
        counters: names of those that the agent was fitted with, the first of today's table.
    """
    if np.shape(observation["machine_view"])[-1] != len(COUNTER_NAMES) or (
        len(counters) == len(COUNTER_NAMES)
    ):
        return observation
    own = dict(observation)
    for key in ("machine_view", "incumbent_view", "slice_view", "slice_counters"):
        if key in own:
            own[key] = np.ascontiguousarray(own[key][..., : len(counters)])
    return own


def in_full(observation: Mapping[str, Array]) -> dict[str, Array]:
    """An observation with ``slice_view`` and ``incumbent_view`` all zero, whatever they were."""
    machine = observation["machine_view"]
    *leading, _, _, counters = machine.shape
    return {
        **observation,
        "incumbent_view": np.zeros_like(machine),
        "slice_view": np.zeros((*leading, counters), dtype=machine.dtype),
    }


def full_shapes(space: spaces.Dict) -> list[tuple[int, ...]]:
    """Shapes of the full observation's arrays in the order of KEYS, also of those left out.

    Raises:
        DescriptionError: it lacks the machine's view, which networks cannot do without.
    """
    if "machine_view" not in space.spaces:
        raise DescriptionError(
            "observation = 'compact': lacks machine_view, which agents of tiles see: use 'full', "
            "'paper' or 'complete'"
        )
    machine = space["machine_view"].shape or ()
    absent = {"incumbent_view": machine, "slice_view": machine[-1:]}
    shapes = absent | {key: part.shape or () for key, part in space.spaces.items()}
    return [shapes[key] for key in KEYS]


def places_of(machine: Machine) -> npt.NDArray[np.int64]:
    """(2, tiles): the last-level cache and the node of the worker on each tile, -1: no worker."""
    places = np.full((len(LEVELS), machine.tiles), -1, dtype=np.int64)
    workers = machine.workers
    for row, kind in zip(places, (machine.llc_of_core, machine.node_of_core), strict=True):
        row[machine.tile_of_core[workers]] = kind[workers]
    return places


class Layout:
    """Where the core tiles of a machine lie in a network's grid: in the upper left corner.

    The rest of the grid is masked. Entries of ``meta`` go by their names: nodes and links that the
    machine lacks carry no traffic, those that the network never had are not shown to it.

    Attributes:
        machine: that is laid out.
        grid: rows and columns of the network's grid.
        names: of the entries of the network's ``meta``.
        is_own: whether grid and names are the machine's, so that nothing is padded.
        tiles: (machine.tiles,) the network's tile of each of the machine's.
        places: (2, tiles) of the network's, see places_of().
    """

    def __init__(
        self,
        machine: Machine,
        grid: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Lays a machine out; without a grid and names they are its own.

        Raises:
            CheckpointError: it does not fit into the grid.
        """
        own = meta_names(machine)
        rows, cols = (machine.rows, machine.cols) if grid is None else grid
        names = own if names is None else names
        if machine.rows > rows or machine.cols > cols:
            raise CheckpointError(
                f"a grid of {[rows, cols]} core tiles: {machine.name} has "
                f"{[machine.rows, machine.cols]}, which does not fit into it"
            )
        self.machine, self.grid, self.names = machine, (rows, cols), tuple(names)
        numbers = np.arange(rows * cols).reshape(rows, cols)
        self.tiles = numbers[: machine.rows, : machine.cols].ravel()
        self.places = np.full((len(LEVELS), rows * cols), -1, dtype=np.int64)
        self.places[:, self.tiles] = places_of(machine)
        column = {name: number for number, name in enumerate(names)}
        shared = [name for name in own if name in column]
        self._from, self._to = [own.index(n) for n in shared], [column[n] for n in shared]
        self.is_own = self.grid == (machine.rows, machine.cols) and self.names == tuple(own)

    def spread(self, values: Array, axis: int) -> Array:
        """Values of the machine's tiles along an axis as those of the network's; 0 elsewhere."""
        shape = list(values.shape)
        shape[axis] = self.places.shape[1]
        whole = np.zeros(shape, dtype=values.dtype)
        np.moveaxis(whole, axis, 0)[self.tiles] = np.moveaxis(values, axis, 0)
        return whole

    def meta(self, values: Array) -> Array:
        """(entries,) of the network's ``meta``, given the machine's."""
        whole = np.zeros(len(self.names), dtype=values.dtype)
        whole[self._to] = values[self._from]
        return whole


class FullSequenceView(SequenceView):
    """A SequenceView of any dataset; zeros are what ``observation="paper"`` did not hold.

    With ``snapshot="own"`` the machine view has the counters under the schedule that was built, and
    DatasetError is raised where they were not read.
    """

    def __init__(
        self, dataset: Dataset, reward: str = "terminal", snapshot: str = "incumbent"
    ) -> None:
        super().__init__(dataset, reward)
        self._own = snapshot == "own"

    def _arrays(self, index: int) -> dict[str, Any]:
        arrays = super()._arrays(index)
        if self._own:
            episode = self._dataset[index]
            if not episode.final_running_ratio[_QUERIES] > 0:
                raise DatasetError(
                    f"{self._dataset.path}: episode {index}: final_running_ratio: queries were not "
                    "counted under the schedule that was built, as snapshot = 'own' needs; "
                    "use snapshot = 'incumbent'"
                )
            shown = self._expander.observations(episode, copies=False, snapshot="final")
            arrays["machine_view"] = shown["machine_view"].reshape(arrays["machine_view"].shape)
        if "slice_view" not in arrays:
            machine = arrays["machine_view"]
            arrays["incumbent_view"] = np.zeros_like(machine[:1])
            arrays["slice_view"] = np.zeros_like(machine[:, 0])
        return arrays
