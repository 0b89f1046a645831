"""What the agents of thread scheduling share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Agent, Array, Observation
from pmoss_env.envs.threads.inputs import INPUT_NAMES
from pmoss_env.errors import CheckpointError, DescriptionError


@dataclass(frozen=True)
class NoConfig:
    """Nothing to set."""


class ThreadAgent(Agent):
    """An agent that decides how many threads of a core to migrate.

    It can act, and can be saved, from the beginning.
    """

    domain = "threads"
    Config: ClassVar[type[Any]] = NoConfig

    def __init__(self, **config: Any) -> None:
        """Makes an agent; see Agent."""
        super().__init__(**config)
        self.task = {"inputs": list(INPUT_NAMES)}

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        pass


def legal_counts(observation: Observation, action_mask: Array | None) -> Array:
    """(k,) ascending: how many threads may be migrated.

    Args:
        observation: of ``pmoss/ThreadScheduling-v0``.
        action_mask: (actions,) 1 = legal; the observation's if None.

    Raises:
        DescriptionError: the mask allows nothing.
        CheckpointError: the observation has other inputs.
    """
    mask = observation["action_mask"] if action_mask is None else action_mask
    legal = np.flatnonzero(mask)
    if not legal.size:
        raise DescriptionError("the action mask allows nothing")
    if observation["inputs"].shape != (len(INPUT_NAMES),):
        raise CheckpointError(
            f"inputs of shape {observation['inputs'].shape}: must be ({len(INPUT_NAMES)},)"
        )
    return legal
