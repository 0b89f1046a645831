"""The kinds of index in the native registry (native/kinds/index_kind.hpp).

A kind defines how it is served, recorded and profiled, and what its records are. No other module
uses the names of kinds.

A user-defined index is a shared library (native/include/pmoss/index.h) with the name "plugin:PATH".
Its code runs in the process that measures, so it must be registered first. The command line
registers the paths that it is given. A file, such as a dataset's metadata, cannot.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pmoss_env._native as _native
from pmoss_env._native import IndexKind, index_kinds
from pmoss_env.errors import PluginError, UnknownNameError
from pmoss_env.files import check_regular
from pmoss_env.platforms import require_host

#: The index kind of workloads and environments that name none.
DEFAULT = "btree"
#: Prefix of the names of user-defined indexes, before the path of the library.
PLUGIN = "plugin:"
_ELF = b"\x7fELF"
_HEADER = Path("pmoss", "index.h")


def index_names() -> list[str]:
    """The names of all kinds, in alphabetical order."""
    return [kind.name for kind in index_kinds()]


def index_kind(name: str) -> IndexKind:
    """A kind of index by its name.

    Raises:
        PluginError: a library that is not registered.
    """
    for kind in index_kinds():
        if kind.name == name:
            return kind
    if name.startswith(PLUGIN):
        raise PluginError(
            f"index {name!r} is a library that this process has not registered. Its code would "
            f"run: if you trust it, call pmoss_env.indexes.register_plugin({name[len(PLUGIN) :]!r})"
            ", or name it on the command line, as `pmoss data verify --plugin PATH` does"
        )
    raise UnknownNameError("index", name, index_names())


def is_plugin(name: str) -> bool:
    """Whether an index is a user-defined library."""
    return name.startswith(PLUGIN)


def check_hint(name: str) -> str:
    """A sentence that names the command to check a library; empty for other indexes."""
    if not is_plugin(name):
        return ""
    path = name.removeprefix(PLUGIN)
    return f"The index is the library {path!r}: `pmoss index check {shlex.quote(path)}` checks it."


def register_plugin(path: str | Path) -> str:
    """Registers a shared library that includes pmoss/index.h as an index; safe to repeat.

    The library's code runs later, when the hardware backend measures it in the measuring process.

    Args:
        path: of the library; "plugin:" may stand before it.

    Returns:
        The name of the index: "plugin:" and the absolute path.

    Raises:
        PluginError: no such file, or no shared library.
        PlatformError: a portable build, which serves no index.
    """
    require_host("an index of a shared library")
    library = Path(str(path).removeprefix(PLUGIN)).expanduser().resolve()
    try:
        check_regular(library)
        with library.open("rb") as file:
            magic = file.read(len(_ELF))
    except OSError as error:
        raise PluginError(f"the index {str(library)!r} cannot be read: {error.strerror}") from error
    if magic != _ELF:
        raise PluginError(
            f"{str(library)!r} is no shared library: build one with `cc -shared -fPIC` that "
            "includes pmoss/index.h"
        )
    return _native.register_plugin(str(library))


def holds_points(name: str) -> bool:
    """Whether the records of a kind are points in the plane, the same in all instances.

    Their slices are the cells of a grid; the slices of other kinds are key ranges.
    """
    return index_kind(name).records == "points"


def get_include() -> str:
    """The folder for the compiler's option -I, for ``#include <pmoss/index.h>``.

    Returns:
        An absolute path in the installed package or in the source checkout.

    Raises:
        PluginError: the installation lacks the header.
    """
    package = Path(__file__).resolve().parent
    # CMake installs beside the extension in an editable installation.
    extension = Path(str(_native.__file__)).resolve().parent
    for folder in (extension / "include", package / "include", package.parent / "native/include"):
        if (folder / _HEADER).is_file():
            return str(folder)
    raise PluginError(f"{_HEADER} is not below {package}: install pmoss-env again")
