"""The catalogue of workloads: names, and paths of workload files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pmoss_env.errors import UnknownNameError
from pmoss_env.files import FileStamp, file_stamp
from pmoss_env.search_paths import file_of, toml_files
from pmoss_env.workloads.description import Workload

PRESETS = Path(__file__).parent / "presets"
#: Group and variable that add folders of workload files; see pmoss_env.search_paths.
GROUP, VARIABLE = "pmoss.workloads", "PMOSS_WORKLOADS_PATH"


def preset_names() -> list[str]:
    """The names of the presets; the registered ids do not depend on other packages."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def workload_names() -> list[str]:
    """The workload names for load_workload()."""
    return list(toml_files(PRESETS, GROUP, VARIABLE))


def load_preset(name: str) -> Workload:
    """Loads a preset; ``name`` is one of preset_names()."""
    path = PRESETS / f"{name}.toml"
    return _load(path, file_stamp(path))


def load_workload(name: str) -> Workload:
    """Loads a workload: a preset, a file on the search path, or the path of a ``.toml`` file.

    Raises:
        UnknownNameError: no file has this name.
        DescriptionError: an invalid or missing value, or two files with this name.
    """
    path = file_of(name, PRESETS, GROUP, VARIABLE)
    if path is None:
        raise UnknownNameError("workload", name, [*workload_names(), "path/to/workload.toml"])
    return _load(path, file_stamp(path))


@lru_cache(maxsize=32)
def _load(path: Path, stamp: FileStamp) -> Workload:
    """Loads a workload; ``stamp`` is that of its file."""
    return Workload.from_toml(path)
