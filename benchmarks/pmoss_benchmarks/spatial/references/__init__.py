"""What an episode is scored by: long searches, and a bound that no schedule passes."""

from pmoss_benchmarks.spatial.references.search import LONG_BUDGET
from pmoss_benchmarks.spatial.references.store import (
    Reference,
    make_references,
    read_references,
    recheck,
    references_path,
    summary,
    world_of,
)

__all__ = [
    "LONG_BUDGET",
    "Reference",
    "make_references",
    "read_references",
    "recheck",
    "references_path",
    "summary",
    "world_of",
]
