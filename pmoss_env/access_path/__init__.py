"""Choosing how a table scan gets at its data: what is chosen between, simulated and real."""

from pmoss_env.access_path.scans import (
    FEATURES,
    PATHS,
    Background,
    ScanDistribution,
    Scans,
    feature_matrix,
)
from pmoss_env.access_path.simulated import ScanTimes, SimulatedScans

__all__ = [
    "FEATURES",
    "PATHS",
    "Background",
    "ScanDistribution",
    "ScanTimes",
    "Scans",
    "SimulatedScans",
    "feature_matrix",
]
