"""The ``[offload]`` table of a machine file: blades, their hubs, and the hubs' copy engines.

native/simulator/scan_types.hpp describes the parameters, which have the same names there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_env.checks import check_keys
from pmoss_env.machines.parameters import Kind, Parameter, read_parameters

_COUNT = Kind("1", minimum=1.0, whole=True)
_LINES = Kind("lines", minimum=1.0, maximum=2**20, whole=True)
_US = Kind("us", minimum=0.0)
_CYCLES = Kind("cycles", minimum=0.0)
_BYTES = Kind("B", minimum=0.0)

#: Every parameter; a machine with copy engines needs all of them.
OFFLOAD_PARAMETERS: Mapping[str, Kind] = {
    "sockets_per_blade": _COUNT,
    "hubs_per_blade": _COUNT,
    "socket_link_gb_per_s": Kind("GB/s"),
    "hub_link_gb_per_s": Kind("GB/s"),
    "line_overhead_bytes": _BYTES,
    "request_bytes": _BYTES,
    "prefetch_lines": _LINES,
    "prefetch_page_lines": _LINES,
    "lookahead_lines": Kind("lines", minimum=0.0, whole=True),
    "cycles_per_value": _CYCLES,
    "cycles_per_result": _CYCLES,
    "result_bytes": _BYTES,
    "page_fault_us": _US,
    "scan_setup_us": _US,
    "engine_setup_us": _US,
    "block_kib": Kind("KiB", minimum=1.0, maximum=2**20, whole=True),
    "block_overhead_us": _US,
    "engine_lines": Kind("lines", minimum=8.0, maximum=2**20, whole=True),
    "engine_line_ns": Kind("ns"),
    "engine_coherence_ns": Kind("ns", minimum=0.0),
}


def read_offload(entries: Mapping[str, Any]) -> dict[str, Parameter]:
    """Reads an ``[offload]`` table.

    Raises:
        DescriptionError: names the key, the value and the valid values.
    """
    parameters = read_parameters(entries, "offload", OFFLOAD_PARAMETERS)
    check_keys("offload.", parameters, OFFLOAD_PARAMETERS, OFFLOAD_PARAMETERS)
    return parameters
