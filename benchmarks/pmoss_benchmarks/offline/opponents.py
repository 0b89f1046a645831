"""The opponents that do not learn. Each has cells of its own, so that a new one adds only these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_datasets.domain import find_domain
from pmoss_datasets.suite import load_task

#: All opponents, as the command line names them. Results of version 0.1.0 have one cell of this
#: name for all of them together; see split_cell().
OPPONENTS = "opponents"


def is_opponent(name: str, task: str) -> bool:
    """Whether a cell's agent is a policy of its task's domain, and not a learned agent."""
    domain = find_domain(load_task(task).domain)
    return name in domain.unplaced or name in domain.opponents()


def has_learned(cell: Mapping[str, Any]) -> bool:
    """Whether the facts of a cell are those of a learned agent, also of one not installed here."""
    return "training" in cell or "refused" in cell


def split_cell(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The results of each opponent, from a cell that all of them shared.

    "exact" is among them where it did not play: its instances were too large.
    """
    found: dict[str, dict[str, Any]] = {"exact": {"rows": []}}
    for row in result["rows"]:
        found.setdefault(row["policy"], {"rows": []})["rows"].append(row)
    for name, reason in result["absent"].items():
        found[name] = {"rows": [], "absent": {name: reason}}
    for name, episodes in result["shared"].items():
        found[name] = {"rows": [], "shared": {name: episodes}}
    return found
