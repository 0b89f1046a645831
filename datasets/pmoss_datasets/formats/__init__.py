"""A dataset in the form that a tool expects: D4RL, Minari, d3rlpy, PyTorch sequences."""

from pmoss_datasets.formats.d4rl import D4RLView
from pmoss_datasets.spatial.sequences import SequenceView

__all__ = ["D4RLView", "SequenceView"]
