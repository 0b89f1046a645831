"""Options of the form key=value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pmoss_env.errors import DescriptionError
from pmoss_env.files import parse_json

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="key=value of the environment; repeatable, value as JSON."),
]
MachineOption = Annotated[
    str | None,
    typer.Option(help="A name from `pmoss list machines`, or host; as -e machine=..."),
]
BackendOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="key=value of the backend; repeatable, value as JSON."),
]


def pairs(words: Sequence[str] | None) -> dict[str, Any]:
    """Parses key=value options; a value that is no JSON is a text.

    A user-defined index is registered: the user of the command line trusts it.

    Raises:
        BadParameter: a word without an equals sign or key.
        PluginError: an index that is no shared library.
    """
    result: dict[str, Any] = {}
    for word in words or []:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{word!r}: must be key=value")
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
