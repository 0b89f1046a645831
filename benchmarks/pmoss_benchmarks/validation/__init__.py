"""`pmoss benchmark validation`: published statements about real machines, and what ours say."""

from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.targets import (
    TARGETS,
    Target,
    Validation,
    Verdict,
    choose,
    read_targets,
    run_validation,
    validate,
)

__all__ = [
    "TARGETS",
    "Laboratory",
    "Target",
    "Validation",
    "Verdict",
    "choose",
    "read_targets",
    "run_validation",
    "validate",
]
