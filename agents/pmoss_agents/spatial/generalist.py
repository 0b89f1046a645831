"""Generalist: one model of throughput, learned from made-up worlds, for servers that it never met.

It is the surrogate's model of throughput and its planner, see ``surrogate``. Three things differ:

- It learns from a set of made-up worlds (``pmoss_datasets.spatial.world_sets``), each of another
  server, workload and load. Each batch reads schedules of several worlds, and predicts all other
  schedules that ran in the same instances.
- What it read of a core is mixed along the machine's tree: with the other cores of the cache, of
  the node and of the machine, and with the slices that ran on it. So it can tell a slow core from a
  slow node.
- In some of the schedules that it reads counters are missing: those of a processor's monitoring
  unit, all or some, as in virtual machines and on other vendors' processors.

It reads the counters of one schedule and the topology, both of which a running server tells. It may
go on learning from logged episodes of one server, as the surrogate does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial import surrogate
from pmoss_agents.spatial.lessons import Choice, Lesson, Lessons
from pmoss_agents.spatial.planning.mixing import MixingModel
from pmoss_agents.spatial.planning.model import MORE_GROUPS, log
from pmoss_agents.spatial.surrogate import Surrogate, models_of
from pmoss_agents.trainer import Course, check_loss
from pmoss_agents.weights import set_rate
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_datasets.spatial.world_sets import WorldSet
from pmoss_env.errors import DatasetError
from pmoss_env.types import COUNTER_NAMES

#: Seconds to wait for a world that another process is making.
_PATIENCE = 600.0
#: Worlds whose counters give the scales of the inputs.
_SCALED_BY = 32
#: Updates in which the learning rate rises; lessons that it is judged on, and worlds of each.
_WARM, _JUDGED = 50, 8


@dataclass(frozen=True)
class Config(surrogate.Config):
    """Settings of the generalist, beside those of the surrogate."""

    agent: ClassVar[str] = "generalist"
    BOUNDS: ClassVar = {
        "missing": "[0, 1]",
        "growth": "(0, inf)",
        "held": "[1, 1000000]",
        "rounds_of_mixing": "[0, 8]",
        "time_width": "[0, 4096]",
        "context": "[0, 4096]",
        "seconds": "[0, inf)",
    }

    members: int = 2
    updates: int = 10_000
    batch_size: int = 8  # schedules that it reads in an update; of each it predicts all others
    learning_rate: float = 1e-3
    width: int = 192
    features: int = 64
    demands: int = 32
    inputs: tuple[str, ...] = MORE_GROUPS
    tries: int = 400
    rounds_of_mixing: int = 1
    missing: float = 0.3  # share of the schedules read in which counters are missing
    held: int = 64  # worlds at the beginning that it is judged on and never learns from
    growth: float = 10.0  # worlds that become available with each update, so that more can be made
    # Of products while it learns: "bfloat16" is several times faster where a processor has units
    # for it, and slower elsewhere.
    precision: Literal["float32", "bfloat16"] = "float32"
    # Of the layers that predict a time, which planning mostly consists of; 0: width.
    time_width: int = 0
    # Features that each core tells the others under the schedule that is asked about.
    context: int = 0
    # Of a training, after which it stops; the learning rate falls with whatever is nearer to its
    # end. 0: any time. Two such trainings make different weights.
    seconds: float = 0.0
    # On a GPU: an update is recorded once for each shape of lesson, and then replayed.
    graphs: bool = True


def loss_of(model: MixingModel, lesson: Lesson) -> tuple[Tensor, Tensor]:
    """The loss of a model on a lesson, and how far its throughputs are off.

    It is that of the surrogate, and the errors of how busy each core is, the fullest first.

    Returns:
        () the loss, and () the mean error of the logarithm of throughput.
    """
    reading = model.read(lesson.topologies, lesson.before, lesson.incumbent)
    times, busy, total = model.predict(lesson.topologies, reading, lesson.columns)
    elapsed, queries = lesson.after.unbind(-1)
    truth = log(elapsed) - log(queries)
    weight = elapsed / elapsed.mean(-1, keepdim=True).clamp(min=1e-9) * (queries > 0)
    of_times = (weight * _huber(times, truth)).mean()
    # The fullest cores decide: an error that the slices of a core share counts more than others.
    true_busy = torch.zeros_like(busy).scatter_add(2, lesson.columns, elapsed)
    true_busy = true_busy / queries.sum(-1, keepdim=True).clamp(min=1e-9)
    weight = (true_busy / true_busy.sum(-1, keepdim=True).clamp(min=1e-9)) ** 2
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1e-9)
    of_cores = (weight * _huber(log(busy), log(true_busy))).sum(-1).mean()
    served = lesson.throughput.clamp(min=1e-9).log()
    loss = of_times + 0.5 * of_cores + 0.3 * _huber(total, served).mean()
    return loss, (total - served).abs().mean()


def _huber(predicted: Tensor, truth: Tensor) -> Tensor:
    return F.smooth_l1_loss(predicted, truth, beta=0.05, reduction="none")


class Generalist(Surrogate):
    """The agent; see the module's docstring."""

    name = "generalist"
    Config = Config

    def task_of(self, dataset: Dataset | Several | WorldSet) -> dict[str, Any]:
        """See Surrogate.task_of."""
        if isinstance(dataset, WorldSet):
            return {"counters": list(COUNTER_NAMES)}
        return super().task_of(dataset)

    @contextmanager
    def _course(self, dataset: Dataset | Several | WorldSet) -> Iterator[Course]:
        """Updates of all members; metrics are ``loss`` and ``error`` of log throughput.

        Now and then also ``held_error``, in worlds that it does not learn from.
        """
        if not isinstance(dataset, WorldSet):
            with super()._course(dataset) as course:
                clock = Clock(self.config.updates, self.config.seconds)
                yield replace(course, is_over=clock.is_over)
            return
        config = self.config
        if len(dataset) <= config.held:
            raise DatasetError(
                f"{dataset.path}: {len(dataset)} worlds: must be more than held = {config.held}"
            )
        first = min(len(dataset), config.held + _SCALED_BY)
        _wait_for(dataset, first)

        def set_up(members: nn.ModuleList) -> None:
            samples = Lessons(dataset, 0.0, torch.device("cpu")).samples(first)
            for member in models_of(members):
                member.set_up(samples)

        with self.learning(self.task_of(dataset), set_up) as device:
            lessons = Lessons(dataset, config.missing, device)
            learners = [
                _Learner(cast(MixingModel, member), lessons, config, number)
                for number, member in enumerate(models_of(self.network))
            ]
            clock = Clock(config.updates, config.seconds)
            step = partial(self._world_step, learners, dataset, clock)
            judge = partial(self._judge, Lessons(dataset, 0.0, device, held=False))
            yield Course(step, config.updates, config.save_every, judge, is_over=clock.is_over)

    def _world_step(
        self, learners: list[_Learner], worlds: WorldSet, clock: Clock, update: int
    ) -> Callable[[], dict[str, float]]:
        """One gradient step of every member, each on a lesson of its own."""
        config = self.config
        available = self._available(worlds, update)
        _wait_for(worlds, available)
        warm = min(1.0, (update + 1) / _WARM)
        set_rate(self.optimiser, config.learning_rate * warm * _falling(clock.share(update)))
        parts = [learner(update, available) for learner in learners]
        if available == len(worlds):
            for learner in learners:  # a GPU computes meanwhile
                learner.choose(update + 1, available)
        loss, error = torch.stack([torch.stack(part) for part in parts]).mean(0).tolist()
        check_loss(self.name, update, loss)
        return self.stepping(loss=loss, error=error)

    def _available(self, worlds: WorldSet, update: int) -> int:
        """How many worlds, from the first on, an update may use."""
        config = self.config
        return min(len(worlds), int(config.held + _SCALED_BY + config.growth * (update + 1)))

    def _judge(self, lessons: Lessons, _: Any) -> dict[str, float]:
        """Loss and error in the worlds that it does not learn from, with all counters."""
        rng, config = np.random.default_rng(0), self.config
        count = max(_JUDGED, config.held // _JUDGED)
        with torch.inference_mode():
            drawn = (lessons.draw(rng, range(config.held), _JUDGED) for _ in range(count))
            members = [cast(MixingModel, member) for member in models_of(self.network)]
            parts = [loss_of(member, lesson) for lesson in drawn for member in members]
        losses, errors = zip(*parts, strict=True)
        return {
            "held_loss": float(torch.stack(losses).mean()),
            "held_error": float(torch.stack(errors).mean()),
        }

    def new_optimiser(self, network: nn.Module) -> torch.optim.AdamW:
        """See NetworkAgent.new_optimiser."""
        config = self.config
        return torch.optim.AdamW(
            network.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=config.device != "cpu" and torch.cuda.is_available(),
        )

    def new_network(self) -> nn.ModuleList:
        """See NetworkAgent.new_network."""
        config = self.config
        return nn.ModuleList(
            MixingModel(
                len(self.task["counters"]),
                rounds=config.rounds_of_mixing,
                width=config.width,
                features=config.features,
                context=config.context,
                demands=config.demands,
                inputs=config.inputs,
                time_width=config.time_width or None,
            )
            for _ in range(config.members)
        )


class _Learner:
    """Makes the gradients of a member; on a GPU by a graph of each shape of lessons."""

    def __init__(self, member: MixingModel, lessons: Lessons, config: Config, number: int) -> None:
        self._member, self._lessons = member, lessons
        self._config, self._number = config, number
        self._graphs: dict[tuple[int, int], _Graph] = {}
        self._weights = list(member.parameters())
        self._pool: Any = None
        self._chosen: tuple[int, tuple[int, int], Choice] | None = None

    def choose(self, update: int, available: int) -> None:
        """Chooses the lesson of an update from the first worlds, so many."""
        config = self._config
        rng = np.random.default_rng([config.seed, self._number, update])
        worlds = range(config.held, available)
        self._chosen = update, *self._lessons.choose(rng, worlds, config.batch_size)

    def __call__(self, update: int, available: int) -> tuple[Tensor, Tensor]:
        """Sets the gradients of an update's lesson; returns () loss and () error."""
        if self._chosen is None or self._chosen[0] != update:
            self.choose(update, available)
        assert self._chosen is not None
        _, shape, choice = self._chosen
        device = self._weights[0].device
        if device.type == "cpu" or not self._config.graphs:
            return self._backward(shape, choice)
        given = Choice(*(torch.from_numpy(part).pin_memory() for part in choice))
        if shape not in self._graphs:
            self._graphs[shape] = self._recorded(shape, given, device)
        graph = self._graphs[shape]
        for place, part in zip(graph.choice, given, strict=True):
            place.copy_(part, non_blocking=True)
        graph.graph.replay()
        for weight, gradient in zip(self._weights, graph.gradients, strict=True):
            weight.grad = gradient
        return graph.loss, graph.error

    def _backward(self, shape: tuple[int, int], choice: Choice) -> tuple[Tensor, Tensor]:
        for weight in self._weights:
            weight.grad = None
        lesson = self._lessons.gather(shape, choice)
        # Copies of weights in bfloat16 that are kept from one update are of no use in a graph.
        with torch.autocast(
            lesson.before.device.type,
            torch.bfloat16,
            enabled=self._config.precision == "bfloat16",
            cache_enabled=False,
        ):
            loss, error = loss_of(self._member, lesson)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._weights, 1.0)
        return loss.detach(), error.detach()

    def _recorded(self, shape: tuple[int, int], choice: Choice, device: torch.device) -> _Graph:
        """The graph of an update, which begins with two that are made and not used."""
        places = Choice(*(part.to(device) for part in choice))
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._backward(shape, places)
        torch.cuda.current_stream().wait_stream(stream)
        for weight in self._weights:
            weight.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            loss, error = self._backward(shape, places)
        self._pool = graph.pool()
        return _Graph(graph, places, [weight.grad for weight in self._weights], loss, error)


class _Graph(NamedTuple):
    """A recorded update: where its choice is written, and where its results stand."""

    graph: torch.cuda.CUDAGraph
    choice: Choice
    gradients: list[Tensor | None]
    loss: Tensor
    error: Tensor


class Clock:
    """How far a training is, by its updates and by the time that it may take."""

    def __init__(self, updates: int, seconds: float) -> None:
        self._updates, self._seconds, self._began = updates, seconds, time.monotonic()

    def share(self, update: int) -> float:
        """From 0 to 1."""
        passed = (time.monotonic() - self._began) / self._seconds if self._seconds else 0.0
        return min(1.0, max(update / self._updates, passed))

    def is_over(self) -> bool:
        """Whether the time has passed."""
        return 0 < self._seconds < time.monotonic() - self._began


def _falling(share: float) -> float:
    """A share of the learning rate: falls as a cosine from 1 to a hundredth."""
    return 0.01 + 0.495 * (1 + math.cos(math.pi * share))


def _wait_for(worlds: WorldSet, count: int) -> None:
    """Waits until the first worlds, so many, are made by another process.

    Raises:
        DatasetError: no world was added for _PATIENCE seconds.
    """
    began = time.monotonic()
    while not worlds.made(count):
        if time.monotonic() - began > _PATIENCE:
            raise DatasetError(
                f"{worlds.path}: world {count - 1} is missing: pmoss data worlds {worlds.path} "
                "goes on making it"
            )
        time.sleep(0.2)
