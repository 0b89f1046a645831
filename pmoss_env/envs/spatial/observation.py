"""The observation space, and the layout of its arrays.

native/environment/rules.hpp describes how steps write them.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from pmoss_env.errors import UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTERS,
    Float32Array,
    HardwareSnapshot,
    Int32Array,
)

ObservationMode = Literal["full", "paper", "complete"]
OBSERVATION_MODES: tuple[str, ...] = get_args(ObservationMode)
PlacementOrder = Literal["index", "load"]
PLACEMENT_ORDERS: tuple[str, ...] = get_args(PlacementOrder)

#: Finite upper bound of counters and off-core values: Gymnasium's checker warns of infinite bounds.
HIGHEST = 1e9
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


def observation_space(
    machine: Machine, slices: int, mode: str = "full", actions: str = "core"
) -> spaces.Dict:
    """The observation space, see ``SpatialSchedulingEnv``.

    Args:
        machine: gives the grid, the nodes and the sockets.
        slices: number of slices, T.
        mode: "full"; "paper" without ``slice_view`` and ``incumbent_view``; or "complete", with
            the counters and the tiles of every slice.
        actions: "core_node" adds the keys for nodes.

    Raises:
        UnknownNameError: another mode.
    """
    if mode not in OBSERVATION_MODES:
        raise UnknownNameError("observation", mode, OBSERVATION_MODES)
    grid = (machine.rows, machine.cols)

    def counters(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, HIGHEST, shape, np.float32)

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
