"""Results that are older than the code that makes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_benchmarks.study.store import FORMAT
from pmoss_env.provenance import changed_since, has_digests
from pmoss_env.version import CONTINUED

#: What every result says of itself.
NAMED = ("command", "version", "machine")
#: Folders with checkpoints and data of a run that is kept here: git ignores them.
_IGNORED = frozenset({"agents", "tuning"})


@dataclass(frozen=True)
class Stale:
    """A result that the code of today may not repeat.

    Attributes:
        name: path of the result, with the part for reports that have some.
        reason: what it lacks or what has changed.
        renew: the command of today that makes it anew; empty where none is known.
        measured: whether its figures are of the host that makes it, which must be idle then.
    """

    name: str
    reason: str
    renew: str = ""
    measured: bool = False


def find_stale(root: Path) -> list[Stale]:
    """Results of a checkout that lack their origin, or whose code has changed since.

    Digests of the code are compared, which the results hold themselves: neither the time of a file
    nor git is asked.

    Args:
        root: of the checkout.
    """
    folder = root / "benchmarks" / "results"
    found = []
    paths = sorted([*folder.rglob("*.json"), *folder.glob("*.jsonl")])
    for path in (path for path in paths if _IGNORED.isdisjoint(path.relative_to(folder).parts)):
        content = _content(path)
        if content.get("format") == FORMAT:
            continue  # `pmoss study stale` says so of studies
        for part, report in _reports(content):
            name = f"{path.relative_to(folder).as_posix()}{part}"
            reason = _reason(report)
            if reason:
                place = path.relative_to(root).as_posix()
                renew = _renew(str(report.get("command", "")), place, part)
                found.append(Stale(name, reason, renew, _measured(name)))
    return found


def _content(path: Path) -> Any:
    """A report; of lines the first one, which says where the others come from."""
    with path.open(encoding="utf-8") as file:
        return json.loads(file.readline() if path.suffix == ".jsonl" else file.read())


#: Results with times of the host, by the beginning of their names.
_OF_THE_HOST = ("co-tenants", "demo/", "threads/")


def _renew(command: str, place: str, part: str) -> str:
    """The command that makes a result anew, in its place."""
    path = Path(place)
    if path.parent.name == "transcripts":
        return f"python -m pmoss_benchmarks.texts.transcripts {path.stem}"
    if not command:
        return ""
    file = command.partition(" --out ")[2].split(" ")[0].endswith((".json", ".jsonl"))
    out = place if file else path.parent
    words = re.sub(r" --out \S+", "", command)
    if part:
        words = f"{words.partition(' --')[0]} --only {part.removeprefix(', ')}"
    return f"{words} --out {out if ' --out ' in command else path.parent}"


def _measured(name: str) -> bool:
    return name.startswith(_OF_THE_HOST) or name == "transcripts/threads.json"


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
    if report["version"] not in CONTINUED:
        return f"made with version {report['version']}"
    if not has_digests(report):
        return "holds no digests of the code that made it"
    changed = changed_since(report["code"])
    return f"changed since: {', '.join(changed)}" if changed else ""
