"""The whole thread benchmark: the paper's rows, the comparison, timings, report and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pmoss_benchmarks.report import write_report
from pmoss_benchmarks.threads.comparison import Comparison
from pmoss_benchmarks.threads.reproduction import FITTED, Row, draw, reproduce
from pmoss_benchmarks.threads.studies import timings
from pmoss_env.extras import require


@dataclass(frozen=True)
class ThreadsResult:
    """What the benchmark found.

    Attributes:
        rows: of the paper.
        comparison: of the methods.
        timings: see studies.timings().
        written: files.
    """

    rows: list[Row]
    comparison: Comparison
    timings: dict[str, float]
    written: list[Path]

    @property
    def judged(self) -> int:
        """How many rows nothing was fitted to."""
        return sum(row.verdict != "fitted" for row in self.rows)

    @property
    def inside(self) -> int:
        """How many rows lie inside what is accepted."""
        return sum(row.verdict == "inside" for row in self.rows)


def run_threads(
    seeds: int,
    out: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ThreadsResult:
    """Runs the benchmark; writes ``threads.json`` and the pictures to the folder ``out``.

    Args:
        seeds: runs per program and method.
        out: folder, or None.
        progress: called with (done, total).

    Raises:
        MissingExtraError: pictures are asked for without matplotlib; told before the work.
    """
    if out:
        require("matplotlib")
    rows, comparison, pictures = reproduce(seeds=seeds, progress=progress)
    speed = timings()
    written: list[Path] = []
    if out:
        write_report(
            out / "threads.json",
            [__name__],
            seeds=seeds,
            fitted=FITTED,
            rows=[row.as_dict() for row in rows],
            **asdict(comparison),
            pictures=pictures,
            timings=speed,
        )
        written = [out / "threads.json", *draw(pictures, out)]
    return ThreadsResult(rows, comparison, speed, written)
