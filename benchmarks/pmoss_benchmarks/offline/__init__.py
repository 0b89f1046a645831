"""`pmoss benchmark offline`: agents on the same data, task by task, track by track."""

from pmoss_benchmarks.offline.benchmark import run_offline
from pmoss_benchmarks.offline.plan import SUITES, Plan, load_suite

__all__ = ["SUITES", "Plan", "load_suite", "run_offline"]
