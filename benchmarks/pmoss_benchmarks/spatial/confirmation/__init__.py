"""Rows of the offline benchmark, measured again on the simulated server."""

from pmoss_benchmarks.spatial.confirmation.benchmark import FORMAT, recheck, run_confirmation
from pmoss_benchmarks.spatial.confirmation.rows import read_tasks
from pmoss_benchmarks.spatial.confirmation.work import ConfirmationOptions

__all__ = ["FORMAT", "ConfirmationOptions", "read_tasks", "recheck", "run_confirmation"]
