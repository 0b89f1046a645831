"""The `pmoss` command with the commands of the installed packages.

A package adds commands through the entry-point group ``pmoss.commands``. Each entry point names a
``typer.Typer``. Its commands and groups appear beside all others; ``rich_help_panel`` is their
panel of the help. Groups of the same name are one group, with the commands of each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.models import TyperInfo

from pmoss_env import __version__
from pmoss_env.entry_points import entries
from pmoss_env.entry_points import load as load_entry
from pmoss_env.errors import PmossError

GROUP = "pmoss.commands"
#: The panels of the help, in their order; other panels follow.
PANELS = ("Start", "Agents", "Data", "This host", "Upkeep")


class _InPanels(TyperGroup):
    """Lists the commands panel by panel."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for command in self.commands.values():
            _make_readable(command)

    def list_commands(self, ctx: Any) -> list[str]:
        def panel(name: str) -> int:
            panel: Any = getattr(self.commands[name], "rich_help_panel", None)
            return PANELS.index(panel) if panel in PANELS else len(PANELS)

        return sorted(self.commands, key=panel)


def _make_readable(command: Any) -> None:
    """Keeps words in angle brackets, and an example per line, which Markdown would drop."""
    if command.help:
        command.help = re.sub(r"\n+(Example: )", r"\n\n\1", _escaped(command.help))
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _escaped(parameter.help)
    for inner in getattr(command, "commands", {}).values():
        _make_readable(inner)


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)<(?=\w)", r"\\<", text)


def _merged(name: str, infos: Sequence[TyperInfo]) -> TyperInfo:
    """The group that several packages add to."""
    solved = [typer.main.solve_typer_info_defaults(info) for info in infos]
    parts = [info.typer_instance for info in infos if info.typer_instance is not None]
    group = typer.Typer()
    group.registered_commands = [command for part in parts for command in part.registered_commands]
    group.registered_groups = [inner for part in parts for inner in part.registered_groups]
    return TyperInfo(
        group,
        name=name,
        no_args_is_help=True,
        help=next((info.help for info in solved if info.help), None),
        hidden=any(info.hidden for info in solved),
        rich_help_panel=solved[0].rich_help_panel,
    )


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pmoss {__version__}")
        raise typer.Exit()


def make_app() -> typer.Typer:
    """The command with the commands of all installed packages.

    A package whose commands cannot be imported gives a warning on standard error.
    """
    app = typer.Typer(
        name="pmoss",
        cls=_InPanels,
        help="Learn, share and measure placement: which core serves which part of an index.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Learn, share and measure placement: which core serves which part of an index."""

    groups: dict[str, list[TyperInfo]] = {}
    for name, entry in entries(GROUP).items():
        try:
            commands = load_entry(entry)
        except PmossError as error:
            typer.echo(f"warning: {error}", err=True)
            continue
        if not isinstance(commands, typer.Typer):
            typer.echo(f"warning: {GROUP}: {name}: {entry.value} is no typer.Typer", err=True)
            continue
        app.registered_commands += commands.registered_commands
        for info in commands.registered_groups:
            group_name = typer.main.solve_typer_info_defaults(info).name
            groups.setdefault(group_name or "", []).append(info)
    app.registered_groups = groups.pop("", [])
    app.registered_groups += [_merged(name, infos) for name, infos in groups.items()]
    return app
