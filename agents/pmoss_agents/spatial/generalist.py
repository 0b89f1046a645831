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
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial import surrogate
from pmoss_agents.spatial.planning import (
    ELAPSED,
    MORE_GROUPS,
    QUERIES,
    ThroughputModel,
    Topology,
    at,
    layers,
    log,
)
from pmoss_agents.spatial.surrogate import Surrogate, models_of
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import set_rate
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_datasets.spatial.world_sets import WorldSet
from pmoss_datasets.spatial.worlds import INSTANCES, SCHEDULES, draw_world
from pmoss_env.errors import DatasetError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES, COUNTERS

#: Counters that only a processor's monitoring unit counts.
_HARDWARE = np.array([counter.source == "hardware" for counter in COUNTERS])
#: Seconds to wait for a world that another process is making.
_PATIENCE = 600.0
#: Worlds whose counters give the scales of the inputs.
_SCALED_BY = 32


@dataclass(frozen=True)
class Config(surrogate.Config):
    """Settings of the generalist, beside those of the surrogate."""

    agent: ClassVar[str] = "generalist"
    BOUNDS: ClassVar = {
        **surrogate.Config.BOUNDS,
        "missing": "[0, 1]",
        "growth": "(0, inf)",
        "held": "[1, 1000000]",
        "rounds_of_mixing": "[0, 8]",
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


class MixingModel(ThroughputModel):
    """A model of throughput whose features are mixed along the machine's tree."""

    def __init__(self, counters: int, *, rounds: int, width: int, features: int, **sizes: Any):
        """Makes a model.

        Args:
            counters: H, of each slice.
            rounds: of mixing.
            width: of the hidden layers.
            features: of a slice and of a core.
            **sizes: further arguments of ThroughputModel.
        """
        super().__init__(counters, width=width, features=features, **sizes)
        self.mix_cores = nn.ModuleList(layers(5 * features, width, features) for _ in range(rounds))
        self.mix_slices = nn.ModuleList(
            layers(3 * features, width, features) for _ in range(rounds)
        )
        for last in (part[-1] for part in (*self.mix_cores, *self.mix_slices)):
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def mix(
        self, topology: Any, slices: Tensor, cores: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See Reader.mix."""
        if not len(self.mix_cores):
            return slices, cores
        ran_on = F.one_hot(columns, topology.workers).to(slices.dtype).transpose(1, 2)
        count = ran_on.sum(2, keepdim=True)
        ran = (count > 0).to(slices.dtype)
        levels = [level.to(slices.dtype) for level in (topology.caches, topology.nodes)]
        shares = [level / (level @ ran).clamp(min=1.0) for level in levels]
        for of_core, of_slice in zip(self.mix_cores, self.mix_slices, strict=True):
            known = cores * ran
            whole = known.sum(1, keepdim=True) / ran.sum(1, keepdim=True).clamp(min=1.0)
            own = (ran_on @ slices) / count.clamp(min=1.0)
            around = [share @ known for share in shares]
            cores = cores + of_core(torch.cat([cores, own, *around, whole.expand_as(cores)], -1))
            mean = slices.mean(1, keepdim=True).expand_as(slices)
            slices = slices + of_slice(torch.cat([slices, at(cores, columns), mean], -1))
        return slices, cores


class Topologies:
    """Topologies of several machines, each filled up with workers that share nothing.

    Attributes:
        workers: W, of the largest.
        siblings, caches, nodes: (P, W, W), see Topology.
        sizes, capacity: (P, W, 2).
    """

    def __init__(self, places: list[tuple[Array, Array]], device: torch.device) -> None:
        """Takes ``_places_of()`` of machines."""
        self.workers = max(groups.shape[1] for groups, _ in places)
        alike = []
        sizes = torch.zeros(len(places), self.workers, 4)
        for row, (groups, numbers) in enumerate(places):
            short = self.workers - groups.shape[1]
            filled = np.pad(groups, ((0, 0), (0, short)), constant_values=-1)
            same = (filled[:, :, None] == filled[:, None]) & (filled >= 0)[:, :, None]
            alike.append(torch.from_numpy(same))
            sizes[row, : len(numbers)] = torch.from_numpy(numbers)
        shared = torch.stack(alike).float().to(device)
        self.siblings, self.caches, self.nodes = shared.unbind(1)
        self.sizes, self.capacity = sizes[..., :2].to(device), sizes[..., 2:].to(device)

    def repeated(self, times: int) -> Topologies:
        """The same with each machine so many times in a row."""
        other = object.__new__(Topologies)
        other.workers = self.workers
        for name in ("siblings", "caches", "nodes", "sizes", "capacity"):
            setattr(other, name, getattr(self, name).repeat_interleave(times, 0))
        return other


class Lesson(NamedTuple):
    """Schedules that ran in B instances, and n others of each.

    Attributes:
        topologies: of the B machines.
        before: (B, S, H) counters of the schedule that is read, million per second.
        incumbent: (B, S) the worker of each slice in it.
        columns: (B, n, S) the workers in the others.
        after: (B, n, S, 2) elapsed microseconds and queries in the others.
        throughput: (B, n) of the others, Mq/s.
    """

    topologies: Topologies
    before: Tensor
    incumbent: Tensor
    columns: Tensor
    after: Tensor
    throughput: Tensor


class Lessons:
    """Draws lessons from a set of worlds."""

    def __init__(self, worlds: WorldSet, missing: float, device: torch.device) -> None:
        self._worlds, self._missing, self._device = worlds, missing, device
        self._places: dict[int, tuple[Array, Array]] = {}
        self._slices: dict[int, int] = {}

    def draw(self, rng: np.random.Generator, worlds: range, size: int) -> Lesson:
        """Draws a lesson of worlds that have the same number of slices.

        Args:
            rng: source of randomness.
            worlds: numbers of those that may be drawn.
            size: B.
        """
        numbers = [int(rng.integers(worlds.start, worlds.stop))]
        slices = self._slices_of(numbers[0])
        while len(numbers) < size:
            number = int(rng.integers(worlds.start, worlds.stop))
            if self._slices_of(number) == slices:
                numbers.append(number)
        before, incumbent, columns, after, throughput = [], [], [], [], []
        for number in numbers:
            record = self._worlds[number]
            instance, first = int(rng.integers(INSTANCES)), int(rng.integers(SCHEDULES))
            others = [i for i in range(SCHEDULES) if i != first]
            counters = record["counters"][instance, :, :slices]
            workers = record["columns"][instance, :, :slices].astype(np.int64)
            before.append(np.where(self._missed(rng), 0.0, counters[first]))
            incumbent.append(workers[first])
            columns.append(workers[others])
            after.append(counters[others][..., [ELAPSED, QUERIES]])
            throughput.append(record["throughput"][instance, others])
        stacked = (before, incumbent, columns, after, throughput)
        tensors = [torch.from_numpy(np.stack(part)) for part in stacked]
        tensors[0] = tensors[0].float()
        return Lesson(
            Topologies([self._places_of(number) for number in numbers], self._device),
            *(part.to(self._device) for part in tensors),
        )

    def samples(self, count: int) -> Tensor:
        """(n, H) counters of slices in the first worlds."""
        records = [self._worlds[number] for number in range(count)]
        parts = [record["counters"][:, 0, : int(record["slices"])] for record in records]
        rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
        return torch.from_numpy(rows)

    def _missed(self, rng: np.random.Generator) -> Array:
        """(H,) whether a counter is missing: none, all of the hardware's, or some of these."""
        if rng.random() >= self._missing:
            return np.zeros(_HARDWARE.size, dtype=np.bool_)
        share = 1.0 if rng.random() < 0.5 else rng.random()
        chosen: Array = _HARDWARE & (rng.random(_HARDWARE.size) < share)
        return chosen

    def _slices_of(self, number: int) -> int:
        if number not in self._slices:
            self._slices[number] = int(self._worlds[number]["slices"])
        return self._slices[number]

    def _places_of(self, number: int) -> tuple[Array, Array]:
        if number not in self._places:
            world = draw_world(self._worlds.recipe.split, number)
            self._places[number] = _places_of(world.machine)
        return self._places[number]


def _places_of(machine: str) -> tuple[Array, Array]:
    """(3, W) numbers of each worker's core, cache and node, and (W, 4) its sizes and capacity."""
    topology = Topology(load := load_machine(machine))
    core = load.physical_of_core[load.workers]
    groups = np.stack([core, topology.cache.numpy(), topology.node.numpy()]).astype(np.int32)
    return groups, torch.cat([topology.sizes, topology.capacity], 1).numpy()


def loss_of(model: ThroughputModel, lesson: Lesson) -> tuple[Tensor, Tensor]:
    """The surrogate's loss of a model on a lesson, and how far its throughputs are off.

    Returns:
        () the loss, and () the mean error of the logarithm of throughput.
    """
    batch, others, slices = lesson.columns.shape
    reading = model.read(lesson.topologies, lesson.before, lesson.incumbent)
    for_others = type(reading)(
        *(part.repeat_interleave(others, 0) for part in vars(reading).values())
    )
    columns = lesson.columns.reshape(batch * others, slices)
    times, total = model(lesson.topologies.repeated(others), for_others, columns)
    elapsed, queries = lesson.after.reshape(batch * others, slices, 2).unbind(-1)
    truth = log(elapsed) - log(queries)
    weight = elapsed / elapsed.mean(1, keepdim=True).clamp(min=1e-9) * (queries > 0)
    of_times = (weight * F.smooth_l1_loss(times, truth, beta=0.05, reduction="none")).mean()
    served = lesson.throughput.reshape(-1).clamp(min=1e-9).log()
    of_total = F.smooth_l1_loss(total, served, beta=0.05)
    return of_times + 0.3 * of_total, (total - served).abs().mean()


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
                yield course
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
            step = partial(self._world_step, lessons, dataset)
            judge = partial(self._judge, Lessons(dataset, 0.0, device))
            yield Course(step, config.updates, config.save_every, judge)

    def _world_step(
        self, lessons: Lessons, worlds: WorldSet, update: int
    ) -> Callable[[], dict[str, float]]:
        """One gradient step of every member, each on a lesson of its own."""
        config, optimiser = self.config, self.optimiser
        available = min(len(worlds), int(config.held + _SCALED_BY + config.growth * (update + 1)))
        _wait_for(worlds, available)
        warm = min(1.0, (update + 1) / 50)
        set_rate(optimiser, config.learning_rate * warm * cosine(math.pi * update / config.updates))
        optimiser.zero_grad(set_to_none=True)
        loss, error = 0.0, 0.0
        for number, member in enumerate(models_of(self.network)):
            rng = np.random.default_rng([config.seed, number, update])
            lesson = lessons.draw(rng, range(config.held, available), config.batch_size)
            with _precision(config.precision, lesson.before.device):
                of_member, off = loss_of(member, lesson)
            of_member.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(member.parameters(), 1.0)
            loss += float(of_member.detach()) / config.members
            error += float(off.detach()) / config.members
        check_loss(self.name, update, loss)

        def change() -> dict[str, float]:
            optimiser.step()
            return {"loss": loss, "error": error}

        return change

    def _judge(self, lessons: Lessons, _: Any) -> dict[str, float]:
        """Loss and error in the worlds that it does not learn from, with all counters."""
        rng, config = np.random.default_rng(0), self.config
        with torch.inference_mode():
            drawn = [lessons.draw(rng, range(config.held), 8) for _ in range(8)]
            members = models_of(self.network)
            parts = [loss_of(member, lesson) for lesson in drawn for member in members]
        losses, errors = zip(*parts, strict=True)
        return {
            "held_loss": float(torch.stack(losses).mean()),
            "held_error": float(torch.stack(errors).mean()),
        }

    def new_network(self) -> nn.ModuleList:
        """See NetworkAgent.new_network."""
        config = self.config
        return nn.ModuleList(
            MixingModel(
                len(self.task["counters"]),
                rounds=config.rounds_of_mixing,
                width=config.width,
                features=config.features,
                demands=config.demands,
                inputs=config.inputs,
            )
            for _ in range(config.members)
        )


def _precision(name: str, device: torch.device) -> Any:
    return torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16")


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
