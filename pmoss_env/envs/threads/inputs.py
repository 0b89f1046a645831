"""The twelve inputs of thread scheduling (Smart Scheduler, table 2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
    """An input.

    Attributes:
        scale: divisor for observations, so that values are about one.
    """

    name: str
    unit: str
    scale: float
    meaning: str


#: In the order of the columns, as in native/threads/server.hpp. "Slow" is the memory of nodes
#: without cores, or of a chosen node: non-volatile memory in the paper.
INPUTS: tuple[Input, ...] = (
    Input("major_faults", "1/s", 1e3, "major page faults of the core's threads"),
    Input("minor_faults", "1/s", 1e5, "minor page faults of the core's threads"),
    Input("instructions_per_cycle", "1", 2.0, "instructions per cycle"),
    Input("remote_slow_accesses", "lines/s", 1e7, "of another socket's slow memory"),
    Input("local_slow_accesses", "lines/s", 1e7, "of the own socket's slow memory"),
    Input("remote_dram_accesses", "lines/s", 1e7, "of another socket's ordinary memory"),
    Input("local_dram_accesses", "lines/s", 1e7, "of the own socket's ordinary memory"),
    Input("miss_latency_ns", "ns", 1e3, "latency of a miss of the first-level cache"),
    Input("clock_ghz", "GHz", 4.0, "clock of the core while it ran"),
    Input("slow_read_gb_per_s", "GB/s", 30.0, "read bandwidth of all slow memory"),
    Input("slow_write_gb_per_s", "GB/s", 10.0, "write bandwidth of all slow memory"),
    Input("cpu_demand", "threads/CPU", 1.0, "runnable threads per CPU near the core's data"),
)
INPUT_NAMES: tuple[str, ...] = tuple(entry.name for entry in INPUTS)
REMOTE_SLOW = INPUT_NAMES.index("remote_slow_accesses")
LOCAL_SLOW = INPUT_NAMES.index("local_slow_accesses")
