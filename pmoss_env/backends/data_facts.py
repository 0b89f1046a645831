"""What a snapshot of a real server says about its data: where they lie, what moving them took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_env.indexes import is_plugin

#: Slices out of place that are named one by one; the snapshot's provenance has all.
_MOST_CAUSES = 8


def data_facts(
    raw: dict[str, Any],
    strategy: str,
    pace: str,
    not_asked: str,
    loading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Facts about the data, as the kernel answered at the end of a measurement.

    Args:
        raw: what the native runner measured.
        strategy: how data were to move.
        pace: how soon.
        not_asked: why the kernel was not asked; empty if it was.
        loading: what bound loaders did, if the data were placed by them: nobody knows then which
            pages are a slice's, so the kernel is asked by how many the process grew on each node.
    """
    pages = int(raw["slice_pages"].sum())
    home = int(raw["slice_pages_home"].sum())
    queues = int(raw["worker_pages"].sum())
    causes = {str(slice_): cause for slice_, cause in enumerate(raw["slice_causes"]) if cause}
    return {
        "strategy": strategy,
        "pace": pace,
        # Of hidden memory nobody knows.
        "in_place": None if loading else bool(raw["in_place"]),
        "home_share": home / pages if pages else None,
        "pages_by_node": {str(node): int(n) for node, n in raw["node_pages"].items()},
        # Of each slice that is not where the schedule wants it.
        "not_in_place": causes,
        "not_known": not_asked,
        # Of the workers' queues and counts.
        "queues_home_share": int(raw["worker_pages_home"].sum()) / queues if queues else None,
        "waited_seconds": raw["placing_seconds"],
        "moved": dict(raw["migration"]),
        **({} if loading is None else {"loaded": loaded_facts(loading)}),
    }


def loaded_facts(loading: Mapping[str, Any]) -> dict[str, Any]:
    """Where bound loaders ran, and the pages that the process grew by.

    Args:
        loading: the native runner's ``load_report``.
    """
    return {
        "loaders": [dict(loader) for loader in loading["loaders"]],
        "pages_by_node": {str(node): int(n) for node, n in loading["pages_by_node"].items()},
        "not_known": loading["not_known"],
    }


def misplaced(provenance: Mapping[str, Any]) -> int:
    """Slices whose data were not where the schedule wanted them; 0 where nothing moves data.

    Args:
        provenance: of a snapshot, of any backend.
    """
    return len(provenance.get("data", {}).get("not_in_place", ()))


def misplaced_in_words(provenance: Mapping[str, Any], name: str) -> list[str]:
    """Lines that say which slices were not where a schedule wants them, and why; [] if none.

    Args:
        provenance: of a snapshot, of any backend.
        name: of the schedule.
    """
    if not misplaced(provenance):
        return []
    causes = provenance["data"]["not_in_place"]
    told = list(causes.items())[:_MOST_CAUSES]
    lines = [f"Data of {len(causes)} slices are not where {name} wants them:"]
    lines += [f"  slice {slice_}: {cause}" for slice_, cause in told]
    if more := len(causes) - len(told):
        lines.append(f"  and {more} more (the snapshot's provenance)")
    return lines


def placed_in_words(provenance: Mapping[str, Any]) -> list[str]:
    """Lines that say where the kernel found the data; [] where it was not asked.

    Args:
        provenance: of a snapshot, of any backend.
    """
    data = provenance.get("data", {})
    lines = []
    if data.get("pages_by_node"):
        pages = sum(data["pages_by_node"].values())
        # Our own trees give each slice pages of its own.
        shared = ""
        if is_plugin(str(provenance.get("index", ""))):
            shared = " A page with records of several slices counts for each of them."
        lines.append(
            f"Data: {pages:,} pages ({_by_node(data['pages_by_node'])}), {data['home_share']:.1%} "
            f"where the schedule wants them.{shared}"
        )
    if loaded := data.get("loaded"):
        slices: dict[int, int] = {}
        for loader in loaded["loaders"]:
            slices[loader["node"]] = slices.get(loader["node"], 0) + loader["slices"]
        wanted = ", ".join(f"node {node}: {count} slices" for node, count in slices.items())
        found = loaded["not_known"] or f"grew by pages ({_by_node(loaded['pages_by_node'])})"
        lines.append(
            f"The library hides its memory: {len(loaded['loaders'])} bound loaders touched it "
            f"first ({wanted}). The process: {found}."
        )
    return lines


def _by_node(pages: Mapping[str, int]) -> str:
    return ", ".join(f"node {node}: {count:,}" for node, count in pages.items())
