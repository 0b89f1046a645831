"""Reconstruct: any schedule, of which some slices are freed and placed anew while that helps.

Each round frees some slices of the current schedule: half of them from the fullest cores, the rest
by chance. They go, in an order of chance, each to the core that then ends earliest. Several such
candidates are made from one schedule. A surrogate judges them; or the backend measures the one that
the surrogate likes best, as often as the episode allows. What is better is kept.

This is large neighbourhood search behind a learned policy and with a learned judge. The search is
from Shaw, Using Constraint Programming and Local Search Methods to Solve Vehicle Routing Problems
(1998).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.configs import LATER, checker
from pmoss_agents.spatial.pair_policy import PairPolicy
from pmoss_agents.spatial.planning_agent import Measured, PlanningAgent
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.spatial.surrogate_planner import Planner
from pmoss_agents.spatial.throughput_model import QUERIES
from pmoss_agents.trainer import Course
from pmoss_datasets import Dataset
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.machines import Machine

_POLICIES: dict[str, type[PairPolicy] | type[Surrogate]] = {
    "pair-policy": PairPolicy,
    "surrogate": Surrogate,
}


@dataclass(frozen=True)
class Config:
    """What makes the first schedule, and how it is improved.

    Attributes:
        policy: "pair-policy" or "surrogate".
        settings: of that agent's config; its own where empty, but the seed and the device, which
            are this one's.
        freed: slices per candidate.
        candidates: per round.
        rounds: without measurements; with them, one round per measurement.
        threads: of torch.
        seed: of the policy and of what is freed.
        device: where the policy learns, one of configs.DEVICES.
    """

    policy: str = "pair-policy"
    settings: Mapping[str, Any] = field(default_factory=dict)
    freed: int = 12
    candidates: int = 16
    rounds: int = 8
    threads: int = 1
    seed: int = 0
    device: str = field(default="cpu", metadata=LATER)

    def __post_init__(self) -> None:
        checker(self.__class__.__module__, self)
        if self.policy not in _POLICIES:
            raise UnknownNameError("policy", self.policy, _POLICIES)
        if not isinstance(self.settings, Mapping):
            raise DescriptionError(f"settings = {self.settings!r}: must be a table")
        for name in ("freed", "candidates", "rounds"):
            if getattr(self, name) < 1:
                raise DescriptionError(f"{name} = {getattr(self, name)}: must be at least 1")


def candidates(
    times: Array,
    chosen: Array,
    rng: np.random.Generator,
    *,
    freed: int,
    number: int,
    most: int | None = None,
) -> Array:
    """Frees slices and places them anew, several times from the same schedule.

    Args:
        times: (S, W) what each slice takes on each core.
        chosen: (S,) the core of each slice.
        rng: the only source of chance.
        freed: slices per candidate.
        number: of candidates.
        most: slices that a core may get; None: any number.

    Returns:
        (number, S) the core of each slice.
    """
    slices, cores = times.shape
    every = np.arange(slices)
    busy = np.bincount(chosen, times[every, chosen], cores)
    count = np.bincount(chosen, minlength=cores)
    # Slices of fuller cores come first in the draw of the first half.
    full = busy[chosen] / max(busy.max(), 1e-30)
    found = np.repeat(chosen[None], number, axis=0)
    for candidate in found:
        hot = np.argsort(-(full**8) * rng.random(slices), kind="stable")[: -(-freed // 2)]
        free = np.unique(np.concatenate([hot, rng.choice(slices, min(slices, freed // 2), False)]))
        load, held = busy.copy(), count.copy()
        np.subtract.at(load, chosen[free], times[free, chosen[free]])
        np.subtract.at(held, chosen[free], 1)
        for slice_ in rng.permutation(free):
            ends = load + times[slice_]
            if most is not None:
                ends[held >= most] = np.inf
            core = int(ends.argmin())
            candidate[slice_] = core
            load[core] = ends[core]
            held[core] += 1
    return found


class Reconstruct(PlanningAgent, OfflineAgent[Dataset]):
    """The agent; see the module's docstring.

    Attributes:
        policy: what makes the first schedule; it holds the surrogate that judges.
    """

    name = "reconstruct"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.config: Config
        own = self.config
        settings = {"seed": own.seed, "device": own.device, **own.settings}
        self.policy = _POLICIES[own.policy](**settings)

    @property
    def judge(self) -> Surrogate:
        """The surrogate that says what schedules are worth."""
        return self.policy if isinstance(self.policy, Surrogate) else self.policy.judge

    # ---- learning: only the policy does

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """That of the policy."""
        return self.policy.task_of(dataset)

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        with self.policy._course(dataset) as course:
            self.task = self.policy.task

            def step(update: int) -> Any:
                self.policy.updates = update + 1
                return course.step(update)

            yield Course(step, course.total, course.save_every)

    # ---- acting

    def use(self, machine: Machine) -> None:
        """Takes the machine to plan for."""
        super().use(machine)
        self.policy.use(machine)
        self.judge.use(machine)

    def _planned(
        self, counters: Array, columns: Array, most: int | None, measured: Measured | None
    ) -> Array:
        start = self.policy._planned(counters, columns, most, None)
        planner = self.judge.planner(counters, columns, most)
        return self.improved(start, planner, most, measured)

    def improved(
        self, start: Array, planner: Planner, most: int | None, measured: Measured | None
    ) -> Array:
        """Improves a schedule of any policy.

        Args:
            start: (S,) the worker of each slice.
            planner: of the judge; it saw the incumbent.
            most: slices that a core may get; None: any number.
            measured: what may be measured; None or a budget of 0: the judge alone decides.

        Returns:
            (S,) the worker of each slice.
        """
        config = self.config
        rng = np.random.default_rng([config.seed, start.size])
        sizes = {"freed": min(config.freed, start.size), "number": config.candidates}
        best = start
        if measured is None or measured[1] < 1:
            worth = planner.worth(best)
            times = planner.times(best)
            for _ in range(config.rounds):
                found = candidates(times, best, rng, most=most, **sizes)
                worths = planner.worths(found)
                if worths.max() > worth:
                    best, worth = found[int(worths.argmax())], float(worths.max())
                    times = planner.times(best)
            return best
        measure, budget = measured
        reading, trial = -np.inf, start
        for _ in range(budget):
            counters = measure(trial)
            planner.saw(counters, trial)
            if (now := float(np.nansum(counters[:, QUERIES]))) > reading:
                best, reading = trial, now
            found = candidates(planner.times(best), best, rng, most=most, **sizes)
            trial = found[int(planner.worths(found).argmax())]
        return best

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, values = self.policy._state()
        return arrays, {**values, "updates": self.updates, "settings": asdict(self.policy.config)}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.policy = _POLICIES[self.config.policy](**values["settings"])
        self.policy.task = self.task
        self.policy._restore(arrays, values)
        self.updates = self.policy.updates
