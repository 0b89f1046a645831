"""The catalogue of workloads: presets and files of others by name, any by path."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pmoss_env.errors import UnknownNameError
from pmoss_env.files import FileStamp, file_stamp
from pmoss_env.search_paths import file_of, toml_files
from pmoss_env.workloads.description import Workload

PRESETS = Path(__file__).parent / "presets"
#: Where other packages and the user add folders of workload files; see pmoss_env.search_paths.
GROUP, VARIABLE = "pmoss.workloads", "PMOSS_WORKLOADS_PATH"


def preset_names() -> list[str]:
    """Names of the presets: the registered ids do not depend on what is installed beside us."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def workload_names() -> list[str]:
    """Names that load_workload() knows."""
    return list(toml_files(PRESETS, GROUP, VARIABLE))


def load_preset(name: str) -> Workload:
    """A preset, whatever else is installed; ``name`` is one of preset_names()."""
    path = PRESETS / f"{name}.toml"
    return _load(path, file_stamp(path))


def load_workload(name: str) -> Workload:
    """The workload of a preset, of a file on the search path, or of a ``.toml`` file by its path.

    Raises:
        UnknownNameError: no file has this name.
        DescriptionError: the file has a missing or impossible value, or two files have the name.
    """
    path = file_of(name, PRESETS, GROUP, VARIABLE)
    if path is None:
        raise UnknownNameError("workload", name, [*workload_names(), "path/to/workload.toml"])
    return _load(path, file_stamp(path))


@lru_cache(maxsize=32)
def _load(path: Path, stamp: FileStamp) -> Workload:
    """What a path held at a stamp: a file that was edited since is read anew."""
    return Workload.from_toml(path)
