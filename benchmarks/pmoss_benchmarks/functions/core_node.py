"""What the choice of the data's node is worth: search with it against search without it.

Both searches have the same evaluations of the analytic model, the same episodes and the same limits
of memory. Without the choice, the data of a slice lie on its core's node. The simulated server
confirms what they found.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pmoss_benchmarks.spatial.combinations import simulation
from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_benchmarks.study.tables import means
from pmoss_env.backends import make_backend
from pmoss_env.baselines import local_search, make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.registration import CORE_NODE
from pmoss_env.types import Instance, Schedule

#: Rules that read the speeds of cores and memories; searches begin at the best of them.
RULES = ("lpt", "lpt-capacity", "best-fit")
#: What actions may choose, in the order of the environment's argument.
CHOICES = ("core", "core_node")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        tasks: ids of environments without their namespace; none: all whose actions choose nodes.
        instances: episodes per task, of seeds 1, 2, ...
        confirmed: how many of them the simulator checks.
        budget: model evaluations of each search.
        slices: fewer than the environment's, for a quick look; 0: as many.
        simulated: options of the simulated backend.
    """

    AXES: ClassVar = ("tasks",)

    tasks: tuple[str, ...] = ()
    instances: int = 5
    confirmed: int = 2
    budget: int = 4000
    slices: int = 0
    simulated: dict[str, Any] | None = None


def cells(settings: Settings) -> list[Cell]:
    """The tasks."""
    names = settings.tasks or [name.removeprefix("pmoss/") for name in CORE_NODE]
    return [{"task": name} for name in names]


def measure(run: Run, cell: Cell) -> Row:
    """The row of one task: means over its episodes, throughputs in Mq/s."""
    options = run.settings
    arguments = dict(CORE_NODE[f"pmoss/{cell['task']}"])
    if options.slices:
        arguments["slices"] = options.slices
    rows: list[dict[str, float]] = []
    for seed in range(1, options.instances + 1):
        row: dict[str, float] = {}
        schedules: dict[str, Schedule] = {}
        for actions in CHOICES:
            with closing(SpatialSchedulingEnv(**{**arguments, "actions": actions})) as env:
                env.reset(seed=seed)
                planned, schedules[actions] = _planned(env, seed, options.budget)
                row.update({f"{name}_{actions}": value for name, value in planned.items()})
                instance = env.instance
        chosen = schedules["core_node"]
        row["away"] = float((chosen.nodes != env.machine.node_of_core[chosen.cores]).mean())
        if seed <= options.confirmed:
            measured = _confirmed(arguments, instance, schedules, options.simulated)
            row.update({f"simulated_{name}": value for name, value in measured.items()})
        rows.append(row)
    mean = means(rows)
    gains = [row["search_core_node"] / row["search_core"] - 1 for row in rows]
    return {
        **mean,
        "gain": mean["search_core_node"] / mean["search_core"] - 1,
        "gains": gains,
        "simulated_gain": mean["simulated_core_node"] / mean["simulated_core"] - 1,
    }


def _planned(
    env: SpatialSchedulingEnv, seed: int, budget: int
) -> tuple[dict[str, float], Schedule]:
    """Throughputs of the best rule and of search, and the schedule that search found."""
    with closing(env.session.new_searchable_backend()) as backend:
        context = env.context(np.random.default_rng(seed), backend)
        rules = [make_baseline(name)(context) for name in RULES]
        best = max(rules, key=backend.place)
        rule = backend.place(best)
        result = local_search(context, budget, best)
        if not context.allows(result.schedule):
            raise AssertionError("search left the memory that there is")
        return {"rule": rule, "search": result.throughput}, result.schedule


def _confirmed(
    arguments: dict[str, Any],
    instance: Instance,
    schedules: dict[str, Schedule],
    options: dict[str, Any] | None,
) -> dict[str, float]:
    """Throughputs by the simulated server, Mq/s."""
    with closing(
        make_backend(
            "simulated",
            machine=arguments["machine"],
            workload=arguments.get("workload", "ycsb-a"),
            slices=arguments.get("slices", 256),
            **simulation(options),
        )
    ) as server:
        server.set_instance(instance)
        return {
            name: float(server.measure(schedule, seed=0).throughput)
            for name, schedule in schedules.items()
        }
