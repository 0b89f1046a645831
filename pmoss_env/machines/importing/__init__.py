"""A machine description of a real server: from a Linux host, or from what lstopo wrote about it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.description import Machine
from pmoss_env.machines.importing.describing import describe_server
from pmoss_env.machines.importing.found import Found
from pmoss_env.machines.importing.latency_matrix import read_latencies
from pmoss_env.machines.importing.lstopo import read_lstopo
from pmoss_env.machines.importing.sysfs import read_host
from pmoss_env.machines.importing.toml_text import machine_toml

__all__ = ["import_machine", "read_host", "read_lstopo"]


def import_machine(found: Found, name: str, latency: Path | None = None) -> str:
    """The machine file of a server, as text.

    What was read says where ("sysfs", "lstopo XML", the name of the latency file) and has high or
    medium confidence. Everything else is a guess from the shipped machines of the same vendor; its
    source begins with "guess:" and names the rule, and its confidence is low.

    Args:
        found: what ``read_host`` or ``read_lstopo`` found.
        name: of the machine.
        latency: CSV file of core-to-core latencies in ns, one row and column per CPU.

    Raises:
        DescriptionError: the latencies do not fit, or a machine description cannot express the
            server; names file, place and reason.
    """
    latencies = None
    if latency is not None:
        # As text that any file can hold: a name on Linux is bytes.
        file = latency.name.encode(errors="replace").decode()
        latencies = file, read_latencies(latency, len(found.cpus))
    text = machine_toml(describe_server(found, name, latencies))
    try:
        Machine.from_dict(tomllib.loads(text))
    except DescriptionError as error:
        raise DescriptionError(f"{found.place}: {error}") from error
    return text
