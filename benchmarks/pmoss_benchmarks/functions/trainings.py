"""Trainings of one agent on other data or inputs, and how it then plays, beside rules.

A training has the data of several worlds together. The agent plays in these worlds and in others:
with workloads, distributions of keys or machines that none of its data hold. Rules play the same
episodes, and differences are paired.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents import pretrained
from pmoss_agents.configs import committed_config
from pmoss_benchmarks.functions.references import SEED, reference_ends
from pmoss_benchmarks.offline import unseen as unseen
from pmoss_benchmarks.offline.guests import search_from
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_benchmarks.offline.training import trained
from pmoss_benchmarks.offline.unseen import KINDS as KINDS
from pmoss_benchmarks.offline.unseen import summarise as summarise
from pmoss_benchmarks.study.function import Cell, Count, Progress, Row, Run, silent
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import Measured, Policy, SchedulePolicy
from pmoss_datasets.recipes import tier
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import build, load_task, obtain
from pmoss_env.errors import DescriptionError

_SPATIAL = find_domain(FIRST_DOMAIN)


@dataclass(frozen=True)
class Training:
    """What an agent learns from beside the tasks of the settings, and how.

    Attributes:
        machines: by catalogue name or of the generator; data are collected on each.
        changes: fields that override the agent's config.
        own: episodes of the machine that it plays on, from which it learns at last; with other
            data it is fine-tuned on them.
        own_changes: fields that override its config then.
        shipped: name of an agent that ships, or of a file with weights in the folder of
            checkpoints, which plays as it is; empty: one is trained.
    """

    machines: tuple[str, ...] = ()
    shipped: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    own: int = 0
    own_changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        trainings: by name.
        agent: that learns.
        changes: fields that override the agent's committed config, in every training.
        learned: committed tasks, whose data of the suite every training has.
        tasks: likewise, in whose worlds the agent plays.
        tracks: in what these worlds differ from their task.
        machines: on which the agent plays, too. No training learns from the machine that it plays
            on, but for its ``own`` episodes: there is one for each of them.
        slices: of the index on machines.
        workloads: of the worlds of machines, in turn.
        interference: likewise the families of co-tenants.
        conditions: by name further arguments of the environment, under each of which all worlds are
            played; empty: as they are.
        tier: of the data.
        data: episodes that are collected on each machine.
        rules: baselines that play the same episodes.
        measurements: schedules that the agent, and a search from best-fit's, may run before they
            decide; they play so beside the others. 0: they do not.
        episodes: of the evaluation, in each world.
        seeds: of each training.
        budget: evaluations of the search that scores 100.
        random_schedules: whose mean scores 0, in each episode.
        references: tasks in whose own worlds the references score 100 instead.
    """

    AXES: ClassVar = ("tasks", "tracks", "machines", "seeds", "conditions")

    trainings: dict[str, Training]
    agent: str = "surrogate"
    changes: dict[str, Any] = field(default_factory=dict)
    learned: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ("same-task",)
    machines: tuple[str, ...] = ()
    slices: Count = 256
    workloads: tuple[str, ...] = ("ycsb-a",)
    interference: tuple[str, ...] = ("none",)
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    tier: str = "mixed"
    data: Count = 100
    rules: tuple[str, ...] = ()
    measurements: int = 0
    episodes: Count = 20
    seeds: Count = 1
    budget: Count = 2000
    random_schedules: Count = 100
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for task in self.learned:
            load_task(task)
        for name, training in self.trainings.items():
            if training.own and (self.tasks or not self.machines):
                raise DescriptionError(
                    f"training {name!r}: own = {training.own}: these are episodes of a machine: "
                    "name machines to play on, and no tasks"
                )
            for machine in self.machines or ("",):
                others = {*training.machines} - {machine}
                if not (training.shipped or self.learned or others or training.own):
                    raise DescriptionError(f"training {name!r}: has no data: name other machines")


def cells(settings: Settings) -> list[Cell]:
    """Each world once for each training: tracks may lead from several tasks to the same one."""
    worlds: dict[str, str] = {}
    for track in settings.tracks:
        for task in settings.tasks:
            if (env := load_track(track).evaluation_env(load_task(task))) is not None:
                worlds.setdefault(json.dumps(env, sort_keys=True), f"{track}/{task}")
    conditions = [{"condition": name} for name in settings.conditions] or [{}]
    return [
        {"training": training, "world": world, "seed": seed, **condition}
        for condition in conditions
        for seed in range(settings.seeds)
        for training in settings.trainings
        for world in (*worlds.values(), *settings.machines)
    ]


def world_of(settings: Settings, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the environment of "track/task", or of a machine, under its condition."""
    track, _, task = cell["world"].rpartition("/")
    if track:
        env = load_track(track).evaluation_env(load_task(task))
        assert env is not None
    else:
        env = _on_machine(settings, task, settings.machines.index(task))
    return env | settings.conditions.get(cell.get("condition", ""), {})


def _on_machine(settings: Settings, machine: str, number: int) -> dict[str, Any]:
    """The world of a machine that stands at a place of its list."""
    return {
        "machine": machine,
        "workload": settings.workloads[number % len(settings.workloads)],
        "interference": settings.interference[number % len(settings.interference)],
        **({"slices": settings.slices} if settings.slices != 256 else {}),
    }


def prepare(run: Run, progress: Progress) -> None:
    """Makes the references, collects the data and trains, as far as ``run.keep`` lacks it."""
    settings = run.settings
    for task in settings.references:
        _references(run, f"same-task/{task}", progress)
    chosen = {_lesson_of(settings, cell): cell for cell in cells(settings)}
    for done, cell in enumerate(chosen.values()):
        progress("trainings", done, len(chosen))
        _checkpoint(run, cell, progress)


def _lesson_of(settings: Settings, cell: Mapping[str, Any]) -> tuple[str, str, int]:
    """What decides the agent of a cell: training, machine that is left out, and seed."""
    left_out = cell["world"] if cell["world"] in settings.machines else ""
    return cell["training"], left_out, cell["seed"]


def _references(
    run: Run, world: str, progress: Progress = silent
) -> dict[int, tuple[float, float]]:
    """Throughputs of score 0 and 100 by the environment's seed; empty where none are known."""
    track, _, task = world.rpartition("/")
    if task not in run.settings.references or not has_references(track, task):
        return {}
    return reference_ends(run, task, progress=progress)


def _checkpoint(run: Run, cell: Mapping[str, Any], progress: Progress = silent) -> Path:
    settings = run.settings
    name, left_out, seed = _lesson_of(settings, cell)
    training = settings.trainings[name]
    if training.shipped:
        ships = pretrained.is_name(training.shipped)
        return pretrained.find(training.shipped) if ships else run.keep / training.shipped
    data = list(_data(run, training, left_out, progress))
    own = []
    if training.own:
        number = settings.machines.index(left_out)
        own = [_collected(run, left_out, number, training.own, progress)]
    first = Recipe(env=dict((data or own)[0].metadata.env_kwargs), reference_episodes=0).task
    changes = {**settings.changes, **training.changes, "seed": seed}
    config = {**committed_config(settings.agent, first), **changes}
    if not own:
        return trained(settings.agent, config, data, run.keep)
    begun = trained(settings.agent, config, data, run.keep) if data else None
    return trained(settings.agent, {**config, **training.own_changes}, own, run.keep, begun)


def _data(run: Run, training: Training, left_out: str, progress: Progress) -> Iterator[Dataset]:
    settings = run.settings
    for task in settings.learned:
        name = f"pmoss/{task}/{settings.tier}-v0"
        yield build(name, run.data, partial(progress, f"data {task}"))
    for number, machine in enumerate(training.machines):
        if machine != left_out:
            yield _collected(run, machine, number, settings.data, progress)


def _collected(run: Run, machine: str, number: int, size: int, progress: Progress) -> Dataset:
    """Some episodes of a machine that stands at a place of its list."""
    settings = run.settings
    keys = {"tier": settings.tier, "env": _on_machine(settings, machine, number)}
    sizes = {"episodes": size, "reference_episodes": 0}
    recipe = Recipe.from_dict({**tier(settings.tier), **keys, **sizes})
    where = run.keep / f"data-{size}" / recipe.id
    return obtain(recipe, where, partial(progress, f"data {machine}"))


class Work:
    """Plays in one world after the other; agents are read once."""

    def __init__(self, run: Run) -> None:
        self._run, self._agents = run, dict[tuple[str, str, int], Any]()

    def __call__(self, cell: Cell) -> Row:
        """Lets the agent of a training play in a world.

        Returns:
            ``env``, arguments of the environment; ``learned``, whether the agent learned from data
            of this task; what ``rules`` and ``policies`` reach, see _play(), the agent first. Of an
            agent that plays as it is also ``updates``, and the SHA-256 of its ``checkpoint``.
        """
        settings = self._run.settings
        key = _lesson_of(settings, cell)
        if key not in self._agents:
            path = _checkpoint(self._run, cell)
            self._agents[key] = pmoss_agents.load(path), sha256(path.read_bytes()).hexdigest()
        (agent, digest), number = self._agents[key], settings.measurements
        searched = Measured(SchedulePolicy(search_from("best-fit", number)), number)
        measured = Measured(agent, number)
        policies: dict[str, Policy] = {agent.name: agent.padded()}
        if number:
            policies[f"best-fit + search, {number}"] = searched
            policies[f"{agent.name}, {number}"] = measured
        shown = agent.task.get("observation", "complete")
        with closing(searched), closing(measured):
            played = _play(self._run, cell, {**_rules(settings), **policies}, shown)
        track, _, task = cell["world"].rpartition("/")
        shipped = settings.trainings[cell["training"]].shipped
        return {
            **({"checkpoint": digest, "updates": agent.updates} if shipped else {}),
            "env": world_of(settings, cell),
            "learned": not shipped and track == "same-task" and task in settings.learned,
            "rules": {name: played[name] for name in settings.rules},
            "policies": {name: played[name] for name in policies},
        }


def _rules(settings: Settings) -> dict[str, Policy]:
    return {name: _SPATIAL.policy(name) for name in settings.rules}


def _play(
    run: Run, cell: Mapping[str, Any], policies: Mapping[str, Policy], shown: str = "complete"
) -> dict[str, dict[str, Any]]:
    """By policy the mean ``score``, the mean ``throughput`` in Mq/s, and ``scores`` by episode."""
    settings = run.settings
    rows = evaluate(
        {**world_of(settings, cell), "observation": shown},
        policies,
        [SEED],
        settings.episodes,
        search_budget=settings.budget,
        random_schedules=settings.random_schedules,
        references=_references(run, cell["world"]),
    ).rows
    played = {}
    for name in policies:
        own = [row for row in rows if row.policy == name]
        scores = [row.score for row in own]
        played[name] = {
            "score": float(np.array(scores, dtype=np.float64).mean()),
            "throughput": float(np.mean([row.throughput for row in own])),
            "scores": scores,
        }
    return played


def again(run: Run, row: Row) -> Row:
    """What rules play; where none have played, the agent is trained again."""
    if row["rules"]:
        field, remade = "rules", _play(run, row, _rules(run.settings))
    else:
        field, remade = "policies", Work(run)(dict(row))["policies"]
    kept = row[field].items()
    return {field: {name: {key: remade[name][key] for key in of} for name, of in kept}}


TABLES = {"default": unseen.means, "worlds": unseen.worlds, "conditions": unseen.conditions}
