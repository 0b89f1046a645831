"""Where the C header for indexes of users lies (pmoss/index.h)."""

from __future__ import annotations

from pathlib import Path

from pmoss_env._native import __file__ as _EXTENSION
from pmoss_env.errors import PluginError

_HEADER = Path("pmoss", "index.h")


def get_include() -> str:
    """The folder for the compiler's option -I, so that ``#include <pmoss/index.h>`` is found.

    Returns:
        An absolute path: of the installed package, or of the source checkout.

    Raises:
        PluginError: the installation lacks the header.
    """
    package = Path(__file__).resolve().parent
    # An editable installation keeps what CMake installs beside the extension.
    installed = [Path(_EXTENSION).resolve().parent / "include", package / "include"]
    for folder in (*installed, package.parent / "native" / "include"):
        if (folder / _HEADER).is_file():
            return str(folder)
    raise PluginError(f"{_HEADER} is not below {package}: install pmoss-env again")
