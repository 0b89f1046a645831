"""A user's copy of the original's files, read as a whole."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from pmoss_datasets.folder import check_target
from pmoss_datasets.original.knowledge_base import KnowledgeBase, read_knowledge_base
from pmoss_datasets.original.layout import find_files
from pmoss_datasets.original.machine_file import MachineFile
from pmoss_datasets.original.schedules import OriginalSchedule, read_schedule
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically

#: Environment variable that names the folder of the original's files.
VARIABLE = "PMOSS_ORIGINAL_DATA"


@dataclass(frozen=True)
class OriginalData:
    """The data of one machine in a copy of the original's files.

    Attributes:
        machine: the machine file.
        schedules: training schedules of 256 slices, by id.
        learned: what the learned scheduler wrote, by (workload's folder, id).
        snapshots: the recorded knowledge base; None if the copy has none.
    """

    machine: MachineFile
    schedules: dict[int, OriginalSchedule]
    learned: dict[tuple[str, int], OriginalSchedule]
    snapshots: KnowledgeBase | None

    def on_their_cores_node(self) -> int:
        """Slices that appear in the folder of their core's node alone, of the first schedule run.

        Raises:
            DatasetError: that schedule's file is absent, or there are no snapshots.
        """
        if self.snapshots is None:
            raise DatasetError("no snapshots: nothing tells in whose folder a slice appears")
        config = int(self.snapshots.config[0])
        if config not in self.schedules:
            raise DatasetError(f"schedules: c_{config}_256.txt: is missing: the snapshots ran it")
        nodes = self.schedules[config].schedule.nodes
        return int((self.snapshots.home_nodes == nodes).sum())

    def summary(self) -> str:
        """A few lines of what was found."""
        schedules = f"schedules: {len(self.schedules)}"
        if self.learned:
            agreement = np.mean([schedule.agreement for schedule in self.learned.values()])
            schedules += (
                f", learned: {len(self.learned)}, which put {agreement:.0%} of the slices on their "
                "core's node"
            )
        lines = [
            f"{self.machine.name}: {self.machine.nodes} nodes, {self.machine.workers.size} workers",
            schedules,
        ]
        if self.snapshots is None:
            return "\n".join([*lines, "snapshots: none"])
        snapshots = self.snapshots
        kilo = " ".join(f"{value:.1f}" for value in snapshots.throughput_kq_per_s)
        lines += [
            f"snapshots: {snapshots.config.size} sweeps, layout {snapshots.vendor}, configs "
            f"{sorted(set(snapshots.config.tolist()))}, workloads "
            f"{sorted(set(snapshots.workload.tolist()))}",
            f"throughput: {kilo} kq/s",
            f"hottest slice: {snapshots.slice_share.max():.2%} of the queries",
            f"slices whose counters were dropped: {int(snapshots.dropped.any(axis=0).sum())}",
        ]
        if int(snapshots.config[0]) in self.schedules:
            lines.append(
                f"slices on their core's node: {self.on_their_cores_node()} of "
                f"{snapshots.home_nodes.size}"
            )
        return "\n".join(lines)


def find_original() -> Path | None:
    """``$PMOSS_ORIGINAL_DATA``, else ``../shared/data/original`` from here upwards, else None."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    folder = Path.cwd()
    for place in (folder, *folder.parents):
        if (data := place / "shared" / "data" / "original").is_dir():
            return data
    return None


def import_folder(
    folder: str | Path,
    machine: str,
    knowledge_base: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    machine_file: str | Path | None = None,
) -> OriginalData:
    """Reads what a folder holds of a machine: its schedules, and its snapshots if there are any.

    Args:
        folder: a clone of either public repository, or a sorted copy; see find_files().
        machine: its name, such as "intel_skx_4s_8n".
        knowledge_base: folder of the snapshots, below ``folder``; None: "kb_b__", if it is there.
        progress: called with (files read, files).
        machine_file: where the folder has none.

    Raises:
        DatasetError: a file is missing, damaged or does not fit the others.
    """
    described, schedule_files, learned_files, snapshot_folder = find_files(
        Path(folder), machine, knowledge_base, Path(machine_file) if machine_file else None
    )
    paths = (*schedule_files, *learned_files)
    total = len(paths) + (snapshot_folder is not None)
    schedules, learned = {}, {}
    for done, path in enumerate(paths, start=1):
        schedule = read_schedule(path, described)
        if path in learned_files:
            learned[path.parent.name, schedule.id] = schedule
        else:
            schedules[schedule.id] = schedule
        progress(done, total)
    snapshots = None
    if snapshot_folder is not None:
        snapshots = read_knowledge_base(snapshot_folder, described)
        progress(total, total)
    return OriginalData(described, schedules, learned, snapshots)


def save_snapshots(path: str | Path, data: OriginalData, *, overwrite: bool = False) -> None:
    """Writes the schedules, and the corrected snapshots if any, as an npz archive or not at all.

    Raises:
        DatasetError: something is there, or nothing can be written there.
    """
    check_target(path, overwrite, what="")  # which finds the file itself
    snapshots = data.snapshots
    arrays = {}
    if snapshots is not None:
        arrays = {
            field.name: np.asarray(getattr(snapshots, field.name)) for field in fields(snapshots)
        }
    arrays["machine"] = np.array(data.machine.name)
    arrays["learned_workloads"] = np.array([workload for workload, _ in sorted(data.learned)], str)
    for kind, by_key in (("schedule", data.schedules), ("learned", data.learned)):
        chosen = [schedule for _, schedule in sorted(by_key.items())]
        for name, rows in {
            "ids": [s.id for s in chosen],
            "cores": [s.schedule.cores for s in chosen],
            "nodes": [s.schedule.nodes for s in chosen],
            "executed_nodes": [s.executed_nodes for s in chosen],
        }.items():
            arrays[f"{kind}_{name}"] = np.array(rows, dtype=np.int32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())
