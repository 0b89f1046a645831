"""Groups of commands that are imported when one of them is used first."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer


class LazyTyper(typer.Typer):
    """A group that stands elsewhere; the list of all groups needs no more than its help.

    Args:
        module: that has the group as ``app``, a ``typer.Typer``.
        **options: of ``typer.Typer``.
    """

    def __init__(self, module: str, **options: Any) -> None:
        self._module = module
        super().__init__(**options)

    @property
    def registered_commands(self) -> Any:
        """The commands; the module is imported now."""
        return import_module(self._module).app.registered_commands

    @registered_commands.setter
    def registered_commands(self, commands: Any) -> None:
        # Typer begins with none.
        assert not commands

    @property
    def registered_groups(self) -> Any:
        """Groups below it; the module is imported now."""
        return import_module(self._module).app.registered_groups

    @registered_groups.setter
    def registered_groups(self, groups: Any) -> None:
        assert not groups
