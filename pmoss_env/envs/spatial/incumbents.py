"""The first schedules of episodes: random by a rule, or given."""

from __future__ import annotations

import numpy as np

from pmoss_env.baselines import STATIC_BASELINES, Context, make_baseline
from pmoss_env.envs.spatial.arguments import MIXTURE
from pmoss_env.errors import ScheduleError
from pmoss_env.machines import Machine
from pmoss_env.memory import check_memory, spilled
from pmoss_env.types import Int32Array, Schedule


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
        incumbent = spilled(machine, values.astype(np.int32), room)
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
