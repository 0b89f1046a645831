"""What a policy sees and may do: observations and the position mask of spatial scheduling.

The environment builds its observations here step by step, and datasets rebuild the same bits from
a stored episode (design.md sections 3 and 5), so everything in this file depends on nothing but
the machine, the incumbent's snapshot and the tiles chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from pmoss_env.errors import ScheduleError, UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTERS,
    BoolArray,
    Float32Array,
    HardwareSnapshot,
    Int32Array,
    Schedule,
)

ObservationMode = Literal["full", "paper"]
OBSERVATION_MODES: tuple[str, ...] = get_args(ObservationMode)
PlacementOrder = Literal["index", "load"]
PLACEMENT_ORDERS: tuple[str, ...] = get_args(PlacementOrder)

#: Finite upper bound of every counter and off-core value: infinite Box bounds make Gymnasium's
#: checker warn, and no server reaches a million GHz or an exabyte per second.
HIGHEST = 1e9
#: Processor facts at the end of ``meta`` (mission row B5).
PROCESSOR_FACTS = ("logical_cores", "nodes", "sockets")


def meta_names(machine: Machine) -> tuple[str, ...]:
    """(M,) names of the entries of ``meta``: the same length whatever a backend can measure."""
    return (*machine.offcore_names, *PROCESSOR_FACTS)


def placement_order(kind: str, snapshot: HardwareSnapshot) -> Int32Array:
    """(slices,) int32: the slice placed at each step.

    Args:
        kind: "index" (slice 0 first) or "load" (the slice with most queries first; equal ones by
            index).
        snapshot: of the incumbent.

    Raises:
        UnknownNameError: another kind.
    """
    if kind == "index":
        return np.arange(snapshot.slice_throughput.size, dtype=np.int32)
    if kind == "load":
        queries = snapshot.slice_counters[:, COUNTER_INDEX["queries"]]
        return np.argsort(-queries, kind="stable").astype(np.int32)
    raise UnknownNameError("order", kind, PLACEMENT_ORDERS)


class PositionMask:
    """The one source of the action mask: worker tiles minus constraint violations (mission B3).

    Constraints bind the slices placed in this episode, so the final schedule obeys them whatever
    the incumbent was. They live in the mask only, never in the observation space.
    """

    def __init__(
        self, machine: Machine, slices: int, constraints: Mapping[str, Any] | None = None
    ) -> None:
        """Args are those of the environment.

        Args:
            machine: gives the worker tiles.
            slices: how many slices an episode places.
            constraints: None, or ``{"max_slices_per_core": n}``: no core gets more than n slices.

        Raises:
            UnknownNameError: a constraint that does not exist.
            ScheduleError: a value that is no whole number, or that leaves no legal schedule.
        """
        self._workers = machine.worker_tiles
        self._mask = self._workers.copy()
        self._placed = np.zeros(machine.tiles, dtype=np.int32)
        self._most: int | None = None
        for name, value in (constraints or {}).items():
            if name != "max_slices_per_core":
                raise UnknownNameError("constraint", name, ("max_slices_per_core",))
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ScheduleError(
                    f"constraints: {name} = {value!r}: must be a whole number above 0"
                )
            workers = int(self._workers.sum())
            if value * workers < slices:
                raise ScheduleError(
                    f"constraints: {name} = {value} leaves room for {value * workers} slices on "
                    f"{workers} workers: {slices} must be placed"
                )
            self._most = value

    def start(self) -> None:
        """Begins an episode: every worker tile is legal."""
        self._mask[:] = self._workers
        self._placed[:] = 0

    def place(self, tile: int) -> None:
        """Notes that a slice went on ``tile``."""
        if self._most is not None:
            self._placed[tile] += 1
            self._mask[tile] = self._placed[tile] < self._most

    def resume(self, tiles: Int32Array) -> None:
        """Begins an episode after the slices that went on ``tiles``."""
        self.start()
        if self._most is not None:
            self._placed[:] = np.bincount(tiles, minlength=self._placed.size)
            self._mask &= self._placed < self._most

    @property
    def tiles(self) -> BoolArray:
        """(r * c,) bool, the legal tiles for the next slice. A view: copy it to keep it."""
        return self._mask


class ObservationBuilder:
    """Builds the observations of one episode (design.md section 3, mission rows B2 to B5).

    Counters are cast to float32 first and then added in float32, in placement order, so that a
    snapshot stored as float32 expands to the same bits.

    Attributes:
        space: the observation space, a ``Dict``.
    """

    def __init__(self, machine: Machine, slices: int, mode: ObservationMode = "full") -> None:
        """Args are those of the environment.

        Args:
            machine: gives the grid, the nodes and the sockets.
            slices: number of slices, T.
            mode: "full", or "paper" without ``slice_view`` and ``incumbent_view``.

        Raises:
            UnknownNameError: another mode.
        """
        if mode not in OBSERVATION_MODES:
            raise UnknownNameError("observation", mode, OBSERVATION_MODES)
        self._machine = machine
        self._slices = slices
        self._full = mode == "full"
        self._grid = (machine.rows, machine.cols)
        self._views = (machine.rows, machine.cols, len(COUNTERS))
        self._offcore_names = machine.offcore_names
        self._offcore_index = {name: i for i, name in enumerate(self._offcore_names)}
        facts = (machine.cores, machine.nodes, machine.sockets)
        self._meta = np.zeros(len(self._offcore_names) + len(facts), dtype=np.float32)
        self._meta[-len(facts) :] = facts
        self._counters: Float32Array = np.zeros((slices, len(COUNTERS)), dtype=np.float32)
        self._nothing: Float32Array = np.zeros(len(COUNTERS), dtype=np.float32)
        # What is shown, and the same memory tile by tile.
        self._view_masks = np.zeros(self._grid, dtype=np.int8)
        self._machine_views = np.zeros(self._views, dtype=np.float32)
        self._incumbent_views = np.zeros(self._views, dtype=np.float32)
        self._view_mask = self._view_masks.reshape(machine.tiles)
        self._machine_rows = list(self._machine_views.reshape(machine.tiles, len(COUNTERS)))
        self._positions = (np.arange(slices + 1) / slices).astype(np.float32)[:, None]
        self._order: list[int] = []
        self._t = 0

        def counters(*shape: int) -> spaces.Box:
            return spaces.Box(0.0, HIGHEST, shape, np.float32)

        keys: dict[str, spaces.Space[Any]] = {
            "view_mask": spaces.Box(0, 1, self._grid, np.int8),
            "position_mask": spaces.Box(0, 1, self._grid, np.int8),
            "machine_view": counters(*self._views),
            "meta": counters(self._meta.size),
            "slice": spaces.Box(0.0, 1.0, (1,), np.float32),
        }
        if self._full:
            keys["slice_view"] = counters(len(COUNTERS))
            keys["incumbent_view"] = counters(*self._views)
        self.space = spaces.Dict(keys)

    def start(self, incumbent: Schedule, snapshot: HardwareSnapshot, order: Int32Array) -> None:
        """Begins an episode.

        Args:
            incumbent: the schedule that runs now.
            snapshot: what it measures.
            order: (slices,) the slice placed at each step.

        Raises:
            ScheduleError: a schedule that the machine cannot run, a snapshot of another number of
                slices, or an order that does not name each slice once.
        """
        self._machine.check_schedule(incumbent, self._slices)
        if snapshot.slice_counters.shape != self._counters.shape:
            raise ScheduleError(
                f"the snapshot's counters have shape {snapshot.slice_counters.shape}: "
                f"must be {self._counters.shape}"
            )
        if not np.array_equal(np.sort(order), np.arange(self._slices)):
            raise ScheduleError(f"the order must name each of {self._slices} slices exactly once")
        self._counters = snapshot.slice_counters.astype(np.float32)
        self._counters[:, ~snapshot.counters_available] = 0
        offcore = snapshot.offcore.astype(np.float32)
        self._meta[: len(self._offcore_names)] = 0
        for name, value, available in zip(
            snapshot.offcore_names, offcore, snapshot.offcore_available, strict=True
        ):
            if available and name in self._offcore_index:
                self._meta[self._offcore_index[name]] = value
        self._order = order.tolist()
        self._t = 0
        self._view_mask[:] = 0
        self._machine_views[:] = 0
        if self._full:
            self._incumbent_views[:] = 0
            tiles = self._machine.tile_of_core[incumbent.cores]
            _add_rows(self._incumbent_views, tiles, self._counters)

    def resume(self, tiles: Int32Array) -> None:
        """Goes back to the start of the episode and places its first slices on ``tiles``."""
        self._t = tiles.size
        self._view_mask[:] = 0
        self._view_mask[tiles] = 1
        self._machine_views[:] = 0
        _add_rows(self._machine_views, tiles, self._counters[self._order[: self._t]])

    @property
    def counters(self) -> Float32Array:
        """(slices, H) float32: each slice's counters as observed; 0 where not available."""
        return self._counters

    @property
    def next_slice(self) -> int:
        """The slice that place() will put down; ``slices`` when all are placed."""
        return self._order[self._t] if self._t < self._slices else self._slices

    def place(self, tile: int) -> None:
        """Puts the next slice in order on ``tile``.

        Raises:
            ScheduleError: the tile does not exist, or every slice is placed.
        """
        if self._t >= len(self._order):
            raise ScheduleError(f"all {len(self._order)} slices are placed")
        if not 0 <= tile < self._view_mask.size:
            raise ScheduleError(f"tile {tile} does not exist: there are {self._view_mask.size}")
        self._view_mask[tile] = 1
        row = self._machine_rows[tile]
        np.add(row, self._counters[self._order[self._t]], out=row)
        self._t += 1

    def observe(self, position_mask: BoolArray) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        """The observation of the present step, in fresh arrays.

        After the last slice ``slice`` is 1 and ``slice_view`` is zero.

        Args:
            position_mask: (r * c,) or (r, c) bool, from PositionMask.
        """
        next_slice = self.next_slice
        observation: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
            "view_mask": self._view_masks.copy(),
            "position_mask": position_mask.view(np.int8).reshape(self._grid).copy(),
            "machine_view": self._machine_views.copy(),
            "meta": self._meta.copy(),
            "slice": self._positions[next_slice].copy(),
        }
        if self._full:
            done = next_slice == self._slices
            row = self._nothing if done else self._counters[next_slice]
            observation["slice_view"] = row.copy()
            observation["incumbent_view"] = self._incumbent_views.copy()
        return observation


def _add_rows(views: Float32Array, tiles: Int32Array, rows: Float32Array) -> None:
    """Adds row after row to the views of ``tiles``; number by number NumPy is much faster at it."""
    width = rows.shape[1]
    where = tiles[:, None] * width + np.arange(width)
    np.add.at(views.reshape(-1), where.ravel(), rows.ravel())
