"""The metrics of a training after every update: in a file, and for the programs of others."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmoss_env.errors import DatasetError
from pmoss_env.extras import require
from pmoss_env.files import read_text, write_atomically

#: Fields that describe the moment, not the update.
MOMENT = ("update", "cpu_seconds", "steps")
#: No log is longer.
_MAX_BYTES = 2**28


class TrainingLog:
    """A file of JSON lines, one per update: ``update``, ``cpu_seconds`` and the metrics.

    CPU seconds are those of all runs together. Updates that are made again after an interruption
    replace those after the checkpoint.
    """

    def __init__(self, path: str | Path, updates: int = 0) -> None:
        """Goes on with a log.

        Raises:
            DatasetError: the file holds something else.
        """
        self._path = Path(path)
        kept = [row for row in read_log(self._path) if row["update"] <= updates]
        self._before = float(kept[-1]["cpu_seconds"]) if kept else 0.0
        self._began = time.process_time()
        if self._path.exists():
            write_atomically(self._path, "".join(f"{json.dumps(row)}\n" for row in kept))

    @property
    def cpu_seconds(self) -> float:
        """CPU time of this process since the log was opened, and of the runs before."""
        return self._before + time.process_time() - self._began

    def __call__(self, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Adds a line; it is the ``progress`` of fit()."""
        rounded = {name: float(f"{value:.6g}") for name, value in metrics.items()}
        row = {"update": done, "cpu_seconds": round(self.cpu_seconds, 2), **rounded}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")


class TensorBoard:
    """Metrics as scalars ``train/NAME`` over updates: it is the ``progress`` of fit().

    ``tensorboard --logdir FOLDER`` shows them.
    """

    def __init__(self, folder: str | Path, updates: int = 0) -> None:
        """Begins, or goes on after so many updates: TensorBoard leaves out what came later.

        Raises:
            MissingExtraError: tensorboardX is not installed.
        """
        require("tensorboardX")
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=updates + 1)

    def __call__(self, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Adds a point to each curve; a metric whose name has a group keeps it."""
        for name, value in metrics.items():
            self._writer.add_scalar(_grouped(name), value, done)

    def close(self) -> None:
        """Writes what waits."""
        self._writer.close()


class WeightsAndBiases:
    """Metrics as a run of Weights & Biases: it is the ``progress`` of fit().

    Where they go is what its own settings and environment variables say.
    """

    def __init__(
        self, project: str, out: Path, config: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        """Begins the run of a checkpoint, named like its file, or goes on with it.

        Args:
            out: the checkpoint; its whole path decides which run is its own.
            resume: go on; else the run begins anew.

        Raises:
            MissingExtraError: wandb is not installed.
        """
        require("wandb")
        import wandb

        digest = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]
        self._run = wandb.init(
            project=project,
            name=out.stem,
            id=f"{out.stem}-{digest}",
            config=dict(config),
            resume="allow" if resume else None,
        )

    def __call__(self, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Adds a point to each curve."""
        self._run.log({_grouped(name): value for name, value in metrics.items()}, step=done)

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


def _grouped(name: str) -> str:
    return name if "/" in name else f"train/{name}"


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a log; a last one that was cut is left out. Empty without a file.

    Raises:
        DatasetError: the file holds something else.
    """
    path = Path(path)
    if not path.exists():
        return []
    lines = read_text(path, _MAX_BYTES).split("\n")
    rows = []
    # What follows the last line's end was cut.
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
            float(row["update"]), float(row["cpu_seconds"])
        except (ValueError, LookupError, TypeError) as error:
            raise DatasetError(f"{path}: line {number}: is no line of a training's log") from error
        rows.append(row)
    return rows


def means_of_windows(
    rows: Sequence[Mapping[str, float]], points: int, last: Sequence[str] = MOMENT
) -> list[dict[str, float]]:
    """A log in short: means of metrics over windows of updates.

    Args:
        last: what is the last value of a window, not a mean.

    Returns:
        One row per window. Updates without a metric have no part in its mean.
    """
    size = max(1, math.ceil(len(rows) / points))
    curve = []
    for begin in range(0, len(rows), size):
        window = rows[begin : begin + size]
        point: dict[str, float] = {}
        for name in dict.fromkeys(name for row in window for name in row):
            values = [row[name] for row in window if name in row]
            mean = float(f"{math.fsum(values) / len(values):.6g}")
            point[name] = values[-1] if name in last else mean
        curve.append(point)
    return curve
