"""Surrogate: a model of throughput learned from logged counters, and a planner inside it.

Every dataset logs the counters of all slices under two schedules, before an episode and after it.
The model learns from both directions what a query of each slice takes on each core. Its inputs are
the counters of the slice, and those of the cores, caches and nodes under the incumbent: as counts,
and as what one event costs. It also learns which other slices would share core, cache and node. It
shares its weights over slices and cores, so their number and order do not matter: one network
serves any machine. See ``planning.model``.

The planner uses no more than these times, see ``planning.planner``. An ensemble guards it against
errors of one model: it counts on times that are longer where the members differ. Where an episode
may be measured, each measured plan corrects the times for the next one.

Learned models of the environment with pessimism where an ensemble disagrees: Yu et al., MOPO:
Model-based Offline Policy Optimization, NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.encoders import check_groups
from pmoss_agents.spatial.episodes import parts_of
from pmoss_agents.spatial.planning.agent import PlanningAgent, Trials
from pmoss_agents.spatial.planning.model import (
    ELAPSED,
    GROUPS,
    MORE_GROUPS,
    QUERIES,
    ThroughputModel,
    log,
)
from pmoss_agents.spatial.planning.pairs import PairBatch, Pairs
from pmoss_agents.spatial.planning.planner import Planner
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import set_rate
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_env.errors import CheckpointError, DatasetError


@dataclass(frozen=True)
class Config(Settings):
    """How the model is made, trained and planned in."""

    agent: ClassVar[str] = "surrogate"
    BOUNDS: ClassVar = {
        "learning_rate": "[0, inf)",
        "weight_decay": "[0, inf)",
        "tries": "[0, 1000000]",
        "looks": "[0, 1000000]",
    }

    members: int = 3  # of the ensemble
    updates: int = 1000  # gradient steps of every member
    batch_size: int = 12  # schedules before and after, per member and update
    learning_rate: float = 2e-3  # at its highest
    weight_decay: float = 1e-3  # of AdamW
    width: int = 96  # of the hidden layers
    features: int = 48  # of a slice and of a core
    demands: int = 24  # of a slice on the core, cache, node and machine that it shares with others
    # Some of planning.MORE_GROUPS: what it reads, and whether it begins with the times that were
    # measured.
    inputs: tuple[str, ...] = GROUPS
    pessimism: float = 1.0  # standard deviations of the members that the planner adds to each time
    rounds: int = 6  # of asking the model and balancing
    save_every: int = 200  # updates between checkpoints
    threads: int = 1  # of torch
    device: str = "cpu"  # where it learns, one of configs.DEVICES; it plans on the CPU
    seed: int = 0  # of weights and batches
    # Random exchanges after each balancing of the first plan, see balancing.refine(). With any, a
    # plan for cores that are all alike is weighed, too. A million takes minutes.
    tries: int = 0
    # Rounds in which the model weighs changes of the whole first plan: where hot slices fill cores,
    # these find what no balancing finds. Eight take a second.
    looks: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        groups = check_groups(self.inputs, f"{self.agent}: inputs", MORE_GROUPS)
        object.__setattr__(self, "inputs", groups)


def loss_of(model: ThroughputModel, topology: Topology, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """The loss of a member on a batch, and how far its throughputs are off.

    The error of a slice's time counts as much as the time that the slice takes. Both errors are of
    logarithms, by Huber's loss: a schedule that is rarely so slow shall not decide.

    Returns:
        () the loss, and () the mean error of the logarithm of throughput.
    """
    reading = model.read(topology, batch.before, batch.incumbent)
    times, total = model(topology, reading, batch.columns)
    elapsed = batch.after[..., ELAPSED]
    truth = log(elapsed) - log(batch.after[..., QUERIES])
    weight = elapsed / elapsed.mean(1, keepdim=True).clamp(min=1e-9)
    of_times = (weight * F.smooth_l1_loss(times, truth, beta=0.05, reduction="none")).mean()
    served = batch.throughput.clamp(min=1e-9).log()
    of_total = F.smooth_l1_loss(total, served, beta=0.05)
    return of_times + 0.3 * of_total, (total - served).abs().mean()


class Surrogate(PlanningAgent):
    """The agent; see the module's docstring.

    It also learns from several datasets, of whatever machines: each batch is of one of them, drawn.
    """

    name = "surrogate"
    several = True
    Config = Config
    NETWORK = "members/"
    network: nn.ModuleList | None

    # ---- learning

    def task_of(self, dataset: Dataset | Several) -> dict[str, Any]:
        """See PlanningAgent.task_of; DatasetError if datasets hold different counters."""
        first, *others = datasets = parts_of(dataset)
        task, *tasks = [super(Surrogate, self).task_of(part) for part in datasets]
        for other, of_other in zip(others, tasks, strict=True):
            if of_other != task:
                raise DatasetError(f"{other.path}: holds other counters than {first.path}")
        return task

    @contextmanager
    def _course(self, dataset: Dataset | Several) -> Iterator[Course]:
        """Updates of all members; metrics are ``loss`` and ``error`` of log throughput."""
        config = self.config
        task = self.task_of(dataset)
        lessons = [Pairs(part) for part in parts_of(dataset)]

        def set_up(members: nn.ModuleList) -> None:
            samples = torch.cat([pairs.samples() for pairs in lessons])
            for member in models_of(members):
                member.set_up(samples)

        with self.learning(task, set_up) as device:
            for pairs in lessons:
                pairs.topology = pairs.topology.to(device)
            step = partial(self._step, lessons)
            yield Course(step, config.updates, config.save_every)

    def _step(self, lessons: Sequence[Pairs], update: int) -> Callable[[], dict[str, float]]:
        """One gradient step of every member, each on a batch of its own."""
        config, optimiser = self.config, self.optimiser
        warm = min(1.0, (update + 1) / 50)
        rate = config.learning_rate * warm * cosine(math.pi * update / config.updates)
        set_rate(optimiser, rate)
        optimiser.zero_grad(set_to_none=True)
        loss, error = 0.0, 0.0
        for number, member in enumerate(models_of(self.network)):
            rng = np.random.default_rng([config.seed, number, update])
            pairs = lessons[0 if len(lessons) == 1 else int(rng.integers(len(lessons)))]
            batch = pairs.batch(rng, config.batch_size)
            moved = PairBatch(*(part.to(pairs.topology.cache.device) for part in batch))
            of_member, off = loss_of(member, pairs.topology, moved)
            of_member.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(member.parameters(), 1.0)
            loss += float(of_member.detach()) / config.members
            error += float(off.detach()) / config.members
        check_loss(self.name, update, loss)
        return self.stepping(loss=loss, error=error)

    def new_network(self) -> nn.ModuleList:
        """See NetworkAgent.new_network."""
        config = self.config
        sizes = {"width": config.width, "features": config.features, "demands": config.demands}
        counters = len(self.task["counters"])
        return nn.ModuleList(
            ThroughputModel(counters, **sizes, inputs=config.inputs) for _ in range(config.members)
        )

    # ---- acting

    def planner(self, counters: Array, columns: Array, max_per_core: int | None = None) -> Planner:
        """A planner on the machine at hand.

        Args:
            counters: (slices, H) under the incumbent, million per second; NaN counts as 0.
            columns: (slices,) the worker of each slice in the incumbent.
            max_per_core: slices that a core may get; None: any number.

        Raises:
            CheckpointError: nothing was learned yet, or no machine is at hand.
        """
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        config = self.config
        planner = Planner(
            models_of(self.network),
            self.topology,
            pessimism=config.pessimism,
            rounds=config.rounds,
            max_per_core=max_per_core,
            tries=config.tries,
            looks=config.looks,
        )
        planner.observe(counters, columns)
        return planner

    def schedule(
        self, counters: Array, columns: Array, max_per_core: int | None, trials: Trials | None
    ) -> Array:
        """See PlanningAgent.schedule."""
        planner = self.planner(counters, columns, max_per_core)
        return planner.plan() if trials is None else planner.plan_measuring(*trials)

    # ---- keeping

    @classmethod
    def from_checkpoint(cls, path: Path, header: Mapping[str, Any], arrays: Any) -> Self:
        """See Agent.from_checkpoint. Earlier models had no costs, and say nothing of inputs."""
        config = header.get("config")
        if isinstance(config, Mapping):
            header = {**header, "config": {"inputs": list(SUMS), **config}}
        return super().from_checkpoint(path, header, arrays)


def models_of(members: nn.ModuleList | None) -> list[ThroughputModel]:
    """The members of an ensemble, none before the first fit()."""
    return cast(list[ThroughputModel], list(members or ()))
