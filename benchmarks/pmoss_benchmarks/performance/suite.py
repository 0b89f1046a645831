"""The parts of the performance benchmark, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pmoss_benchmarks.performance.datasets import measure_datasets
from pmoss_benchmarks.performance.decision_transformer import measure_decision_transformer
from pmoss_benchmarks.performance.environment import measure_environment
from pmoss_benchmarks.performance.index import measure_index
from pmoss_benchmarks.performance.rtree import measure_rtree
from pmoss_benchmarks.performance.runtime import measure_runtime
from pmoss_benchmarks.performance.sampling import measure_sampling
from pmoss_benchmarks.performance.scan import measure_scan
from pmoss_benchmarks.performance.simulator import measure_simulator
from pmoss_benchmarks.performance.vector_environment import measure_vector_environment
from pmoss_benchmarks.report import Figure
from pmoss_env.errors import UnknownNameError

#: What can be measured; each gives its figures.
PARTS: dict[str, Callable[..., list[Figure]]] = {
    "environment": measure_environment,
    "vector-environment": measure_vector_environment,
    "datasets": measure_datasets,
    "decision-transformer": measure_decision_transformer,
    "index": measure_index,
    "rtree": measure_rtree,
    "runtime": measure_runtime,
    "simulator": measure_simulator,
    "sampling": measure_sampling,
    "scan": measure_scan,
}


def run_performance(
    parts: Sequence[str], **options: Any
) -> Iterator[tuple[str, Callable[[], list[Figure]]]]:
    """The parts by name, and what measures each.

    Args:
        parts: keys of PARTS.
        **options: ``rounds`` of every part; ``keys`` of the index and the simulator.

    Raises:
        UnknownNameError: no such part.
    """
    for part in parts:
        if part not in PARTS:
            raise UnknownNameError("part", part, PARTS)
    return ((part, partial(PARTS[part], **options)) for part in parts)
