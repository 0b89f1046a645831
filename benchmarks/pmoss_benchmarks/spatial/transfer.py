"""Leave one machine out: a surrogate that learned on other machines plans on one that it never met.

One checkpoint per machine left out. It learns from the data of all other machines of the list, and
of made-up ones. Each policy plays the same episodes, and differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import read_config
from pmoss_benchmarks.spatial.against_rules import against_rules
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.policies import Measured, Policy, SchedulePolicy
from pmoss_datasets.several import Several
from pmoss_datasets.suite import obtain
from pmoss_env.baselines import Context, answer_after, best_fit, measured_search
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine
from pmoss_env.machines.random_machine import PARTLY_PREFIX, PREFIX, SMT_PREFIX
from pmoss_env.types import Schedule

#: The made-up machines are random:1000, random:1001, ..., random-smt:1500, random-smt:1501, ...,
#: and random-partly:2000, random-partly:2001, ...
_FIRST_MADE_UP, _FIRST_THREADED, _FIRST_PARTLY = 1000, 1500, 2000
#: What least_workers may be.
_MOST_LEAST = 64
#: Rules to be beaten.
RULES = ("best-fit", "lpt-capacity", "lpt")
_AGENT = "surrogate"


@dataclass(frozen=True)
class TransferOptions:
    """What a table depends on.

    Attributes:
        machines: each is left out once.
        made_up: machines that the generator makes, in the data of every checkpoint.
        threaded: made-up machines with two hardware threads per core, beside these.
        partly: made-up machines that use some of the second threads, beside these.
        least_workers: made-up machines with fewer are passed over.
        workload: of all.
        interference: of all.
        slices: of all.
        data: episodes of each machine's dataset, of the tier "mixed".
        episodes: of the evaluation.
        measurements: schedules that policies may run before they decide.
        budget: evaluations of the search that scores 100.
        changes: fields that override the agent's committed config.
        folder: where datasets are kept.
    """

    machines: tuple[str, ...]
    made_up: int = 4
    threaded: int = 0
    partly: int = 0
    least_workers: int = 1
    workload: str = "ycsb-a"
    interference: str = "busy_core"
    slices: int = 256
    data: int = 100
    episodes: int = 20
    measurements: int = 10
    budget: int = 2000
    changes: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""

    def __post_init__(self) -> None:
        if len(set(self.machines)) != len(self.machines):
            raise DescriptionError(f"machines = {list(self.machines)}: each must be named once")
        if len(self.machines) + self.made_up + self.threaded + self.partly < 2:
            raise DescriptionError("machines: with one left out, none is there to learn from")
        if self.least_workers > _MOST_LEAST:
            raise DescriptionError(
                f"least_workers = {self.least_workers}: must be at most {_MOST_LEAST}, for few "
                "made-up machines have more"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on: not where the data lie."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @property
    def learned_on(self) -> tuple[str, ...]:
        """The machines that some checkpoint learns on."""
        least = self.least_workers
        return (
            *(self.machines if len(self.machines) > 1 else ()),
            *_made_up(PREFIX, _FIRST_MADE_UP, self.made_up, least),
            *_made_up(SMT_PREFIX, _FIRST_THREADED, self.threaded, least),
            *_made_up(PARTLY_PREFIX, _FIRST_PARTLY, self.partly, least),
        )

    def env(self, machine: str) -> dict[str, Any]:
        """Arguments of the environment on a machine."""
        return {
            "machine": machine,
            "workload": self.workload,
            "interference": self.interference,
            "slices": self.slices,
        }


@dataclass(frozen=True)
class TransferCell:
    """One machine left out, in one training.

    Attributes:
        machine: that is left out, and then met.
        seed: of training.
    """

    machine: str
    seed: int = 0

    @property
    def name(self) -> str:
        """Decides the cell."""
        return f"{self.machine}/{self.seed}"


def measure_cell(options: TransferOptions, cell: TransferCell) -> dict[str, Any]:
    """Trains without the cell's machine and plays on it.

    Returns:
        ``trained_on``, the machines of the data, and what against_rules() says.
    """
    others = [name for name in options.learned_on if name != cell.machine]
    data = [data_of(options, name) for name in others]
    config = {**read_config(_AGENT, Recipe(env=options.env(cell.machine)).task), **options.changes}
    config.pop("agent", None)
    agent = pmoss_agents.make(_AGENT, **{**config, "seed": cell.seed})
    assert isinstance(agent, OfflineAgent)
    agent.fit(Several(data))
    most = options.measurements
    searched = Measured(SchedulePolicy(_search(most)), most)
    measured = Measured(agent, most)
    with closing(searched), closing(measured):
        policies: dict[str, Policy] = {
            _AGENT: agent,
            f"best-fit + search, {most}": searched,
            f"{_AGENT}, {most}": measured,
        }
        env, episodes = options.env(cell.machine), options.episodes
        found = against_rules(env, policies, RULES, episodes, budget=options.budget)
    return {"trained_on": others, **found}


def data_of(
    options: TransferOptions,
    machine: str,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 1,
) -> Dataset:
    """The dataset of a machine, as it lies there or made.

    Cells share datasets: call it for each before several processes do cells.

    Args:
        options: of the table.
        machine: of ``learned_on``.
        progress: as of collect().
        processes: as of collect().
    """
    recipe = Recipe(env=options.env(machine), episodes=options.data, reference_episodes=0)
    return obtain(recipe, Path(options.folder) / recipe.id, progress, processes=processes)


def _made_up(prefix: str, first: int, number: int, least_workers: int) -> Iterator[str]:
    """So many names, by rising seed, of machines that have so many workers."""
    names = (f"{prefix}{seed}" for seed in count(first))
    large = (name for name in names if load_machine(name).workers.size >= least_workers)
    return islice(large, number)


def _search(budget: int) -> Any:
    """Local search by its own readings from best-fit's schedule, stopped after so many."""

    def searched(context: Context) -> Schedule:
        return answer_after(measured_search(context, best_fit(context)), budget)

    return searched
