"""Which rows of an offline benchmark are measured again: tasks, policies and common episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import EpisodeResult, pack_actions, read_results
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.files import read_json

#: Rules and the search that stand beside the learned agents where no policy is asked for.
OPPONENTS = (
    *("random", "lpt", "lpt-capacity", "best-fit", "greedy-capacity", "two-level"),
    "local-search",
)
#: An optimum is no rule.
_OPTIMUM = "exact"
_SUMMARY = "summary.json"


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
    folder: Path,
    track: str = "same-task",
    *,
    tasks: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    episodes: int = 20,
) -> dict[str, PlayedTask]:
    """The rows of an offline benchmark that are to be measured again, by task.

    Of agents these are the rows of the first training and its last checkpoint.

    Args:
        folder: of the results of ``pmoss benchmark offline``.
        track: of them.
        tasks: names; None: all that the track has.
        policies: names; None: OPPONENTS and all agents that learned, as far as they have rows.
        episodes: the first ones that all these policies played; fewer where there are fewer.

    Raises:
        DatasetError: the folder holds no such results, or damaged ones.
        UnknownNameError: a track, task or policy that it does not hold.
        DescriptionError: no episode is asked for or common to all policies, or no rule is among
            them.
        UnsupportedError: a task whose actions schedule no index.
    """
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    path = folder / _SUMMARY
    try:
        summary = read_json(path)
        known = {name: list(found["tasks"]) for name, found in summary["tracks"].items()}
        learned = {
            (str(cell["track"]), str(cell["task"]), str(cell["agent"])): None
            for cell in summary["cells"].values()
            if "training" in cell
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path}: is no summary of `pmoss benchmark offline`: name the folder of one with "
            "--results"
        ) from error
    if track not in known:
        raise UnknownNameError(f"track of {folder}", track, known)
    for task in tasks or ():
        if task not in known[track]:
            raise UnknownNameError(f"task of {folder}", task, known[track])
    return {
        task: _read_task(
            folder / track / f"{task}.jsonl",
            task,
            [agent for of_track, of_task, agent in learned if (of_track, of_task) == (track, task)],
            policies,
            episodes,
        )
        for task in dict.fromkeys(tasks or known[track])
    }


def _read_task(
    path: Path, task: str, agents: Sequence[str], policies: Sequence[str] | None, episodes: int
) -> PlayedTask:
    header, rows = read_results(path)
    domain = domain_of_env(header["env_id"])
    if domain.name != FIRST_DOMAIN:
        raise UnsupportedError(
            f"{task}: is a task of {domain.name}: the simulated server measures schedules of an "
            "index only"
        )
    # That of opponents and of the first training; others are of more trainings.
    first = min((row.seed for row in rows), default=0)
    of_policy: dict[str, dict[int, EpisodeResult]] = {}
    for row in rows:
        if row.seed == first:
            of_policy.setdefault(row.policy, {})[row.episode] = row
    playing = [name for name in of_policy if name in domain.opponents() or name in agents]
    for name in policies or ():
        if name not in playing:
            raise UnknownNameError(f"policy of {path}", name, playing)
    usual = [name for name in (*OPPONENTS, *agents) if name in playing]
    chosen = list(dict.fromkeys(policies or usual))
    common = sorted(set.intersection(*(set(of_policy[name]) for name in chosen))) if chosen else []
    if not common:
        raise DescriptionError(f"{path}: has no episode that all of these played: {chosen}")
    found = PlayedTask(
        task,
        header["env_id"],
        header["env_kwargs"],
        {
            number: _episode(path, {name: of_policy[name][number] for name in chosen})
            for number in common[:episodes]
        },
    )
    if not found.rules:
        raise DescriptionError(
            f"policies = {chosen}: must hold a rule, with which the others are compared"
        )
    return found


def _episode(path: Path, rows: Mapping[str, EpisodeResult]) -> PlayedEpisode:
    seeds = {row.env_seed for row in rows.values()}
    if len(seeds) > 1:
        number = next(iter(rows.values())).episode
        raise DatasetError(f"{path}: episode {number}: has several seeds: {sorted(seeds)}")
    return PlayedEpisode(
        seeds.pop(),
        {
            name: PlayedRow(
                row.throughput,
                pack_actions(row.actions)
                if all(0 <= action < 256 for action in row.actions)
                else row.actions,
            )
            for name, row in rows.items()
        },
    )
