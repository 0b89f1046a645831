"""The original's schedules (``c_<id>_<slices>[_r].txt``): nodes above, CPUs below."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmoss_datasets.original.machine_file import MachineFile
from pmoss_datasets.original.numbers import read_table, whole
from pmoss_env.errors import DatasetError
from pmoss_env.types import Int32Array, Schedule

_NAME = re.compile(r"c_(-?\d{1,9})(?:_(\d{1,9}))?(?:_r)?")
#: Slices of a file whose name does not say.
_SLICES = 100


@dataclass(frozen=True)
class OriginalSchedule:
    """A schedule file.

    Attributes:
        id: number in the file's name.
        schedule: CPUs as cores, and the node of each CPU: what the schedule was meant to be.
        executed_nodes: (slices,) int32, the nodes as written and so as executed. Equal to those of
            the schedule in training files; at chance level in learned ones, whose writer took the
            node of another worker.
    """

    id: int
    schedule: Schedule
    executed_nodes: Int32Array

    @property
    def agreement(self) -> float:
        """Share of slices whose node as written is that of their CPU."""
        return float((self.schedule.nodes == self.executed_nodes).mean())


def read_schedule(path: str | Path, machine: MachineFile) -> OriginalSchedule:
    """Reads a schedule file of a machine.

    Raises:
        DatasetError: it is not two tables of as many slices as its name says. Or it names a CPU
            that is no worker, or a node that the machine lacks.
    """
    path = Path(path)
    if not (name := _NAME.fullmatch(path.stem)):
        raise DatasetError(f"{path}: its name must look like c_<id>_<slices>.txt")
    table = np.array(whole(path, list(read_table(path, (16, 10)))), dtype=np.int32)
    slices = int(name[2] or _SLICES)
    if table.size != 2 * slices:
        raise DatasetError(
            f"{path}: {len(table)} rows, {table.size} numbers: must be {slices} nodes and as many "
            "CPUs"
        )
    nodes, cpus = table.reshape(2, slices)
    if nodes.min() < 0 or nodes.max() >= machine.nodes:
        raise DatasetError(f"{path}: node {nodes.max()}: {machine.name} has {machine.nodes}")
    return OriginalSchedule(
        id=int(name[1]),
        schedule=Schedule(cpus, machine.node_of_cpu(cpus, path)),
        executed_nodes=nodes,
    )
