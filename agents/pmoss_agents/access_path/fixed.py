"""Lower and upper bounds for agents: one path always, and the oracle."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pmoss_agents.access_path.base import AccessPathAgent, Floats
from pmoss_agents.agent import Array, Learns, Observation
from pmoss_agents.configs import Settings
from pmoss_datasets.fairness import reads_environment
from pmoss_env.envs.access_path import PATHS
from pmoss_env.errors import DescriptionError


class AlwaysCpu(AccessPathAgent):
    """The processor loads, always."""

    name = "always-cpu"
    learns: ClassVar[Learns] = "nothing"
    Config: ClassVar[type[Any]] = Settings
    path = PATHS.index("cpu")

    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """(n,) always the same."""
        return np.full(len(features), self.path, dtype=np.intp)


class AlwaysOffload(AlwaysCpu):
    """The engine copies, always."""

    name = "always-offload"
    path = PATHS.index("offload")


@reads_environment
class Oracle(AccessPathAgent):
    """The path that the environment knows to be fastest, of the coherent ones."""

    name = "oracle"
    learns: ClassVar[Learns] = "nothing"
    Config: ClassVar[type[Any]] = Settings

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._env: Any = None

    def check_env(self, env: Any) -> None:
        """Takes the environment, too; see Agent."""
        super().check_env(env)
        self._env = env.unwrapped

    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """Not from features: DescriptionError."""
        raise DescriptionError(
            "oracle: it reads run times, not features: call check_env(env) and act()"
        )

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The fastest coherent path of the next scan."""
        if self._env is None:
            raise DescriptionError("oracle: call check_env(env) first")
        return int(np.argmin(self._env.path_times_us()[:2]))
