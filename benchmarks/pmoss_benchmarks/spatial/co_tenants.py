"""What knowing about co-tenants is worth on this host: LPT against LPT that reads core speeds.

Real threads disturb a core, a cache or a node while the index runs; both schedules are made from
the same snapshot and measured in turn, so that what drifts meets both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pmoss_benchmarks.report import write_report
from pmoss_datasets.evaluation import bootstrap_interval
from pmoss_env.backends import make_backend
from pmoss_env.interference import possible_targets
from pmoss_env.measuring import measure_schedules
from pmoss_env.provenance import MEASURED
from pmoss_env.types import CoTenant, Instance

FAMILIES = ("busy_core", "cache_thrash", "memory_stream")
SCHEDULES = ("lpt", "lpt-capacity")
#: A co-tenant that spins has the core for whole turns of the kernel's scheduler, 3 to 4 ms. With
#: many queries in flight the other cores go on meanwhile, with few they soon wait for that one.
LOADS = ("closed", "closed:4096")


@dataclass(frozen=True)
class Gain:
    """Throughput of both schedules beside one family of co-tenants.

    Attributes:
        family: of the co-tenants (pmoss_env.types.CO_TENANT_FAMILIES).
        target: the core, last-level domain or node that is disturbed.
        load: how queries are offered.
        lpt_mq_per_s: of each round.
        capacity_mq_per_s: of each round.
        ratio: mean over the rounds of the second by the first.
        interval: 95 % bootstrap interval of the ratio; None with a single round.
    """

    family: str
    target: int
    load: str
    lpt_mq_per_s: tuple[float, ...]
    capacity_mq_per_s: tuple[float, ...]
    ratio: float
    interval: tuple[float, float] | None

    @property
    def medians(self) -> tuple[float, float]:
        """Median throughput of both schedules, Mq/s."""
        return median(self.lpt_mq_per_s), median(self.capacity_mq_per_s)


def measure_gains(
    families: Sequence[str] | None,
    loads: Sequence[str] | None,
    *,
    rounds: int,
    out: Path | None = None,
    progress: Callable[[str], Callable[[int, int], None]] | None = None,
    **options: Any,
) -> list[Gain]:
    """Measures every family under every load.

    Args:
        families: of co-tenants; None: FAMILIES.
        loads: see measure_gain(); None: LOADS.
        rounds: of each.
        out: JSON file of the report.
        progress: called with a label before each; what it returns is called with (done, total).
        **options: of measure_gain().
    """
    gains = []
    for family, load in product(families or FAMILIES, loads or LOADS):
        told = progress(f"{family}, {load}") if progress else (lambda done, total: None)
        gains.append(
            measure_gain(
                family,
                rounds=rounds,
                load=load,
                on_round=lambda done, told=told: told(done, rounds),  # type: ignore[misc]
                **options,
            )
        )
    if out:
        write_report(out, [__name__], MEASURED, gains=[asdict(gain) for gain in gains])
    return gains


def measure_gain(
    family: str,
    *,
    rounds: int,
    strength: float = 0.6,
    slices: int = 64,
    load: str = "closed",
    options: Mapping[str, Any] | None = None,
    on_round: Callable[[int], None] | None = None,
) -> Gain:
    """Measures both schedules ``rounds`` times beside one co-tenant on the family's last target.

    Raises:
        BackendError: this host has nothing that the family could disturb, or a measurement failed.
    """
    backend = make_backend(
        "hardware",
        machine="host",
        workload="ycsb-a",
        slices=slices,
        load=load,
        **(options or {}),
    )
    try:
        target = int(possible_targets(family, backend.machine)[-1])
        backend.set_instance(Instance(1, (CoTenant(family, target, strength),)))
        measured: list[tuple[float, float]] = []
        for number in range(rounds):
            snapshots = measure_schedules(backend, SCHEDULES, seed=number)
            lpt, capacity = (snapshots[name].throughput for name in SCHEDULES)
            measured.append((lpt, capacity))
            if on_round:
                on_round(number + 1)
    finally:
        backend.close()
    ratios = [capacity / lpt for lpt, capacity in measured]
    low, high = bootstrap_interval([np.array([ratio]) for ratio in ratios])
    return Gain(
        family,
        target,
        load,
        tuple(lpt for lpt, _ in measured),
        tuple(capacity for _, capacity in measured),
        float(np.mean(ratios)),
        (low, high) if low is not None and high is not None else None,
    )
