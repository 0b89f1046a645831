"""What agents that learn online through Stable-Baselines3 share.

Stable-Baselines3 computes losses and updates on a native vector environment. Networks, seeds,
checkpoints and use are ours, because its own files are pickles and its generators global.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmoss_agents.agent import Array, OnlineAgent
from pmoss_agents.devices import find_device, isolated_rng, seed_torch
from pmoss_agents.pytorch import torch
from pmoss_agents.trainer import Course
from pmoss_agents.weights import Parts, arrays_of, load_arrays, torch_threads
from pmoss_env.extras import require

#: What names of the policy's arrays in a checkpoint begin with.
POLICY = "policy."


@dataclass(frozen=True)
class Probe:
    """What some episodes show of an environment, before training.

    Attributes:
        task: as an agent's, compared with that of one which goes on.
        scales: beside the task, taken at the beginning alone.
        set_up: gives a new policy the statistics of its inputs.
    """

    task: Mapping[str, Any]
    scales: Mapping[str, Any]
    set_up: Callable[[Any], None] = field(repr=False)


class SB3Learner(OnlineAgent[Mapping[str, Any]]):
    """An agent whose networks Stable-Baselines3 trains.

    Its config has steps, envs, learning_rate, batch_size, gamma, clip, seed, threads and device.
    Metrics are the ``loss`` and the ``steps`` of the environment so far. Updates take seconds where
    the networks are large, so that a checkpoint is written after each.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._model: Any = None
        self._arrays: dict[str, Array] = {}
        self._steps = 0

    # ---- learning

    def check_extras(self) -> None:
        """Raises MissingExtraError if Stable-Baselines3 is not installed; to act it need not be."""
        require("sb3_contrib")

    @abstractmethod
    def _probe(self, env: Mapping[str, Any]) -> Probe:
        """The task of an environment, and what episodes in it show."""

    @abstractmethod
    def _new_envs(self, env: Mapping[str, Any]) -> Any:
        """The environments to play in, a VecEnv."""

    @abstractmethod
    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        """The learner for an environment.

        Args:
            env: of _new_envs().
            common: arguments that all learners share.
        """

    @abstractmethod
    def _steps_per_update(self) -> int:
        """Steps of the environment, over all sub-environments."""

    @abstractmethod
    def _use(self, policy: Any) -> None:
        """Acts from now on with the networks of the policy that is trained."""

    def _update(self, model: Any, total: int) -> dict[str, float]:
        """Plays and learns for one update of ``total``."""
        model.learn(self._steps_per_update(), reset_num_timesteps=False)
        return {"loss": float(model.logger.name_to_value["train/loss"])}

    @contextmanager
    def _course(self, env: Mapping[str, Any]) -> Iterator[Course]:
        from stable_baselines3.common.logger import Logger

        config = self.config
        probe = self._probe(env)
        self.check_task(probe.task, "the environment")
        device = find_device(config.device)
        with _isolated_rngs(config.seed, device), torch_threads(config.threads):
            begun = bool(self.task)
            self.task = self.task or {**probe.task, **probe.scales}
            envs = self._new_envs(env)
            try:
                common = {
                    "learning_rate": config.learning_rate,
                    "batch_size": config.batch_size,
                    "gamma": config.gamma,
                    "max_grad_norm": config.clip,
                    "device": device,
                }
                model = self._new_model(envs, common)
                # Its own would leave an empty folder among the temporary files.
                model.set_logger(Logger(folder=None, output_formats=[]))
                if begun:
                    load_arrays(_parts(model), self._arrays)
                else:
                    model.policy.to("cpu")  # where the samples are
                    probe.set_up(model.policy)
                    model.policy.to(device)
                model.num_timesteps = self._steps
                self._model = model
                self._use(model.policy)
                total = math.ceil(config.steps / self._steps_per_update())
                yield Course(self._step(model, total), total, metrics=self._steps_so_far())
            finally:
                envs.close()
                self._arrays = self._current_arrays()
                if self._model is not None:
                    self._model.policy.to("cpu")  # where its networks act
                self._model = None

    def _step(self, model: Any, total: int) -> Callable[[int], Callable[[], dict[str, float]]]:
        config = self.config

        def step(update: int) -> Callable[[], dict[str, float]]:
            seed = int(np.random.SeedSequence((config.seed, update)).generate_state(1)[0])
            _seed_all(seed, model.device)
            rate = config.learning_rate * (1.0 - 0.9 * update / total)
            model.lr_schedule = lambda _: rate
            model.env.seed(seed)
            model._last_obs = None  # so that learn() begins new episodes
            return change

        def change() -> dict[str, float]:
            metrics = self._update(model, total)
            self._steps = model.num_timesteps
            return {**metrics, **self._steps_so_far()}

        return step

    def _steps_so_far(self) -> dict[str, float]:
        return {"steps": float(self._steps)}

    # ---- keeping

    def _current_arrays(self) -> dict[str, Array]:
        return arrays_of(_parts(self._model)) if self._model and self.task else self._arrays

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self._current_arrays(), {"updates": self.updates, "steps": self._steps}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        """Takes what _state() gave, but for the networks that act."""
        self._arrays = dict(arrays)
        self.updates, self._steps = int(values["updates"]), int(values["steps"])


def _parts(model: Any) -> Parts:
    return {POLICY: model.policy, "optimiser/": model.policy.optimizer}


@contextmanager
def _isolated_rngs(seed: int, device: torch.device) -> Iterator[None]:
    """Lends the global generators, which Stable-Baselines3 draws from; they are as before after."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with isolated_rng(device):
        try:
            _seed_all(seed, device)
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def _seed_all(seed: int, device: torch.device) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    seed_torch(seed, device)
