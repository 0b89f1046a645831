"""The block on how long an update of each learner takes on the CPU and on a GPU."""

from __future__ import annotations

from typing import Any

from pmoss_benchmarks.spatial.training_times import is_whole
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_env.errors import DatasetError
from pmoss_env.result_files import read_rows

_FILE = "training-times.jsonl"


def training_times(stored: Stored) -> str:
    """Milliseconds per update on each device, side by side."""
    path = stored.folder / _FILE
    header, rows = read_rows(path)
    by_learner: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if not is_whole(row):
            raise DatasetError(f"{path}: the row {row} is no row of training times")
        by_learner.setdefault(row["learner"], {})[row["gpu"] or "CPU"] = row
    devices = list(dict.fromkeys(name for of in by_learner.values() for name in of))
    shown = []
    for learner, of in by_learner.items():
        cells = [_milliseconds(of[name]) if name in of else "" for name in devices]
        minutes = [f"{_minutes(of[name]):.1f}" if name in of else "" for name in devices]
        both = len(of) == len(devices) == 2
        times = [f"{of[devices[0]]['median'] / of[devices[1]]['median']:.1f}"] if both else [""]
        shown.append([f"`{learner}`", *cells, *times, *minutes])
    columns = ["learner", *(f"ms, {name}" for name in devices), "times as fast"]
    columns += [f"minutes in all, {name}" for name in devices]
    changes = header["changes"]
    config = f"the committed config with {changes}" if changes else "the committed config"
    told = (
        f"`{header['task']}`, {counted(header['episodes'], 'episode')} of data, "
        f"{header['seconds']:g} seconds of each learner on each device, torch {header['torch']}. "
        "Brackets hold quartiles. The last columns are the median times the updates of "
        f"{config}. An update of `maskable-ppo` and `dqn` plays whole episodes first, on the CPU."
    )
    if note := header.get("note"):
        told += f" {note}"
    return "\n\n".join([told, table(columns, shown), made(header, f"benchmarks/results/{_FILE}")])


def _milliseconds(row: dict[str, Any]) -> str:
    return interval(*(1e3 * row[name] for name in ("median", "low", "high")))


def _minutes(row: dict[str, Any]) -> float:
    return float(row["median"] * row["of"] / 60)


BLOCKS = {"training-times": training_times}
