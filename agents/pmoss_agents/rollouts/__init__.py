"""Rollouts: policies place slices on this host or a model, and what they did is run again."""

from pmoss_agents.rollouts.playing import Undo, roll_out
from pmoss_agents.rollouts.replay import is_rollout, read_rollouts, replay_rollouts

__all__ = ["Undo", "is_rollout", "read_rollouts", "replay_rollouts", "roll_out"]
