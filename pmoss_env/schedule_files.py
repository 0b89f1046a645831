"""Schedules as JSON files."""

from __future__ import annotations

import json
from pathlib import Path

from pmoss_env.backends.frames import pack_schedule
from pmoss_env.errors import ScheduleError
from pmoss_env.files import read_json, write_atomically
from pmoss_env.machines import Machine
from pmoss_env.types import Schedule

FORMAT = "pmoss-schedule"
_KEYS = ("cores", "nodes", "routing", "data")


def write_schedule(path: str | Path, schedule: Schedule) -> None:
    """Writes a schedule atomically."""
    write_atomically(path, json.dumps({"format": FORMAT, **pack_schedule(schedule)}) + "\n")


def read_schedule(path: str | Path, machine: Machine) -> Schedule:
    """Reads a schedule for a machine.

    Args:
        path: a file of write_schedule(), or any JSON object with ``cores``, the core of each slice;
            without ``nodes`` the data lie on the cores' nodes.

    Raises:
        ScheduleError: the file cannot be read, or holds no schedule for this machine; names both.
    """
    try:
        plain = read_json(path)
    except OSError as error:
        raise ScheduleError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ScheduleError(f"{path}: cannot be read: {error}") from error
    if not isinstance(plain, dict) or "cores" not in plain:
        raise ScheduleError(f"{path}: must be a JSON object with 'cores', the core of each slice")
    if plain.get("format", FORMAT) != FORMAT:
        raise ScheduleError(f"{path}: format = {plain['format']!r}: must be {FORMAT!r}")
    if unknown := sorted(set(plain) - {"format", *_KEYS}):
        raise ScheduleError(f"{path}: {unknown[0]!r}: unknown; known are {', '.join(_KEYS)}")
    try:
        parts = {key: plain[key] for key in _KEYS if key in plain}
        if "nodes" not in parts:
            parts["nodes"] = machine.local_schedule(parts["cores"]).nodes
        schedule = Schedule(**parts)
        machine.check_schedule(schedule, schedule.slices)
    except (KeyError, TypeError, ValueError) as error:
        raise ScheduleError(f"{path}: {error}") from error
    return schedule
