"""Proximal policy optimisation for continual scheduling: it learns by moving slices, online.

Schulman et al., Proximal Policy Optimization Algorithms, 2017; Huang and Ontañón, A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms, 2022. sb3-contrib's MaskablePPO on the native
vector environment. It knows no model: not of the machine, not of the workload, not of the drift.

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
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.configs import LATER, checker
from pmoss_agents.continual.ppo_network import Past, RoundActor, begins, nodes_of
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.sb3_learner import POLICY, Found, SB3Learner, check_ppo, ppo_arguments
from pmoss_agents.weights import load_weights, torch_threads
from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.envs.vector import SAME_STEP
from pmoss_env.errors import CheckpointError
from pmoss_env.types import COUNTER_NAMES

#: Episodes and steps that input statistics and the scale of rewards are taken from.
_SAMPLE, _STEPS = 16, 64
_ACTOR = "actor."


@dataclass(frozen=True)
class Config:
    """How the networks are made and trained.

    The learning rate falls linearly to a tenth.

    Attributes:
        width: size of the tokens.
        steps: of the environment, over all sub-environments; rounded up to whole updates.
        envs: sub-environments.
        rollout: steps of every sub-environment per update.
        epochs: passes over the steps of an update.
        batch_size: steps per gradient step.
        learning_rate: of Adam, at its highest.
        gamma: discount per step.
        gae_lambda: of generalised advantage estimation.
        clip_range: how far the odds of an action may move in an update, as a share.
        entropy: weight of the entropy bonus.
        target_kl: an update ends early beyond 1.5 times this divergence.
        clip: largest norm of the gradient.
        seed: of weights, and of whatever else is drawn.
        threads: of torch and of the environment in fit(); act() uses one.
        device: where it learns, one of configs.DEVICES; it acts on the CPU.
    """

    agent: ClassVar[str] = "continual-ppo"

    width: int = 32
    steps: int = 500_000
    envs: int = 16
    rollout: int = 128
    epochs: int = 4
    batch_size: int = 512
    learning_rate: float = 1e-3
    gamma: float = 0.95
    gae_lambda: float = 0.9
    clip_range: float = 0.2
    entropy: float = 0.003
    target_kl: float = 0.05
    clip: float = 0.5
    seed: int = 0
    threads: int = 1
    device: str = field(default="cpu", metadata=LATER)

    def __post_init__(self) -> None:
        check = checker(self.agent, self)
        for one in fields(self):
            if one.type == "int" and one.name != "seed":
                check(one.name, getattr(self, one.name) >= 1, "be at least 1")
        check("batch_size", self.batch_size >= 2, "be at least 2: advantages are standardised")
        check("rollout", self.rollout >= 2, "be at least 2: advantages are standardised")
        check_ppo(check, self)


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
        self.config: Config
        self.actor: RoundActor | None = None
        self._past: Past | None = None

    # ---- learning

    def _look_around(self, env: Mapping[str, Any]) -> Found:
        """Half of the episodes stay, the others move at random."""
        envs = ContinualVectorEnv(_SAMPLE, autoreset_mode=SAME_STEP, **env)
        try:
            first = envs.sub_environments()[0]
            task = _task_of(first)
            past = Past(_SAMPLE, task["nodes"], len(COUNTER_NAMES))
            rng = np.random.default_rng(self.config.seed)
            seen, _ = envs.reset(seed=[int(s) for s in rng.integers(2**31, size=_SAMPLE)])
            workers = np.flatnonzero(first.machine.worker_tiles)
            paid, states = [], []
            for step in range(_STEPS):
                past.take(seen, begins(seen))
                if step % 4 == 0:
                    states.append(past.show(seen))
                slices = rng.integers(first.slices + 1, size=_SAMPLE)
                free = np.take_along_axis(seen["slice_mask"], slices[:, None], 1)[:, 0] > 0
                free[: _SAMPLE // 2] = False
                slices[~free] = first.slices
                tiles = rng.choice(workers, size=_SAMPLE)
                seen, rewards, _, ended, _ = envs.step(np.stack([slices, tiles], axis=1))
                past.forget(ended)
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
        return Found(task, {"usual": float(np.mean(paid)), "scale": scale or 1.0}, set_up)

    def _new_envs(self, env: Mapping[str, Any]) -> Any:
        from pmoss_agents.continual.ppo_training import RoundsVecEnv

        config, task = self.config, self.task
        return RoundsVecEnv(
            config.envs,
            counters=len(task["counters"]),
            usual=task["usual"],
            scale=task["scale"],
            threads=config.threads,
            **env,
        )

    def _policy_arguments(self, envs: Any) -> dict[str, Any]:
        return self._sizes()

    def _sizes(self) -> dict[str, Any]:
        task = self.task
        counters = len(task["counters"])
        return {"nodes": task["nodes"], "counters": counters, "width": self.config.width}

    def _new_model(self, env: Any, common: dict[str, Any]) -> Any:
        from sb3_contrib import MaskablePPO

        from pmoss_agents.continual.ppo_training import RoundsPolicy

        n_steps = self.config.rollout
        return MaskablePPO(
            RoundsPolicy, env, n_steps=n_steps, **ppo_arguments(self.config), **common
        )

    def _steps_per_update(self) -> int:
        config: Config = self.config
        return config.envs * config.rollout

    def _take(self, policy: Any) -> None:
        self.actor = policy.actor

    # ---- acting

    def check_env(self, env: Any) -> None:
        """CheckpointError for another machine, number of slices or set of counters."""
        task = _task_of(env.unwrapped)
        self.check_task({key: task[key] for key in ("grid", "slices", "readable", "nodes")})

    def reset(self) -> None:
        """Begins an episode."""
        self._past = None

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
        if self._past is None:
            self._past = Past(1, self.task["nodes"], len(self.task["counters"]))
        self._past.take(rows, begins(rows))
        with torch_threads(1), torch.inference_mode():
            move = self.actor.likeliest(_tensors(self._past.show(rows)))
        return np.array(move, dtype=np.int32)

    # ---- keeping

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            self.actor = RoundActor(**self._sizes())
        load_weights(self.actor, arrays, POLICY + _ACTOR)
        self._restore_course(arrays, values)


def _task_of(env: Any) -> dict[str, Any]:
    """What an agent can be used for that learns in an environment, as plain JSON values."""
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
