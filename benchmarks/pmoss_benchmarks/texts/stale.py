"""Results that are older than the code that makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_benchmarks.provenance import changed_since
from pmoss_env import __version__

#: What every result says of itself.
NAMED = ("command", "version", "machine")


@dataclass(frozen=True)
class Stale:
    """A result that the code of today may not repeat.

    Attributes:
        name: path of the result, with the part for reports that have some.
        reason: what it lacks or what has changed.
    """

    name: str
    reason: str


def find_stale(root: Path) -> list[Stale]:
    """Results of a checkout that lack their origin, or whose code has changed since.

    Digests of the code are compared, which the results hold themselves: neither the time of a file
    nor git is asked.

    Args:
        root: of the checkout.
    """
    folder = root / "benchmarks" / "results"
    found = []
    for path in sorted(folder.rglob("*.json")):
        for part, report in _reports(json.loads(path.read_text(encoding="utf-8"))):
            name = f"{path.relative_to(folder).as_posix()}{part}"
            reason = _reason(report)
            if reason:
                found.append(Stale(name, reason))
    return found


def _reports(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A report, or its parts where each was made by a command of its own."""
    if "parts" not in content:
        yield "", content
        return
    shared = {key: content[key] for key in ("version", "machine") if key in content}
    for name, part in content["parts"].items():
        yield f", {name}", {**shared, **part}


def _reason(report: Mapping[str, Any]) -> str:
    missing = [name for name in NAMED if not report.get(name)]
    if missing:
        return f"does not name its {', '.join(missing)}"
    if report["version"] != __version__:
        return f"made with version {report['version']}"
    code = report.get("code")
    if not code:
        return "was made before results held digests of their code"
    changed = changed_since(code)
    return f"changed since: {', '.join(changed)}" if changed else ""
