"""Policies, rules and searches at 0 to 2,000 measurements of the episode's backend.

A measurement is a schedule that runs, read with noise. Scores are of the true throughput.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents import find_policy
from pmoss_agents.configs import committed_config
from pmoss_benchmarks.functions.references import SEED, reference_rows, world_of
from pmoss_benchmarks.offline.training import trained
from pmoss_benchmarks.study.function import Cell, Count, Figure, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, grouped, interval
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed, paired_difference
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.policies import Measured, Policy
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import build, core_tasks, load_task
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
from pmoss_env.pictures import new_figure
from pmoss_env.types import Float64Array, Schedule

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
#: What every policy is compared with at the same budget.
OPPONENT = "best-fit + search"
#: The stream of chance of a rule or search under an episode's seed, as when it plays an episode.
_STREAM = 2


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        tasks: of spatial scheduling.
        noises: strengths of the noise on every reading.
        agents: by name a checkpoint, in whose path ``{task}`` and ``{seed}`` are replaced; empty:
            the agent of that name is trained on the task's data.
        seeds: trainings of each agent.
        episodes: of each task.
        evaluation_seed: of these episodes.
        most: the largest budget of agents; some take long for each measurement.
        tier: of the data.
        changes: fields that override the committed configs of agents.
    """

    AXES: ClassVar = ("tasks", "noises", "agents", "seeds")

    tasks: tuple[str, ...]
    noises: tuple[float, ...] = (0.0, 1.0)
    agents: dict[str, str] = field(default_factory=dict)
    seeds: Count = 1
    episodes: Count = 20
    evaluation_seed: int = SEED
    most: int = 10
    tier: str = "mixed"
    changes: dict[str, Any] = field(default_factory=dict)


def cells(settings: Settings) -> list[Cell]:
    """Every policy in every task under every noise."""
    policies = [(name, 0) for name in (*RULES, *SEARCHES)]
    policies += [(name, seed) for name in settings.agents for seed in range(settings.seeds)]
    return [
        {"task": task, "noise": noise, "policy": policy, "seed": seed}
        for task in settings.tasks
        for noise in settings.noises
        for policy, seed in policies
    ]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the references, and trains the agents that ``run.keep`` lacks."""
    settings = run.settings
    _references(run, settings.tasks, progress)
    needed = [cell for cell in cells(settings) if cell["policy"] in settings.agents]
    for done, cell in enumerate(needed):
        progress("agents", done, len(needed))
        agent_of(run, cell)


def _references(
    run: Run, tasks: Sequence[str], progress: Progress = silent
) -> dict[str, list[Row]]:
    """The searches behind score 100 in the episodes of some tasks."""
    first, episodes = run.settings.evaluation_seed, run.settings.episodes
    return reference_rows(run.results, run.keep, tasks, episodes, seed=first, progress=progress)


def agent_of(run: Run, cell: Cell) -> Policy:
    """The agent of a cell, trained where it is not there yet."""
    settings, name, task = run.settings, cell["policy"], cell["task"]
    if word := settings.agents[name]:
        return find_policy(word.replace("{task}", task).replace("{seed}", str(cell["seed"])))
    data = build(f"pmoss/{task}/{settings.tier}-v0", run.data)
    config = {**committed_config(name, task), **settings.changes, "seed": cell["seed"]}
    agent: Policy = pmoss_agents.load(trained(name, config, [data], run.keep), name)
    return agent


class Work:
    """Plays one policy after the other; the environment of a task is kept."""

    def __init__(self, run: Run) -> None:
        self._run, self._settings = run, run.settings
        self._at: tuple[str, float] | None = None
        self._env: Any = None
        self._judge: Any = None
        self._backend: Any = None

    def __call__(self, cell: Cell) -> Row:
        """The row of a policy.

        Returns:
            An entry for each episode: ``env_seed``; ``random`` and ``best``, throughputs of score 0
            and 100; ``throughput``, one value for each of BUDGETS, of an agent for those that it
            got, and one in all where nothing is measured. All in Mq/s, without noise. ``seconds``
            leave out what the backend took; of a search they are those of its largest budget.
            ``schedules`` are those of an agent, packed.
        """
        settings, name = self._settings, cell["policy"]
        references = _references(self._run, [cell["task"]])[cell["task"]]
        agent = agent_of(self._run, cell) if name in settings.agents else None
        kept = ("env_seed", "random", "best")
        row: Row = {key: [reference[key] for reference in references] for key in kept}
        row |= {"throughput": [], "seconds": []}
        for env_seed in row["env_seed"]:
            self.begin(cell, env_seed)
            if agent is not None:
                schedules, seconds = self._plan(agent, env_seed)
                texts = [packed(schedule, self._env.machine) for schedule in schedules]
                row.setdefault("schedules", []).append(texts)
            else:
                schedules, seconds = self._decide(name, env_seed)
            row["throughput"].append([self.true(schedule) for schedule in schedules])
            row["seconds"].append([round(value, 5) for value in seconds])
        return row

    def begin(self, cell: Mapping[str, Any], env_seed: int) -> None:
        """Begins an episode."""
        if self._at != (at := (cell["task"], cell["noise"])):
            self.close()
            domain, env = find_domain(FIRST_DOMAIN), load_task(cell["task"]).env
            shown = {"counters": env.get("counters", "all"), "noise": cell["noise"]}
            self._env = domain.make_env({**world_of(env), "observation": "complete", **shown})
            self._judge, self._at = domain.judge(self._env), at
        self._env.reset(seed=env_seed)
        self._judge.begin()

    def true(self, schedule: Schedule) -> float:
        """The throughput of a schedule in the present episode without noise, Mq/s."""
        return float(self._judge.throughput(schedule))

    def remeasured(self, row: Mapping[str, Any], number: int) -> list[float]:
        """Throughputs in an episode of a stored row, made again."""
        self.begin(row, env_seed := row["env_seed"][number])
        if "schedules" in row:
            schedules = [unpacked(text, self._env.machine) for text in row["schedules"][number]]
        else:
            schedules, _ = self._decide(row["policy"], env_seed)
        return [self.true(schedule) for schedule in schedules]

    def close(self) -> None:
        """Releases the environment and its backends."""
        if self._env is not None:
            self._judge.close()
            self._env.close()
        if self._backend is not None:
            self._backend.close()
        self._env = self._judge = self._backend = self._at = None

    def _decide(self, name: str, env_seed: int) -> tuple[list[Schedule], list[float]]:
        """Schedules of a rule, or of a search at every budget; and its seconds."""
        context = self._env.context(np.random.default_rng((env_seed, _STREAM)))
        began = time.perf_counter()
        if name in RULES:
            return [RULES[name](context)], [time.perf_counter() - began]
        session = self._env.session
        if self._backend is None:
            self._backend = session.new_backend()
        self._backend.set_instance(session.instance)
        measurements = session.measurements(self._backend, BUDGETS[-1])
        began = time.perf_counter()
        context = replace(context, measurements=measurements)
        answers = measured_search(context, SEARCHES[name](context))
        seconds = time.perf_counter() - began - measurements.seconds
        return [answer_after(answers, budget) for budget in BUDGETS], [seconds]

    def _plan(self, agent: Policy, env_seed: int) -> tuple[list[Schedule], list[float]]:
        """Schedules of an agent at every budget that it gets, and its seconds."""
        budgets = [budget for budget in BUDGETS if budget <= self._settings.most]
        last = self._plan_with(agent, budgets[-1], env_seed)
        # What measures nothing with all of it never does.
        fewer = budgets[:-1] if last[2] else []
        plans = [*(self._plan_with(agent, budget, env_seed) for budget in fewer), last]
        return [plan[0] for plan in plans], [plan[1] for plan in plans]

    def _plan_with(self, agent: Policy, budget: int, env_seed: int) -> tuple[Schedule, float, int]:
        """A schedule, the agent's own seconds, and the measurements that it used."""
        policy = Measured(agent, budget)
        check_policy(policy, self._env)
        try:
            played = find_domain(FIRST_DOMAIN).play(self._env, policy, env_seed, self._judge)
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


def again(run: Run, row: Row) -> Row:
    """Rules and searches decide anew; the stored schedules of agents are measured again."""
    episodes = range(len(row["env_seed"]))
    seed = run.settings.evaluation_seed
    remade: Row = {"env_seed": [episode_seed(seed, number) for number in episodes]}
    with closing(Work(run)) as work:
        remade["throughput"] = [work.remeasured(row, number) for number in episodes]
    return remade


def _throughputs(rows: Rows) -> Float64Array:
    """(seeds, episodes, budgets) Mq/s; what measures nothing has the same at each."""
    each = [
        [values * len(BUDGETS) if len(values) == 1 else values for values in row["throughput"]]
        for row in rows
    ]
    fewest = min(len(values) for row in each for values in row)
    return np.array([[values[:fewest] for values in row] for row in each])


def _scores(rows: Rows) -> Float64Array:
    """(seeds, episodes, budgets) scores."""
    low, high = (np.array([row[end] for row in rows])[:, :, None] for end in ("random", "best"))
    scores: Float64Array = 100 * (_throughputs(rows) - low) / (high - low)
    return scores


def _trainings(rows: Rows) -> dict[tuple[str, float], dict[str, list[Mapping[str, Any]]]]:
    """By task and noise, then by policy, the rows of its trainings."""
    worlds = grouped(rows, "task", "noise").items()
    return {world: grouped(of_world, "policy") for world, of_world in worlds}


def _scores_by_budget(rows: Rows) -> TableOfRows:
    """A line for each policy: its scores by budget."""
    worlds = _trainings(rows)
    lines = []
    for (task, noise), policies in worlds.items():
        world = [f"`{task}`", f"{noise:g}"] if len(worlds) > 1 else []
        for name, own in policies.items():
            texts = _intervals(name, own)
            lines.append([*world, name, *texts, *[""] * (len(BUDGETS) - len(texts))])
    heads = ["task", "noise"] if len(worlds) > 1 else []
    return TableOfRows([*heads, "policy", *(f">{budget:,}" for budget in BUDGETS)], lines)


def _intervals(name: str, rows: Rows) -> list[str]:
    """Means of a policy over episodes with their intervals, by budget."""
    scores = _scores(rows)
    trainings = None if name in {*RULES, *SEARCHES} else len(rows)
    means = [paired_difference(scores[:, :, budget]) for budget in range(scores.shape[2])]
    return [interval(mean, trainings=trainings) for mean in means]


#: Measurements of OPPONENT in what is left() to a learner.
_FEW = 10


def left(rows: Rows) -> dict[str, float]:
    """By task the points that the best rule, and OPPONENT with _FEW measurements, leave of 100."""
    points = {}
    for (task, _), policies in _trainings(rows).items():
        scores = [_scores(policies[name])[..., 0].mean() for name in RULES]
        few = _scores(policies[OPPONENT])[..., BUDGETS.index(_FEW)].mean()
        points[task] = float(100 - max(*scores, few))
    return points


def _headroom(rows: Rows) -> TableOfRows:
    """A line for each task: rules, OPPONENT and agents, without and with _FEW measurements."""
    worlds, points, few = _trainings(rows), left(rows), BUDGETS.index(_FEW)
    agents = [name for name in next(iter(worlds.values())) if name not in {*RULES, *SEARCHES}]
    lines = []
    for (task, _), policies in worlds.items():
        each = [*((name, 0) for name in RULES), (OPPONENT, few)]
        each += [(name, budget) for name in agents for budget in (0, few)]
        intervals = [_intervals(name, policies[name])[budget] for name, budget in each]
        lines.append([f"`{task}`", core_tasks().get(task, ""), *intervals, f"{points[task]:.0f}"])
    heads = [*RULES, f"{OPPONENT}, {_FEW}"]
    heads += [f"{name}{after}" for name in agents for after in ("", f", {_FEW}")]
    return TableOfRows(["task", "kind", *(f">{head}" for head in heads), ">left"], lines)


def means_over_tasks(rows: Rows) -> dict[str, list[float]]:
    """By policy that played all tasks its mean scores over them, by number of measurements."""
    worlds = list(_trainings(rows).values())
    means = {}
    for name in (name for name in worlds[0] if all(name in of for of in worlds)):
        of_tasks = [_scores(of[name]).mean(axis=(0, 1)) for of in worlds]
        # Up to as many measurements as were made on each task.
        means[name] = [float(np.mean(values)) for values in zip(*of_tasks, strict=False)]
    return means


def _over_tasks(rows: Rows) -> TableOfRows:
    """A line for each policy that measures: its mean scores over all tasks."""
    lines = [
        [name, *(f"{mean:.1f}" for mean in means), *[""] * (len(BUDGETS) - len(means))]
        for name, means in means_over_tasks(rows).items()
        if name not in RULES
    ]
    return TableOfRows(["policy", *(f">{budget:,}" for budget in BUDGETS)], lines)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, dict[str, float]]:
    """``left``, see left()."""
    return {"left": left(rows)}


TABLES = {"default": _scores_by_budget, "headroom": _headroom, "over tasks": _over_tasks}


def _curves(rows: Rows) -> Figure:
    """A panel for each task and noise: scores by measurements."""
    worlds = _trainings(rows)
    tasks, noises = (list(dict.fromkeys(world[part] for world in worlds)) for part in (0, 1))
    figure = new_figure(4.2 * len(tasks), 3.2 * len(noises) + 0.5)
    axes = figure.subplots(len(noises), len(tasks), squeeze=False, sharex=True)
    places = range(len(BUDGETS))
    curves: dict[str, Any] = {}
    for (task, noise), policies in worlds.items():
        axis = axes[noises.index(noise)][tasks.index(task)]
        for number, (name, own) in enumerate(policies.items()):
            if name == "random":
                continue
            means = _scores(own).mean(axis=(0, 1))
            style = "--" if name in RULES else "o-"
            (curves[name],) = axis.plot(
                places[: means.size], means, style, color=f"C{number}", ms=3
            )
        axis.axhline(100, color="0.7", lw=0.8)
        axis.set_xticks(list(places), [str(budget) for budget in BUDGETS])
        axis.set_title(f"{task}, noise {noise:g}", fontsize=7)
        axis.set_ylim(bottom=40)
    for line in axes:
        line[0].set_ylabel("score")
    for axis in axes[-1]:
        axis.set_xlabel("measurements")
    figure.legend(curves.values(), curves.keys(), fontsize=8, ncols=6, loc="outside lower center")
    return figure


PLOTS = {"scores": _curves}
