"""The parts of the performance benchmark, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pmoss_benchmarks.performance.continual import measure_continual
from pmoss_benchmarks.performance.counting import measure_counting
from pmoss_benchmarks.performance.datasets import measure_datasets
from pmoss_benchmarks.performance.decision_transformer import measure_decision_transformer
from pmoss_benchmarks.performance.environment import measure_environment
from pmoss_benchmarks.performance.growth import measure_growth
from pmoss_benchmarks.performance.growth_index import measure_growth_index
from pmoss_benchmarks.performance.index import measure_index
from pmoss_benchmarks.performance.libraries import measure_libraries
from pmoss_benchmarks.performance.live import measure_live
from pmoss_benchmarks.performance.loading import measure_loading
from pmoss_benchmarks.performance.plugin import measure_plugin
from pmoss_benchmarks.performance.recording import measure_recording
from pmoss_benchmarks.performance.rtree import measure_rtree
from pmoss_benchmarks.performance.runtime import measure_runtime
from pmoss_benchmarks.performance.sampling import measure_sampling
from pmoss_benchmarks.performance.scan import measure_scan
from pmoss_benchmarks.performance.simulator import measure_simulator
from pmoss_benchmarks.performance.vector_environment import measure_vector_environment
from pmoss_benchmarks.report import Figure, Report
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.provenance import command_line

#: What can be measured; each gives its figures.
PARTS: dict[str, Callable[..., list[Figure]]] = {
    "environment": measure_environment,
    "vector-environment": measure_vector_environment,
    "continual": measure_continual,
    "growth": measure_growth,
    "growth-index": measure_growth_index,
    "datasets": measure_datasets,
    "decision-transformer": measure_decision_transformer,
    "index": measure_index,
    "rtree": measure_rtree,
    "plugin": measure_plugin,
    "libraries": measure_libraries,
    "recording": measure_recording,
    "runtime": measure_runtime,
    "counting": measure_counting,
    "loading": measure_loading,
    "live": measure_live,
    "simulator": measure_simulator,
    "sampling": measure_sampling,
    "scan": measure_scan,
}

#: Greatest values of the options.
MOST = {"rounds": 10_000, "keys": 2**31}


def run_performance(
    parts: Sequence[str] | None,
    out: Path | None = None,
    announce: Callable[[str], None] = lambda part: None,
    **options: Any,
) -> tuple[Report, list[Figure]]:
    """Measures parts and writes the report after each.

    Args:
        parts: keys of PARTS; None: all.
        out: JSON file; parts that it holds and that are not measured stay.
        announce: called with each part before it is measured.
        **options: ``rounds`` of every part; ``keys`` of the index, the runtime and the simulator.

    Returns:
        The report, and the figures that were measured now.

    Raises:
        UnknownNameError: no such part.
        DescriptionError: ``out`` holds something else, or figures of another machine; or an
            option is below 1 or above its MOST.
    """
    for name, value in options.items():
        if not 1 <= value <= MOST[name]:
            raise DescriptionError(f"{name} = {value}: must be from 1 to {MOST[name]:,}")
    for part in parts or ():
        if part not in PARTS:
            raise UnknownNameError("part", part, PARTS)
    report = Report(out)
    measured: list[Figure] = []
    for part in parts or PARTS:
        announce(part)
        measure = PARTS[part]
        report.add(part, command_line(), measure(**options), measure.__module__)
        measured += report.parts[part]
    return report, measured
