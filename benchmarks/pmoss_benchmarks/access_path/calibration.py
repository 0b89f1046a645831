"""Measures both paths of a scan on this host and trains the models on what it found."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_benchmarks.access_path.models import ModelScores, compare
from pmoss_env import _native
from pmoss_env.envs.access_path.real import ENGINES, engine_absence, make_engine
from pmoss_env.errors import BackendError, DescriptionError

Floats = npt.NDArray[np.float64]

#: What each background thread copies at a time: more than caches hold.
_COPIED_BYTES = 32 << 20
_READING_S = 0.02


@dataclass(frozen=True)
class CalibrationPlan:
    """What is measured.

    Attributes:
        megabytes: sizes of the columns.
        shares: of the rows that match.
        backgrounds: numbers of threads that copy memory meanwhile.
        repeats: of each combination on each path.
        block_kib: size of each of the engine's two buffers.
        seed: of the values and of the order.
    """

    megabytes: Sequence[float] = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
    shares: Sequence[float] = (0.0, 0.001, 0.05, 0.3)
    backgrounds: Sequence[int] = (0, 1)
    repeats: int = 7
    block_kib: float = 128.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.megabytes or min(self.megabytes) <= 0:
            raise DescriptionError(f"megabytes = {self.megabytes!r}: must all be above 0")
        if not self.shares or min(self.shares) < 0 or max(self.shares) > 1:
            raise DescriptionError(f"shares = {self.shares!r}: must all be from 0 to 1")
        if not self.backgrounds or min(self.backgrounds) < 0:
            raise DescriptionError(f"backgrounds = {self.backgrounds!r}: must not be negative")
        if self.repeats < 3:
            raise DescriptionError(f"repeats = {self.repeats!r}: must be at least 3")


@dataclass(frozen=True)
class Calibration:
    """What one engine did on this host.

    Attributes:
        engine: its name.
        absent: why it is not there; then nothing else is filled in.
        combinations: (c, 4) node, megabytes, share of matches and background threads.
        features: (n, 5) FEATURES, the link traffic being the copies of the background; the latency
            is the kernel's distance between the nodes, 10 for the own one.
        times_us: (n, 2) microseconds by loads and by the engine.
        of_combination: (n,) which combination each belongs to.
        scores: of the models, on combinations that they were not trained on.
    """

    engine: str
    absent: str
    combinations: Floats
    features: Floats
    times_us: Floats
    of_combination: npt.NDArray[Any]
    scores: list[ModelScores]

    @property
    def medians(self) -> Floats:
        """(c, 2) median microseconds of each combination."""
        return self._of_combinations(np.median)

    @property
    def bests(self) -> Floats:
        """(c, 2) microseconds of the fastest repeat of each combination."""
        return self._of_combinations(np.min)

    @property
    def won(self) -> npt.NDArray[np.bool_]:
        """(c,) whether the engine was faster both in the median and in the best repeat.

        On a busy host either alone is often chance.
        """
        won: npt.NDArray[np.bool_] = self._faster(self.medians) & self._faster(self.bests)
        return won

    @property
    def wins(self) -> int:
        """Combinations in which the engine was faster."""
        return int(self.won.sum())

    @property
    def conclusion(self) -> str:
        """What a database should do here. It says what winning means."""
        if self.absent:
            return f"{self.engine}: absent. {self.absent}"
        total = len(self.combinations)
        repeats = len(self.times_us) // total
        by_median = int((self._faster(self.medians) & ~self.won).sum())
        meant = f"faster in the median and in the best of {repeats} repeats"
        told = f"{self.engine}: offloading wins ({meant}) in {self.wins} of {total} combinations"
        if self.wins:
            gain = self.medians[self.won]
            told += f", by up to {float((gain[:, 0] / gain[:, 1]).max()) - 1:.0%} in the median"
        told += f". In {by_median} more its median alone is lower."
        return told if self.wins else f"{told} Always load."

    def _of_combinations(self, statistic: Callable[..., Any]) -> Floats:
        return np.array(
            [
                statistic(self.times_us[self.of_combination == c], axis=0)
                for c in range(len(self.combinations))
            ]
        ).reshape(-1, 2)

    @staticmethod
    def _faster(times_us: Floats) -> npt.NDArray[np.bool_]:
        faster: npt.NDArray[np.bool_] = times_us[:, 1] < times_us[:, 0]
        return faster

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "engine": self.engine,
            "absent": self.absent,
            "conclusion": self.conclusion,
            "combinations": [
                {
                    "node": int(node),
                    "megabytes": megabytes,
                    "share": share,
                    "background": int(background),
                    "us_by_loads": loads,
                    "us_by_engine": engine,
                    "best_us_by_loads": best_loads,
                    "best_us_by_engine": best_engine,
                    "engine_wins": won,
                }
                for (
                    (node, megabytes, share, background),
                    (loads, engine),
                    (best_loads, best_engine),
                    won,
                ) in zip(
                    self.combinations.tolist(),
                    self.medians.tolist(),
                    self.bests.tolist(),
                    self.won.tolist(),
                    strict=True,
                )
            ],
            "scores": [score.as_dict() for score in self.scores],
        }


def calibrate(
    plan: CalibrationPlan,
    engine: str = "thread",
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Measures one engine beside plain loads.

    Args:
        plan: what is measured.
        engine: one of ENGINES.
        progress: called with (combinations done, all of them).
    """
    absent = engine_absence(engine) if engine in ENGINES else ""
    if absent:
        nothing = np.zeros((0, 2))
        return Calibration(
            engine, absent, np.zeros((0, 4)), np.zeros((0, 5)), nothing, np.zeros(0, int), []
        )
    topology = _native.host_topology("/")
    cpus = [cpu["id"] for cpu in topology["cpus"]]
    nodes = [n for n in topology["nodes"] if n["memory_bytes"] > 0] or topology["nodes"]
    # Before this thread is bound to a CPU, or its helper would be bound to the same one.
    copier = make_engine(engine)
    cpu = min(os.sched_getaffinity(0) & set(cpus) or set(cpus))
    home = next((n for n in nodes if cpu in n["cpus"]), nodes[0])
    features: list[list[float]] = []
    times: list[list[float]] = []
    which: list[int] = []
    combinations: list[list[float]] = []
    grid = list(itertools.product(plan.megabytes, plan.shares))
    rng = np.random.default_rng(plan.seed)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        for node, threads in itertools.product(nodes, plan.backgrounds):
            # One table per size: emptying the caches takes as long as the table is large.
            tables = {
                megabytes: _native.ScanTable(
                    int(megabytes * 1e6 / 4), plan.seed, node["id"] if len(nodes) > 1 else -1
                )
                for megabytes in plan.megabytes
            }
            distance = _distance(topology, node, home)
            others = [c for c in sorted(allowed) if c != cpu] or [cpu]
            background = _native.ScanBackground(
                [others[i % len(others)] for i in range(threads)], _COPIED_BYTES
            )
            try:
                for i in rng.permutation(len(grid)):
                    megabytes, share = grid[i]
                    table = tables[megabytes]
                    rows = table.rows
                    low, high = _native.ScanTable.range_of(share)
                    for _ in range(plan.repeats):
                        traffic = _traffic(background) if threads else 0.0
                        pair, found = [], []
                        for used in (None, copier):
                            table.flush()
                            raw = table.scan(
                                low,
                                high,
                                rows=rows,
                                capacity=rows,
                                engine=used,
                                block_kib=plan.block_kib,
                            )
                            pair.append(raw["seconds"] * 1e6)
                            found.append(raw["matches"])
                        if found[0] != found[1]:
                            raise BackendError(
                                f"loads found {found[0]} positions, the engine's copies {found[1]}"
                            )
                        features.append([rows * 4e-6, distance, found[0] * 1e-6, traffic, 0.0])
                        times.append(pair)
                        which.append(len(combinations))
                    combinations.append([node["id"], megabytes, share, threads])
                    if progress is not None:
                        progress(len(combinations), len(nodes) * len(plan.backgrounds) * len(grid))
            finally:
                background.stop()
    finally:
        os.sched_setaffinity(0, allowed)
    all_features, all_times = np.array(features, float), np.array(times, float)
    of_combination = np.array(which)
    order = np.random.default_rng(plan.seed).permutation(len(combinations))
    test = np.isin(of_combination, order[: max(1, round(0.2 * order.size))])
    scores = compare((all_features[~test], all_times[~test]), (all_features[test], all_times[test]))
    return Calibration(
        engine, "", np.array(combinations, float), all_features, all_times, of_combination, scores
    )


def _traffic(background: _native.ScanBackground) -> float:
    """GB/s that the background copies, read right before a scan."""
    before, start = background.bytes_copied, time.perf_counter()
    time.sleep(_READING_S)
    return (background.bytes_copied - before) / (time.perf_counter() - start) * 1e-9


def _distance(topology: dict[str, Any], node: dict[str, Any], home: dict[str, Any]) -> float:
    """The kernel's distance from the scanning CPU's node to the table's."""
    ids = [n["id"] for n in topology["nodes"]]
    distances = home["distances"]
    return float(distances[ids.index(node["id"])]) if distances else 10.0
