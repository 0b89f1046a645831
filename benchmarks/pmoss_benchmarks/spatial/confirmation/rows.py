"""Which rows of a study are measured again: tasks, policies and common episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pmoss_benchmarks.offline.episodes import actions_of, play_again, world_of
from pmoss_benchmarks.study.store import read_stored
from pmoss_datasets.domain import domain_of_env, find_domain
from pmoss_datasets.evaluation import pack_actions
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError

#: Rules and the search that stand beside the learned agents where no policy is asked for.
OPPONENTS = (
    *("random", "lpt", "lpt-capacity", "best-fit", "greedy-capacity", "two-level"),
    "local-search",
)
#: An optimum is no rule.
_OPTIMUM = "exact"


@dataclass(frozen=True)
class PlayedRow:
    """What one policy did in one episode.

    Attributes:
        model: what the model gave for it, Mq/s.
        actions: (steps,) whole numbers; where all are below 256, one text of a byte each.
    """

    model: float
    actions: str | tuple[int, ...]


@dataclass(frozen=True)
class PlayedEpisode:
    """One episode, as all policies met it.

    Attributes:
        env_seed: of the environment's reset.
        rows: by policy.
    """

    env_seed: int
    rows: Mapping[str, PlayedRow]


@dataclass(frozen=True)
class PlayedTask:
    """The rows of one task that are measured again.

    Attributes:
        task: its name.
        env_id: of the environment.
        env: its arguments, plain JSON.
        episodes: by their numbers, each with the same policies.
    """

    task: str
    env_id: str
    env: Mapping[str, Any]
    episodes: Mapping[int, PlayedEpisode]

    def digest(self, number: int) -> str:
        """Of all that decides what is measured in an episode."""
        told = [self.env_id, self.env, asdict(self.episodes[number])]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def policies(self) -> tuple[str, ...]:
        """All that play."""
        return tuple(next(iter(self.episodes.values())).rows)

    @property
    def rules(self) -> tuple[str, ...]:
        """Those of them that take no budget of evaluations."""
        domain = domain_of_env(self.env_id)
        return tuple(
            name
            for name in self.policies
            if name in domain.opponents() and name != _OPTIMUM and not domain.takes_budget(name)
        )


def read_tasks(
    path: Path,
    track: str = "same-task",
    *,
    tasks: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    episodes: int = 20,
) -> dict[str, PlayedTask]:
    """The rows of a study in which policies play that are to be measured again, by task.

    Of agents these are the rows of the first training and its last checkpoint.

    Args:
        path: of the rows.
        track: of them.
        tasks: names; None: all that the track has.
        policies: names; None: OPPONENTS and all agents that learned, as far as they have rows.
        episodes: the first ones that all these policies played; fewer where there are fewer.

    Raises:
        DatasetError: the file holds no such rows, or damaged ones.
        UnknownNameError: a track, task or policy that it does not hold.
        DescriptionError: no episode is asked for or common to all policies, or no rule is among
            them.
        UnsupportedError: a task whose actions schedule no index.
    """
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    stored = read_stored(path)
    if "search_budget" not in stored.settings:
        raise DatasetError(f"{path}: holds no rows of a study in which policies play")
    by_track: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in stored.rows:
        if row.get("played"):
            by_track.setdefault(row["track"], {}).setdefault(row["task"], []).append(row)
    if track not in by_track:
        raise UnknownNameError(f"track of {path}", track, by_track)
    of_tasks = by_track[track]
    for task in tasks or ():
        if task not in of_tasks:
            raise UnknownNameError(f"task of {path}", task, of_tasks)
    budget = stored.settings["search_budget"]
    return {
        task: _read_task(path, task, of_tasks[task], policies, episodes, budget)
        for task in dict.fromkeys(tasks or of_tasks)
    }


def _read_task(
    path: Path,
    task: str,
    rows: Sequence[Mapping[str, Any]],
    policies: Sequence[str] | None,
    episodes: int,
    budget: int,
) -> PlayedTask:
    domain = find_domain(load_task(task).domain)
    if domain.name != FIRST_DOMAIN:
        raise UnsupportedError(
            f"{task}: is a task of {domain.name}: the simulated server measures schedules of an "
            "index only"
        )
    # That of opponents and of the first training; others are of more trainings.
    first = min(row["seed"] for row in rows)
    own = {row["policy"]: row for row in rows if row["seed"] == first}
    for name in policies or ():
        if name not in own:
            raise UnknownNameError(f"policy of {path}", name, own)
    usual = [name for name in (*OPPONENTS, *own) if "training" in own.get(name, ())]
    usual = [name for name in OPPONENTS if name in own] + usual
    chosen = list(dict.fromkeys(policies or usual))
    common = min((len(own[name]["played"][name]["env_seed"]) for name in chosen), default=0)
    if not common:
        raise DescriptionError(f"{path}: has no episode that all of these played: {chosen}")
    played = {name: _episodes(own[name], name, min(common, episodes), budget) for name in chosen}
    seeds = own[chosen[0]]["played"][chosen[0]]["env_seed"]
    again = PlayedTask(
        task,
        domain.env_id,
        world_of(own[chosen[0]]),
        {
            number: PlayedEpisode(seeds[number], {name: played[name][number] for name in chosen})
            for number in range(min(common, episodes))
        },
    )
    if not again.rules:
        raise DescriptionError(
            f"policies = {chosen}: must hold a rule, with which the others are compared"
        )
    return again


def _episodes(row: Mapping[str, Any], name: str, count: int, budget: int) -> list[PlayedRow]:
    """What a policy did in its first episodes; a rule decides anew."""
    packed = row["played"][name]
    actions = actions_of(packed)[:count] or [
        again.rollout.actions for again in play_again(row, budget, count) if again.policy == name
    ]
    return [
        PlayedRow(
            throughput,
            pack_actions(acted) if all(0 <= action < 256 for action in acted) else acted,
        )
        for throughput, acted in zip(packed["throughput"], actions, strict=False)
    ]
