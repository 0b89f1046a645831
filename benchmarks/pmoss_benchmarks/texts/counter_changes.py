"""Which counters differ under what learned: a table for each policy, and heat maps of cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pmoss_benchmarks.texts.drawing import draw_maps
from pmoss_benchmarks.texts.stored import SHARED, Stored, counted, made, table
from pmoss_datasets.evaluation import Difference, of_means
from pmoss_env.types import Float64Array

_FILE = "counter-changes.json"
_INTEL, _AMD, _ARM = (
    ("sandy-bridge", "skylake-x-8n"),
    ("milan-nps1", "milan-nps4"),
    ("grace-hopper",),
)
#: What the paper says is less, the counters that show it, and the servers it says so of.
_CLAIMS = {
    "accesses to far memories": (
        ("memory_misses", "memory_write_misses", "remote_dram"),
        _AMD + _INTEL,
    ),
    "accesses to memory": (("memory_accesses", "llc_misses", "llc_write_misses"), _ARM),
    "stalls": (("cycles_l3_miss", "cycles_mem_any"), _INTEL),
    "misses of address translation": (("dtlb_misses",), _AMD + _ARM + _INTEL),
    "instructions": (("instructions",), _AMD + _ARM + _INTEL),
}
#: What the others are compared with.
_BEFORE = "os-default"
#: Whose cores are drawn.
_DRAWN = "surrogate"
#: Changes that are smaller, in percent, are none.
_LEVEL = 0.5


def section(stored: Stored) -> str:
    """The tables, and links to the heat maps of pictures()."""
    report = stored[_FILE]
    by_policy = _by_policy(stored)
    parts = [
        "## What changes under the learned schedule",
        "Counts per query under what learned, and under Random, against those under OS:D. Brackets "
        "hold 95 % by a bootstrap over episodes. Random shows what is there without learning: each "
        "slice has a core of its own, and its data lie beside that core. How busy workers are is "
        "of the first episode.",
    ]
    for policy, cells in by_policy.items():
        episodes = counted(len(cells[0]["measured"]), "episode")
        parts += [
            f"`{policy}`, `{cells[0]['workload']}`, load `{cells[0]['load']}`, {episodes} of each "
            "server.",
            _changes(cells),
            _less(cells),
        ]
    for cell in by_policy[_DRAWN]:
        name = f"{SHARED[_BEFORE]} and {_DRAWN} on {cell['machine']}"
        parts.append(f"![Counters of cores under {name}]({_picture(cell)})")
    parts += [
        "Each picture is of the first episode. A column is a worker's core. Its first row is what "
        "the core serves, the other rows are its counters per query.",
        made(report, "benchmarks/results/counter-changes.jsonl"),
    ]
    return "\n\n".join(parts)


def pictures(stored: Stored) -> dict[str, str]:
    """The heat maps, by the name of their file beside the page."""
    return {
        _picture(cell): _draw(cell) for cell in stored[_FILE]["cells"] if cell["after"] == _DRAWN
    }


def _picture(cell: Mapping[str, Any]) -> str:
    return f"d17-{cell['machine']}.svg"


def _draw(cell: Mapping[str, Any]) -> str:
    order = np.argsort(cell["nodes"], kind="stable")
    names = [name for of, _ in _CLAIMS.values() for name in of if name in cell["counters"]]
    maps = {}
    for at, title in enumerate((SHARED[_BEFORE], cell["after"])):
        throughput = cell["measured"][0]["throughput"][at]
        served = np.array(cell["cores"]["queries"][at])
        counts = np.array([cell["cores"][name][at] for name in names])
        # A core without queries counts nothing.
        each = np.divide(counts, served, out=np.zeros_like(counts), where=served > 0)
        maps[f"{cell['machine']}, {title}: {throughput:.1f} Mq/s"] = np.stack([served, *each])[
            :, order
        ]
    rows = ["queries per second", *names]
    return draw_maps(maps, rows, np.array(cell["nodes"])[order].tolist(), "node")


def _changes(cells: list[Mapping[str, Any]]) -> str:
    rows = [
        ["throughput", "", *(_gain(cell) for cell in cells)],
        ["busy, mean of the workers", "", *(_busy(cell) for cell in cells)],
    ]
    for claim, (names, _) in _CLAIMS.items():
        rows += [[f"`{name}`", claim, *(_change(cell, name) for cell in cells)] for name in names]
    return table(["counter", "the paper says less", *(cell["machine"] for cell in cells)], rows)


def _gain(cell: Mapping[str, Any]) -> str:
    values = np.array([one["throughput"] for one in cell["measured"]]).T
    found = of_means(values, lambda means: means[1] / means[0])
    return _told(found, "{:.2f}".format) + " times"


def _busy(cell: Mapping[str, Any]) -> str:
    before, after = (np.mean(of) for of in cell["cores"]["elapsed_us"])
    return f"{before:.0%} to {after:.0%}"


def _change(cell: Mapping[str, Any], name: str) -> str:
    values = _counts(cell, name)
    if values is None:
        return "not counted"
    if not values[0].any():
        return "0 before"
    found = of_means(values, lambda means: 100 * (means[1] / means[0] - 1))
    # Level is level, whichever sign rounding leaves.
    return _told(found, lambda one: "0" if abs(one) < _LEVEL else f"{one:+.0f}") + " %"


def _counts(cell: Mapping[str, Any], name: str) -> Float64Array | None:
    """(2, episodes) counts per query before and after."""
    if name not in cell["counters"]:
        return None
    at = cell["counters"].index(name)
    return np.array([[of[at] for of in one["per_query"]] for one in cell["measured"]]).T


def _told(found: Difference, shown: Callable[[float], str]) -> str:
    value = shown(found.value)
    if found.low is None or found.high is None or shown(found.low) == shown(found.high):
        return value
    return f"{value} [{shown(found.low)}, {shown(found.high)}]"


def verdict(stored: Stored) -> str:
    """How many of the changes are there, over all claims and servers, and how many by Random."""
    counts = {}
    for policy, cells in _by_policy(stored).items():
        there = [one for claim in _CLAIMS for one in _lower_on(cells, claim)]
        counts[policy] = f"{sum(there)} of {len(there)}"
    return f"{counts[_DRAWN]}; Random {counts['random']}"


def _lower_on(cells: list[Mapping[str, Any]], claim: str) -> list[bool]:
    """Whether all counters of a claim are lower, on each server that the paper says so of."""
    names, servers = _CLAIMS[claim]
    found = []
    for cell in cells:
        if cell["machine"] not in servers:
            continue
        counts = [of for name in names if (of := _counts(cell, name)) is not None]
        means = [of.mean(axis=1) for of in counts if of[0].any()]
        lower = [100 * (after / before - 1) < -_LEVEL for before, after in means]
        found.append(bool(lower) and all(lower))
    return found


def _less(cells: list[Mapping[str, Any]]) -> str:
    """On how many of its servers each of the paper's changes is there."""
    lines = []
    for claim in _CLAIMS:
        there = _lower_on(cells, claim)
        lines.append(f"- {claim.capitalize()}: lower on {sum(there)} of {len(there)}.")
    return "\n".join(
        ["Of the servers that the paper says it of, by every counter of the row.", "", *lines]
    )


def _by_policy(stored: Stored) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in stored[_FILE]["cells"]:
        found.setdefault(cell["after"], []).append(cell)
    return found
