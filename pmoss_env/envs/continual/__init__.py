"""Continual scheduling: a running index whose surroundings change."""

from pmoss_env.envs.continual.drift import Conditions, Drift, DriftFamily, draw_drift
from pmoss_env.envs.continual.env import INFO_KEYS, ContinualSchedulingEnv
from pmoss_env.envs.continual.families import FAMILIES

__all__ = [
    "FAMILIES",
    "INFO_KEYS",
    "Conditions",
    "ContinualSchedulingEnv",
    "Drift",
    "DriftFamily",
    "draw_drift",
]
