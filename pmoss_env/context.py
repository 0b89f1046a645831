"""What whoever plans a whole episode at its beginning may look at."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pmoss_env.backends.base import Backend
from pmoss_env.machines import Machine
from pmoss_env.measurements import Measurements
from pmoss_env.types import HardwareSnapshot, Int32Array, Schedule


@dataclass(frozen=True)
class Context:
    """What a baseline, or an agent that plans whole episodes, may look at.

    Attributes:
        machine: where the slices go.
        slices: how many there are.
        incumbent: the schedule that runs now; None where nothing runs yet.
        snapshot: what the incumbent measures.
        rng: the only source of chance.
        backend: set to the episode's instance; its current schedule may be changed.
        max_slices_per_core: the constraint of this name, None without.
        order: (slices,) the slice placed at each step; None: the heaviest by slice_load() first.
        measurements: schedules that may be run before the decision; None: not one.
    """

    machine: Machine
    slices: int
    incumbent: Schedule | None = None
    snapshot: HardwareSnapshot | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    backend: Backend | None = None
    max_slices_per_core: int | None = None
    order: Int32Array | None = None
    measurements: Measurements | None = None
