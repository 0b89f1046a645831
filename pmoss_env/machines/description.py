"""A machine description: topology, roles of the cores, and performance parameters.

Read from TOML (``presets/*.toml``). Every performance parameter is a table
``{ value, unit, source, confidence }``, so that nobody has to guess where a number comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_env.errors import DescriptionError, ScheduleError
from pmoss_env.files import read_toml
from pmoss_env.types import BoolArray, Int32Array, Schedule, whole_numbers

CONFIDENCES = ("high", "medium", "low")
#: Parameters of the analytic model and their units; a machine that lacks one cannot be modelled.
MODEL_PARAMETERS: Mapping[str, str] = {
    "clock_ghz": "GHz",
    "instructions_per_cycle": "instructions/cycle",
    "branch_miss_cycles": "cycles",
    "mlp_dependent": "misses",
    "mlp_streaming": "misses",
    "l2_kib": "KiB",
    "llc_kib": "KiB",
    "llc_ns": "ns",
    "llc_victim_share": "share",
    "llc_at_home_cluster": "flag",
    "dram_local_ns": "ns",
    "dram_same_socket_ns": "ns",
    "dram_other_socket_ns": "ns",
    "dram_gb_per_s": "GB/s",
    "link_gb_per_s": "GB/s",
    "curve_a": "1",
    "curve_b": "1",
    "curve_c": "1",
    "tlb_pages": "pages",
    "page_walk_ns": "ns",
    "page_bytes": "B",
}


@dataclass(frozen=True)
class Parameter:
    """One measured or published value of a machine.

    Attributes:
        value: the number.
        unit: its unit.
        source: where it comes from.
        confidence: "high", "medium" or "low".
    """

    value: float
    unit: str
    source: str
    confidence: str


@dataclass(frozen=True, eq=False)
class Machine:
    """A server: C cores on N nodes, drawn as a grid of r x c core tiles.

    Attributes:
        name: catalogue name.
        description: one line for people.
        rows: rows of core tiles, r.
        cols: columns of core tiles, c.
        cpu_of_core: (C,) the operating system's CPU number of each core.
        node_of_core: (C,) int32.
        llc_of_core: (C,) int32, last-level cache domain.
        tile_of_core: (C,) int32, cell row * cols + col of each core; cells without a core exist.
        role_of_core: (C,) "worker", "router", "sweeper" or "other".
        socket_of_node: (N,) int32.
        parameters: performance parameters by name; empty for a machine that is only measured.
        memory_channels_per_node: count, 0 if unknown.
    """

    name: str
    description: str
    rows: int
    cols: int
    cpu_of_core: Int32Array
    node_of_core: Int32Array
    llc_of_core: Int32Array
    tile_of_core: Int32Array
    role_of_core: tuple[str, ...]
    socket_of_node: Int32Array
    parameters: Mapping[str, Parameter]
    memory_channels_per_node: int = 0

    @property
    def cores(self) -> int:
        """Number of cores, C."""
        return int(self.node_of_core.size)

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes, N."""
        return int(self.socket_of_node.size)

    @property
    def sockets(self) -> int:
        """Number of sockets."""
        return int(self.socket_of_node.max()) + 1

    @property
    def tiles(self) -> int:
        """Number of tiles, r * c: the size of the action space."""
        return self.rows * self.cols

    @cached_property
    def worker_mask(self) -> BoolArray:
        """(C,) bool: the cores that execute queries."""
        return np.array([role == "worker" for role in self.role_of_core])

    @cached_property
    def workers(self) -> Int32Array:
        """(W,) int32, the worker cores in order."""
        return np.flatnonzero(self.worker_mask).astype(np.int32)

    @cached_property
    def core_of_tile(self) -> Int32Array:
        """(r * c,) int32, the core on each tile, -1 where there is none."""
        cores = np.full(self.tiles, -1, dtype=np.int32)
        cores[self.tile_of_core] = np.arange(self.cores, dtype=np.int32)
        return cores

    @cached_property
    def worker_tiles(self) -> BoolArray:
        """(r * c,) bool: the tiles of worker cores, before any constraint."""
        mask = np.zeros(self.tiles, dtype=np.bool_)
        mask[self.tile_of_core[self.workers]] = True
        return mask

    @cached_property
    def offcore_names(self) -> tuple[str, ...]:
        """Off-core values: read and write bandwidth per node, traffic per directed link, GB/s."""
        pairs = [(a, b) for a in range(self.sockets) for b in range(self.sockets) if a != b]
        return (
            *(f"node{n}_read_gb_per_s" for n in range(self.nodes)),
            *(f"node{n}_write_gb_per_s" for n in range(self.nodes)),
            *(f"link{a}to{b}_gb_per_s" for a, b in pairs),
        )

    def roles(self) -> dict[str, int]:
        """Number of cores in each role; printed with every result (mission hole G4)."""
        return {role: self.role_of_core.count(role) for role in sorted(set(self.role_of_core))}

    def local_schedule(self, cores: Any) -> Schedule:
        """The schedule that places slices on ``cores`` and their data on the cores' nodes.

        This is the paper's default affinity (P-MOSS §6.1, mission row A15).
        """
        values = whole_numbers("cores", cores)
        if values.size and (values.min() < 0 or values.max() >= self.cores):
            wrong = values[(values < 0) | (values >= self.cores)][0]
            raise ScheduleError(f"core {wrong} does not exist: {self.name} has {self.cores} cores")
        return Schedule(values, self.node_of_core[values])

    def check_schedule(self, schedule: Schedule, slices: int) -> None:
        """Raises ScheduleError unless this machine can run ``schedule`` over ``slices`` slices.

        Its cores are only looked at where queries are routed by them.
        """
        if schedule.slices != slices:
            raise ScheduleError(
                f"the schedule places {schedule.slices} slices: must place exactly {slices}"
            )
        outside = (schedule.cores < 0) | (schedule.cores >= self.cores)
        illegal = outside | ~self.worker_mask[np.where(outside, 0, schedule.cores)]
        if schedule.routing == "core" and illegal.any():
            s = int(np.flatnonzero(illegal)[0])
            raise ScheduleError(
                f"slice {s} is on core {schedule.cores[s]}, which is not a worker of {self.name}; "
                f"workers are {_ranges(self.workers)}"
            )
        missing = (schedule.nodes < 0) | (schedule.nodes >= self.nodes)
        if missing.any():
            s = int(np.flatnonzero(missing)[0])
            raise ScheduleError(
                f"slice {s} has its data on node {schedule.nodes[s]}, which does not exist; "
                f"{self.name} has nodes 0 to {self.nodes - 1}"
            )
        idle = ~np.isin(schedule.nodes, self.node_of_core[self.workers])
        if schedule.routing == "node" and idle.any():
            s = int(np.flatnonzero(idle)[0])
            raise ScheduleError(
                f"slice {s} is routed to the workers of node {schedule.nodes[s]}, which has none"
            )

    def parameter(self, name: str) -> float:
        """The value of a performance parameter; raises DescriptionError if it is missing."""
        if name not in self.parameters:
            raise DescriptionError(
                f"machine {self.name!r} has no parameter {name!r}: it can be measured, not modelled"
            )
        return self.parameters[name].value

    @classmethod
    def from_toml(cls, path: Path) -> Machine:
        """Reads a machine file; raises DescriptionError naming file, key and reason."""
        return read_toml(path, cls.from_dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Machine:
        """Builds a machine from the contents of a machine file.

        ``[topology]`` gives sockets, nodes_per_socket, cores_per_node, cores_per_llc, grid;
        ``[roles]`` gives, by role, the core numbers inside each node; cores are numbered node by
        node.
        """
        topology = _table(data, "topology")
        roles = _table(data, "roles")
        sockets = _count(topology, "topology.sockets")
        nodes_per_socket = _count(topology, "topology.nodes_per_socket")
        cores_per_node = _count(topology, "topology.cores_per_node")
        cores_per_llc = _count(topology, "topology.cores_per_llc")
        nodes = sockets * nodes_per_socket
        cores = nodes * cores_per_node
        grid = topology.get("grid")
        if not (isinstance(grid, list) and len(grid) == 2 and all(_is_count(v) for v in grid)):
            raise DescriptionError(f"topology.grid = {grid!r}: must be [rows, columns]")
        rows, cols = grid
        if rows * cols < cores:
            raise DescriptionError(f"topology.grid = {grid}: has fewer tiles than {cores} cores")
        if cores % cores_per_llc:
            raise DescriptionError(
                f"topology.cores_per_llc = {cores_per_llc}: must divide the {cores} cores"
            )
        role_of_local = ["other"] * cores_per_node
        for role, locals_ in roles.items():
            if role not in ("worker", "router", "sweeper"):
                raise DescriptionError(f"roles.{role}: must be worker, router or sweeper")
            for local in locals_:
                if not isinstance(local, int) or not 0 <= local < cores_per_node:
                    raise DescriptionError(
                        f"roles.{role}: core {local!r} is not in 0 to {cores_per_node - 1}"
                    )
                if role_of_local[local] != "other":
                    raise DescriptionError(f"roles.{role}: core {local} has two roles")
                role_of_local[local] = role
        if "worker" not in role_of_local:
            raise DescriptionError("roles.worker: must name at least one core of each node")
        core = np.arange(cores, dtype=np.int32)
        return cls(
            name=_text(data, "name"),
            description=_text(data, "description"),
            rows=rows,
            cols=cols,
            cpu_of_core=core,
            node_of_core=core // np.int32(cores_per_node),
            llc_of_core=core // np.int32(cores_per_llc),
            tile_of_core=core,
            role_of_core=tuple(role_of_local) * nodes,
            socket_of_node=np.arange(nodes, dtype=np.int32) // np.int32(nodes_per_socket),
            parameters=_parameters(data),
            memory_channels_per_node=int(topology.get("memory_channels_per_node", 0)),
        )


def _parameters(data: Mapping[str, Any]) -> dict[str, Parameter]:
    result = {}
    for name, entry in _table(data, "parameters").items():
        key = f"parameters.{name}"
        if name not in MODEL_PARAMETERS:
            raise DescriptionError(f"{key}: unknown; known are {', '.join(MODEL_PARAMETERS)}")
        if not isinstance(entry, dict) or set(entry) != {"value", "unit", "source", "confidence"}:
            raise DescriptionError(f"{key}: must have exactly value, unit, source and confidence")
        if isinstance(entry["value"], str) or not np.isfinite(entry["value"]):
            raise DescriptionError(f"{key}.value = {entry['value']!r}: must be a finite number")
        if entry["unit"] != MODEL_PARAMETERS[name]:
            raise DescriptionError(
                f"{key}.unit = {entry['unit']!r}: must be {MODEL_PARAMETERS[name]!r}"
            )
        if entry["confidence"] not in CONFIDENCES:
            raise DescriptionError(
                f"{key}.confidence = {entry['confidence']!r}: must be one of {CONFIDENCES}"
            )
        minimum = 0.0 if name.startswith(("curve", "llc_", "branch", "page_walk")) else 1e-9
        if entry["value"] < minimum:
            raise DescriptionError(f"{key}.value = {entry['value']}: must be positive")
        result[name] = Parameter(
            float(entry["value"]), entry["unit"], entry["source"], entry["confidence"]
        )
    missing = [name for name in MODEL_PARAMETERS if name not in result]
    if missing:
        raise DescriptionError(f"parameters.{missing[0]}: is missing")
    return result


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise DescriptionError(f"[{key}]: is missing")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise DescriptionError(f"{key} = {value!r}: must be a text")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _count(table: Mapping[str, Any], key: str) -> int:
    value = table.get(key.rpartition(".")[2])
    if not _is_count(value):
        raise DescriptionError(f"{key} = {value!r}: must be a whole number above 0")
    assert isinstance(value, int)
    return value


def _ranges(values: Int32Array) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    breaks = np.flatnonzero(np.diff(values) != 1) + 1
    runs = np.split(values, breaks)
    return ", ".join(f"{r[0]}" if r.size == 1 else f"{r[0]}-{r[-1]}" for r in runs)
