"""One episode of a running index: what is drawn, what runs, and what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_env.backends.catalog import make_backend
from pmoss_env.backends.deviation import true_machine
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.drift import Conditions, Drift, draw_drift
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.envs.continual.observation import Seen
from pmoss_env.envs.continual.running import Epoch, RunningIndex
from pmoss_env.envs.spatial.incumbents import relabelled
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.noise import Noise
from pmoss_env.types import CoTenant, HardwareSnapshot, Int8Array, Int32Array

_SEEDS = 2**53


class Session:
    """The episodes of one environment.

    Attributes:
        backend: checks the descriptions; on hardware it holds the index.
        machine: as described.
        slices: of the index.
        running: whether an episode runs.
        index: the running index.
        drift: of this episode; not for a policy to see.
        snapshot: of the last epoch, as observed.
        seen: the same in the arrays of observations.
        cores_seen: (slices,) int32, the cores that served in the last epoch.
        tiles: (slices,) int32, with the moves made since.
        moved: (slices,) int8, 1 = moved before the last epoch.
        epoch: epochs so far; epoch 0, under the incumbent, is not counted.
        queries: million served in them.
        paid: the sum of their rewards.
        throughput: Mq/s of the last epoch.
        p99_us: of the last epoch, as measured.
        moved_gb: copied in the last epoch.
        timeline: Mq/s of epoch 0 and of all epochs since.
        moves: of each epoch, how many slices moved before it.
    """

    index: RunningIndex | LiveIndex
    drift: Drift
    snapshot: HardwareSnapshot
    seen: Seen
    cores_seen: Int32Array
    tiles: Int32Array
    moved: Int8Array

    def __init__(self, arguments: Arguments) -> None:
        """Reads the descriptions; raises what is wrong with them."""
        self.arguments = arguments
        # The backend of the spatial environment reads and checks the same descriptions.
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
        self._live: LiveIndex | None = None
        if isinstance(self.backend, HardwareBackend):
            if machine.workers.size < 2:
                raise UnsupportedError(
                    f"{machine.name} has {machine.workers.size} worker core: with fewer than two "
                    "there is nowhere to move a slice to"
                )
            self._live = LiveIndex(self.backend, float(arguments.epoch_seconds))
        self.running = False
        self._began = False
        self._lost: tuple[CoTenant, ...] = ()
        self._noise_seed = 0
        self.workload_seed = 0
        self.epoch = 0
        self.queries = self.paid = self.throughput = self.p99_us = self.moved_gb = 0.0
        self.timeline: list[float] = []
        self.moves: list[int] = []

    def need_episode(self) -> None:
        """Raises ResetNeeded before the first episode."""
        if not self._began:
            raise ResetNeeded("there is no episode yet: call reset() first")

    def begin(self, rng: np.random.Generator) -> None:
        """Draws an episode and runs epoch 0.

        Args:
            rng: the only source of chance.
        """
        arguments = self.arguments
        self.workload_seed = int(rng.integers(_SEEDS))
        drift_seed, self._noise_seed = (int(seed) for seed in rng.integers(_SEEDS, size=2))
        if arguments.workload_seed is not None:
            self.workload_seed = arguments.workload_seed
        self.drift = draw_drift(
            arguments.family, self.machine, self.slices, arguments.epochs + 1, drift_seed
        )
        self.index = self._live or self._modelled(rng)
        self.epoch, self.queries, self.paid = 0, 0.0, 0.0
        self.timeline, self.moves = [], []
        self.index.begin(self.workload_seed, self.conditions(0), self._start(rng))
        self._took_place(self._run(), np.zeros(self.slices, dtype=np.int8))
        self._began = self.running = True

    def _modelled(self, rng: np.random.Generator) -> RunningIndex:
        """An index on the analytic model, of a machine that is not quite as described."""
        arguments = self.arguments
        native, self._lost = true_machine(self.machine, float(arguments.deviation), rng)
        return RunningIndex(
            self.machine,
            native,
            self.backend.workload,
            self.slices,
            self.backend.load,
            arguments.migration,
        )

    def close(self) -> None:
        """Ends the episode, and all threads."""
        self.running = False
        if self._live is not None:
            self._live.stop()
            self.backend.close()

    def _start(self, rng: np.random.Generator) -> Int32Array:
        """The schedule of epoch 0."""
        machine, name = self.machine, self.arguments.incumbent
        static = "spread" if name == "best-fit" else name
        drawn = make_baseline(static)(Context(machine, self.slices, rng=rng))
        schedule = relabelled(drawn, machine, rng)
        if name != "best-fit":
            return schedule.cores
        # As a rule would have placed the slices by the counters of an epoch before.
        self.index.begin(self.workload_seed, self.conditions(0), schedule.cores)
        seen = self.index.run(self.conditions(0), float(self.arguments.epoch_seconds)).snapshot
        context = Context(machine, self.slices, incumbent=schedule, snapshot=seen, rng=rng)
        return make_baseline("best-fit")(context).cores

    def conditions(self, epoch: int) -> Conditions:
        """What an epoch is like, the slower cores of the true machine included."""
        drifted = self.drift.conditions(epoch)
        return replace(drifted, co_tenants=(*self._lost, *drifted.co_tenants))

    def foretold(self, epoch: int, rng: np.random.Generator) -> Conditions:
        """What the law of the drift lets expect of an epoch: one draw; see Drift.foretold()."""
        drifted = self.drift.foretold(epoch, rng)
        return replace(drifted, co_tenants=(*self._lost, *drifted.co_tenants))

    def move(self, slice_: int, tile: int) -> None:
        """Moves a slice before the next epoch."""
        self.index.move(slice_, int(self.machine.core_of_tile[tile]))
        self.tiles[slice_] = tile

    def run_epoch(self) -> float:
        """Runs the next epoch; returns what it pays, in million queries."""
        arguments = self.arguments
        self.epoch += 1
        before = self.cores_seen
        moved = (self.index.cores != before).astype(np.int8)
        epoch = self._run()
        self._took_place(epoch, moved)
        self.queries += epoch.queries
        self.running = self.epoch < arguments.epochs
        if not self.running and self._live is not None:
            self._live.stop()
        reward = epoch.within - arguments.price_per_gb * self.moved_gb
        self.paid += reward
        return reward

    def _run(self) -> Epoch:
        arguments = self.arguments
        return self.index.run(
            self.conditions(self.epoch),
            float(arguments.epoch_seconds),
            float(arguments.p99_limit_us or 0.0),
        )

    def _took_place(self, epoch: Epoch, moved: Int8Array) -> None:
        """Keeps what an epoch has come to, and what is seen of it."""
        arguments, index = self.arguments, self.index
        noise = Noise(float(arguments.noise), (self._noise_seed, self.epoch))
        snapshot = noise.snapshot(epoch.snapshot)
        self.snapshot = snapshot if arguments.counters == "all" else snapshot.without_pmu()
        self.throughput = epoch.queries / float(arguments.epoch_seconds)
        self.p99_us = epoch.snapshot.latency_p99_us
        self.moved_gb = epoch.moved_bytes * 1e-9
        self.cores_seen = index.cores.copy()
        self.tiles = self.machine.tile_of_core[index.cores]
        self.moved = moved
        self.seen = Seen.of(self.machine, self.snapshot, index.cores, self.moved_gb)
        self.timeline.append(self.throughput)
        self.moves.append(int(np.count_nonzero(moved)))
