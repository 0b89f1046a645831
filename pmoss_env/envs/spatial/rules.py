"""The rules of an environment in their C++ form (native/environment/rules.hpp)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pmoss_env import _native
from pmoss_env.checks import check_name
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, meta_names
from pmoss_env.errors import ScheduleError
from pmoss_env.machines import Machine
from pmoss_env.memory import CONSTRAINT, slices_of_node
from pmoss_env.types import COUNTERS, Int32Array
from pmoss_env.workloads import load_workload

Reward = Literal["improvement", "slice", "terminal"]
REWARDS = ("improvement", "slice", "terminal")
#: An action chooses a core, whose node gets the data, or a core and the node of the data.
ACTIONS = ("core", "core_node")
CONSTRAINTS = ("max_slices_per_core", CONSTRAINT)


def room_of_nodes(
    machine: Machine,
    workload: str,
    slices: int,
    *,
    actions: str = "core",
    constraints: Mapping[str, Any] | None = None,
) -> Int32Array | None:
    """(N,) int32: number of slices' data that each node may hold in an episode; None: no limit.

    The machine's own memory counts only if actions choose nodes; a constraint always does.

    Args:
        workload: name or path.
        actions: one of ACTIONS.
        constraints: None, or by names of CONSTRAINTS.

    Raises:
        ScheduleError: an invalid constraint, or one that allows no schedule.
        PmossError: an error of load_workload().
    """
    limited = constraints is not None and constraints.get(CONSTRAINT) is not None
    if actions == "core" and not limited:
        return None
    room = slices_of_node(machine, load_workload(workload), slices, constraints)
    if room is None or actions != "core":
        return room
    workers = np.bincount(machine.node_of_core[machine.workers], minlength=machine.nodes)
    limit = slices_per_core(machine, slices, constraints)
    holds = np.minimum(room, workers * (slices if limit is None else limit))
    if holds.sum() < slices:
        raise ScheduleError(
            f"constraints: the nodes with workers hold {holds.sum()} of {slices} slices: give them "
            "more memory, or use actions='core_node'"
        )
    return room


def slices_per_core(
    machine: Machine, slices: int, constraints: Mapping[str, Any] | None
) -> int | None:
    """Largest number of slices per core in an episode; None without a limit.

    Args:
        constraints: None, or by names of CONSTRAINTS.

    Raises:
        UnknownNameError: an unknown constraint.
        ScheduleError: a value that is no whole number, or that allows no schedule.
    """
    limit: int | None = None
    for name, value in (constraints or {}).items():
        check_name("constraint", name, CONSTRAINTS)
        if name != "max_slices_per_core":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ScheduleError(f"constraints: {name} = {value!r}: must be a whole number above 0")
        workers = machine.workers.size
        if value * workers < slices:
            raise ScheduleError(
                f"constraints: {name} = {value} leaves room for {value * workers} slices on "
                f"{workers} workers: {slices} must be placed"
            )
        limit = value
    return limit


def make_rules(
    machine: Machine,
    slices: int,
    *,
    observation: str = "full",
    actions: str = "core",
    room: Int32Array | None = None,
    constraints: Mapping[str, Any] | None = None,
    on_illegal: str = "remap",
    reward: str = "terminal",
    measure_every: int = 1,
) -> _native.SpatialRules:
    """The rules of an environment with these arguments.

    Args:
        machine: gives the tiles, cores, nodes and sockets.
        observation: one of OBSERVATION_MODES.
        actions: one of ACTIONS.
        room: (N,) of room_of_nodes().
        on_illegal: "remap", "terminate" or "raise".
        reward: one of REWARDS.
        measure_every: steps between two readings of the throughput.

    Raises:
        UnknownNameError: an observation or a constraint that does not exist.
        ScheduleError: a constraint that leaves no legal schedule.
    """
    check_name("observation", observation, OBSERVATION_MODES)
    return _native.SpatialRules(
        slices=slices,
        counters=len(COUNTERS),
        meta=len(meta_names(machine)),
        columns=machine.cols,
        core_of_tile=machine.core_of_tile.tolist(),
        node_of_core=machine.node_of_core.tolist(),
        socket_of_node=machine.socket_of_node.tolist(),
        worker_tiles=machine.worker_tiles.astype(np.uint8).tolist(),
        remaps=on_illegal == "remap",
        max_slices_per_core=slices_per_core(machine, slices, constraints) or 0,
        max_slices_of_node=[] if room is None else room.tolist(),
        chooses_node=actions == "core_node",
        # A number above that of the slices never comes: only the last step is read.
        measure_every=min(measure_every, slices + 1),
        reward=reward,
        observation=observation,
    )
