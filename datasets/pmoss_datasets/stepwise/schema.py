"""The schema of recorded steps: observations, masks, actions and rewards.

Episodes may differ in length. All arrays are padded with zeros to the longest episode, and the
field ``steps`` says how much of each counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmoss_datasets.schema import COMMON_FIELDS, Array, Field, Metadata
from pmoss_env.types import Float32Array, Float64Array, Int8Array, Int32Array

#: The axes: T steps, S = T + 1 states, A actions.
FIELDS = (
    COMMON_FIELDS["episode"],
    COMMON_FIELDS["seed"],
    COMMON_FIELDS["policy"],
    Field("steps", "", "int64", "1", "number of steps; what comes after them is padding"),
    Field("outcome", "", "float64", "see the domain", "how good it was", signed=True),
    Field("actions", "T", "int32", "1", "action chosen at each step"),
    COMMON_FIELDS["propensity"],
    Field("rewards", "T", "float64", "as the environment pays", "of each step", signed=True),
    Field("action_mask", "SA", "int8", "1", "1 = an action that may be taken"),
)
#: Prefixes of the fields that hold parts of the observation and entries of info.
OBSERVATION, INFO = "observations/", "infos/"


@dataclass(frozen=True)
class StepEpisode:
    """One episode of T steps and A actions.

    Attributes:
        episode: its number in the recipe.
        seed: given to the environment's reset().
        policy: index into the metadata's ``policy_names``.
        outcome: how good it was, in the domain's unit.
        actions: (T,) int32.
        propensity: (T,) float32, NaN if not known.
        rewards: (T,) float64.
        action_mask: (T + 1, A) int8.
        observations: (T + 1, ...) by key; "observation" where it is one array.
        infos: (T + 1,) float64 of each entry of info that the domain keeps.
    """

    episode: int
    seed: int
    policy: int
    outcome: float
    actions: Int32Array
    propensity: Float32Array
    rewards: Float64Array
    action_mask: Int8Array
    observations: Mapping[str, Array]
    infos: Mapping[str, Float64Array] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of steps, T."""
        return int(self.actions.size)

    def values(self) -> dict[str, Any]:
        """The values by field."""
        own = {key: value for key, value in vars(self).items() if not isinstance(value, Mapping)}
        return {
            **own,
            "steps": self.steps,
            **{OBSERVATION + key: value for key, value in self.observations.items()},
            **{INFO + key: value for key, value in self.infos.items()},
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StepEpisode:
        """The episode of its values by field, without their padding."""
        steps = int(values["steps"])
        states = {f.name for f in FIELDS if f.axes.startswith("S")}
        own: dict[str, Any] = {}
        parts: dict[str, dict[str, Array]] = {OBSERVATION: {}, INFO: {}}
        for name, value in values.items():
            prefix = next((p for p in parts if name.startswith(p)), None)
            if prefix is not None:
                parts[prefix][name.removeprefix(prefix)] = value[: steps + 1]
            elif name != "steps":
                cut = steps + 1 if name in states else steps
                own[name] = value[:cut] if isinstance(value, np.ndarray) else value
        return cls(**own, observations=parts[OBSERVATION], infos=parts[INFO])


@dataclass(frozen=True, kw_only=True)
class StepMetadata(Metadata):
    """What the metadata of recorded steps says beyond that of every dataset.

    Attributes:
        steps: of the longest episode, T.
        actions: columns of a mask, A: how many actions there are, or choices of all their parts.
        parts: choices of each part of an action; empty where actions have one part.
        observations: ``{key: {"dtype": ..., "shape": [...]}}`` of the observation.
        infos: entries of info that are kept.
    """

    steps: int
    actions: int
    observations: Mapping[str, Any]
    infos: tuple[str, ...]
    parts: tuple[int, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the data file."""
        shown = tuple(
            Field(
                OBSERVATION + key,
                "S",
                str(part["dtype"]),
                "as the environment shows it",
                f"{key} of the observation before each step, and after the last",
                shape=tuple(part["shape"]),
                signed=True,
            )
            for key, part in self.observations.items()
        )
        infos = tuple(
            Field(INFO + name, "S", "float64", "1", f"{name} of info", nan=True, signed=True)
            for name in self.infos
        )
        return (*FIELDS, *shown, *infos)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Length of each axis."""
        return {"T": self.steps, "S": self.steps + 1, "A": self.actions}
