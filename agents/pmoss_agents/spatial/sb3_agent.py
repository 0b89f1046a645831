"""What the agents of core tiles that learn online through Stable-Baselines3 have in common.

A fitted agent is a network of plain PyTorch: to load one and to act, Stable-Baselines3 need not be
installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.sb3_learner import POLICY, Found, SB3Learner
from pmoss_agents.spatial.episodes import spread
from pmoss_agents.spatial.observations import full_shapes, in_full
from pmoss_agents.spatial.padded import refuse_nodes
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.weights import load_weights
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.envs.vector import SAME_STEP
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
        """Of the environment, over all sub-environments."""
        slices: int = self.task["slices"]
        envs: int = self.config.envs
        return envs * slices

    def _look_around(self, env: Mapping[str, Any]) -> Found:
        refuse_nodes(self.name, str(env.get("actions", "core")))
        config = self.config
        task, samples, machine = _look_around({**env, "reward": config.reward}, config.seed)
        return Found(
            task,
            {"scale": spread(samples["returns"])},
            lambda policy: set_up([policy], samples, machine),
        )

    def _new_envs(self, env: Mapping[str, Any]) -> Any:
        from pmoss_agents.spatial.sb3_masked import FlatVecEnv

        config = self.config
        kwargs = {**env, "reward": config.reward}
        return FlatVecEnv(self.task["scale"], config.envs, threads=config.threads, **kwargs)

    def _update(self, model: Any, total: int) -> dict[str, float]:
        metrics = super()._update(model, total)
        return {**metrics, "return": float(np.mean(model.env.returns))}

    def _policy_arguments(self, envs: Any) -> dict[str, Any]:
        return {"config": self.config, "shapes": envs.shapes}

    def _take(self, policy: Any) -> None:
        self.networks = {"actor": policy.get_submodule(self.ACTOR)}

    def _choose(self, observation: Sequence[Tensor]) -> Tensor:
        scores: Tensor = self.networks["actor"](observation)
        return scores

    # ---- keeping

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            actor = self.config.scores(self.task["shapes"], level=self.LEVEL)
        load_weights(actor, arrays, f"{POLICY}{self.ACTOR}.")
        self.networks = {"actor": actor}
        self._restore_course(arrays, values)


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
