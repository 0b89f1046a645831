"""Table scans and their background traffic: descriptions and random draws.

Every number is drawn by additions, multiplications and powers of two of uniform numbers, so that
all machines draw the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pmoss_env.checks import check_number
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array, Int32Array

#: The access paths by number: the processor loads; the engine copies; the engine copies without
#: coherence and may read wrong data.
PATHS = ("cpu", "offload", "relaxed")

#: The five features of the paper (section 5.1) with their units.
FEATURES: Mapping[str, str] = {
    "data_size": "MB",
    "latency": "ns",
    "result_size": "million positions",
    "link_traffic": "GB/s",
    "engine_traffic": "GB/s",
}

VALUE_BYTES = 4
#: Most rows of a column (native/simulator/scan_checks.cpp).
MOST_ROWS = 10**12
#: Largest traffic of a background worker, GB/s.
WORKER_GB_PER_S = 3.0


@dataclass(frozen=True, eq=False)
class Scans:
    """Some scans of columns of 32-bit integers; every field is (n,).

    Attributes:
        execution_node: int32, node of the scanning core.
        storage_node: int32, node of the column.
        rows: float64, whole numbers.
        results: float64, number of written positions, up to ``rows``.
        cpu_workers: int32, background cores that read across the same links.
        cpu_worker_gb_per_s: float64, requested traffic of each.
        engine_workers: int32, background copies by the same engine.
        engine_worker_gb_per_s: float64, requested traffic of each.
    """

    execution_node: Int32Array
    storage_node: Int32Array
    rows: Float64Array
    results: Float64Array
    cpu_workers: Int32Array
    cpu_worker_gb_per_s: Float64Array
    engine_workers: Int32Array
    engine_worker_gb_per_s: Float64Array

    def __len__(self) -> int:
        return int(self.rows.size)

    def __getitem__(self, index: Any) -> Scans:
        """The scans of an index array, a mask or a slice."""
        return Scans(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @classmethod
    def of(
        cls,
        storage_node: Any,
        rows: Any,
        results: Any = 0,
        background: Background | None = None,
        execution_node: Any = 0,
    ) -> Scans:
        """Scans from arrays that are broadcast against each other."""
        background = background or Background.quiet()
        cpu_workers, cpu_each = background.cpu
        engine_workers, engine_each = background.engine
        columns = np.broadcast_arrays(
            np.atleast_1d(execution_node),
            storage_node,
            rows,
            results,
            cpu_workers,
            cpu_each,
            engine_workers,
            engine_each,
        )
        whole = ("execution_node", "storage_node", "cpu_workers", "engine_workers")
        arrays: dict[str, Any] = {
            f.name: np.ascontiguousarray(column, np.int32 if f.name in whole else np.float64)
            for f, column in zip(fields(cls), columns, strict=True)
        }
        return cls(**arrays)

    @property
    def bytes(self) -> Float64Array:
        """(n,) size of the columns."""
        return self.rows * VALUE_BYTES

    @property
    def megabytes(self) -> Float64Array:
        """(n,) size of the columns, 10^6 bytes."""
        return self.bytes / 1e6


@dataclass(frozen=True, eq=False)
class Background:
    """Background traffic: total requested GB/s, each a number or (n,).

    It is caused by the least number of workers with at most ``WORKER_GB_PER_S`` each.
    """

    link_gb_per_s: Any
    engine_gb_per_s: Any

    @classmethod
    def quiet(cls) -> Background:
        """No background."""
        return cls(0.0, 0.0)

    @property
    def cpu(self) -> tuple[Int32Array, Float64Array]:
        """Number of cores that load, and the traffic that each requests."""
        return _workers(self.link_gb_per_s)

    @property
    def engine(self) -> tuple[Int32Array, Float64Array]:
        """Number of copies by the engine, and the traffic that each requests."""
        return _workers(self.engine_gb_per_s)


def _workers(gb_per_s: Any) -> tuple[Int32Array, Float64Array]:
    total = np.asarray(gb_per_s, dtype=np.float64)
    workers = np.ceil(total / WORKER_GB_PER_S)
    each = total / np.maximum(workers, 1.0)
    return workers.astype(np.int32), each


def feature_matrix(
    scans: Scans, latency_ns: Float64Array, link_gb_per_s: Any, engine_gb_per_s: Any
) -> Float64Array:
    """(n, 5) FEATURES of scans.

    Args:
        latency_ns: (n,) idle latency between the two nodes.
        link_gb_per_s: (n,) traffic on the links, read right before each scan.
        engine_gb_per_s: (n,) traffic of the engine, read right before each scan.
    """
    return np.stack(
        [scans.megabytes, latency_ns, scans.results / 1e6, link_gb_per_s, engine_gb_per_s], axis=1
    )


@dataclass(frozen=True)
class ScanDistribution:
    """The distribution of scans.

    Half of the column sizes are uniform in their logarithm, half in their bytes. The first makes
    small tables as likely as large ones; the second gives most of the run time.

    Attributes:
        least_kib: smallest column.
        doublings: the largest column is 2 ** ``doublings`` times as large.
        result_share: largest share of matching rows; half of the scans are below a thousandth of
            it.
        link_gb_per_s: largest traffic of background loads.
        engine_gb_per_s: largest traffic of background copies.
        read_only_share: share of the columns that are not written, for which relaxed coherence is
            legal.
    """

    least_kib: float = 256.0
    doublings: int = 11
    result_share: float = 0.1
    link_gb_per_s: float = 12.0
    engine_gb_per_s: float = 6.0
    read_only_share: float = 0.8

    def __post_init__(self) -> None:
        for name, low, high in (
            ("least_kib", 1 / 64, 1e6),
            ("doublings", 0, 20),
            ("result_share", 0, 1),
            ("link_gb_per_s", 0, 40),
            ("engine_gb_per_s", 0, 40),
            ("read_only_share", 0, 1),
        ):
            check_number(name, getattr(self, name), low, high)
        if self.doublings != int(self.doublings):
            raise DescriptionError(f"doublings = {self.doublings!r}: must be a whole number")
        rows = self.least_kib * 1024 / VALUE_BYTES * 2.0**self.doublings
        if rows > MOST_ROWS:
            raise DescriptionError(
                f"least_kib = {self.least_kib!r}, doublings = {self.doublings!r}: the largest "
                f"column would have {rows:.3g} rows, of at most {MOST_ROWS:.0e}"
            )

    def draw(self, rng: np.random.Generator, n: int, nodes: int) -> Scans:
        """``n`` scans between uniformly drawn nodes, with background of any strength."""
        # A local column is as likely as one of any other class of distance.
        execution = rng.integers(nodes, size=n)
        other = rng.integers(nodes, size=n)
        storage = np.where(rng.random(n) < 0.2, execution, other)
        rows = self.draw_rows(rng, n)
        results = self.draw_results(rng, rows)
        background = Background(
            _often_none(rng, n) * self.link_gb_per_s, _often_none(rng, n) * self.engine_gb_per_s
        )
        return Scans.of(storage, rows, results, background, execution)

    def draw_rows(self, rng: np.random.Generator, n: int) -> Float64Array:
        """(n,) rows of columns."""
        least = self.least_kib * 1024 / VALUE_BYTES
        doubled = rng.integers(self.doublings, size=n) if self.doublings else np.zeros(n, dtype=int)
        by_doubling = np.ldexp(least * (1 + (rng.random(n) if self.doublings else 0.0)), doubled)
        largest = least * 2.0**self.doublings
        by_byte = least + rng.random(n) * (largest - least)
        return np.asarray(np.floor(np.where(rng.random(n) < 0.5, by_doubling, by_byte)))

    def draw_results(self, rng: np.random.Generator, rows: Float64Array) -> Float64Array:
        """(n,) numbers of positions that scans of these columns write."""
        share = self.result_share * rng.random(rows.size)
        share = np.where(rng.random(rows.size) < 0.5, share, share / 1000)
        return np.asarray(np.floor(share * rows))


def _often_none(rng: np.random.Generator, n: int) -> Float64Array:
    """(n,) strengths from 0 to 1, a quarter of them 0."""
    return np.where(rng.random(n) < 0.25, 0.0, rng.random(n))
