"""`pmoss benchmark validation`: published statements about real machines, and what ours say."""

from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.targets import TARGETS, Target, Verdict, choose, validate

__all__ = ["TARGETS", "Laboratory", "Target", "Verdict", "choose", "validate"]
