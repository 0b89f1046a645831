"""Pictures of threads on cores: their number, and the share of remote accesses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.spatial import viewer
from pmoss_env.envs.threads.decisions import unbalance
from pmoss_env.envs.threads.server import Sample
from pmoss_env.machines import Machine
from pmoss_env.types import Schedule

#: What P_ub is, in words (Smart Scheduler, equation 4).
P_UB = "remote share of accesses to slow memory"


def as_text(machine: Machine, sample: Sample, title: str) -> str:
    """The number of threads per core, shaded by P_ub, as text."""
    return viewer.as_text(
        *_arguments(machine, sample), title, unit="threads", load=f"P_ub, the {P_UB}", roles=""
    )


def as_image(machine: Machine, sample: Sample, title: str) -> npt.NDArray[np.uint8]:
    """The number of threads per core, coloured by P_ub, as an (height, width, 3) uint8 image."""
    return viewer.as_image(
        *_arguments(machine, sample),
        title,
        load_label=f"P_ub: {P_UB}",
        highest_load=1.0,
        legend=f"number: threads on the CPU   {viewer.FRAMES}",
    )


def _arguments(machine: Machine, sample: Sample) -> tuple[Machine, Schedule, Any]:
    # Every core may run a thread, whatever its role for an index.
    open_to_all = replace(machine, role_of_core=("worker",) * machine.cores)
    return open_to_all, Schedule(sample.cpus, sample.homes), unbalance(sample.inputs)
