"""Distances between cores, caches and memories: classes of distance as matrices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.parameters import Parameter
from pmoss_env.machines.topology import Topology
from pmoss_env.types import Float64Array, Int32Array

#: Parameters that every machine needs and that models use directly.
PLAIN = (
    "clock_ghz",
    "instructions_per_cycle",
    "branch_miss_cycles",
    "mlp_dependent",
    "mlp_streaming",
    "l2_ns",
    "llc_ns",
    "dtlb_pages",
    "tlb_pages",
    "tlb_ns",
    "page_walk_ns",
    "page_bytes",
    "dispatch_ns",
)
#: Parameters that every machine needs, whatever its topology.
_REQUIRED = (
    *PLAIN,
    *("l2_kib", "l2_ways", "llc_kib", "llc_ways", "llc_inclusive", "llc_at_home_cluster"),
    *("dram_gb_per_s", "dram_write_gb_per_s", "curve_a", "curve_b", "curve_c"),
)
_LINKS = (
    "link_gb_per_s",
    "link_curve_a",
    "link_curve_b",
    "link_curve_c",
    "modified_home_reader_ns",
)
LINE_BYTES = 64


class Distances:
    """The matrices of a topology with D last-level domains, N nodes and S sockets.

    Raises:
        DescriptionError: a parameter is missing, or does not fit the topology or another one.
    """

    def __init__(self, topology: Topology, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = parameters
        self._socket_of_node = topology.socket_of_node
        self.nodes = int(topology.socket_of_node.size)
        self.sockets = int(topology.socket_of_node.max()) + 1
        domain = topology.llc_of_core
        self._socket_of_domain = np.zeros(int(domain.max()) + 1, dtype=np.int32)
        self._socket_of_domain[domain] = topology.socket_of_node[topology.node_of_core]
        self._require(_REQUIRED)
        if self.sockets > 1:
            self._require(_LINKS)
        if np.unique(topology.physical_of_core).size < topology.node_of_core.size:
            self._require(("smt_share",))
        self._check_caches()
        # These properties check the parameters.
        matrices = (self.next_socket, self.dram_ns, self.modified_ns)
        for values in (self.link_gb_per_s, self.hops, *matrices):
            values.setflags(write=False)
        for name in ("dram_gb_per_s", "dram_write_gb_per_s"):
            self.per_node(name)

    def per_node(self, name: str) -> Float64Array:
        """(N,) values of a parameter that is one number or one per node."""
        values = np.asarray(self._parameters[name].value, dtype=np.float64)
        if values.ndim == 1 and values.size != self.nodes:
            raise DescriptionError(
                f"parameters.{name}.value: has {values.size} entries: must be one number, or one "
                f"for each of the {self.nodes} nodes"
            )
        return np.broadcast_to(values, (self.nodes,)).copy()

    @cached_property
    def link_gb_per_s(self) -> Float64Array:
        """(S, S) bandwidth from socket to socket; 0 without a link."""
        if self.sockets == 1:
            return np.zeros((1, 1))
        values = self._square("link_gb_per_s", self.sockets, "sockets")
        np.fill_diagonal(values, 0.0)
        return values

    @cached_property
    def hops(self) -> Int32Array:
        """(S, S) number of links on the shortest path from socket to socket."""
        steps = np.where(self.link_gb_per_s > 0, 1, self.sockets)
        np.fill_diagonal(steps, 0)
        for through in range(self.sockets):
            steps = np.minimum(steps, steps[:, through, None] + steps[None, through, :])
        far = np.argwhere(steps >= max(self.sockets, 2))
        if far.size:
            a, b = far[0]
            raise DescriptionError(
                f"parameters.link_gb_per_s.value: no links lead from socket {a} to socket {b}"
            )
        return steps.astype(np.int32)

    @cached_property
    def next_socket(self) -> Int32Array:
        """(S, S) next socket on a shortest path.

        Of several shortest paths it takes the one over the next higher socket, cyclically, which
        distributes the paths around a ring.
        """
        result = np.zeros((self.sockets, self.sockets), dtype=np.int32)
        for source in range(self.sockets):
            candidates = (source + np.arange(1, self.sockets)) % self.sockets
            for target in range(self.sockets):
                closer = [
                    n
                    for n in candidates
                    if self.link_gb_per_s[source, n] > 0
                    and self.hops[n, target] < self.hops[source, target]
                ]
                result[source, target] = closer[0] if closer else target
        return result

    @cached_property
    def dram_ns(self) -> Float64Array:
        """(N, N) idle latency from a core's node to a memory's node."""
        if "dram_ns" in self._parameters:
            self._refuse_classes("dram_ns", "dram_")
            return self._square("dram_ns", self.nodes, "nodes")
        values = self._by_class("dram", "dram_same_socket_ns", self._socket_of_node)
        self._require(("dram_local_ns",))
        np.fill_diagonal(values, self._number("dram_local_ns"))
        return values

    @cached_property
    def modified_ns(self) -> Float64Array:
        """(D, D) idle latency of a modified line, from the reader's domain to the owner's."""
        if "modified_ns" in self._parameters:
            self._refuse_classes("modified_ns", "modified_")
            return self._square("modified_ns", self._socket_of_domain.size, "last-level domains")
        values = self._by_class("modified", "modified_same_socket_ns", self._socket_of_domain)
        self._require(("modified_same_llc_ns",))
        np.fill_diagonal(values, self._number("modified_same_llc_ns"))
        return values

    def _by_class(self, kind: str, same_socket: str, socket: Int32Array) -> Float64Array:
        hops = self.hops[socket[:, None], socket[None, :]]
        values = np.zeros(hops.shape)
        off_diagonal = ~np.eye(socket.size, dtype=np.bool_)
        classes = (same_socket, f"{kind}_other_socket_ns", f"{kind}_two_hops_ns")
        for distance, name in enumerate(classes):
            pairs = (hops == distance) & off_diagonal
            if pairs.any():
                self._require((name,))
                values[pairs] = self._number(name)
        if hops.max() > 2:
            raise DescriptionError(
                f"parameters.{kind}_ns: is missing: sockets are {hops.max()} hops apart, so the "
                "latencies must be given as a matrix"
            )
        return values

    def _square(self, name: str, size: int, unit: str) -> Float64Array:
        value = self._parameters[name].value
        if isinstance(value, float):
            rows: list[tuple[float, ...]] = [(value,) * size] * size
        else:
            rows = [row for row in value if isinstance(row, tuple)]
        lengths = {len(row) for row in rows}
        if len(rows) != size or lengths != {size}:
            shape = f"{len(rows)} x {min(lengths)}" if len(lengths) == 1 else "ragged"
            raise DescriptionError(
                f"parameters.{name}.value: is {shape}: must be {size} x {size}, for {size} {unit}"
            )
        return np.array(rows, dtype=np.float64)

    def _refuse_classes(self, matrix: str, prefix: str) -> None:
        for name in self._parameters:
            if name.startswith(prefix) and name.endswith(
                ("local_ns", "same_llc_ns", "socket_ns", "hops_ns")
            ):
                raise DescriptionError(
                    f"parameters.{name}: cannot be given beside parameters.{matrix}"
                )

    def _check_caches(self) -> None:
        for cache in ("l2", "llc"):
            kib, ways = self._number(f"{cache}_kib"), self._number(f"{cache}_ways")
            sets = kib * 1024 / LINE_BYTES / ways
            if sets != int(sets):
                raise DescriptionError(
                    f"parameters.{cache}_ways.value = {ways:g}: must divide the "
                    f"{kib * 1024 / LINE_BYTES:g} lines of {cache}_kib = {kib:g}"
                )
            # A last-level cache picks a slice by a hash. A private cache uses address bits alone.
            if cache == "l2" and int(sets) & (int(sets) - 1):
                raise DescriptionError(
                    f"parameters.l2_kib.value = {kib:g}: with {ways:g} ways has {sets:g} sets: "
                    "must be a power of two"
                )
        page = int(self._number("page_bytes"))
        if page & (page - 1):
            raise DescriptionError(f"parameters.page_bytes.value = {page}: must be a power of two")

    def _number(self, name: str) -> float:
        value = self._parameters[name].value
        assert isinstance(value, float)
        return value

    def _require(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self._parameters:
                raise DescriptionError(f"parameters.{name}: is missing")
