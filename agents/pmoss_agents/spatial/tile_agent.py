"""Agents that choose a tile by networks that see one observation and remember nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from pmoss_agents.base import Agent, Array, Observation, checker
from pmoss_agents.spatial.observations import KEYS, in_full, in_own_counters
from pmoss_agents.spatial.state_encoder import StateEncoder
from pmoss_agents.spatial.tile_networks import TileEncoder, TileScores
from pmoss_agents.weights import torch_threads
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import CheckpointError, MissingExtraError
from pmoss_env.machines import Machine

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "agents") from error


def check_settings(agent: str, config: Any) -> Callable[[str, bool, str], None]:
    """checker() for a config whose reward, seed, learning_rate, clip and counts it has checked.

    Every whole number but the seed is a count, of at least 1.
    """
    check = checker(agent, config)
    check("reward", config.reward in REWARDS, f"be one of {REWARDS}")
    for field in fields(config):
        if field.type == "int" and field.name != "seed":
            check(field.name, getattr(config, field.name) >= 1, "be at least 1")
    for name in ("learning_rate", "clip"):
        check(name, getattr(config, name) > 0, "be above 0")
    return check


class TileAgent(Agent):
    """An agent that takes the tile which its networks prefer.

    Its task holds ``shapes``, those of the observation's arrays in the order of KEYS.

    Attributes:
        networks: what act() asks, by name; empty before the first fit().
    """

    def __init__(self, **config: Any) -> None:
        """Makes an agent that is not fitted yet; see Agent."""
        super().__init__(**config)
        self.networks: dict[str, TileScores] = {}

    def encoders(self) -> list[StateEncoder]:
        """See Agent.encoders."""
        modules = [module for network in self.networks.values() for module in network.modules()]
        return [module for module in modules if isinstance(module, StateEncoder)]

    @abstractmethod
    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        """(B, tiles) preferences of B observations; the highest is chosen."""

    def reset(self) -> None:
        """Begins an episode: nothing is remembered from the last one."""

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act."""
        if not self.networks:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        observation = in_own_counters(observation, self.task["counters"])
        if self.task.get("observation") == "paper":
            observation = in_full(observation)
        self._check_observation(observation)
        parts = {key: np.asarray(observation[key], dtype=np.float32) for key in KEYS}
        if action_mask is not None:
            shape = parts["position_mask"].shape
            parts["position_mask"] = np.asarray(action_mask, dtype=np.float32).reshape(shape)
        with torch_threads(1), torch.inference_mode():
            return int(self._choose([torch.from_numpy(parts[key])[None] for key in KEYS]).argmax())

    def _check_observation(self, observation: Observation) -> None:
        self.check_task({"grid": list(np.shape(observation["position_mask"]))}, "the observation")
        mode = self.task.get("observation", "full")
        for key, shape in zip(KEYS, self.task["shapes"], strict=True):
            given = list(np.shape(observation[key])) if key in observation else "absent"
            if given != shape:
                raise CheckpointError(
                    f"{self.name} was fitted for {key} of shape {shape}, but the observation's is "
                    f"{given}; the environment must have observation={mode!r} and the "
                    "same machine"
                )


def set_up(networks: Iterable[nn.Module], samples: Mapping[str, Array], machine: Machine) -> None:
    """Tells all encoders in some networks the statistics of their inputs and the machine.

    Args:
        networks: those of targets too.
        samples: (n, features) of ``machine_view``, ``incumbent_view``, ``slice_view``, ``meta``.
        machine: whose tiles they see.
    """
    for network in networks:
        for encoder in network.modules():
            if isinstance(encoder, TileEncoder):
                encoder.states.machine.set(samples["machine_view"])
                encoder.states.incumbent.set(samples["incumbent_view"])
                encoder.states.slice.set(samples["slice_view"])
                encoder.meta_standard.set(samples["meta"])
                encoder.states.set_domains(machine.domain_of_tile)
