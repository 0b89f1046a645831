"""The paper's network at full size, trained as its authors trained it, beside what it retrieves.

Its data are the tier ``authors``: fixed schedules that read no load, replayed over workloads. A
network can give a logged schedule again, or change it. It can also be asked often, and the best of
its answers be taken. So a gain over Grouped, Mixed and Spread has three factors:

- retrieval: the best logged schedule, by what was logged, over the best of the three;
- learning: the mean answer of the network over that schedule;
- selection: the best of some measured answers over their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import product
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.training_log import MOMENT, means_of_windows, read_log
from pmoss_benchmarks.offline.episodes import actions_of, pack_episodes
from pmoss_benchmarks.spatial.author_networks import (
    KEYS,
    USUAL,
    Settings,
    env_of,
    env_seeds,
    file_of,
    files_of,
    of_network,
    questions_of,
    stem_of,
    train,
)
from pmoss_benchmarks.spatial.author_tables import ACCURATE as ACCURATE
from pmoss_benchmarks.spatial.author_tables import NAMED
from pmoss_benchmarks.spatial.author_tables import PLOTS as PLOTS
from pmoss_benchmarks.spatial.author_tables import TABLES as TABLES
from pmoss_benchmarks.spatial.author_tables import summarise as summarise
from pmoss_benchmarks.study.function import Cell, Progress, Row, Run
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import pack_actions
from pmoss_env.baselines import local_search, make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError
from pmoss_env.files import parse_json, read_text
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import Schedule

#: Rules that play the same episodes.
RULES = (*NAMED, "random", "lpt", "best-fit", "two-level")
#: Schedules whose workers share slices.
SHARED = ("os-default", "os-interleave", "shared-everything", "shared-nothing-node")
#: Episodes that a shipped agent plays, which takes longest: the first ones.
_OF_AGENTS = 4
#: Points of a stored training curve, at most.
_POINTS = 60


def cells(settings: Settings) -> list[Cell]:
    """Every world of every variant and machine."""
    variants = [{"variant": name} for name in settings.variants] or [{}]
    return [
        {"machine": machine, "load": load, "workload": workload, **variant}
        for variant in variants
        for machine, (load, workload) in product(settings.machines, settings.played())
    ]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data, trains the networks and lets them play, as far as that was not done."""
    settings = run.settings
    for variant, machine in product(settings.variants or ("",), settings.machines):
        own = of_network(run, machine, variant)
        for seed in settings.training_seeds(machine):
            if not file_of(stem_of(own, machine, seed), ".npz").exists():
                train(own, machine, seed, progress)


def measure(run: Run, cell: Cell) -> Row:
    """What all serve in a world, Mq/s.

    Returns:
        ``new``: whether the workload is in no data. ``files``: of each logged schedule the mean
        that was ``logged``, by the first workload where this one is new, and what it serves here;
        the packed tiles of the ``best`` by what was logged. ``opponents``: by kind of keys and name
        what was served in each episode. ``networks``: of each training ``plays``, which hold by
        question what was ``served`` in each episode. The share of slices that ``agree`` is that
        with the closest logged schedule. Of some plays there are packed ``actions``, too.
        ``trainings``, in a machine's first row: the ``curve`` of each, and ``unseen``, loss and
        accuracy in further episodes.
    """
    run = of_network(run, cell["machine"], cell.get("variant", ""))
    settings = run.settings
    first = settings.worlds()[0] == (cell["load"], cell["workload"])
    seeds = settings.training_seeds(cell["machine"]) if first else ()
    trainings = [_training(run, cell["machine"], seed) for seed in seeds]
    _, files, logged = files_of(run, cell["machine"], cell["load"], cell["workload"])
    with closing(_World(settings, cell, "logged")) as world:
        served = [world.serves(0, cores) for cores in files]
    best = files[int(np.argmax(logged))]
    tiles = load_machine(cell["machine"]).tile_of_core[best].tolist()
    players = range(settings.seeds)
    return {
        "new": cell["workload"] not in settings.workloads,
        "env_seeds": env_seeds(settings),
        "trainings": trainings,
        "files": {"logged": logged, "served": served, "best": pack_actions(tiles)},
        "opponents": {keys: _opponents(settings, cell, keys, best) for keys in KEYS},
        "networks": [{"seed": seed, "plays": _plays(run, cell, seed, files)} for seed in players],
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
            by_name = {"best-logged": world.serves(episode, best)}
            for name in (*RULES, *SHARED):
                context = world.env.context(np.random.default_rng((seed, 2)))
                schedule = make_baseline(name, shared=True)(context)
                by_name[name] = world.measured(schedule)
            context = world.env.context(np.random.default_rng((seed, 1)), world.backend)
            by_name["search"] = local_search(context, settings.search_budget).throughput
            for name, value in by_name.items():
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
    about = parse_json(read_text(file_of(stem, ".json")))
    log = read_log(file_of(stem, ".jsonl"))
    curve = means_of_windows(log, _POINTS, (*MOMENT, "held_out_loss", "held_out_accuracy"))
    return {"seed": seed, **about, "curve": curve, "seconds": log[-1]["seconds"]}


def _plays(run: Run, cell: Cell, seed: int, files: Any) -> list[dict[str, Any]]:
    """What a network served in a cell's episodes."""
    settings, stem = run.settings, stem_of(run, cell["machine"], seed)
    path = file_of(stem, ".npz")
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
            for question in questions_of(settings, keys, limit):
                asked = np.all([kept[name] == value for name, value in question.items()], 0)
                rows = np.flatnonzero(of_keys & asked)
                served = [world.serves(int(kept["of"][row]), cores[row]) for row in rows]
                agree = [float((files == cores[row]).mean(1).max()) for row in rows]
                play = {"keys": keys, **question, "served": served}
                if _is_kept({**play, "most": limit}):
                    play["actions"] = pack_episodes(kept["actions"][rows])
                else:
                    play["served"] = _short(served)
                plays.append({**play, "agree": float(np.mean(agree))})
    return plays


def _is_kept(play: Mapping[str, Any]) -> bool:
    """Whether the actions of a play are stored."""
    asked = (play["keys"], play["wanted"], play["limit"], play["attempt"])
    return asked == ("logged", USUAL, play["most"], 0)


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
