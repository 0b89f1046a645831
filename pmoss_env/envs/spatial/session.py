"""An environment's machine and backend, and the state of its episode besides the steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_env import _native
from pmoss_env.backends import (
    Backend,
    IncrementalBackend,
    backend_class,
    backend_options,
    incremental,
    make_backend,
)
from pmoss_env.backends.kernel_settings import switched
from pmoss_env.backends.reporting import LoggedProgress
from pmoss_env.context import Context
from pmoss_env.envs.spatial.arguments import Arguments
from pmoss_env.envs.spatial.incumbents import Drawn, Starts
from pmoss_env.envs.spatial.observation import observed_counters, observed_meta, placement_order
from pmoss_env.envs.spatial.rules import make_rules, room_of_nodes, slices_per_core
from pmoss_env.errors import UnsupportedError
from pmoss_env.interference import possible_draws
from pmoss_env.machines import load_machine
from pmoss_env.measurements import Measurements
from pmoss_env.measuring import check_one_setting
from pmoss_env.noise import Noise
from pmoss_env.types import (
    Float32Array,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Int32Array,
    Schedule,
)

if TYPE_CHECKING:
    from pmoss_env.backends.analytic import AnalyticBackend

# Streams of noise under an episode's seed, independent of each other.
_INCUMBENT, _STEPS, _FINAL, _MEASUREMENTS = 0, 1, 2, 3

_log = logging.getLogger(__name__)


class Session:
    """An environment's machine and backend, and the instance and incumbent of its episode.

    Attributes:
        arguments: of the environment.
        machine: the server.
        slices: number of slices.
        backend: measures the schedules; read-only, see new_backend().
        reward: the reward: the argument, or the default on this backend.
        max_slices_per_core: the constraint; None: no limit.
        chooses_node: whether actions choose the nodes of data.
        slices_of_node: (N,) limit of slices' data per node; None: no limit.
        rules: of every episode.
        running: whether an episode is running.
        instance: this episode's workload instance and co-tenants, hidden from policies.
        incumbent: the first schedule of the episode.
        incumbent_snapshot: its snapshot as observed, with noise.
        final_shares: (slices,) float64, Mq/s of each slice under the final schedule, with noise;
            None during the episode.
        counters: (slices, H) float32, the counters for this episode's observations.
        meta: (M,) float32, as observed.
        order: (slices,) int32, the slice placed at each step.
        readings: (slices,) float64, the factor of noise of each step's measurement.
    """

    instance: Instance
    incumbent: Schedule
    incumbent_snapshot: HardwareSnapshot
    final_shares: Float64Array | None = None
    counters: Float32Array
    meta: Float32Array
    readings: Float64Array
    _drawn: Drawn

    def __init__(self, arguments: Arguments) -> None:
        """Creates the backend.

        Raises:
            UnknownNameError: a name in no catalogue.
            ScheduleError: slices or constraints that allow no schedule.
            UnsupportedError: an argument that the backend does not support.
            DescriptionError: any other invalid value.
        """
        self.arguments = arguments
        self.machine = load_machine(arguments.machine)
        self.slices = arguments.slices
        self.max_slices_per_core = slices_per_core(self.machine, self.slices, arguments.constraints)
        self.chooses_node = arguments.actions == "core_node"
        self.slices_of_node = room_of_nodes(
            self.machine,
            arguments.workload,
            self.slices,
            actions=arguments.actions,
            constraints=arguments.constraints,
        )
        self._backend_arguments: dict[str, Any] = {
            "name": arguments.backend,
            "machine": self.machine,
            "workload": arguments.workload,
            "index": arguments.index,
            "slices": self.slices,
            "load": arguments.load,
            **({"deviation": arguments.deviation} if arguments.deviation else {}),
            **(arguments.backend_options or {}),
        }
        if (
            "progress" in backend_options(arguments.backend)
            and not backend_class(arguments.backend).measures_host
        ):
            self._backend_arguments.setdefault("progress", LoggedProgress())
        self.backend = make_backend(**self._backend_arguments)
        for draw in possible_draws(arguments.interference, self.machine):
            if draw.family not in self.backend.co_tenant_families:
                raise UnsupportedError(
                    f"interference {arguments.interference!r} has co-tenants {draw.family!r}: the "
                    f"backend {arguments.backend!r} runs only "
                    f"{', '.join(self.backend.co_tenant_families)}"
                )
        self._incremental = incremental(self.backend)
        model = getattr(self._incremental, "model", None)
        self._modelled = (
            cast("AnalyticBackend", self._incremental)
            if isinstance(model, _native.AnalyticModel)
            else None
        )
        # Counters of the final schedule are computed if somebody asks for them.
        self._serve = getattr(self._incremental, "serve", None)
        self.reward = arguments.reward or (
            "improvement" if self._incremental is not None else "terminal"
        )
        self._measure_every = self._steps_between_readings()
        self.rules = make_rules(
            self.machine,
            self.slices,
            observation=arguments.observation,
            actions=arguments.actions,
            room=self.slices_of_node,
            constraints=arguments.constraints,
            on_illegal=arguments.on_illegal,
            reward=self.reward,
            measure_every=self._measure_every,
        )
        self.order: Int32Array = np.arange(self.slices, dtype=np.int32)
        self.running = False
        self._began = False
        self._starts = Starts(arguments, self.machine, self.slices_of_node)
        self._seed = 0
        self._final_schedule: Schedule | None = None
        self._final_throughput = 0.0
        self._measured: HardwareSnapshot | None = None
        self._final_snapshot: HardwareSnapshot | None = None

    def _steps_between_readings(self) -> int:
        every = self.arguments.measure_every
        if every is None and (self._incremental is not None or self.reward == "improvement"):
            every = 1
        # The last step is always measured.
        steps = self.slices if every is None else every
        if self._incremental is None and every is not None:
            _log.warning(
                "an episode on the backend %r measures %d times, which takes about %.0f s",
                self.arguments.backend,
                1 + -(-self.slices // steps),
                (1 + -(-self.slices // steps)) * self.backend.step_cost,
            )
        return steps

    @property
    def model(self) -> _native.AnalyticModel | None:
        """The native model for a native batch; None without one."""
        return None if self._modelled is None else self._modelled.model

    def draw(self, rng: np.random.Generator, options: dict[str, Any] | None) -> None:
        """Ends the episode and draws the start of the next one, for begin().

        Args:
            options: of reset(), checked.

        Raises:
            ScheduleError: an incumbent that the machine cannot run.
        """
        self._drawn = self._starts.draw(rng, options)
        self.running = False

    def draw_ahead(self, rng: np.random.Generator, row: int) -> _native.Opening | None:
        """Draws the next episode's start while this one runs; ``rng`` stays as it is.

        A draw() from the same state gives the same start.

        Args:
            row: of the batch.

        Returns:
            What the batch prepares; None where the next model cannot be made ahead.
        """
        # Of a machine that deviates, each instance has another model.
        if self._modelled is None or self.arguments.deviation:
            return None
        drawn = self._starts.draw_ahead(rng)
        if drawn is None:
            return None
        opening = self._modelled.next_opening(drawn.instance)
        return row, *opening, drawn.incumbent.cores, drawn.incumbent.nodes

    @property
    def is_prepared(self) -> bool:
        """Whether the native batch may have measured the drawn incumbent already."""
        return self._starts.was_ahead

    def opening(self, row: int) -> _native.Opening:
        """What a native batch needs to measure the drawn incumbent.

        Args:
            row: of the batch.
        """
        assert self._modelled is not None
        instance, incumbent, _ = self._drawn
        return row, *self._modelled.opening(instance), incumbent.cores, incumbent.nodes

    def begin(self, raw: _native.ModelSnapshot | None = None) -> None:
        """Begins the episode that draw() has drawn.

        Args:
            raw: measurement of the incumbent by a native batch, after opening(); None: the backend
                measures it.
        """
        instance, incumbent, seed = self._drawn
        if raw is None or self._modelled is None:
            self.backend.set_instance(instance)
            measured = self.backend.measure(incumbent, seed=seed)
        else:
            measured = self._modelled.opened(instance, raw, seed)
        self._seed = seed
        snapshot = self._observed(self._noise(_INCUMBENT).snapshot(measured))
        self.instance, self.incumbent, self.incumbent_snapshot = instance, incumbent, snapshot
        self.final_shares = self._final_schedule = self._measured = self._final_snapshot = None
        self.readings = self._noise(_STEPS).throughput_factors(self.slices)
        self.order = placement_order(self.arguments.order, snapshot)
        self.counters = observed_counters(snapshot)
        self.meta = observed_meta(self.machine, snapshot)
        self._began = self.running = True

    def facts(self) -> dict[str, np.ndarray]:
        """What a compact observation leaves out, see SpatialSchedulingEnv; read-only."""
        self.need_episode()
        tiles = self.machine.tile_of_core[self.incumbent.cores]
        if self.chooses_node:
            tiles = tiles * self.machine.nodes + self.incumbent.nodes
        facts: dict[str, np.ndarray] = {
            "slice_counters": self.counters.view(),
            "meta": self.meta.view(),
            "order": self.order.view(),
            "incumbent_places": tiles.astype(np.int16),
        }
        for values in facts.values():
            values.setflags(write=False)
        return facts

    def need_episode(self) -> None:
        """Raises ResetNeeded before the first episode."""
        if not self._began:
            raise ResetNeeded("there is no episode yet: call reset() first")

    def ask(self, schedule: Schedule, slice_: int, steps: int) -> float:
        """The throughput of an intermediate schedule, Mq/s, by the backend's cheapest call."""
        if self._incremental is None:
            return self.backend.measure(schedule, seed=self._seed + steps).throughput
        core, node = int(schedule.cores[slice_]), int(schedule.nodes[slice_])
        if self._measure_every == 1 and node == self.machine.node_of_core[core]:
            return self._incremental.move(slice_, core)
        return self._incremental.place(schedule)

    def measure_final(self, schedule: Schedule, backend: Backend | None = None) -> float:
        """Measures the final schedule; returns its throughput in Mq/s, without noise.

        ``backend`` is the episode's own unless given.
        """
        self.running = False
        self._measured = self._final_snapshot = None
        if self._serve is not None and backend is None:
            self._final_throughput, self.final_shares = self._serve(schedule)
        else:
            backend = backend or self.backend
            self._measured = backend.measure(schedule, seed=self._seed + self.slices)
            self._final_throughput = self._measured.throughput
            self.final_shares = self._measured.slice_throughput
        self._final_schedule = schedule
        return self._final_throughput

    def finish(self, schedule: Schedule, balancing: bool | None = None) -> None:
        """Ends the episode with a whole schedule; see SpatialSchedulingEnv.finish()."""
        self.need_episode()
        self.machine.check_schedule(schedule, self.slices)
        with self.balanced(balancing) as backend:
            throughput = self.measure_final(schedule, backend)
        self.end(throughput * float(self.readings[-1]))

    @contextmanager
    def balanced(self, balancing: bool | None) -> Iterator[Backend | None]:
        """Switches automatic NUMA balancing on this host, or gives a model's backend that has it.

        Args:
            balancing: on or off; None keeps it as it is.

        Raises:
            BackendError: the kernel's setting cannot be switched.
            DescriptionError: the backend has its own setting.
            UnsupportedError: the backend has no such option.
        """
        if balancing is None:
            yield None
            return
        check_one_setting(self._backend_arguments)
        if self.backend.measures_host:
            with switched({"numa_balancing": str(int(balancing))}):
                yield None
        else:
            with closing(self.new_backend(numa_balancing=balancing)) as backend:
                yield backend

    def end(self, throughput: float) -> None:
        """Ends the episode after measure_final(), whose throughput it takes with noise, Mq/s."""
        assert self.final_shares is not None
        if self.arguments.noise and self._final_throughput:
            self.final_shares = self.final_shares * (throughput / self._final_throughput)
        self._final_throughput = throughput

    @property
    def final_snapshot(self) -> HardwareSnapshot | None:
        """The final schedule's snapshot, with noise; None during the episode."""
        if self._final_snapshot is None and self._final_schedule is not None:
            measured = self._measured
            if measured is None:
                measured = self.backend.measure(self._final_schedule, seed=self._seed + self.slices)
            noisy = self._final_throughput if self.arguments.noise else None
            self._final_snapshot = self._observed(self._noise(_FINAL).snapshot(measured, noisy))
        return self._final_snapshot

    def restore(self) -> HardwareSnapshot:
        """Measures the incumbent again, with the seed and the noise of the first time."""
        self.need_episode()
        measured = self.backend.measure(self.incumbent, seed=self._seed)
        self.running = False
        return self._observed(self._noise(_INCUMBENT).snapshot(measured))

    def watch(self, on_round: Callable[[dict[str, Any]], None] | None) -> None:
        """Sets the function that gets every sweeping round of a measurement, see HardwareBackend.

        Models have no rounds.
        """
        if hasattr(self.backend, "on_round"):
            self.backend.on_round = on_round

    def new_backend(self, **options: Any) -> Backend:
        """A new backend with the same arguments and this episode's instance.

        It does not affect the episode. The caller closes it. ``options`` of a backend may differ.
        """
        self.need_episode()
        backend = make_backend(**{**self._backend_arguments, **options})
        backend.set_instance(self.instance)
        return backend

    def new_searchable_backend(self) -> IncrementalBackend:
        """A new incremental backend with this episode's instance.

        It is of the episode's kind if that is incremental, else the analytic model of the same
        machine and workload. The caller closes it.

        Raises:
            UnsupportedError: the machine has no parameters for a model.
        """
        self.need_episode()
        arguments = self._backend_arguments
        if self._incremental is None:
            if not self.machine.parameters:
                raise UnsupportedError(
                    f"machine {self.machine.name!r} has no model: a search needs a backend that "
                    "can be asked after every move, such as 'analytic'"
                )
            names = ("machine", "index", "slices", "load", "progress")
            shared = {name: arguments[name] for name in names if name in arguments}
            arguments = {**shared, "name": "analytic", "workload": self.backend.workload}
        backend = make_backend(**arguments)
        backend.set_instance(self.instance)
        return cast(IncrementalBackend, backend)

    def context(self, rng: np.random.Generator, backend: Backend | None = None) -> Context:
        """The information for a baseline.

        Args:
            backend: for a baseline that searches, e.g. new_backend(); never the episode's own,
                whose schedule it would change.
        """
        self.need_episode()
        room, snapshot = self.slices_of_node, self.incumbent_snapshot.for_policies()
        return Context(
            machine=self.machine,
            slices=self.slices,
            incumbent=self.incumbent,
            snapshot=self._noise(_INCUMBENT).response_times(snapshot),
            rng=rng,
            backend=backend,
            max_slices_per_core=self.max_slices_per_core,
            order=self.order.copy(),
            slices_of_node=room if room is None else room.copy(),
            chooses_node=self.chooses_node,
        )

    def measurements(self, backend: Backend, budget: int) -> Measurements:
        """A budget of measurements of this episode, with its noise and its counters.

        Args:
            budget: number of measurements, 0 or more.

        Raises:
            DescriptionError: a negative budget.
        """
        self.need_episode()
        return Measurements(
            backend,
            budget,
            noise=float(self.arguments.noise),
            seed=(self._seed, _MEASUREMENTS),
            counters=self.arguments.counters,
        )

    def close(self) -> None:
        """Releases the backend. Safe to repeat."""
        self.running = False
        self.backend.close()

    def _noise(self, stream: int) -> Noise:
        return Noise(float(self.arguments.noise), (self._seed, stream))

    def _observed(self, snapshot: HardwareSnapshot) -> HardwareSnapshot:
        """A snapshot with the counters of the environment."""
        return snapshot.limited_to(self.arguments.counters)
