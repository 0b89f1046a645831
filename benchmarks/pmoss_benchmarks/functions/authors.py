"""The paper's network at full size, trained as its authors trained it, beside what it retrieves.

Its data are the tier ``authors``: fixed schedules that read no load, replayed over workloads. A
network can give a logged schedule again, or change it. It can also be asked often, and the best of
its answers be taken. So a gain over Grouped, Mixed and Spread has three factors:

- retrieval: the best logged schedule, by what was logged, over the best of the three;
- learning: the mean answer of the network over that schedule;
- selection: the best of some measured answers over their mean.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
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
from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_benchmarks.functions.imitation import CONFIG, curve_of
from pmoss_benchmarks.functions.references import SEED
from pmoss_benchmarks.offline.episodes import actions_of
from pmoss_benchmarks.study.function import Cell, Figure, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, grouped, means, percent, table_of
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import episode_seed, pack_actions
from pmoss_datasets.recipes import tier
from pmoss_datasets.several import Several
from pmoss_datasets.suite import obtain
from pmoss_env.baselines import local_search, make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import DatasetError
from pmoss_env.files import parse_json, read_text, write_atomically
from pmoss_env.machines import Machine, load_machine
from pmoss_env.pictures import new_figure
from pmoss_env.types import Schedule

#: The paper's named schedules without shared slices, which a gain is over.
NAMED = ("grouped", "mixed", "spread")
#: Rules that play the same episodes.
RULES = (*NAMED, "random", "lpt", "best-fit", "two-level")
#: Schedules whose workers share slices.
SHARED = ("os-default", "os-interleave", "shared-everything", "shared-nothing-node")
#: Wanted returns, in multiples of the best to be expected.
WANTED = (0.3, 0.7, 1.1, 2.0)
#: The one that is asked several times and on fresh hot keys, too, and whose schedules are kept.
USUAL = 1.1
#: The training accuracy that the paper reports (section 7.1), after 18 CPU hours.
ACCURATE = 0.95
#: Seed of further episodes whose actions a network predicts.
_UNSEEN = 77
#: Episodes that a shipped agent plays, which takes longest: the first ones.
_OF_AGENTS = 4
#: Rows that a network plays at once; what it samples depends on it.
_AT_ONCE = 64
#: Whether the hot keys are those of the data, or drawn for each episode.
KEYS = ("logged", "fresh")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        machines: with a network each.
        trained_only: machines whose networks play nothing: what came of the training is all.
        workloads: of its data.
        loads: of its data.
        new_workloads: that are in no data, and are played as well.
        slices: of the index.
        data: episodes of each workload and load; 0: as many as the tier has.
        changes: fields that override the committed config.
        seeds: trainings of a machine.
        seeds_of: of machines with another number of them.
        episodes: that are played of each workload, load and kind of keys.
        tries: answers to the usual question, drawn within the limit.
        unseen: further episodes of each workload and load whose actions the network predicts.
        search_budget: evaluations of the search, for the load of the row.
        agents: shipped agents that play the same episodes.
    """

    AXES: ClassVar = ("machines", "trained_only", "seeds_of")

    machines: tuple[str, ...]
    trained_only: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ("ycsb-a", "lookups", "scans")
    loads: tuple[str, ...] = ("closed", "saturated")
    new_workloads: tuple[str, ...] = ()
    slices: int = 256
    data: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    seeds: int = 1
    seeds_of: dict[str, int] = field(default_factory=dict)
    episodes: int = 20
    tries: int = 8
    unseen: int = 10
    search_budget: int = 2000
    agents: tuple[str, ...] = ("pmoss/generalist-v0",)

    def worlds(self) -> list[tuple[str, str]]:
        """Loads and workloads of the data."""
        return list(product(self.loads, self.workloads))

    def played(self) -> list[tuple[str, str]]:
        """Loads and workloads that are played: those of the data first."""
        return [*self.worlds(), *product(self.loads, self.new_workloads)]

    def training_seeds(self, machine: str) -> range:
        """Of a machine's networks."""
        return range(self.seeds_of.get(machine, self.seeds))


def cells(settings: Settings) -> list[Cell]:
    """Every load and workload of every machine; of those that only trained the first."""
    load, workload = settings.worlds()[0]
    trained = [{"machine": m, "load": load, "workload": workload} for m in settings.trained_only]
    return trained + [
        {"machine": machine, "load": load, "workload": workload}
        for machine, (load, workload) in product(settings.machines, settings.played())
    ]


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


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data, trains the networks and lets them play, as far as that was not done."""
    for machine in (*run.settings.machines, *run.settings.trained_only):
        for seed in run.settings.training_seeds(machine):
            if not _of(stem_of(run, machine, seed), ".npz").exists():
                train(run, machine, seed, progress)


def data_of(run: Run, machine: str, progress: Progress = silent, **how: Any) -> list[Dataset]:
    """The data of a machine, collected where they are not there."""
    return [
        obtain(recipe, run.data / recipe.id, partial(progress, f"data {machine}"), **how)
        for recipe in recipes_of(run.settings, machine)
    ]


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


def _of(stem: Path, suffix: str) -> Path:
    """One of the files of a training."""
    return stem.with_name(stem.name + suffix)


def train(
    run: Run, machine: str, seed: int, progress: Progress, deadline: float = math.inf, **how: Any
) -> None:
    """Trains a network and lets it play; interrupted, it goes on from the checkpoint.

    Args:
        deadline: of training, seconds since the epoch; what was learned till then plays.
        **how: fields of the config that do not decide what it learns, such as its device.
    """
    stem = stem_of(run, machine, seed)
    parts: Any = Several(data_of(run, machine, progress))
    stem.parent.mkdir(parents=True, exist_ok=True)
    checkpoint, began = _of(stem, SUFFIX), time.time()
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, "decision-transformer")
    else:
        values = {**read_config(CONFIG), **run.settings.changes, "seed": seed, **how}
        agent = pmoss_agents.make(values.pop("agent"), **values)
    assert isinstance(agent, DecisionTransformer)
    log = TrainingLog(_of(stem, ".jsonl"), agent.updates)

    def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
        log(done, total, {**metrics, "seconds": time.time() - began})
        progress(f"updates {machine} {seed}", done, total)
        if time.time() > deadline:
            raise TimeoutError

    with suppress(TimeoutError):
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
            for question in _questions(settings, keys, limit):
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
    write_atomically(_of(stem, ".json"), json.dumps(about))
    aside = _of(stem, ".part.npz")
    np.savez_compressed(aside, actions=actions.astype(np.uint8), **arrays)
    aside.replace(_of(stem, ".npz"))


def _questions(settings: Settings, keys: str, limit: int) -> list[dict[str, Any]]:
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


def measure(run: Run, cell: Cell) -> Row:
    """What all serve in a world, Mq/s.

    Returns:
        ``new``: whether the workload is in no data. ``files``: of each logged schedule the mean
        that was ``logged``, by the first workload where this one is new, and what it serves here;
        the packed tiles of the ``best`` by what was logged. ``opponents``: by kind of keys and name
        what was served in each episode. ``networks``: of each training ``plays``, which hold by
        question what was ``served`` in each episode. The share of slices that ``agree`` is that
        with the closest logged schedule. Of some plays there are packed ``actions``, too.
        ``trainings``, in a machine's first row, which is all of one that only trained: the
        ``curve`` of each, and ``unseen``, loss and accuracy in further episodes.
    """
    settings = run.settings
    seeds = settings.training_seeds(cell["machine"])
    first = settings.worlds()[0] == (cell["load"], cell["workload"])
    trainings = [_training(run, cell["machine"], seed) for seed in seeds] if first else []
    if cell["machine"] in settings.trained_only:
        return {"new": False, "trainings": trainings, "networks": []}
    of_data = cell["workload"] in settings.workloads
    # What is new to the network was not logged either: then the first workload's log must do.
    logged_in = cell["workload"] if of_data else settings.workloads[0]
    recipe = next(
        recipe
        for recipe in recipes_of(settings, cell["machine"])
        if (recipe.env["load"], recipe.env["workload"]) == (cell["load"], logged_in)
    )
    data = obtain(recipe, run.data / recipe.id)
    files, of_file = np.unique(data.column("final_cores"), axis=0, return_inverse=True)
    finals = data.column("final_throughput")
    logged = [float(finals[of_file.ravel() == number].mean()) for number in range(len(files))]
    with closing(_World(settings, cell, "logged")) as world:
        served = [world.serves(0, cores) for cores in files]
    best = files[int(np.argmax(logged))]
    tiles = load_machine(cell["machine"]).tile_of_core[best].tolist()
    return {
        "new": not of_data,
        "env_seeds": env_seeds(settings),
        "trainings": trainings,
        "files": {"logged": logged, "served": served, "best": pack_actions(tiles)},
        "opponents": {keys: _opponents(settings, cell, keys, best) for keys in KEYS},
        "networks": [{"seed": seed, "plays": _plays(run, cell, seed, files)} for seed in seeds],
    }


class _World:
    """The episodes of a cell, and a model that tells what a schedule serves in each."""

    def __init__(self, settings: Settings, cell: Mapping[str, Any], keys: str) -> None:
        self.kwargs = env_of(settings, cell, keys)
        self.env: SpatialSchedulingEnv = find_domain("spatial").make_env(self.kwargs)
        self._seeds = env_seeds(settings)
        self.backend: Any = None
        self._episode = -1

    @property
    def machine(self) -> Machine:
        """The server."""
        return self.env.machine

    def begin(self, episode: int) -> None:
        """Begins an episode, unless it is the present one."""
        if episode == self._episode:
            return
        self.env.reset(seed=self._seeds[episode])
        if self.backend is None:
            self.backend = self.env.session.new_backend()
        self.backend.set_instance(self.env.instance)
        self._episode = episode

    def serves(self, episode: int, cores: Any) -> float:
        """Mq/s of (slices,) cores, the data on their nodes; readings have no noise here."""
        self.begin(episode)
        context = self.env.context(np.random.default_rng(0))
        return float(self.backend.place(context.local_schedule(np.asarray(cores, np.int32))))

    def measured(self, schedule: Schedule) -> float:
        """Mq/s of a schedule in the present episode, workers that share slices among them."""
        return float(self.backend.measure(schedule, seed=0).throughput)

    def close(self) -> None:
        """Releases the environment and the model."""
        self.env.close()
        if self.backend is not None:
            self.backend.close()


def _opponents(settings: Settings, cell: Cell, keys: str, best: Any) -> dict[str, list[float]]:
    """By name what was served in each episode."""
    served: dict[str, list[float]] = {}
    with closing(_World(settings, cell, keys)) as world:
        for episode, seed in enumerate(env_seeds(settings)):
            world.begin(episode)
            found = {"best-logged": world.serves(episode, best)}
            for name in (*RULES, *SHARED):
                context = world.env.context(np.random.default_rng((seed, 2)))
                schedule = make_baseline(name, shared=True)(context)
                found[name] = world.measured(schedule)
            context = world.env.context(np.random.default_rng((seed, 1)), world.backend)
            found["search"] = local_search(context, settings.search_budget).throughput
            for name, value in found.items():
                served.setdefault(name, []).append(value)
    served = {name: _short(values) for name, values in served.items()}
    domain = find_domain("spatial")
    for name in settings.agents:
        agent = pmoss_agents.load(name)
        # It reads all counters; the plans are then judged without noise.
        with closing(domain.make_env({**world.kwargs, "observation": "full"})) as env:
            games = [domain.play(env, agent, seed) for seed in env_seeds(settings)[:_OF_AGENTS]]
        with closing(_World(settings, cell, keys)) as world:
            served[name] = _short(
                world.serves(episode, world.machine.core_of_tile[list(game.actions)])
                for episode, game in enumerate(games)
            )
    return served


def _training(run: Run, machine: str, seed: int) -> dict[str, Any]:
    """What is known of a training."""
    stem = stem_of(run, machine, seed)
    about = parse_json(read_text(_of(stem, ".json")))
    log = read_log(_of(stem, ".jsonl"))
    return {"seed": seed, **about, "curve": curve_of(log), "seconds": log[-1]["seconds"]}


def _plays(run: Run, cell: Cell, seed: int, files: Any) -> list[dict[str, Any]]:
    """What a network served in a cell's episodes."""
    settings, stem = run.settings, stem_of(run, cell["machine"], seed)
    path = _of(stem, ".npz")
    kept = dict(np.load(path, allow_pickle=False))
    if kept["actions"].shape != (len(kept["world"]), settings.slices):
        raise DatasetError(f"{path}: actions: {kept['actions'].shape}: delete it, to make it anew")
    number = settings.played().index((cell["load"], cell["workload"]))
    plays = []
    for keys in KEYS:
        with closing(_World(settings, cell, keys)) as world:
            of_keys = (kept["world"] == number) & (kept["fresh"] == (keys == "fresh"))
            cores = world.machine.core_of_tile[kept["actions"]]
            limit = settings.slices // world.machine.workers.size + 1
            for question in _questions(settings, keys, limit):
                asked = np.all([kept[name] == value for name, value in question.items()], 0)
                rows = np.flatnonzero(of_keys & asked)
                served = [world.serves(int(kept["of"][row]), cores[row]) for row in rows]
                agree = [float((files == cores[row]).mean(1).max()) for row in rows]
                play = {"keys": keys, **question, "served": served}
                if _is_kept({**play, "most": limit}):
                    play["actions"] = _packed(kept["actions"][rows])
                else:
                    play["served"] = _short(served)
                plays.append({**play, "agree": float(np.mean(agree))})
    return plays


def _is_kept(play: Mapping[str, Any]) -> bool:
    """Whether the actions of a play are stored."""
    asked = (play["keys"], play["wanted"], play["limit"], play["attempt"])
    return asked == ("logged", USUAL, play["most"], 0)


def _packed(actions: Any) -> dict[str, Any]:
    """(episodes, T) uint8 actions as ``offline.episodes.actions_of`` reads them."""
    content = base64.b64encode(zlib.compress(actions.tobytes(), 9)).decode()
    return {"kind": "<u1", "steps": [actions.shape[1]] * len(actions), "zlib": content}


def _short(values: Iterable[float]) -> list[float]:
    """Numbers with six digits: those that nothing is made again of."""
    return [float(f"{value:.6g}") for value in values]


def again(run: Run, row: Row) -> Row:
    """Runs the stored actions again."""
    settings = run.settings
    networks = []
    for network in row["networks"]:
        plays = []
        for play in network["plays"]:
            served = play["served"]
            if "actions" in play:
                with closing(_World(settings, row, play["keys"])) as world:
                    served = [
                        world.serves(episode, world.machine.core_of_tile[list(tiles)])
                        for episode, tiles in enumerate(actions_of(play))
                    ]
            plays.append({**play, "served": served})
        networks.append({**network, "plays": plays})
    return {"networks": networks}


# ---- tables and pictures


def _served(row: Mapping[str, Any], **asked: Any) -> Any:
    """(trainings, tries, episodes) Mq/s of a row's plays of a question."""
    served = [
        [
            play["served"]
            for play in network["plays"]
            if all(play[name] == value for name, value in asked.items())
        ]
        for network in row["networks"]
    ]
    return np.array(served)


def _limits(row: Mapping[str, Any]) -> tuple[int, ...]:
    """The limits of slices on a core that a row's plays had, 0 first."""
    return tuple(sorted({play["limit"] for play in row["networks"][0]["plays"]}))


def factors(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a gain over Grouped, Mixed and Spread is made of, on the logged keys.

    The network is asked for USUAL and its actions are drawn, within the paper's limit.

    Returns:
        ``retrieval``, ``learning`` and ``selection``, see the module's docstring; ``gain``, their
        product; ``choice``, what the best of as many random logged schedules serves over the best
        of the three, for comparison; and ``agree``, the mean share of slices as in the closest
        logged schedule.
    """
    logged, served = (np.array(row["files"][name]) for name in ("logged", "served"))
    named = max(row["opponents"]["logged"][name][0] for name in NAMED)
    asked = {"keys": "logged", "wanted": USUAL, "sampled": True, "limit": _limits(row)[-1]}
    answers = _served(row, **asked)
    mean, best = float(answers.mean()), float(answers.max(1).mean())
    retrieved = float(served[logged.argmax()])
    agree = [
        play["agree"]
        for network in row["networks"]
        for play in network["plays"]
        if all(play[name] == value for name, value in asked.items())
    ]
    return {
        "tries": answers.shape[1],
        "retrieval": retrieved / named,
        "learning": mean / retrieved,
        "selection": best / mean,
        "gain": best / named,
        "choice": best_of_random(served, answers.shape[1]) / named,
        "agree": float(np.mean(agree)),
    }


def best_of_random(served: Any, count: int) -> float:
    """The expected best of some different schedules drawn at random.

    Args:
        served: (schedules,) Mq/s.
        count: how many are drawn.
    """
    ordered, total = np.sort(np.asarray(served))[::-1], len(served)
    count = min(count, total)
    # The best is number i with all others behind it.
    chances = [math.comb(total - 1 - i, count - 1) / math.comb(total, count) for i in range(total)]
    return float(np.dot(ordered, chances))


def _trainings(rows: Rows) -> TableOfRows:
    lines = [
        {
            "machine": row["machine"],
            **training,
            "last": training["curve"][-1],
            "reached": next((p for p in training["curve"] if p["accuracy"] > ACCURATE), None),
            "held": [p["held_out_accuracy"] for p in training["curve"] if "held_out_loss" in p][-1],
            "others": means([{"accuracy": a} for _, a in training["unseen"].values()])["accuracy"]
            if training["unseen"]
            else None,
        }
        for row in rows
        for training in row["trainings"]
    ]
    return table_of(
        lines,
        {
            "server": "`{machine}`",
            ">training": "{seed}",
            ">updates": "{updates}",
            f">seconds to {percent(ACCURATE)}": "{reached[seconds]:.0f}",
            ">seconds": "{seconds:.0f}",
            ">accuracy": "{last[accuracy]:percent 1}",
            ">held out": "{held:percent 1}",
            ">further episodes": "{others:percent 1}",
        },
    )


def _of_worlds(rows: Rows, columns: Mapping[str, Any]) -> TableOfRows:
    return table_of(
        rows, {"server": "`{machine}`", "load": "{load}", "workload": "`{workload}`", **columns}
    )


def _factors(rows: Rows) -> TableOfRows:
    lines = [{**row, **factors(row)} for row in rows if row["networks"]]
    return _of_worlds(
        lines,
        {
            ">retrieval": "{retrieval:.3f}",
            ">learning": "{learning:.3f}",
            ">selection": "{selection:.3f}",
            ">gain": "{gain:.3f}",
            ">as many random files": "{choice:.3f}",
            ">slices as in a file": "{agree:percent}",
        },
    )


def _opponents_table(keys: str, rows: Rows) -> TableOfRows:
    lines = []
    for row in rows:
        if not row["networks"]:
            continue
        greedy = {"keys": keys, "wanted": USUAL, "sampled": False}
        others = {name: float(np.mean(v)) for name, v in row["opponents"][keys].items()}
        lines.append(
            {
                **row,
                "named": max(others[name] for name in NAMED),
                "others": {name.rpartition("/")[2]: value for name, value in others.items()},
            }
        )
        for name, limit in zip(("free", "limited"), _limits(row), strict=True):
            lines[-1][name] = float(_served(row, **greedy, limit=limit).mean())
    shown = {
        "OS default": "os-default",
        "`lpt`": "lpt",
        "`best-fit`": "best-fit",
        "`generalist`": "generalist-v0",
        "search": "search",
    }
    return _of_worlds(
        lines,
        {
            ">best of SN:T": "{named:.1f}",
            ">best logged file": "{others[best-logged]:.1f}",
            ">network": "{free:.1f}",
            ">network, limited": "{limited:.1f}",
            **{f">{words}": f"{{others[{name}]:.1f}}" for words, name in shown.items()},
        },
    )


def _decoding(rows: Rows) -> TableOfRows:
    """Mean over worlds of what is served over the best logged schedule."""
    lines, rows = [], [row for row in rows if row["networks"]]
    for wanted, sampled, limited in product(WANTED, (False, True), (False, True)):
        line: dict[str, Any] = {"wanted": f"{wanted:g}"}
        line["decoding"] = "drawn" if sampled else "likeliest"
        line["limit"] = "the paper's" if limited else "none"
        for load, of_load in grouped(rows, "load").items():
            shares = []
            for row in of_load:
                asked = {"keys": "logged", "wanted": wanted, "sampled": sampled}
                served = _served(row, **asked, limit=_limits(row)[limited])
                if served.size:
                    shares.append(served.mean() / row["opponents"]["logged"]["best-logged"][0])
            if shares:
                line[load] = float(np.mean(shares))
        if len(line) == 3:
            continue
        lines.append(line)
    loads = list(grouped(rows, "load"))
    columns = {">wanted": "{wanted}", "actions": "{decoding}", "limit": "{limit}"}
    return table_of(lines, {**columns, **{f">{load}": f"{{{load}:.3f}}" for load in loads}})


def _curves(rows: Rows) -> Figure:
    """Accuracy over updates, a line for each training."""
    figure = new_figure(7, 3.2)
    axis = figure.subplots()
    colours = {machine: f"C{number}" for number, machine in enumerate(grouped(rows, "machine"))}
    for row in rows:
        for training in row["trainings"]:
            curve = training["curve"]
            points = [p["update"] for p in curve], [100 * p["accuracy"] for p in curve]
            label = row["machine"] if training["seed"] == 0 else None
            axis.plot(*points, color=colours[row["machine"]], lw=1, label=label)
    axis.axhline(100 * ACCURATE, color="0.5", lw=0.8, ls="--", label="the paper")
    axis.set_xlabel("updates")
    axis.set_ylabel("training accuracy, %")
    axis.set_ylim(0, 100)
    axis.legend(fontsize=8)
    return figure


def summarise(settings: Settings, rows: Rows) -> dict[str, Any]:
    """How many trainings there are, and how many pass the paper's accuracy.

    ``learning`` holds that factor of each workload of the data, by load.
    """
    trainings = [training for row in rows for training in row["trainings"]]
    accurate = [t for t in trainings if t["curve"][-1]["accuracy"] > ACCURATE]
    learned = grouped([row for row in rows if row["networks"] and not row["new"]], "load")
    learning = {load: [factors(row)["learning"] for row in own] for load, own in learned.items()}
    return {"trainings": len(trainings), "accurate": len(accurate), "learning": learning}


TABLES = {
    "default": _trainings,
    "factors": _factors,
    "played": partial(_opponents_table, "logged"),
    "fresh": partial(_opponents_table, "fresh"),
    "decoding": _decoding,
}
PLOTS = {"accuracy": _curves}
