"""Networks of the study ``authors``: their settings, data, trainings, and what they play."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.checkpoints import SUFFIX
from pmoss_agents.configs import read_config
from pmoss_agents.spatial.decision_batch import Beginnings, Plays, play_many
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.training_log import TrainingLog
from pmoss_benchmarks.functions.references import SEED
from pmoss_benchmarks.study.function import Progress, Run, silent
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.recipes import tier
from pmoss_datasets.several import Several
from pmoss_datasets.suite import obtain
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.files import write_atomically
from pmoss_env.machines import load_machine
from pmoss_env.workloads import load_workload

#: The committed config of the paper's network.
CONFIG = "decision-transformer-paper"
#: Wanted returns, in multiples of the best to be expected.
WANTED = (0.3, 0.7, 1.1, 2.0)
#: The one that is asked several times and on fresh hot keys, too, and whose schedules are kept.
USUAL = 1.1
#: Seed of further episodes whose actions a network predicts.
_UNSEEN = 77
#: Rows that a network plays at once; what it samples depends on it.
_AT_ONCE = 64
#: Whether the hot keys are those of the data, or drawn for each episode.
KEYS = ("logged", "fresh")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        machines: with a network each.
        workloads: of its data.
        loads: of its data.
        new_workloads: that are in no data, and are played as well.
        slices: of the index.
        data: episodes of each workload and load; 0: as many as the tier has.
        changes: fields that override the committed config.
        changes_of: by machine further ones.
        variants: by name further ones, of a network each; empty: there is one network.
        seeds: trainings of a machine, whose networks play.
        seeds_of: of machines with more trainings; the rows have no plays of these further ones.
        episodes: that are played of each workload, load and kind of keys.
        tries: answers to the usual question, drawn within the limit.
        unseen: further episodes of each workload and load whose actions the network predicts.
        search_budget: evaluations of the search, for the load of the row.
        agents: shipped agents that play the same episodes.
    """

    AXES: ClassVar = ("machines", "changes_of", "seeds_of", "variants")

    machines: tuple[str, ...]
    workloads: tuple[str, ...] = ("ycsb-a", "lookups", "scans")
    loads: tuple[str, ...] = ("closed", "saturated")
    new_workloads: tuple[str, ...] = ()
    slices: int = 256
    data: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    changes_of: dict[str, dict[str, Any]] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: int = 1
    seeds_of: dict[str, int] = field(default_factory=dict)
    episodes: int = 20
    tries: int = 8
    unseen: int = 10
    search_budget: int = 2000
    agents: tuple[str, ...] = ("pmoss/generalist-v1",)

    def worlds(self) -> list[tuple[str, str]]:
        """Loads and workloads of the data."""
        return list(product(self.loads, self.workloads))

    def played(self) -> list[tuple[str, str]]:
        """Loads and workloads that are played: those of the data first."""
        return [*self.worlds(), *product(self.loads, self.new_workloads)]

    def training_seeds(self, machine: str) -> range:
        """Of a machine's networks."""
        return range(max(self.seeds, self.seeds_of.get(machine, 0)))


def of_network(run: Run, machine: str, variant: str = "") -> Run:
    """The run with the settings of one network; an unknown variant is the network as it is."""
    settings = run.settings
    own = (settings.changes_of.get(machine, {}), settings.variants.get(variant, {}))
    changes = {**settings.changes, **own[0], **own[1]}
    return replace(run, settings=replace(settings, changes=changes))


def env_of(settings: Settings, cell: Mapping[str, Any], keys: str = "logged") -> dict[str, Any]:
    """Arguments of a cell's environment: the paper's observation, and readings that vary."""
    env = {name: cell[name] for name in ("machine", "workload", "load")}
    env |= {"slices": settings.slices, "observation": "paper", "noise": 1.0}
    return {**env, **({"workload_seed": 0} if keys == "logged" else {})}


def recipes_of(settings: Settings, machine: str, **changes: Any) -> list[Recipe]:
    """The recipes of a machine's data, one for each load and workload."""
    size = {"episodes": settings.data} if settings.data else {}
    keys = {**tier("authors"), "tier": "authors", "reference_episodes": 0, **size, **changes}
    worlds = [{"machine": machine, "load": a, "workload": b} for a, b in settings.worlds()]
    return [Recipe.from_dict({**keys, "env": env_of(settings, world)}) for world in worlds]


def data_of(run: Run, machine: str, progress: Progress = silent) -> list[Dataset]:
    """The data of a machine, collected where they are not there."""
    return [
        obtain(recipe, run.data / recipe.id, partial(progress, f"data {machine}"))
        for recipe in recipes_of(run.settings, machine)
    ]


def files_of(run: Run, machine: str, load: str, workload: str) -> tuple[str, Any, list[float]]:
    """The logged schedules of a machine.

    Returns:
        The workload of the log: the first one where this one is in no data. (files, slices) cores
        of each schedule, and the mean throughput that was logged of it, Mq/s.
    """
    workloads = run.settings.workloads
    log = workload if workload in workloads else workloads[0]
    number = run.settings.worlds().index((load, log))
    recipe = recipes_of(run.settings, machine)[number]
    data = obtain(recipe, run.data / recipe.id)
    files, of_file = np.unique(data.column("final_cores"), axis=0, return_inverse=True)
    finals = data.column("final_throughput")
    logged = [float(finals[of_file.ravel() == number].mean()) for number in range(len(files))]
    return log, files, logged


def unseen_of(run: Run, machine: str) -> list[Dataset]:
    """Further episodes of the data's recipes: the same schedules, read anew."""
    return [
        obtain(recipe, run.keep / "unseen" / str(recipe.episodes) / recipe.id)
        for recipe in recipes_of(run.settings, machine, seed=_UNSEEN, episodes=run.settings.unseen)
    ]


def stem_of(run: Run, machine: str, seed: int) -> Path:
    """Where what came of a training is kept: ``.safetensors``, ``.jsonl``, ``.json``, ``.npz``."""
    settings = run.settings
    facts = [recipe.as_dict() for recipe in recipes_of(settings, machine)]
    asked = [settings.changes, settings.played(), settings.episodes, settings.tries]
    asked.append(settings.unseen)
    digest = hashlib.sha256(json.dumps([facts, asked], sort_keys=True).encode()).hexdigest()[:12]
    return run.keep / "authors" / f"{machine}-{seed}-{digest}"


def file_of(stem: Path, suffix: str) -> Path:
    """One of the files of a training."""
    return stem.with_name(stem.name + suffix)


def kept_network(run: Run, machine: str, config: Mapping[str, Any]) -> DecisionTransformer | None:
    """A machine's first network, if weights that learned with this config are kept."""
    for path in sorted(stem_of(run, machine, 0).parent.glob(f"{machine}-0-*{SUFFIX}")):
        agent = pmoss_agents.load(path, "decision-transformer")
        assert isinstance(agent, DecisionTransformer)
        if json.loads(json.dumps(asdict(agent.config))) == config:
            return agent
    return None


def train(run: Run, machine: str, seed: int, progress: Progress) -> None:
    """Trains a network and lets it play; interrupted, it goes on from the checkpoint."""
    stem = stem_of(run, machine, seed)
    parts: Any = Several(data_of(run, machine, progress))
    stem.parent.mkdir(parents=True, exist_ok=True)
    checkpoint, began = file_of(stem, SUFFIX), time.time()
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, "decision-transformer")
    else:
        values = {**read_config(CONFIG), **run.settings.changes, "seed": seed}
        agent = pmoss_agents.make(values.pop("agent"), **values)
    assert isinstance(agent, DecisionTransformer)
    log = TrainingLog(file_of(stem, ".jsonl"), agent.updates)

    def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
        log(done, total, {**metrics, "seconds": time.time() - began})
        progress(f"updates {machine} {seed}", done, total)

    agent.fit(parts, progress=keep, checkpoint=checkpoint)
    agent.optimiser = None  # its moments are of no use any more
    agent.save(checkpoint)
    _keep_plays(run, machine, agent, stem)


def _keep_plays(run: Run, machine: str, agent: DecisionTransformer, stem: Path) -> None:
    """Writes the actions of all rows that a network plays, and how well it foresees others'."""
    settings, device = run.settings, agent.config.device
    unseen = {
        f"{load} {workload}": [float(values.mean()) for values in agent.agreement(data)]
        for (load, workload), data in zip(settings.worlds(), unseen_of(run, machine), strict=True)
    }
    columns: dict[str, list[Any]] = {}
    beginnings: list[Beginnings] = []
    limit = settings.slices // load_machine(machine).workers.size + 1
    for number, (load, workload) in enumerate(settings.played()):
        cell = {"machine": machine, "load": load, "workload": workload}
        for keys in KEYS:
            first = sum(len(part.meta) for part in beginnings)
            beginnings.append(_beginnings(settings, env_of(settings, cell, keys)))
            for question in questions_of(settings, keys, limit):
                for episode in range(settings.episodes):
                    facts = {"world": number, "fresh": keys == "fresh", "of": episode, **question}
                    for name, value in {**facts, "episode": first + episode}.items():
                        columns.setdefault(name, []).append(value)
    arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    joined = Beginnings(
        np.concatenate([part.counters for part in beginnings]),
        np.concatenate([part.meta for part in beginnings]),
        beginnings[0].position_mask,
    )
    plays = Plays(arrays["episode"], arrays["wanted"], arrays["sampled"], arrays["limit"])
    actions = play_many(agent, joined, plays, seed=agent.config.seed, rows=_AT_ONCE, device=device)
    about = {
        "updates": agent.updates,
        "config": {**asdict(agent.config)},
        "learned_on": agent.learned_on,
        "data": agent.dataset,
        "unseen": unseen,
    }
    write_atomically(file_of(stem, ".json"), json.dumps(about))
    aside = file_of(stem, ".part.npz")
    np.savez_compressed(aside, actions=actions.astype(np.uint8), **arrays)
    aside.replace(file_of(stem, ".npz"))


def questions_of(settings: Settings, keys: str, limit: int) -> list[dict[str, Any]]:
    """What a network is asked in each episode."""
    questions: list[dict[str, Any]] = []
    for wanted, most, sampled in product(WANTED, (0, limit), (False, True)):
        # Other returns than the usual one are asked for once, in the plainest way.
        if wanted != USUAL and (keys == "fresh" or most or sampled):
            continue
        if keys == "fresh" and sampled:
            continue
        several = sampled and most and keys == "logged"
        for attempt in range(settings.tries if several else 1):
            asked = {"wanted": wanted, "limit": most, "sampled": sampled, "attempt": attempt}
            questions.append(asked)
    return questions


def usual_answers(
    settings: Settings, agent: DecisionTransformer, machine: str, workload: str
) -> Any:
    """(episodes, slices) tiles that a network draws for USUAL under a backlog, within the limit.

    Raises:
        CheckpointError: the network is for another grid or number of slices.
    """
    cell = {"machine": machine, "workload": workload, "load": "saturated"}
    limit = settings.slices // load_machine(machine).workers.size + 1
    count = settings.episodes
    plays = Plays(
        np.arange(count), np.full(count, USUAL), np.ones(count, bool), np.full(count, limit)
    )
    env_kwargs = {**env_of(settings, cell), "index": load_workload(workload).index}
    beginnings = _beginnings(settings, env_kwargs)
    return play_many(agent, beginnings, plays, seed=agent.config.seed, rows=_AT_ONCE)


def env_seeds(settings: Settings) -> list[int]:
    """Of the episodes that are played: none of any data."""
    return [episode_seed(SEED, episode) for episode in range(settings.episodes)]


def _beginnings(settings: Settings, env_kwargs: Mapping[str, Any]) -> Beginnings:
    counters, metas, mask = [], [], None
    with closing(find_domain("spatial").make_env(env_kwargs)) as env:
        for seed in env_seeds(settings):
            observation, _ = env.reset(seed=seed)
            counters.append(observed_counters(env.incumbent_snapshot)[env.order])
            metas.append(observation["meta"])
            mask = np.ravel(observation["position_mask"])
    return Beginnings(np.stack(counters).astype(np.float32), np.stack(metas), np.asarray(mask))
