"""Both paths of a scan on this host: plain loads, and a copy engine; and the models of both."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pmoss_benchmarks.access_path.models import compare
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run, check_counts, check_names
from pmoss_benchmarks.study.tables import Columns, TableOfRows, table_of
from pmoss_env import _native
from pmoss_env.envs.access_path.real import ENGINES, engine_absence, make_engine
from pmoss_env.errors import BackendError, DescriptionError

MEASURES_HOST = True
#: What each background thread copies at a time: more than caches hold.
_COPIED_BYTES = 32 << 20
_READING_S = 0.02
#: Of the combinations so many test the models.
_TESTED = 0.2


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        engines: copy engines beside the loads.
        megabytes: sizes of the columns.
        shares: of the rows that match.
        backgrounds: numbers of threads that copy memory meanwhile.
        repeats: of each combination on each path.
        block_kib: size of each of the engine's two buffers.
        seed: of the values and of the order.
    """

    AXES: ClassVar = ("engines",)

    engines: tuple[str, ...] = tuple(ENGINES)
    megabytes: tuple[float, ...] = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
    shares: tuple[float, ...] = (0.0, 0.001, 0.05, 0.3)
    backgrounds: tuple[int, ...] = (0, 1)
    repeats: int = 7
    block_kib: float = 128.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_names("copy engine", self.engines, ENGINES)
        if not self.megabytes or min(self.megabytes) <= 0:
            raise DescriptionError(f"megabytes = {self.megabytes!r}: must all be above 0")
        if not self.shares or min(self.shares) < 0 or max(self.shares) > 1:
            raise DescriptionError(f"shares = {self.shares!r}: must all be from 0 to 1")
        if not self.backgrounds or min(self.backgrounds) < 0:
            raise DescriptionError(f"backgrounds = {self.backgrounds!r}: must not be negative")
        check_counts(self, "repeats", least=3)


def cells(settings: Settings) -> list[Cell]:
    """The engines."""
    return [{"engine": name} for name in settings.engines]


def measure(run: Run, cell: Cell) -> Row:
    """Measures one engine beside plain loads.

    Returns:
        ``absent``, why the engine is not there, else empty; ``combinations``, of each its ``node``,
        ``megabytes``, ``share`` of matches and threads of ``background``, and the median and the
        best microseconds by loads and by the engine; and ``scores`` of the models, on combinations
        that they were not trained on.
    """
    settings = run.settings
    if absent := engine_absence(cell["engine"]):
        return {"absent": absent, "combinations": [], "scores": []}
    # Before this thread is bound to a CPU, or its helper would be bound to the same one.
    copier = make_engine(cell["engine"])
    topology = _native.host_topology("/")
    nodes = [n for n in topology["nodes"] if n["memory_bytes"] > 0] or topology["nodes"]
    cpus = {cpu["id"] for cpu in topology["cpus"]}
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed & cpus or cpus)
    home = next((n for n in nodes if cpu in n["cpus"]), nodes[0])
    others = [c for c in sorted(allowed) if c != cpu] or [cpu]
    rng = np.random.default_rng(settings.seed)
    grid = list(itertools.product(settings.megabytes, settings.shares))
    combinations: list[dict[str, Any]] = []
    features: list[npt.NDArray[np.float64]] = []
    times: list[npt.NDArray[np.float64]] = []
    os.sched_setaffinity(0, {cpu})
    try:
        for node, threads in itertools.product(nodes, settings.backgrounds):
            # One table per size: emptying the caches takes as long as the table is large.
            tables = {
                megabytes: _native.ScanTable(
                    int(megabytes * 1e6 / 4), settings.seed, node["id"] if len(nodes) > 1 else -1
                )
                for megabytes in settings.megabytes
            }
            background = _native.ScanBackground(
                [others[i % len(others)] for i in range(threads)], _COPIED_BYTES
            )
            try:
                for number in rng.permutation(len(grid)):
                    megabytes, share = grid[number]
                    measured, took = _scans(
                        settings, tables[megabytes], share, copier, background if threads else None
                    )
                    measured[:, 1] = _distance(topology, node, home)
                    features.append(measured)
                    times.append(took)
                    (loads, engine), (best_loads, best_engine) = np.median(took, 0), took.min(0)
                    combinations.append(
                        {
                            **{"node": node["id"], "megabytes": megabytes, "share": share},
                            **{"background": threads, "us_by_loads": loads, "us_by_engine": engine},
                            **{"best_us_by_loads": best_loads, "best_us_by_engine": best_engine},
                        }
                    )
            finally:
                background.stop()
    finally:
        os.sched_setaffinity(0, allowed)
    order = np.random.default_rng(settings.seed).permutation(len(combinations))
    count = max(1, round(_TESTED * order.size))
    test, train = (
        (np.concatenate([features[n] for n in part]), np.concatenate([times[n] for n in part]))
        for part in (np.sort(order[:count]), np.sort(order[count:]))
    )
    scores = compare(train, test)
    return {
        "absent": "",
        "combinations": combinations,
        "scores": [score.as_dict() for score in scores],
    }


def _scans(
    settings: Settings, table: Any, share: float, copier: Any, background: Any
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scans a table on both paths in turn.

    Returns:
        (repeats, 5) features, the second one left 0: the link traffic is the copies of the
        background; and (repeats, 2) microseconds by loads and by the engine.
    """
    low, high = _native.ScanTable.range_of(share)
    features, times = [], []
    for _ in range(settings.repeats):
        traffic = _traffic(background) if background is not None else 0.0
        took, matches = [], []
        for engine in (None, copier):
            table.flush()
            raw = table.scan(
                low,
                high,
                rows=table.rows,
                capacity=table.rows,
                engine=engine,
                block_kib=settings.block_kib,
            )
            took.append(raw["seconds"] * 1e6)
            matches.append(raw["matches"])
        if matches[0] != matches[1]:
            raise BackendError(
                f"loads matched {matches[0]} positions, the engine's copies {matches[1]}"
            )
        features.append([table.rows * 4e-6, 0.0, matches[0] * 1e-6, traffic, 0.0])
        times.append(took)
    return np.array(features), np.array(times)


def _traffic(background: Any) -> float:
    """GB/s that the background copies, read right before a scan."""
    before, start = background.bytes_copied, time.perf_counter()
    time.sleep(_READING_S)
    return float((background.bytes_copied - before) / (time.perf_counter() - start) * 1e-9)


def _distance(topology: dict[str, Any], node: dict[str, Any], home: dict[str, Any]) -> float:
    """The kernel's distance from the scanning CPU's node to the table's; 10 for the own one."""
    ids = [n["id"] for n in topology["nodes"]]
    distances = home["distances"]
    return float(distances[ids.index(node["id"])]) if distances else 10.0


def _is_lower(combination: Mapping[str, Any], statistic: str = "") -> bool:
    return bool(combination[f"{statistic}us_by_engine"] < combination[f"{statistic}us_by_loads"])


def engine_wins(combination: Mapping[str, Any]) -> bool:
    """Whether the engine was faster both in the median and in the best repeat.

    On a busy host either alone is often chance.
    """
    return _is_lower(combination) and _is_lower(combination, "best_")


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Whether offloading ever wins, by engine.

    Returns:
        Of each engine ``absent``; the number of ``combinations``; in how many it ``wins``; in how
        many more its median is lower, ``by_median``; and the largest ``gain`` of the median where
        it wins, as a share; None where it never does.
    """
    summary = {}
    for row in rows:
        won = [scan for scan in row["combinations"] if engine_wins(scan)]
        gains = [scan["us_by_loads"] / scan["us_by_engine"] - 1 for scan in won]
        summary[row["engine"]] = {
            "absent": row["absent"],
            "combinations": len(row["combinations"]),
            "wins": len(won),
            "by_median": sum(map(_is_lower, row["combinations"])) - len(won),
            "gain": max(gains, default=None),
        }
    return summary


def _verdicts(rows: Rows) -> TableOfRows:
    """In how many combinations each engine wins."""
    summaries = [{"engine": engine, **counts} for engine, counts in summarise({}, rows).items()]
    columns: Columns = {
        "engine": "{engine}",
        "measured": lambda counts: counts["absent"] or f"{counts['combinations']} combinations",
        ">offloading wins": "{wins}",
        ">only its median is lower": "{by_median}",
        ">largest gain": "{gain:.0%}",
    }
    return table_of(summaries, columns)


def _largest(rows: Rows) -> TableOfRows:
    """Both paths in the largest columns, in GB/s."""
    shown = []
    for row in rows:
        largest = max((scan["megabytes"] for scan in row["combinations"]), default=0.0)
        scans = [scan for scan in row["combinations"] if scan["megabytes"] == largest]
        for scan in sorted(scans, key=lambda scan: (scan["share"], scan["background"])):
            loads, copies = (largest * 1e3 / scan[f"us_by_{path}"] for path in ("loads", "engine"))
            shown.append({"engine": row["engine"], **scan, "loads": loads, "copies": copies})
    columns: Columns = {
        "engine": "{engine}",
        ">MB": "{megabytes:g}",
        ">rows that match": "{share:.1%}",
        ">background threads": "{background}",
        ">loads, GB/s": "{loads:.2f}",
        ">copies, GB/s": "{copies:.2f}",
        "wins": lambda scan: "copies" if engine_wins(scan) else "loads",
    }
    return table_of(shown, columns)


TABLES = {"default": _verdicts, "largest": _largest}
