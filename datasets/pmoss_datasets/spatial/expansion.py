"""From a stored episode to what an agent saw: observations, masks, rewards and returns-to-go.

The rules of the live environment (native/environment/rules.hpp), applied to all steps at once.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pmoss_datasets.schema import Array
from pmoss_datasets.spatial.schema import Episode, SpatialMetadata
from pmoss_datasets.storage import Dataset
from pmoss_env import _native
from pmoss_env.checks import check_name
from pmoss_env.envs.spatial.observation import (
    observation_space,
    observed_counters,
    observed_meta,
)
from pmoss_env.envs.spatial.rules import REWARDS, make_rules, room_of_nodes
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array, Int8Array, Int32Array


class Expander:
    """Expands episodes of one dataset. Holds the environment's rules, so make it once.

    Attributes:
        space: the environment's observation space.
        actions: number of actions: one per tile, or one per tile and node.
    """

    def __init__(self, dataset: Dataset) -> None:
        kwargs = dataset.metadata.env_kwargs
        observation = kwargs.get("observation", "full")
        self._dataset = dataset
        self._machine = dataset.machine
        self._slices = dataset.steps
        actions = str(kwargs.get("actions", "core"))
        machine, constraints = dataset.machine, kwargs.get("constraints")
        self.space = observation_space(machine, dataset.steps, observation, actions)
        self._rules = make_rules(
            machine,
            dataset.steps,
            observation=observation,
            actions=actions,
            room=room_of_nodes(
                machine,
                str(kwargs.get("workload")),
                dataset.steps,
                actions=actions,
                constraints=constraints,
            ),
            constraints=constraints,
        )
        self.actions = machine.tiles * (machine.nodes if actions == "core_node" else 1)

    def masks(self, episode: Episode, *, last: bool = False) -> Int8Array:
        """(T, actions) int8, or (T + 1, actions) with ``last``: 1 = legal for the slice."""
        return self._rules.expand_masks(_int32(episode.actions), self._slices + last)

    def observations(
        self,
        episode: Episode,
        *,
        last: bool = False,
        copies: bool = True,
        snapshot: str = "incumbent",
    ) -> dict[str, Array]:
        """What the environment showed at each step.

        Args:
            last: also the observation after the last step: T + 1 rows in place of T.
            copies: False returns what never changes inside an episode, such as ``meta`` and
                ``incumbent_view``, as read-only views of one row in place of T copies.
            snapshot: "final" has the values under the schedule that was built in place of those
                under the incumbent, which the environment showed.

        Returns:
            The keys of the environment's observation space with a leading step axis.
        """
        steps = self._slices + last
        measured = episode.snapshot(snapshot, cast(SpatialMetadata, self._dataset.metadata))
        counters = observed_counters(measured)
        fixed: dict[str, Array] = {}
        if "meta" in self.space.spaces:
            fixed["meta"] = observed_meta(self._machine, measured)
        incumbent = _int32(episode.incumbent.cores)
        if "slice_counters" in self.space.spaces:
            fixed["slice_counters"] = counters
            fixed["incumbent_tiles"] = self._machine.tile_of_core[incumbent].astype(np.int32)
        nodes = _int32(episode.incumbent.nodes)
        if "incumbent_nodes" in self.space.spaces:
            fixed["incumbent_nodes"] = nodes
        if "incumbent_view" in self.space.spaces:
            view = self._rules.incumbent_view(counters, incumbent)
            fixed["incumbent_view"] = view.reshape(self.space["incumbent_view"].shape or ())
        result: dict[str, Array] = {}
        for key, space in self.space.items():
            shape = (steps, *(space.shape or ()))
            if key in fixed:
                result[key] = np.broadcast_to(fixed[key], shape)
            else:
                result[key] = np.empty(shape, space.dtype)
        self._rules.expand(
            counters,
            _int32(episode.order),
            incumbent,
            nodes,
            _int32(episode.actions),
            steps,
            result,
        )
        if copies:
            result |= {key: np.ascontiguousarray(result[key]) for key in fixed}
        return result


def rewards(episode: Episode, mode: str) -> Float64Array:
    """(T,) float64, million queries per second: the environment's reward of each step.

    "slice" is the paper's: each slice's own share of the final throughput, known in hindsight.

    Raises:
        DatasetError: "improvement" of an episode in which not every step was measured.
    """
    return _native.spatial_rewards(_checked(episode, mode), **_outcome(episode))


def returns_to_go(episode: Episode, mode: str) -> Float64Array:
    """(T,) float64, million queries per second: the sum of this step's and all later rewards.

    Raises:
        DatasetError: "improvement" of an episode in which not every step was measured.
    """
    return _native.spatial_returns_to_go(_checked(episode, mode), **_outcome(episode))


def _checked(episode: Episode, mode: str) -> str:
    check_name("reward", mode, REWARDS)
    if mode == "improvement" and np.isnan(episode.throughput).any():
        raise DatasetError(
            "throughput: not measured after every step, so reward mode 'improvement' is "
            "unknown; use 'terminal' or 'slice'"
        )
    return mode


def _outcome(episode: Episode) -> dict[str, Any]:
    return {
        "incumbent": episode.incumbent_throughput,
        "final": episode.final_throughput,
        "throughput": np.ascontiguousarray(episode.throughput, dtype=np.float64),
        "shares": np.ascontiguousarray(episode.final_slice_throughput, dtype=np.float64),
        "order": _int32(episode.order),
    }


def _int32(values: Array) -> Int32Array:
    return np.ascontiguousarray(values, dtype=np.int32)
