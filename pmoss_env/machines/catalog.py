"""The catalogue of machines: names, paths of machine files, random machines, and this host."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pmoss_env.errors import UnknownNameError
from pmoss_env.files import FileStamp, file_stamp
from pmoss_env.machines.description import Machine
from pmoss_env.machines.random_machine import (
    PARTLY_PREFIX,
    PREFIXES,
    SMT_PREFIX,
    random_machine,
)
from pmoss_env.search_paths import file_of, toml_files

PRESETS = Path(__file__).parent / "presets"
#: Group and variable that add folders of machine files; see pmoss_env.search_paths.
GROUP, VARIABLE = "pmoss.machines", "PMOSS_MACHINES_PATH"
#: The name of the machine that this process runs on.
HOST = "host"


def machine_names() -> list[str]:
    """The machine names for load_machine(), this host last."""
    return [*toml_files(PRESETS, GROUP, VARIABLE), HOST]


def load_machine(name: str) -> Machine:
    """Loads a machine: a preset, a file, a random machine, or this host.

    Args:
        name: name of a preset or of a file on the search path, a path that ends in ``.toml``,
            "random:<seed>", "random-smt:<seed>", "random-partly:<seed>", or "host".

    Raises:
        UnknownNameError: no file has this name, or the seed is not a whole number.
        DescriptionError: an invalid or missing value, or two files with this name.
    """
    if name == HOST or name.startswith(PREFIXES):
        return _load(name, None)
    path = file_of(name, PRESETS, GROUP, VARIABLE)
    if path is None:
        random_names = [f"{prefix}<seed>" for prefix in PREFIXES]
        raise UnknownNameError(
            "machine", name, [*machine_names(), *random_names, "path/to/machine.toml"]
        )
    return _load(str(path), file_stamp(path))


@lru_cache(maxsize=32)
def _load(name: str, stamp: FileStamp) -> Machine:
    """Loads a machine; ``stamp`` is that of its file."""
    if name == HOST:
        from pmoss_env.machines.host import describe_host

        return describe_host()
    if name.startswith(PREFIXES):
        kind, _, seed = name.partition(":")
        if not (seed.isascii() and seed.isdigit() and len(seed) <= 20):
            raise UnknownNameError("machine", name, ["random:0", "random-smt:1"])
        prefix = f"{kind}:"
        return random_machine(int(seed), smt=prefix == SMT_PREFIX, partly=prefix == PARTLY_PREFIX)
    return Machine.from_toml(Path(name))
