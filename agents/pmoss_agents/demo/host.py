"""The demo's first part: an index on this host is re-scheduled while it serves, and is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmoss_env.backends import make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.kernel_settings import switched, why_no_balancing
from pmoss_env.backends.live import LiveRuntime
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import PlatformError
from pmoss_env.machines import load_machine
from pmoss_env.measuring import BALANCED, BALANCING
from pmoss_env.types import HardwareSnapshot

#: The schedule that the index begins with, and the one that it is given while it serves.
SCHEDULES = (BALANCED, "lpt")
#: Longest bar of the live view.
_WIDTH = 40


@dataclass(frozen=True)
class Host:
    """Measurements on this host.

    Attributes:
        throughputs: of each round, Mq/s, by the schedule's name, in the order in which they ran.
            Linux's default also runs with automatic NUMA balancing off and on, where this process
            may switch it.
        lost: queries that were sent and never answered.
        roles_share_cores: whether routers, workers and sweepers had to share cores.
    """

    throughputs: dict[str, tuple[float, ...]]
    lost: int
    roles_share_cores: bool


def nothing_to_gain() -> str:
    """Why placement can gain nothing on this host, in a sentence; empty where it can."""
    try:
        nodes = load_machine("host").nodes
    except PlatformError as error:
        return f"No index runs on this host: {error}."
    return "" if nodes > 1 else "This host has one memory node, so placement gains nothing here."


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
        seed: of keys, queries and schedules.
        progress: called with (stage, done, total).
        on_round: called with a line of text for every round.
    """
    backend = make_backend(
        "hardware",
        machine="host",
        # Without inserts both schedules serve the same index.
        workload="lookups-zipf",
        load="closed",
        records=records,
        own_process=False,
        progress=lambda done: progress("load an index", done, records),
    )
    assert isinstance(backend, HardwareBackend)
    throughputs: dict[str, tuple[float, ...]] = {}
    context = Context(backend.machine, backend.slices)
    first = make_baseline(SCHEDULES[0], shared=True)(context)
    shown = list(SCHEDULES)
    if not why_no_balancing(backend.machine.nodes):
        shown[1:1] = BALANCING
    snapshot: HardwareSnapshot | None = None
    try:
        with LiveRuntime(backend, sweep_seconds=round_seconds, seed=seed) as live:
            live.start(first)
            switches = 0
            for number, name in enumerate(shown):
                if name in SCHEDULES[1:]:
                    switches += 1
                    rng = np.random.default_rng([seed, switches])
                    context = Context(
                        backend.machine, backend.slices, first, snapshot, rng, backend
                    )
                    live.switch(make_baseline(name, shared=True)(context))
                rates: list[float] = []
                with switched({"numa_balancing": BALANCING.get(name)}):
                    if name in BALANCING:
                        live.next_round(timeout=60)  # it began under another setting
                    while len(rates) < rounds:
                        passed = live.next_round(timeout=60)
                        # A round in which the schedule changed is of neither.
                        if passed is None or passed.switches < switches or passed.pending:
                            continue
                        snapshot = passed.snapshot
                        rates.append(snapshot.throughput)
                        bar = "#" * min(_WIDTH, round(10 * rates[-1]))
                        on_round(f"now on this host  {name:<8} {rates[-1]:6.2f} Mq/s  {bar}")
                        done = number * rounds + len(rates)
                        progress("serve, re-schedule", done, len(shown) * rounds)
                throughputs[name] = tuple(rates)
            ended = live.stop()
    finally:
        backend.close()
    lost = int(ended["issued"] - ended["executed"])
    return Host(throughputs, lost, bool(ended["roles_share_cores"]))
