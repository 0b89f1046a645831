"""One checkpoint for many tasks: it learned from the data of some, and plays in many worlds.

It plays on the tasks that it learned on and on others. On tracks it meets workloads, distributions
of keys and machines that no data hold. Each policy plays the same episodes, and differences are
paired.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import read_config
from pmoss_benchmarks.offline.tracks import has_references, load_track
from pmoss_benchmarks.spatial.against_rules import against_rules
from pmoss_benchmarks.spatial.references import read_references, references_path
from pmoss_datasets.several import Several
from pmoss_datasets.suite import build, load_task, splits, suite_ids
from pmoss_env.errors import DescriptionError

#: Rules to be beaten: all that decide at once.
RULES = ("best-fit", "lpt-capacity", "lpt", "two-level", "greedy-capacity", "greedy-marginal")
#: The agent that learns: one network serves any machine.
AGENT = "surrogate"


@dataclass(frozen=True)
class GeneralistOptions:
    """What a table depends on.

    Attributes:
        learned_on: names of tasks; none: those of the split "development".
        tier: of the data.
        episodes: of the evaluation, in each world.
        budget: evaluations of the search that scores 100 where a world has no references.
        seed: of training.
        changes: fields that override the agent's committed config.
        folder: of datasets.
        keep: folder of the checkpoint.
        references: folder of them; None: there are none.
    """

    learned_on: tuple[str, ...] = ()
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
        facts = [self.learned_on, self.tier, self.seed, dict(self.changes)]
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
        path = references_path(Path(options.references), cell.task)
        if path.exists():
            known = {one.env_seed: (one.random, one.best) for one in read_references(path)}
    agent = pmoss_agents.load(options.checkpoint, AGENT)
    policies = {AGENT: agent}
    found = against_rules(
        env, policies, RULES, options.episodes, budget=options.budget, references=known
    )
    learned = cell.track == "same-task" and cell.task in options.learned_on
    return {"world": env, "learned": learned, **found}
