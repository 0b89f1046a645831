"""The measurement of a C++ model as a HardwareSnapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_NAMES, COUNTERS, HardwareSnapshot, LoadRegime


def model_snapshot(
    raw: Mapping[str, Any], machine: Machine, load: LoadRegime, provenance: Mapping[str, Any]
) -> HardwareSnapshot:
    """The snapshot of a ``_native.ModelSnapshot``; missing counters are unavailable."""
    slices = len(raw["counters"]["queries"])
    counters = np.zeros((slices, len(COUNTERS)))
    available = np.zeros(len(COUNTERS), dtype=np.bool_)
    for i, name in enumerate(COUNTER_NAMES):
        if name in raw["counters"]:
            counters[:, i] = raw["counters"][name]
            available[i] = True
    links = np.asarray(raw["link_gb_per_s"])[~np.eye(machine.sockets, dtype=np.bool_).ravel()]
    offcore = np.concatenate([raw["read_gb_per_s"], raw["write_gb_per_s"], links])
    return HardwareSnapshot(
        throughput=float(raw["throughput"]),
        slice_throughput=counters[:, 0].copy(),
        slice_counters=counters,
        counters_available=available,
        running_ratio=available.astype(np.float64),
        offcore=offcore,
        offcore_names=machine.offcore_names,
        offcore_available=np.ones(offcore.size, dtype=np.bool_),
        latency_p50_us=float(raw["latency_p50_us"]),
        latency_p99_us=float(raw["latency_p99_us"]),
        load=str(load),
        provenance=dict(provenance),
    )
