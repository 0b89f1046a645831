"""Conservative Q-learning: values that are kept low where the data say nothing.

Kumar et al., Conservative Q-Learning for Offline Reinforcement Learning, NeurIPS 2020, in its
discrete form: d3rlpy's DiscreteCQL, whose loss is that of a double DQN (Huber's loss of the
temporal difference) and the penalty

    alpha (logsumexp_a Q(s, a) - Q(s, action of the data)),

where logsumexp_a runs over the allowed tiles only. The policy takes the tile of the highest Q.
Rewards are those of ``n_steps`` steps. With alpha = 1 the penalty outweighs Huber's loss: values
then order tiles, and are no estimates of returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_agents.spatial.d3rlpy_agent import Builder, D3rlpyAgent, ValueConfig


@dataclass(frozen=True)
class Config(ValueConfig):
    """Settings of conservative Q-learning, beside those of ValueConfig."""

    agent: ClassVar[str] = "cql"
    BOUNDS: ClassVar = {"alpha": "[0, inf)"}

    alpha: float = 1.0  # weight of the penalty; 0 is a double DQN
    target_update_interval: int = 100  # updates between two copies of the Q-function to its target


class CQL(D3rlpyAgent):
    """Conservative Q-learning through d3rlpy, masked."""

    name = "cql"
    Config = Config
    NETWORKS: ClassVar = {"q": ("q_funcs.0.scores", True)}

    def _new_learner(self, build: Builder) -> Any:
        from d3rlpy.algos.qlearning.torch.cql_impl import DiscreteCQLImpl
        from d3rlpy.algos.qlearning.torch.dqn_impl import DQNModules

        config = self.config
        q_functions, forwarder = build.q_functions()
        targets, of_targets = build.q_functions()
        return DiscreteCQLImpl(
            modules=DQNModules(q_functions, targets, build.optimiser(q_functions)),
            q_func_forwarder=forwarder,
            targ_q_func_forwarder=of_targets,
            target_update_interval=config.target_update_interval,
            gamma=config.gamma,
            alpha=config.alpha,
            **build.common,
        )
