"""Pace: learns from logged counters how fast each core will be, and balances for that.

A core's speed is the share of its time that it had for queries: processor time over elapsed time.
The agent follows each core's speed through phases, and keeps how long they lasted and what was
before. A ridge regression predicts the change to the next epoch. All cores share it. Where nothing
is learned yet, a core stays as fast as in the mean of its phase.

A slow core gets less than its speed suggests. How much less it learns from trials: see Caution.

It needs no model of the machine, so it can learn and play on any host that counts both times. Where
co-tenants take memory or links instead of time, it does not learn that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.configs import Settings
from pmoss_agents.continual.base import RoundAgent
from pmoss_agents.ridge import RidgeArms
from pmoss_agents.trainer import Course
from pmoss_datasets import Dataset
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.rounds import Move
from pmoss_datasets.continual.rules import Repair
from pmoss_datasets.fairness import reads_environment
from pmoss_env.errors import DatasetError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES, Float64Array, Int32Array

#: A speed that differs by so much from the mean of its phase begins another one.
_OTHER = 0.15
#: A worker is full if it is idle for less than the rest of its time.
_FULL = 0.85
#: Estimates of speeds are dropped once throughput falls so much, or a core is so much slower.
_LESS, _SLOWER = 0.12, 0.25
#: No core is taken for slower.
_SLOWEST = 0.05
_FEATURES = 4
#: Between these the power of Caution lies; smaller steps than this are lost in noise.
_MIN_POWER, _MAX_POWER, _MIN_STEP = 0.5, 3.0, 0.1


@dataclass(frozen=True)
class Config(Settings):
    """Settings of Pace."""

    agent: ClassVar[str] = "pace"
    BOUNDS: ClassVar = {
        "ridge": "(0, inf)",
        "act": "[0, inf)",
        "caution": f"[{_MIN_POWER:g}, {_MAX_POWER:g}]",
        "step": "[0, 1]",
    }

    ridge: float = 0.1  # added to the diagonal of the regression
    act: float = 0.05  # imbalance from which it acts, as a share of what balanced cores would need
    caution: float = 1.5  # how much less a slow core gets than its speed suggests; see Caution
    step: float = 0.5  # by how much another caution differs that trials decide on; 0: none is tried


def speeds_of(machine: Machine, counters: Array, tiles: Array) -> Float64Array:
    """(workers,) float64, the speed of each worker core; 1 where nothing was counted.

    Args:
        counters: (slices, H) of an epoch, as observed.
        tiles: (slices,) of the schedule that served in it.
    """
    cores = machine.core_of_tile[tiles]
    busy, elapsed = (
        np.bincount(cores, counters[:, COUNTER_INDEX[name]].astype(np.float64), machine.cores)
        for name in ("task_clock_us", "elapsed_us")
    )
    speed = np.divide(busy, elapsed, out=np.ones_like(busy), where=(busy > 0) & (elapsed > 0))
    return np.clip(speed[machine.workers], _SLOWEST, 1.0)


class Phases:
    """The phases of some cores' speeds."""

    def __init__(self, cores: int) -> None:
        self._level, self._before = np.ones(cores), np.ones(cores)
        self._age, self._length = np.zeros(cores), np.zeros(cores)
        self._whole = np.zeros(cores, dtype=np.bool_)

    def add(self, speeds: Float64Array, epochs: int = 1) -> Float64Array:
        """Takes the speeds of the latest epoch, and gives (cores, 4) features of the next one.

        Args:
            speeds: (cores,).
            epochs: how many have passed since the last call.
        """
        begins = (np.abs(speeds - self._level) > _OTHER) & (self._age > 0)
        self._before = np.where(begins, self._level, self._before)
        # How long the first phase had lasted is unknown.
        self._length = np.where(begins, np.where(self._whole, self._age, 0.0), self._length)
        self._whole |= begins
        self._age = np.where(begins, 0.0, self._age) + epochs
        weight = 1.0 / np.minimum(self._age, 8.0)
        self._level = np.where(begins, speeds, self._level + weight * (speeds - self._level))
        due = (self._length > 0) & (self._age >= self._length)
        back = self._before - speeds
        return np.stack(
            [self._level - speeds, back * (self._length > 0), back * due, 1.0 - speeds], axis=1
        )


def histories(dataset: Dataset) -> list[Float64Array]:
    """(epochs, workers) speeds of each episode.

    Raises:
        DatasetError: another domain, or both times were not counted.
    """
    if dataset.domain.name != CONTINUAL.name:
        raise DatasetError(
            f"{dataset.path}: holds episodes of {dataset.domain.name!r}, not of {CONTINUAL.name!r}"
        )
    machine, episodes = dataset.machine, []
    counters = dataset.column("observations/slice_counters")
    tiles = dataset.column("observations/slice_tiles")
    begins = dataset.column("observations/moves_left")[..., 0] == 1.0
    if not counters[..., COUNTER_INDEX["elapsed_us"]].any():
        raise DatasetError(
            f"{dataset.path}: elapsed_us was not counted: cores have no measured speed"
        )
    for number, steps in enumerate(dataset.lengths):
        rows = np.flatnonzero(begins[number, : steps + 1])
        speeds = [speeds_of(machine, counters[number, row], tiles[number, row]) for row in rows]
        episodes.append(np.stack(speeds))
    return episodes


class SpeedEstimate:
    """Estimates the speeds of cores whose workers may be idle at times.

    A worker that is idle at times gets its core whenever it needs it. So it looks as fast as on a
    core without co-tenants until it gets more work. Its estimate is at most its speed when full.

    Speeds when full are dropped once throughput falls: then something else has changed. A co-tenant
    that moves between cores may leave throughput as it was. So they are also dropped once a full
    core is slower than it was under the same schedule.
    """

    def __init__(self) -> None:
        self._when_full: Float64Array | None = None
        self._fastest: Float64Array = np.empty(0)
        self._rate = 0.0

    def add(
        self, speeds: Float64Array, full: Float64Array, rate: float, moved: bool = False
    ) -> Float64Array:
        """(workers,) estimated speeds.

        Args:
            speeds: (workers,) as counted in the latest epoch.
            full: (workers,) share of each worker's time in which it was not idle.
            rate: throughput of that epoch, Mq/s.
            moved: whether another schedule served in it than at the last call.
        """
        busy = full >= _FULL
        first = self._when_full is None
        self._fastest = speeds if moved or first else np.fmax(self._fastest, speeds)
        slower = busy & (speeds < self._fastest - _SLOWER)
        if self._when_full is None or rate < (1.0 - _LESS) * self._rate or slower.any():
            self._when_full = np.full(speeds.size, np.nan)
            self._fastest = speeds
        self._rate = rate
        self._when_full = np.where(busy, speeds, self._when_full)
        estimate: Float64Array = np.fmin(speeds, self._when_full)
        return estimate


class Caution:
    """How much less a slow core gets than its speed suggests: a search that trials decide.

    In a closed load the queries that wait for a slow core are missing at the others.

    Attributes:
        power: a core of speed s is planned for as one of s ** power.
        step: by how much the next try differs; 0: nothing more is tried.
    """

    def __init__(self, power: float, step: float) -> None:
        self.power, self.step = power, step

    @property
    def next_power(self) -> float:
        """What would be tried next."""
        return min(max(self.power + self.step, _MIN_POWER), _MAX_POWER)

    def tried(self, power: float, kept: bool) -> None:
        """Takes what came of a try: the search goes on there, or turns back in smaller steps."""
        if kept:
            self.power = power
            return
        self.step *= -0.5
        if abs(self.step) < _MIN_STEP:
            self.step = 0.0


class _Planner(Repair):
    """Balances for the speeds that are predicted."""

    def __init__(self, agent: Pace) -> None:
        super().__init__(act=agent.config.act, memory=1.0)
        self._agent = agent

    def start(self) -> None:
        """See RoundPolicy."""
        super().start()
        self._caution = Caution(self._agent.config.caution, self._agent.config.step)
        self.power = self._caution.power
        self._phases = Phases(self.env.machine.workers.size)
        self._estimate = SpeedEstimate()
        self._cores = self.env.session.cores_seen.copy()
        self._epoch = self.env.session.epoch - 1

    def plan(self, cores: Int32Array) -> list[Move]:
        """What balances; where that is done, what balances with another caution."""
        self._read()
        self.power = self._caution.power
        moves = super().plan(cores)
        if not moves and self._ahead.min() < 1.0 - _OTHER:
            self.power = self._caution.next_power
            moves = super().plan(cores) if self.power != self._caution.power else []
        return moves

    def trial_ended(self, kept: bool) -> None:
        """See RoundPolicy."""
        if self.power != self._caution.power:
            self._caution.tried(self.power, kept)

    def predicted_times(self) -> Float64Array:
        """(slices, workers) each slice's processor time over the speed of each core."""
        times: Float64Array = self._load[:, None] / self._ahead**self.power
        return times

    def _read(self) -> None:
        """Takes the counters of the latest epoch."""
        session, machine = self.env.session, self.env.machine
        snapshot = session.snapshot
        tiles = machine.tile_of_core[session.cores_seen]
        speeds = speeds_of(machine, snapshot.slice_counters, tiles)
        # Models have no such value: with them a core is as fast as it is, whatever it does.
        if (other := snapshot.provenance.get("worker_other_share")) is not None:
            spent = np.bincount(session.cores_seen, snapshot.counter("elapsed_us"), machine.cores)
            full = spent[machine.workers] + np.asarray(other)
            moved = not np.array_equal(session.cores_seen, self._cores)
            speeds = self._estimate.add(speeds, full, snapshot.throughput, moved)
            self._cores = session.cores_seen.copy()
        passed = max(1, session.epoch - self._epoch)
        self._epoch = session.epoch
        self._ahead = self._agent.predict(speeds, self._phases.add(speeds, passed))
        self._slower = speeds / self._ahead
        clock = COUNTER_INDEX["task_clock_us"]
        counted = snapshot.counters_available[clock]
        busy = snapshot.slice_counters[:, clock] if counted else snapshot.slice_throughput
        self._load = busy / max(snapshot.throughput, 1e-9)

    def beside(self) -> Float64Array:
        """See Repair; what a worker does beside takes longer on a core that gets slower."""
        return super().beside() * self._slower


@reads_environment
class Pace(RoundAgent, OfflineAgent[Dataset]):
    """The agent; see the module's docstring."""

    name = "pace"
    Config = Config
    TASK = ("counters",)

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._model = RidgeArms(1, _FEATURES, self.config.ridge)

    # ---- learning

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """Only the counters: any machine and number of slices will do."""
        return {"counters": list(COUNTER_NAMES)}

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        """One update, of all that was logged; the metric is ``error``."""
        episodes = histories(dataset)
        if max(map(len, episodes)) < 2:
            raise DatasetError(f"{dataset.path}: no episode has two epochs: nothing follows")
        self.task = self.task_of(dataset)

        def change() -> dict[str, float]:
            self.learn(episodes)
            return {"error": float(np.mean(self.errors(episodes)))}

        def step(update: int) -> Callable[[], dict[str, float]]:
            return change

        yield Course(step, 1)

    def learn(self, episodes: Sequence[Float64Array]) -> None:
        """Takes speeds, and forgets those before.

        Args:
            episodes: (epochs, workers) of each.
        """
        self.task = self.task or {"counters": list(COUNTER_NAMES)}
        self._model = RidgeArms(1, _FEATURES, self.config.ridge)
        for history in episodes:
            phases = Phases(history.shape[1])
            for now, later in pairwise(history):
                self._model.absorb(0, phases.add(now), later - now)

    def predict(self, speeds: Float64Array, features: Float64Array) -> Float64Array:
        """(workers,) speeds of the next epoch.

        Args:
            speeds: (workers,) of the latest one.
            features: (workers, 4) of Phases.add().
        """
        ahead = speeds + features[:, 0] + self._model.mean(features)[:, 0]
        return np.clip(ahead, _SLOWEST, 1.0)

    def errors(self, episodes: Sequence[Float64Array]) -> Float64Array:
        """(n,) how far off the predicted speeds of each epoch are, in the mean of the cores.

        Args:
            episodes: (epochs, workers) of each.
        """
        errors = []
        for history in episodes:
            phases = Phases(history.shape[1])
            for now, later in pairwise(history):
                errors.append(np.abs(self.predict(now, phases.add(now)) - later).mean())
        return np.array(errors)

    # ---- acting

    def new_planner(self) -> _Planner:
        """See RoundAgent."""
        return _Planner(self)

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self._model.arrays(), {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self._model.restore(arrays)
        self.updates = int(values["updates"])
