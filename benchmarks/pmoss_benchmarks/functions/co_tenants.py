"""What knowing about co-tenants is worth on this host: LPT against LPT that reads core speeds.

Real threads disturb a core, a cache or a node while the index runs. Both schedules are made from
the same snapshot and measured in turn, so that what drifts meets both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.study.function import Cell, Row, Run, check_counts, check_names
from pmoss_datasets.evaluation import bootstrap_interval
from pmoss_env.backends import make_backend
from pmoss_env.interference import possible_targets
from pmoss_env.measuring import measure_schedules
from pmoss_env.types import CO_TENANT_FAMILIES, CoTenant, Instance

MEASURES_HOST = True
SCHEDULES = ("lpt", "lpt-capacity")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        families: of co-tenants.
        loads: how queries are offered. A co-tenant that spins has the core for whole turns of the
            kernel's scheduler, 3 to 4 ms. With many queries in flight the other cores go on
            meanwhile; with few they soon wait for that one.
        rounds: both schedules are measured in each.
        strength: of the co-tenant, between 0 and 1.
        slices: of the index.
        options: of the hardware backend.
    """

    AXES: ClassVar = ("families", "loads")

    families: tuple[str, ...] = ("busy_core", "cache_thrash", "memory_stream")
    loads: tuple[str, ...] = ("closed", "closed:4096")
    rounds: int = 7
    strength: float = 0.6
    slices: int = 64
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names("family of co-tenants", self.families, CO_TENANT_FAMILIES)
        check_counts(self, "rounds", least=2)


def cells(settings: Settings) -> list[Cell]:
    """Every family under every load."""
    pairs = product(settings.families, settings.loads)
    return [{"family": family, "load": load} for family, load in pairs]


def measure(run: Run, cell: Cell) -> Row:
    """Both schedules in every round, beside a co-tenant on the family's last target.

    Returns:
        ``target``: the core, last-level domain or node that is disturbed. ``lpt_mq_per_s`` and
        ``capacity_mq_per_s`` of each round. ``ratio``: mean over the rounds of the second by the
        first, with its 95 % bootstrap ``interval``.

    Raises:
        BackendError: this host has nothing that the family could disturb, or a measurement failed.
    """
    settings, family = run.settings, cell["family"]
    backend = make_backend(
        "hardware",
        machine="host",
        workload="ycsb-a",
        slices=settings.slices,
        load=cell["load"],
        **settings.options,
    )
    try:
        target = int(possible_targets(family, backend.machine)[-1])
        backend.set_instance(Instance(1, (CoTenant(family, target, settings.strength),)))
        rounds = []
        for number in range(settings.rounds):
            snapshots = measure_schedules(backend, SCHEDULES, seed=number)
            rounds.append([snapshots[name].throughput for name in SCHEDULES])
    finally:
        backend.close()
    ratios = [capacity / lpt for lpt, capacity in rounds]
    return {
        "target": target,
        "lpt_mq_per_s": [lpt for lpt, _ in rounds],
        "capacity_mq_per_s": [capacity for _, capacity in rounds],
        "ratio": float(np.mean(ratios)),
        "interval": bootstrap_interval([np.array([ratio]) for ratio in ratios]),
    }
