"""What all agents that learn through d3rlpy have in common: settings, training, use, checkpoints.

d3rlpy computes losses and updates; batches, order, checkpoints and use are ours. Its own files are
pickles and its ``fit`` keeps neither order nor place, so neither is used. A fitted agent is a few
networks of plain PyTorch: to load one and to act, d3rlpy need not be installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.configs import checker
from pmoss_agents.devices import find_device, learning_on, own_chance, seed_chance, take_to
from pmoss_agents.pytorch import nn, torch
from pmoss_agents.spatial.base import task_of
from pmoss_agents.spatial.episodes import best_episodes, check_learnable, input_samples, spread
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.spatial.tile_networks import TileScores
from pmoss_agents.spatial.transitions import Batch, Transitions
from pmoss_agents.trainer import Course, cosine
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_datasets import Dataset
from pmoss_datasets.formats.d3rlpy import find_d3rlpy
from pmoss_datasets.spatial.expansion import rewards
from pmoss_env.envs.spatial.env import Reward


@dataclass(frozen=True)
class ImitationConfig(TileConfig):
    """Settings that every agent which learns through d3rlpy has, beside those of TileConfig.

    Its learning rate falls as a cosine to a tenth.

    Attributes:
        keep_best: share of the episodes trained on, highest return first; 1 keeps all. Value
            learners learn from this return, too. "improvement" needs a throughput after every step;
            "terminal" and "slice" do not.
        updates: gradient steps.
        save_every: updates between checkpoints, if fit() is given a place for them.
    """

    keep_best: float = 1.0
    updates: int = 3000
    save_every: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        checker(self.agent, self)("keep_best", 0 < self.keep_best <= 1, "lie in (0, 1]")


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


class D3rlpyAgent(TileAgent, OfflineAgent[Dataset]):
    """An agent whose updates d3rlpy computes.

    Update u of a run depends on the seed and u alone. Metrics are the learner's losses.
    """

    #: ``module:name`` of d3rlpy's config of the learner; imported when it learns.
    LEARNER: ClassVar[str]
    #: Fields of that config that are this algorithm's own, and what our config calls them.
    SETTINGS: ClassVar[Mapping[str, str]]
    #: Networks needed to act: where d3rlpy's modules hold them, and whether they are values.
    NETWORKS: ClassVar[Mapping[str, tuple[str, bool]]]

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._learner: Any = None
        self._arrays: dict[str, Array] = {}

    # ---- learning

    def check_extras(self) -> None:
        """Raises MissingExtraError if d3rlpy is not installed; to act it need not be."""
        find_d3rlpy()

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """See OfflineAgent.task_of."""
        return task_of(dataset)

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        config = self.config
        check_learnable(dataset, config.reward)
        episodes = best_episodes(dataset, config.keep_best, config.reward)
        # A resumed agent goes on with the scale that it began with.
        scale = self.task.get("reward_scale") or spread(
            [rewards(dataset[int(i)], config.reward).sum() for i in episodes]
        )
        source = self._source(dataset, episodes, scale)
        device = find_device(config.device)
        with torch_threads(config.threads), own_chance(device), ExitStack() as learning:
            if self._learner is None:
                learner = self._new_learner(source, dataset, device)
                if not self._arrays:
                    view = FullSequenceView(dataset, config.reward)
                    samples = input_samples(dataset, view, episodes)
                    set_up(_parts(learner)[0], samples, dataset.machine)
                shapes = [list(shape) for shape in source.shapes]
                self.task = {**task_of(dataset), "reward_scale": scale, "shapes": shapes}
                self._use(learner)

            def step(update: int) -> Callable[[], dict[str, float]]:
                batch = source.batch(update, config.batch_size, config.seed)
                self._set_learning_rate(update)
                return lambda: self._update(batch)

            networks, optimisers = _parts(self._learner)
            for optimiser in optimisers:
                learning.enter_context(learning_on(device, networks, optimiser))
            yield Course(step, config.updates, config.save_every)

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

    def _new_learner(self, source: Transitions, dataset: Dataset, device: torch.device) -> Any:
        """d3rlpy's learner with the weights of the checkpoint, or new ones, on the CPU.

        Args:
            source: what it learns from.
            dataset: of ``source``.
            device: to which it will take its batches.
        """
        # Our module first: it imports d3rlpy without what that prints.
        from pmoss_agents.spatial.d3rlpy_networks import (
            MaskedQFunctionFactory,
            TileEncoderFactory,
        )

        from d3rlpy.optimizers import AdamFactory  # isort: skip

        config = self.config
        seed_chance(config.seed, device)
        settings: dict[str, Any] = {
            "batch_size": config.batch_size,
            "learning_rate": config.learning_rate,
            "optim_factory": AdamFactory(clip_grad_norm=config.clip),
            "encoder_factory": TileEncoderFactory(config.channels, config.width, config.inputs),
            **{theirs: getattr(config, ours) for theirs, ours in self.SETTINGS.items()},
        }
        if isinstance(config, ValueConfig):
            settings |= {"gamma": config.gamma, "q_func_factory": MaskedQFunctionFactory()}
        module, _, name = self.LEARNER.partition(":")
        # d3rlpy numbers GPUs.
        where = "cuda:0" if device.type == "cuda" else "cpu"
        learner = getattr(import_module(module), name)(**settings).create(device=where)
        learner.create_impl(source.shapes, dataset.machine.tiles)
        networks, optimisers = _parts(learner)
        for optimiser in optimisers:
            take_to(torch.device("cpu"), networks, optimiser)
        if self._arrays:
            for name, part in vars(learner.impl.modules).items():
                if isinstance(part, nn.Module):
                    load_weights(part, self._arrays, f"{name}.")
                else:
                    load_moments(part.optim, self._arrays, f"{name}/")
            learner.set_grad_step(self.updates)
        return learner

    def _use(self, learner: Any) -> None:
        """Acts from now on with the learner's own networks."""
        self._learner = learner
        modules = learner.impl.modules
        self.networks = {name: _child(modules, where) for name, (where, _) in self.NETWORKS.items()}

    def _set_learning_rate(self, update: int) -> None:
        share = cosine(math.pi * update / self.config.updates)
        for optimiser in _parts(self._learner)[1]:
            for group in optimiser.param_groups:
                group["lr"] = self.config.learning_rate * share

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
        return self._arrays, {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            for name, (where, level) in self.NETWORKS.items():
                network = self.config.scores(self.task["shapes"], level=level)
                load_weights(network, arrays, f"{where}.")
                self.networks[name] = network
        self._arrays = dict(arrays)
        self.updates = int(values["updates"])


def _child(modules: Any, where: str) -> TileScores:
    """The network at a dotted place of d3rlpy's modules."""
    found: Any = modules
    for name in where.split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    assert isinstance(found, TileScores)
    return found


def _parts(learner: Any) -> tuple[nn.ModuleList, list[torch.optim.Optimizer]]:
    """All networks of a learner, targets included, and its optimisers."""
    parts = vars(learner.impl.modules).values()
    networks = nn.ModuleList(part for part in parts if isinstance(part, nn.Module))
    return networks, [part.optim for part in parts if not isinstance(part, nn.Module)]
