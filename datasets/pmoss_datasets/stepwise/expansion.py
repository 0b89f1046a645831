"""Recorded steps as an agent saw them: nothing has to be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from pmoss_datasets.schema import Array
from pmoss_datasets.stepwise.schema import StepEpisode, StepMetadata
from pmoss_env.types import Int8Array


class StepExpander:
    """Shows the episodes of one dataset; see Expander.

    Attributes:
        space: of the observations, by key.
        actions: number of actions, A.
    """

    def __init__(self, space: spaces.Space[Any], metadata: StepMetadata) -> None:
        self.space = (
            space if isinstance(space, spaces.Dict) else spaces.Dict({"observation": space})
        )
        self.actions = metadata.actions

    def masks(self, episode: StepEpisode, *, last: bool = False) -> Int8Array:
        """(T, A) int8, or (T + 1, A) with ``last``: 1 = an action that may be taken."""
        return episode.action_mask[: episode.steps + last]

    def observations(
        self, episode: StepEpisode, *, last: bool = False, copies: bool = True
    ) -> dict[str, Array]:
        """What the environment showed at each step; see Expander."""
        shown = {key: episode.observations[key][: episode.steps + last] for key in self.space}
        return {key: np.array(value) for key, value in shown.items()} if copies else shown
