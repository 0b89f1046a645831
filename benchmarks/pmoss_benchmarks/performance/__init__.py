"""`pmoss benchmark performance`: how fast the parts are, as ratios beside peers in one run."""

from pmoss_benchmarks.performance.suite import PARTS, run_performance

__all__ = ["PARTS", "run_performance"]
