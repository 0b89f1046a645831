"""The abilities of this host for measurements, and the loss without each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pmoss_env import _native
from pmoss_env.counter_table import Counter
from pmoss_env.platforms import host_topology
from pmoss_env.types import COUNTERS, EXTRA_COUNTERS


@dataclass(frozen=True)
class Check:
    """A fact about the host."""

    name: str
    value: str
    verdict: str


@dataclass(frozen=True)
class EventReport:
    """An event of the counter vocabulary on this host.

    Attributes:
        source: "hardware", "software" or "none".
        lost: what remains unknown without it; empty if it is counted.
        reason: reason why it is not counted, or only in part; else empty.
    """

    name: str
    source: str
    lost: str
    reason: str


@dataclass(frozen=True)
class HostReport:
    """The output of `pmoss doctor`."""

    summary: str
    checks: tuple[Check, ...]
    events: tuple[EventReport, ...]


def host_report(root: str = "/") -> HostReport:
    """Reads cores, nodes, permissions, kernel settings and every event."""
    topology = host_topology("a report on this host", root)
    facts = _native.host_facts(root)
    events = _native.probe_events()
    by_counter = {event["counter"]: event for event in events}
    return HostReport(
        summary=f"{facts['cpu_model']} ({facts['architecture']}), Linux {facts['kernel']}",
        checks=_checks(topology, facts, events),
        events=tuple(
            _event_report(counter, by_counter.get(counter.name))
            for counter in sorted((*COUNTERS, *EXTRA_COUNTERS), key=lambda counter: counter.source)
            if counter.event
        ),
    )


def _event_report(counter: Counter, event: Mapping[str, Any] | None) -> EventReport:
    """The report of a counter; with its loss if the kernel cannot count it."""
    if event is None:
        reason = "the native module was built before this counter was in the table: build it again"
        return EventReport(counter.event, "none", counter.lost, reason)
    missing = event["source"] == "none"
    reason = "in user mode only" if event["user_only"] else event["reason"]
    return EventReport(counter.event, event["source"], counter.lost if missing else "", str(reason))


def _cpu_time(limit: str, cpus: int) -> tuple[str, str]:
    """The limit of a control group (cpu.max), and what it does to a measurement."""
    if limit == "none":
        return "no limit", "threads that are bound to a CPU have all of it"
    if float(limit) >= cpus:
        return f"that of {limit} CPUs", "the limit of the control group is above what there is"
    return (
        f"that of {limit} CPUs",
        f"the kernel stops threads on {cpus} CPUs again and again: raise the control group's "
        "cpu.max, or use fewer CPUs",
    )


def _checks(
    topology: Mapping[str, Any], facts: Mapping[str, str], events: list[dict[str, Any]]
) -> tuple[Check, ...]:
    online = len(topology["cpus"])
    allowed = len(topology["allowed_cpus"])
    nodes = len(topology["nodes"])
    hardware = sum(event["source"] == "hardware" for event in events)
    paranoid = facts["perf_event_paranoid"]
    pages = facts["transparent_hugepages"]
    balancing = facts["numa_balancing"]
    refusal = _native.placement_refusal()
    checks = [
        Check(
            "CPUs",
            f"{allowed} of {online} usable",
            "enough for routers of their own"
            if allowed >= 4
            else "routers share cores with workers: throughput is a lower bound",
        ),
        Check("CPU time", *_cpu_time(facts["cpu_limit"], allowed)),
        Check(
            "NUMA nodes",
            str(nodes),
            "placement of data matters here"
            if nodes > 1
            else "only the choice of core matters here; use a machine model for the rest",
        ),
        Check(
            "memory placement",
            "refused" if refusal else "permitted",
            refusal or "every measurement asks the kernel where the data lie",
        ),
        Check(
            "hardware counters",
            f"{hardware} events",
            "agents can be fed from the PMU"
            if hardware
            else "no PMU (usual in a virtual machine): agents see software counters and time only",
        ),
        Check(
            "perf_event_paranoid",
            paranoid,
            "counting own threads is permitted; off-core counters need 0 or CAP_PERFMON"
            if paranoid in ("-1", "0", "1", "2")
            else "counting may be refused: sysctl kernel.perf_event_paranoid=2",
        ),
        Check(
            "NUMA balancing",
            balancing,
            "off: data stay where they are placed"
            if balancing in ("0", "unknown")
            else "on: the kernel may move data behind the schedule; recorded with every result",
        ),
        Check(
            "huge pages",
            pages,
            "slices get 2 MiB pages" if pages in ("always", "madvise") else "4 KiB pages only",
        ),
        Check(
            "frequency governor",
            facts["governor"],
            "steady clock" if facts["governor"] == "performance" else "the clock may vary",
        ),
        Check(
            "virtual machine",
            facts["hypervisor"],
            "co-tenants on the real machine add noise" if facts["hypervisor"] == "yes" else "no",
        ),
    ]
    return tuple(checks)
