"""Running the rollouts of a file again, and comparing every bit of their results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_datasets.domain import check_offer, find_domain
from pmoss_datasets.evaluation import Replay, episode_seed
from pmoss_datasets.evaluation.episodes import Progress
from pmoss_datasets.evaluation.results import check_fields, read_lines
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.backends.frames import unpack_schedule
from pmoss_env.errors import DatasetError, ScheduleError, UnsupportedError
from pmoss_env.files import MAX_JSON_BYTES, open_regular, parse_json

KIND = "rollout"
#: What no file can prove: who chose, how fast, what undoing found, and by which version.
_UNPROVEN = (
    *("policy", "episode", "policy_seconds", "restored", "comparison", "provenance"),
    "row_crc32",
)


@dataclass(frozen=True)
class _Header:
    """What the first line must hold."""

    env: dict[str, Any]
    seed: int
    domain: str
    incumbent: dict[str, Any] | None


@dataclass(frozen=True)
class _Row:
    """What every other line must hold."""

    policy: str
    episode: int


def is_rollout(path: Path) -> bool:
    """Whether a file's first line says that it holds rollouts; False if it cannot be read."""
    try:
        with os.fdopen(open_regular(path), encoding="utf-8") as file:
            header = parse_json(file.readline(MAX_JSON_BYTES))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and header.get("kind") == KIND


def read_rollouts(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the rows of a file that ``pmoss run rollout --out`` wrote.

    Raises:
        DatasetError: the file is damaged; names the line.
    """
    header, *rows = read_lines(path) or [{}]
    # Files that name no domain are older than the second one.
    header = {"domain": FIRST_DOMAIN, "incumbent": None, **header}
    for number, (kind, line) in enumerate([(_Header, header), *((_Row, row) for row in rows)], 1):
        ranges = {"seed": (0, 2**63 - 1)} if number == 1 else {"episode": (0, 2**31 - 1)}
        check_fields(kind, line, f"{path}: line {number}: ", ranges, others=True)
    return header, rows


def replay_rollouts(
    path: Path, progress: Progress | None = None, *, episodes: int | None = None
) -> Replay:
    """Runs the rollouts of a file again, by the actions or schedules that they ended with.

    Args:
        path: of a file that ``pmoss run rollout --out`` wrote.
        progress: called with (rows done, rows in all) after each.
        episodes: only so many episodes, the first ones, with every policy; None: all.

    Raises:
        DatasetError: the file is damaged.
        UnsupportedError: a backend whose measurements do not repeat.
        PmossError: an environment that is not there, or does not take its arguments.
    """
    header, rows = read_rollouts(path)
    domain = find_domain(header["domain"])
    options = {}
    if header["incumbent"] is not None:
        check_offer(domain, "schedules", f"{path}: line 1: incumbent")
        try:
            options["incumbent"] = unpack_schedule(header["incumbent"])
        except (TypeError, ValueError) as error:
            raise DatasetError(f"{path}: line 1: incumbent: {error}") from error
    numbers = sorted({row["episode"] for row in rows})[:episodes]
    chosen = [(line, row) for line, row in enumerate(rows, 2) if row["episode"] in numbers]
    env = domain.make_env(header["env"])
    mismatches: list[str] = []
    try:
        for done, (line, row) in enumerate(chosen, 1):
            where = f"line {line}: {row['policy']}, episode {row['episode']}"
            seed = episode_seed(header["seed"], row["episode"])
            try:
                again = domain.row_again(env, seed, row, **options)
            except UnsupportedError:
                raise
            except (DatasetError, ScheduleError) as error:
                mismatches.append(f"{where}: {error}")
            else:
                mismatches += [f"{where}: {text}" for text in _differences(row, again)]
            if progress is not None:
                progress(done, len(chosen))
    finally:
        env.close()
    return Replay(len(chosen), tuple(mismatches))


def _differences(row: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: recorded {row.get(name)!r}, now {value!r}"
        for name, value in again.items()
        if name not in _UNPROVEN and repr(row.get(name)) != repr(value)  # NaN is NaN
    ]
