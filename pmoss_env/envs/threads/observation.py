"""The observation space of a server, and the observation of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env.envs.threads.inputs import INPUTS
from pmoss_env.envs.threads.server import Sample
from pmoss_env.machines import Machine
from pmoss_env.types import Int8Array

Observation = dict[str, npt.NDArray[Any]]
_SCALES = np.array([entry.scale for entry in INPUTS])
#: Most threads of a program. A core may run all of them, and the observation counts them.
MAX_THREADS = 10_000
#: Most requests of a program: each is counted exactly.
MAX_REQUESTS = 10**15
#: Upper bound of a scaled input; larger values are clipped. Gymnasium's checker warns of infinite
#: bounds.
_MAX = float(MAX_THREADS)


def observation_space(machine: Machine, actions: int) -> spaces.Dict:
    """The observation space, see ``ThreadSchedulingEnv``."""
    inputs = len(INPUTS)
    return spaces.Dict(
        {
            "inputs": spaces.Box(0.0, _MAX, shape=(inputs,), dtype=np.float32),
            "core_inputs": spaces.Box(0.0, _MAX, shape=(machine.cores, inputs), dtype=np.float32),
            "threads": spaces.Box(0.0, _MAX, shape=(1,), dtype=np.float32),
            "core": spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32),
            "action_mask": spaces.Box(0, 1, shape=(actions,), dtype=np.int8),
        }
    )


def observe(machine: Machine, sample: Sample, core: int, mask: Int8Array) -> Observation:
    """The observation of an epoch, in fresh arrays.

    Args:
        core: the core to decide on; negative for none.
        mask: (actions,) the legal actions.
    """
    scaled = np.minimum(sample.inputs / _SCALES, _MAX).astype(np.float32)
    on_core = int(np.sum(sample.cpus == core)) if core >= 0 else 0
    return {
        "inputs": scaled[core].copy() if core >= 0 else np.zeros(len(INPUTS), np.float32),
        "core_inputs": scaled,
        "threads": np.array([on_core], dtype=np.float32),
        "core": np.array([core / machine.cores if core >= 0 else -1.0], np.float32),
        "action_mask": mask.copy(),
    }
