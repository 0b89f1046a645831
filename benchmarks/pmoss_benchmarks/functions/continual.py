"""How much is left to learn where a running index drifts: opponents against oracles.

Every policy is tuned on episodes of its own first. All then meet the same episodes. The headroom is
what the best opponent leaves to the law oracle. A learned agent plays along: it is no opponent, and
its gain over the best of them is a share of the headroom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_agents import find_policy, pretrained
from pmoss_agents.policies import short_name
from pmoss_benchmarks.offline.episodes import pack_episodes, unpack_episodes
from pmoss_benchmarks.study.function import Cell, Count, Row, Rows, Run, check_names
from pmoss_benchmarks.study.store import file_of, read_stored
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets.continual.domain import CONTINUAL, ORACLES, POLICIES
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.continual.rules import BestFit
from pmoss_datasets.continual.thorough import CALM
from pmoss_datasets.evaluation.statistics import paired_difference, ratio_of_means
from pmoss_env.errors import DescriptionError, UnsupportedError

#: Seeds of the episodes in which policies are tuned; those that are compared count from 0.
TUNING_SEED = 1_000_000
#: A task is a standard one where the best opponent leaves at least this to the law oracle.
THRESHOLD = 0.10
#: The law tells little where the law oracle gains no more than this on the delayed one.
_LITTLE = 0.02
# High prices are for few slices, of which each is a large part of the index.
_PRICES = tuple({"price": price} for price in (0.0005, 0.002, 0.006, 0.03, 0.1))
_THOROUGH = tuple(
    {"price": price, "ahead": ahead}
    for price, ahead in (*product((0.0002, 0.0005), (2, 4)), (0.006, 2), (0.03, 2))
)
#: Those of the domain; how often best-fit is asked is tuned here.
MAKERS: Mapping[str, Callable[..., RoundPolicy]] = {
    **{name: make for name, make in POLICIES.items() if name != "best-fit-10"},
    "best-fit-often": BestFit,
}
#: What is tried of each policy.
GRIDS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "stay": ({},),
    "interleave": ({},),
    "best-fit-once": ({},),
    "best-fit-often": ({"every": 4}, {"every": 10}, {"every": 25}),
    "kernel-like": ({},),
    "repair": tuple(
        {"gain": gain, "act": act, "memory": memory}
        for gain, act, memory in product((0.003, 0.01, 0.03), (0.02, 0.1), (0.4, 1.0))
    ),
    "tries": ({"margin": 0.0}, {"margin": 0.02}),
    "planner": _PRICES,
    "seasonal-planner": _PRICES,
    "thorough-planner": tuple(
        {"price": price, "calm": calm}
        for prices in ((0.0002, 0.0005), (0.006, 0.03, 0.1))
        for price, calm in product(prices, (0.0, CALM))
    ),
    "delayed-oracle": _PRICES,
    "law-oracle": _PRICES,
    "now-oracle": _PRICES,
    "thorough-law-oracle": _THOROUGH,
    "thorough-now-oracle": _THOROUGH,
}


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        drift: family of the task.
        env: arguments of the environment, without the drift.
        episodes: that all policies meet.
        tuning: episodes for each choice of a grid.
        tuning_epochs: their length.
        tuned_by: a study of the same drift, whose parameters the policies have; empty: they are
            tuned here.
        policies: keys of GRIDS.
        agents: words of learned agents, see pmoss_agents.find_policy().
    """

    AXES: ClassVar = ("policies", "agents")

    drift: str = "jobs"
    env: dict[str, Any] = field(default_factory=lambda: {"noise": 1.0})
    episodes: Count = 30
    tuning: Count = 4
    tuning_epochs: Count = 40
    tuned_by: str = ""
    policies: tuple[str, ...] = tuple(GRIDS)
    agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names("policy", self.policies, GRIDS)
        if "law-oracle" not in self.policies or not set(self.policies) - set(ORACLES):
            raise DescriptionError(
                f"policies = {list(self.policies)}: must hold law-oracle and an opponent"
            )
        if self.env.get("backend") == "hardware":
            raise UnsupportedError(
                "backend = 'hardware': all are compared with the law oracle, and a host does not "
                "tell its true machine; `pmoss run autopilot` measures an agent there"
            )
        names = [*self.policies, *map(short_name, self.agents)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DescriptionError(f"agents {', '.join(twice)}: the name is taken: rename the file")


def cells(settings: Settings) -> list[Cell]:
    """A cell for each policy and agent."""
    return [{"policy": name} for name in (*settings.policies, *map(short_name, settings.agents))]


class Work:
    """Tunes and plays one policy after the other; environments are kept."""

    def __init__(self, run: Run) -> None:
        """Takes the settings; refuses what the environment refuses before anything is played."""
        self._settings, self._results = run.settings, run.results
        self._envs: dict[bool, Any] = {}
        self._env(False)

    def __call__(self, cell: Cell) -> Row:
        """The row of a policy.

        Returns:
            ``outcomes``: million queries served in each episode. ``parameters`` of a policy as it
            was tuned; of an agent its packed ``actions`` and the SHA-256 of its ``checkpoint``.
        """
        settings, name = self._settings, cell["policy"]
        episodes = range(settings.episodes)
        if name not in GRIDS:
            word = next(word for word in settings.agents if short_name(word) == name)
            agent = find_policy(word)
            games = [self._play(agent, seed) for seed in episodes]
            return {
                "outcomes": [game.outcome for game in games],
                "checkpoint": _digest(word),
                "actions": pack_episodes(game.actions for game in games),
            }
        parameters = self._tuned(name)
        outcomes = [self._play(MAKERS[name](**parameters), seed).outcome for seed in episodes]
        return {"outcomes": outcomes, "parameters": dict(parameters)}

    def _tuned(self, name: str) -> Mapping[str, Any]:
        """The parameters that serve most in the tuning episodes; the first of equals."""
        settings, grid = self._settings, GRIDS[name]
        if len(grid) == 1:
            return grid[0]
        if settings.tuned_by:
            rows = read_stored(file_of(self._results, settings.tuned_by)).rows
            parameters: dict[str, Any] = next(r for r in rows if r["policy"] == name)["parameters"]
            return parameters
        served = [
            sum(
                self._play(MAKERS[name](**parameters), TUNING_SEED + number).outcome
                for number in range(settings.tuning)
            )
            for parameters in grid
        ]
        return grid[int(np.argmax(served))]

    def _play(self, policy: Any, seed: int) -> Any:
        return CONTINUAL.play(self._env(seed >= TUNING_SEED), policy, seed)

    def _env(self, tuning: bool) -> Any:
        if tuning not in self._envs:
            kwargs = {**self._settings.env, "drift": self._settings.drift}
            if tuning:
                kwargs["epochs"] = self._settings.tuning_epochs
            self._envs[tuning] = CONTINUAL.make_env(kwargs)
        return self._envs[tuning]

    def rerun(self, row: Mapping[str, Any], seed: int) -> float:
        """Million queries that a stored row serves in an episode today."""
        if "actions" in row:
            actions = unpack_episodes(row["actions"])[seed]
            return float(CONTINUAL.rerun(self._env(False), seed, actions).outcome)
        return float(self._play(MAKERS[row["policy"]](**row["parameters"]), seed).outcome)

    def close(self) -> None:
        """Releases the environments."""
        for env in self._envs.values():
            env.close()


def again(run: Run, row: Row) -> Row:
    """The episodes of a row: rules decide anew, agents' actions are run again."""
    with closing(Work(run)) as work:
        return {"outcomes": [work.rerun(row, seed) for seed in range(len(row["outcomes"]))]}


def _digest(word: str) -> str:
    """SHA-256 of the checkpoint that a word names; empty where it names no file."""
    path = Path(word.partition("@")[2] or word)
    path = pretrained.find(word) if pretrained.is_name(word) else path
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """What the rows of a task come to.

    Returns:
        ``drift``; ``changes``, the settings that make the task; ``best``, the best opponent;
        ``headroom``, what the law oracle serves beyond it, as a share, and ``standard``, whether
        that is THRESHOLD or more; ``reason`` why not. ``policies`` and ``agents``: of each its
        ``mean`` in million queries, ``share_of_law`` and ``beyond_best``, paired over the episodes.
        An agent also has ``closed``, its gain over ``best`` as a share of that of the law oracle,
        and ``closed_to_thorough``. Each estimate has ``value``, ``low`` and ``high``.
    """
    values = {row["policy"]: np.array(row["outcomes"]) for row in rows}
    law, thorough = values["law-oracle"], values.get("thorough-law-oracle")
    means = {name: float(outcomes.mean()) for name, outcomes in values.items()}
    opponents = [name for name in values if name in GRIDS and name not in ORACLES]
    best = max(opponents, key=means.__getitem__)
    standings = {}
    for row in rows:
        served = values[row["policy"]]
        standing = {
            **{key: row[key] for key in ("parameters", "checkpoint") if key in row},
            "mean": means[row["policy"]],
            "share_of_law": _paired(served / law),
            "beyond_best": _paired(served - values[best]),
        }
        if row["policy"] not in GRIDS:
            standing["closed"] = asdict(ratio_of_means(served - values[best], law - values[best]))
            if thorough is not None:
                gap = thorough - values[best]
                standing["closed_to_thorough"] = asdict(ratio_of_means(served - values[best], gap))
        standings[row["policy"]] = standing
    headroom = _paired(law / values[best] - 1.0)
    return {
        "drift": settings["drift"],
        "changes": _changes(settings["env"]),
        "episodes": len(law),
        "best": best,
        "headroom": headroom,
        "thorough_headroom": None if thorough is None else _paired(thorough / values[best] - 1.0),
        "standard": headroom["value"] >= THRESHOLD,
        "reason": _reason(best, means),
        "policies": {name: row for name, row in standings.items() if name in GRIDS},
        "agents": {name: row for name, row in standings.items() if name not in GRIDS},
        "outcomes": values,
    }


def _reason(best: str, means: Mapping[str, float]) -> str:
    """Why a task is no standard one: a key that pages put into words."""
    law, delayed = means["law-oracle"], means.get("delayed-oracle", 0.0)
    if means[best] >= law:
        return "best serves as much as the law"
    if law <= delayed * (1 + _LITTLE):
        return "law tells little"
    return "best serves more than the delayed" if means[best] > delayed else "worth little"


#: How the settings of a task are named.
_WORDS = {
    "workload": "under {}",
    "load": "load {}",
    "deviation": "deviation {:g}",
    "moves_per_epoch": "{} moves per epoch",
    "p99_limit_us": "answers within {:g} us",
    "price_per_gb": "{:g} million queries per copied GB",
    "record_bytes": "records of {:,.0f} bytes",
}


def _changes(env: Mapping[str, Any]) -> list[str]:
    options = (env.get("drift_options") or {}).items()
    parts = [f"{key} {value}".replace("_", " ") for key, value in options]
    if "machine" in env:
        parts.append(f"on {Path(env['machine']).stem}")
    return [*parts, *(words.format(env[key]) for key, words in _WORDS.items() if key in env)]


def _paired(values: Any) -> dict[str, Any]:
    return asdict(paired_difference(np.asarray(values)[None]))


def gains(tasks: Rows, agents: Sequence[str]) -> TableOfRows:
    """Million queries by which an agent is ahead of each policy, a column for each task."""
    order = sorted(tasks[0]["policies"], key=lambda name: tasks[0]["policies"][name]["mean"])
    played = [(task["outcomes"], agent) for task, agent in zip(tasks, agents, strict=True)]
    rows = [
        [name, *(interval(_paired(outcomes[agent] - outcomes[name])) for outcomes, agent in played)]
        for name in order
        if all(name in task["policies"] for task in tasks)
    ]
    heads = [f"{_named(task)}: `{agent}`" for task, agent in zip(tasks, agents, strict=True)]
    return TableOfRows(["policy", *heads], rows)


def _named(task: Mapping[str, Any]) -> str:
    return ", ".join([f"`{task['drift']}`", *task["changes"]])


def shares(tasks: Rows) -> TableOfRows:
    """The share of the law oracle, in %, of every policy and agent; a column for each task."""
    of_tasks = [{**task["policies"], **task["agents"]} for task in tasks]
    first: dict[str, float] = {}
    for policies in of_tasks:
        for name, row in policies.items():
            first.setdefault(name, row["share_of_law"]["value"])
    rows = [
        [name, *(interval(of.get(name, {}).get("share_of_law"), scale=100.0) for of in of_tasks)]
        for name in sorted(first, key=first.__getitem__)
    ]
    return TableOfRows(["policy", *map(_named, tasks)], rows)
