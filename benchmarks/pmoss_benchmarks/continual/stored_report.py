"""What a stored report of the comparison tells one that goes on from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.cells import Result
from pmoss_benchmarks.continual.games import GRIDS, Entrant, Game, HeadroomOptions
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_env.errors import DatasetError, PmossError
from pmoss_env.files import read_json

#: What a report calls itself.
FORMAT = "continual-headroom"
_COMMAND = "pmoss benchmark continual"
#: The environment of reports that do not name it.
FIRST_ENV = "pmoss/ContinualScheduling-v0"


@dataclass(frozen=True)
class StoredReport:
    """What a stored report holds of the games of a comparison; by default, nothing.

    Attributes:
        policies: that it compared.
        choices: position in its grid of what was chosen, of each drift and policy.
        entrants: the agents that played along.
        results: of all games.
        commands: that made its rows, the first one first.
    """

    policies: frozenset[str] = frozenset()
    choices: Mapping[tuple[str, str], int] = field(default_factory=dict)
    entrants: tuple[Entrant, ...] = ()
    results: Mapping[Game, Result] = field(default_factory=dict)
    commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path, drifts: Sequence[str], options: HeadroomOptions) -> StoredReport:
        """Reads a report.

        Raises:
            DatasetError: the file is no report of these drifts and settings.
        """
        try:
            report = read_json(path)
            settings = json.loads(json.dumps(asdict(options)))
            if (report["settings"], report.get("env_id")) != (settings, CONTINUAL.env_id):
                raise DatasetError(
                    f"{path}: is of {report.get('env_id', FIRST_ENV)} and {report['settings']}, "
                    f"asked for are {CONTINUAL.env_id} and {settings}: without `--keep`, all "
                    "games are played anew"
                )
            if report["format"] != FORMAT:
                raise ValueError(f"format {report['format']!r}")
            tasks = {task["drift"]: task for task in report["tasks"]}
            policies = frozenset.intersection(*(frozenset(tasks[d]["policies"]) for d in drifts))
            choices = choices_of(path, drifts, sorted(policies))
            agents = frozenset.intersection(*(frozenset(tasks[d]["agents"]) for d in drifts))
            rows = {d: {**tasks[d]["policies"], **tasks[d]["agents"]} for d in drifts}
            entrants = {
                name: Entrant(name, name, tasks[drifts[0]]["agents"][name]["checkpoint_sha256"])
                for name in sorted(agents)
            }
            commands = (*report.get("kept_commands", ()), report["command"])
            results: dict[Game, Result] = {}
            for drift, name in product(drifts, sorted(policies | agents)):
                row, choice = rows[drift][name], choices.get((drift, name), 0)
                _check_mean(name, row)
                player = entrants[name].key if name in entrants else name
                for seed in range(options.episodes):
                    found: Result = {"outcome": _served(row["outcomes"][seed])}
                    if name in agents:
                        found["actions"] = str(row["actions"][seed])
                    results[Game(drift, player, choice, seed)] = found
        except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:
            if isinstance(error, PmossError):
                raise
            about = f"about {', '.join(drifts)}"
            raise _no_report(path, error, f"is no report of `{_COMMAND}` {about}") from error
        return cls(policies, choices, tuple(entrants.values()), results, commands)


def _check_mean(name: str, row: Mapping[str, Any]) -> None:
    """ValueError where a row contradicts itself, as one does that was changed by hand."""
    mean = float(np.mean([_served(value) for value in row["outcomes"]]))
    if not math.isclose(mean, row["mean"], rel_tol=1e-9):
        raise ValueError(f"{name}: mean {row['mean']!r} is not that of its outcomes, {mean!r}")


def _served(value: Any) -> float:
    """An outcome, if it is a number that an episode can have."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"outcome {value!r}: must be a finite number")
    return float(value)


def choices_of(
    path: Path, drifts: Sequence[str], names: Sequence[str]
) -> dict[tuple[str, str], int]:
    """The positions in their grids of what a stored report chose.

    Raises:
        DatasetError: the file is no such report, or lacks a drift or a policy.
    """
    try:
        tasks = {task["drift"]: task["policies"] for task in read_json(path)["tasks"]}
        return {
            (drift, name): [dict(one) for one in GRIDS[name]].index(
                tasks[drift][name]["parameters"]
            )
            for drift, name in product(drifts, names)
        }
    except (KeyError, OSError, TypeError, ValueError) as error:
        if isinstance(error, PmossError):
            raise
        tuned = f"{', '.join(names)} are tuned for {', '.join(drifts)}"
        raise _no_report(path, error, f"does not tell how {tuned}") from error


def _no_report(path: Path, error: Exception, lacks: str) -> DatasetError:
    """What is told of a file that cannot be gone on with: an exception's own words say little."""
    if isinstance(error, OSError):
        lacks = f"cannot be read: {error.strerror or error}"
    elif isinstance(error, ValueError):
        lacks = f"{lacks}: {error}"
    return DatasetError(
        f"{path}: {lacks}; name a report of `{_COMMAND}` of the same drifts, or none: then all "
        "games are played anew"
    )
