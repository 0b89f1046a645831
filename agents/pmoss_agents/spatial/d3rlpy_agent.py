"""What all agents that learn through d3rlpy have in common: settings, training, use, checkpoints.

d3rlpy computes losses and updates; batches, order, checkpoints and use are ours. Its own files are
pickles and its ``fit`` keeps neither order nor place, so neither is used. A fitted agent is a few
networks of plain PyTorch: to load one and to act, d3rlpy need not be installed.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.base import Array, Progress, checker, task_of
from pmoss_agents.spatial.episodes import best_episodes, check_learnable, input_samples
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_agents.spatial.tile_agent import TileAgent, check_settings, set_up
from pmoss_agents.spatial.tile_networks import TileEncoder, TileScores
from pmoss_agents.spatial.transitions import Batch, Transitions
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_datasets import Dataset
from pmoss_datasets.spatial.expansion import rewards
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import MissingExtraError

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingExtraError("torch", "agents") from error


@dataclass(frozen=True)
class ImitationConfig:
    """Settings that every agent which learns through d3rlpy has.

    Attributes:
        channels: features per core tile in the state encoder.
        width: size of the token.
        derived: per-tile channels computed from the counters, see derived_channels().
        keep_best: share of the episodes trained on, highest return first; 1 keeps all.
        reward: what the return is; it ranks episodes, and value learners learn from it.
            "improvement" needs a throughput after every step; "terminal" and "slice" do not.
        updates: gradient steps.
        batch_size: transitions per update.
        learning_rate: of Adam; falls as a cosine to a tenth.
        clip: largest norm of the gradient.
        seed: of weights and order of transitions.
        threads: of torch in fit(); act() uses one.
        save_every: updates between checkpoints, if fit() is given a place for them.
    """

    channels: int = 16
    width: int = 64
    derived: bool = True
    keep_best: float = 1.0
    reward: Reward = "terminal"
    updates: int = 3000
    batch_size: int = 64
    learning_rate: float = 1e-3
    clip: float = 1.0
    seed: int = 0
    threads: int = 1
    save_every: int = 100

    agent: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check = check_settings(self.agent, self)
        check("keep_best", 0 < self.keep_best <= 1, "lie in (0, 1]")


@dataclass(frozen=True)
class ValueConfig(ImitationConfig):
    """Settings of agents that learn values; rewards are scaled so that returns spread by 1.

    Attributes:
        n_steps: steps of a transition: rewards are summed over them before a value is asked for.
        gamma: discount per step; 1 for episodes that always end after as many steps.
    """

    reward: Reward = "improvement"
    n_steps: int = 16
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checker(self.agent, self)("gamma", 0 < self.gamma <= 1, "lie in (0, 1]")


class D3rlpyAgent(TileAgent):
    """An agent whose updates d3rlpy computes."""

    #: Networks needed to act: where d3rlpy's modules hold them, and whether they are values.
    NETWORKS: ClassVar[Mapping[str, tuple[str, bool]]]
    config: Any

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._updates = 0
        self._learner: Any = None
        self._arrays: dict[str, Array] = {}

    @abstractmethod
    def _learner_config(self, common: dict[str, Any]) -> Any:
        """d3rlpy's config of the learner.

        Args:
            common: its fields that all learners share: factories, batch size, learning rate.
        """

    # ---- learning

    def check_extras(self) -> None:
        """Raises MissingExtraError if d3rlpy is not installed; to act it need not be."""
        # Looked for, not imported: that takes seconds. None in sys.modules says it is absent.
        if sys.modules.get("d3rlpy", self) is None or find_spec("d3rlpy") is None:
            raise MissingExtraError("d3rlpy", "d3rlpy")

    def fit(
        self,
        dataset: Dataset,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        allow_other_dataset: bool = False,
    ) -> dict[str, float]:
        """See Agent.fit. Metrics: the learner's losses.

        Update u of a run depends on the seed and u alone, so a run that is resumed from a
        checkpoint ends with the same weights as one that was never stopped.

        Raises:
            MissingExtraError: d3rlpy is not installed.
            CheckpointError: the agent was fitted for another task, or to another dataset.
            DatasetError: see check_learnable().
        """
        self.check_extras()
        config = self.config
        task = task_of(dataset)
        self.check_task(task, f"the dataset {dataset.metadata.id}")
        origin = self.check_dataset(dataset, allow_other_dataset)
        check_learnable(dataset, config.reward)
        episodes = best_episodes(dataset, config.keep_best, config.reward)
        # A resumed agent goes on with the scale that it began with.
        scale = self.task.get("reward_scale") or _spread(dataset, episodes, config.reward)
        source = self._source(dataset, episodes, scale)
        metrics: dict[str, float] = {}
        with torch_threads(config.threads), torch.random.fork_rng(devices=[]):
            if self._learner is None:
                learner = self._new_learner(source, dataset)
                if not self._arrays:
                    view = FullSequenceView(dataset, config.reward)
                    samples = input_samples(dataset, view, episodes)
                    set_up(_networks(learner), samples, dataset.machine)
                shapes = [list(shape) for shape in source.shapes]
                self.task = {**task, "reward_scale": scale, "shapes": shapes}
                self._use(learner)
            self.dataset = origin
            torn = False
            try:
                while self._updates < config.updates:
                    batch = source.batch(self._updates, config.batch_size, config.seed)
                    self._set_learning_rate()
                    # d3rlpy's update is all in one: cut, it may leave weights half changed.
                    torn = True
                    metrics = self._update(batch)
                    self._updates += 1
                    torn = False
                    if progress is not None:
                        progress(self._updates, config.updates, metrics)
                    if checkpoint is not None and self._updates % config.save_every == 0:
                        self.save(checkpoint)
                if checkpoint is not None:
                    self.save(checkpoint)
            except KeyboardInterrupt:
                if checkpoint is not None and not torn:
                    self.save(checkpoint)
                raise
        return metrics

    def _source(self, dataset: Dataset, episodes: Array, scale: float) -> Transitions:
        config = self.config
        if not isinstance(config, ValueConfig):
            return Transitions(dataset, episodes, reward=None)
        return Transitions(
            dataset,
            episodes,
            reward=config.reward,
            n_steps=config.n_steps,
            gamma=config.gamma,
            scale=scale,
        )

    def _new_learner(self, source: Transitions, dataset: Dataset) -> Any:
        """d3rlpy's learner with the weights of the checkpoint, or new ones."""
        # Our module first: it imports d3rlpy without what that prints.
        from pmoss_agents.spatial.d3rlpy_masked.networks import (
            MaskedQFunctionFactory,
            TileEncoderFactory,
        )

        from d3rlpy.optimizers import AdamFactory  # isort: skip

        config = self.config
        torch.manual_seed(config.seed)
        common: dict[str, Any] = {
            "batch_size": config.batch_size,
            "learning_rate": config.learning_rate,
            "optim_factory": AdamFactory(clip_grad_norm=config.clip),
            "encoder_factory": TileEncoderFactory(config.channels, config.width, config.derived),
        }
        if isinstance(config, ValueConfig):
            common |= {"gamma": config.gamma, "q_func_factory": MaskedQFunctionFactory()}
        learner = self._learner_config(common).create(device="cpu")
        learner.create_impl(source.shapes, dataset.machine.tiles)
        if self._arrays:
            for name, part in vars(learner.impl.modules).items():
                if isinstance(part, nn.Module):
                    load_weights(part, self._arrays, f"{name}.")
                else:
                    load_moments(part.optim, self._arrays, f"{name}/")
            learner.set_grad_step(self._updates)
        return learner

    def _use(self, learner: Any) -> None:
        """Acts from now on with the learner's own networks."""
        self._learner = learner
        modules = learner.impl.modules
        self.networks = {name: _child(modules, where) for name, (where, _) in self.NETWORKS.items()}

    def _set_learning_rate(self) -> None:
        config = self.config
        cosine = 0.5 * (1 + math.cos(math.pi * self._updates / config.updates))
        for part in vars(self._learner.impl.modules).values():
            if not isinstance(part, nn.Module):
                for group in part.optim.param_groups:
                    group["lr"] = config.learning_rate * (0.1 + 0.9 * cosine)

    def _update(self, batch: Batch) -> dict[str, float]:
        from d3rlpy.dataset import TransitionMiniBatch

        losses = self._learner.update(
            TransitionMiniBatch(
                observations=batch.observations,
                actions=batch.actions,
                rewards=batch.rewards,
                next_observations=batch.next_observations,
                next_actions=np.zeros_like(batch.actions),
                terminals=batch.terminals,
                intervals=batch.intervals,
                transitions=[],
            )
        )
        return {name: float(value) for name, value in losses.items()}

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        if self._learner is not None:
            self._arrays = {}
            for name, part in vars(self._learner.impl.modules).items():
                if isinstance(part, nn.Module):
                    self._arrays |= weights_of(part, f"{name}.")
                else:
                    self._arrays |= moments_of(part.optim, f"{name}/")
        return self._arrays, {"updates": self._updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        config = self.config
        shapes = self.task["shapes"]
        with torch.random.fork_rng(devices=[]):
            for name, (where, level) in self.NETWORKS.items():
                encoder = TileEncoder(
                    shapes, channels=config.channels, width=config.width, derived=config.derived
                )
                network = TileScores(encoder, level=level)
                load_weights(network, arrays, f"{where}.")
                self.networks[name] = network
        self._arrays = dict(arrays)
        self._updates = int(values["updates"])


def _child(modules: Any, where: str) -> TileScores:
    """The network at a dotted place of d3rlpy's modules."""
    found: Any = modules
    for name in where.split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    assert isinstance(found, TileScores)
    return found


def _networks(learner: Any) -> list[nn.Module]:
    """All networks of a learner, targets included."""
    return [part for part in vars(learner.impl.modules).values() if isinstance(part, nn.Module)]


def _spread(dataset: Dataset, episodes: Array, reward: Reward) -> float:
    """Standard deviation of the episodes' returns, Mq/s; 1 where they are all alike."""
    returns = [rewards(dataset[int(i)], reward).sum() for i in episodes]
    spread = float(np.std(returns))
    return spread if spread > 1e-6 * float(np.abs(returns).max()) else 1.0
