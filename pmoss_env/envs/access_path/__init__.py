"""Access-path selection: processor loads or a copy engine for each table scan."""

from pmoss_env.envs.access_path.env import AccessPathEnv
from pmoss_env.envs.access_path.scans import (
    FEATURES,
    PATHS,
    Background,
    ScanDistribution,
    Scans,
    feature_matrix,
)
from pmoss_env.envs.access_path.simulated import ScanTimes, SimulatedScans

__all__ = [
    "FEATURES",
    "PATHS",
    "AccessPathEnv",
    "Background",
    "ScanDistribution",
    "ScanTimes",
    "Scans",
    "SimulatedScans",
    "feature_matrix",
]
