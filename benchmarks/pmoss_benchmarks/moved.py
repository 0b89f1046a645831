"""Old import paths of what stands on a lower floor now; they go with the next release."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: What replaces a module of this package, and the modules below it.
MOVED = {
    "evaluation": "pmoss_datasets.evaluation",
    "explaining": "pmoss_agents.explaining",
    "host_report": "pmoss_env.host_report",
    "key_value_load": "pmoss_env.envs.threads.key_value_load",
    "measuring": "pmoss_env.measuring",
    "rollouts": "pmoss_agents.rollouts",
}


class _OldPaths(MetaPathFinder, Loader):
    """Finds the modules of MOVED under their old names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package == __package__ and rest.partition(".")[0] in MOVED:
            return ModuleSpec(name, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of today in the place of the old one."""
        old = module.__name__
        first, _, below = old.partition(".")[2].partition(".")
        new = ".".join(filter(None, (MOVED[first], below)))
        warnings.warn(f"{old} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)


def install() -> None:
    """Lets the old paths be imported."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        # First: else a module below an old package would be loaded a second time.
        sys.meta_path.insert(0, _OldPaths())
