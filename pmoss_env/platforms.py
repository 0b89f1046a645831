"""Portable builds of the native module, and the error for what they lack.

A build for Linux serves an index on this host, places its memory and counts events. A portable
build, for macOS and Windows, has everything else, with the same bits.
"""

from __future__ import annotations

import platform
from typing import Any

import pmoss_env._native as _native
from pmoss_env.errors import PlatformError


def looks_at_host() -> bool:
    """Whether this build can read, measure and change its host."""
    return bool(_native.HOST_NAMES)


def require_host(what: str) -> None:
    """Raises an error in a portable build.

    Raises:
        PlatformError: this build is portable; the message names what works instead.
    """
    if not looks_at_host():
        raise PlatformError(_message(what))


def host_topology(what: str, root: str = "/") -> dict[str, Any]:
    """The online CPUs, nodes and caches of a host, as the kernel's ``/sys`` lists them.

    Args:
        what: what needs them; the error names it.
        root: folder that holds ``sys``.

    Raises:
        PlatformError: a portable build; or no CPU is listed, as in a sandbox without ``/sys``.
    """
    require_host(what)
    try:
        return _native.host_topology(root)
    except RuntimeError as error:
        raise PlatformError(
            f"{what} is not available: {error}. Make /sys of the host visible here, e.g. in the "
            "container. The backends 'analytic' and 'simulated' work without it"
        ) from error


def _message(what: str) -> str:
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    why = (
        "this build for Linux was made with PMOSS_PORTABLE=ON"
        if system == "Linux"
        else f"serving an index, placing memory and counting events need Linux; this is {system}"
    )
    return (
        f"{what} is not available: {why}. The backends 'analytic' and 'simulated' work here, with "
        "all environments, datasets and agents on them. For this, install pmoss-env on Linux"
    )


def refuse_absent_names() -> None:
    """Raises PlatformError at the use of any name that a portable build lacks."""

    def absent(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise PlatformError(_message(f"{name}, a part of the native module,"))

    if not looks_at_host():
        vars(_native)["__getattr__"] = absent
