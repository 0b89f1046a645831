"""The scheduled programs: a persistent key-value store under seven loads.

Four patterns are the paper's (Smart Scheduler, table 4): one operation, with keys in order or at
random. Three mix reads and writes (section 10). All have 16-byte keys, 20,000 values of 400 kB, and
48 threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from pmoss_env import _native
from pmoss_env.checks import check_name
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine

_HUGE_PAGE = 2 * 1024 * 1024
_PAGE = 4096
_LINE = 64
#: Parameters of slow memory, without their prefix "slow_".
_SLOW_PARAMETERS = (
    *("read_ns", "write_ns", "granule_bytes", "remote_read_ratio", "remote_write_ratio"),
    *("remote_read_share", "remote_write_share", "remote_writers", "remote_writer_cost"),
    "remote_mixed_cost",
)


@dataclass(frozen=True)
class ThreadProgram:
    """The requests of every thread of a program.

    Attributes:
        write_share: share of writing requests.
        sequential: whether keys come in order, so that the index stays in the caches.
        value_bytes: bytes that a request reads or writes.
        requests: total number of requests. By default the 50/50 mix with all threads beside their
            data takes the paper's 9 minutes.
        user_cycles: processor cycles per request without memory waits: 400 kB copied at 16 bytes
            per cycle, and the store's own code. An estimate.
        index_lines: random lines of the store's index that a request reads. An estimate.
    """

    name: str
    write_share: float
    sequential: bool = False
    threads: int = 48
    value_bytes: int = 400_000
    keys: int = 20_000
    requests: int = 18_400_000
    user_cycles: float = 35_000.0
    index_lines: float = 8.0

    def native(self, machine: Machine) -> _native.ThreadProgram:
        """The C++ form.

        A read value goes to a new buffer, larger than those that the allocator keeps, so that each
        of its pages faults. The store itself is mapped once, by huge pages.
        """
        native = _native.ThreadProgram()
        native.write_share = self.write_share
        native.value_bytes = float(self.value_bytes)
        native.read_cycles = native.write_cycles = self.user_cycles
        native.read_faults = (
            float(-(-self.value_bytes // _PAGE)) if self.value_bytes >= 131072 else 0.0
        )
        native.write_faults = 0.0
        native.fault_ns = machine.parameter("page_fault_ns")
        native.index_lines = 0.25 * self.index_lines if self.sequential else self.index_lines
        native.ordinary_lines = self.value_bytes / _LINE
        native.first_touches = self.keys * self.value_bytes / _HUGE_PAGE
        return native


PROGRAMS: dict[str, ThreadProgram] = {
    program.name: program
    for program in (
        ThreadProgram("readrandom", 0.0),
        ThreadProgram("readseq", 0.0, sequential=True),
        ThreadProgram("fillrandom", 1.0),
        ThreadProgram("fillseq", 1.0, sequential=True),
        ThreadProgram("mixed50", 0.5),
        ThreadProgram("mixed70", 0.3),
        ThreadProgram("mixed90", 0.1),
    )
}


def load_program(name: str) -> ThreadProgram:
    """A program of the catalogue; UnknownNameError."""
    check_name("program", name, PROGRAMS)
    return PROGRAMS[name]


def slow_memory(machine: Machine) -> _native.SlowMemory:
    """The C++ form of a machine's slow memory.

    Raises:
        DescriptionError: the machine has no node without cores, or lacks a parameter.
    """
    if not slow_nodes(machine):
        raise DescriptionError(
            f"machine {machine.name!r} has no node without cores, so no slow memory: "
            "take one that has, such as 'xeon-6240m-optane'"
        )
    native = _native.SlowMemory()
    for name in _SLOW_PARAMETERS:
        setattr(native, name, machine.parameter(f"slow_{name}"))
    return native


def slow_nodes(machine: Machine) -> list[int]:
    """The nodes without cores."""
    with_cores = set(machine.node_of_core.tolist())
    return [node for node in range(machine.nodes) if node not in with_cores]


def kernel_scheduler(machine: Machine) -> _native.KernelScheduler:
    """The kernel's scheduler: turns of 3 ms (CFS), and 25 % of imbalance between nodes.

    A moved thread fetches the content of its second-level cache again.
    """
    native = _native.KernelScheduler()
    native.turbo_ghz = machine.parameter("turbo_ghz")
    native.move_lines = machine.parameter("l2_kib") * 1024 / _LINE
    return native
