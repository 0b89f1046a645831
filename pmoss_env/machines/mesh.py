"""The ``[mesh]`` table of a machine file: distances between the cores of a last-level domain.

Cores and the parts of the last level sit on the stops of a grid. A transfer takes ``hop_ns`` from
stop to stop, along rows and columns. A hash of its address gives a line its home; all stops are the
home of equally many lines.

- A line of the last level comes from its home: there and back.
- A line that another core of the domain modified takes a path from the reader to the line's home,
  to the owner, and back to the reader.
- A line of memory is requested at its home. The path from there to memory is the same for all.

Without the table all cores are equally far apart. With it, the means over the cores, or over the
pairs of cores, stay ``llc_ns``, ``dram_local_ns`` and ``modified_same_llc_ns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_env.checks import check_keys, is_whole
from pmoss_env.errors import DescriptionError
from pmoss_env.machines.parameters import Kind, Parameter, read_parameters
from pmoss_env.types import Float64Array, Int32Array

_KEYS = ("grid", "cores_per_stop")
#: Of a grid's sides, and of the cores of a stop.
_MOST = 1024
_HOP: Mapping[str, Kind] = {"hop_ns": Kind("ns", minimum=0.0)}


@dataclass(frozen=True)
class Mesh:
    """The mesh of each last-level domain.

    Attributes:
        cores_per_stop: number of physical cores that share a stop. In their order, the cores of a
            domain fill the first row, then the next one.
        hop_ns: time from a stop to the next one, one way.
    """

    rows: int
    cols: int
    cores_per_stop: int
    hop_ns: Parameter

    def added_ns(
        self, llc_of_core: Int32Array, physical_of_core: Int32Array
    ) -> tuple[Float64Array, Float64Array]:
        """Latencies added by the mesh; negative for a core that is nearer than the mean.

        Args:
            llc_of_core: (C,) last-level domain of each core.
            physical_of_core: (C,) physical core of each core.

        Returns:
            (C,) for the last level and memory, and (C, C) for a line that another core modified,
            from the reader to the owner; 0 between two domains.
        """
        stops = self._stops(llc_of_core, physical_of_core)
        places = np.stack(np.divmod(np.arange(self.rows * self.cols), self.cols), axis=1)
        apart = np.abs(places[:, None] - places[None]).sum(axis=2)
        to_home = apart.mean(axis=1)[stops]
        ways = to_home[:, None] + to_home[None] + apart[stops[:, None], stops[None]]
        same = llc_of_core[:, None] == llc_of_core[None]
        others = same & (physical_of_core[:, None] != physical_of_core[None])
        hop = self.hop_ns.value
        assert isinstance(hop, float)
        to_line = 2.0 * hop * (to_home - to_home.mean())
        if not others.any():
            return to_line, np.zeros(same.shape)
        return to_line, np.where(same, hop * (ways - ways[others].mean()), 0.0)

    def _stops(self, llc_of_core: Int32Array, physical_of_core: Int32Array) -> Int32Array:
        """(C,) the stop of each core."""
        stops = np.zeros(llc_of_core.size, dtype=np.int32)
        for domain in range(int(llc_of_core.max()) + 1):
            members = np.flatnonzero(llc_of_core == domain)
            _, number = np.unique(physical_of_core[members], return_inverse=True)
            stops[members] = number // self.cores_per_stop
        needed = int(stops.max()) + 1
        if needed > self.rows * self.cols:
            raise DescriptionError(
                f"mesh.grid = [{self.rows}, {self.cols}]: has {self.rows * self.cols} stops: must "
                f"have at least {needed}, with {self.cores_per_stop} cores on each"
            )
        return stops


def read_mesh(entries: Mapping[str, Any]) -> Mesh:
    """Reads a ``[mesh]`` table: ``grid``, ``cores_per_stop`` and ``hop_ns``.

    Raises:
        DescriptionError: names the key, the value and the valid values.
    """
    keys = (*_KEYS, *_HOP)
    check_keys("mesh.", entries, keys, keys)
    grid, cores = entries["grid"], entries["cores_per_stop"]
    if (
        not isinstance(grid, list)
        or len(grid) != 2
        or not all(is_whole(size, 1, _MOST) for size in grid)
    ):
        raise DescriptionError(f"mesh.grid = {grid!r}: must be [rows, columns] of stops")
    if not is_whole(cores, 1, _MOST):
        raise DescriptionError(f"mesh.cores_per_stop = {cores!r}: must be a whole number above 0")
    hop = read_parameters({"hop_ns": entries["hop_ns"]}, "mesh", _HOP)["hop_ns"]
    return Mesh(rows=grid[0], cols=grid[1], cores_per_stop=cores, hop_ns=hop)
