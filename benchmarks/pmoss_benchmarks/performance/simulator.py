"""The simulator's speed: three levels of LRU beside peers, and simulated queries.

The levels of LRU pass known streams in blocks. The simulated server needs an answer for each line,
so it does not use them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.performance.native_programs import BUILD, build_program, run_program
from pmoss_benchmarks.report import Figure, seconds_of
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine

ACCESS_GOAL = 170e6
QUERY_GOAL = 6e6
SLICES = 256
ACCESSES = 4_000_000
LOADS = ("closed", "saturated")
ROUTINGS = ("core", "any")
MACHINE = "skylake-x-8n"
#: pycachesim's levels on a written stream; run on its own, for it is no dependency.
PYCACHESIM = """
import sys, time
import numpy as np
from cachesim import Cache, CacheSimulator, MainMemory
l3 = Cache("L3", 32768, 16, 64, "LRU")
l2 = Cache("L2", 1024, 16, 64, "LRU", store_to=l3, load_to=l3)
l1 = Cache("L1", 64, 8, 64, "LRU", store_to=l2, load_to=l2)
memory = MainMemory()
memory.load_to(l3)
memory.store_from(l3)
simulator = CacheSimulator(l1, memory)
addresses = (np.fromfile(sys.argv[1], np.uint32).astype(np.int64) * 64).tolist()
start = time.process_time()
simulator.load(addresses, length=1)
print(len(addresses) / (time.process_time() - start))
"""


def measure_simulator(rounds: int = 5, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """One thread, CPU time.

    Accesses need a source checkout and a compiler; valgrind and pycachesim are measured on the same
    stream where they are installed. Queries are YCSB-A of a B+-tree of ``keys`` on the simulated
    Skylake-X, recorded before the clock runs.
    """
    return [*_accesses(rounds), *_queries(rounds, keys)]


def _accesses(rounds: int) -> list[Figure]:
    program = build_program("lru_bench")
    result, stream = BUILD / "lru_bench.json", BUILD / "lru_bench.stream"
    result.unlink(missing_ok=True)
    run_program(
        *(program, "--accesses", ACCESSES, "--rounds", rounds),
        *("--json", result, "--write-stream", stream),
    )
    data = json.loads(result.read_text())
    note = f"32 KiB, 1 MiB, 32 MiB; half uniform over 1 GiB, half Zipf 0.99; load {_load()}"
    name = "three-level LRU of streams, in blocks"
    own = Figure.of(name, "M/s", [rate * 1e-6 for rate in data["own"]], note=note)
    figures = [
        own.with_goal(f">= {ACCESS_GOAL * 1e-6:g} M/s", own.median * 1e6 >= ACCESS_GOAL),
        Figure.of(f"{name}, plain C++", "M/s", [rate * 1e-6 for rate in data["plain"]], note=note),
        Figure.of(
            f"{name} / plain C++",
            "x",
            [own / plain for own, plain in zip(data["own"], data["plain"], strict=True)],
            note=note,
        ),
    ]
    if shutil.which("valgrind"):
        rate = _cachegrind_rate(program, stream) * 1e-6
        two = f"two levels (32 KiB, 32 MiB) and the instructions of a load loop; load {_load()}"
        figures.append(Figure.of("cachegrind, accesses", "M/s", [rate], note=two))
    if importlib.util.find_spec("cachesim"):
        rate = float(run_program(sys.executable, "-c", PYCACHESIM, stream)) * 1e-6
        figures.append(Figure.of("pycachesim, accesses", "M/s", [rate], note=note))
    stream.unlink()
    return figures


def _cachegrind_rate(program: Path, stream: Path) -> float:
    """Accesses per CPU second, from the difference of replaying once and four times."""
    import resource  # not on Windows

    def seconds(times: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_program(
            *(
                "valgrind",
                "--tool=cachegrind",
                "--cache-sim=yes",
                "--cachegrind-out-file=/dev/null",
            ),
            *("--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"),
            *(program, "--replay", stream, "--times", times),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return 3 * ACCESSES / (seconds(4) - seconds(1))


def _queries(rounds: int, keys: int) -> list[Figure]:
    machine = native_machine(load_machine(MACHINE))
    workload = _native.WorkloadSpec(lookup=0.5, insert=0.5, distribution="zipf", records=keys)
    workers = np.flatnonzero(np.asarray(machine.is_worker)).astype(np.int32)
    cores = workers[np.arange(SLICES) * workers.size // SLICES]
    nodes = np.asarray(machine.node_of_core, np.int32)[cores]
    figures = []
    for sampling, queries in ((64, 2_000_000), (1, 200_000)):
        trace = index_kind(DEFAULT).record(
            workload,
            SLICES,
            queries=queries,
            line_sampling=sampling,
            page_sampling=min(sampling, 8),
        )
        for load, routing in product(LOADS, ROUTINGS):
            server = _native.SimulatedServer(machine, load=load)
            server.set_instance(trace)
            seconds = seconds_of(partial(server.run, cores, nodes, routing), rounds)
            figure = Figure.of(
                f"simulated queries at sampling {sampling}, {load}, {routing}",
                "M/s",
                [queries / s * 1e-6 for s in seconds],
                note=f"{MACHINE}, YCSB-A, {keys:,} keys, {queries:,} queries; load {_load()}",
            )
            if sampling == 64:
                reached = figure.median * 1e6 >= QUERY_GOAL
                figure = figure.with_goal(f">= {QUERY_GOAL * 1e-6:g} M/s", reached)
            figures.append(figure)
    return figures


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"
