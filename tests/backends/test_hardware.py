"""The hardware backend on whatever host runs the tests: no figure is asserted, only its sense."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from statistics import stdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.live import mean_of
from pmoss_env.backends.native_counts import per_query_of, rounds_of
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.measuring import measure_schedules, overload_in_words, round_error
from pmoss_env.types import COUNTER_INDEX, COUNTERS, CoTenant, Instance, Schedule
from pmoss_env.workloads import load_workload

SLICES = 16


def make(**changes: object) -> HardwareBackend:
    options: dict[str, Any] = {"machine": "host", "workload": "ycsb-a", "slices": SLICES}
    options |= {"records": 20_000, "seconds": 0.15, "warmup_seconds": 0.05, "own_process": False}
    backend = make_backend("hardware", **{**options, **changes})
    assert isinstance(backend, HardwareBackend)
    return backend


@pytest.fixture(scope="module")
def backend() -> Iterator[HardwareBackend]:
    backend = make()
    yield backend
    backend.close()


def spread(backend: Backend) -> Schedule:
    return make_baseline("spread")(Context(backend.machine, SLICES))


@pytest.mark.parametrize("value_bytes", [64, 1024])
@pytest.mark.parametrize("workload", ["ycsb-core-f", "rtree-ranges-5m"])
def test_large_values_are_served_from_the_memory_of_their_slices(
    workload: str, value_bytes: int
) -> None:
    mix = replace(load_workload(workload), value_bytes=value_bytes)
    backend = make(workload=mix, index=mix.index)
    snapshot = backend.measure(spread(backend), seed=1)
    assert snapshot.throughput > 0.0
    data = snapshot.provenance["data"]
    assert data["in_place"]
    assert sum(data["pages_by_node"].values()) * 4096 > 20_000 * value_bytes
    backend.close()


def test_snapshot_is_whole_and_invents_nothing(backend: HardwareBackend) -> None:
    snapshot = backend.measure(spread(backend), seed=1)
    assert snapshot.throughput > 0 and snapshot.slice_throughput.shape == (SLICES,)
    assert snapshot.slice_throughput.sum() == pytest.approx(snapshot.throughput)
    assert snapshot.slice_counters.shape == (SLICES, len(COUNTERS))
    assert (snapshot.slice_counters[:, ~snapshot.counters_available] == 0).all()
    assert (snapshot.running_ratio[~snapshot.counters_available] == 0).all()
    assert (snapshot.running_ratio[snapshot.counters_available] > 0).all()
    assert np.isfinite(snapshot.slice_counters).all()
    assert 0 < snapshot.latency_p50_us <= snapshot.latency_p99_us
    for name in ("queries", "elapsed_us"):
        assert snapshot.counters_available[COUNTER_INDEX[name]]
    # No core is busy for more than all of the time, except for the clocks' noise: a host that is
    # busy with other things as well changes nothing about that.
    assert snapshot.counter("elapsed_us").sum() <= 1.001 * len(backend.machine.workers)


def test_provenance_says_where_and_why_not(backend: HardwareBackend) -> None:
    snapshot = backend.measure(spread(backend), seed=1)
    provenance = json.loads(json.dumps(snapshot.provenance))
    assert provenance["backend"] == "hardware"
    assert set(provenance["host"]) >= {"cpu_model", "kernel", "numa_balancing", "governor"}
    assert (
        provenance["worker_cpus"] == backend.machine.cpu_of_core[backend.machine.workers].tolist()
    )
    for counter in COUNTERS:
        if counter.source != "runtime":
            available = snapshot.counters_available[COUNTER_INDEX[counter.name]]
            assert (provenance["counters"][counter.name] == counter.source) == available


def test_rounds_are_swept_and_recorded(backend: HardwareBackend) -> None:
    # On a busy host a measurement may end before the first of its rounds.
    measured = (backend.measure(spread(backend), seed=1).provenance for _ in range(100))
    rounds = next(
        provenance["rounds"] for provenance in measured if provenance["rounds"]["seconds"]
    )
    for name in ("node_seconds", "node_mq_per_s", "offcore_gb_per_s"):
        assert len(rounds[name]) in (0, len(rounds["seconds"]))
    assert all(len(rates) == len(rounds["nodes"]) >= 1 for rates in rounds["node_mq_per_s"])
    assert sum(map(sum, rounds["node_mq_per_s"])) > 0
    assert make(sweep_seconds=0.0).measure(spread(backend), seed=1).provenance["rounds"] == {
        "nodes": rounds["nodes"],
        "seconds": [],
        "node_seconds": [],
        "node_mq_per_s": [],
        "offcore_gb_per_s": [],
    }


def test_rounds_are_as_long_as_their_workers_say() -> None:
    # The third sweep of node 0 is late. It ends with the two after it, which find next to nothing.
    late, steady = [0.1, 0.1, 0.3, 1e-6, 0.0], [0.1] * 5
    seconds = np.array([late, steady]).T
    raw = {
        "nodes": [0, 1],
        "seconds": [0.1, 0.2, 0.5, 0.500001, 0.500002],
        "node_seconds": seconds,
        "queries": np.round(1e6 * seconds),
        "offcore_gb_per_s": np.zeros((5, 0)),
    }
    rounds = rounds_of(raw)
    assert rounds["node_mq_per_s"][2:4] == [[1.0, 1.0], [1.0, 1.0]]
    assert rounds["node_mq_per_s"][4] == [0.0, 1.0]
    # Every node served the same rate at all times.
    assert round_error(SimpleNamespace(provenance={"rounds": rounds})) == pytest.approx(0.0)
    raw["node_seconds"] = np.full((5, 1), 0.1)
    raw["queries"] = np.array([[100_000], [110_000], [90_000], [100_000], [100_000]])
    snapshot = SimpleNamespace(provenance={"rounds": rounds_of(raw)})
    rates = [1.0, 1.1, 0.9, 1.0, 1.0]
    assert round_error(snapshot) == pytest.approx(stdev(rates) / 5**0.5)


def test_more_keys_than_memory_are_refused_before_allocation() -> None:
    for index, workload in (("btree", "ycsb-a"), ("rtree", "rtree-ranges")):
        large = make(index=index, workload=workload, records=1 << 38)
        with pytest.raises(BackendError, match=r"274877906944 records needs .* fewer records"):
            large.measure(spread(large), seed=1)


def test_a_cpu_outside_of_the_cpuset_is_named(backend: HardwareBackend) -> None:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("this process may use one CPU")
    gone = max(before)
    os.sched_setaffinity(0, before - {gone})
    try:
        with pytest.raises(BackendError, match=f"CPU {gone} of the machine's description"):
            backend.measure(spread(backend), seed=1)
    finally:
        os.sched_setaffinity(0, before)
    assert backend.measure(spread(backend), seed=1).throughput > 0


def test_what_served_nothing_is_measured_again(backend, monkeypatch):
    """As on a host whose other processes leave these threads no time."""
    served: list[int] = []

    class Starved:
        def __init__(self, schedule: Schedule) -> None:
            self.runner = HardwareBackend.loaded_runner(backend, schedule)
            self.size = self.runner.size
            self.load_report = self.runner.load_report

        def measure(self, **options: object) -> dict[str, object]:
            raw = self.runner.measure(**options)  # type: ignore[arg-type]
            if not served:
                raw["completed"] = 0
            served.append(raw["completed"])
            return raw

    monkeypatch.setattr(backend, "loaded_runner", Starved)
    assert backend.measure(spread(backend), seed=1).throughput > 0
    assert served[0] == 0 and len(served) > 1


def test_schedules_are_checked_first(backend: HardwareBackend) -> None:
    with pytest.raises(ScheduleError, match="exactly 16"):
        backend.measure(backend.machine.local_schedule([int(backend.machine.workers[0])]), seed=0)
    with pytest.raises(ScheduleError, match="not a worker of host"):
        backend.measure(Schedule([9999] * SLICES, [0] * SLICES), seed=0)
    with pytest.raises(BackendError, match="seconds = 0"):
        make(seconds=0)


@pytest.mark.parametrize("family", ["busy_core", "cache_thrash", "memory_stream"])
def test_co_tenants_are_real_threads(family: str) -> None:
    backend = make()
    target = int(backend.machine.workers[0]) if family == "busy_core" else 0
    backend.set_instance(Instance(0, (CoTenant(family, target, 0.3),)))
    provenance = backend.measure(spread(backend), seed=1).provenance
    assert len(provenance["co_tenant_cpus"]) == 1
    assert provenance["co_tenant_cpus"][0] in backend.machine.cpu_of_core
    assert (provenance["co_tenant_gb_per_s"] > 0) == (family != "busy_core")
    with pytest.raises(DescriptionError, match=f"co-tenant '{family}' on .* 9999"):
        backend.set_instance(Instance(0, (CoTenant(family, 9999, 0.5),)))
    backend.close()


def test_an_overload_is_told_in_words_and_numbers(backend: HardwareBackend) -> None:
    flooded = make(load="open:5000")
    snapshot = flooded.measure(spread(flooded), seed=0)
    flooded.close()
    dispatch = snapshot.provenance["dispatch"]
    assert dispatch["backpressure"] > 0 and dispatch["max_lag_us"] > 0
    text = overload_in_words(snapshot)
    assert text.startswith("overload: 5,000 Mq/s were offered and ")
    assert "ms behind" in text and "times for room in a queue" in text
    # All that came counts, not only what came early enough to be answered.
    assert 0 < dispatch["unsent"] <= dispatch["unanswered"]
    assert f"{dispatch['unsent']:,} of them not even sent" in text
    assert snapshot.latency_p50_us > 1e6 * snapshot.provenance["seconds"]
    # What is offered is served, but for chance in few queries.
    assert overload_in_words(replace(snapshot, throughput=4900.0)) == ""
    few = {**snapshot.provenance, "seconds": 0.1}
    assert not overload_in_words(
        replace(snapshot, load="open:0.001", throughput=9e-4, provenance=few)
    )
    assert overload_in_words(replace(snapshot, load="open:1", throughput=0.9, provenance=few))
    closed = backend.measure(spread(backend), seed=0)
    assert overload_in_words(closed) == ""
    assert set(closed.provenance["dispatch"]) == {"backpressure", "unanswered"}
    json.dumps(dict(snapshot.provenance))


def test_rounds_add_their_waits_and_keep_the_longest_lag(backend: HardwareBackend) -> None:
    snapshot = backend.measure(spread(backend), seed=0)
    rounds = [
        replace(snapshot, provenance={**snapshot.provenance, "seconds": 1.0, "dispatch": dispatch})
        for dispatch in ({"backpressure": 3, "lag_us": 7.0}, {"backpressure": 4, "lag_us": 5.0})
    ]
    assert mean_of(rounds).provenance["dispatch"] == {"backpressure": 7, "lag_us": 7.0}


@pytest.mark.parametrize("strategy", ["copy", "move_pages"])
def test_every_schedule_of_the_paper_runs(strategy: str) -> None:
    backend = make(strategy=strategy)
    shared = ["os-default", "os-interleave", "shared-everything", "shared-nothing-node"]
    names = [*shared, "grouped", "random"]
    for name, snapshot in measure_schedules(backend, names, seed=1).items():
        assert snapshot.throughput > 0
        data = snapshot.provenance["data"]
        assert data["in_place"], name
        assert data["not_in_place"] == {}, name
        assert data["home_share"] == 1 or data["not_known"], name
    backend.close()


def test_options_are_checked() -> None:
    for option, value in (("strategy", "teleport"), ("pace", "soon"), ("routers", "nowhere")):
        with pytest.raises(UnknownNameError, match=f"{option} '{value}'"):
            make(**{option: value})
    wrong = {"seconds": "x", "window": 1.5, "batch": "1", "huge_pages": "no", "max_growth": None}
    out_of_range = {"batch": 65, "window": -1, "sweep_seconds": -1.0, "max_growth": -1.0}
    for option, given in (*wrong.items(), *out_of_range.items()):
        with pytest.raises(DescriptionError, match=f"{option} = {given!r}: must be"):
            make(**{option: given})
    with pytest.raises(ScheduleError, match=r"interleave_nodes.*must be whole numbers"):
        make(interleave_nodes="x")
    assert make(batch=16, window=1024).measure(spread(make()), seed=0).throughput > 0


@pytest.mark.parametrize("growth", [None, 0.1])
def test_every_measurement_begins_with_the_same_records(growth: float | None) -> None:
    backend = make(records=20_000, seconds=0.2, **({} if growth is None else {"max_growth": 0.1}))
    for seed in range(3):
        provenance = backend.measure(spread(backend), seed=seed).provenance
        assert 20_000 <= provenance["records_before"] <= 20_000 * (1 + (growth or 0))
        assert provenance["records_after"] > provenance["records_before"]
    backend.close()


@pytest.mark.parametrize(
    ("totals", "counted", "queries", "expected"),
    [
        ([30.0, 8.0], [10.0, 4.0], [1.0, 2.0], [3.0, 2.0]),
        ([30.0, 0.0], [10.0, 0.0], [1.0, 0.0], [3.0, 0.0]),  # without queries no count is needed
        # A slice that was never counted gets the mean of the others.
        ([30.0, 10.0, 0.0], [10.0, 10.0, 0.0], [4.0, 4.0, 2.0], [3.0, 1.0, 2.0]),
    ],
)
def test_counts_are_divided_by_the_queries_behind_them(totals, counted, queries, expected):
    values, reason = per_query_of(np.array(totals), np.array(counted), np.array(queries))
    assert (values.tolist(), reason) == (expected, "")


def test_half_of_the_queries_must_have_been_counted() -> None:
    _, reason = per_query_of(np.array([30.0, 0]), np.array([10.0, 0]), np.array([1.0, 3.0]))
    assert reason == "counted for 25% of the queries only"


def test_the_part_of_the_time_that_an_event_ran_reaches_the_snapshot() -> None:
    """Where events take turns; this host may have too few of them for that."""
    backend: Any = make(window=0)
    backend.window = 100
    runner = backend.loaded_runner()

    class Multiplexed:
        def __getattr__(self, name: str) -> Any:
            return getattr(runner, name)

        def measure(self, **options: Any) -> dict[str, Any]:
            raw: dict[str, Any] = runner.measure(**options)
            return {**raw, "running_ratio": np.full_like(raw["running_ratio"], 0.625)}

    backend._runner = Multiplexed()
    snapshot = backend.measure(spread(backend), seed=1)
    backend.close()
    counted = snapshot.counters_available & [counter.source != "runtime" for counter in COUNTERS]
    assert counted.any()
    assert (snapshot.running_ratio[counted] == 0.625).all()
