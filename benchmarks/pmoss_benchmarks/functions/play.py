"""Policies play worlds: agents trained on the same data, rules and searches, in the same episodes.

A world is a task of the suite on a track, which says in what the evaluation differs from the data.
An agent is trained once per task and training seed; tracks that differ in the evaluation alone
share it. The best of its checkpoints, by episodes that are not those of the evaluation, plays too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar

import msgspec

import pmoss_agents
from pmoss_agents.configs import committed_config
from pmoss_agents.registry import agent_class
from pmoss_benchmarks.functions.references import reference_ends
from pmoss_benchmarks.offline import ranking as ranking
from pmoss_benchmarks.offline import ratios as ratios
from pmoss_benchmarks.offline import tables as tables
from pmoss_benchmarks.offline.episodes import (
    EVALUATION_SEED,
    VALIDATION_SEED,
    is_opponent,
    logged_scores,
    mean_score,
    opponents_of,
    pack,
    play_again,
    world_of,
)
from pmoss_benchmarks.offline.guests import Guest
from pmoss_benchmarks.offline.summary import BEST, summary_of
from pmoss_benchmarks.offline.summary import summarise as summarise
from pmoss_benchmarks.offline.tables import draw_curves
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_benchmarks.offline.training import folder_name, kept_training
from pmoss_benchmarks.study.function import (
    Cell,
    Count,
    Progress,
    Row,
    Run,
    check_names,
    settings_of,
)
from pmoss_datasets.catalog import load
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import EpisodeResult, episode_seed, evaluate
from pmoss_datasets.interfaces import score_of
from pmoss_datasets.recipes import Recipe, tier
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task, obtain
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    UnknownNameError,
    UnsupportedError,
)

#: Fields of an episode that come out again.
_REPLAYED = ("incumbent_throughput", "throughput", "score")


@dataclass(frozen=True)
class Settings:
    """How much of everything; the same settings and versions give the same bits.

    Attributes:
        tasks: names of committed tasks.
        tracks: names of tracks; see offline.tracks. "same-task" is that of every environment.
        only: for each track named here, the tasks that have it; others have all tracks.
        seeds: trainings of each agent on each task.
        policies: rules and searches; empty: all of the domain. "exact" plays only where the
            instance is small enough.
        guests: by name further policies, which learn nothing here and play once; on same-task only.
        logged: by name a share of the episodes of the data, those of the highest returns, which are
            scored beside what plays; on same-task only.
        agents: names, or ``module:Class``.
        agents_of: for each track named here, the agents that play it; others have all agents.
        seeds_of: for each agent named here, its trainings on each task.
        changes: by agent, fields that override its committed config.
        starts: by agent, one that ships: its trainings begin with those weights and that config.
        last: whether the last checkpoint plays, too; else the best one alone, by the agent's name.
        tier: of the datasets.
        episodes: of the evaluation of each training.
        validation_episodes: by which the best of the checkpoints is chosen.
        checkpoints: of each training, evenly spaced; the last one is at its end.
        search_budget: evaluations of the model that each search has, and that of score 100.
        long_search: evaluations of the references that are score 100 instead; 0: none. Worlds
            other than the task's own have no references.
        common: whether all training seeds meet the same episodes; then other policies play once.
        random_schedules: whose mean is score 0, per episode.
    """

    AXES: ClassVar = (
        *("tasks", "tracks", "only", "seeds", "seeds_of"),
        *("policies", "guests", "logged", "agents", "agents_of", "changes", "starts", "last"),
    )

    tasks: tuple[str, ...]
    tracks: tuple[str, ...] = ("same-task",)
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: Count = 5
    policies: tuple[str, ...] = ()
    guests: dict[str, Guest] = field(default_factory=dict)
    logged: dict[str, float] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    agents_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seeds_of: dict[str, int] = field(default_factory=dict)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    starts: dict[str, str] = field(default_factory=dict)
    last: bool = True
    tier: str = "mixed"
    episodes: Count = 4
    validation_episodes: Count = 4
    checkpoints: Count = 5
    search_budget: Count = 2000
    long_search: int = 0
    common: bool = False
    random_schedules: Count = 100

    def __post_init__(self) -> None:
        for name in self.tasks:
            load_task(name)
        for name in self.tracks:
            load_track(name)
        for domain in self.domains:
            tier(self.tier, domain.name)
        for name in self.agents:
            if agent_class(name).domain not in ("", *(domain.name for domain in self.domains)):
                raise UnknownNameError("agent of these tasks", name, ())
        opponents = {name for domain in self.domains for name in opponents_of(domain)}
        check_names("policy", self.policies, opponents)
        for name in (*self.seeds_of, *self.changes, *self.starts, *chain(*self.agents_of.values())):
            agent_class(name)
        for name in (*self.only, *self.agents_of):
            load_track(name)
        for name, share in self.logged.items():
            if not 0 < share <= 1:
                raise DescriptionError(f"logged.{name} = {share:g}: must be in (0, 1]")

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Those of the tasks."""
        return tuple(find_domain(n) for n in dict.fromkeys(load_task(t).domain for t in self.tasks))


def cells(settings: Settings) -> list[Cell]:
    """All cells: seed by seed, and those that meet the same episodes together."""
    chosen: list[Cell] = []
    for track in _tracks(settings):
        worlds = [task for task in settings.tasks if _has(settings, track, task)]
        for seed in range(settings.seeds):
            for task in worlds:
                domain = find_domain(load_task(task).domain)
                names = [n for n in opponents_of(domain) if n in (settings.policies or (n,))]
                names += (*settings.guests, *settings.logged) if track == "same-task" else ()
                if seed and settings.common:
                    names = []
                own = ("", domain.name)
                names += [
                    name
                    for name in settings.agents_of.get(track, settings.agents)
                    if agent_class(name).domain in own
                    and seed < settings.seeds_of.get(name, settings.seeds)
                ]
                chosen += [
                    {"track": track, "task": task, "policy": name, "seed": seed} for name in names
                ]
    return chosen


def modules(settings: Settings) -> list[str]:
    """Those of the agents, which are imported by their names."""
    agents = {*settings.agents, *(name for names in settings.agents_of.values() for name in names)}
    return sorted({agent_class(name).__module__ for name in agents})


def _tracks(settings: Settings) -> list[str]:
    """The tracks; tasks of other environments have a plain one of their own."""
    plain = [domain.name for domain in settings.domains if domain.name != FIRST_DOMAIN]
    tracks = dict.fromkeys(settings.tracks)
    return [*tracks, *(name for name in plain if "same-task" in tracks and name not in tracks)]


def _has(settings: Settings, track: str, task: str) -> bool:
    named = task in settings.only.get(track, settings.tasks)
    return named and load_track(track).evaluation_env(load_task(task)) is not None


def worlds_of(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The tracks of a study's settings, each with the tasks that have it."""
    settings = settings_of(sys.modules[__name__], values)
    return [(k, t) for k in _tracks(settings) for t in settings.tasks if _has(settings, k, t)]


def config_of(settings: Settings, agent: str, task: str) -> dict[str, Any]:
    """An agent's committed config for a task, with the changes of the settings; no seed in it.

    Of an agent with a start: the changes alone.
    """
    committed = {} if agent in settings.starts else committed_config(agent, task)
    return {**committed, **settings.changes.get(agent, {})}


def differs(settings: Settings, row: Mapping[str, Any]) -> str:
    """What the settings say otherwise now than when a row was made; empty if nothing."""
    name, task = row["policy"], row["task"]
    if (guest := settings.guests.get(name)) and row.get("measurements") != guest.measurements:
        return f"guests.{name}.measurements"
    if (training := row.get("training")) is None:
        return ""
    config = {**config_of(settings, name, task), **load_track(row["track"]).config}
    before, now = training["config"], msgspec.to_builtins(config)
    fields_of_both = sorted({*before, *now})
    return ", ".join(f"{name}.{f}" for f in fields_of_both if before.get(f) != now.get(f))


def recipe_of(settings: Settings, track: str, task: str) -> Recipe:
    """The recipe of the data that agents of a track learn from."""
    task_of_suite = load_task(task)
    env = load_track(track).training_env(task_of_suite.env)
    keys = {"tier": settings.tier, "env": env, "domain": task_of_suite.domain}
    return Recipe.from_dict({**tier(settings.tier, task_of_suite.domain), **keys})


def _dataset(run: Run, track: str, task: str) -> Path:
    """Where the data of a track and task lie."""
    recipe = recipe_of(run.settings, track, task)
    track_of_suite = load_track(track)
    # Where the data are those of the standard suite they lie where its users expect them.
    root = run.data / "tracks" / track_of_suite.of_agents if track_of_suite.training else run.data
    return root / recipe.id


def prepare(run: Run, progress: Progress) -> None:
    """Collects the data that are missing, and makes the references that are missing."""
    settings = run.settings
    for cell in cells(settings):
        track, task, name = cell["track"], cell["task"], cell["policy"]
        if name in settings.guests or is_opponent(name, task):
            continue
        if name not in settings.logged and agent_class(name).learns != "offline":
            continue
        path = _dataset(run, track, task)
        if not path.exists():
            obtain(
                recipe_of(settings, track, task),
                path,
                partial(progress, f"data {task}"),
                headroom=load_task(task).headroom,
            )
    for track, task in product(settings.tracks, settings.tasks):
        if settings.long_search and has_references(track, task):
            reference_ends(run, task, budget=settings.long_search, progress=progress)


class Work:
    """Does cells in one process."""

    def __init__(self, run: Run) -> None:
        self._run, self._settings = run, run.settings
        # Throughputs of score 0 and 100 by the world, then by the episode's seed.
        self._known: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}

    def __call__(self, cell: Cell) -> Row:
        """The row of a cell.

        ``played`` holds by the name of a policy its episodes, see pack(); of an agent also those
        of its best checkpoint, or "last" where that is the last one. ``shared`` holds outcome and
        score of each episode where no actions are kept: of a schedule that none lead to, and of
        logged episodes. ``absent`` is the reason where an
        opponent cannot play; ``refused`` where an agent refuses the task or its data. An agent has
        ``training`` and ``curve``, updates and validation score of each checkpoint.
        """
        domain, name = find_domain(load_task(cell["task"]).domain), cell["policy"]
        if name in domain.unplaced:
            return {"shared": self._shared(cell, domain)}
        if is_opponent(name, cell["task"]):
            return self._opponent(cell, domain)
        if (share := self._settings.logged.get(name)) is not None:
            dataset = load(_dataset(self._run, cell["track"], cell["task"]))
            budgets = self._settings.search_budget, self._settings.random_schedules
            return {"shared": logged_scores(dataset, share, world_of(cell), *budgets)}
        if (guest := self._settings.guests.get(name)) is not None:
            with guest.invited() as policy:
                played = pack(self._rows(cell, {name: policy}))
            return {"played": {name: played}, "measurements": guest.measurements}
        try:
            return self._learned(cell)
        except (CheckpointError, DatasetError, UnsupportedError) as error:
            # Results are shared: where the data lie here is no part of them.
            path = _dataset(self._run, cell["track"], cell["task"])
            return {"refused": str(error).replace(f"{path}: ", "")}

    def _opponent(self, cell: Cell, domain: Domain) -> Row:
        """The episodes of an opponent; why not, if it cannot play."""
        budget, name = self._settings.search_budget, cell["policy"]
        with closing(domain.make_env(world_of(cell))) as env:
            env.reset(seed=0)
            absence = domain.absence(env, name, budget)
        if absence is not None:
            return {"absent": absence}
        policy = domain.policy(name, budget=budget if domain.takes_budget(name) else None)
        return {"played": {name: pack(self._rows(cell, {name: policy}), actions=False)}}

    def _shared(self, cell: Cell, domain: Domain) -> list[list[float | None]]:
        """Outcome and score of what can be measured only, per episode."""
        settings, references = self._settings, self._known_of(cell)
        measured: list[list[float | None]] = []
        env, policy = domain.make_env(world_of(cell)), domain.policy(cell["policy"])
        judge = domain.judge(env)
        for episode in range(settings.episodes):
            env_seed = episode_seed(EVALUATION_SEED + cell["seed"], episode)
            rollout = domain.play(env, policy, env_seed, judge)
            if env_seed not in references:
                references[env_seed] = judge.reference(
                    env_seed, settings.search_budget, settings.random_schedules
                )
            outcome = judge.outcome(rollout)  # without noise
            measured.append([outcome, score_of(outcome, *references[env_seed])])
        judge.close()
        env.close()
        return measured

    def _known_of(self, cell: Cell) -> dict[int, tuple[float, float]]:
        """Scores 0 and 100 of the world of a cell, as far as they are known, by seed."""
        key = cell["track"], cell["task"]
        if key not in self._known:
            budget = self._settings.long_search
            own = budget and has_references(*key)
            self._known[key] = reference_ends(self._run, cell["task"], budget=budget) if own else {}
        return self._known[key]

    def _learned(self, cell: Cell) -> Row:
        settings, track = self._settings, load_track(cell["track"])
        name, task, seed = cell["policy"], cell["task"], cell["seed"]
        config = {**config_of(settings, name, task), **track.config}
        kind = agent_class(name)
        # Where chance has no part in learning, trainings differ in their episodes alone.
        seeded = any(each.name == "seed" for each in fields(kind.Config))
        own = {**config, "seed": seed} if seeded else config
        if kind.learns == "nothing":
            policies: dict[str, Any] = {name: pmoss_agents.make(name, **own)}
            return {"played": {name: pack(self._rows(cell, track.meets(policies)))}}
        recipe, start = recipe_of(settings, cell["track"], task), settings.starts.get(name, "")
        facts = {**own, "start": start} if start else own
        agent = kept_training(
            self._run.keep / track.of_agents / recipe.id / folder_name(name, facts),
            name,
            own,
            dataset=_dataset(self._run, cell["track"], task) if kind.learns == "offline" else None,
            env=track.training_env(load_task(task).env),
            checkpoints=settings.checkpoints,
            start=start,
        )
        numbers = range(len(agent.updates))
        scores = self._validation(cell, {str(i): agent.load(i) for i in numbers})
        # Of equal ones the later.
        best = max(numbers, key=lambda i: (scores[i], i))
        last = numbers[-1]
        policies = {name: agent.load(last if settings.last else best)}
        if settings.last and best != last:
            policies[name + BEST] = agent.load(best)
        rows = self._rows(cell, track.meets(policies))
        played: dict[str, Any] = {
            policy: pack([row for row in rows if row.policy == policy]) for policy in policies
        }
        return {
            "played": {
                **played,
                **({name + BEST: "last"} if settings.last and best == last else {}),
            },
            "training": {
                "seconds": agent.seconds,
                "updates": agent.updates[-1],
                "metrics": dict(agent.metrics),
                "source": dict(agent.source),
                "config": config,
                **({"played": list(agent.played)} if agent.played else {}),
                **({"conditions": dict(agent.conditions)} if agent.conditions else {}),
            },
            "curve": [[agent.updates[i], scores[i]] for i in numbers],
            "best": agent.updates[best],
        }

    def _validation(self, cell: Cell, policies: dict[str, Any]) -> list[float]:
        """Mean score of each checkpoint on episodes that are not those of the evaluation.

        They are of the world that the agent was trained for: the other one is not known to it.
        """
        same = {**cell, "track": load_track(cell["track"]).of_agents}
        episodes = self._settings.validation_episodes
        rows = self._rows(same, policies, VALIDATION_SEED, episodes)
        return [mean_score([row for row in rows if row.policy == name]) for name in policies]

    def _rows(
        self,
        cell: Cell,
        policies: dict[str, Any],
        seed: int = EVALUATION_SEED,
        episodes: int | None = None,
    ) -> list[EpisodeResult]:
        settings = self._settings
        common = settings.common and seed == EVALUATION_SEED
        return evaluate(
            world_of(cell),
            policies,
            [seed if common else seed + cell["seed"]],
            episodes_per_seed=episodes or settings.episodes,
            search_budget=settings.search_budget,
            random_schedules=settings.random_schedules,
            references=self._known_of(cell),
            env_id=find_domain(load_task(cell["task"]).domain).env_id,
        ).rows


def again(run: Run, row: Row) -> Row:
    """Its episodes: rules decide anew, agents' actions are run again."""
    played = {
        name: packed if packed == "last" else {**packed, **{key: [] for key in _REPLAYED}}
        for name, packed in row.get("played", {}).items()
    }
    for one in play_again(row, run.settings.search_budget):
        values = one.rollout.start, one.rollout.outcome, one.score
        for key, value in zip(_REPLAYED, values, strict=True):
            played[one.policy][key].append(value)
    return {"played": played} if played else {}


TABLES = {
    "default": lambda rows: tables.by_world(summary_of(rows)),
    "ranking": ranking.scores_by_task,
    "informed": ranking.informed,
    "neighbours": ranking.neighbours,
}
PLOTS = {
    "profiles": ranking.draw_profiles,
    "curves": lambda rows: draw_curves([row for row in rows if row["track"] == "same-task"]),
    "throughputs": ratios.draw_throughputs,
}
