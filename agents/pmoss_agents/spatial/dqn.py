"""DQN: values of tiles learned from a memory of the agent's own steps, masked throughout.

Mnih et al., Human-level control through deep reinforcement learning, Nature 2015.
Stable-Baselines3's implementation, loss included, on the native vector environment, with masks in
the greedy action, in the targets and in exploration. The policy takes the tile of the highest
value.

An update plays one whole episode in every sub-environment, takes ``gradient_steps`` steps and then
copies the Q-network to its target. Checkpoints do not hold the memory, which takes hundreds of
megabytes: a resumed run fills it anew, so its weights are not those of a run that was never
stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.observations import KEYS
from pmoss_agents.spatial.sb3_agent import OnlineConfig, SB3Agent, parts_of


@dataclass(frozen=True)
class Config(OnlineConfig):
    """Settings of DQN, beside those of OnlineConfig."""

    agent: ClassVar[str] = "dqn"
    BOUNDS: ClassVar = dict.fromkeys(("epsilon", "epsilon_end", "exploration"), "[0, 1]")

    memory: int = 5000  # steps that are remembered
    n_steps: int = 1  # steps of a target: rewards are summed over them before a value is asked for
    gradient_steps: int = 64  # per update
    epsilon: float = 1.0  # share of random allowed tiles at the beginning; falls linearly
    epsilon_end: float = 0.05  # what it falls to
    exploration: float = 0.5  # share of the training in which it falls


class MaskedDQNAgent(SB3Agent):
    """A masked DQN on the native vector environment."""

    name = "dqn"
    Config = Config
    ACTOR = "q_net.scores"
    LEVEL = True

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from stable_baselines3 import DQN
        from stable_baselines3.common.policies import BasePolicy
        from stable_baselines3.dqn.policies import DQNPolicy

        config, shapes = self.config, env.shapes

        class TileQNetwork(BasePolicy):
            """Values of tiles; forbidden ones are so low that neither argmax nor max takes them."""

            def __init__(self, *spaces: Any) -> None:
                super().__init__(*spaces)
                self.scores = config.scores(shapes, level=True)

            def forward(self, obs: Any) -> Tensor:
                values: Tensor = self.scores(parts_of(obs, shapes))
                return values

            def _predict(self, observation: Any, deterministic: bool = True) -> Tensor:
                return self.forward(observation).argmax(dim=1)

        class TilePolicy(DQNPolicy):
            def make_q_net(self) -> Any:
                return TileQNetwork(self.observation_space, self.action_space)

        class MaskedDQN(DQN):
            """A DQN that explores among allowed tiles only."""

            def _sample_action(
                self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
            ) -> Any:
                observations: Any = self._last_obs
                greedy, _ = self.policy.predict(observations, deterministic=True)
                parts = parts_of(torch.from_numpy(observations), shapes)
                allowed = parts[KEYS.index("position_mask")].reshape(n_envs, -1).numpy() > 0
                # The agent seeds this generator, which Stable-Baselines3 draws from, too.
                draws = np.random.random((n_envs, allowed.shape[1] + 1))  # noqa: NPY002
                random = np.where(allowed, draws[:, 1:], -1.0).argmax(axis=1)
                actions = np.where(draws[:, 0] < self.exploration_rate, random, greedy)
                return actions, actions

        return MaskedDQN(
            TilePolicy,
            env,
            buffer_size=config.memory,
            learning_starts=0,
            n_steps=config.n_steps,
            train_freq=(self.task["slices"], "step"),
            gradient_steps=config.gradient_steps,
            # _update() copies: this would count steps of the environment.
            target_update_interval=2**62,
            **common,
        )

    def _update(self, model: Any, total: int) -> dict[str, float]:
        config = self.config
        done = self.updates / (total * config.exploration or 1.0)
        epsilon = config.epsilon + (config.epsilon_end - config.epsilon) * min(1.0, done)
        model.exploration_schedule = lambda _: epsilon
        model.exploration_rate = epsilon
        metrics = super()._update(model, total)
        model.q_net_target.load_state_dict(model.q_net.state_dict())
        return {**metrics, "epsilon": epsilon}
