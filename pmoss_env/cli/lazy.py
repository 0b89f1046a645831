"""Groups of commands that are imported at their first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer


class LazyTyper(typer.Typer):
    """A group in another module, which is only imported when a command is used.

    Args:
        module: has the group as ``app``, a ``typer.Typer``.
        **options: of ``typer.Typer``.
    """

    def __init__(self, module: str, **options: Any) -> None:
        self._module = module
        super().__init__(**options)

    @property
    def registered_commands(self) -> Any:
        """The commands; imports the module."""
        return import_module(self._module).app.registered_commands

    @registered_commands.setter
    def registered_commands(self, commands: Any) -> None:
        # Typer sets an empty list.
        assert not commands

    @property
    def registered_groups(self) -> Any:
        """The groups; imports the module."""
        return import_module(self._module).app.registered_groups

    @registered_groups.setter
    def registered_groups(self, groups: Any) -> None:
        assert not groups
