"""Simulated backends of one process share their recordings: these cost more than a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_benchmarks.combinations import Combination
from pmoss_env.backends import Backend, IncrementalBackend, make_backend
from pmoss_env.backends.recordings import Recordings

_RECORDINGS = Recordings(kept=6)


def simulation(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a simulated backend, with the recordings of this process."""
    return {**(options or {}), "recordings": _RECORDINGS}


def model_and_server(
    cell: Combination, slices: int, options: Mapping[str, Any] | None
) -> tuple[IncrementalBackend, Backend]:
    """The analytic and the simulated backend of a cell.

    Args:
        cell: machine, index, workload and load.
        slices: of the index.
        options: of the simulated backend.
    """
    common: dict[str, Any] = {
        "machine": cell.machine,
        "index": cell.index,
        "workload": cell.workload,
        "slices": slices,
        "load": cell.load,
    }
    model = make_backend("analytic", **common)
    assert isinstance(model, IncrementalBackend)
    return model, make_backend("simulated", **common, **simulation(options))
