"""The demo's first part: an index on this host is re-scheduled while it serves, and is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmoss_env.backends import make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import LiveRuntime
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.types import HardwareSnapshot

#: The schedule that the index begins with, and the one that it is given while it serves.
SCHEDULES = ("grouped", "lpt")
#: Longest bar of the live view.
_WIDTH = 40


@dataclass(frozen=True)
class Watched:
    """Rounds of the live run under one schedule.

    Attributes:
        throughputs: of each round, Mq/s.
        snapshot: of the last one.
    """

    throughputs: tuple[float, ...]
    snapshot: HardwareSnapshot


@dataclass(frozen=True)
class Host:
    """What was seen on this host.

    Attributes:
        schedules: rounds by the schedule's name, in the order in which they ran.
        lost: queries that were sent and never answered.
        roles_share_cores: whether routers, workers and sweepers had to share cores.
    """

    schedules: dict[str, Watched]
    lost: int
    roles_share_cores: bool


def watch_host(
    records: int,
    rounds: int,
    round_seconds: float,
    *,
    seed: int,
    progress: Callable[[str, int, int], None],
    on_round: Callable[[str], None],
) -> Host:
    """Serves from a B+-tree on this host, and changes its schedule meanwhile.

    Args:
        records: of the index.
        rounds: under each schedule.
        round_seconds: length of a round.
        seed: of keys, queries and schedules.
        progress: called with (stage, done, total).
        on_round: called with a line of text for every round.
    """
    backend = make_backend(
        "hardware",
        machine="host",
        workload="ycsb-a",
        load="closed",
        records=records,
        own_process=False,
        progress=lambda done: progress("load an index", done, records),
    )
    assert isinstance(backend, HardwareBackend)
    found: dict[str, Watched] = {}
    context = Context(backend.machine, backend.slices)
    schedule = make_baseline(SCHEDULES[0])(context)
    first = schedule
    try:
        with LiveRuntime(backend, sweep_seconds=round_seconds, seed=seed) as live:
            live.start(schedule)
            for number, name in enumerate(SCHEDULES):
                if number:
                    seen = found[SCHEDULES[0]].snapshot
                    rng = np.random.default_rng([seed, number])
                    context = Context(backend.machine, backend.slices, first, seen, rng, backend)
                    live.switch(make_baseline(name, shared=True)(context))
                snapshots: list[HardwareSnapshot] = []
                while len(snapshots) < rounds:
                    told = live.next_round(timeout=60)
                    # A round in which the schedule changed is of neither.
                    if told is None or told.switches < number or told.pending:
                        continue
                    snapshots.append(told.snapshot)
                    on_round(_in_words(name, told.snapshot.throughput))
                    progress("serve, re-schedule", number * rounds + len(snapshots), 2 * rounds)
                found[name] = Watched(tuple(one.throughput for one in snapshots), snapshots[-1])
            ended = live.stop()
    finally:
        backend.close()
    lost = int(ended["issued"] - ended["executed"])
    return Host(found, lost, bool(ended["roles_share_cores"]))


def _in_words(name: str, throughput: float) -> str:
    bar = "#" * min(_WIDTH, round(10 * throughput))
    return f"now on this host  {name:<8} {throughput:6.2f} Mq/s  {bar}"
