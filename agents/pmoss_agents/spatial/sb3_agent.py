"""What the agents of core tiles that learn online through Stable-Baselines3 share.

Masks are a part of every observation, and the networks give forbidden tiles the score FORBIDDEN. A
fitted agent is a network of plain PyTorch: to load one and to act, Stable-Baselines3 need not be
installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.sb3_learner import POLICY, Probe, SB3Learner
from pmoss_agents.spatial.base import refuse_nodes, task_of_env
from pmoss_agents.spatial.episodes import spread
from pmoss_agents.spatial.observations import full_shapes, in_full
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.weights import load_arrays
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.vector import SAME_STEP

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


class SB3Agent(SB3Learner, TileAgent):
    """An agent of tiles whose networks Stable-Baselines3 trains.

    An update plays whole episodes in every sub-environment, and learns from them. Its metric
    ``return`` is their mean return as the config has it, Mq/s; they are played with exploration.
    """

    #: Where in the policy the network lies that chooses.
    ACTOR: ClassVar[str]
    #: Whether the actor's scores are values, see TileScores.
    LEVEL: ClassVar[bool]

    # ---- learning

    def _steps_per_update(self) -> int:
        return int(self.config.envs * self.task["slices"])

    def _probe(self, env: Mapping[str, Any]) -> Probe:
        """Plays random episodes; UnsupportedError for another backend than "analytic"."""
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
        return Probe(
            {**task_of_env(first), "shapes": shapes},
            {"scale": spread(returns)},
            lambda policy: set_up([policy], samples, first.machine),
        )

    def _new_envs(self, env: Mapping[str, Any]) -> Any:
        from pmoss_agents.spatial.flat_vec_env import FlatVecEnv

        config = self.config
        kwargs = {**env, "reward": config.reward}
        return FlatVecEnv(self.task["scale"], config.envs, threads=config.threads, **kwargs)

    def _update(self, model: Any, total: int) -> dict[str, float]:
        metrics = super()._update(model, total)
        return {**metrics, "return": float(np.mean(model.env.returns))}

    def _use(self, policy: Any) -> None:
        self.networks = {"actor": policy.get_submodule(self.ACTOR)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["actor"](observation)
        return scores

    # ---- keeping

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            actor = self.config.scores(self.task["shapes"], level=self.LEVEL)
        load_arrays({f"{POLICY}{self.ACTOR}.": actor}, arrays)
        self.networks = {"actor": actor}
        super()._restore(arrays, values)


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
