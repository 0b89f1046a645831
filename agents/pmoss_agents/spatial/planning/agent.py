"""Agents that plan a whole episode at its beginning, from the counters of all slices."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.checks import allowed_actions, check_keys
from pmoss_agents.network_agent import NetworkAgent
from pmoss_agents.pytorch import nn, torch
from pmoss_agents.spatial.base import SpatialAgent, bare_env, task_of
from pmoss_agents.spatial.planning.planner import cleaned
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_agents.weights import torch_threads
from pmoss_env.context import Context
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.memory import nearest_nodes, relocated
from pmoss_env.types import COUNTER_INDEX, Int32Array


class Trials(NamedTuple):
    """What may be measured.

    Attributes:
        measure: runs a schedule, (slices,) the worker of each; returns its (slices, H) counters.
        budget: how often.
    """

    measure: Callable[[Array], Array]
    budget: int


class PlanningAgent(SpatialAgent, NetworkAgent[Any]):
    """Plans at the first step, from the counters under the incumbent.

    So it needs ``observation="complete"``, or the episode's context by plan(). It acts on every
    machine. Its config has ``threads``, of torch; with a network of its own also ``learning_rate``
    and ``weight_decay``.
    """

    TASK = ("counters",)
    any_machine = True

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._machine: Machine | None = None
        self._topology: Topology | None = None
        # What the environment allows beside its masks: slices that a core may get, and (nodes,)
        # slices whose data fit on each node; None: any number.
        self._max_per_core: int | None = None
        self._room: Int32Array | None = None
        self._tiles: Array | None = None
        self._nodes: Array | None = None
        # What act() planned from: bytes of counters and tiles; None after plan().
        self._planned_from: tuple[bytes, bytes] | None = None

    @abstractmethod
    def schedule(
        self, counters: Array, columns: Array, max_per_core: int | None, trials: Trials | None
    ) -> Array:
        """(slices,) the worker of each slice, on the machine of use().

        Args:
            counters: (slices, H) float32 of cleaned() under the incumbent; those that it learned
                from.
            columns: (slices,) the worker of each slice in the incumbent.
            max_per_core: slices that a core may get; None: any number.
            trials: what may be measured; None: nothing.
        """

    def task_of(self, dataset: Any) -> dict[str, Any]:
        """Only the counters: any machine, number of slices and order will do."""
        return {"counters": task_of(dataset, plans=True)["counters"]}

    def new_optimiser(self, network: nn.Module) -> torch.optim.AdamW:
        """See NetworkAgent.new_optimiser."""
        rate, decay = self.config.learning_rate, self.config.weight_decay
        return torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)

    @property
    def topology(self) -> Topology:
        """The topology of the machine to plan for; CheckpointError before use()."""
        if self._topology is None:
            raise CheckpointError(f"{self.name}: call check_env(env) first: it acts anywhere")
        return self._topology

    def use(self, machine: Machine) -> None:
        """Takes the machine to plan for."""
        if self._topology is None or machine is not self._machine:
            self.reset()
            self._machine, self._topology = machine, Topology(machine)
            self._max_per_core = self._room = None

    def check_env(self, env: Any) -> None:
        """Takes the environment's machine, any will do, and its constraints: act() keeps them.

        Raises:
            CheckpointError: it is a vector of environments, or none of spatial scheduling.
        """
        bare = bare_env(self.name, env)
        if (machine := getattr(bare, "machine", None)) is None:
            raise CheckpointError(
                f"{self.name}: {type(bare).__name__} has no machine to plan for: give it "
                "gymnasium.make('pmoss/SpatialScheduling-v0', ...)"
            )
        self.use(machine)
        self._max_per_core = self._room = None
        if (session := getattr(bare, "session", None)) is not None:
            self._max_per_core, self._room = session.max_slices_per_core, session.slices_of_node

    def reset(self) -> None:
        """Begins an episode."""
        self._tiles = self._nodes = self._planned_from = None

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans an episode from its context, as a baseline does.

        Args:
            context: of the episode; it measures as often as ``measurements`` allows.

        Raises:
            CheckpointError: nothing was learned yet.
            DescriptionError: nothing runs that could have been measured; or it is no Context.
        """
        if not isinstance(context, Context):
            raise DescriptionError(
                f"{self.name}: plan() takes a Context, which env.unwrapped.context(rng) gives, and "
                f"no {type(context).__name__}"
            )
        if context.snapshot is None or context.incumbent is None:
            raise DescriptionError(f"{self.name}: needs an incumbent and its snapshot")
        machine, measurements = context.machine, context.measurements
        self.use(machine)
        self.reset()
        trials: Trials | None = None
        if measurements is not None:

            def measure(columns: Array) -> Array:
                schedule = context.local_schedule(machine.workers[columns])
                return self._own_counters(observed_counters(measurements.measure(schedule)))

            trials = Trials(measure, measurements.left)
        self._tiles = self._planned_tiles(
            observed_counters(context.snapshot),
            machine.tile_of_core[context.incumbent.cores],
            context.max_slices_per_core,
            trials,
        )
        # What nodes cannot hold goes elsewhere.
        schedule = context.local_schedule(machine.core_of_tile[self._tiles])
        self._tiles, self._nodes = machine.tile_of_core[schedule.cores], schedule.nodes

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act. Where actions name nodes, data are local as far as these have room.

        It plans anew where the observation is of another episode than the last one.

        Raises:
            CheckpointError: the observation lacks a key, or check_env() was not called.
            DescriptionError: a value that no such environment shows, or a mask that allows nothing.
        """
        plans = self._tiles is None or self._planned_from is not None
        needed = ["slice", *(["slice_counters", "incumbent_tiles"] if plans else [])]
        needed += ["position_mask"] if action_mask is None else []
        check_keys(self.name, observation, needed, "complete")
        chooses_node = "node_mask" in observation
        if plans:
            counters = np.asarray(observation["slice_counters"])
            tiles = np.asarray(observation["incumbent_tiles"])
            shown = counters.tobytes(), tiles.tobytes()
            if shown != self._planned_from:
                self._tiles, self._nodes = self._limited_tiles(counters, tiles, chooses_node), None
                self._planned_from = shown
        assert self._tiles is not None and self._machine is not None
        slice_ = self._slice_of(observation)
        tile = int(self._tiles[slice_])
        if chooses_node:
            return self._with_node(observation, slice_, tile, action_mask)
        mask = observation["position_mask"] if action_mask is None else action_mask
        allowed = allowed_actions(self.name, mask, self._machine.tiles)
        return tile if allowed[tile] else int(allowed.argmax())

    def _slice_of(self, observation: Observation) -> int:
        """The slice that is placed next."""
        assert self._tiles is not None
        shown, slices = np.asarray(observation["slice"]), self._tiles.size
        is_number = shown.size == 1 and shown.dtype.kind in "iuf"
        place = float(shown.reshape(-1)[0]) * slices if is_number else math.nan
        if not -0.5 < place < slices - 0.5:  # nor is NaN
            raise DescriptionError(
                f"{self.name}: observation['slice'] = {shown}: must be one number, i / {slices} "
                "for slice i; from 1 on all are placed: call env.reset()"
            )
        return round(place)

    def _limited_tiles(self, counters: Array, tiles: Array, chooses_node: bool) -> Array:
        """_planned_tiles() within the limits of the environment.

        Where actions choose nodes, the data alone leave a full one, see _with_node().
        """
        planned = self._planned_tiles(counters, tiles, self._max_per_core)
        if self._room is None or chooses_node:
            return planned
        assert self._machine is not None
        schedule = relocated(
            self._machine,
            self._machine.core_of_tile[planned],
            self._room,
            counters[:, COUNTER_INDEX["queries"]].astype(np.float64),
            self._max_per_core,
        )
        relocated_tiles: Array = self._machine.tile_of_core[schedule.cores]
        return relocated_tiles

    def _with_node(
        self, observation: Observation, slice_: int, tile: int, action_mask: Array | None
    ) -> int:
        """The action for a tile and the node nearest to it that has room."""
        assert self._machine is not None
        machine, nodes = self._machine, np.asarray(observation["node_mask"])
        if action_mask is None:
            action_mask = np.asarray(observation["position_mask"]).reshape(-1, 1) * nodes
        actions = machine.tiles * machine.nodes
        allowed = allowed_actions(self.name, action_mask, actions).reshape(-1, machine.nodes)
        if not allowed[tile].any():
            tile = int(allowed.any(1).argmax())
        node = int(machine.node_of_core[machine.core_of_tile[tile]])
        if self._nodes is not None:
            node = int(self._nodes[slice_])
        if not allowed[tile, node]:
            nearest = nearest_nodes(machine)[node]
            node = int(nearest[allowed[tile][nearest].argmax()])
        return tile * machine.nodes + node

    def _planned_tiles(
        self,
        counters: Array,
        tiles: Array,
        max_per_core: int | None = None,
        trials: Trials | None = None,
    ) -> Array:
        """(slices,) the tile of each, given (slices, H) counters and tiles of the incumbent."""
        if not self.task:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        topology, learned = self.topology, len(self.task["counters"])
        if counters.ndim == 3:
            raise DescriptionError(
                f"{self.name}: an observation of {len(counters)} environments at once: it plays "
                "one: give an agent of its own to each, and {key: value[i] for each key} of row i"
            )
        numbers = counters.dtype.kind in "biuf" and tiles.dtype.kind in "iu"
        if not numbers or counters.ndim != 2 or not tiles.shape == counters.shape[:1] > (0,):
            raise DescriptionError(
                f"{self.name}: counters of shape {counters.shape} and type {counters.dtype} for "
                f"{tiles.size} slices, on tiles of shape {tiles.shape} and type {tiles.dtype}: "
                "must be (slices, counters) and (slices,) numbers"
            )
        if counters.shape[1] < learned:
            raise DescriptionError(
                f"{self.name}: {counters.shape[1]} counters of each slice: it was fitted for "
                f"{learned}"
            )
        if not 0 <= tiles.min() <= tiles.max() < topology.column.size:
            raise DescriptionError(
                f"{self.name}: the incumbent's tiles lie in [{tiles.min()}, {tiles.max()}], but "
                f"the machine has {topology.column.size}: the snapshot is of another machine"
            )
        counters = cleaned(self._own_counters(counters))
        if len(counters) > 1 and (counters == counters[0]).all():
            warnings.warn(
                f"{self.name}: the counters of all slices are {'the same' if counters.any() else 0}"
                ": they tell no slice from another, so the plan follows from topology and "
                "incumbent alone; pmoss doctor says which counters a host has",
                RuntimeWarning,
                stacklevel=2,
            )
        # What ran where no worker is counts as if it had run on the first one.
        columns = np.maximum(topology.column[tiles], 0)
        with torch_threads(self.config.threads):
            chosen = self.schedule(counters, columns, max_per_core, trials)
        return topology.tiles[chosen]

    def _own_counters(self, counters: Array) -> Array:
        """The counters that it learned from: others are added at the end of their table."""
        return counters[:, : len(self.task["counters"])]
