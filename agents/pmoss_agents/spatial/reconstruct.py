"""Reconstruct: any schedule, of which some slices are freed and placed anew while that helps.

Each round frees some slices of the current schedule: half of them from the fullest cores, the rest
at random. They go, in random order, each to the core that then ends earliest. Several such
candidates are made from one schedule. A surrogate judges them; or the backend measures the one that
the surrogate likes best, as often as the episode allows. What is better is kept.

This is large neighbourhood search behind a learned policy and with a learned judge. The search is
from Shaw, Using Constraint Programming and Local Search Methods to Solve Vehicle Routing Problems
(1998). Only the policy learns, by its own loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_agents.spatial.pair_policy import PairPolicy
from pmoss_agents.spatial.planning.agent import PlanningAgent, Trials
from pmoss_agents.spatial.planning.model import QUERIES
from pmoss_agents.spatial.planning.planner import Planner
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.trainer import Course
from pmoss_datasets import Dataset
from pmoss_env.errors import UnknownNameError
from pmoss_env.machines import Machine

_POLICIES: dict[str, type[PairPolicy] | type[Surrogate]] = {
    "pair-policy": PairPolicy,
    "surrogate": Surrogate,
}


@dataclass(frozen=True)
class Config(Settings):
    """What makes the first schedule, and how it is improved."""

    agent: ClassVar[str] = "reconstruct"

    policy: str = "pair-policy"  # "pair-policy" or "surrogate"
    # Of that agent's config. Its seed and its device are this one's where they are not named.
    settings: Mapping[str, Any] = field(default_factory=dict)
    freed: int = 12  # slices per candidate
    candidates: int = 16  # per round
    rounds: int = 8  # without measurements; with them, one round per measurement
    threads: int = 1  # of torch
    seed: int = 0  # of the policy and of what is freed
    device: str = "cpu"  # where it learns, see configs.DEVICES

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy not in _POLICIES:
            raise UnknownNameError("policy", self.policy, _POLICIES)
        self.check("settings", isinstance(self.settings, Mapping), "be a table")


def candidates(
    times: Array,
    schedule: Array,
    rng: np.random.Generator,
    *,
    freed: int,
    number: int,
    max_per_core: int | None = None,
) -> Array:
    """Frees slices and places them anew, several times from the same schedule.

    Args:
        times: (S, W) what each slice takes on each core.
        schedule: (S,) the core of each slice.
        max_per_core: slices that a core may get; None: any number.

    Returns:
        (number, S) the core of each slice.
    """
    slices, cores = times.shape
    every = np.arange(slices)
    busy = np.bincount(schedule, times[every, schedule], cores)
    count = np.bincount(schedule, minlength=cores)
    # Slices of fuller cores come first in the draw of the first half.
    full = busy[schedule] / max(busy.max(), 1e-30)
    changed = np.repeat(schedule[None], number, axis=0)
    for candidate in changed:
        hot = np.argsort(-(full**8) * rng.random(slices), kind="stable")[: -(-freed // 2)]
        free = np.unique(np.concatenate([hot, rng.choice(slices, min(slices, freed // 2), False)]))
        load, left = busy.copy(), count.copy()
        np.subtract.at(load, schedule[free], times[free, schedule[free]])
        np.subtract.at(left, schedule[free], 1)
        for slice_ in rng.permutation(free):
            ends = load + times[slice_]
            if max_per_core is not None:
                ends[left >= max_per_core] = np.inf
            core = int(ends.argmin())
            candidate[slice_] = core
            load[core] = ends[core]
            left[core] += 1
    return changed


class Reconstruct(PlanningAgent):
    """The agent; see the module's docstring.

    Attributes:
        policy: what makes the first schedule; it holds the surrogate that judges.
    """

    name = "reconstruct"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        own = self.config
        settings = {"seed": own.seed, "device": own.device, **own.settings}
        self.policy = _POLICIES[own.policy](**settings)

    @property
    def judge(self) -> Surrogate:
        """The surrogate that says what schedules are worth."""
        return self.policy if isinstance(self.policy, Surrogate) else self.policy.judge

    # ---- learning: only the policy does

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        self.policy.updates = self.updates
        with self.policy.course(dataset) as course:
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

    def schedule(
        self, counters: Array, columns: Array, max_per_core: int | None, trials: Trials | None
    ) -> Array:
        """See PlanningAgent.schedule."""
        start = self.policy.schedule(counters, columns, max_per_core, None)
        planner = self.judge.planner(counters, columns, max_per_core)
        return self.improved(start, planner, max_per_core, trials)

    def improved(
        self, start: Array, planner: Planner, max_per_core: int | None, trials: Trials | None
    ) -> Array:
        """Improves a schedule of any policy.

        Args:
            start: (S,) the worker of each slice.
            planner: of the judge; it observed the incumbent.
            max_per_core: slices that a core may get; None: any number.
            trials: what may be measured; None or a budget of 0: the judge alone decides.

        Returns:
            (S,) the worker of each slice.
        """
        config = self.config
        rng = np.random.default_rng([config.seed, start.size])
        sizes: dict[str, Any] = {
            "freed": min(config.freed, start.size),
            "number": config.candidates,
            "max_per_core": max_per_core,
        }
        best = start
        if trials is None or trials.budget < 1:
            worth = planner.worth(best)
            times = planner.times(best)
            for _ in range(config.rounds):
                changed = candidates(times, best, rng, **sizes)
                worths = planner.worths(changed)
                if worths.max() > worth:
                    best, worth = changed[int(worths.argmax())], float(worths.max())
                    times = planner.times(best)
            return best
        best_rate, trial = -np.inf, start
        for _ in range(trials.budget):
            counters = trials.measure(trial)
            planner.observe(counters, trial)
            if (rate := float(np.nansum(counters[:, QUERIES]))) > best_rate:
                best, best_rate = trial, rate
            changed = candidates(planner.times(best), best, rng, **sizes)
            trial = changed[int(planner.worths(changed).argmax())]
        return best

    # ---- keeping

    def held(self) -> dict[str, PairPolicy | Surrogate]:
        """See NetworkAgent.held: all that is kept is the policy's."""
        return {"": self.policy}

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, values = super()._state()
        return arrays, {**values, "settings": asdict(self.policy.config)}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.policy = _POLICIES[self.config.policy](**values["settings"])
        super()._restore(arrays, values)
