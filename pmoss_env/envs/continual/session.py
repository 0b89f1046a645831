"""An episode of a running index: its random draws, its index and its observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_env.backends.catalog import make_backend
from pmoss_env.backends.deviation import true_machine
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.envs.base import SEEDS
from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.drift import Conditions, Drift, draw_drift
from pmoss_env.envs.continual.episodes import Episodes
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.envs.continual.running import RunningIndex
from pmoss_env.envs.continual.simulated_index import SimulatedIndex
from pmoss_env.envs.spatial.incumbents import relabelled
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.noise import Noise
from pmoss_env.types import CoTenant, HardwareSnapshot, Int32Array


class Session:
    """The episodes of an environment.

    Attributes:
        backend: checks the descriptions; on hardware it holds the index.
        live: the index on this host; None on a model.
    """

    index: RunningIndex | LiveIndex | SimulatedIndex
    drift: Drift

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        # The backend loads and checks the same descriptions as in the spatial environment.
        self.backend = make_backend(
            arguments.backend,
            machine=(machine := load_machine(arguments.machine)),
            workload=arguments.workload,
            index=arguments.index,
            slices=arguments.slices,
            load=arguments.load,
            **(arguments.backend_options or {}),
            **({"own_process": False} if arguments.on_host else {}),
        )
        self.machine, self.slices = machine, arguments.slices
        arguments.family.check(machine, self.slices)
        self.workloads = arguments.family.workloads(self.backend.workload)
        self.live: LiveIndex | None = None
        if isinstance(self.backend, HardwareBackend):
            if machine.workers.size < 2:
                raise UnsupportedError(
                    f"{machine.name} has {machine.workers.size} worker core: with fewer than two "
                    "there is nowhere to move a slice to"
                )
            self.live = LiveIndex(self.backend, float(arguments.epoch_seconds))
        self.running = False
        self._began = False
        self._slow_cores: tuple[CoTenant, ...] = ()
        self._noise_seed = 0
        self.workload_seed = 0
        self._latest: tuple[int, HardwareSnapshot] | None = None

    def join(self, episodes: Episodes, row: int) -> None:
        """Makes the session's episodes a row of a batch."""
        self.episodes, self._row = episodes, row

    def need_episode(self) -> None:
        """Raises ResetNeeded before the first episode."""
        if not self._began:
            raise ResetNeeded("there is no episode yet: call reset() first")

    def begin(self, rng: np.random.Generator) -> None:
        """Draws an episode and runs epoch 0."""
        arguments, self.running = self.arguments, False
        self.workload_seed = int(rng.integers(SEEDS))
        drift_seed, self._noise_seed = (int(seed) for seed in rng.integers(SEEDS, size=2))
        if arguments.workload_seed is not None:
            self.workload_seed = arguments.workload_seed
        self.drift = draw_drift(
            arguments.family, self.machine, self.slices, arguments.epochs + 1, drift_seed
        )
        index = self.live or self._modelled(rng)
        self.index = index
        index.begin(self.workload_seed, self.conditions(0), self._start(rng))
        course = [self.conditions(epoch) for epoch in range(arguments.epochs + 1)]
        batch = self.episodes.batch
        self._latest = None
        if isinstance(index, RunningIndex):
            native = [index.native_conditions(conditions) for conditions in course]
            self.episodes.start(self._row, index.core, native, self._noise_seed)
        else:
            batch.start(index, course, self._noise_seed)
        self._began = self.running = True

    def _modelled(self, rng: np.random.Generator) -> RunningIndex | SimulatedIndex:
        """An index on a model of the true machine."""
        arguments = self.arguments
        native, self._slow_cores = true_machine(self.machine, float(arguments.deviation), rng)
        index = RunningIndex(
            self.machine,
            native,
            self.workloads,
            self.slices,
            self.backend.load,
            arguments.migration,
        )
        if isinstance(self.backend, SimulatedBackend):
            return SimulatedIndex(self.backend, index)
        return index

    def close(self) -> None:
        """Ends the episode, and all threads."""
        self.running = False
        if self.live is not None:
            self.live.close()
            self.backend.close()

    @property
    def epoch(self) -> int:
        """Number of epochs so far, without epoch 0."""
        return int(self.episodes.results["epoch"][self._row])

    @property
    def throughput(self) -> float:
        """Mq/s of the last epoch."""
        return float(self.episodes.results["throughput"][self._row])

    @property
    def p99_us(self) -> float:
        """99th percentile of the response times of the last epoch, us."""
        return float(self.episodes.results["p99_us"][self._row])

    @property
    def moved_gb(self) -> float:
        """Gigabytes copied in the last epoch."""
        return float(self.episodes.results["moved_gb"][self._row])

    @property
    def cores_seen(self) -> Int32Array:
        """(slices,) int32, the cores that served in the last epoch."""
        cores: Int32Array = self.episodes.batch.cores(self._row)
        return cores

    @property
    def timeline(self) -> list[float]:
        """Mq/s of epoch 0 and of all epochs since."""
        return list(map(float, self.episodes.batch.timeline(self._row)))

    @property
    def moves(self) -> list[int]:
        """The number of slices moved before each of these epochs."""
        return list(map(int, self.episodes.batch.moves(self._row)))

    @property
    def snapshot(self) -> HardwareSnapshot:
        """The snapshot of the last epoch, as observed."""
        batch, index = self.episodes.batch, self.index
        if not isinstance(index, RunningIndex):
            snapshot: HardwareSnapshot = batch.snapshot
            return snapshot
        epoch, arguments = self.epoch, self.arguments
        if self._latest is None or self._latest[0] != epoch:
            noise = Noise(float(arguments.noise), (self._noise_seed, epoch))
            snapshot = noise.snapshot(index.epoch(batch.epoch(self._row)).snapshot)
            snapshot = noise.response_times(snapshot)
            self._latest = epoch, snapshot.limited_to(arguments.counters)
        return self._latest[1]

    def _start(self, rng: np.random.Generator) -> Int32Array:
        """The schedule of epoch 0."""
        machine, name = self.machine, self.arguments.incumbent
        static = "spread" if name == "best-fit" else name
        drawn = make_baseline(static)(Context(machine, self.slices, rng=rng))
        schedule = relabelled(drawn, machine, rng)
        if name != "best-fit":
            return schedule.cores
        # Best-fit, by the counters of an epoch before.
        self.index.begin(self.workload_seed, self.conditions(0), schedule.cores)
        epoch = self.index.run(self.conditions(0), float(self.arguments.epoch_seconds))
        context = Context(
            machine, self.slices, incumbent=schedule, snapshot=epoch.snapshot, rng=rng
        )
        return make_baseline("best-fit")(context).cores

    def conditions(self, epoch: int) -> Conditions:
        """The conditions of an epoch, with the slow cores of the true machine."""
        return self._with_slow_cores(self.drift.conditions(epoch))

    def sample_conditions(self, epoch: int, rng: np.random.Generator, ahead: int = 1) -> Conditions:
        """Samples the conditions of an epoch; see Drift.sample_conditions()."""
        return self._with_slow_cores(self.drift.sample_conditions(epoch, rng, ahead))

    def _with_slow_cores(self, conditions: Conditions) -> Conditions:
        return replace(conditions, co_tenants=(*self._slow_cores, *conditions.co_tenants))
