"""What the agents of spatial scheduling share: the task that they were fitted for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pmoss_agents.agent import Agent
from pmoss_agents.spatial.encoders import check_era
from pmoss_agents.spatial.padded import PaddedAgent, refuse_nodes
from pmoss_datasets import Dataset
from pmoss_datasets.policies import Policy
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.errors import CheckpointError, DatasetError
from pmoss_env.types import COUNTER_NAMES


class SpatialAgent(Agent):
    """An agent that chooses a core tile for each slice, and knows which machine it learned on."""

    domain = "spatial"
    #: Whether it acts on machines of any size; others are padded to that of their data.
    any_machine: ClassVar[bool] = False
    TASK: ClassVar[tuple[str, ...]] = (
        "grid",
        "slices",
        "counters",
        "order",
        "observation",
        "meta_names",
    )

    def check_env(self, env: Any) -> None:
        """Refuses an environment of another task than the agent was fitted for.

        Args:
            env: a spatial scheduling environment, wrapped or bare. What it does not tell is not
                compared.

        Raises:
            CheckpointError: it has another grid, number of slices, placement order, observation or
                set of counters.
            UnsupportedError: its actions name nodes, which this agent cannot choose.
        """
        env = getattr(env, "unwrapped", env)
        machine = getattr(env, "machine", None)
        refuse_nodes(self.name, getattr(env, "actions_kind", "core"))
        self.check_task(
            {
                "grid": None if machine is None else [machine.rows, machine.cols],
                "slices": getattr(env, "slices", None),
                "order": getattr(env, "order_kind", None),
                "observation": getattr(env, "observation_mode", None),
                "readable": getattr(env, "counters_kind", None),
            }
        )

    @classmethod
    def from_checkpoint(cls, path: Path, header: Mapping[str, Any], arrays: Any) -> Self:
        """See Agent.from_checkpoint; CheckpointError for inputs that no longer exist, too."""
        config = header.get("config")
        if isinstance(config, dict):
            try:
                check_era(config)
            except CheckpointError as error:
                raise CheckpointError(f"{path}: {error}") from error
        return super().from_checkpoint(path, header, arrays)

    def padded(self) -> Policy:
        """See PaddedAgent."""
        return self if self.any_machine else PaddedAgent(self)

    def encoders(self) -> list[Any]:
        """The state encoders of the networks that it acts by: they know the machine's topology."""
        return []


def task_of(dataset: Dataset, *, plans: bool = False) -> dict[str, Any]:
    """What an agent fitted to ``dataset`` can be used for, as plain JSON values.

    Args:
        dataset: to be learned from.
        plans: whether it is a PlanningAgent, which acts where nodes are chosen, too.

    Raises:
        DatasetError: its episodes are of another domain.
        UnsupportedError: its actions name nodes, which the agent cannot choose.
    """
    if dataset.domain.name != SpatialAgent.domain:
        raise DatasetError(
            f"{dataset.path}: holds episodes of the domain {dataset.domain.name!r}: agents of "
            "spatial scheduling cannot learn from them"
        )
    given = dataset.metadata.env_kwargs
    if not plans:
        refuse_nodes("an agent of tiles", str(given.get("actions", "core")))
    return {
        "grid": [dataset.machine.rows, dataset.machine.cols],
        "slices": dataset.steps,
        "counters": list(COUNTER_NAMES),
        "order": str(given.get("order", "index")),
        "observation": str(given.get("observation", "full")),
        "readable": str(given.get("counters", "all")),
        "meta_names": list(meta_names(dataset.machine)),
    }
