"""Policies in the same episodes: played, scored, summarised, kept in files and replayed."""

from pmoss_datasets.evaluation.episodes import (
    DEFAULT_ENV,
    KEY,
    episode_seed,
    evaluate,
)
from pmoss_datasets.evaluation.replay import Replay, replay
from pmoss_datasets.evaluation.results import (
    NARROW,
    WIDE,
    EpisodeResult,
    Evaluation,
    pack_actions,
    read_results,
    unpack_actions,
    write_results,
)
from pmoss_datasets.evaluation.statistics import (
    INTERVAL,
    Difference,
    Summary,
    aggregate,
    bootstrap_interval,
    mean_asked,
    of_means,
    paired_difference,
    with_interval,
)

__all__ = [
    "DEFAULT_ENV",
    "INTERVAL",
    "KEY",
    "NARROW",
    "WIDE",
    "Difference",
    "EpisodeResult",
    "Evaluation",
    "Replay",
    "Summary",
    "aggregate",
    "bootstrap_interval",
    "episode_seed",
    "evaluate",
    "mean_asked",
    "of_means",
    "pack_actions",
    "paired_difference",
    "read_results",
    "replay",
    "unpack_actions",
    "with_interval",
    "write_results",
]
