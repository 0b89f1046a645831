"""The starts of episodes: an instance and its first schedule, random by a rule, or given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pmoss_env.baselines import STATIC_BASELINES, Context, make_baseline
from pmoss_env.envs.base import SEEDS
from pmoss_env.envs.spatial.arguments import MIXTURE, Arguments
from pmoss_env.errors import ScheduleError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.machines import Machine
from pmoss_env.memory import check_memory, spilled
from pmoss_env.types import Instance, Int32Array, Schedule


class Drawn(NamedTuple):
    """The random start of an episode; ``seed`` is that of its noise."""

    instance: Instance
    incumbent: Schedule
    seed: int


class Starts:
    """Draws the starts of an environment's episodes, also while the episode before still runs.

    Attributes:
        was_ahead: whether the latest start had been drawn ahead.
    """

    def __init__(self, arguments: Arguments, machine: Machine, room: Int32Array | None) -> None:
        """Draws nothing yet.

        Args:
            arguments: of the environment.
            machine: the server.
            room: (N,) limit of slices' data per node; None: no limit.
        """
        self._arguments, self._machine, self._room = arguments, machine, room
        # A start that was drawn ahead, and the generator's state before and after.
        self._ahead: tuple[Drawn, Any, Any] | None = None
        self.was_ahead = False

    def draw(self, rng: np.random.Generator, options: Mapping[str, Any] | None) -> Drawn:
        """The next start; the one drawn ahead, if it is what would be drawn now.

        Args:
            rng: of the environment.
            options: of reset(), checked.

        Raises:
            ScheduleError: an incumbent that the machine cannot run.
        """
        ahead, self._ahead = self._ahead, None
        self.was_ahead = False
        bits = rng.bit_generator
        if ahead is None or options or not isinstance(bits, np.random.PCG64):
            return self._draw(rng, options)
        drawn, before, after = ahead
        if bits.state != before:
            return self._draw(rng, options)
        bits.state = after
        self.was_ahead = True
        return drawn

    def draw_ahead(self, rng: np.random.Generator) -> Drawn | None:
        """The start that draw() gives next, unless ``rng`` changes before; it stays as it is.

        None for generators of other kinds than Gymnasium's.
        """
        bits = rng.bit_generator
        if not isinstance(bits, np.random.PCG64):
            return None
        before = bits.state
        drawn = self._draw(rng, None)
        self._ahead = drawn, before, bits.state
        bits.state = before
        return drawn

    def _draw(self, rng: np.random.Generator, options: Mapping[str, Any] | None) -> Drawn:
        arguments, machine = self._arguments, self._machine
        workload_seed = int(rng.integers(SEEDS))
        if arguments.workload_seed is not None:
            workload_seed = arguments.workload_seed
        co_tenants = draw_co_tenants(arguments.interference, machine, rng)
        seed = int(rng.integers(SEEDS))
        given = (options or {}).get("incumbent")
        if given is None:
            name, slices = arguments.incumbent, arguments.slices
            incumbent = drawn_incumbent(name, machine, slices, rng, self._room)
        else:
            incumbent = given_incumbent(given, machine, arguments.slices, self._room)
        return Drawn(Instance(workload_seed, co_tenants), incumbent, seed)


def drawn_incumbent(
    name: str,
    machine: Machine,
    slices: int,
    rng: np.random.Generator,
    room: Int32Array | None = None,
) -> Schedule:
    """A random incumbent; data of full nodes lie on the next nodes with room.

    Args:
        name: one of STATIC_BASELINES, or "mixture": a random one.
        room: (N,) limit of slices' data per node; None: no limit.
    """
    if name == MIXTURE:
        name = STATIC_BASELINES[int(rng.integers(len(STATIC_BASELINES)))]
    schedule = make_baseline(name)(Context(machine, slices, rng=rng))
    drawn = relabelled(schedule, machine, rng)
    return drawn if room is None else spilled(machine, drawn.cores, room)


def given_incumbent(
    given: object, machine: Machine, slices: int, room: Int32Array | None = None
) -> Schedule:
    """The incumbent of ``options={"incumbent": given}``.

    Raises:
        ScheduleError: it overfills a node, or the machine cannot start an episode with it.
    """
    if isinstance(given, Schedule):
        incumbent = given
    else:
        values = np.asarray(given)
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise ScheduleError(
                "options['incumbent'] must be a Schedule or a list with the core of each slice"
            )
        incumbent = spilled(machine, values, room)
    if (incumbent.routing, incumbent.data) != ("core", "slice"):
        raise ScheduleError(
            f"options['incumbent'] has routing {incumbent.routing!r} and data "
            f"{incumbent.data!r}: an episode starts from one core and node per slice"
        )
    machine.check_schedule(incumbent, slices)
    check_memory(machine, incumbent, room)
    return incumbent


def relabelled(schedule: Schedule, machine: Machine, rng: np.random.Generator) -> Schedule:
    """The same schedule on permuted nodes and workers, so that incumbents differ.

    Nodes with equally many workers are permuted, and so are the workers of a node. Otherwise the
    schedules of a rule would be the same in every episode.
    """
    workers = machine.workers_of_node
    target = np.arange(machine.nodes)
    for same_size in machine.nodes_alike:
        target[same_size] = rng.permutation(same_size)
    core = np.arange(machine.cores, dtype=np.int32)
    rows = machine.worker_rows
    if rows is not None:  # all draws in one call: they are the same
        core[rows] = rng.permuted(rows[target], axis=1)
    else:
        for n, other in enumerate(target.tolist()):
            core[workers[n]] = rng.permutation(workers[other])
    return machine.local_schedule(core[schedule.cores])
