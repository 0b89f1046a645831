"""Agents that choose a tile by networks that see one observation and remember nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.checks import allowed_actions, check_keys
from pmoss_agents.configs import Settings
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.base import SpatialAgent
from pmoss_agents.spatial.encoders import (
    GROUPS,
    StateEncoder,
    TileEncoder,
    TileScores,
    check_groups,
)
from pmoss_agents.spatial.observations import (
    ALL_SLICES,
    KEYS,
    all_slices,
    in_full,
    in_own_counters,
    slices_left,
)
from pmoss_agents.weights import torch_threads
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import CheckpointError
from pmoss_env.machines import Machine


@dataclass(frozen=True)
class TileConfig(Settings):
    """Settings that every agent has which sees one observation at a time."""

    channels: int = 16  # features per core tile in the state encoder
    width: int = 64  # size of the token
    inputs: tuple[str, ...] = GROUPS  # that the networks see
    reward: Reward = "terminal"  # what the return is
    batch_size: int = 64  # steps per gradient step
    learning_rate: float = 1e-3  # of Adam
    clip: float = 1.0  # largest norm of the gradient
    seed: int = 0  # of weights, and of whatever else is drawn
    threads: int = 1  # of torch in fit(); act() uses one
    device: str = "cpu"  # where it learns, see configs.DEVICES

    BOUNDS: ClassVar = {"learning_rate": "(0, inf)", "clip": "(0, inf)"}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inputs", check_groups(self.inputs, f"{self.agent}: inputs"))

    def encoder(self, shapes: Sequence[Sequence[int]]) -> TileEncoder:
        """A new encoder of this size, for arrays of these shapes in the order of KEYS."""
        return TileEncoder(shapes, channels=self.channels, width=self.width, inputs=self.inputs)

    def scores(self, shapes: Sequence[Sequence[int]], *, level: bool) -> nn.Module:
        """A new network of this size that scores tiles; see TileScores."""
        return TileScores(self.encoder(shapes), level=level)


class TileAgent(SpatialAgent):
    """An agent that takes the tile which its networks prefer.

    Its task holds ``shapes``, those of the observation's arrays in the order of KEYS; and one more
    where it sees all slices.

    Attributes:
        networks: what act() asks, by name; empty before the first fit().
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.networks: dict[str, nn.Module] = {}

    def encoders(self) -> list[StateEncoder]:
        """See SpatialAgent.encoders."""
        modules = [module for network in self.networks.values() for module in network.modules()]
        return [module for module in modules if isinstance(module, StateEncoder)]

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) preferences of B observations, by the only network; the highest is chosen."""
        (network,) = self.networks.values()
        preferences: Tensor = network(observation)
        return preferences

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act.

        Raises:
            CheckpointError: nothing was learned yet, or the observation lacks a key or is of
                another task.
            DescriptionError: a mask of another length, or one that allows nothing.
        """
        if not self.networks:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        mode = self.task.get("observation", "full")
        check_keys(self.name, observation, ("machine_view", "position_mask"), mode)
        observation = in_own_counters(observation, self.task["counters"])
        if self.task.get("observation") == "paper":
            observation = in_full(observation)
        complete = len(self.task["shapes"]) > len(KEYS)
        if complete and "slice_counters" in observation:
            left = slices_left(observation, self.task["order"])
            every = all_slices(observation["slice_counters"], left)
            observation = {**observation, ALL_SLICES: every}
        keys = (*KEYS, ALL_SLICES) if complete else KEYS
        self._check_observation(observation, keys)
        parts = {key: np.asarray(observation[key], dtype=np.float32) for key in keys}
        shape = parts["position_mask"].shape
        mask = parts["position_mask"] if action_mask is None else action_mask
        allowed_actions(self.name, mask, math.prod(shape))
        parts["position_mask"] = np.asarray(mask, dtype=np.float32).reshape(shape)
        with torch_threads(1), torch.inference_mode():
            return int(self._choose([torch.from_numpy(parts[key])[None] for key in keys]).argmax())

    def _check_observation(self, observation: Observation, keys: Sequence[str]) -> None:
        self.check_task({"grid": list(np.shape(observation["position_mask"]))}, "the observation")
        mode = self.task.get("observation", "full")
        for key, shape in zip(keys, self.task["shapes"], strict=True):
            given = list(np.shape(observation[key])) if key in observation else "absent"
            if given != shape:
                raise CheckpointError(
                    f"{self.name} was fitted for {key} of shape {shape}, but the observation's is "
                    f"{given}; the environment must have observation={mode!r} and the "
                    "same machine"
                )


def set_up(networks: Iterable[nn.Module], samples: Mapping[str, Array], machine: Machine) -> None:
    """Gives all encoders in some networks the statistics of their inputs and the machine."""
    for network in networks:
        for encoder in network.modules():
            if isinstance(encoder, TileEncoder):
                encoder.set_up(samples, machine)
