"""Proximal policy optimisation for continual scheduling: it learns by moving slices, online.

Schulman et al., Proximal Policy Optimization Algorithms, 2017; Huang and Ontañón, A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms, 2022. sb3-contrib's MaskablePPO, loss
included, on the native vector environment. It has no model: not of the machine, not of the
workload, not of the drift.

A move is chosen in two steps: first a slice, or "leave it for now"; then the tile for that slice.
A trained agent leaves it for now if that is at least as likely as all moves together. Otherwise it
takes the likeliest slice, and the likeliest tile for it. An untrained network stays.

An update plays a number of steps in every sub-environment, from new episodes on, and learns from
them. It depends on the seed, its number and the weights alone. So a resumed run ends with the same
weights as one that was never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.configs import LATER, Settings
from pmoss_agents.continual.ppo_network import (
    History,
    RoundActor,
    RoundCritic,
    epoch_begins,
    nodes_of,
)
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.sb3_learner import POLICY, PPO_BOUNDS, Probe, SB3Learner, ppo_arguments
from pmoss_agents.weights import load_arrays, torch_threads
from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.envs.vector import SAME_STEP
from pmoss_env.errors import CheckpointError
from pmoss_env.types import COUNTER_NAMES

#: Episodes and steps that input statistics and the scale of rewards are taken from.
_SAMPLE, _STEPS = 16, 64


@dataclass(frozen=True)
class Config(Settings):
    """How the networks are made and trained.

    The learning rate falls linearly to a tenth.
    """

    agent: ClassVar[str] = "continual-ppo"
    # Advantages are standardised, which one step cannot be.
    BOUNDS: ClassVar = {**PPO_BOUNDS, "batch_size": "[2, inf)", "rollout": "[2, inf)"}

    width: int = 32  # size of the tokens
    # Of the environment, over all sub-environments; rounded up to whole updates.
    steps: int = 500_000
    envs: int = 16  # sub-environments
    rollout: int = 128  # steps of every sub-environment per update
    epochs: int = 4  # passes over the steps of an update
    batch_size: int = 512  # steps per gradient step
    learning_rate: float = 1e-3  # of Adam, at its highest
    gamma: float = 0.95  # discount per step
    gae_lambda: float = 0.9  # of generalised advantage estimation
    clip_range: float = 0.2  # how far the odds of an action may move in an update, as a share
    entropy: float = 0.003  # weight of the entropy bonus
    target_kl: float = 0.05  # an update ends early beyond 1.5 times this divergence
    clip: float = 0.5  # largest norm of the gradient
    seed: int = 0  # of weights, and of whatever else is drawn
    threads: int = 1  # of torch and of the environment in fit(); act() uses one
    device: str = field(default="cpu", metadata=LATER)  # where it learns, see configs.DEVICES


class ContinualPPO(SB3Learner):
    """The agent; see the module's docstring.

    Attributes:
        actor: scores moves; None before the first fit().
    """

    name = "continual-ppo"
    domain = "continual"
    Config = Config
    TASK = ("grid", "slices", "counters", "readable", "nodes", "usual", "scale")

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.actor: RoundActor | None = None
        self._history: History | None = None

    # ---- learning

    def _probe(self, env: Mapping[str, Any]) -> Probe:
        """Plays some episodes: half of them stay, the others move at random."""
        envs = ContinualVectorEnv(_SAMPLE, autoreset_mode=SAME_STEP, **env)
        try:
            first = envs.sub_environments()[0]
            task = _task_of(first)
            history = History(_SAMPLE, task["nodes"], len(COUNTER_NAMES))
            rng = np.random.default_rng(self.config.seed)
            rows, _ = envs.reset(seed=[int(s) for s in rng.integers(2**31, size=_SAMPLE)])
            workers = np.flatnonzero(first.machine.worker_tiles)
            paid, states = [], []
            for step in range(_STEPS):
                history.take(rows, epoch_begins(rows))
                if step % 4 == 0:
                    states.append(history.show(rows))
                slices = rng.integers(first.slices + 1, size=_SAMPLE)
                free = np.take_along_axis(rows["slice_mask"], slices[:, None], 1)[:, 0] > 0
                free[: _SAMPLE // 2] = False
                slices[~free] = first.slices
                tiles = rng.choice(workers, size=_SAMPLE)
                rows, rewards, _, ended, _ = envs.step(np.stack([slices, tiles], axis=1))
                history.forget(ended)
                paid.append(rewards[: _SAMPLE // 2])
        finally:
            envs.close()
        parts = _tensors({key: np.concatenate([s[key] for s in states]) for key in states[0]})

        def set_up(policy: Any) -> None:
            for network in (policy.actor, policy.critic):
                network.encoder.set_up(parts)

        # Returns are then about 1: sums over as many epochs as the discount looks ahead.
        ahead = min(1.0 / (1.0 - self.config.gamma), _STEPS) if self.config.gamma < 1 else _STEPS
        scale = float(np.std(paid)) * math.sqrt(ahead)
        return Probe(task, {"usual": float(np.mean(paid)), "scale": scale or 1.0}, set_up)

    def _new_envs(self, env: Mapping[str, Any]) -> Any:
        from pmoss_agents.continual.ppo_envs import RoundsVecEnv

        config, task = self.config, self.task
        return RoundsVecEnv(
            config.envs,
            counters=len(task["counters"]),
            usual=task["usual"],
            scale=task["scale"],
            threads=config.threads,
            **env,
        )

    def _sizes(self) -> tuple[list[int], int, int]:
        """Arguments of the networks."""
        return self.task["nodes"], len(self.task["counters"]), self.config.width

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from sb3_contrib import MaskablePPO
        from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

        sizes = self._sizes()

        class RoundsPolicy(MaskableActorCriticPolicy):
            """Two networks that share nothing: one scores moves, one gives the value of a state.

            The odds of a move are those of its slice, times those of the tile for that slice. Where
            all is left as it is for now, the tile has no odds. Masks are in the scores already,
            from the observation; those that MaskablePPO hands over are the same.
            """

            def _build(self, lr_schedule: Any) -> None:
                self.actor, self.critic = RoundActor(*sizes), RoundCritic(*sizes)
                self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

            def forward(
                self, obs: Any, deterministic: bool = False, action_masks: Any = None
            ) -> tuple[Tensor, Tensor, Tensor]:
                slices, tokens = self.actor(obs)
                chosen = torch.multinomial(slices.exp(), 1)[:, 0]
                tiles = self.actor.tiles(obs, tokens, chosen)
                actions = torch.stack([chosen, torch.multinomial(tiles.exp(), 1)[:, 0]], 1)
                return actions, self.critic(obs), _log_odds(actions, slices, tiles)

            def evaluate_actions(
                self, obs: Any, actions: Tensor, action_masks: Any = None
            ) -> tuple[Tensor, Tensor, Tensor]:
                actions = actions.long()
                slices, tokens = self.actor(obs)
                tiles = self.actor.tiles(obs, tokens, actions[:, 0])
                # Of tiles, the entropy is that for these slices.
                moves = 1.0 - slices[:, -1].exp()
                entropy = _entropy(slices) + moves * _entropy(tiles)
                return self.critic(obs), _log_odds(actions, slices, tiles), entropy

            def predict_values(self, obs: Any) -> Tensor:
                values: Tensor = self.critic(obs)
                return values

        arguments = {**ppo_arguments(self.config), **common}
        return MaskablePPO(RoundsPolicy, env, n_steps=self.config.rollout, **arguments)

    def _steps_per_update(self) -> int:
        return int(self.config.envs * self.config.rollout)

    def _use(self, policy: Any) -> None:
        self.actor = policy.actor

    # ---- acting

    def check_env(self, env: Any) -> None:
        """CheckpointError for another machine, number of slices or set of counters."""
        task = _task_of(env.unwrapped)
        self.check_task({key: task[key] for key in ("grid", "slices", "readable", "nodes")})

    def reset(self) -> None:
        """Begins an episode."""
        self._history = None

    def act(self, observation: Observation, action_mask: Array | None = None) -> Any:
        """The next move: two int32, slice and tile; see Agent.act."""
        if self.actor is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        rows = {key: np.asarray(value)[None] for key, value in observation.items()}
        slices = len(observation["slice_tiles"])
        grid = list(rows["core_counters"].shape[1:3])
        self.check_task({"grid": grid, "slices": slices}, "the observation")
        if action_mask is not None:
            masks = np.asarray(action_mask)[None]
            rows |= {"slice_mask": masks[:, : slices + 1], "tile_mask": masks[:, slices + 1 :]}
        if self._history is None:
            self._history = History(1, self.task["nodes"], len(self.task["counters"]))
        self._history.take(rows, epoch_begins(rows))
        with torch_threads(1), torch.inference_mode():
            move = self.actor.likeliest(_tensors(self._history.show(rows)))
        return np.array(move, dtype=np.int32)

    # ---- keeping

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            self.actor = RoundActor(*self._sizes())
        load_arrays({f"{POLICY}actor.": self.actor}, arrays)
        super()._restore(arrays, values)


def _task_of(env: Any) -> dict[str, Any]:
    """The task of an agent that learns in an environment, as plain JSON values."""
    machine = env.machine
    return {
        "grid": [machine.rows, machine.cols],
        "slices": env.slices,
        "counters": list(COUNTER_NAMES),
        "readable": env.arguments.counters,
        "nodes": nodes_of(machine),
    }


def _tensors(parts: Mapping[str, Array]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(part) for key, part in parts.items()}


def _log_odds(actions: Tensor, slices: Tensor, tiles: Tensor) -> Tensor:
    """(B,) logarithms of the odds of (B, 2) actions, given those of slices and of tiles."""
    chosen, tile = (part.unsqueeze(1) for part in actions.unbind(1))
    moves = chosen < slices.shape[1] - 1
    odds = slices.gather(1, chosen) + torch.where(moves, tiles.gather(1, tile), 0.0)
    return odds[:, 0]


def _entropy(odds: Tensor) -> Tensor:
    return -(odds.exp() * odds).sum(1)
