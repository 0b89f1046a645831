"""The observation space, and the layout of its arrays.

native/environment/rules.hpp describes how steps write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from pmoss_env.checks import check_name
from pmoss_env.errors import UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTERS,
    Float32Array,
    HardwareSnapshot,
    Int32Array,
)

ObservationMode = Literal["full", "paper", "complete", "compact"]
OBSERVATION_MODES: tuple[str, ...] = get_args(ObservationMode)
PlacementOrder = Literal["index", "load"]
PLACEMENT_ORDERS: tuple[str, ...] = get_args(PlacementOrder)

#: Finite upper bound of counters and off-core values: Gymnasium's checker warns of infinite bounds.
HIGHEST = 1e9
#: Most actions of an environment with compact observations, whose places have 16 bits.
MOST_PLACES = 2**15
#: Facts about the processor at the end of ``meta``.
PROCESSOR_FACTS = ("logical_cores", "nodes", "sockets")


def meta_names(machine: Machine) -> tuple[str, ...]:
    """(M,) names of the entries of ``meta``; independent of the backend."""
    return (*machine.offcore_names, *PROCESSOR_FACTS)


def processor_facts(machine: Machine) -> list[float]:
    """Values of PROCESSOR_FACTS."""
    return [float(machine.cores), float(machine.nodes), float(machine.sockets)]


def places(count: int, slices: int) -> spaces.Box:
    """(slices,) int32: the tile or node of each slice, of ``count``.

    The upper bound is at least 1: Gymnasium warns of a box with a single value.
    """
    return spaces.Box(0, max(count - 1, 1), (slices,), np.int32)


def placement_order(kind: str, snapshot: HardwareSnapshot) -> Int32Array:
    """(slices,) int32: the slice placed at each step.

    Args:
        kind: "index" (slice 0 first) or "load" (the slice with most queries first; equal ones by
            index).

    Raises:
        UnknownNameError: another kind.
    """
    if kind == "index":
        return np.arange(snapshot.slice_throughput.size, dtype=np.int32)
    if kind == "load":
        queries = snapshot.slice_counters[:, COUNTER_INDEX["queries"]]
        return np.argsort(-queries, kind="stable").astype(np.int32)
    raise UnknownNameError("order", kind, PLACEMENT_ORDERS)


def observation_space(
    machine: Machine, slices: int, mode: str = "full", actions: str = "core"
) -> spaces.Dict:
    """The observation space, see ``SpatialSchedulingEnv``.

    Args:
        machine: gives the grid, the nodes and the sockets.
        slices: number of slices, T.
        mode: "full"; "paper" without ``slice_view`` and ``incumbent_view``; "complete", with
            the counters and the tiles of every slice; or "compact", without what stays the same.
        actions: "core_node" adds the keys for nodes.

    Raises:
        UnknownNameError: another mode.
        UnsupportedError: more actions than a compact observation can name.
    """
    check_name("observation", mode, OBSERVATION_MODES)
    grid = (machine.rows, machine.cols)

    def counters(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, HIGHEST, shape, np.float32)

    if mode == "compact":
        return spaces.Dict(_compact_keys(machine, slices, actions))
    keys: dict[str, spaces.Space[Any]] = {
        "view_mask": spaces.Box(0, 1, grid, np.int8),
        "position_mask": spaces.Box(0, 1, grid, np.int8),
        "machine_view": counters(*grid, len(COUNTERS)),
        "meta": counters(len(meta_names(machine))),
        "slice": spaces.Box(0.0, 1.0, (1,), np.float32),
    }
    if mode != "paper":
        keys["slice_view"] = counters(len(COUNTERS))
        keys["incumbent_view"] = counters(*grid, len(COUNTERS))
    if mode == "complete":
        tiles = places(machine.tiles, slices)
        keys["slice_counters"] = counters(slices, len(COUNTERS))
        keys["incumbent_tiles"] = tiles
        keys["slice_tiles"] = tiles
    if actions == "core_node":
        keys["node_mask"] = spaces.Box(0, 1, (machine.nodes,), np.int8)
        keys["node_room"] = spaces.Box(0.0, 1.0, (machine.nodes,), np.float32)
        keys["node_view"] = counters(machine.nodes, len(COUNTERS))
        if mode == "complete":
            nodes = places(machine.nodes, slices)
            keys["incumbent_nodes"] = nodes
            keys["slice_nodes"] = nodes
    return spaces.Dict(keys)


def _compact_keys(machine: Machine, slices: int, actions: str) -> dict[str, spaces.Space[Any]]:
    grid, nodes = (machine.rows, machine.cols), machine.nodes
    choices = machine.tiles * (nodes if actions == "core_node" else 1)
    if choices > MOST_PLACES:
        raise UnsupportedError(
            f"observation = 'compact': {machine.name} has {choices} actions; it names at most "
            f"{MOST_PLACES}: choose observation = 'complete'"
        )
    keys: dict[str, spaces.Space[Any]] = {
        "position_mask": spaces.Box(0, 1, grid, np.int8),
        "slice": spaces.Box(0.0, 1.0, (1,), np.float32),
        "slice_view": spaces.Box(0.0, HIGHEST, (len(COUNTERS),), np.float32),
        "slice_places": spaces.Box(0, max(choices - 1, 1), (slices,), np.int16),
    }
    if actions == "core_node":
        keys["node_mask"] = spaces.Box(0, 1, (nodes,), np.int8)
        keys["node_room"] = spaces.Box(0.0, 1.0, (nodes,), np.float32)
    return keys


def in_full(
    compact: Mapping[str, np.ndarray], facts: Mapping[str, np.ndarray], machine: Machine
) -> dict[str, np.ndarray]:
    """Every key that any mode of the observation has, with the same bits.

    Args:
        compact: an observation of one environment with ``observation="compact"``.
        facts: ``episode_facts()`` of its episode.
    """
    counters, order = facts["slice_counters"], facts["order"]
    slices = order.size
    next_slice = round(float(compact["slice"][0]) * slices)
    steps = slices if next_slice == slices else int(np.flatnonzero(order == next_slice)[0])
    placed, grid = order[:steps], (machine.rows, machine.cols)
    chooses_node = "node_mask" in compact
    divisor = machine.nodes if chooses_node else 1
    tiles, nodes = np.divmod(compact["slice_places"].astype(np.int32), divisor)
    old_tiles, old_nodes = np.divmod(facts["incumbent_places"].astype(np.int32), divisor)

    def added(rows: int, where: Int32Array, slices: Int32Array) -> Float32Array:
        view = np.zeros((rows, counters.shape[1]), dtype=np.float32)
        np.add.at(view, where, counters[slices])  # one after the other, as the steps do
        return view

    view_mask = np.zeros(machine.tiles, dtype=np.int8)
    view_mask[tiles[placed]] = 1
    everything = np.arange(slices, dtype=np.int32)
    result = {
        **{key: value for key, value in compact.items() if key != "slice_places"},
        "view_mask": view_mask.reshape(grid),
        "machine_view": added(machine.tiles, tiles[placed], placed).reshape(*grid, -1),
        "incumbent_view": added(machine.tiles, old_tiles, everything).reshape(*grid, -1),
        "meta": facts["meta"],
        "slice_counters": counters,
        "slice_tiles": tiles,
        "incumbent_tiles": old_tiles,
    }
    if chooses_node:
        result["node_view"] = added(machine.nodes, nodes[placed], placed)
        result["slice_nodes"], result["incumbent_nodes"] = nodes, old_nodes
    return result


def observed_counters(snapshot: HardwareSnapshot) -> Float32Array:
    """(slices, H) float32: the counters for observations; 0 where not available.

    They are cast before they are added, so that a snapshot stored as float32 gives the same bits.
    """
    counters = snapshot.slice_counters.astype(np.float32)
    counters[:, ~snapshot.counters_available] = 0
    return counters


def observed_meta(machine: Machine, snapshot: HardwareSnapshot) -> Float32Array:
    """(M,) float32: off-core values, 0 where not available, and the facts of the processor."""
    names = meta_names(machine)
    meta = np.zeros(len(names), dtype=np.float32)
    meta[-len(PROCESSOR_FACTS) :] = processor_facts(machine)
    offcore = snapshot.offcore.astype(np.float32)
    if snapshot.offcore_names == machine.offcore_names:
        meta[: offcore.size] = np.where(snapshot.offcore_available, offcore, np.float32(0))
        return meta
    place = {name: i for i, name in enumerate(names)}
    for name, value, available in zip(
        snapshot.offcore_names, offcore, snapshot.offcore_available, strict=True
    ):
        if available and name in place:
            meta[place[name]] = value
    return meta
