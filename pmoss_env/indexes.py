"""The kinds of index, as the native registry has them (native/kinds/index_kind.hpp).

A kind says how it is served, recorded and profiled, and what its records are. Everything else asks
here: no other module knows kinds by name.
"""

from __future__ import annotations

from pmoss_env._native import IndexKind, index_kinds
from pmoss_env.errors import UnknownNameError

#: What workloads and environments are for unless they say otherwise.
DEFAULT = "btree"


def index_names() -> list[str]:
    """The names of all kinds, in alphabetical order."""
    return [kind.name for kind in index_kinds()]


def index_kind(name: str) -> IndexKind:
    """A kind of index by its name.

    Raises:
        UnknownNameError: no such kind.
    """
    for kind in index_kinds():
        if kind.name == name:
            return kind
    raise UnknownNameError("index", name, index_names())


def holds_points(name: str) -> bool:
    """Whether the records of a kind are points in the plane, the same in all instances.

    The slices of such an index are the cells of a grid; those of others are key ranges.

    Raises:
        UnknownNameError: no such kind.
    """
    return index_kind(name).records == "points"
