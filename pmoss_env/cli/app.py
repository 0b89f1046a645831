"""The `pmoss` command with the commands of the installed packages.

A package adds commands through the entry-point group ``pmoss.commands``. Each entry point names a
``typer.Typer``. Its commands and groups appear beside all others; ``rich_help_panel`` is their
panel of the help. Groups of the same name are one group, with the commands of each.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from pmoss_env import __version__
from pmoss_env.cli.renamed import check_renamed
from pmoss_env.entry_points import entries
from pmoss_env.entry_points import load as load_entry
from pmoss_env.errors import PmossError

GROUP = "pmoss.commands"
#: The panels of the help, in their order; other panels follow.
PANELS = ("Start", "Agents", "Data", "This host", "Upkeep")


class _Commands(dict[str, Any]):
    """Commands by name, each created at its first use: creating all takes long."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(makers)
        self._waiting = set(makers)

    def __getitem__(self, name: str) -> Any:
        if name in self._waiting:
            self[name] = _readable(super().__getitem__(name)())
            self._waiting.discard(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


class _InPanels(TyperGroup):
    """Lists the commands panel by panel. The help only needs their summaries."""

    #: The apps of the packages; see make_app().
    offered: Sequence[typer.Typer] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._summaries: dict[str, Any] = {}
        infos: dict[str, list[Any]] = {}
        for app in self.offered:
            for name, text, info in _offers(app):
                if not isinstance(info, TyperInfo):
                    infos[name] = []
                infos.setdefault(name, []).append(info)
                if name not in self._summaries or text:
                    self._summaries[name] = _summary(name, text, info)
        self.commands = _Commands({name: partial(_made, name, infos[name]) for name in infos})
        self._listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        def panel(name: str) -> int:
            name_of_panel = self._summaries[name].rich_help_panel
            return PANELS.index(name_of_panel) if name_of_panel in PANELS else len(PANELS)

        return sorted(self._summaries, key=panel)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See the base; for the help, a command without its options."""
        return (self._summaries if self._listing else self.commands).get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See the base; the old words of a command are answered with the new ones."""
        if args[0] not in self.commands:  # a package may offer a command of an old name
            check_renamed(args)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """See the base."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def _offers(app: typer.Typer) -> Iterator[tuple[str, Any, Any]]:
    """The name, help and description of the commands and groups of an app."""
    for command in app.registered_commands:
        callback: Any = command.callback
        name = command.name or callback.__name__.lower().replace("_", "-")
        yield name, command.help or inspect.getdoc(callback), command
    for group in app.registered_groups:
        solved = typer.main.solve_typer_info_defaults(group)
        if solved.name:
            yield solved.name, solved.help, group
        elif solved.typer_instance:
            yield from _offers(solved.typer_instance)


def _made(name: str, infos: Sequence[CommandInfo | TyperInfo]) -> Any:
    """The command of a name, or the group that several packages add to."""
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
    # With a callback Typer makes a group, even of a single command.
    app.callback()(lambda: None)
    if isinstance(infos[-1], CommandInfo):
        app.registered_commands.append(infos[-1])
    else:
        groups = [info for info in infos if isinstance(info, TyperInfo)]
        texts = [typer.main.solve_typer_info_defaults(info).help for info in groups]
        parts = [info.typer_instance for info in groups if info.typer_instance is not None]
        group = typer.Typer(no_args_is_help=True, help=next(filter(None, texts), None))
        group.callback()(lambda: None)
        group.registered_commands = [one for part in parts for one in part.registered_commands]
        group.registered_groups = [one for part in parts for one in part.registered_groups]
        app.add_typer(group, name=name, hidden=any(info.hidden is True for info in groups))
    made: Any = typer.main.get_command(app)
    return made.commands[name]


def _summary(name: str, text: Any, info: Any) -> Any:
    """A command for the help, which cannot run."""
    return _readable(
        TyperCommand(
            name,
            help=text if isinstance(text, str) else None,
            hidden=info.hidden is True,
            deprecated=info.deprecated is True,
            rich_help_panel=info.rich_help_panel,
        )
    )


def _readable(command: Any) -> Any:
    _make_readable(command)
    return command


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


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pmoss {__version__}")
        raise typer.Exit()


def make_app() -> typer.Typer:
    """The command with the commands of all installed packages.

    A package whose commands cannot be imported gives a warning on standard error.
    """
    offered: list[typer.Typer] = []
    app = typer.Typer(
        name="pmoss",
        cls=type("_Pmoss", (_InPanels,), {"offered": offered}),
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
        offered.append(commands)
    return app
