"""A machine description: topology, roles of the cores, and performance parameters.

Read from TOML (``presets/*.toml``). Every performance parameter is a table
``{ value, unit, source, confidence }``. topology.py reads ``[topology]`` and ``[roles]``,
parameters.py ``[parameters]``, mesh.py ``[mesh]``, and offload.py ``[offload]``. distances.py says
which parameters a topology needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import DescriptionError, ScheduleError
from pmoss_env.files import read_toml
from pmoss_env.machines.distances import Distances
from pmoss_env.machines.mesh import Mesh, read_mesh
from pmoss_env.machines.offload import read_offload
from pmoss_env.machines.parameters import Parameter, read_parameters
from pmoss_env.machines.topology import Topology, read_topology
from pmoss_env.types import BoolArray, Float64Array, Int32Array, Schedule, whole_numbers

#: GiB per memory channel of a machine that does not give its memory: one ordinary module.
CHANNEL_GIB = 16.0
AnyArray = TypeVar("AnyArray", bound=np.ndarray[Any, Any])
_KEYS = ("name", "description", "topology", "roles", "parameters", "offload", "mesh")


@dataclass(frozen=True, eq=False, kw_only=True)
class Machine(Topology):
    """A server: a topology with performance parameters.

    Environments and policies share it: its arrays are read-only.

    Attributes:
        cpu_of_core: (C,) the operating system's CPU number of each core.
        tile_of_core: (C,) int32, tile row * cols + col of each core; a tile may have no core.
        parameters: performance parameters by name; empty for a machine without a model.
        offload: parameters of its blades and copy engines (offload.py); empty without engines.
        mesh: of each last-level domain (mesh.py); None if all its cores are equally far apart.
    """

    name: str
    description: str
    cpu_of_core: Int32Array
    tile_of_core: Int32Array
    parameters: Mapping[str, Parameter]
    offload: Mapping[str, Parameter] = field(default_factory=dict)
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

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
        return _read_only(np.array([role == "worker" for role in self.role_of_core]))

    @cached_property
    def workers(self) -> Int32Array:
        """(W,) int32, the worker cores in order."""
        return _read_only(np.flatnonzero(self.worker_mask).astype(np.int32))

    @cached_property
    def workers_of_node(self) -> tuple[Int32Array, ...]:
        """N int32 arrays: the worker cores of each node in order; may be empty."""
        nodes = self.node_of_core[self.workers]
        return tuple(_read_only(self.workers[nodes == n]) for n in range(self.nodes))

    @cached_property
    def nodes_alike(self) -> tuple[npt.NDArray[np.int64], ...]:
        """The nodes in groups of equally many workers, the fewest first; int64 arrays."""
        counts = np.array([workers.size for workers in self.workers_of_node])
        return tuple(_read_only(np.flatnonzero(counts == count)) for count in np.unique(counts))

    @cached_property
    def worker_rows(self) -> Int32Array | None:
        """(N, W/N) int32: workers_of_node, if all nodes have equally many."""
        alike = len(self.nodes_alike) == 1
        return _read_only(np.stack(self.workers_of_node)) if alike else None

    @cached_property
    def domain_of_core(self) -> Int32Array:
        """(C,) int32: cores of one domain share a node and a last-level cache.

        Their distances to all memories are equal, except for their stops on a mesh.
        """
        places = np.stack([self.node_of_core, self.llc_of_core], axis=1)
        numbers = np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)
        return _read_only(numbers.astype(np.int32))

    @cached_property
    def mesh_ns(self) -> tuple[Float64Array, Float64Array]:
        """The added latencies of Mesh.added_ns(); only for a machine with a mesh."""
        assert self.mesh is not None
        of_core, of_pair = self.mesh.added_ns(self.llc_of_core, self.physical_of_core)
        return _read_only(of_core), _read_only(of_pair)

    @property
    def mesh_ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The farthest and the nearest two cores of a last-level domain; only with a mesh."""
        same = self.llc_of_core[:, None] == self.llc_of_core[None]
        same &= self.physical_of_core[:, None] != self.physical_of_core[None]
        readers, owners = np.nonzero(same)
        added = self.mesh_ns[1][readers, owners]
        farthest, nearest = (
            (int(readers[i]), int(owners[i])) for i in (added.argmax(), added.argmin())
        )
        return farthest, nearest

    @cached_property
    def core_of_tile(self) -> Int32Array:
        """(r * c,) int32, the core on each tile, -1 where there is none."""
        cores = np.full(self.tiles, -1, dtype=np.int32)
        cores[self.tile_of_core] = np.arange(self.cores, dtype=np.int32)
        return _read_only(cores)

    @cached_property
    def worker_tiles(self) -> BoolArray:
        """(r * c,) bool: the tiles of worker cores, before any constraint."""
        mask = np.zeros(self.tiles, dtype=np.bool_)
        mask[self.tile_of_core[self.workers]] = True
        return _read_only(mask)

    @cached_property
    def offcore_names(self) -> tuple[str, ...]:
        """Off-core values in GB/s: bandwidth per node, reads and writes, and per directed link."""
        pairs = [(a, b) for a in range(self.sockets) for b in range(self.sockets) if a != b]
        return (
            *(f"node{n}_read_gb_per_s" for n in range(self.nodes)),
            *(f"node{n}_write_gb_per_s" for n in range(self.nodes)),
            *(f"link{a}to{b}_gb_per_s" for a, b in pairs),
        )

    @cached_property
    def node_memory_gib(self) -> Float64Array:
        """(N,) GiB of memory of each node; infinite if unknown.

        The parameter of this name, or CHANNEL_GIB per memory channel of the topology.
        """
        if "node_memory_gib" in self.parameters:
            return _read_only(self.distances.per_node("node_memory_gib"))
        channels = self.memory_channels_per_node
        return _read_only(np.full(self.nodes, channels * CHANNEL_GIB if channels else np.inf))

    def roles(self) -> dict[str, int]:
        """Number of cores of each role."""
        return {role: self.role_of_core.count(role) for role in sorted(set(self.role_of_core))}

    def local_schedule(self, cores: Any) -> Schedule:
        """The schedule with slices on ``cores`` and their data on the cores' nodes.

        This is the paper's default affinity (P-MOSS, section 6.1).
        """
        values = whole_numbers("cores", cores)
        if values.size and not self._has(values, self.cores):
            wrong = values[(values < 0) | (values >= self.cores)][0]
            raise ScheduleError(f"core {wrong} does not exist: {self.name} has {self.cores} cores")
        return Schedule(values, self.node_of_core[values])

    def check_schedule(self, schedule: Schedule, slices: int) -> None:
        """Raises ScheduleError unless this machine can run ``schedule`` over ``slices`` slices.

        The cores are checked only if queries are routed to them.
        """
        if schedule.slices != slices:
            raise ScheduleError(
                f"the schedule places {schedule.slices} slices: must place exactly {slices}"
            )
        if (
            schedule.routing == "core"
            and self._has(schedule.cores, self.cores)
            and self._has(schedule.nodes, self.nodes)
            and self.worker_mask[schedule.cores].all()
        ):
            return
        if schedule.routing == "core":
            outside = (schedule.cores < 0) | (schedule.cores >= self.cores)
            illegal = outside | ~self.worker_mask[np.where(outside, 0, schedule.cores)]
            if illegal.any():
                s = int(np.flatnonzero(illegal)[0])
                raise ScheduleError(
                    f"slice {s} is on core {schedule.cores[s]}, which is not a worker of "
                    f"{self.name}; workers are {ranges(self.workers)}"
                )
        missing = (schedule.nodes < 0) | (schedule.nodes >= self.nodes)
        if missing.any():
            s = int(np.flatnonzero(missing)[0])
            raise ScheduleError(
                f"slice {s} has its data on node {schedule.nodes[s]}, which does not exist; "
                f"{self.name} has nodes 0 to {self.nodes - 1}"
            )
        if schedule.routing == "node":
            idle = ~np.isin(schedule.nodes, self.node_of_core[self.workers])
            if idle.any():
                s = int(np.flatnonzero(idle)[0])
                raise ScheduleError(
                    f"slice {s} is routed to the workers of node {schedule.nodes[s]}, which has "
                    "none"
                )

    @staticmethod
    def _has(numbers: Int32Array, count: int) -> bool:
        """Whether all are 0 to count - 1: negative ones become large."""
        return numbers.size > 0 and bool(numbers.view(np.uint32).max() < count)

    def parameter(self, name: str) -> float:
        """The value of a parameter that is one number; DescriptionError if it is missing."""
        if name not in self.parameters:
            raise DescriptionError(
                f"machine {self.name!r} has no parameter {name!r}: it can be measured, not modelled"
            )
        value = self.parameters[name].value
        if not isinstance(value, float):
            raise DescriptionError(f"machine {self.name!r}: parameter {name!r} is not one number")
        return value

    @cached_property
    def distances(self) -> Distances:
        """Latencies, bandwidths and routes as matrices; DescriptionError without parameters."""
        if not self.parameters:
            raise DescriptionError(
                f"machine {self.name!r} has no parameters: it can be measured, not modelled"
            )
        return Distances(self, self.parameters)

    def _check_mesh(self) -> None:
        """Raises DescriptionError for a mesh that makes a latency zero or negative."""
        if self.parameter("llc_at_home_cluster"):
            raise DescriptionError(
                "[mesh]: cannot be given where parameters.llc_at_home_cluster is 1: the home of a "
                "line is then in one cluster"
            )
        to_line, from_core = self.mesh_ns
        latencies = (("llc_ns", to_line), ("modified_same_llc_ns", from_core))
        for name, added in latencies:
            if name in self.parameters and self.parameter(name) + added.min() <= 0:
                raise DescriptionError(
                    f"mesh.hop_ns: brings parameters.{name} = {self.parameter(name):g} down to "
                    f"{self.parameter(name) + added.min():g} ns for some cores: must stay above 0"
                )

    @classmethod
    def from_toml(cls, path: Path) -> Machine:
        """Reads a machine file; raises DescriptionError naming file, key and reason."""
        return read_toml(path, cls.from_dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Machine:
        """Builds a machine from the contents of a machine file, ``tomllib.load()``."""
        for key in data:
            if key not in _KEYS:
                raise DescriptionError(
                    f"{key}: unknown; a machine has name, description, [topology], [roles], "
                    "[parameters] and, with copy engines, [offload], on a mesh [mesh]"
                )
        name, description = _text(data, "name"), _text(data, "description")
        if name == "host":
            raise DescriptionError('name = "host": means the host that reads it: choose another')
        topology = read_topology(_table(data, "topology"), _table(data, "roles"))
        parameters = _table(data, "parameters")
        if not parameters:
            raise DescriptionError("[parameters]: is empty")
        core = np.arange(topology.node_of_core.size, dtype=np.int32)
        machine = cls(
            name=name,
            description=description,
            cpu_of_core=core,
            tile_of_core=core,
            parameters=read_parameters(parameters),
            offload=read_offload(_table(data, "offload")) if "offload" in data else {},
            mesh=read_mesh(_table(data, "mesh")) if "mesh" in data else None,
            **vars(topology),
        )
        # Both properties check the parameters.
        _ = machine.distances, machine.node_memory_gib
        if machine.mesh is not None:
            machine._check_mesh()
        return machine


def _read_only(array: AnyArray) -> AnyArray:
    # NumPy's permutation() of an empty array shuffles it in place, and would refuse.
    array.setflags(write=array.size == 0)
    return array


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


def ranges(numbers: npt.ArrayLike) -> str:
    """Ascending numbers in the kernel's form, such as ``0-3,8``."""
    values = np.asarray(numbers)
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1)
    return ",".join(
        f"{run[0]}" if run.size == 1 else f"{run[0]}-{run[-1]}" for run in runs if run.size
    )
