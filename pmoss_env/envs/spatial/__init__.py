"""Spatial scheduling: place every slice of an index on a core (P-MOSS)."""

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.observation import (
    in_full,
    meta_names,
    observation_space,
    placement_order,
)
from pmoss_env.envs.spatial.rules import REWARDS, Reward, make_rules
from pmoss_env.envs.spatial.vector import SpatialVectorEnv

__all__ = [
    "REWARDS",
    "Reward",
    "SpatialSchedulingEnv",
    "SpatialVectorEnv",
    "in_full",
    "make_rules",
    "meta_names",
    "observation_space",
    "placement_order",
]
