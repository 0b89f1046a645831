"""Spatial scheduling: place every slice of an index on a core (P-MOSS)."""

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.observation import (
    ObservationBuilder,
    PositionMask,
    meta_names,
    placement_order,
)

__all__ = [
    "ObservationBuilder",
    "PositionMask",
    "SpatialSchedulingEnv",
    "meta_names",
    "placement_order",
]
