"""What the agents' networks read of an observation.

They expect the full one: what the paper's leaves out is shown to them as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from pmoss_agents.agent import Array
from pmoss_datasets.formats import SequenceView
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES

_QUERIES = COUNTER_INDEX["queries"]

#: The keys of the environment's observation, in the order of its space and of the d3rlpy view.
KEYS = (
    "incumbent_view",
    "machine_view",
    "meta",
    "position_mask",
    "slice",
    "slice_view",
    "view_mask",
)


#: Behind KEYS, of learners that see all slices at each step; see all_slices().
ALL_SLICES = "all_slices"


def all_slices(counters: Array, left: Array) -> Array:
    """(T, H + 1) float32: the counters of every slice, and 1 where it is still to be placed.

    Args:
        counters: (T, H) of the slices, in any order.
        left: (T,) whether each of them is still to be placed, in the same order.
    """
    return np.concatenate([counters, left[:, None]], axis=1).astype(np.float32, copy=False)


def slices_left(observation: Mapping[str, Array], order: str) -> Array:
    """(T,) bool: which slices are still to be placed, by their numbers.

    Args:
        observation: of an environment with ``observation="complete"``.
        order: of placement, "index" or "load".
    """
    counters = observation["slice_counters"]
    total = len(counters)
    slices = np.arange(total)
    if order == "load":
        slices = np.argsort(-counters[:, _QUERIES], kind="stable")
    now = round(float(observation["slice"].item()) * total)
    left = np.zeros(total, dtype=bool)
    if now < total:
        left[slices[int(np.flatnonzero(slices == now)[0]) :]] = True
    return left


def in_own_counters(
    observation: Mapping[str, Array], counters: Sequence[str]
) -> Mapping[str, Array]:
    """An observation without the counters that are younger than the agent.

    Args:
        observation: of the environment, with today's counters.
        counters: names of those that the agent was fitted with, the first of today's table.
    """
    if np.shape(observation["machine_view"])[-1] != len(COUNTER_NAMES) or (
        len(counters) == len(COUNTER_NAMES)
    ):
        return observation
    own = dict(observation)
    for key in ("machine_view", "incumbent_view", "slice_view", "slice_counters"):
        if key in own:
            own[key] = np.ascontiguousarray(own[key][..., : len(counters)])
    return own


def in_full(observation: Mapping[str, Array]) -> dict[str, Array]:
    """An observation with ``slice_view`` and ``incumbent_view`` all zero, whatever they were."""
    machine = observation["machine_view"]
    *leading, _, _, counters = machine.shape
    return {
        **observation,
        "incumbent_view": np.zeros_like(machine),
        "slice_view": np.zeros((*leading, counters), dtype=machine.dtype),
    }


def full_shapes(space: spaces.Dict) -> list[tuple[int, ...]]:
    """Shapes of the full observation's arrays in the order of KEYS, also of those left out."""
    machine = space["machine_view"].shape or ()
    absent = {"incumbent_view": machine, "slice_view": machine[-1:]}
    shapes = absent | {key: part.shape or () for key, part in space.spaces.items()}
    return [shapes[key] for key in KEYS]


class FullSequenceView(SequenceView):
    """A SequenceView of any dataset; zeros are what ``observation="paper"`` did not hold."""

    def _arrays(self, index: int) -> dict[str, Any]:
        arrays = super()._arrays(index)
        if "slice_view" not in arrays:
            machine = arrays["machine_view"]
            arrays["incumbent_view"] = np.zeros_like(machine[:1])
            arrays["slice_view"] = np.zeros_like(machine[:, 0])
        return arrays
