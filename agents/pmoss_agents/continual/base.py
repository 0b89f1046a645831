"""What agents of continual scheduling share: a planner of whole rounds makes their moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_env.errors import CheckpointError


class RoundAgent(ABC):
    """An agent, in part: it acts as a planner of its own does.

    Attributes:
        planner: of the episode; None before begin().
    """

    name: ClassVar[str]
    domain = "continual"
    planner: RoundPolicy | None = None

    @abstractmethod
    def new_planner(self) -> RoundPolicy:
        """The planner of an episode; CheckpointError if nothing was learned yet."""

    def begin(self, env: Any, rng: np.random.Generator) -> None:
        """Takes the environment and the generator of an episode that has just begun."""
        self.planner = self.new_planner()
        self.planner.begin(env, rng)

    def reset(self) -> None:
        """Ends the episode before; begin() takes the next one."""
        self.planner = None

    @property
    def expected(self) -> float | None:
        """See RoundPolicy."""
        return None if self.planner is None else self.planner.expected

    def act(self, observation: Observation, action_mask: Array | None = None) -> Any:
        """The next move: two int32, slice and tile; see Agent.act."""
        if self.planner is None:
            raise CheckpointError(f"{self.name}: call begin(env, rng) first: it reads its snapshot")
        if action_mask is None:
            action_mask = np.concatenate([observation["slice_mask"], observation["tile_mask"]])
        return self.planner.act(observation, action_mask)
