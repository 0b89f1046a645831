"""Agents for ``pmoss/ThreadScheduling-v0``: the paper's bandit, what it is held against, a hybrid.

All learn online, if at all: ``fit`` runs episodes of an environment, ``observe`` learns from the
latest decision's reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from pmoss_agents.base import Agent, Array, Observation, Progress
from pmoss_agents.linucb import LinUCB
from pmoss_datasets import Dataset
from pmoss_env.envs.threads.inputs import INPUT_NAMES, INPUTS
from pmoss_env.envs.threads.reward import WRITE_WEIGHT
from pmoss_env.errors import CheckpointError, DescriptionError, UnsupportedError


def thread_agent_names() -> list[str]:
    """The agents of this module, by their registry names."""
    return [
        agent.name for agent in (ThreadLinUCB, ThreadRule, SchedulingDomain, ThreadRandom, Hybrid)
    ]


def context(observation: Observation) -> Array:
    """(13,) float64: the twelve scaled inputs of the core to decide on, and a constant."""
    x = np.empty(len(INPUT_NAMES) + 1)
    x[:-1] = observation["inputs"]
    x[-1] = 1.0
    return x


@dataclass(frozen=True)
class NoConfig:
    """Nothing to set."""


class ThreadAgent(Agent):
    """An agent that decides how many threads of a core to migrate."""

    TASK: ClassVar[tuple[str, ...]] = ()
    Config: ClassVar[type[Any]] = NoConfig

    def fit(
        self,
        dataset: Dataset | gymnasium.Env[Any, Any],
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        allow_other_dataset: bool = False,
        episodes: int = 1,
        seed: int = 0,
    ) -> dict[str, float]:
        """Runs episodes of an environment and learns from every decision.

        Args:
            dataset: a thread scheduling environment; a Dataset is refused.
            progress: called after every episode.
            checkpoint: where to save after every episode.
            allow_other_dataset: without meaning here.
            episodes: how many to run.
            seed: of the first episode; the others follow.

        Returns:
            The last episode's seconds and mean reward.

        Raises:
            UnsupportedError: it was given a dataset.
        """
        if isinstance(dataset, Dataset):
            raise UnsupportedError(f"{self.name} learns online: give fit() an environment")
        metrics: dict[str, float] = {}
        for episode in range(episodes):
            metrics = run_episode(dataset, self, seed=seed + episode)
            if checkpoint is not None:
                self.save(checkpoint)
            if progress is not None:
                progress(episode + 1, episodes, metrics)
        return metrics

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.task = {"inputs": list(INPUT_NAMES)}

    def reset(self) -> None:
        """Begins an episode."""

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        pass


class ThreadRule(ThreadAgent):
    """Rule-based: all threads of an unbalanced core go to their data (Yang et al. 2020)."""

    name = "threads-rule"

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The most threads that may go."""
        return int(_legal(observation, action_mask)[-1])


class SchedulingDomain(ThreadAgent):
    """Leaves the threads to the kernel, which balances the lengths of its queues."""

    name = "threads-scheduling-domain"

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """Nothing, where that is legal."""
        return int(_legal(observation, action_mask)[0])


@dataclass(frozen=True)
class RandomConfig:
    """Of the random agent.

    Attributes:
        seed: of its choices.
    """

    seed: int = 0


class ThreadRandom(ThreadAgent):
    """Any legal number, all equally likely."""

    name = "threads-random"
    Config = RandomConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._rng = np.random.default_rng(self.config.seed)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """A legal number at random."""
        return int(self._rng.choice(_legal(observation, action_mask)))

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {"generator": self._rng.bit_generator.state}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self._rng.bit_generator.state = values["generator"]


@dataclass(frozen=True)
class LinUCBConfig:
    """Of the bandits.

    Attributes:
        alpha: exploration (the paper's "learning rate", mission hole G24).
        ridge: strength of the regularisation.
    """

    alpha: float = 0.3
    ridge: float = 1.0


class ThreadLinUCB(ThreadAgent):
    """Smart Scheduler: LinUCB over the number of threads to migrate (section 6).

    Attributes:
        bandit: the model.
        widths: (arm, alpha x sqrt(x' A^-1 x)): the chosen arm and its confidence width at each
            decision.
    """

    name = "threads-linucb"
    Config = LinUCBConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.bandit = LinUCB(len(INPUT_NAMES) + 1, alpha=self.config.alpha, ridge=self.config.ridge)
        self.widths: list[tuple[int, float]] = []
        self._pending: tuple[int, Array] | None = None

    def reset(self) -> None:
        """Begins an episode; what was learned stays."""
        self._pending = None

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The number with the highest upper confidence bound.

        Where there is nothing to choose, nothing is learned either.
        """
        legal = _legal(observation, action_mask)
        self._pending = None
        if legal.size == 1:
            return int(legal[0])
        x = context(observation)
        mean, width = self.bandit.estimate(x, legal)
        chosen = self._choose(legal, mean, self.bandit.alpha * width)
        self.widths.append((int(legal[chosen]), float(self.bandit.alpha * width[chosen])))
        self._pending = (int(legal[chosen]), x)
        return int(legal[chosen])

    def _choose(self, legal: Array, mean: Array, width: Array) -> int:
        return int(np.argmax(mean + width))

    def observe(self, reward: float) -> None:
        """Learns the reward of the last action."""
        if self._pending is None:
            return
        arm, x = self._pending
        self.bandit.update(arm, x, reward)
        self._pending = None

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self.bandit.arrays(), {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.bandit.restore(arrays)


@dataclass(frozen=True)
class HybridConfig(LinUCBConfig):
    """Of the hybrid.

    Attributes:
        alpha: widths between an arm and the bound that it must be sure of.
        evidence: decisions of the rule that an episode must have seen before it is overruled.
        retry: decisions after which an overruled rule is tried again.
    """

    alpha: float = 0.1
    evidence: int = 3
    retry: int = 500


class Hybrid(ThreadLinUCB):
    """Starts from the rule; the bandit overrules it when it is sure (section 10, future work).

    The rule moves every thread of the core. Its bandit learns what a number does to the weighted
    bandwidth of slow memory (BWVN), which it sees among its inputs, in units of one thread's share:
    the paper's reward also pays for locality where that costs throughput. The rule is overruled by
    a number whose lower confidence bound is above the upper one of the rule's. Letting all threads
    stay changes nothing, so its value is known to be 0 and needs no trial. A linear model carries
    over to programs that it does not fit, so that this episode must have said the same: its latest
    decisions by the rule were bad on average. Now and then the rule is retried.
    """

    name = "threads-hybrid"
    Config = HybridConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._forget()

    def _forget(self) -> None:
        self._rule_changes: list[float] = []
        self._overruled = 0
        self._by_rule = False
        self._bandwidth = 0.0

    def reset(self) -> None:
        """Begins an episode; what was learned stays, this episode's evidence does not."""
        super().reset()
        self._forget()

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The rule's number, or what the bandit is sure to be better."""
        now = _bandwidth(observation)
        if self._pending is not None and self._bandwidth > 0.0:
            most = np.asarray(observation["action_mask"]).size - 1
            change = most * (now / self._bandwidth - 1.0)
            arm, x = self._pending
            self.bandit.update(arm, x, change)
            if self._by_rule:
                self._rule_changes.append(change)
        self._bandwidth = now
        return super().act(observation, action_mask)

    def _choose(self, legal: Array, mean: Array, width: Array) -> int:
        rule = legal.size - 1
        lower, upper = mean - width, mean[rule] + width[rule]
        if legal[0] == 0:
            lower[0] = 0.0
        best = int(np.argmax(lower))
        recent = self._rule_changes[-self.config.evidence :]
        bad = len(recent) == self.config.evidence and sum(recent) < 0.0
        sure = bad and lower[best] > upper and self._overruled < self.config.retry
        self._overruled = self._overruled + 1 if sure else 0
        self._by_rule = not sure
        return best if sure else rule

    def observe(self, reward: float) -> None:
        """Learns nothing from the reward: see the class."""


def _bandwidth(observation: Observation) -> float:
    """Read + 3 x written bandwidth of slow memory, GB/s."""
    inputs = np.asarray(observation["core_inputs"], dtype=np.float64).max(axis=0)
    read, write = (
        inputs[i] * INPUTS[i].scale
        for i in map(INPUT_NAMES.index, ("slow_read_gb_per_s", "slow_write_gb_per_s"))
    )
    return float(read + WRITE_WEIGHT * write)


def run_episode(
    env: gymnasium.Env[Any, Any], agent: Agent, *, seed: int | None = None, learn: bool = True
) -> dict[str, float]:
    """Runs one episode; the agent learns from each decision if ``learn``.

    Returns:
        ``seconds``, ``user_seconds``, ``kernel_seconds``, ``requests``, ``p99_ms``, ``moved``
        (threads), ``decisions`` (where there was a choice) and ``reward``, its mean over them.
    """
    observation, info = env.reset(seed=seed)
    agent.reset()
    moved = decisions = 0
    total = 0.0
    ended = False
    while not ended:
        mask = info["action_mask"]
        decisions += int(mask.sum() > 1)
        action = agent.act(observation, mask)
        observation, reward, terminated, truncated, info = env.step(np.int64(action))
        ended = terminated or truncated
        if learn and not ended:
            agent.observe(float(reward))
        moved += int(info["moved"])
        total += float(reward)
    keys = ("seconds", "user_seconds", "kernel_seconds", "requests", "p99_ms")
    return {
        **{key: float(info[key]) for key in keys},
        "moved": float(moved),
        "decisions": float(decisions),
        "reward": total / max(decisions, 1),
    }


def _legal(observation: Observation, action_mask: Array | None) -> Array:
    mask = observation["action_mask"] if action_mask is None else action_mask
    legal = np.flatnonzero(mask)
    if not legal.size:
        raise DescriptionError("the action mask allows nothing")
    if observation["inputs"].shape != (len(INPUT_NAMES),):
        raise CheckpointError(
            f"inputs of shape {observation['inputs'].shape}: must be ({len(INPUT_NAMES)},)"
        )
    return legal
