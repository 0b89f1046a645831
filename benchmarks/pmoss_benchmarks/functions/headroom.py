"""Random, simple and searched schedules of one task, by the model and confirmed by the simulator.

Where the best simple schedule is nearly as good as the best that search finds, a learner has
nothing to gain over a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.spatial.combinations import Combined, model_and_server
from pmoss_benchmarks.study.function import Cell, Count, Row, Run
from pmoss_benchmarks.study.tables import means
from pmoss_env.backends import IncrementalBackend
from pmoss_env.baselines import (
    SHARED_BASELINES,
    Context,
    grouped_context,
    local_search,
    make_baseline,
)
from pmoss_env.interference import INTERFERENCE, draw_co_tenants
from pmoss_env.types import Instance, Schedule

#: What needs no idea: the paper's schedules, and LPT on the measured loads.
SIMPLE = ("grouped", "spread", "mixed", *SHARED_BASELINES, "lpt")
#: Rules that also read the speed of each core from the counters.
CAPACITY_RULES = ("lpt-capacity", "greedy-capacity")
#: Further rules that read counters. None asks the model.
OTHER_RULES = ("greedy", "best-fit", "two-level", "counter-threshold")
#: A task has headroom if search beats the best simple schedule by this share in both fidelities.
THRESHOLD = 0.10


@dataclass(frozen=True)
class Settings(Combined):
    """What the rows depend on.

    Attributes:
        indexes: only workloads of these kinds; none: of all.
        instances: workload instances (and draws of co-tenants) per task.
        confirmed: how many of them the simulator checks.
        random_schedules: per instance.
        budget: model evaluations of the search, per instance.
        slices: of the index.
        seed: of everything drawn.
        simulated: options of the simulated backend.
    """

    AXES: ClassVar = (*Combined.AXES, "indexes")

    workloads: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    interference: tuple[str, ...] = tuple(INTERFERENCE)
    instances: Count = 5
    confirmed: Count = 2
    random_schedules: Count = 20
    budget: Count = 4000
    slices: Count = 256
    seed: int = 1
    simulated: dict[str, Any] | None = None


def cells(settings: Settings) -> list[Cell]:
    """The tasks."""
    return settings.cells(settings.indexes)


def measure(run: Run, cell: Cell) -> Row:
    """The row of one task: means over instances, throughputs in Mq/s."""
    options = run.settings
    model, server = model_and_server(cell, options.slices, options.simulated)
    rows: list[dict[str, float]] = []
    names: list[tuple[str, str]] = []
    for i in range(options.instances):
        rng = np.random.default_rng([options.seed, i])
        instance = Instance(
            options.seed + i, draw_co_tenants(cell["interference"], model.machine, rng)
        )
        model.set_instance(instance)
        context = grouped_context(model, rng)
        simple = {name: make_baseline(name, shared=True)(context) for name in SIMPLE}
        rules = {name: make_baseline(name)(context) for name in CAPACITY_RULES}
        random = [
            model.place(make_baseline("random")(context)) for _ in range(options.random_schedules)
        ]
        best = _search(context, options.budget)
        # Behind the search, whose draws do not depend on them.
        rules |= {name: make_baseline(name)(context) for name in OTHER_RULES}
        by_model = {name: model.place(schedule) for name, schedule in {**simple, **rules}.items()}
        best_simple = max(SIMPLE, key=by_model.__getitem__)
        best_rule = max(rules, key=by_model.__getitem__)
        names.append((best_simple, best_rule))
        row = {
            "random": float(np.mean(random)),
            "simple": by_model[best_simple],
            "rule": by_model[best_rule],
            "search": model.place(best),
        }
        if i < options.confirmed:
            server.set_instance(instance)
            # The simulator may prefer another simple schedule: it gets its own best.
            row["simulated_simple"] = max(
                server.measure(schedule, seed=0).throughput for schedule in simple.values()
            )
            row["simulated_search"] = server.measure(best, seed=0).throughput
        rows.append(row)
    model.close()
    server.close()
    mean = means(rows)
    headroom = mean["search"] / mean["simple"] - 1
    confirmed = mean["simulated_search"] / mean["simulated_simple"] - 1
    return {
        **mean,
        "best_simple": _most_frequent([simple for simple, _ in names]),
        "best_rule": _most_frequent([rule for _, rule in names]),
        "headroom": headroom,
        "headroom_over_rules": mean["search"] / max(mean["simple"], mean["rule"]) - 1,
        "simulated_headroom": confirmed,
        "has_headroom": bool(min(headroom, confirmed) >= THRESHOLD),
    }


def _most_frequent(names: list[str]) -> str:
    return max(dict.fromkeys(names), key=names.count)


def _search(context: Context, budget: int) -> Schedule:
    """Local search from the best of LPT and the capacity-aware rules."""
    backend = context.backend
    assert isinstance(backend, IncrementalBackend)
    starts = [make_baseline(name)(context) for name in ("lpt", *CAPACITY_RULES)]
    start = max(starts, key=backend.place)
    return local_search(context, budget, start).schedule
