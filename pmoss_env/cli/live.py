"""What a measurement on this host shows while it runs."""

from __future__ import annotations

from typing import Any

#: Events that the live view shows where the host counts them, per query.
SHOWN = ("instructions", "llc_misses", "memory_misses", "remote_dram")


def round_in_words(of_round: dict[str, Any]) -> str:
    """One line of the live view: what a sweeping round has seen of each node's workers."""
    parts = []
    for node, rate in of_round["node_mq_per_s"].items():
        counters = of_round["node_counters_per_query"].get(node, {})
        told = [f"{name} {counters[name]:.3g}" for name in SHOWN if name in counters]
        parts.append(f"node {node}: {rate:.3f} Mq/s" + "".join(f", {text}" for text in told))
    return f"{of_round['seconds']:.1f} s  " + "  ".join(parts)
