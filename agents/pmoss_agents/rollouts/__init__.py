"""Rollouts: policies place slices on this host or a model."""

from pmoss_agents.rollouts.playing import Undo, roll_out

__all__ = ["Undo", "roll_out"]
