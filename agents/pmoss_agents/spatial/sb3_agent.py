"""What the agents that learn online through Stable-Baselines3 have in common.

Stable-Baselines3 computes losses and updates on the native vector environment; networks, order of
chance, checkpoints and use are ours, because its own files are pickles and its generators global.
A fitted agent is a network of plain PyTorch: to load one and to act, Stable-Baselines3 need not be
installed.
"""

from __future__ import annotations

import math
import random
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, OnlineAgent
from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.episodes import spread
from pmoss_agents.spatial.observations import full_shapes, in_full
from pmoss_agents.spatial.padded import refuse_nodes
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.trainer import Course
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.vector import SAME_STEP
from pmoss_env.errors import MissingExtraError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_NAMES

#: Random episodes that input statistics and the scale of rewards are taken from, and every how
#: many steps of them.
SAMPLE, STRIDE = 16, 8


@dataclass(frozen=True)
class OnlineConfig(TileConfig):
    """Settings that every agent which learns online has, beside those of TileConfig.

    Its learning rate falls linearly to a tenth, and ``threads`` are of the environment, too.

    Attributes:
        steps: of the environment, over all sub-environments; rounded up to whole updates.
        envs: sub-environments.
        gamma: discount per step.
    """

    width: int = 32
    reward: Reward = "improvement"
    steps: int = 50_000
    envs: int = 8
    gamma: float = 1.0
    batch_size: int = 128
    clip: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        checker(self.agent, self)("gamma", 0 < self.gamma <= 1, "lie in (0, 1]")


class SB3Agent(TileAgent, OnlineAgent[Mapping[str, Any]]):
    """An agent whose networks Stable-Baselines3 trains.

    An update plays whole episodes in every sub-environment, and learns from them. Metrics are the
    ``loss`` and the ``steps`` of the environment so far. Updates take seconds where the networks
    are large, so that a checkpoint is written after each.
    """

    #: Where in the policy the network lies that chooses.
    ACTOR: ClassVar[str]
    #: Whether the actor's scores are values, see TileScores.
    LEVEL: ClassVar[bool]

    def __init__(self, **config: Any) -> None:
        """Makes an agent that is not fitted yet; see Agent."""
        super().__init__(**config)
        self._model: Any = None
        self._arrays: dict[str, Array] = {}
        self._steps = 0

    # ---- learning

    def check_extras(self) -> None:
        """Raises MissingExtraError if Stable-Baselines3 is not installed; to act it need not be."""
        if sys.modules.get("sb3_contrib", self) is None or find_spec("sb3_contrib") is None:
            raise MissingExtraError("sb3_contrib", "online")

    @abstractmethod
    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        """The learner for an environment.

        Args:
            env: a FlatVecEnv.
            common: arguments that all learners share.
        """

    def _steps_per_update(self) -> int:
        """Of the environment, over all sub-environments."""
        slices: int = self.task["slices"]
        envs: int = self.config.envs
        return envs * slices

    def _update(self, model: Any, total: int) -> dict[str, float]:
        """Plays and learns for one update of ``total``."""
        model.learn(self._steps_per_update(), reset_num_timesteps=False)
        return {"loss": float(model.logger.name_to_value["train/loss"])}

    @contextmanager
    def _course(self, env: Mapping[str, Any]) -> Iterator[Course]:
        from stable_baselines3.common.logger import Logger

        from pmoss_agents.spatial.sb3_masked import FlatVecEnv

        config = self.config
        refuse_nodes(self.name, str(env.get("actions", "core")))
        kwargs = {**env, "reward": config.reward}
        task, samples, machine = _look_around(kwargs, config.seed)
        self.check_task(task, "the environment")
        scale = self.task.get("scale") or spread(samples["returns"])
        with _own_chance(config.seed), torch_threads(config.threads):
            flat = FlatVecEnv(scale, config.envs, threads=config.threads, **kwargs)
            try:
                begun = bool(self.task)
                self.task = self.task or {**task, "scale": scale}
                model = self._new_model(flat, self._common(flat.shapes))
                # Its own would leave an empty folder among the temporary files.
                model.set_logger(Logger(folder=None, output_formats=[]))
                if not begun:
                    set_up([model.policy], samples, machine)
                else:
                    load_weights(model.policy, self._arrays, "policy.")
                    load_moments(model.policy.optimizer, self._arrays, "optimiser/")
                model.num_timesteps = self._steps
                self._model = model
                self.networks = {"actor": model.policy.get_submodule(self.ACTOR)}
                total = math.ceil(config.steps / self._steps_per_update())
                yield Course(self._step(model, total), total, metrics=self._told())
            finally:
                flat.close()
                self._arrays = self._gathered()
                self._model = None

    def _common(self, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
        config = self.config
        return {
            "learning_rate": config.learning_rate,
            "batch_size": config.batch_size,
            "gamma": config.gamma,
            "max_grad_norm": config.clip,
            "policy_kwargs": {"config": config, "shapes": shapes},
            "device": "cpu",
        }

    def _step(self, model: Any, total: int) -> Callable[[int], Callable[[], dict[str, float]]]:
        config = self.config

        def step(update: int) -> Callable[[], dict[str, float]]:
            seed = int(np.random.SeedSequence((config.seed, update)).generate_state(1)[0])
            _seed(seed)
            rate = config.learning_rate * (1.0 - 0.9 * update / total)
            model.lr_schedule = lambda _: rate
            model.env.seed(seed)
            model._last_obs = None  # so that learn() begins new episodes
            return change

        def change() -> dict[str, float]:
            metrics = self._update(model, total)
            self._steps = model.num_timesteps
            return {**metrics, **self._told()}

        return step

    def _told(self) -> dict[str, float]:
        return {"steps": float(self._steps)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["actor"](observation)
        return scores

    # ---- keeping

    def _gathered(self) -> dict[str, Array]:
        if self._model is None or not self.task:
            return self._arrays
        policy = self._model.policy
        return {
            **weights_of(policy, "policy."),
            **moments_of(policy.optimizer, "optimiser/"),
        }

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self._gathered(), {"updates": self.updates, "steps": self._steps}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            actor = self.config.scores(self.task["shapes"], level=self.LEVEL)
        load_weights(actor, arrays, f"policy.{self.ACTOR}.")
        self.networks = {"actor": actor}
        self._arrays = dict(arrays)
        self.updates, self._steps = int(values["updates"]), int(values["steps"])


@contextmanager
def _own_chance(seed: int) -> Iterator[None]:
    """Lends the global generators, which Stable-Baselines3 draws from; they are as before after."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        try:
            _seed(seed)
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def _look_around(
    kwargs: Mapping[str, Any], seed: int
) -> tuple[dict[str, Any], dict[str, Array], Machine]:
    """The task of an environment, and what random episodes in it show.

    Returns:
        The task, as task_of() tells a dataset's, with the shapes of the observation; samples as of
        input_samples(), with (SAMPLE,) ``returns`` in Mq/s; and the machine.

    Raises:
        UnsupportedError: another backend than "analytic".
    """
    envs = SpatialVectorEnv(SAMPLE, autoreset_mode=SAME_STEP, **kwargs)
    try:
        first = envs.sub_environments()[0]
        space: Any = envs.single_observation_space
        task = {
            "grid": [first.machine.rows, first.machine.cols],
            "slices": first.slices,
            "counters": list(COUNTER_NAMES),
            "order": first.order_kind,
            "observation": first.observation_mode,
            "readable": first.counters_kind,
            "meta_names": list(meta_names(first.machine)),
            "shapes": [list(shape) for shape in full_shapes(space)],
        }
        blind = first.observation_mode == "paper"
        rng = np.random.default_rng(seed)
        samples: dict[str, list[Array]] = {
            key: [] for key in ("machine_view", "incumbent_view", "slice_view", "meta")
        }
        returns = np.zeros(SAMPLE)
        seen, infos = envs.reset(seed=[int(s) for s in rng.integers(2**31, size=SAMPLE)])
        for step in range(first.slices):
            if step % STRIDE == 0:
                seen = in_full(seen) if blind else seen
                for key, parts in samples.items():
                    values = seen[key]
                    if values.ndim == 4:
                        values = values.reshape(SAMPLE, -1, values.shape[-1])
                    parts.append(values.copy())
            chances = rng.random(infos["action_mask"].shape)
            actions = np.where(infos["action_mask"] > 0, chances, -1.0).argmax(axis=1)
            seen, rewards, _, _, infos = envs.step(actions)
            returns += rewards
    finally:
        envs.close()
    gathered = {key: np.concatenate(parts) for key, parts in samples.items()}
    return task, {**gathered, "returns": returns}, first.machine
