"""Scans on a simulated machine whose blades have copy engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.envs.access_path.scans import PATHS, Scans, feature_matrix
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import Float64Array


@dataclass(frozen=True, eq=False)
class ScanTimes:
    """The run times of scans; every field is (n,) float64.

    Attributes:
        run_time_us: microseconds.
        link_traffic: GB/s of background lines over the links, read right before the scan.
        engine_traffic: GB/s of background copies by the engine, read right before the scan.
    """

    run_time_us: Float64Array
    link_traffic: Float64Array
    engine_traffic: Float64Array


class SimulatedScans:
    """Scans on a machine of blades.

    This is a discrete-event simulation (native/simulator/scan_paths.hpp). Lines cross memories,
    links and engines one at a time. Cores, engines and background workers keep bounded numbers of
    lines in flight. The parameters are those of the machine file.
    """

    def __init__(self, machine: str | Machine = "uv-300h") -> None:
        """Loads a machine.

        Args:
            machine: a catalogue name, a path to a machine file, or a machine.

        Raises:
            UnsupportedError: it has no copy engines.
            DescriptionError: an invalid parameter of them.
        """
        self.machine = load_machine(machine) if isinstance(machine, str) else machine
        if not self.machine.offload:
            raise UnsupportedError(
                f"machine {self.machine.name!r} has no copy engines: its file needs an [offload] "
                "table, as uv-300h has"
            )
        parameters = _native.OffloadParameters()
        for name, parameter in self.machine.offload.items():
            whole = name in ("sockets_per_blade", "hubs_per_blade")
            value: Any = parameter.value
            setattr(parameters, name, int(value) if whole else float(value))
        try:
            self._paths = _native.ScanPaths(native_machine(self.machine), parameters)
        except ValueError as error:
            raise DescriptionError(f"machine {self.machine.name!r}: {error}") from error
        nodes = self.machine.nodes
        self._latency = np.array(
            [[self._paths.latency_ns(a, b) for b in range(nodes)] for a in range(nodes)]
        )

    @property
    def nodes(self) -> int:
        """Number of memory nodes."""
        return self.machine.nodes

    @property
    def link_names(self) -> list[str]:
        """All directed links, in the order of the result of links()."""
        return self._paths.link_names

    def latency_ns(self, scans: Scans) -> Float64Array:
        """(n,) idle latency between the nodes of each scan."""
        return self._latency[scans.execution_node, scans.storage_node]

    def features(self, scans: Scans, times: ScanTimes) -> Float64Array:
        """(n, 5) FEATURES of scans with their traffic."""
        return feature_matrix(
            scans, self.latency_ns(scans), times.link_traffic, times.engine_traffic
        )

    def run(self, scans: Scans, paths: Any, seeds: Any, *, threads: int = 1) -> ScanTimes:
        """Runs each scan by itself; the same arguments give the same bits for any ``threads``.

        Args:
            paths: a number of PATHS, or (n,) of them.
            seeds: of the background, one or (n,). Scans with the same background and seed meet the
                same traffic on every path.

        Raises:
            DescriptionError: an invalid scan or path.
        """
        raw = self._run(scans, paths, seeds, threads, links=False)
        return ScanTimes(
            raw["run_time_us"], raw["link_traffic_gb_per_s"], raw["engine_traffic_gb_per_s"]
        )

    def read_traffic(self, scans: Scans, seeds: Any) -> ScanTimes:
        """The traffic right before scans, with run times of empty columns."""
        empty = Scans(
            **{**vars(scans), "rows": np.zeros(len(scans)), "results": np.zeros(len(scans))}
        )
        return self.run(empty, 0, seeds)

    def links(self, scans: Scans, paths: Any, seeds: Any = 0) -> Float64Array:
        """(n, links, 2) GB/s of payload and of overhead on each link during scans."""
        result: Float64Array = self._run(scans, paths, seeds, 1, links=True)["links"]
        return result

    def bandwidth_gb_per_s(self, execution_node: int, storage_node: int, workers: int) -> float:
        """GB/s that cores of one node read together from the memory of another."""
        return self._paths.bandwidth_gb_per_s(execution_node, storage_node, workers)

    def _run(
        self, scans: Scans, paths: Any, seeds: Any, threads: int, links: bool
    ) -> dict[str, Any]:
        n = len(scans)
        ways = np.ascontiguousarray(np.broadcast_to(np.asarray(paths), n), dtype=np.uint8)
        if n and ways.max() >= len(PATHS):
            raise DescriptionError(f"path {ways.max()}: must be 0 to {len(PATHS) - 1}")
        try:
            return self._paths.run(
                scans.execution_node,
                scans.storage_node,
                scans.rows,
                scans.results,
                cpu_workers=scans.cpu_workers,
                cpu_worker_gb_per_s=scans.cpu_worker_gb_per_s,
                engine_workers=scans.engine_workers,
                engine_worker_gb_per_s=scans.engine_worker_gb_per_s,
                path=ways,
                seed=np.ascontiguousarray(np.broadcast_to(np.asarray(seeds, np.uint64), n)),
                threads=threads,
                links=links,
            )
        except ValueError as error:
            raise DescriptionError(str(error)) from error
