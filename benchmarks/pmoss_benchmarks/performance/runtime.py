"""The runtime on this host, a recorded library, and the simulated server."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from pmoss_benchmarks.performance.programs import (
    Figure,
    build_program,
    figure,
    lru,
    ratios,
    timed,
)
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_interference, native_machine, native_workload
from pmoss_env.errors import BackendError
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import Machine, load_machine
from pmoss_env.record import record
from pmoss_env.workloads import load_workload

SLICES = 256
#: (queries per batch, queries per counter window): the paper's, and the batched default.
PROFILES = ((1, 100), (64, 1024))
#: Keys of a live run and of a recording, at most.
LIVE_KEYS, LIBRARY_KEYS = 3_000_000, 200_000
#: Of a live run: seconds of a round, before and after a re-schedule, and at most for one.
SWEEP_SECONDS, REST_SECONDS, TIMEOUT_SECONDS = 0.1, 2.0, 120.0
RECORDED_SLICES, RECORDED_QUERIES = 16, 30_000


def _runner(keys: int, load_threads: int = 0, lookup: float = 1.0) -> Any:
    """Uniform lookups and updates; 0 threads: one per CPU."""
    mix = {"lookup": lookup, "update": 1.0 - lookup}
    options: dict[str, Any] = {"records": keys, "seed": 1, "distribution": "uniform", **mix}
    spec = _native.WorkloadSpec(**options)
    return _native.Runner(spec, DEFAULT, slices=SLICES, load_threads=load_threads)


def runtime(rounds: int, keys: int) -> list[Figure]:
    """What routing, counting and sweeping cost: one router, one worker; then migrations.

    On a host with one CPU the two share it, and the note says so.
    """
    runner = _runner(keys)
    runner.load()
    cpus = _native.host_topology()["allowed_cpus"]
    worker, router = cpus[0], cpus[-1]
    note = f"{keys:,} keys, worker on CPU {worker}, router on CPU {router}, wall time"

    def rate(**options: Any) -> float:
        done = runner.measure(
            np.full(SLICES, worker),
            worker_cpus=[worker],
            router_cpus=[router],
            outstanding_per_worker=1024,
            seconds=1.0,
            **options,
        )
        return float(done["completed"] / done["seconds"])

    shares: list[float] = []
    costs = {
        (words, profile): list[float]()
        for words in ("cost of profiling", "cost of sweeping it")
        for profile in PROFILES
    }
    rng = np.random.default_rng(0)
    for number in range(rounds):
        drawn = _native.key_of_record(rng.integers(0, keys, 1 << 20), 1)
        began = perf_counter()
        runner.index.lookup(drawn)
        own = drawn.size / (perf_counter() - began)
        for batch, window in PROFILES:
            off = rate(batch=batch, window=0, sweep_seconds=0.0, seed=number)
            on = rate(batch=batch, window=window, sweep_seconds=0.0, seed=number)
            swept = rate(batch=batch, window=window, seed=number)
            costs["cost of profiling", (batch, window)].append(100 * (1 - on / off))
            costs["cost of sweeping it", (batch, window)].append(100 * (1 - swept / on))
        shares.append(100 * off / own)
    routed = "routed, batches of 64 / the index's own batched lookups"
    return [
        figure(routed, "%", shares, note),
        *(
            figure(f"{words}, batch {batch}, window {window}", "%", values, note)
            for (words, (batch, window)), values in costs.items()
        ),
        *_migrations(runner, worker, rounds, keys),
    ]


def _migrate(runner: Any, cpu: int, **options: Any) -> dict[str, Any]:
    """All slices to the first node, under a light load."""
    node = _native.host_topology()["nodes"][0]["id"]
    done: dict[str, Any] = runner.measure(
        np.full(SLICES, cpu),
        worker_cpus=[cpu],
        router_cpus=[cpu],
        outstanding_per_worker=1,
        seconds=0.1,
        window=0,
        nodes=[node] * SLICES,
        data="slice",
        pace="aggressive",
        **options,
    )
    moved: dict[str, Any] = done["migration"]
    return moved


def _migrations(runner: Any, cpu: int, rounds: int, keys: int) -> list[Figure]:
    """CPU time of the thread that moves: programs of others take its core, too."""
    figures = []
    for strategy, words in (
        ("copy", "memory that is there already"),
        ("move_pages", "to the node where the pages are: the cost of asking"),
    ):
        migrate = partial(_migrate, runner, cpu, strategy=strategy, always_move=True)
        # The first time memory is new; from then on chunks that were left behind are used again.
        moves = [migrate(seed=number) for number in range(rounds + 1)][1:]
        note = f"{keys:,} keys, worker and router on CPU {cpu}; {words}"
        name = f"migration by {strategy} in CPU time"
        if all(moved["leaves"] for moved in moves):
            leaf = [1e6 * moved["processor_seconds"] / moved["leaves"] for moved in moves]
            figures.append(figure(f"{name}, per leaf", "us", leaf, note))
        slices = [1e3 * moved["processor_seconds"] / max(moved["slices"], 1) for moved in moves]
        figures.append(figure(f"{name}, per slice", "ms", slices, note))
    return figures


def loading(rounds: int, keys: int) -> list[Figure]:
    """One loading thread beside inserts one at a time, drawing the keys included.

    After each load all slices are copied to the first node. The index has not been placed before.
    So its target is memory that the process did not have, or that another slice has just left.
    """
    singly, loaded, first = [], [], []
    for _ in range(rounds):
        singly.append(_insert(keys))
        runner = _runner(keys, load_threads=1)
        began = process_time()
        runner.load()
        loaded.append(process_time() - began)
        cpu = _native.host_topology()["allowed_cpus"][0]
        moved = _migrate(runner, cpu, strategy="copy")
        first.append(1e6 * moved["processor_seconds"] / moved["leaves"])
        del runner
    note = f"{keys:,} keys in random order, {SLICES} slices, one thread, CPU time"
    rates, slow = ([keys / s / 1e6 for s in seconds] for seconds in (loaded, singly))
    return [
        figure("loading, keys sorted and nodes filled", "M/s", rates, note),
        figure("loading, one insert at a time", "M/s", slow, note),
        figure("loading / one insert at a time", "x", ratios(singly, loaded), note),
        figure("first placement by copy, per leaf", "us", first, note),
    ]


def _insert(keys: int) -> float:
    """Seconds of inserting keys into a tree one at a time."""
    tree = _native.BTree(slices=SLICES)
    began = process_time()
    for start in range(0, keys, 1 << 20):
        drawn = _native.key_of_record(np.arange(start, min(start + (1 << 20), keys)), 1)
        tree.insert(drawn, drawn)
    return process_time() - began


def live(rounds: int, keys: int) -> list[Figure]:
    """A worker on each CPU; every round, all slices change their core and all data are copied.

    The figures come from one run: nothing is stopped in between. The lowest sweeping round stands
    beside the lowest one of the time before, which shows what the host alone does.
    """
    keys = min(keys, LIVE_KEYS)
    runner = _runner(keys, lookup=0.5)
    runner.load()
    topology = _native.host_topology()
    cpus = np.array(topology["allowed_cpus"])
    node_of = {cpu["id"]: cpu["node"] for cpu in topology["cpus"]}

    def schedule(turn: int) -> dict[str, Any]:
        cores = cpus[(np.arange(SLICES) * cpus.size // SLICES + turn) % cpus.size]
        return {"cores": cores, "nodes": [node_of[cpu] for cpu in cores], "data": "slice"}

    run = runner.start(
        **schedule(0),
        worker_cpus=cpus.tolist(),
        outstanding_per_worker=256,
        warmup_seconds=1.0,
        batch=16,
        pace="aggressive",
        always_move=True,
        sweep_seconds=SWEEP_SECONDS,
        kept_rounds=10_000,
    )
    during, lowest, lowest_before, seconds, moved = [], [], [], [], []
    for turn in range(1, rounds + 1):
        before = _read(run, lambda read: _length(read) >= REST_SECONDS)
        run.change(**schedule(turn), pace="lazy")
        moving = _read(run, partial(_has_moved, turn))
        # The round in which the last slice arrives belongs to both.
        after = _read(run, lambda read: _length(read) >= REST_SECONDS)
        base = min(_rate(before), _rate(after))
        during.append(100 * _rate(moving) / base)
        lowest.append(100 * min(_rate([one]) for one in moving) / base)
        lowest_before.append(100 * min(_rate([one]) for one in before) / _rate(before))
        seconds.append(_length(moving))
        moved.append(sum(one["bytes_moved"] for one in moving) / 1e6)
    result = run.stop()
    if result["issued"] != result["executed"] or result["not_found"]:
        raise BackendError(
            f"{result['issued']} queries were sent, {result['executed']} answered, and "
            f"{result['not_found']} missed their key"
        )
    note = (
        f"{keys:,} keys, {SLICES} slices, half lookups, half updates, a worker on each of "
        f"{cpus.size} CPUs, which the other roles share; one run, {result['executed']:,} queries, "
        "none lost"
    )
    return [
        figure("throughput during / around a lazy re-schedule", "%", during, note),
        figure("lowest 0.1 s of it / around it", "%", lowest, note),
        figure("lowest 0.1 s / mean, before it", "%", lowest_before, note),
        figure("a lazy re-schedule of all slices", "s", seconds, note),
        figure("data moved by it", "MB", moved, note),
    ]


def _has_moved(turn: int, read: list[dict[str, Any]]) -> bool:
    return read[-1]["schedules"] == turn and not read[-1]["pending_slices"].size


def _read(run: Any, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Rounds of a live run until there are enough of them."""
    read: list[dict[str, Any]] = []
    while not read or not enough(read):
        round_ = run.next_round(TIMEOUT_SECONDS)
        if round_ is None or _length(read) > TIMEOUT_SECONDS:
            raise BackendError(f"no end of this part of a live run within {TIMEOUT_SECONDS:g} s")
        read.append(round_)
    return read


def _length(rounds: list[dict[str, Any]]) -> float:
    return sum(float(one["seconds"]) for one in rounds)


def _rate(rounds: list[dict[str, Any]]) -> float:
    return float(sum(one["completed"] for one in rounds)) / _length(rounds)


_own_library = partial(build_program, "pmoss_btree_plugin", "pmoss_btree_plugin.so")


def recording(keys: int, **_: Any) -> list[Figure]:
    """What `pmoss index record` reads from our B+-tree as a library, beside the built-in recorder.

    The same seed gives the same figures, so it runs once.
    """
    keys = min(keys, LIBRARY_KEYS)
    workload = dataclasses.replace(load_workload("lookups"), records=keys)
    size: dict[str, Any] = {"slices": RECORDED_SLICES, "queries": RECORDED_QUERIES}
    with tempfile.TemporaryDirectory() as folder:
        library = _own_library()
        recorded = record(library, Path(folder), workload=workload, **size).trace(0)
    own = index_kind(DEFAULT).record(
        native_workload(workload),
        RECORDED_SLICES,
        queries=RECORDED_QUERIES,
        line_sampling=1,
        page_sampling=1,
    )
    of_own, of_recorded = _native.arrays_of_trace(own), _native.arrays_of_trace(recorded)
    # The accesses alone: the library's own instructions are more.
    costs = {name: of_own[name] for name in ("instructions", "branch_misses")}
    accesses = _native.trace_of_arrays(RECORDED_SLICES, {**of_recorded, **costs})
    instructions = [arrays["instructions"][:-1].mean() for arrays in (of_recorded, of_own)]
    compared: dict[str, Any] = {
        "lines waited for per query": (recorded.mean_dependent, own.mean_dependent),
        "lines fetched beside others": (recorded.mean_streaming, own.mean_streaming),
        "different lines": (recorded.lines, own.lines),
        "different pages": (recorded.pages, own.pages),
        "bytes of all slices": (recorded.bytes_of_slice.sum(), own.bytes_of_slice.sum()),
        "instructions per query, the call included": instructions,
    }
    for machine in ("skylake-x-8n", "milan-nps4"):
        whole, alone, ours = (_modelled(machine, trace) for trace in (recorded, accesses, own))
        compared[f"throughput by the model, {machine}"] = whole, ours
        compared[f"the same with the instructions of the built-in, {machine}"] = alone, ours
    note = f"{keys:,} keys, {RECORDED_QUERIES:,} lookups, {RECORDED_SLICES} slices"
    words = "recorded library / built-in recorder - 1: "
    return [
        figure(words + what, "%", [100 * (float(theirs) / float(ours) - 1)], note)
        for what, (theirs, ours) in compared.items()
    ]


def _modelled(name: str, trace: _native.Trace) -> float:
    """Mq/s by the analytic model, with the slices on the workers in turn."""
    machine = load_machine(name)
    native = native_machine(machine)
    model = _native.AnalyticModel(native)
    model.set_instance(_native.profile_trace(trace), native_interference((), native))
    schedule = machine.local_schedule(np.resize(machine.workers, RECORDED_SLICES))
    return float(model.place(schedule.cores, schedule.nodes, schedule.routing, schedule.data))


def simulator(rounds: int, keys: int) -> list[Figure]:
    """Levels of LRU, and queries of YCSB-A on the simulated server, recorded before the clock."""
    machine = load_machine("skylake-x-8n")
    cores = machine.workers[np.arange(SLICES) * machine.workers.size // SLICES]
    figures = lru(rounds)
    for sampling, queries in ((64, 2_000_000), (1, 200_000)):
        for load, routing in product(("closed", "saturated"), ("core", "any")):
            run = simulated(machine, cores, keys, queries, sampling, load, routing)
            seconds = timed({"": run}, rounds)[""]
            name = f"simulated queries at sampling {sampling}, {load}, {routing}"
            rates = [queries / s * 1e-6 for s in seconds]
            note = f"{machine.name}, YCSB-A, {keys:,} keys, {queries:,} queries"
            figures.append(figure(name, "M/s", rates, f"{note}; load {os.getloadavg()[0]:.1f}"))
    return figures


def simulated(
    machine: Machine, cores: Any, keys: int, queries: int, sampling: int, load: str, routing: str
) -> Callable[[], object]:
    """A run of the simulated server, with each slice's data on the node of its core."""
    server = _native.SimulatedServer(native_machine(machine), load=load)
    server.set_instance(_trace(cores.size, keys, queries, sampling))
    return partial(server.run, cores, machine.node_of_core[cores], routing)


@cache
def _trace(slices: int, keys: int, queries: int, sampling: int) -> Any:
    """What half lookups, half inserts touch in a B+-tree."""
    workload = _native.WorkloadSpec(lookup=0.5, insert=0.5, distribution="zipf", records=keys)
    return index_kind(DEFAULT).record(
        workload, slices, queries=queries, line_sampling=sampling, page_sampling=min(sampling, 8)
    )
