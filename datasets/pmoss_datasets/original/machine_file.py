"""The original's machine files (``hw.cfg``): five lines of whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmoss_datasets.original.numbers import read_rows, whole
from pmoss_env.errors import DatasetError
from pmoss_env.types import Int32Array

#: Nodes, channels, sockets or links of a server.
_MOST = 1024


@dataclass(frozen=True)
class MachineFile:
    """The contents of a machine file.

    Attributes:
        sweepers: (nodes,) int32, the CPU of each node's sweeper, which names its folder.
        workers: (W,) int32, CPU of each worker, grouped by node.
    """

    name: str
    nodes: int
    sockets: int
    sweepers: Int32Array
    workers: Int32Array

    def node_of_cpu(self, cpus: Int32Array, where: Path | str) -> Int32Array:
        """The node of each CPU; DatasetError for one that is no worker."""
        position = {int(cpu): i for i, cpu in enumerate(self.workers)}
        foreign = [int(cpu) for cpu in cpus if int(cpu) not in position]
        if foreign:
            raise DatasetError(f"{where}: CPU {foreign[0]}: is no worker of {self.name}")
        # Workers are listed node by node, as many on each.
        node = np.repeat(np.arange(self.nodes, dtype=np.int32), self.workers.size // self.nodes)
        return node[[position[int(cpu)] for cpu in cpus]]


def read_machine_file(path: str | Path, name: str | None = None) -> MachineFile:
    """Reads a machine file.

    Args:
        name: of the machine; None: that of the file.

    Raises:
        DatasetError: it is not five lines that fit each other; names the line.
    """
    path = Path(path)
    rows = whole(path, read_rows(path))
    if len(rows) != 5:
        raise DatasetError(f"{path}: {len(rows)} lines: must be 5")
    if len(rows[0]) != 5 or len(rows[1]) != 1:
        raise DatasetError(f"{path}: lines 1 and 2: must hold 5 numbers and 1")
    nodes, _, channels, sockets, links = rows[0]
    for what, count in (("nodes", nodes), ("channels", channels), ("sockets", sockets)):
        if not 1 <= count <= _MOST:
            raise DatasetError(f"{path}: line 1: {count} {what}: must be 1 to {_MOST}")
    if not 0 <= links <= _MOST:
        raise DatasetError(f"{path}: line 1: {links} links: must be 0 to {_MOST}")
    workers, cells = rows[3], rows[4]  # CPUs, and their places on the grid
    for line, count, wanted in (
        (2, rows[1][0], len(workers)),
        (3, len(rows[2]), nodes),
        (5, len(cells), len(workers)),
    ):
        if count != wanted:
            raise DatasetError(f"{path}: line {line}: {count}: must be {wanted}")
    if not workers or len(workers) % nodes:
        raise DatasetError(f"{path}: line 4: {len(workers)} workers on {nodes} nodes: not alike")
    for line, values in ((3, rows[2]), (4, workers), (5, cells)):
        if len(set(values)) < len(values) or min(values) < 0:
            raise DatasetError(f"{path}: line {line}: must hold different numbers from 0 on")
    return MachineFile(
        name=name or path.stem,
        nodes=nodes,
        sockets=sockets,
        sweepers=np.array(rows[2], dtype=np.int32),
        workers=np.array(workers, dtype=np.int32),
    )
