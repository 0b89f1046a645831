"""What the agents of core tiles that learn online through Stable-Baselines3 share.

Stable-Baselines3 computes losses and updates on a native vector environment. Networks, seeds,
checkpoints and use are ours, because its own files are pickles and its generators global. Masks are
a part of every observation, and the networks give forbidden tiles the score FORBIDDEN. A fitted
agent is a network of plain PyTorch: to load one and to act, Stable-Baselines3 need not be there.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, OnlineAgent
from pmoss_agents.devices import find_device, isolated_rng, seed_torch
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.base import refuse_nodes, task_of_env
from pmoss_agents.spatial.episodes import spread
from pmoss_agents.spatial.observations import full_shapes, in_full
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.trainer import Course
from pmoss_agents.weights import Parts, arrays_of, load_arrays, torch_threads
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.vector import SAME_STEP
from pmoss_env.errors import DescriptionError
from pmoss_env.extras import require

#: What names of the policy's arrays in a checkpoint begin with.
POLICY = "policy."

#: Random episodes that input statistics and the scale of rewards are taken from, and every how
#: many steps of them.
SAMPLE, STRIDE = 16, 8


@dataclass(frozen=True)
class OnlineConfig(TileConfig):
    """Settings that every agent which learns online has, beside those of TileConfig.

    Its learning rate falls linearly to a tenth, and ``threads`` are of the environment, too.
    """

    width: int = 32
    reward: Reward = "improvement"
    # Of the environment, over all sub-environments; rounded up to whole updates.
    steps: int = 50_000
    envs: int = 8  # sub-environments
    gamma: float = 1.0  # discount per step
    batch_size: int = 128
    clip: float = 0.5

    BOUNDS: ClassVar = {"gamma": "(0, 1]"}


def parts_of(observation: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """The arrays of (B, D) observations as FlatVecEnv gives them, in the order of KEYS."""
    parts = torch.split(observation, [math.prod(shape) for shape in shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


class SB3Agent(TileAgent, OnlineAgent[Mapping[str, Any]]):
    """An agent of tiles whose networks Stable-Baselines3 trains.

    An update plays whole episodes in every sub-environment, and learns from them. Metrics are the
    ``loss``, the ``steps`` of the environment so far, and ``return``, the mean return of the
    episodes as the config has it, Mq/s; they are played with exploration. Updates take seconds
    where the networks are large, so that a checkpoint is written after each.
    """

    takes_env = False
    #: Where in the policy the network lies that chooses.
    ACTOR: ClassVar[str]
    #: Whether the actor's scores are values, see TileScores.
    LEVEL: ClassVar[bool]

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
    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        """The learner for a VecEnv, with the arguments that all learners share."""

    def _steps_per_update(self) -> int:
        """Steps of the environment, over all sub-environments."""
        return int(self.config.envs * self.task["slices"])

    def _probe(self, env: Mapping[str, Any]) -> tuple[dict[str, Any], float, Callable[[Any], None]]:
        """Plays random episodes before training.

        Returns:
            The task, the scale of the rewards, and what gives a new policy the statistics of its
            inputs.

        Raises:
            UnsupportedError: another backend than "analytic".
        """
        refuse_nodes(self.name, str(env.get("actions", "core")))
        arguments = {**env, "reward": self.config.reward}
        envs = SpatialVectorEnv(SAMPLE, autoreset_mode=SAME_STEP, **arguments)
        try:
            first = envs.sub_environments()[0]
            space: Any = envs.single_observation_space
            shapes = [list(shape) for shape in full_shapes(space)]
            samples, returns = _random_episodes(envs, first, self.config.seed)
        finally:
            envs.close()
        task = {**task_of_env(first), "shapes": shapes}
        return task, spread(returns), lambda policy: set_up([policy], samples, first.machine)

    def _update(self, model: Any, total: int) -> dict[str, float]:
        """Plays and learns for one update of ``total``."""
        model.learn(self._steps_per_update(), reset_num_timesteps=False)
        loss = float(model.logger.name_to_value["train/loss"])
        return {"loss": loss, "return": float(np.mean(model.env.returns))}

    def _arguments(self, env: Any) -> dict[str, Any]:
        """See OnlineAgent; DescriptionError for a reward that is not the config's."""
        arguments, own = super()._arguments(env), self.config.reward
        if (given := arguments.get("reward")) not in (None, own):
            raise DescriptionError(
                f"{self.name}: the environment's reward = {given!r}, but the agent learns from "
                f"its config's, {own!r}: leave it out of the environment, and give the config "
                f"reward={given!r} (--set reward={given})"
            )
        return {**arguments, "reward": own}

    @contextmanager
    def _course(self, env: Mapping[str, Any]) -> Iterator[Course]:
        from stable_baselines3.common.logger import Logger

        from pmoss_agents.spatial.flat_vec_env import FlatVecEnv

        config = self.config
        task, scale, give_statistics = self._probe(env)
        self.check_task(task, "the environment")
        device = find_device(config.device)
        with _isolated_rngs(config.seed, device), torch_threads(config.threads):
            begun = bool(self.task)
            self.task = self.task or {**task, "scale": scale}
            envs = FlatVecEnv(
                self.task["scale"],
                config.envs,
                threads=config.threads,
                **{**env, "reward": config.reward},
            )
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
                    give_statistics(model.policy)
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

    # ---- acting

    def _use(self, policy: Any) -> None:
        self.networks = {"actor": policy.get_submodule(self.ACTOR)}

    # ---- keeping

    def _current_arrays(self) -> dict[str, Array]:
        return arrays_of(_parts(self._model)) if self._model and self.task else self._arrays

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self._current_arrays(), {"updates": self.updates, "steps": self._steps}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            actor = self.config.scores(self.task["shapes"], level=self.LEVEL)
        load_arrays({f"{POLICY}{self.ACTOR}.": actor}, arrays)
        self.networks = {"actor": actor}
        self._arrays = dict(arrays)
        self.updates, self._steps = int(values["updates"]), int(values["steps"])


def _random_episodes(
    envs: SpatialVectorEnv, first: Any, seed: int
) -> tuple[dict[str, Array], Array]:
    """Samples as of input_samples(), and (SAMPLE,) returns in Mq/s."""
    rng = np.random.default_rng(seed)
    samples: dict[str, list[Array]] = {
        key: [] for key in ("machine_view", "incumbent_view", "slice_view", "meta")
    }
    returns = np.zeros(SAMPLE)
    shown, infos = envs.reset(seed=[int(s) for s in rng.integers(2**31, size=SAMPLE)])
    for step in range(first.slices):
        if step % STRIDE == 0:
            full = in_full(shown) if first.observation_mode == "paper" else shown
            for key, parts in samples.items():
                values = full[key]
                if values.ndim == 4:
                    values = values.reshape(SAMPLE, -1, values.shape[-1])
                parts.append(values.copy())
        draws = rng.random(infos["action_mask"].shape)
        actions = np.where(infos["action_mask"] > 0, draws, -1.0).argmax(axis=1)
        shown, rewards, _, _, infos = envs.step(actions)
        returns += rewards
    return {key: np.concatenate(parts) for key, parts in samples.items()}, returns


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
