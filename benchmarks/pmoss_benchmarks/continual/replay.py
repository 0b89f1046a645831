"""Playing the games of a stored comparison again, and comparing every bit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pmoss_benchmarks.cells import Progress
from pmoss_benchmarks.continual.games import MAKERS, Entrant, Game, HeadroomOptions
from pmoss_benchmarks.continual.headroom import summary, summary_of_agent
from pmoss_benchmarks.continual.stored_report import FIRST_ENV, FORMAT
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_env.errors import DatasetError, PmossError
from pmoss_env.files import read_json


def recheck(path: Path, episodes: int, progress: Progress = lambda done, total: None) -> list[str]:
    """Plays some episodes of each task again; one line for each value that comes out different.

    Rules decide anew, with their tuned parameters. Agents are not asked: their actions are run
    again. All figures are computed again from the outcomes.

    Args:
        path: of a report of ``pmoss benchmark continual``.
        episodes: of each task, spread evenly, with every policy.
        progress: called with (done, total) games.

    Raises:
        DatasetError: the file is none of them, or damaged.
    """
    try:
        report = read_json(path)
        if report["format"] != FORMAT:
            raise ValueError(f"format = {report['format']!r}: must be {FORMAT!r}")
        if (env_id := report.get("env_id", FIRST_ENV)) != CONTINUAL.env_id:
            raise DatasetError(
                f"{path}: was made in {env_id}, whose episodes have other bits than those of "
                f"{CONTINUAL.env_id}; make it anew: {report['command']}"
            )
        options = HeadroomOptions(**report["settings"])
        tasks = [dict(task) for task in report["tasks"]]
        found = [line for task in tasks for line in _other_figures(task)]
        games = list(_games(tasks, options, episodes))
        for done, (task, name, row, seed) in enumerate(games, 1):
            found += _other_game(options, task["drift"], name, row, seed)
            progress(done, len(games))
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:
        if isinstance(error, PmossError):
            raise
        raise DatasetError(
            f"{path}: is no report of `pmoss benchmark continual`: {error!r}"
        ) from error
    return found


def _games(
    tasks: list[dict[str, Any]], options: HeadroomOptions, episodes: int
) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any], int]]:
    """(task, name, row, seed) of what is played again."""
    count = min(episodes, options.episodes)
    seeds = [number * options.episodes // count for number in range(count)]
    for task, seed in product(tasks, seeds):
        for name, row in {**task["policies"], **task["agents"]}.items():
            yield task, name, row, seed


def _other_game(
    options: HeadroomOptions, drift: str, name: str, row: Mapping[str, Any], seed: int
) -> Iterator[str]:
    env = CONTINUAL.make_env(options.kwargs(Game(drift, name, 0, seed)))
    try:
        if "actions" in row:
            actions = [int(action) for action in row["actions"][seed].split()]
            again = CONTINUAL.rerun(env, seed, actions)
        else:
            again = CONTINUAL.play(env, MAKERS[name](**row["parameters"]), seed)
    except DatasetError as error:
        yield f"{drift}, {name}, seed {seed}: {error}"
        return
    finally:
        env.close()
    if again.outcome != row["outcomes"][seed]:
        yield (
            f"{drift}, {name}, seed {seed}: recorded {row['outcomes'][seed]!r}, now "
            f"{again.outcome!r}"
        )


def _other_figures(task: Mapping[str, Any]) -> Iterator[str]:
    """Figures that are not those of the outcomes."""
    policies = task["policies"]
    now = summary(
        task["drift"],
        {name: row["parameters"] for name, row in policies.items()},
        {name: row["outcomes"] for name, row in policies.items()},
    )
    for name, row in task["agents"].items():
        entrant = Entrant(name, name, row["checkpoint_sha256"])
        now["agents"][name] = summary_of_agent(now, entrant, row["outcomes"], row["actions"])
    for key, value in json.loads(json.dumps(now)).items():
        if value != task[key]:
            yield f"{task['drift']}: {key}: is not what the outcomes come to"
