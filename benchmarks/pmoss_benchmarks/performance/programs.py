"""Programs of native/bench, built and run in a source checkout."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from pmoss_env.errors import BackendError

#: name, unit, median, low, high, rounds, note
Figure = dict[str, Any]


def figure(name: str, unit: str, values: Sequence[float], note: str = "") -> Figure:
    """The figure of several rounds."""
    median, low, high = statistics.median(values), min(values), max(values)
    spread = {"median": median, "low": low, "high": high, "rounds": len(values)}
    return {"name": name, "unit": unit, **spread, "note": note}


def cost(name: str, seconds: Sequence[float], calls: int) -> Figure:
    """The figure of one call in microseconds, from rounds of so many."""
    return figure(name, "us", [1e6 * s / calls for s in seconds], f"CPU time, {calls} a round")


def ratios(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> list[float]:
    """The ratio of two values in each round."""
    return [scale * a / b for a, b in zip(above, below, strict=True)]


def timed(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = process_time,
) -> dict[str, list[float]]:
    """Seconds of each piece of work in every round.

    They run in turn, so that all see the same host. One round before does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = clock()
            work()
            if number:
                seconds[name].append(clock() - start)
    return seconds


REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = REPOSITORY / "build" / "bench"
#: Sizes of the R-tree, and of our B+-tree as a library, at most.
POINTS, RANGES, PLUGIN_KEYS = 10_000_000, 100_000, 1_000_000
ACCESSES, MEGABYTES = 4_000_000, 512
#: How programs name what they measure, and how a figure does.
PLUGIN_MIXES = {
    "lookups,64": "lookups, batches of 64",
    "lookups,1": "lookups, one by one",
    "half-updates,64": "half lookups, half updates, batches of 64",
    "short-scans,64": "half lookups, half short scans, batches of 64",
}
#: Of the indexes on several threads: records at most, seconds of a run, and threads.
SCALING_KEYS, SCALING_SECONDS, SCALING_THREADS = 10_000_000, 0.2, (1, 2, 4, 8, 14, 16)
#: The variable with users' libraries to measure beside the built-in index: paths between colons.
#: A file cannot name them, because their code runs.
PEERS = "PMOSS_PEERS"
OWN = "built in, batches of 64"
SCANS = {
    "read": "reading memory, one core, widest vectors",
    "memcpy": "memcpy, one core, bytes copied",
    "plain-count": "counting matches, the compiler's own loop",
    "plain-scan": "writing positions, a plain loop",
    "scan": "our scan, one match in a million",
    "scan-1%": "our scan, 1 % of the rows match",
    "scan-thread-engine": "our scan through a helper thread's copies",
}


def build_program(name: str, file: str | None = None) -> Path:
    """Compiles one program, or a library; needs a source checkout and a compiler.

    Args:
        file: what is built, if its name is another one.

    Raises:
        BackendError: there is no source, a tool or a peer is missing, or the build fails.
    """
    if not (REPOSITORY / "native" / "bench").is_dir():
        raise BackendError(f"{REPOSITORY} holds no native/bench: run this in a source checkout")
    beside = Path(sys.executable).with_name("cmake")
    cmake = str(beside) if beside.exists() else shutil.which("cmake")
    if cmake is None:
        raise BackendError("cmake is not installed: pip install '.[dev]' in a checkout")
    configured = run_program(
        *(cmake, "-S", REPOSITORY / "native", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release"),
        *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_BUILD_BENCH=ON"),
    )
    check_configured(name, configured)
    run_program(cmake, "--build", BUILD, "--target", name, "-j", "2")
    return next(path for path in BUILD.rglob(file or name) if path.is_file())


def check_configured(name: str, configured: str) -> None:
    """Raises BackendError where the configuration says what a program lacks, and how to get it."""
    for line in configured.splitlines():
        if line.startswith(f"-- no {name}: "):
            raise BackendError(f"there is {line.removeprefix('-- ')}, then run this again")


def run_program(*command: object) -> str:
    """What a command prints; BackendError with its last words if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BackendError(f"{' '.join(words)} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def _json_of(name: str, *words: object) -> Any:
    """What a program writes to the file that its last word names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        run_program(build_program(name), *words, path)
        return json.loads(path.read_text())


def index(rounds: int, keys: int) -> list[Figure]:
    """The B+-tree beside absl::btree_map, on one thread that uses the payload.

    The peer needs Debian's libabsl-dev.
    """
    data = _json_of("index_bench", "--keys", keys, "--rounds", rounds, "--json")
    note = (
        f"{data['keys']:,} keys, {data['pages']} pages, {data['search']} search, "
        f"{data['lines_per_lookup']:.2f} lines per lookup, CPU time"
    )
    figures = []
    for mix, measured in data["mixes"].items():
        for name, rates in measured["rates"].items():
            figures.append(figure(f"{mix}, {name}", "M/s", [r * 1e-6 for r in rates], note))
        for name, ratio in measured["ratio_to_absl"].items():
            figures.append(figure(f"{mix}, {name} / absl::btree_map", "x", ratio, note))
    reads = [rate * 1e-6 for rate in data["random_reads"]]
    figures.append(figure("independent random reads, one core", "M/s", reads, note))
    share = "lookups, batches of 64, share of what random reads allow"
    return [*figures, figure(share, "%", data["share_of_random_reads"], note)]


def rtree(rounds: int, keys: int) -> list[Figure]:
    """The R-tree beside Boost.Geometry's, packed and after R* inserts: squares with 100 points.

    The peer needs Debian's libboost-dev.
    """
    points = min(keys, POINTS)
    note = f"{points:,} points, squares with 100, fanout 50, CPU time"
    figures = []
    for name, spread in _json_of("rtree_bench", points, rounds, RANGES).items():
        scale, unit = (1.0, "x") if "/" in name else (1e-3, "k/s")
        # The program gives these three alone.
        values = [spread[key] * scale for key in ("min", "median", "max")]
        figures.append({**figure(f"R-tree, {name}", unit, values, note), "rounds": rounds})
    return figures


def counting(rounds: int, keys: int) -> list[Figure]:
    """What windows of counters cost one worker with a full queue, in its CPU time.

    Unlike in the part ``runtime`` there is no router.
    """
    program = build_program("counting_bench")
    return [
        figure(
            f"cost of counting in CPU time, batch {one['batch']}, window {one['window']}",
            "%",
            one["cost_percent"],
            f"{keys:,} keys, {one['ns_per_query']:.1f} ns per query without windows, "
            f"{one['queries_per_window']:,.0f} queries per window; a round is the median of pairs "
            "of runs in turn",
        )
        for one in json.loads(run_program(program, "--keys", keys, "--rounds", rounds))
    ]


def plugin(rounds: int, keys: int) -> list[Figure]:
    """Our B+-tree as a library beside the built-in one, per CPU second of a worker."""
    keys = min(keys, PLUGIN_KEYS)
    library = build_program("pmoss_btree_plugin", "pmoss_btree_plugin.so")
    words = "B+-tree as a library / built in: "
    lines = run_program(build_program("plugin_bench"), library, keys, rounds).splitlines()
    return [
        figure(words + PLUGIN_MIXES[mix], "%", [100 * float(s) for s in shares], f"{keys:,} keys")
        for mix, *shares in map(str.split, lines)
    ]


def routing(rounds: int, **_: Any) -> list[Figure]:
    """What a query costs its router, by the number of workers; one router for each 16 of them."""
    program = build_program("router_bench")
    return routing_figures([run_program(program) for _ in range(rounds)])


def routing_figures(texts: Sequence[str]) -> list[Figure]:
    """The figures of what router_bench prints, a text for each round."""
    costs: dict[str, list[list[float]]] = {}
    for line in (each for text in texts for each in text.splitlines()):
        workers, *measured = line.split()
        costs.setdefault(workers, []).append([float(cost) for cost in measured])
    figures, first = [], next(iter(costs))
    for number, answers in enumerate(("all workers answer", "every eighth worker answers")):
        by_workers = {workers: [row[number] for row in rows] for workers, rows in costs.items()}
        for workers, values in by_workers.items():
            name = f"routing, {answers}, {workers} workers"
            kib = f"{costs[workers][0][2]:,.0f} KiB of queues for each router"
            figures.append(figure(name, "ns", values, kib))
        last = list(by_workers)[-1]
        growth = ratios(by_workers[last], by_workers[first])
        figures.append(figure(f"routing, {answers}, {last} / {first} workers", "x", growth))
    return figures


def scaling(rounds: int, keys: int) -> list[Figure]:
    """The index on 1 to 16 threads without routers, beside the libraries of PEERS."""
    keys = min(keys, SCALING_KEYS)
    cpus = len(os.sched_getaffinity(0))
    threads = ",".join(str(count) for count in SCALING_THREADS if count <= cpus)
    peers = [Path(path).resolve() for path in os.environ.get(PEERS, "").split(":") if path]
    words = (keys, SCALING_SECONDS, rounds, threads, "btree", *peers)
    text = run_program(build_program("scaling_bench"), *words)
    return scaling_figures(text, f"{keys:,} keys, {SCALING_SECONDS:g} s a run, {cpus} CPUs")


def scaling_figures(text: str, note: str) -> list[Figure]:
    """The figures of what scaling_bench prints: rates, efficiencies, and ratios to the peers."""
    rates: dict[str, dict[str, dict[int, list[float]]]] = {}
    for line in text.splitlines():
        mix, keys, count, index, *measured = line.split("\t")
        of_mix = rates.setdefault(f"{mix}, {keys}", {}).setdefault(Path(index).stem, {})
        of_mix[int(count)] = [float(rate) for rate in measured]
    figures = []
    for mix, of_index in rates.items():
        for index, by_threads in of_index.items():
            for threads, values in by_threads.items():
                what = f"{mix}, {threads} threads"
                figures.append(figure(f"{what}, {index}", "Mq/s", values, note))
                shares = ratios(values, by_threads[min(by_threads)], 100 / threads)
                figures.append(figure(f"{what}, {index}, efficiency", "%", shares, note))
                if not index.startswith("built in"):
                    above = ratios(of_index[OWN][threads], values)
                    figures.append(figure(f"{what}, {OWN} / {index}", "x", above, note))
    return figures


def scan(rounds: int, **_: Any) -> list[Figure]:
    """GB/s of a scan beside what one core's memory gives, in rounds that take turns.

    The share is that of the best rounds: what else runs on the machine only takes away.
    """
    best, figures = {}, []
    for line in run_program(build_program("scan_bench"), MEGABYTES, rounds).splitlines():
        name, high, median = line.split()
        best[name] = float(high)
        made = figure(SCANS[name], "GB/s", [float(median), float(high)], "median and best")
        figures.append({**made, "median": float(median), "rounds": rounds})
    share = best["scan"] / best["read"]
    return [*figures, figure("our scan / reading memory, one core", "share", [share])]


def lru(rounds: int) -> list[Figure]:
    """Three levels of LRU that pass a known stream in blocks, beside plain C++."""
    data = _json_of("lru_bench", "--accesses", ACCESSES, "--rounds", rounds, "--json")
    load = os.getloadavg()[0]
    note = f"32 KiB, 1 MiB, 32 MiB; half uniform over 1 GiB, half Zipf 0.99; load {load:.1f}"
    name = "three-level LRU of streams, in blocks"
    own, plain = ([rate * 1e-6 for rate in data[way]] for way in ("own", "plain"))
    return [
        figure(name, "M/s", own, note),
        figure(f"{name}, plain C++", "M/s", plain, note),
        figure(f"{name} / plain C++", "x", ratios(own, plain), note),
    ]
