"""Spatial scheduling: place every slice of an index on a core (P-MOSS)."""

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.observation import (
    ObservationBuilder,
    PositionMask,
    meta_names,
    placement_order,
)
from pmoss_env.envs.spatial.vector import SpatialVectorEnv

__all__ = [
    "ObservationBuilder",
    "PositionMask",
    "SpatialSchedulingEnv",
    "SpatialVectorEnv",
    "meta_names",
    "placement_order",
]
