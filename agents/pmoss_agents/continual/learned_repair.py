"""Repairs a running schedule by what an agent of spatial scheduling expects of each move.

The rule ``repair`` takes what a slice costs on another core from the counters of that core. Here a
network predicts it, which reads the counters of the last epoch. The one that ships learned from
made-up worlds, so this agent plays at once, on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Agent, Learns
from pmoss_agents.configs import Settings
from pmoss_agents.continual.base import RoundAgent
from pmoss_agents.finding import load
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.weights import torch_threads
from pmoss_datasets.continual.rules import Repair
from pmoss_datasets.fairness import reads_environment
from pmoss_env.errors import CheckpointError
from pmoss_env.types import Float64Array


@dataclass(frozen=True)
class Config(Settings):
    """Settings of LearnedRepair; the others are those of the rule ``repair``."""

    agent: ClassVar[str] = "learned-repair"
    BOUNDS: ClassVar = {"gain": "[0, 1]", "act": "[0, inf)", "memory": "(0, 1]"}

    model: str = "pmoss/generalist-v1"  # an agent that ships, whose network predicts
    gain: float = 0.01  # share of the fullest core's time that one move must save
    act: float = 0.05  # imbalance from which it acts, as a share of what balanced cores need
    memory: float = 0.5  # weight of the latest epoch in the mean of the predicted times
    threads: int = 1  # of PyTorch


class _Planner(Repair):
    """Repairs by predicted times."""

    def __init__(self, model: Surrogate, config: Config) -> None:
        super().__init__(config.gain, config.act, config.memory)
        self._model, self._threads = model, config.threads

    def expected_times(self) -> Float64Array:
        """See Repair: microseconds that a query of the machine takes of each worker."""
        session, workers = self.env.session, self.env.machine.workers
        self._model.use(self.env.machine)
        columns = np.searchsorted(workers, session.cores_seen)
        counters = session.snapshot.slice_counters[:, : len(self._model.task["counters"])]
        with torch_threads(self._threads):
            times: Float64Array = self._model.planner(counters, columns).times(columns)
        return times


@reads_environment
class LearnedRepair(RoundAgent, Agent):
    """The agent; see the module's docstring."""

    name = "learned-repair"
    learns: ClassVar[Learns] = "nothing"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        model = load(self.config.model)
        if not isinstance(model, Surrogate):
            raise CheckpointError(
                f"{self.name}: model = {self.config.model!r}: {model.name} has no network of "
                "service; take a generalist or a surrogate"
            )
        self._model = model

    def new_planner(self) -> _Planner:
        """See RoundAgent."""
        return _Planner(self._model, self.config)
