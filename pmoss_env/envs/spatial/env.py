"""Spatial scheduling: place every slice of a main-memory index on a core."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env import _native
from pmoss_env.backends import (
    Backend,
    IncrementalBackend,
    backend_class,
    incremental,
    make_backend,
)
from pmoss_env.backends import (
    backend_options as options_of,
)
from pmoss_env.backends.reporting import LoggedProgress
from pmoss_env.baselines import STATIC_BASELINES, Context, make_baseline, slice_load
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.spatial.observation import (
    OBSERVATION_MODES,
    PLACEMENT_ORDERS,
    ObservationBuilder,
    ObservationMode,
    PositionMask,
    meta_names,
    placement_order,
)
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    ScheduleError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.interference import INTERFERENCE, draw_neighbours, possible_draws
from pmoss_env.machines import Machine, load_machine
from pmoss_env.noise import Noise
from pmoss_env.types import (
    COUNTERS,
    BoolArray,
    Float32Array,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Int32Array,
    Schedule,
)

Observation = dict[str, npt.NDArray[Any]]
Reward = Literal["improvement", "slice", "terminal"]
REWARDS = ("improvement", "slice", "terminal")
#: Counters that an episode's snapshots hold.
READABLE = ("all", "software")
ON_ILLEGAL = ("remap", "terminate", "raise")
RENDER_MODES = ("ansi", "rgb_array")
MIXTURE = "mixture"
#: What info holds, at reset and at every step.
INFO_KEYS = (
    "action_mask",
    "illegal_actions",
    "throughput",
    "incumbent_throughput",
    "slice",
    "tile",
    "slice_throughput",
)
#: Seeds drawn per episode lie below this, so that JSON keeps them exact.
SEEDS = 2**53

_log = logging.getLogger(__name__)


class SpatialSchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """Re-schedule a running main-memory index over the cores of a NUMA server.

    ## Description

    An index is cut into ``slices`` key ranges. A schedule says which worker core serves each slice
    and which NUMA node holds its data; the throughput in million queries per second (Mq/s) follows
    from it. An episode starts from an incumbent schedule, shows what the hardware counters said
    under it, and places slice after slice anew. The data of a slice go to the node of its core.
    A slice that is not placed yet stays where the incumbent has it, so that every intermediate
    state is a full schedule that a server could run.

    This is the decision process of P-MOSS (section 6; mission rows B1 to B7).

    ## Observation Space

    A ``Dict`` over the machine's grid of r x c core tiles, with H = 21 counters
    (``pmoss_env.types.COUNTERS``, million counts per second; 0 where not available):

    | key | shape, type | meaning |
    |---|---|---|
    | `view_mask` | (r, c) int8 | 1 = the tile hosts a slice placed in this episode |
    | `position_mask` | (r, c) int8 | 1 = the tile may take the next slice |
    | `machine_view` | (r, c, H) float32 | counters of the placed slices, summed per tile |
    | `meta` | (M,) float32 | GB/s per node and link, logical cores, nodes, sockets |
    | `slice` | (1,) float32 | index of the next slice / slices; 1 at the end |
    | `slice_view` | (H,) float32 | counters of the next slice; 0 at the end |
    | `incumbent_view` | (r, c, H) float32 | counters per tile under the incumbent schedule |

    All counters are those of the incumbent's snapshot. ``observation="paper"`` leaves out the last
    two keys. ``pmoss_env.envs.spatial.meta_names(machine)`` names the entries of ``meta``.

    ## Action Space

    ``Discrete(r * c)``: tile row * c + column for the next slice. The legal tiles are the same in
    ``observation["position_mask"]``, ``info["action_mask"]`` and ``action_masks()``. On a masked
    tile, ``on_illegal`` decides: "remap" takes the nearest legal tile (same node first, then same
    socket, then distance on the grid, then lowest number), "terminate" ends the episode with
    reward 0 and the slice where it was, "raise" raises IllegalActionError. Illegal actions are
    counted in ``info["illegal_actions"]``.

    ## Rewards

    In Mq/s, chosen by ``reward``:

    - "improvement": throughput after the step minus before it; the return is X(final) -
      X(incumbent). Only every ``measure_every``-th step and the last one are measured; the others
      pay 0.
    - "slice": the paper's return-to-go, each step paying its slice's share of X(final). The shares
      are known in hindsight only, so this live environment pays X(final) at the last step and 0
      before; ``info["slice_throughput"]`` then holds the shares, for a dataset to fill in.
    - "terminal": X(final) at the last step, else 0.

    None means "improvement" on backends that can be asked after every move, else "terminal".

    ## Starting State

    ``reset`` draws from its seed, in this order: the workload instance (which keys are hot; fixed
    by ``workload_seed``), the neighbours, the seed of the noise, and the incumbent schedule. The
    incumbent follows the rule of its name on nodes and workers in a drawn order, so that episodes
    differ; it can be given as ``options={"incumbent": schedule}``: a ``Schedule``, or the core of
    each slice. Constraints bind what the episode places, not the incumbent.

    ## Episode End

    ``terminated`` after the last slice, or after an illegal action with
    ``on_illegal="terminate"``. Never ``truncated``.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (r * c,) int8, the legal tiles for the next slice.
    - ``illegal_actions``: int, in this episode so far.
    - ``throughput``: float, Mq/s of the present full schedule; of the latest measurement where
      not every step is measured. X(final) at the end, whatever the reward.
    - ``incumbent_throughput``: float, Mq/s.
    - ``slice``: int, the next slice; ``slices`` when none is left.
    - ``tile``: int, where the latest slice really went; -1 at reset.
    - ``slice_throughput``: (slices,) float64, Mq/s of the slice placed at each step under the
      final schedule; 0 until the end. Sums to X(final).

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.

    - ``machine``: a name of ``pmoss_env.machines.machine_names()`` or a path to a machine file.
    - ``index``: "btree", or "rtree" (``slices`` are cells of a grid) with a workload that is for
      it, such as "rtree-ranges". The first reset in a process builds (and, for a model, runs) the
      tree, for all environments: tens of seconds for the paper's 50 million records, seconds for
      the 5 million of "rtree-ranges-5m". It says so in the log meanwhile.
    - ``workload``: a name of the workload catalogue or a path to a workload file.
    - ``slices``: number of key ranges.
    - ``backend``: "analytic" (a model, microseconds), "simulated" (the index's own accesses on a
      model of the machine's caches and memories, about a second) or "hardware" (this host).
    - ``load``: "closed", "closed:<queries in flight per worker>" (32 by default), "saturated" or
      "open:<Mq/s>".
    - ``interference``: "none", or a key of ``pmoss_env.interference.INTERFERENCE``.
    - ``observation``: "full" or "paper".
    - ``reward``: see above.
    - ``incumbent``: "grouped", "spread", "mixed", "random", or "mixture": one of these four.
    - ``order``: "index" (slice 0 first) or "load" (most queries in the incumbent's snapshot first).
    - ``workload_seed``: None for a new workload instance per episode, or a whole number.
    - ``counters``: "all", or "software": as in a virtual machine without a performance monitoring
      unit, where only our runtime and the kernel count.
    - ``noise``: strength of the measurement noise (``pmoss_env.noise``); 1 is as on hardware.
    - ``on_illegal``: "remap", "terminate" or "raise".
    - ``constraints``: None or ``{"max_slices_per_core": n}``.
    - ``backend_options``: further arguments of the backend.
    - ``measure_every``: steps between measurements; None means every step on a backend that can be
      asked after every move, and for the reward "improvement". Otherwise only the last step is
      measured. Hardware needs it for "improvement".
    - ``render_mode``: "ansi" or "rgb_array".

    Raises ``UnknownNameError`` for a name in no catalogue, ``ScheduleError`` for slices or
    constraints that allow no schedule, ``UnsupportedError`` for what the backend cannot do, and
    ``DescriptionError`` for any other impossible value.

    ## Vector Form

    On the analytic backend ``gymnasium.make_vec`` gives ``SpatialVectorEnv``
    (``pmoss_env.envs.spatial.vector``), whose steps run in C++ with the same bits; on the others,
    ask it for ``vectorization_mode="sync"`` or ``"async"``.

    ## References

    Rayhan and Aref, P-MOSS: Learned Scheduling For Indexes Over NUMA Servers Using Low-Level
    Hardware Statistics.

    ## Version History

    - v0: first version.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it per instance
        "render_modes": list(RENDER_MODES),
        "render_fps": 15,
    }

    def __init__(
        self,
        *,
        machine: str = "skylake-x-8n",
        index: str = "btree",
        workload: str = "ycsb-a",
        slices: int = 256,
        backend: str = "analytic",
        load: str = "closed",
        interference: str = "none",
        observation: str = "full",
        reward: str | None = None,
        incumbent: str = MIXTURE,
        order: str = "index",
        workload_seed: int | None = None,
        counters: str = "all",
        noise: float = 0.0,
        on_illegal: str = "remap",
        constraints: Mapping[str, Any] | None = None,
        backend_options: Mapping[str, Any] | None = None,
        measure_every: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        for name, value in (
            ("machine", machine),
            ("index", index),
            ("workload", workload),
            ("backend", backend),
            ("load", load),
        ):
            if not isinstance(value, str):
                raise DescriptionError(f"{name} = {value!r}: must be a text")
        _check_name("interference", interference, INTERFERENCE)
        _check_name("observation", observation, OBSERVATION_MODES)
        _check_name("order", order, PLACEMENT_ORDERS)
        _check_name("counters", counters, READABLE)
        _check_name("incumbent", incumbent, (*STATIC_BASELINES, MIXTURE))
        _check_name("on_illegal", on_illegal, ON_ILLEGAL)
        if reward is not None:
            _check_name("reward", reward, REWARDS)
        if render_mode is not None:
            _check_name("render_mode", render_mode, RENDER_MODES)
        _check_whole("slices", slices, minimum=1)
        if workload_seed is not None:
            _check_whole("workload_seed", workload_seed, minimum=0, maximum=2**64 - 1)
        if measure_every is not None:
            _check_whole("measure_every", measure_every, minimum=1)
        if isinstance(noise, bool) or not isinstance(noise, (int, float)):
            raise DescriptionError(f"noise = {noise!r}: must be a number")
        Noise(noise, (0,))
        _check_object("constraints", constraints)
        _check_object("backend_options", backend_options)
        measures_host = backend_class(backend).measures_host
        if measures_host and reward == "improvement" and measure_every is None:
            raise UnsupportedError(
                f"reward='improvement' on {backend} would measure {slices} times per episode: say "
                "how often with measure_every=<steps>, or use reward='terminal'"
            )

        self._machine = load_machine(machine)
        self._mask = PositionMask(self._machine, slices, constraints)
        self._builder = ObservationBuilder(
            self._machine, slices, cast(ObservationMode, observation)
        )
        clash = {"name", "machine", "workload", "index", "slices", "load"} & set(
            backend_options or {}
        )
        if clash:
            raise DescriptionError(
                f"backend_options[{min(clash)!r}]: is an argument of the environment itself"
            )
        self._backend_arguments: dict[str, Any] = {
            "name": backend,
            "machine": self._machine,
            "workload": workload,
            "index": index,
            "slices": slices,
            "load": load,
            **(backend_options or {}),
        }
        if not measures_host and "progress" in options_of(backend):
            self._backend_arguments.setdefault("progress", LoggedProgress())
        self._backend = make_backend(**self._backend_arguments)
        for draw in possible_draws(interference, self._machine):
            if draw.family not in self._backend.neighbour_families:
                raise UnsupportedError(
                    f"interference {interference!r} has neighbours {draw.family!r}: the backend "
                    f"{backend!r} runs only {', '.join(self._backend.neighbour_families)}"
                )
        self._incremental = incremental(self._backend)
        if reward is None:
            reward = "terminal" if self._incremental is None else "improvement"
        if measure_every is None and (self._incremental is not None or reward == "improvement"):
            measure_every = 1
        # The last step is always measured.
        self._measure_every = slices if measure_every is None else measure_every
        if self._incremental is None and measure_every is not None:
            _log.warning(
                "an episode on the backend %r measures %d times",
                backend,
                1 + -(-slices // self._measure_every),
            )

        self.observation_space = cast(spaces.Space[Observation], self._builder.space)
        self.action_space = spaces.Discrete(self._machine.tiles)
        self.render_mode = render_mode
        self._slices = slices
        self._max_slices_per_core: int | None = (constraints or {}).get("max_slices_per_core")
        self._reward = reward
        self._interference = interference
        self._incumbent_name = incumbent
        self._order_kind = order
        self._observation_mode = observation
        self._workload_seed = workload_seed
        self._counters = counters
        self._noise = float(noise)
        self._on_illegal = on_illegal
        # Plain lists: indexing an array costs more than the whole look-up should.
        self._action_rule = f"{self._machine.name} has tiles"
        self._core_of_tile: list[int] = self._machine.core_of_tile.tolist()
        self._node_of_core: list[int] = self._machine.node_of_core.tolist()
        self._remap: Int32Array | None = None

        self._running = False
        self._instance: Instance | None = None
        self._incumbent: Schedule | None = None
        self._incumbent_snapshot: HardwareSnapshot | None = None
        self._final_snapshot: HardwareSnapshot | None = None
        self._cores = np.zeros(slices, dtype=np.int32)
        self._nodes = np.zeros(slices, dtype=np.int32)
        self._order = np.arange(slices, dtype=np.int32)
        self._step = 0
        self._tile = -1
        self._illegal_actions = 0
        self._throughput = 0.0
        self._measure_seed = 0
        self._readings = np.ones(slices)
        self._read_at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; see the class's section on the starting state.

        Args:
            seed: of everything that chance decides; None goes on with the generator at hand.
            options: None or ``{"incumbent": Schedule or the core of each slice}``.

        Raises:
            UnknownNameError: another option.
            ScheduleError: an incumbent that the machine cannot run.
        """
        super().reset(seed=seed)
        for name in options or {}:
            _check_name("option", name, ("incumbent",))
        rng = self.np_random
        workload_seed = int(rng.integers(SEEDS))
        if self._workload_seed is not None:
            workload_seed = self._workload_seed
        neighbours = draw_neighbours(self._interference, self._machine, rng)
        noise_seed = int(rng.integers(SEEDS))
        given = (options or {}).get("incumbent")
        incumbent = self._draw_incumbent(rng) if given is None else self._given(given)

        self._running = False
        self._instance = Instance(workload_seed, neighbours)
        self._backend.set_instance(self._instance)
        self._measure_seed = noise_seed
        snapshot = self._measure_incumbent(incumbent)
        self._readings = Noise(self._noise, (noise_seed, 1)).throughput_factors(self._slices)
        self._read_at = 0

        self._incumbent = incumbent
        self._incumbent_snapshot = snapshot
        self._final_snapshot = None
        self._cores[:] = incumbent.cores
        self._nodes[:] = incumbent.nodes
        self._order = placement_order(self._order_kind, snapshot)
        self._step = 0
        self._tile = -1
        self._illegal_actions = 0
        self._throughput = snapshot.throughput
        self._mask.start()
        self._builder.start(incumbent, snapshot, self._order)
        self._running = True
        return self._builder.observe(self._mask.tiles), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Places the next slice on the core of tile ``action``.

        Raises:
            IllegalActionError: no such tile, or a masked one with ``on_illegal="raise"``.
            ResetNeeded: before reset, or after the end of the episode.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        tile = whole_action(action, len(self._core_of_tile), self._action_rule)
        if not self._mask.tiles[tile]:
            if self._on_illegal == "raise":
                raise IllegalActionError(
                    f"action {tile}: the position mask forbids this tile for slice "
                    f"{self._builder.next_slice}; see info['action_mask']"
                )
            self._illegal_actions += 1
            if self._on_illegal == "terminate":
                self._finish()
                return self._builder.observe(self._mask.tiles), 0.0, True, False, self._info()
            tile = self._nearest(tile)

        slice_ = self._builder.next_slice
        core = self._core_of_tile[tile]
        self._builder.place(tile)
        self._mask.place(tile)
        self._cores[slice_] = core
        self._nodes[slice_] = self._node_of_core[core]
        self._tile = tile
        self._step += 1
        before = self._throughput
        done = self._step == self._slices
        if done:
            self._finish()
        elif self._step % self._measure_every == 0:
            self._read(self._ask(slice_, core))
        if self._reward == "improvement":
            reward = self._throughput - before
        else:
            reward = self._throughput if done else 0.0
        return self._builder.observe(self._mask.tiles), reward, done, False, self._info()

    def resume(self, tiles: Int32Array, *, illegal_actions: int, throughput: float) -> None:
        """Goes to where this episode has come to elsewhere, as in a native batch.

        Args:
            tiles: (steps,) where its slices went so far.
            illegal_actions: how many there were.
            throughput: the latest reading, Mq/s.

        Raises:
            ResetNeeded: no episode is running.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        steps = tiles.size
        placed = self._order[:steps]
        cores = self._machine.core_of_tile[tiles]
        self._cores[:], self._nodes[:] = self.incumbent.cores, self.incumbent.nodes
        self._cores[placed], self._nodes[placed] = cores, self._machine.node_of_core[cores]
        self._builder.resume(tiles)
        self._mask.resume(tiles)
        self._step = steps
        self._tile = int(tiles[-1]) if steps else -1
        self._illegal_actions = illegal_actions
        self._throughput = throughput
        self._read_at = steps - steps % self._measure_every

    def native_task(self) -> _native.BatchTask:
        """What the steps of every episode depend on, for a native batch."""
        task = _native.BatchTask()
        task.slices = self._slices
        task.counters = len(COUNTERS)
        task.meta = len(meta_names(self._machine))
        task.core_of_tile = self._core_of_tile
        task.node_of_core = self._node_of_core
        task.worker_tiles = self._machine.worker_tiles.astype(np.uint8).tolist()
        if self._on_illegal == "remap":
            task.nearest = _remap_order(self._machine).ravel().tolist()
        task.max_slices_per_core = self._max_slices_per_core or 0
        task.measure_every = self._measure_every
        task.pays_improvement = self._reward == "improvement"
        task.full = self._observation_mode == "full"
        return task

    def action_masks(self) -> BoolArray:
        """(r * c,) bool, the legal tiles for the next slice; works before reset too."""
        return self._mask.tiles.copy()

    @property
    def machine(self) -> Machine:
        """The machine that the slices go on."""
        return self._machine

    @property
    def slices(self) -> int:
        """How many slices an episode places."""
        return self._slices

    @property
    def order(self) -> Int32Array:
        """(slices,) int32, the slice placed at each step of this episode."""
        return self._order.copy()

    @property
    def order_kind(self) -> str:
        """The ``order`` argument: "index" or "load"."""
        return self._order_kind

    @property
    def reward(self) -> str:
        """The reward mode: the ``reward`` argument, or what its default is on this backend."""
        return self._reward

    @property
    def observation_mode(self) -> str:
        """The ``observation`` argument: "full" or "paper"."""
        return self._observation_mode

    @property
    def counters_kind(self) -> str:
        """The ``counters`` argument: "all" or "software"."""
        return self._counters

    @property
    def slice_counters(self) -> Float32Array:
        """(slices, H) float32: the counters that this episode's observations are made of."""
        return self._builder.counters

    @property
    def readings(self) -> Float64Array:
        """(slices,) float64: the factor of noise of each step's reading of the throughput."""
        return self._readings.copy()

    @property
    def backend(self) -> Backend:
        """The episode's own backend: only to look at. See new_backend()."""
        return self._backend

    @property
    def schedule(self) -> Schedule:
        """The present full schedule: slices placed so far, the others as the incumbent."""
        self._need_episode()
        return Schedule(self._cores, self._nodes)

    @property
    def instance(self) -> Instance:
        """This episode's workload instance and neighbours; not for a policy to see."""
        self._need_episode()
        return cast(Instance, self._instance)

    @property
    def incumbent(self) -> Schedule:
        """The schedule that the episode started from."""
        self._need_episode()
        return cast(Schedule, self._incumbent)

    @property
    def incumbent_snapshot(self) -> HardwareSnapshot:
        """The incumbent's snapshot, as observed: with its noise."""
        self._need_episode()
        return cast(HardwareSnapshot, self._incumbent_snapshot)

    def final_snapshot(self) -> HardwareSnapshot:
        """The final schedule's snapshot; ScheduleError while the episode runs."""
        self._need_episode()
        if self._final_snapshot is None:
            raise ScheduleError(
                f"the episode is not over: {self._step} of {self._slices} slices are placed"
            )
        return self._final_snapshot

    def restore(self) -> HardwareSnapshot:
        """Undoes the episode: puts the incumbent back, measures it, and ends the episode.

        Measured with the seed and the noise of reset(), so that a modelled backend gives
        ``incumbent_snapshot`` again, bit for bit. ``final_snapshot()`` stays what it was.

        Raises:
            ResetNeeded: there is no episode.
            BackendError: the measurement failed.
        """
        snapshot = self._measure_incumbent(self.incumbent)
        self._running = False
        self._cores[:], self._nodes[:] = self.incumbent.cores, self.incumbent.nodes
        self._throughput = snapshot.throughput
        return snapshot

    def _measure_incumbent(self, incumbent: Schedule) -> HardwareSnapshot:
        snapshot = self._backend.measure(incumbent, seed=self._measure_seed)
        # One stream per kind of reading: how often one is read does not shift the others.
        return self._as_seen(Noise(self._noise, (self._measure_seed, 0)).snapshot(snapshot))

    def watch(self, on_round: Callable[[dict[str, Any]], None] | None) -> None:
        """Calls ``on_round`` with every sweeping round of a measurement, see HardwareBackend.

        Models measure in one piece: there it is never called.
        """
        if hasattr(self._backend, "on_round"):
            self._backend.on_round = on_round

    def new_backend(self) -> Backend:
        """A fresh backend with the same arguments, set to this episode's instance.

        For "what if" questions: the episode itself goes on undisturbed. The caller closes it.
        """
        self._need_episode()
        backend = make_backend(**self._backend_arguments)
        backend.set_instance(self.instance)
        return backend

    def new_searchable_backend(self) -> IncrementalBackend:
        """A fresh backend that can be searched, set to this episode's instance.

        Of the episode's kind where that can be asked after every move, else the analytic model of
        the same machine and workload: the model proposes, the episode's backend measures. The
        caller closes it.

        Raises:
            UnsupportedError: the machine has no parameters to model it by.
        """
        self._need_episode()
        arguments = self._backend_arguments
        if self._incremental is None:
            if not self._machine.parameters:
                raise UnsupportedError(
                    f"machine {self._machine.name!r} has no model: a search needs a backend that "
                    "can be asked after every move, such as 'analytic'"
                )
            kept = ("machine", "index", "slices", "load", "progress")
            described = {name: arguments[name] for name in kept if name in arguments}
            arguments = {**described, "name": "analytic", "workload": self._backend.workload}
        backend = make_backend(**arguments)
        backend.set_instance(self.instance)
        return cast(IncrementalBackend, backend)

    def render(self) -> Any:
        """The present schedule as text ("ansi") or as an (height, width, 3) uint8 image."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: give one to gymnasium.make()")
            return None
        from pmoss_env.envs.spatial import viewer

        self._need_episode()
        snapshot = self._final_snapshot or self.incumbent_snapshot
        load = np.bincount(self._cores, slice_load(snapshot), self._machine.cores)
        title = (
            f"{self._step} of {self._slices} slices placed, {self._throughput:.2f} Mq/s "
            f"(incumbent {self.incumbent_snapshot.throughput:.2f})"
        )
        draw = viewer.as_text if self.render_mode == "ansi" else viewer.as_image
        return draw(self._machine, self.schedule, load, title)

    def close(self) -> None:
        """Releases the backend. Safe to repeat."""
        self._running = False
        self._backend.close()

    def context(self, rng: np.random.Generator, backend: Backend | None = None) -> Context:
        """What a baseline may know of this episode.

        Args:
            rng: its source of chance.
            backend: for a baseline that searches, e.g. new_backend(); never the episode's own,
                whose current schedule it would change.
        """
        return Context(
            machine=self._machine,
            slices=self._slices,
            incumbent=self.incumbent,
            snapshot=self.incumbent_snapshot,
            rng=rng,
            backend=backend,
            max_slices_per_core=self._max_slices_per_core,
            order=self.order,
        )

    def _draw_incumbent(self, rng: np.random.Generator) -> Schedule:
        name = self._incumbent_name
        if name == MIXTURE:
            name = STATIC_BASELINES[int(rng.integers(len(STATIC_BASELINES)))]
        schedule = make_baseline(name)(Context(self._machine, self._slices, rng=rng))
        return relabelled(schedule, self._machine, rng)

    def _given(self, given: object) -> Schedule:
        if isinstance(given, Schedule):
            incumbent = given
        else:
            values = np.asarray(given)
            if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
                raise ScheduleError(
                    "options['incumbent'] must be a Schedule or a list with the core of each slice"
                )
            incumbent = self._machine.local_schedule(values)
        if (incumbent.routing, incumbent.data) != ("core", "slice"):
            raise ScheduleError(
                f"options['incumbent'] has routing {incumbent.routing!r} and data "
                f"{incumbent.data!r}: an episode starts from one core and node per slice"
            )
        self._machine.check_schedule(incumbent, self._slices)
        return incumbent

    def _need_episode(self) -> None:
        if self._incumbent is None:
            raise ResetNeeded("there is no episode yet: call reset() first")

    def _nearest(self, tile: int) -> int:
        """The legal tile nearest to a masked one; the first in a fixed order of the workers."""
        if self._remap is None:
            self._remap = _remap_order(self._machine)
        order = self._remap[tile]
        return int(order[np.argmax(self._mask.tiles[order])])

    def _ask(self, slice_: int, core: int) -> float:
        """The throughput of the present schedule, by whatever costs the backend least."""
        if self._incremental is None:
            seed = self._measure_seed + self._step
            return self._backend.measure(self.schedule, seed=seed).throughput
        if self._measure_every == 1:
            return self._incremental.move(slice_, core)
        return self._incremental.place(self.schedule)

    def _read(self, throughput: float) -> None:
        """Takes a reading of the present schedule; each step has its own, taken or not."""
        self._throughput = throughput * float(self._readings[self._step - 1])
        self._read_at = self._step

    def _finish(self) -> None:
        """Ends the episode and measures the schedule that it leaves."""
        self._running = False
        snapshot = self._backend.measure(self.schedule, seed=self._measure_seed + self._slices)
        # An episode may end at a schedule that was read already.
        if self._read_at < self._step:
            self._read(snapshot.throughput)
        throughput = self._throughput if self._noise else None
        noise = Noise(self._noise, (self._measure_seed, 2))
        self._final_snapshot = self._as_seen(noise.snapshot(snapshot, throughput))

    def _as_seen(self, snapshot: HardwareSnapshot) -> HardwareSnapshot:
        """A snapshot with the counters that may be read."""
        return snapshot if self._counters == "all" else snapshot.without_pmu()

    def _info(self) -> dict[str, Any]:
        assert self._incumbent_snapshot is not None
        if self._final_snapshot is None:
            shares = np.zeros(self._slices)
        else:
            shares = self._final_snapshot.slice_throughput[self._order]
        return {
            "action_mask": self._mask.tiles.view(np.int8).copy(),
            "illegal_actions": self._illegal_actions,
            "throughput": self._throughput,
            "incumbent_throughput": self._incumbent_snapshot.throughput,
            "slice": self._builder.next_slice,
            "tile": self._tile,
            "slice_throughput": shares,
        }


def _remap_order(machine: Machine) -> Int32Array:
    """(tiles, workers) int32: the worker tiles from nearest to farthest, for each tile."""
    tiles = np.arange(machine.tiles)
    rows, cols = np.divmod(tiles, machine.cols)
    core = machine.core_of_tile
    # A tile without a core has a node and a socket of its own, so that only distance decides.
    node = np.where(core >= 0, machine.node_of_core[core], -1)
    socket = np.where(core >= 0, machine.socket_of_node[node], -1)
    targets = np.flatnonzero(machine.worker_tiles)
    distance = abs(rows[:, None] - rows[targets]) + abs(cols[:, None] - cols[targets])
    other_node = node[:, None] != node[targets]
    other_socket = socket[:, None] != socket[targets]
    # The last key sorts first; equal ones stay in order of the tile's number.
    order = np.lexsort((distance, other_socket, other_node), axis=-1)
    return targets[order].astype(np.int32)


def _check_name(kind: str, name: object, known: Any) -> None:
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)


def _check_whole(name: str, value: object, minimum: int, maximum: float = float("inf")) -> None:
    # NumPy's integers are refused: Gymnasium cannot write them to an environment's JSON form.
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        limit = "" if maximum == float("inf") else f" to {maximum}"
        raise DescriptionError(
            f"{name} = {value!r}: must be a plain whole number from {minimum}{limit}"
        )


def _check_object(name: str, value: object) -> None:
    if value is None:
        return
    try:
        plain = isinstance(value, dict) and bool(json.dumps(value))
    except (TypeError, ValueError):
        plain = False
    if not plain:
        raise DescriptionError(f"{name} = {value!r}: must be None or a dict of plain JSON")


def relabelled(schedule: Schedule, machine: Machine, rng: np.random.Generator) -> Schedule:
    """The same schedule on other nodes and workers, so that no two incumbents are alike.

    Nodes with as many workers trade places, and so do the workers of a node. Without this the
    schedules that follow a rule would be the same in every episode.
    """
    workers = machine.workers
    node = machine.node_of_core[workers]
    counts = np.bincount(node, minlength=machine.nodes)
    target = np.arange(machine.nodes)
    for count in np.unique(counts):
        alike = np.flatnonzero(counts == count)
        target[alike] = rng.permutation(alike)
    core = np.arange(machine.cores, dtype=np.int32)
    for n in range(machine.nodes):
        core[workers[node == n]] = rng.permutation(workers[node == target[n]])
    return machine.local_schedule(core[schedule.cores])
