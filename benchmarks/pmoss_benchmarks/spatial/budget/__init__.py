"""Policies, rules and searches at 0 to 2,000 measurements of the episode's backend."""

from pmoss_benchmarks.spatial.budget.benchmark import FORMAT, read_rows, recheck, run_budget
from pmoss_benchmarks.spatial.budget.work import BUDGETS

__all__ = ["BUDGETS", "FORMAT", "read_rows", "recheck", "run_budget"]
