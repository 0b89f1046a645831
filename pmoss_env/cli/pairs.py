"""Options that several commands have: key=value, and the export of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.checks import check_name
from pmoss_env.cli.output import check_output
from pmoss_env.errors import DescriptionError
from pmoss_env.files import parse_json

if TYPE_CHECKING:
    from pmoss_env.machines import Machine
    from pmoss_env.types import Schedule

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="key=value of the environment; repeatable, value as JSON."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value of the config or settings; repeatable, value as JSON."),
]
MachineOption = Annotated[
    str | None, typer.Option(help="A name from `pmoss list machines`, or host; as -e machine=...")
]
BackendOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="key=value of the backend; repeatable, value as JSON."),
]

ExportOption = Annotated[
    str | None,
    typer.Option(
        help="Write the placement for programs of yours: numactl, cgroup, systemd or kubernetes."
    ),
]
ExportToOption = Annotated[
    Path, typer.Option(help="Folder for what --export writes; files that are there are replaced.")
]
#: The default of ExportToOption.
EXPORT_TO = Path("runs/placement")


def export_placements(
    mechanism: str, machine: Machine, schedules: Mapping[str, Schedule], folder: Path
) -> None:
    """Writes placements by name, and names the files; DescriptionError without any."""
    from pmoss_env.cli.console import console
    from pmoss_env.placement_export import export_placement, placement_name

    if not schedules:
        raise DescriptionError("--export: the file has all rounds: ask for more --rounds")
    by_name: dict[str, str] = {}
    for name in schedules:
        if (other := by_name.setdefault(placement_name(name), name)) != name:
            raise DescriptionError(
                f"--export: {other} and {name} have the same name in files, "
                f"{placement_name(name)}: export each into a folder of its own"
            )
    for name, schedule in schedules.items():
        for path in export_placement(mechanism, machine, schedule, folder, name):
            console.print(f"written to {path}: the placement of {name} by {mechanism}")


def check_export(mechanism: str | None, folder: Path) -> None:
    """Refuses an unknown mechanism, and a folder that cannot be written, before anything runs."""
    from pmoss_env.placement_export import MECHANISMS

    if mechanism is not None:
        check_name("mechanism", mechanism, MECHANISMS)
        check_output(folder, folder=True)


def pairs(words: Sequence[str] | None) -> dict[str, Any]:
    """Parses key=value options; a value that is no JSON is a text.

    A user-defined index is registered: the user of the command line trusts it.

    Raises:
        BadParameter: a word without an equals sign or key, or a key twice.
        PluginError: an index that is no shared library.
    """
    result: dict[str, Any] = {}
    for word in words or []:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{word!r}: must be key=value")
        if key in result:
            raise typer.BadParameter(f"{word!r}: {key} has a value already: give it once")
        try:
            result[key] = parse_json(text)
        except ValueError:
            result[key] = text
    if "index" in result:
        result["index"] = named_index(result["index"])
    return result


def env_arguments(words: Sequence[str] | None, machine: str | None) -> dict[str, Any]:
    """Arguments of an environment, from --env and --machine.

    Raises:
        DescriptionError: both name a machine.
    """
    given = pairs(words)
    if machine is None:
        return given
    if "machine" in given:
        raise DescriptionError(f"--machine {machine}: -e machine={given['machine']} names another")
    return {"machine": machine, **given}


def named_index(name: Any) -> Any:
    """An index of the command line; "plugin:PATH" is registered.

    Raises:
        PluginError: the library cannot be read, or is none.
    """
    from pmoss_env.indexes import is_plugin, register_plugin

    return register_plugin(name) if isinstance(name, str) and is_plugin(name) else name


def index_and_workload(index: str | None, workload: str | None) -> tuple[str, str]:
    """Both, from either: the index of the workload, or the usual workload of the index.

    Raises:
        PluginError: an index that is no shared library.
    """
    from pmoss_env.indexes import DEFAULT, index_kind
    from pmoss_env.workloads import load_workload

    index = named_index(index)
    kind = index_kind(index or DEFAULT)
    if workload is None:
        workload = kind.usual_workload
    return index or load_workload(workload).index, workload
