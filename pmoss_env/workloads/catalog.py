"""The catalogue of workloads: presets by name and workload files by path."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pmoss_env.errors import UnknownNameError
from pmoss_env.workloads.description import Workload

PRESETS = Path(__file__).parent / "presets"


def workload_names() -> list[str]:
    """Names of the presets."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


@lru_cache(maxsize=32)
def load_workload(name: str) -> Workload:
    """The workload of a preset or of a ``.toml`` file.

    Raises:
        UnknownNameError: no preset has this name.
        DescriptionError: the file has a missing or impossible value.
    """
    if name.endswith(".toml"):
        return Workload.from_toml(Path(name))
    path = PRESETS / f"{name}.toml"
    if "/" in name or not path.is_file():
        raise UnknownNameError("workload", name, [*workload_names(), "path/to/workload.toml"])
    return Workload.from_toml(path)
