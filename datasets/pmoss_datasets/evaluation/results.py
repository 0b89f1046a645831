"""Result files: JSON lines from which the episodes can be run again."""

from __future__ import annotations

import base64
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pmoss_datasets.checked import check
from pmoss_datasets.recipes import MOST_EVALUATIONS
from pmoss_env import __version__
from pmoss_env.checks import is_number
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.files import parse_json, read_text, write_atomically
from pmoss_env.provenance import command_line, describe_machine

FORMAT = "pmoss-evaluation"
FORMAT_VERSION = 2
#: Bits of the environment's seeds: the usual ones, and those of rounds of the leaderboard.
NARROW, WIDE = 32, 63
#: Fields of rows of policies that asked before they decided; other rows omit them.
ASKED = ("evaluations", "measurements")


@dataclass(frozen=True)
class EpisodeResult:
    """One policy in one episode.

    Attributes:
        policy: its name.
        seed: the evaluation seed; for a trained agent also the seed of its training.
        episode: number within the seed.
        env_seed: seed of the environment's reset.
        incumbent_throughput: Mq/s, as the environment reports it.
        throughput: X(final), Mq/s, as the environment reports it.
        score: 0 = mean of random legal schedules, 100 = the best that the search found, both by
            the noise-free backend; None where search finds nothing above random.
        random_throughput: mean of the random legal schedules, Mq/s.
        search_throughput: what the search found, Mq/s.
        illegal_actions: actions on masked tiles.
        actions: what the policy chose at each step.
        seconds_per_decision: wall time of the policy, mean over the steps.
        evaluations: of the model that a declared search asked for; None: it declared none.
        measurements: before the decision; None: none were allowed.
    """

    policy: str
    seed: int
    episode: int
    env_seed: int
    incumbent_throughput: float
    throughput: float
    score: float | None
    random_throughput: float
    search_throughput: float
    illegal_actions: int
    actions: tuple[int, ...]
    seconds_per_decision: float
    evaluations: int | None = None
    measurements: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """The results of evaluate(), and the settings to repeat it.

    Attributes:
        env_id: as given to evaluate().
        env_kwargs: likewise.
        search_budget: likewise.
        random_schedules: likewise.
        rows: one per policy and episode.
        misplaced: episodes by policy in which the kernel left data elsewhere than the schedule
            wants them, so that what was measured is of another placement; only where there are any.
        seed_bits: as given to evaluate().
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    search_budget: int
    random_schedules: int
    rows: list[EpisodeResult]
    misplaced: Mapping[str, int] = field(default_factory=dict)
    seed_bits: int = NARROW


def write_results(
    path: Path, evaluation: Evaluation, *, compact: bool = False, **notes: Any
) -> None:
    """Writes a result file: JSON lines, the header first. Whole or not at all.

    Args:
        compact: write actions below 256 as one text, a byte each: a quarter of the room.
        **notes: further plain-JSON facts for the header, e.g. how the agents were trained.
    """
    lines = [json.dumps(_header(evaluation, notes), allow_nan=False)]
    lines += [json.dumps(_line(row, compact), allow_nan=False) for row in evaluation.rows]
    write_atomically(path, "\n".join(lines) + "\n")


def _line(row: EpisodeResult, compact: bool) -> dict[str, Any]:
    values = asdict(row)
    for name in ASKED:
        if values[name] is None:
            del values[name]
    if compact and all(0 <= action < 256 for action in row.actions):
        values["actions"] = pack_actions(row.actions)
    return values


def pack_actions(actions: Iterable[int]) -> str:
    """Actions below 256 as one text: base64 of a byte each."""
    return base64.b64encode(bytes(actions)).decode()


def unpack_actions(text: str) -> list[int]:
    """The actions of pack_actions().

    Raises:
        ValueError: the text is no base64.
    """
    return list(base64.b64decode(text, validate=True))


def _spelled_out(path: Path, number: int, value: dict[str, Any]) -> dict[str, Any]:
    """A row whose actions are a list, whichever form they have in the file."""
    actions = value.get("actions")
    if not isinstance(actions, str):
        return value
    try:
        return {**value, "actions": unpack_actions(actions)}
    except ValueError as error:
        raise DatasetError(f"{path}: line {number}: actions: is no base64 text") from error


def _header(evaluation: Evaluation, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The first line of a result file: all that is needed to run the episodes again."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "env_id": evaluation.env_id,
        "env_kwargs": dict(evaluation.env_kwargs),
        "search_budget": evaluation.search_budget,
        "random_schedules": evaluation.random_schedules,
        "rows": len(evaluation.rows),
        **({"seed_bits": evaluation.seed_bits} if evaluation.seed_bits != NARROW else {}),
        **({"misplaced": dict(evaluation.misplaced)} if evaluation.misplaced else {}),
        "notes": dict(notes),
        "command": command_line(),
        "versions": {
            "pmoss_env": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "gymnasium": gymnasium.__version__,
        },
        "host": {
            "cpu": describe_machine()["cpu_model"],
            "architecture": platform.machine(),
            "logical_cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
        },
    }


def read_results(path: Path) -> tuple[dict[str, Any], list[EpisodeResult]]:
    """The header, "seed_bits" included, and the rows of a result file.

    Raises:
        DatasetError: no such file, another format or version, a damaged line, or another number
            of rows than the header says; names the line and the field.
        MissingExtraError: msgspec is not installed.
    """
    values = [_spelled_out(path, number, value) for number, value in enumerate(read_lines(path), 1)]
    header = {"seed_bits": NARROW, **values[0]} if values else {}
    if header.get("format") != FORMAT:
        raise DatasetError(
            f"{path}: line 1: is not the header of a {FORMAT} file, which `pmoss evaluate --out "
            "FILE` writes; rows of studies go by the study's name, and those of `pmoss run "
            "rollout` are not replayed"
        )
    if header.get("format_version") != FORMAT_VERSION:
        raise DatasetError(
            f"{path}: line 1: format_version = {header.get('format_version')!r}: this version "
            f"reads {FORMAT_VERSION}"
        )
    ranges = dict.fromkeys(("search_budget", "random_schedules", "rows"), (1, MOST_EVALUATIONS))
    check_fields(_Settings, header, f"{path}: line 1: ", ranges, others=True)
    if header["seed_bits"] not in (NARROW, WIDE):
        raise DatasetError(
            f"{path}: line 1: seed_bits = {header['seed_bits']}: must be {NARROW} or {WIDE}"
        )
    for number, value in enumerate(values[1:], 2):
        check_row(value, f"{path}: line {number}: ")
    rows = [EpisodeResult(**{**value, "actions": tuple(value["actions"])}) for value in values[1:]]
    if len(rows) != header["rows"]:
        raise DatasetError(
            f"{path}: line 1: rows = {header['rows']}, but {len(rows)} follow: the file was cut "
            "or added to"
        )
    return header, rows


@dataclass(frozen=True)
class _Settings:
    """The required part of a result file's header; the rest is for readers."""

    env_id: str
    env_kwargs: dict[str, Any]
    search_budget: int
    random_schedules: int
    rows: int
    seed_bits: int


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; DatasetError if it cannot be read or a line is none."""
    try:
        lines = read_text(path).splitlines()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DatasetError(f"{path}: is no text, so no file of results: {error}") from error
    return [_parse(path, number, line) for number, line in enumerate(lines, 1)]


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise DatasetError(f"{path}: line {number}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DatasetError(f"{path}: line {number}: is not a JSON object")
    return value


def check_row(value: Mapping[str, Any], where: str) -> None:
    """Refuses values that are no EpisodeResult, and numbers that none has: DatasetError."""
    asked = (name for name in ASKED if value.get(name) is not None)
    counts = ("seed", "episode", "env_seed", "illegal_actions", *asked)
    check_fields(EpisodeResult, value, where, dict.fromkeys(counts, (0, 2**63 - 1)))
    for name in (each.name for each in fields(EpisodeResult) if "float" in each.type):
        if value[name] is not None and not is_number(value[name]):
            raise DatasetError(f"{where}{name} = {value[name]}: must be a finite number")
    if (seconds := value["seconds_per_decision"]) < 0:
        raise DatasetError(f"{where}seconds_per_decision = {seconds}: must be at least 0")


def check_fields(
    kind: type,
    value: Mapping[str, Any],
    where: str,
    ranges: Mapping[str, tuple[int, int]],
    *,
    others: bool = False,
) -> None:
    """Refuses values that do not fit a record, or whole numbers beyond a range.

    Raises:
        DatasetError: it names the field.
    """
    if others:
        names = [each.name for each in fields(kind)]
        value = {name: value[name] for name in names if name in value}
    try:
        check(kind, value, where)
    except DescriptionError as error:
        raise DatasetError(str(error)) from error
    for name, (low, high) in ranges.items():
        if not low <= value[name] <= high:
            raise DatasetError(
                f"{where}{name} = {value[name]}: must be a whole number from {low} to {high}"
            )
