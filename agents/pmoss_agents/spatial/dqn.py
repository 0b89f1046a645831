"""DQN: values of tiles learned from a memory of the agent's own steps, masked throughout.

Mnih et al., Human-level control through deep reinforcement learning, Nature 2015.
Stable-Baselines3's implementation on the native vector environment, with masks in the greedy
action, in the targets and in exploration. The policy takes the tile of the highest value.

An update plays one whole episode in every sub-environment, takes ``gradient_steps`` steps and then
copies the Q-network to its target. Checkpoints do not hold the memory, which takes hundreds of
megabytes: a resumed run fills it anew, so its weights are not those of a run that was never
stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.configs import checker
from pmoss_agents.spatial.sb3_agent import OnlineConfig, SB3Agent


@dataclass(frozen=True)
class Config(OnlineConfig):
    """Settings of DQN, beside those of OnlineConfig.

    Attributes:
        memory: steps that are remembered.
        n_steps: steps of a target: rewards are summed over them before a value is asked for.
        gradient_steps: per update.
        epsilon: share of random allowed tiles at the beginning; falls linearly.
        epsilon_end: what it falls to.
        exploration: share of the training in which it falls.
    """

    agent: ClassVar[str] = "dqn"

    memory: int = 5000
    n_steps: int = 1
    gradient_steps: int = 64
    epsilon: float = 1.0
    epsilon_end: float = 0.05
    exploration: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check = checker(self.agent, self)
        for name in ("epsilon", "epsilon_end", "exploration"):
            check(name, 0 <= getattr(self, name) <= 1, "lie in [0, 1]")


class MaskedDQNAgent(SB3Agent):
    """A masked DQN on the native vector environment."""

    name = "dqn"
    Config = Config
    ACTOR = "q_net.scores"
    LEVEL = True

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from pmoss_agents.spatial.sb3_masked import MaskedDQN, TileDQNPolicy

        config: Config = self.config
        return MaskedDQN(
            TileDQNPolicy,
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
        config: Config = self.config
        done = self.updates / (total * config.exploration or 1.0)
        epsilon = config.epsilon + (config.epsilon_end - config.epsilon) * min(1.0, done)
        model.exploration_schedule = lambda _: epsilon
        model.exploration_rate = epsilon
        metrics = super()._update(model, total)
        model.q_net_target.load_state_dict(model.q_net.state_dict())
        return {**metrics, "epsilon": epsilon}
