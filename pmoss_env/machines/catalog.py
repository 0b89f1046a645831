"""The catalogue of machines: presets by name, machine files by path, and this host."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pmoss_env.errors import UnknownNameError
from pmoss_env.machines.description import Machine
from pmoss_env.machines.random_machine import PREFIX, random_machine

PRESETS = Path(__file__).parent / "presets"
#: The name that stands for the machine this process runs on.
HOST = "host"


def machine_names() -> list[str]:
    """Names that load_machine() knows, presets first."""
    return [*sorted(path.stem for path in PRESETS.glob("*.toml")), HOST]


@lru_cache(maxsize=32)
def load_machine(name: str) -> Machine:
    """The machine of a preset, of a ``.toml`` file, a made-up one, or this host.

    Args:
        name: a preset's name, a path that ends in ``.toml``, "random:<seed>", or "host".

    Raises:
        UnknownNameError: no preset has this name, or the seed is not a whole number.
        DescriptionError: the file has a missing or impossible value.
    """
    if name == HOST:
        from pmoss_env.machines.host import describe_host

        return describe_host()
    if name.startswith(PREFIX):
        seed = name.removeprefix(PREFIX)
        if not (seed.isascii() and seed.isdigit()):
            raise UnknownNameError("machine", name, ["random:0", "random:1"])
        return random_machine(int(seed))
    if name.endswith(".toml"):
        return Machine.from_toml(Path(name))
    path = PRESETS / f"{name}.toml"
    if "/" in name or not path.is_file():
        raise UnknownNameError(
            "machine", name, [*machine_names(), "random:<seed>", "path/to/machine.toml"]
        )
    return Machine.from_toml(path)
