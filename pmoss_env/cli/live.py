"""The live view of a measurement on this host."""

from __future__ import annotations

from typing import Any

#: Events of the live view, per query.
SHOWN = ("instructions", "llc_misses", "memory_misses", "remote_dram")


def round_in_words(of_round: dict[str, Any]) -> str:
    """A line of the live view: throughput and counters of each node's workers in a round."""
    parts = []
    for node, rate in of_round["node_mq_per_s"].items():
        counters = of_round["node_counters_per_query"].get(node, {})
        shown = [f"{name} {counters[name]:.3g}" for name in SHOWN if name in counters]
        parts.append(f"node {node}: {rate:.3f} Mq/s" + "".join(f", {text}" for text in shown))
    return f"{of_round['seconds']:.1f} s  " + "  ".join(parts)
