"""Nodes and sockets on a machine's grid of tiles, for pictures."""

from __future__ import annotations

import numpy as np

from pmoss_env.machines.description import Machine
from pmoss_env.types import Int32Array

#: From (column, row) to (column, row).
Line = tuple[tuple[float, float], tuple[float, float]]


def tile_groups(machine: Machine) -> tuple[Int32Array, Int32Array]:
    """(r, c) int32 node and (r, c) int32 socket of each tile; -1 for a tile without a core."""
    core = machine.core_of_tile
    node = np.where(core >= 0, machine.node_of_core[core], -1)
    socket = np.where(core >= 0, machine.socket_of_node[node], -1)
    shape = (machine.rows, machine.cols)
    return node.reshape(shape).astype(np.int32), socket.reshape(shape).astype(np.int32)


def borders(group: Int32Array) -> list[Line]:
    """Lines between neighbouring tiles of different groups, and around the outside.

    Args:
        group: (r, c) of tile_groups(); the tile in column x and row y is a unit square around
            (x, y).
    """
    padded = np.pad(group, 1, constant_values=-1)
    lines: list[Line] = []
    for row, col in np.argwhere(padded[:, 1:] != padded[:, :-1]).tolist():
        lines.append(((col - 0.5, row - 1.5), (col - 0.5, row - 0.5)))
    for row, col in np.argwhere(padded[1:, :] != padded[:-1, :]).tolist():
        lines.append(((col - 1.5, row - 0.5), (col - 0.5, row - 0.5)))
    return lines
