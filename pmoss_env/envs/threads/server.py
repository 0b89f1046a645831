"""Servers with threads: the protocol and the simulated server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.envs.threads.programs import (
    ThreadProgram,
    kernel_scheduler,
    slow_memory,
    slow_nodes,
)
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array, Int32Array


@dataclass(frozen=True, eq=False)
class Sample:
    """The sample of an epoch. Rates are per second of the epoch.

    Attributes:
        seconds: length of the epoch; shorter if the program ended in it.
        threads: (T,) int32, the threads' ids, ascending.
        cpus: (T,) int32, the core of each thread.
        homes: (T,) int32, the place of each thread's data: an index of ``ThreadServer.nearest``.
        major_faults: (T,) float64.
        minor_faults: (T,) float64.
        core_load: (C,) float64, load of each core: threads or utilisation.
        inputs: (C, 12) float64, ``INPUTS`` of every core, unscaled; 0 where no thread ran.
        slow_read_gb_per_s: of the whole machine.
        slow_write_gb_per_s: of the whole machine.
        local_slow_accesses: lines per second of slow memory by cores of its own socket.
        remote_slow_accesses: the same by cores of other sockets.
        utilisation: share of the CPUs that were busy.
    """

    seconds: float
    threads: Int32Array
    cpus: Int32Array
    homes: Int32Array
    major_faults: Float64Array
    minor_faults: Float64Array
    core_load: Float64Array
    inputs: Float64Array
    slow_read_gb_per_s: float
    slow_write_gb_per_s: float
    local_slow_accesses: float
    remote_slow_accesses: float
    utilisation: float


@dataclass(frozen=True)
class Outcome:
    """The result of a program so far.

    Attributes:
        seconds: real time.
        user_seconds: processor time in user mode, all threads.
        kernel_seconds: processor time in the kernel.
        requests: number of answered requests; NaN if not counted.
        p99_ms: 99th percentile of the requests' latency; NaN if not measured.
    """

    seconds: float
    user_seconds: float
    kernel_seconds: float
    requests: float
    p99_ms: float


class ThreadServer(Protocol):
    """A machine on which a program's threads run and can be moved."""

    @property
    def machine(self) -> Machine:
        """The machine."""

    @property
    def nearest(self) -> Sequence[Int32Array]:
        """The cores near the data of each home."""

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""

    def advance(self, seconds: float) -> Sample:
        """Runs the program for an epoch and returns the sample."""

    def move(self, thread: int, core: int) -> bool:
        """Moves a thread to a core; False if it failed, e.g. because the thread has ended."""

    def outcome(self) -> Outcome:
        """The program's result so far."""

    def close(self) -> None:
        """Releases the program; safe to repeat."""


class SimulatedServer:
    """A program's threads on a machine model, in C++ (native/threads).

    Attributes:
        machine: that the threads run on.
        nearest: the cores near each node's memory.

    Args:
        machine: with nodes without cores, and the parameters of slow memory.
        data_nodes: nodes of the threads' data, cyclically; None: the first slow node.
        seed: of the kernel's placement and the counters' noise.
    """

    def __init__(
        self,
        machine: Machine,
        program: ThreadProgram,
        *,
        data_nodes: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        slow = slow_memory(machine)
        nodes = list(slow_nodes(machine)[:1] if data_nodes is None else data_nodes)
        if not nodes:
            raise DescriptionError("data_nodes = []: must name at least one node")
        for node in nodes:
            if not 0 <= node < machine.nodes:
                raise DescriptionError(
                    f"data_nodes = {nodes}: {machine.name} has nodes 0 to {machine.nodes - 1}"
                )
        self.machine = machine
        self._ids = np.arange(program.threads, dtype=np.int32)
        self._native = _native.ThreadServer(
            native_machine(machine),
            slow,
            program.native(machine),
            kernel_scheduler(machine),
            homes=[nodes[i % len(nodes)] for i in range(program.threads)],
            requests=float(program.requests),
            seed=seed,
        )
        self._homes = self._native.homes()
        self.nearest: Sequence[Int32Array] = nearest_cores(machine)
        self._seconds = 0.0

    @property
    def ended(self) -> bool:
        """Whether all requests are answered."""
        return self._native.ended

    def place(self, cores: Sequence[int]) -> None:
        """Puts every thread on a core and pins it there."""
        self._native.place(list(cores))

    def advance(self, seconds: float) -> Sample:
        """Runs the program for an epoch and returns the sample."""
        native = self._native
        passed = native.advance(seconds)
        self._seconds += passed
        cpus = native.cpus()
        scale = 1.0 / passed if passed > 0.0 else 0.0
        return Sample(
            seconds=passed,
            threads=self._ids,
            cpus=cpus,
            homes=self._homes,
            major_faults=native.major_faults() * scale,
            minor_faults=native.minor_faults() * scale,
            core_load=np.bincount(cpus, minlength=self.machine.cores).astype(np.float64),
            inputs=native.inputs(),
            slow_read_gb_per_s=native.slow_read_gb_per_s,
            slow_write_gb_per_s=native.slow_write_gb_per_s,
            local_slow_accesses=native.local_slow_accesses,
            remote_slow_accesses=native.remote_slow_accesses,
            utilisation=native.utilisation,
        )

    def move(self, thread: int, core: int) -> bool:
        """Pins a thread to a core."""
        self._native.move(thread, core)
        return True

    def outcome(self) -> Outcome:
        """The program's result so far."""
        native = self._native
        return Outcome(
            self._seconds,
            native.user_seconds,
            native.kernel_seconds,
            native.requests_done,
            native.latency_ns(0.99) * 1e-6,
        )

    def close(self) -> None:
        """Nothing to release."""


def nearest_cores(machine: Machine) -> list[Int32Array]:
    """For each node's memory, the cores of the nearest node with cores."""
    with_cores = np.unique(machine.node_of_core)
    result = []
    for node in range(machine.nodes):
        if node in with_cores:
            nearest = node
        elif machine.parameters:
            nearest = int(with_cores[np.argmin(machine.distances.dram_ns[with_cores, node])])
        else:
            same = with_cores[machine.socket_of_node[with_cores] == machine.socket_of_node[node]]
            nearest = int((same if same.size else with_cores)[0])
        result.append(np.flatnonzero(machine.node_of_core == nearest).astype(np.int32))
    return result
