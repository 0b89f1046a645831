"""Configs: TOML files of settings, and how the fields of an agent's settings are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pmoss_env.checks import check_type
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import MAX_SETTINGS_BYTES, parse_toml, read_text

CONFIGS = Path(__file__).parent / "configs"
#: The range of settings of each method, and how its committed settings were found.
RANGES = Path(__file__).parent / "ranges.toml"
#: Where a network may learn, see devices.find_device(); it acts on the CPU.
DEVICES = ("cpu", "cuda", "auto")
#: More threads than any machine has use for; far more of them end the process.
MOST_THREADS = 1024
#: Sizes of networks and batches beyond which no memory is enough.
_LARGEST = {
    "width": 4096,
    "hidden": 4096,
    "features": 4096,
    "demands": 4096,
    "members": 64,
    "blocks": 64,
    "layers": 64,
    "heads": 256,
    "channels": 4096,
    "context": 2**16,
    "batch_size": 2**20,
}


def read_config(name: str | Path, task: str = "") -> dict[str, Any]:
    """A config: one that is committed, by name, or a ``.toml`` file by path.

    The file's fields hold for every task. Tables named ``[tasks."<pattern>"]`` override them for
    the tasks whose name the pattern (as of a shell) fits, the last one that fits winning.

    Args:
        task: as in dataset ids: ``skylake-x-8n-btree-ycsb-a`` of
            ``pmoss/skylake-x-8n-btree-ycsb-a/mixed-v0``.

    Raises:
        DescriptionError: it does not exist or is not valid TOML.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = CONFIGS / f"{name}.toml"
    try:
        values = parse_toml(read_text(path, MAX_SETTINGS_BYTES))
    except OSError as error:
        names = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.toml")))
        raise DescriptionError(
            f"config {str(name)!r}: cannot be read; known are {names}"
        ) from error
    except ValueError as error:
        raise DescriptionError(f"{path}: is not valid TOML: {error}") from error
    if not isinstance(values.get("agent", ""), str):
        raise DescriptionError(f"{path}: agent = {values['agent']!r}: must be a string")
    tasks = values.pop("tasks", {})
    if not isinstance(tasks, dict) or not all(isinstance(t, dict) for t in tasks.values()):
        raise DescriptionError(f'{path}: tasks: must be tables, as [tasks."toy-*"]')
    for pattern, changes in tasks.items():
        if fnmatchcase(task, pattern):
            values |= changes
    return values


@dataclass(frozen=True)
class Range:
    """A method's range of settings, the same for all tasks.

    Attributes:
        tuning: how the committed settings were found, in words.
    """

    values: Mapping[str, Sequence[Any]]
    tuning: str


@cache
def read_ranges() -> Mapping[str, Range]:
    """The range of every method that has one, by its agent's name."""
    tables = parse_toml(read_text(RANGES, MAX_SETTINGS_BYTES))
    return {name: Range(table["range"], table["tuning"]) for name, table in tables.items()}


def read_range(agent: str) -> Range:
    """The range of an agent; UnknownNameError where none is committed."""
    ranges = read_ranges()
    if agent not in ranges:
        raise UnknownNameError("method with a range of settings", agent, ranges)
    return ranges[agent]


def has_config(agent: str) -> bool:
    """Whether a config of this name is committed."""
    return (CONFIGS / f"{agent}.toml").exists()


def committed_config(agent: str, task: str) -> dict[str, Any]:
    """Committed fields of an agent for a task, without its name; empty where it has no file."""
    values = dict(read_config(agent, task)) if has_config(agent) else {}
    values.pop("agent", None)
    return values


def task_name(dataset_id: str) -> str:
    """``skylake-x-8n-btree-ycsb-a`` of ``pmoss/skylake-x-8n-btree-ycsb-a/mixed-v0``."""
    return dataset_id.split("/")[1]


def check_types(agent: str, config: type[Any], values: Mapping[str, Any]) -> None:
    """Checks values of the fields of a config before it is made, of this package or another.

    Raises:
        DescriptionError: an int, float, bool or str field would hold something else.
    """
    for field in fields(config):
        if field.name in values:
            check_type(f"{agent}: {field.name}", field.type, values[field.name])


@dataclass(frozen=True)
class Settings:
    """The base of a config, which checks types, choices and bounds of its fields.

    A field of a Literal type holds one of its choices. A whole number without bounds is at least 1.
    The fields ``seed``, ``threads``, ``device`` and ``updates`` have the same rule in every config;
    after no update an agent has the weights that it drew.

    Attributes:
        agent: whose config, for the messages; a class attribute.
        BOUNDS: intervals by field, such as "[0, 1)" or "(0, inf)"; those of base classes hold, too.

    Raises:
        DescriptionError: a value of another type, choice or size.
    """

    agent: ClassVar[str] = ""
    BOUNDS: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        # Types come first: to compare a string with a number would be an error that names no field.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        check_types(self.agent, type(self), values)
        intervals: dict[str, str] = {}
        for owner in reversed(type(self).__mro__):
            intervals |= vars(owner).get("BOUNDS", {})
        kinds = get_type_hints(type(self))
        for name, value in values.items():
            if get_origin(kinds[name]) is Literal:
                choices = get_args(kinds[name])
                self.check(name, value in choices, f"be one of {', '.join(choices)}")
            if name in _LARGEST and kinds[name] is int:
                self.check(name, value <= _LARGEST[name], f"be at most {_LARGEST[name]}")
            if name == "seed":
                self.check(name, 0 <= value < 2**32, "lie in [0, 2^32)")
            elif name == "threads":
                self.check(name, 1 <= value <= MOST_THREADS, f"lie between 1 and {MOST_THREADS}")
            elif name == "device":
                self.check(name, value in DEVICES, f"be one of {', '.join(DEVICES)}")
            elif name == "updates":
                self.check(name, *_within(value, "[0, inf)"))
            elif interval := intervals.get(name, "[1, inf)" if kinds[name] is int else ""):
                self.check(name, *_within(value, interval))

    def check(self, name: str, good: bool, rule: str) -> None:
        """Raises a DescriptionError that names field, value and rule unless ``good``."""
        if not good:
            raise DescriptionError(f"{self.agent}: {name} = {getattr(self, name)!r}: must {rule}")


def _within(value: float, interval: str) -> tuple[bool, str]:
    """Whether a number lies in an interval, and the rule in words."""
    low, high = map(float, interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    if math.isinf(high):
        return above, f"be {'at least' if interval[0] == '[' else 'above'} {low:g}"
    return above and below, f"lie in {interval}"
