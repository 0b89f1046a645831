"""What `pmoss index record` finds out of our B+-tree as a library, beside the built-in recorder."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.performance.native_programs import build_program
from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_interference, native_machine, native_workload
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine
from pmoss_env.record import record
from pmoss_env.workloads import load_workload

SLICES, QUERIES, _MOST_KEYS = 16, 30_000, 200_000
_MACHINES = ("skylake-x-8n", "milan-nps4")
#: What is wanted: the largest difference, percent.
_LARGEST = 5.0
#: What a query takes beside its accesses.
_COSTS = ("instructions", "branch_misses")


def measure_recording(keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """Lookups on one instance; the same seed gives the same figures, so that it runs once."""
    keys = min(keys, _MOST_KEYS)
    workload = dataclasses.replace(load_workload("lookups"), records=keys)
    library = build_program("pmoss_btree_plugin", "pmoss_btree_plugin.so")
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(
            library, Path(folder), workload=workload, slices=SLICES, queries=QUERIES
        ).trace(0)
    own = index_kind(DEFAULT).record(
        native_workload(workload), SLICES, queries=QUERIES, line_sampling=1, page_sampling=1
    )
    note = f"{keys:,} keys, {QUERIES:,} lookups, {SLICES} slices"

    def figure(what: str, of_recorded: float, of_own: float) -> Figure:
        off = 100 * (float(of_recorded) / float(of_own) - 1)
        told = Figure.of(f"recorded library / built-in recorder - 1: {what}", "%", [off], note=note)
        return told.with_goal(f"<= {_LARGEST:g} %", abs(off) <= _LARGEST)

    figures = [
        figure("lines waited for per query", recorded.mean_dependent, own.mean_dependent),
        figure("lines fetched beside others", recorded.mean_streaming, own.mean_streaming),
        figure("different lines", recorded.lines, own.lines),
        figure("different pages", recorded.pages, own.pages),
        figure("bytes of all slices", recorded.bytes_of_slice.sum(), own.bytes_of_slice.sum()),
    ]
    of_own, of_recorded = _native.arrays_of_trace(own), _native.arrays_of_trace(recorded)
    counted = [arrays["instructions"][:-1].mean() for arrays in (of_recorded, of_own)]
    figures.append(figure("instructions per query, the call included", *counted))
    # The accesses alone: the library's own instructions are more.
    accesses = _native.trace_of_arrays(
        SLICES, {**of_recorded, **{name: of_own[name] for name in _COSTS}}
    )
    for machine in _MACHINES:
        rates = [_throughput(machine, trace) for trace in (recorded, accesses, own)]
        figures.append(figure(f"throughput by the model, {machine}", rates[0], rates[2]))
        figures.append(
            figure(f"the same with the instructions of the built-in, {machine}", rates[1], rates[2])
        )
    return figures


def _throughput(name: str, trace: _native.Trace) -> float:
    """Mq/s by the analytic model, with the slices on the workers in turn."""
    machine = load_machine(name)
    native = native_machine(machine)
    model = _native.AnalyticModel(native)
    model.set_instance(_native.profile_trace(trace), native_interference((), native))
    schedule = machine.local_schedule(machine.workers[np.arange(SLICES) % machine.workers.size])
    return float(model.place(schedule.cores, schedule.nodes, schedule.routing, schedule.data))
