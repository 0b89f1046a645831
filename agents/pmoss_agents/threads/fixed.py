"""Baselines for the bandits: a rule, the kernel, and chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.configs import Settings
from pmoss_agents.threads.base import ThreadAgent, legal_counts


class ThreadRule(ThreadAgent):
    """Rule-based: all threads of an unbalanced core go to their data (Yang et al. 2020)."""

    name = "threads-rule"

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The highest legal number."""
        return int(legal_counts(observation, action_mask)[-1])


class SchedulingDomain(ThreadAgent):
    """Leaves the threads to the kernel, which balances the lengths of its queues."""

    name = "threads-scheduling-domain"

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """Nothing, if that is legal."""
        return int(legal_counts(observation, action_mask)[0])


@dataclass(frozen=True)
class RandomConfig(Settings):
    """Settings of the random agent."""

    agent: ClassVar[str] = "threads-random"

    seed: int = 0  # of its choices


class ThreadRandom(ThreadAgent):
    """Any legal number, all equally likely."""

    name = "threads-random"
    Config = RandomConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._rng = np.random.default_rng(self.config.seed)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """A legal number at random."""
        return int(self._rng.choice(legal_counts(observation, action_mask)))

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {"generator": self._rng.bit_generator.state}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self._rng.bit_generator.state = values["generator"]
