"""One checkpoint for many tasks: it learned from the data of some, and plays in many worlds.

It plays on the tasks that it learned on and on others. On tracks it meets workloads, distributions
of keys and machines that no data hold. Each policy plays the same episodes, and differences are
paired.

It may also learn from made-up worlds: machines of the generator, each with a workload and a family
of co-tenants. No made-up world has a workload that a track holds back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import read_config
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_benchmarks.spatial.against_rules import against_rules
from pmoss_benchmarks.study.store import read_stored
from pmoss_datasets import Recipe
from pmoss_datasets.several import Several
from pmoss_datasets.suite import build, load_task, obtain, splits, suite_ids
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine
from pmoss_env.machines.random_machine import PARTLY_PREFIX, PREFIX, SMT_PREFIX

#: Rules to be beaten: all that decide at once.
RULES = ("best-fit", "lpt-capacity", "lpt", "two-level", "greedy-capacity", "greedy-marginal")
#: The agent that learns: one network serves any machine.
AGENT = "surrogate"
#: What made-up worlds are made of, in turn. Their machines are random:4000, random-smt:4001, ...
_PREFIXES = (PREFIX, SMT_PREFIX, PARTLY_PREFIX)
_FIRST, _LEAST_WORKERS = 4000, 12
_WORKLOADS = (
    *("ycsb-a", "scans", "lookups-zipf", "hot-range-a"),
    *("hot-range-scans", "lookups", "scans-zipf-ordered"),
)
_FAMILIES = ("all", "none", "busy_core", "memory_stream", "cache_thrash")


@dataclass(frozen=True)
class GeneralistOptions:
    """What a table depends on.

    Attributes:
        learned_on: names of tasks; none: those of the split "development".
        made_up: worlds of made-up machines that it learns on, beside these.
        made_up_episodes: of the data of each.
        tier: of the data.
        episodes: of the evaluation, in each world.
        budget: evaluations of the search that scores 100 where a world has no references.
        seed: of training.
        changes: fields that override the agent's committed config.
        folder: of datasets.
        keep: folder of the checkpoint.
        references: rows of the study references; None: there are none.
    """

    learned_on: tuple[str, ...] = ()
    made_up: int = 0
    made_up_episodes: int = 40
    tier: str = "mixed"
    episodes: int = 20
    budget: int = 2000
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    keep: str = ""
    references: str | None = None

    def __post_init__(self) -> None:
        if not self.learned_on:
            object.__setattr__(self, "learned_on", splits()["development"])
        for name in self.learned_on:
            load_task(name)
        if len(set(self.learned_on)) != len(self.learned_on):
            raise DescriptionError(f"tasks = {list(self.learned_on)}: each must be named once")
        if self.episodes < 1:
            raise DescriptionError(f"episodes = {self.episodes}: must be at least 1")

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on: not where files lie, but whether there are references."""
        told = {k: v for k, v in asdict(self).items() if k not in ("folder", "keep", "references")}
        return {**told, "references": self.references is not None}

    @cached_property
    def checkpoint(self) -> Path:
        """The file of the agent, named after all that it is made from."""
        made_up = [self.made_up, self.made_up_episodes] if self.made_up else []
        facts = [self.learned_on, self.tier, self.seed, dict(self.changes), *made_up]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
        return Path(self.keep) / f"{AGENT}-{digest}.safetensors"


@dataclass(frozen=True)
class GeneralistCell:
    """A world in which the checkpoint plays.

    Attributes:
        track: in what it differs from the task.
        task: name.
    """

    track: str
    task: str

    @property
    def name(self) -> str:
        """E.g. "unseen-machine/milan-nps4-btree-ycsb-a"."""
        return f"{self.track}/{self.task}"

    @property
    def env(self) -> dict[str, Any] | None:
        """Arguments of the environment; None: the task has no such track."""
        return load_track(self.track).evaluation_env(load_task(self.task))


def made_up_worlds(number: int) -> Iterator[dict[str, Any]]:
    """Arguments of the environment of so many made-up worlds, all of other machines."""
    made = 0
    for seed in count(_FIRST):
        if made == number:
            return
        name = f"{_PREFIXES[made % len(_PREFIXES)]}{seed}"
        if load_machine(name).workers.size < _LEAST_WORKERS:
            continue
        yield {
            "machine": name,
            "workload": _WORKLOADS[made % len(_WORKLOADS)],
            "interference": _FAMILIES[made % len(_FAMILIES)],
        }
        made += 1


def worlds(tasks: tuple[str, ...], tracks: tuple[str, ...]) -> list[GeneralistCell]:
    """Each world once: tracks may lead from several tasks to the same one.

    Raises:
        DescriptionError: no task has any of the tracks.
    """
    found: dict[str, GeneralistCell] = {}
    for track in tracks:
        for task in tasks:
            cell = GeneralistCell(track, task)
            if (env := cell.env) is not None:
                found.setdefault(json.dumps(env, sort_keys=True), cell)
    if not found:
        raise DescriptionError(f"tracks {list(tracks)}: none of the tasks has one of them")
    return list(found.values())


def learn(
    options: GeneralistOptions, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Path:
    """The checkpoint, as it lies there or learned; cells share it.

    Args:
        options: of the table.
        progress: called with (what, done, total).
    """
    path = options.checkpoint
    if path.exists():
        return path
    data = [
        build(id_, options.folder, lambda done, total, i=id_: progress(f"data {i}", done, total))  # type: ignore[misc]
        for id_ in suite_ids(options.learned_on, (options.tier,))
    ]
    for env in made_up_worlds(options.made_up):
        recipe = Recipe(
            env=env, tier=options.tier, episodes=options.made_up_episodes, reference_episodes=0
        )
        data.append(
            obtain(
                recipe,
                Path(options.folder) / "made-up" / recipe.id,
                lambda done, total, i=recipe.id: progress(f"data {i}", done, total),  # type: ignore[misc]
            )
        )
    config = {**read_config(AGENT, options.learned_on[0]), **options.changes}
    config.pop("agent", None)
    agent = pmoss_agents.make(AGENT, **{**config, "seed": options.seed})
    assert isinstance(agent, OfflineAgent)
    agent.fit(Several(data), progress=lambda done, total, _: progress("training", done, total))
    path.parent.mkdir(parents=True, exist_ok=True)
    agent.save(path)
    return path


def play(options: GeneralistOptions, cell: GeneralistCell) -> dict[str, Any]:
    """What the checkpoint and the rules reach in a world.

    Returns:
        ``world``, the arguments of its environment; ``learned``, whether the checkpoint's data hold
        it; and what against_rules() says.
    """
    env = cell.env
    assert env is not None
    known: dict[int, tuple[float, float]] = {}
    if options.references is not None and has_references(cell.track, cell.task):
        stored = read_stored(Path(options.references))
        known = {
            row["env_seed"]: (row["random"], row["best"])
            for row in stored.rows
            if row["task"] == cell.task
        }
    agent = pmoss_agents.load(options.checkpoint, AGENT)
    policies = {AGENT: agent}
    found = against_rules(
        env, policies, RULES, options.episodes, budget=options.budget, references=known
    )
    learned = cell.track == "same-task" and cell.task in options.learned_on
    return {"world": env, "learned": learned, **found}
