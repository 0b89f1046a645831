"""`pmoss benchmark headroom`: what search finds beyond the simple schedules, task by task."""

from pmoss_benchmarks.spatial.headroom.report import THRESHOLD, HeadroomOptions, measure_cell

__all__ = ["THRESHOLD", "HeadroomOptions", "measure_cell"]
