"""One policy in one episode at every budget of measurements."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.references import world_of
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.policies import Measured, Policy
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import (
    Context,
    answer_after,
    best_fit,
    lpt,
    lpt_capacity,
    measured_search,
    random,
)
from pmoss_env.errors import DatasetError
from pmoss_env.machines import Machine
from pmoss_env.types import Schedule

#: Evaluations of the episode's backend.
BUDGETS = (0, 1, 3, 10, 30, 100, 300, 2000)
#: Rules need no measurement beyond the incumbent's.
RULES: Mapping[str, Callable[[Context], Schedule]] = {
    "random": random,
    "lpt": lpt,
    "lpt-capacity": lpt_capacity,
    "best-fit": best_fit,
}
#: Local search by its own readings, from a rule's schedule.
SEARCHES: Mapping[str, Callable[[Context], Schedule]] = {
    "lpt + search": lpt,
    "best-fit + search": best_fit,
}
#: The stream of chance of a rule or search under an episode's seed, as when it plays an episode.
_STREAM = 2


@dataclass(frozen=True)
class BudgetCell:
    """One policy in one episode.

    Attributes:
        task: name.
        policy: a rule, a search or an agent.
        seed: of the agent's training; 0 for others.
        noise: strength of the noise on every reading.
        episode: number within the evaluation seed.
    """

    task: str
    policy: str
    seed: int
    noise: float
    episode: int

    @property
    def name(self) -> str:
        """E.g. "toy-btree-ycsb-a-busy-core/best-fit/0/1.0/7"."""
        return f"{self.agent}/{self.noise}/{self.episode}"

    @property
    def agent(self) -> str:
        """E.g. "toy-btree-ycsb-a-busy-core/surrogate/0"."""
        return f"{self.task}/{self.policy}/{self.seed}"


#: Gives the agent of a task and training seed by its name.
Agents = Callable[[str, str, int], Policy]


class BudgetWork:
    """Does cells in one process."""

    def __init__(
        self,
        evaluation_seed: int,
        agents: Agents | None = None,
        most: int = BUDGETS[-1],
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Takes what every cell needs.

        Args:
            evaluation_seed: of the episodes.
            agents: asked for a policy that is no rule and no search.
            most: the largest budget that agents get; some take long for each measurement.
            own: what decides an agent, by BudgetCell.agent; its rows tell it.
        """
        self._seed, self._agents, self._own = evaluation_seed, agents, own
        self._budgets = [budget for budget in BUDGETS if budget <= most]
        self._known: dict[tuple[str, str, int], Policy] = {}
        self._at: tuple[str, float] | None = None
        self._env: Any = None
        self._judge: Any = None
        self._backend: Any = None

    def __call__(self, cell: BudgetCell) -> dict[str, Any]:
        """Results as plain JSON.

        ``throughput`` has one value for each of BUDGETS, Mq/s without noise; of an agent for those
        that it got. A policy that measures nothing has one value. ``seconds`` is alike, and leaves
        out what the backend took; of a search it is that of the largest budget. ``schedules`` is
        there for agents alone, and ``agent`` where ``own`` tells it.
        """
        env_seed = self.begin(cell)
        if cell.policy in RULES:
            began = time.perf_counter()
            found = [RULES[cell.policy](self._context(env_seed))]
            seconds = [time.perf_counter() - began]
        elif cell.policy in SEARCHES:
            found, seconds = self._search(cell, env_seed)
        else:
            found, seconds = self._agent(cell, env_seed)
        told: dict[str, Any] = {
            "env_seed": env_seed,
            "throughput": [self.judged(schedule) for schedule in found],
            "seconds": [round(value, 5) for value in seconds],
        }
        if cell.policy not in RULES and cell.policy not in SEARCHES:
            told["schedules"] = [packed(schedule, self._env.machine) for schedule in found]
            if cell.agent in self._own:
                told["agent"] = self._own[cell.agent]
        return told

    def begin(self, cell: BudgetCell) -> int:
        """Begins the episode of a cell; returns its seed."""
        if self._at != (cell.task, cell.noise):
            self.close()
            domain = find_domain(FIRST_DOMAIN)
            world = world_of(load_task(cell.task).env)
            self._env = domain.make_env({**world, "observation": "complete", "noise": cell.noise})
            self._judge, self._at = domain.judge(self._env), (cell.task, cell.noise)
        env_seed = episode_seed(self._seed, cell.episode)
        self._env.reset(seed=env_seed)
        self._judge.begin()
        return env_seed

    @property
    def machine(self) -> Machine:
        """Of the present episode."""
        machine: Machine = self._env.machine
        return machine

    def judged(self, schedule: Schedule) -> float:
        """The true throughput on the present episode, Mq/s."""
        return float(self._judge.throughput(schedule))

    def close(self) -> None:
        """Releases the environment and its backends."""
        if self._env is not None:
            self._judge.close()
            self._env.close()
        if self._backend is not None:
            self._backend.close()
        self._env = self._judge = self._backend = self._at = None

    def _context(self, env_seed: int) -> Context:
        context: Context = self._env.context(np.random.default_rng((env_seed, _STREAM)))
        return context

    def _search(self, cell: BudgetCell, env_seed: int) -> tuple[list[Schedule], list[float]]:
        session = self._env.session
        if self._backend is None:
            self._backend = session.new_backend()
        self._backend.set_instance(session.instance)
        measurements = session.measurements(self._backend, BUDGETS[-1])
        began = time.perf_counter()
        context = replace(self._context(env_seed), measurements=measurements)
        answers = measured_search(context, SEARCHES[cell.policy](context))
        seconds = time.perf_counter() - began - measurements.seconds
        return [answer_after(answers, budget) for budget in BUDGETS], [seconds]

    def _agent(self, cell: BudgetCell, env_seed: int) -> tuple[list[Schedule], list[float]]:
        key = cell.task, cell.policy, cell.seed
        if key not in self._known:
            assert self._agents is not None
            self._known[key] = self._agents(cell.policy, cell.task, cell.seed)
        most = self._planned(self._known[key], self._budgets[-1], env_seed)
        # What measures nothing with all of it never does.
        fewer = self._budgets[:-1] if most[2] else []
        done = [self._planned(self._known[key], budget, env_seed) for budget in fewer]
        schedules, seconds, _ = zip(*done, most, strict=True)
        return list(schedules), list(seconds)

    def _planned(self, agent: Policy, budget: int, env_seed: int) -> tuple[Schedule, float, int]:
        """An agent's schedule with a budget, its own seconds, and the evaluations that it used."""
        policy = Measured(agent, budget)
        check_policy(policy, self._env)
        try:
            domain = find_domain(FIRST_DOMAIN)
            played = domain.play(self._env, policy, env_seed, self._judge)
        finally:
            policy.close()
        return self._env.schedule, played.seconds - policy.seconds, policy.used


def packed(schedule: Schedule, machine: Machine) -> str:
    """A schedule whose data follow the cores as a text: a byte per slice, the worker's number."""
    worker = np.full(machine.cores, 0, dtype=np.uint8)
    worker[machine.workers] = np.arange(machine.workers.size)
    return base64.b64encode(worker[schedule.cores].tobytes()).decode()


def unpacked(text: str, machine: Machine) -> Schedule:
    """The schedule of packed().

    Raises:
        DatasetError: it is none for this machine.
    """
    try:
        workers = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
        cores = machine.workers[workers].astype(np.int32)
    except (ValueError, IndexError) as error:
        raise DatasetError(f"a schedule: does not fit {machine.name}: {error}") from error
    return machine.local_schedule(cores)
