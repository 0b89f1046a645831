"""Simulated backends of one process share their recordings: these cost more than a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_env.backends.recordings import Recordings

_RECORDINGS = Recordings(kept=6)


def simulation(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a simulated backend, with the recordings of this process."""
    return {**(options or {}), "recordings": _RECORDINGS}
