"""Workloads: the queries of an index, as data."""

from pmoss_env.workloads.catalog import load_preset, load_workload, preset_names, workload_names
from pmoss_env.workloads.description import (
    KEY_SPACES,
    POINTS,
    SOSD,
    Workload,
    resized,
)

__all__ = [
    "KEY_SPACES",
    "POINTS",
    "SOSD",
    "Workload",
    "load_preset",
    "load_workload",
    "preset_names",
    "resized",
    "workload_names",
]
