"""Bandits for ``pmoss/ThreadScheduling-v0``: the one of Smart Scheduler, and a hybrid.

They learn while they act: ``observe`` takes the latest decision's reward. ``fit`` runs episodes,
of an environment or of one that it makes of keyword arguments. A bandit is LinUCB: one ridge
regression per number of threads to migrate, see ``ridge``; it has no loss but its squared error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from pmoss_agents.agent import Array, Observation, OnlineAgent
from pmoss_agents.configs import Settings
from pmoss_agents.ridge import RidgeArms
from pmoss_agents.threads.base import ThreadAgent, legal_counts, run_episode
from pmoss_agents.trainer import Course
from pmoss_datasets.threads.domain import THREADS
from pmoss_env.envs.threads.inputs import INPUT_NAMES, INPUTS
from pmoss_env.envs.threads.reward import WRITE_WEIGHT

#: Decisions whose confidence widths are kept: more than an episode has, less than days of a load.
_KEPT = 2**20


def context(observation: Observation) -> Array:
    """(13,) float64: the twelve scaled inputs of the core to decide on, and a constant."""
    x = np.empty(len(INPUT_NAMES) + 1)
    x[:-1] = observation["inputs"]
    x[-1] = 1.0
    return x


@dataclass(frozen=True)
class LinUCBConfig(Settings):
    """Settings of the bandits."""

    agent: ClassVar[str] = "threads-linucb"
    BOUNDS: ClassVar = {"alpha": "[0, inf)", "ridge": "(0, inf)"}

    alpha: float = 0.3  # exploration in confidence widths; the paper calls it the learning rate
    ridge: float = 1.0  # strength of the regularisation
    episodes: int = 1  # that fit() runs
    seed: int = 0  # of the first episode of fit(); the others follow


class ThreadLinUCB(ThreadAgent, OnlineAgent[gymnasium.Env[Any, Any] | Mapping[str, Any]]):
    """Smart Scheduler: LinUCB over the number of threads to migrate (section 6).

    Attributes:
        widths: (arm, alpha x sqrt(x' A^-1 x)): the chosen arm and its confidence width at each of
            the episode's latest decisions.
    """

    name = "threads-linucb"
    learns_while_acting = True
    Config = LinUCBConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.bandit = RidgeArms(0, len(INPUT_NAMES) + 1, self.config.ridge)
        self._widths: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._pending: tuple[int, Array] | None = None

    def reset(self) -> None:
        """Begins an episode; what was learned stays."""
        self._pending = None
        self._widths.clear()

    @property
    def widths(self) -> list[tuple[int, float]]:
        """See the class."""
        return list(self._widths)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The number with the highest upper confidence bound.

        Without a choice, nothing is learned either.
        """
        legal = legal_counts(observation, action_mask)
        self._pending = None
        if legal.size == 1:
            return int(legal[0])
        x = context(observation)
        mean, width = self.bandit.estimate(x, legal)
        width = self.config.alpha * width
        chosen = self._choose(legal, mean, width)
        arm = int(legal[chosen])
        self._widths.append((arm, float(width[chosen])))
        self._pending = (arm, x)
        return arm

    @contextmanager
    def _course(self, env: gymnasium.Env[Any, Any] | Mapping[str, Any]) -> Iterator[Course]:
        world = THREADS.make_env(env) if isinstance(env, Mapping) else env

        def step(episode: int) -> Callable[[], dict[str, float]]:
            return lambda: run_episode(world, self, seed=self.config.seed + episode)

        try:
            yield Course(step, self.config.episodes)
        finally:
            if world is not env:
                world.close()

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
        return self.bandit.arrays(), {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.bandit.restore(arrays)
        self.updates = int(values.get("updates", 0))  # absent from the first checkpoints


@dataclass(frozen=True)
class HybridConfig(LinUCBConfig):
    """Settings of the hybrid."""

    alpha: float = 0.1  # widths between an arm and the bound that it must be sure of
    evidence: int = 3  # decisions of the rule that an episode must have seen before it is overruled
    retry: int = 500  # decisions after which an overruled rule is tried again

    agent: ClassVar[str] = "threads-hybrid"
    BOUNDS: ClassVar = {"evidence": "[1, inf)", "retry": "[0, inf)"}


class Hybrid(ThreadLinUCB):
    """Starts from the rule; the bandit overrules it when it is sure (section 10, future work).

    The rule moves every thread of the core. The bandit learns what a number does to the weighted
    bandwidth of slow memory (BWVN), in units of one thread's share. That bandwidth is among its
    inputs. The paper's reward also pays for locality where that costs throughput. The rule is
    overruled by a number whose lower confidence bound is above the upper one of the rule's.
    Letting all threads stay changes nothing, so its value is 0 and needs no trial. A linear model
    carries over to programs that it does not fit, so that this episode must have shown the same:
    its latest decisions by the rule were bad on average. Now and then the rule is
    retried.
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
            threads = np.asarray(observation["action_mask"]).size - 1
            change = threads * (now / self._bandwidth - 1.0)
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
