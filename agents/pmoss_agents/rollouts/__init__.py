"""Rollouts: policies place slices on this host or a model, and what they did is run again."""

from pmoss_agents.rollouts.playing import (
    Mean,
    Undo,
    keep_schedules,
    means,
    read_incumbent,
    roll_out,
)
from pmoss_agents.rollouts.replay import is_rollout, read_rollouts, replay_rollouts

__all__ = [
    "Mean",
    "Undo",
    "is_rollout",
    "keep_schedules",
    "means",
    "read_incumbent",
    "read_rollouts",
    "replay_rollouts",
    "roll_out",
]
