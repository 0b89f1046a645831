"""The `pmoss` command, made of what the installed packages offer.

A package offers commands through the entry-point group ``pmoss.commands``. Each entry point names a
``typer.Typer``. Its commands and groups appear beside those of all others; ``rich_help_panel``
says in which panel of the help.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperGroup

from pmoss_env import __version__
from pmoss_env.doors import entries
from pmoss_env.doors import load as load_entry
from pmoss_env.errors import PmossError

GROUP = "pmoss.commands"
#: The panels of the help, in their order. Panels of others follow.
PANELS = ("Start", "Environments", "Datasets", "Agents", "Benchmarks", "This host")


class _InPanels(TyperGroup):
    """Lists the commands panel by panel."""

    def list_commands(self, ctx: Any) -> list[str]:
        def panel(name: str) -> int:
            told = getattr(self.commands[name], "rich_help_panel", None)
            return PANELS.index(told) if told in PANELS else len(PANELS)

        return sorted(self.commands, key=panel)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See the base; the command's help is made readable first."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name not in self._readable:
            self._readable.add(cmd_name)
            _make_readable(command)
        return command

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._readable: set[str] = set()


def _make_readable(command: Any) -> None:
    """Lets help texts show what Markdown drops: words in angle brackets, an example per line."""
    if command.help:
        command.help = re.sub(r"\n+(Example: )", r"\n\n\1", _escaped(command.help))
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _escaped(parameter.help)
    for inner in getattr(command, "commands", {}).values():
        _make_readable(inner)


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)<(?=\w)", r"\\<", text)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pmoss {__version__}")
        raise typer.Exit()


def make_app() -> typer.Typer:
    """The command with the commands of every installed package.

    A package whose commands cannot be imported is named on standard error. The rest works without.
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

    for name, entry in entries(GROUP).items():
        try:
            commands = load_entry(entry)
        except PmossError as error:
            typer.echo(f"warning: {error}", err=True)
            continue
        if not isinstance(commands, typer.Typer):
            typer.echo(f"warning: {GROUP}: {name}: {entry.value} is no typer.Typer", err=True)
            continue
        app.add_typer(commands)
    return app
