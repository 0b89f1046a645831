"""The placement of data on a real server, in snapshots and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmoss_env.errors import BackendError
from pmoss_env.indexes import check_hint, is_plugin
from pmoss_env.machines import Machine

#: Most misplaced slices in a text; the snapshot's provenance has all.
_MAX_CAUSES = 8


def data_facts(
    raw: dict[str, Any],
    strategy: str,
    pace: str,
    not_asked: str,
    loading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The placement of the data at the end of a measurement, as reported by the kernel.

    Args:
        not_asked: why the kernel was not asked; empty if it was.
        loading: report of bound loaders, if they placed the data. Then the pages of a slice are
            unknown, and only the growth of the process on each node is reported.
    """
    pages = int(raw["slice_pages"].sum())
    home = int(raw["slice_pages_home"].sum())
    queues = int(raw["worker_pages"].sum())
    causes = {str(slice_): cause for slice_, cause in enumerate(raw["slice_causes"]) if cause}
    return {
        "strategy": strategy,
        "pace": pace,
        # Unknown for hidden memory.
        "in_place": None if loading else bool(raw["in_place"]),
        "home_share": home / pages if pages else None,
        "pages_by_node": {str(node): int(n) for node, n in raw["node_pages"].items()},
        # The causes for slices that are not where the schedule places them.
        "not_in_place": causes,
        "not_known": not_asked,
        # The workers' queues and counts.
        "queues_home_share": int(raw["worker_pages_home"].sum()) / queues if queues else None,
        "waited_seconds": raw["placing_seconds"],
        "moved": dict(raw["migration"]),
        **({} if loading is None else {"loaded": loaded_facts(loading)}),
    }


def loaded_facts(loading: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes of bound loaders, and the pages that the process grew by."""
    return {
        "loaders": [dict(loader) for loader in loading["loaders"]],
        "pages_by_node": {str(node): int(n) for node, n in loading["pages_by_node"].items()},
        "not_known": loading["not_known"],
    }


def misplaced(provenance: Mapping[str, Any]) -> int:
    """Number of slices whose data were not where the schedule places them; 0 on models."""
    return len(provenance.get("data", {}).get("not_in_place", ()))


def misplaced_lines(provenance: Mapping[str, Any], name: str) -> list[str]:
    """Lines of text that list the misplaced slices and the causes; [] without any."""
    if not misplaced(provenance):
        return []
    causes = provenance["data"]["not_in_place"]
    shown = list(causes.items())[:_MAX_CAUSES]
    lines = [f"Data of {len(causes)} slices are not where {name} places them:"]
    lines += [f"  slice {slice_}: {cause}" for slice_, cause in shown]
    if more := len(causes) - len(shown):
        lines.append(f"  and {more} more (the snapshot's provenance)")
    return lines


def placement_lines(provenance: Mapping[str, Any]) -> list[str]:
    """Lines of text about the nodes of the data; [] if the kernel was not asked."""
    data = provenance.get("data", {})
    lines = []
    if data.get("pages_by_node"):
        pages = sum(data["pages_by_node"].values())
        # Only user-defined libraries share pages between slices.
        shared = ""
        if is_plugin(str(provenance.get("index", ""))):
            shared = " A page with records of several slices counts for each of them."
        lines.append(
            f"Data: {pages:,} pages ({_by_node(data['pages_by_node'])}), {data['home_share']:.1%} "
            f"where the schedule places them.{shared}"
        )
    if data.get("pages_balanced"):
        lines.append(
            f"Automatic NUMA balancing moved {data['pages_balanced']:,} pages, of all programs."
        )
    if loaded := data.get("loaded"):
        slices: dict[int, int] = {}
        for loader in loaded["loaders"]:
            slices[loader["node"]] = slices.get(loader["node"], 0) + loader["slices"]
        wanted = ", ".join(f"node {node}: {count} slices" for node, count in slices.items())
        growth = loaded["not_known"] or f"grew by pages ({_by_node(loaded['pages_by_node'])})"
        lines.append(
            f"The library hides its memory: {len(loaded['loaders'])} bound loaders touched it "
            f"first ({wanted}). The process: {growth}."
        )
    return lines


def _by_node(pages: Mapping[str, int]) -> str:
    return ", ".join(f"node {node}: {count:,}" for node, count in pages.items())


def require_planned_cpus(ran: Sequence[int], machine: Machine, index: str) -> None:
    """Checks that each worker ran on its CPU.

    Args:
        ran: CPU of each worker at the end; negative where none of its queries was counted.
        machine: whose workers they are.

    Raises:
        BackendError: one ran elsewhere.
    """
    planned = machine.cpu_of_core[machine.workers].tolist()
    for worker, (plan, cpu) in enumerate(zip(planned, ran, strict=True)):
        if cpu not in (plan, -1):
            raise BackendError(
                f"worker {worker} was bound to CPU {plan} and ran on CPU {int(cpu)}: something "
                "changes the CPUs of threads in this process, such as taskset or a cpuset. Stop "
                f"it, and run again. {check_hint(index)}".rstrip()
            )
