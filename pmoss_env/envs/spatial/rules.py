"""The rules of an environment as the native code takes them (native/environment/rules.hpp)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pmoss_env import _native
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, meta_names
from pmoss_env.errors import ScheduleError, UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTERS

Reward = Literal["improvement", "slice", "terminal"]
REWARDS = ("improvement", "slice", "terminal")
ON_ILLEGAL = ("remap", "terminate", "raise")


def slices_per_core(
    machine: Machine, slices: int, constraints: Mapping[str, Any] | None
) -> int | None:
    """How many slices a core may get in one episode; None without a limit.

    Args:
        machine: gives the workers.
        slices: how many slices an episode places.
        constraints: None, or ``{"max_slices_per_core": n}``.

    Raises:
        UnknownNameError: a constraint that does not exist.
        ScheduleError: a value that is no whole number, or that leaves no legal schedule.
    """
    most: int | None = None
    for name, value in (constraints or {}).items():
        if name != "max_slices_per_core":
            raise UnknownNameError("constraint", name, ("max_slices_per_core",))
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ScheduleError(f"constraints: {name} = {value!r}: must be a whole number above 0")
        workers = machine.workers.size
        if value * workers < slices:
            raise ScheduleError(
                f"constraints: {name} = {value} leaves room for {value * workers} slices on "
                f"{workers} workers: {slices} must be placed"
            )
        most = value
    return most


def make_rules(
    machine: Machine,
    slices: int,
    *,
    observation: str = "full",
    constraints: Mapping[str, Any] | None = None,
    on_illegal: str = "remap",
    reward: str = "terminal",
    measure_every: int = 1,
) -> _native.SpatialRules:
    """The rules of an environment with these arguments.

    Args:
        machine: gives the tiles, cores, nodes and sockets.
        slices: how many slices an episode places.
        observation: one of OBSERVATION_MODES.
        constraints: see slices_per_core().
        on_illegal: "remap", "terminate" or "raise".
        reward: one of REWARDS.
        measure_every: steps between two readings of the throughput.

    Raises:
        UnknownNameError: an observation or a constraint that does not exist.
        ScheduleError: a constraint that leaves no legal schedule.
    """
    if observation not in OBSERVATION_MODES:
        raise UnknownNameError("observation", observation, OBSERVATION_MODES)
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
        # A number above that of the slices never comes: only the last step is read.
        measure_every=min(measure_every, slices + 1),
        reward=reward,
        observation=observation,
    )
