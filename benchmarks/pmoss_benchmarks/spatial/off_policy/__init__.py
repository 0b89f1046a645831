"""`pmoss benchmark off-policy`: estimates of a policy's value from data, held against the truth."""

from pmoss_benchmarks.spatial.off_policy.report import FULL, QUICK, Plan, run_off_policy, summarise

__all__ = ["FULL", "QUICK", "Plan", "run_off_policy", "summarise"]
