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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.base import Array, OnlineAgent, Progress
from pmoss_agents.spatial.observations import full_shapes, in_full
from pmoss_agents.spatial.tile_agent import TileAgent, check_settings, set_up
from pmoss_agents.spatial.tile_networks import TileEncoder, TileScores
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.envs.spatial.vector import SAME_STEP, SpatialVectorEnv
from pmoss_env.errors import MissingExtraError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_NAMES

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "agents") from error

#: Random episodes that input statistics and the scale of rewards are taken from, and every how
#: many steps of them.
SAMPLE, STRIDE = 16, 8


@dataclass(frozen=True)
class OnlineConfig:
    """Settings that every agent which learns online has.

    Attributes:
        channels: features per core tile in the state encoder.
        width: size of the token.
        derived: per-tile channels computed from the counters, see derived_channels().
        reward: of the environment that is played.
        steps: of the environment, over all sub-environments; rounded up to whole updates.
        envs: sub-environments.
        gamma: discount per step.
        batch_size: steps per gradient step.
        learning_rate: of Adam; falls linearly to a tenth.
        clip: largest norm of the gradient.
        seed: of weights, episodes, exploration and batches.
        threads: of torch and of the environment in fit(); act() uses one.
    """

    channels: int = 16
    width: int = 32
    derived: bool = True
    reward: Reward = "improvement"
    steps: int = 50_000
    envs: int = 8
    gamma: float = 1.0
    batch_size: int = 128
    learning_rate: float = 1e-3
    clip: float = 0.5
    seed: int = 0
    threads: int = 1

    agent: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check = check_settings(self.agent, self)
        check("gamma", 0 < self.gamma <= 1, "lie in (0, 1]")


class SB3Agent(TileAgent, OnlineAgent):
    """An agent whose networks Stable-Baselines3 trains.

    Subclasses say where in the policy the network lies that chooses (``ACTOR``), and how they make
    and train it.
    """

    ACTOR: ClassVar[str]
    #: Whether the actor's scores are values, see TileScores.
    LEVEL: ClassVar[bool]

    def __init__(self, **config: Any) -> None:
        """Makes an agent that is not fitted yet; see Agent."""
        super().__init__(**config)
        self._model: Any = None
        self._arrays: dict[str, Array] = {}
        self._updates = 0
        self._steps = 0

    # ---- learning

    def check_extras(self) -> None:
        """Raises MissingExtraError if Stable-Baselines3 is not installed; to act it need not be."""
        if sys.modules.get("sb3_contrib", self) is None or find_spec("sb3_contrib") is None:
            raise MissingExtraError("sb3_contrib", "online")

    @abstractmethod
    def _new_model(self, env: Any) -> Any:
        """The learner for an environment."""

    @abstractmethod
    def _total_updates(self) -> int:
        """Updates until the end of training."""

    @abstractmethod
    def _update(self, model: Any, seed: int) -> dict[str, float]:
        """Plays and learns for one update; ``seed`` is of its episodes."""

    def fit(  # type: ignore[override]  # see OnlineAgent
        self,
        env: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> dict[str, float]:
        """See OnlineAgent.fit."""
        config = self.config
        self.check_extras()
        from pmoss_agents.spatial.sb3_masked.environment import FlatVecEnv

        kwargs = {**env, "reward": config.reward}
        task, samples, machine = _look_around(kwargs, config.seed)
        self.check_task(task, "the environment")
        scale = self.task.get("scale") or _spread(samples["returns"])
        with _own_chance(config.seed), torch_threads(config.threads):
            flat = FlatVecEnv(scale, config.envs, threads=config.threads, **kwargs)
            try:
                begun = bool(self.task)
                self.task = self.task or {**task, "scale": scale}
                model = self._new_model(flat)
                if not begun:
                    set_up([model.policy], samples, machine)
                else:
                    load_weights(model.policy, self._arrays, "policy.")
                    load_moments(model.policy.optimizer, self._arrays, "optimiser/")
                model.num_timesteps = self._steps
                self._model = model
                self.networks = {"actor": model.policy.get_submodule(self.ACTOR)}
                return self._learn(model, progress, checkpoint)
            finally:
                flat.close()
                self._arrays = self._gathered()
                self._model = None

    def _learn(
        self, model: Any, progress: Progress | None, checkpoint: str | Path | None
    ) -> dict[str, float]:
        config = self.config
        total = self._total_updates()
        metrics = {"steps": float(self._steps)}
        torn = False
        try:
            while self._updates < total:
                seed = int(
                    np.random.SeedSequence((config.seed, self._updates)).generate_state(1)[0]
                )
                _seed(seed)
                rate = config.learning_rate * (1.0 - 0.9 * self._updates / total)
                model.lr_schedule = lambda _, rate=rate: rate
                torn = True
                metrics = self._update(model, seed)
                self._updates += 1
                self._steps = model.num_timesteps
                torn = False
                metrics["steps"] = float(self._steps)
                if progress is not None:
                    progress(self._updates, total, metrics)
                # An update takes seconds where the networks are large: a kill costs one.
                if checkpoint is not None:
                    self.save(checkpoint)
        except KeyboardInterrupt:
            # After a cut update the last checkpoint stays.
            if checkpoint is not None and not torn:
                self.save(checkpoint)
            raise
        return metrics

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
        return self._gathered(), {"updates": self._updates, "steps": self._steps}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            actor = new_scores(self.config, self.task["shapes"], level=self.LEVEL)
        load_weights(actor, arrays, f"policy.{self.ACTOR}.")
        self.networks = {"actor": actor}
        self._arrays = dict(arrays)
        self._updates, self._steps = int(values["updates"]), int(values["steps"])


def new_encoder(config: Any, shapes: Sequence[Sequence[int]]) -> TileEncoder:
    """An encoder of the config's size."""
    return TileEncoder(shapes, channels=config.channels, width=config.width, derived=config.derived)


def new_scores(config: Any, shapes: Sequence[Sequence[int]], *, level: bool) -> TileScores:
    """A network of the config's size that scores tiles; see TileScores."""
    return TileScores(new_encoder(config, shapes), level=level)


def parts_of(observation: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """The arrays of (B, D) observations as FlatVecEnv gives them, in the order of KEYS."""
    parts = torch.split(observation, [math.prod(shape) for shape in shapes], dim=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


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
        The task, as task_of() tells a dataset's, with the shapes of the observation; and samples
        (n, features) of ``machine_view``, ``incumbent_view``, ``slice_view`` and ``meta``, worker
        tiles only, and (SAMPLE,) ``returns`` in Mq/s.

    Raises:
        UnsupportedError: another backend than "analytic".
    """
    envs = SpatialVectorEnv(SAMPLE, autoreset_mode=SAME_STEP, **kwargs)
    try:
        first = envs.sub_environments()[0]
        space: Any = envs.single_observation_space
        workers = np.flatnonzero(first.machine.worker_tiles)
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
                        values = values.reshape(SAMPLE, -1, values.shape[-1])[:, workers]
                    parts.append(values.reshape(-1, values.shape[-1]))
            chances = rng.random(infos["action_mask"].shape)
            actions = np.where(infos["action_mask"] > 0, chances, -1.0).argmax(axis=1)
            seen, rewards, _, _, infos = envs.step(actions)
            returns += rewards
    finally:
        envs.close()
    gathered = {key: np.concatenate(parts) for key, parts in samples.items()}
    return task, {**gathered, "returns": returns}, first.machine


def _spread(returns: Array) -> float:
    """What rewards are divided by, Mq/s: the standard deviation; 1 where returns are all alike."""
    spread = float(returns.std())
    return spread if spread > 1e-6 * float(np.abs(returns).max()) else 1.0
