"""The Smart Scheduler paper's results on the simulated server; see functions.threads."""

from pmoss_benchmarks.threads.comparison import METHODS, Comparison, compare
from pmoss_benchmarks.threads.reproduction import FITTED, Row, reproduce
from pmoss_benchmarks.threads.studies import (
    bandwidth_gap,
    convergence,
    correlations,
    times_by_remote_share,
    timings,
)

__all__ = [
    "FITTED",
    "METHODS",
    "Comparison",
    "Row",
    "bandwidth_gap",
    "compare",
    "convergence",
    "correlations",
    "reproduce",
    "times_by_remote_share",
    "timings",
]
