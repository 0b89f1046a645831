"""A page for each row of results of the papers: what they say, our figures, the verdict, the cause.

The rows stand in ``papers.toml``. All figures come from stored results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from pmoss_benchmarks.texts import (
    counter_changes,
    imitation,
    learned,
    learning,
    spatial,
    statements,
    studies,
)
from pmoss_benchmarks.texts.stored import Stored, made, of_today, table
from pmoss_env.errors import DescriptionError
from pmoss_env.files import read_toml

#: The papers in the order of the contents: what each is called here, and its title.
PAPERS = {
    "p-moss": (
        "P-MOSS",
        "P-MOSS: Learned Scheduling For Indexes Over NUMA Servers Using Low-Level Hardware "
        "Statistics",
    ),
    "access-paths": (
        "Access paths",
        "Adaptive Access Path Selection for Hardware-Accelerated DRAM Loads",
    ),
    "smart-scheduler": (
        "Smart Scheduler",
        "Smart scheduler: an adaptive NVM-aware thread scheduling approach on NUMA systems",
    ),
}
#: Whose statements are counted: those of the rows D.
_COUNTED = "p-moss"
_ROWS = Path(__file__).with_name("papers.toml")
_BLOCKS = {
    "counter-changes": counter_changes.told,
    **imitation.BLOCKS,
    **learning.BLOCKS,
    **spatial.BLOCKS,
    **studies.BLOCKS,
}
_RESULTS = "benchmarks/results/"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of results; the head of ``papers.toml`` says what the fields are."""

    id: str
    paper: str
    title: str
    says: str
    value: str
    section: str
    statements: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    plays: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    scans: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    most: float = math.inf
    accuracy: float = 0.0
    blocks: tuple[str, ...] = ()
    note: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    row: list[Row]


@cache
def read_rows() -> tuple[Row, ...]:
    """The rows of ``papers.toml``.

    Raises:
        DescriptionError: names the field and the reason.
    """

    def build(data: dict[str, Any]) -> tuple[Row, ...]:
        try:
            return tuple(msgspec.convert(data, _File).row)
        except msgspec.ValidationError as error:
            raise DescriptionError(str(error)) from error

    return read_toml(_ROWS, build)


def pages(stored: Stored) -> dict[str, str]:
    """Every page and picture by its name below ``docs/papers``."""
    rows = read_rows()
    return {
        "index.md": _contents(rows, stored),
        **{f"{row.id}.md": _page(row, stored) for row in rows},
        **{_picture(row): drawn for row in rows if (drawn := _draw(row, stored))},
        **counter_changes.pictures(stored),
    }


def _contents(rows: tuple[Row, ...], stored: Stored) -> str:
    parts = [
        "# Papers",
        "Three papers stand behind the environments. Each row of their results has a page. It says "
        "what the paper has, what we have, whether that lies inside its range, and why not.",
        "Our machines are models, so ratios and ranks are compared. Where a search stands in the "
        "place of P-MOSS, the table says so, and how many figures Random has inside their range.",
    ]
    for paper, (name, title) in PAPERS.items():
        mine = [row for row in rows if row.paper == paper]
        cells = [
            [f"[{row.id.upper()}]({row.id}.md)", row.title, row.value, _verdict(row, stored)]
            for row in mine
        ]
        head = ["row", "result", "the paper has", "our figures inside their range"]
        parts += [f"## {name}", f"{title}.", table(head, cells)]
        if paper == _COUNTED:
            held = {n: row.id for row in mine if row.id.startswith("d") for n in row.statements}
            parts += [statements.tally(held, stored), learned.standing(stored)]
    listed = "\n".join(row.id for row in rows)
    return _linked([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```"])


def _page(row: Row, stored: Stored) -> str:
    parts = [
        f"# {row.id.upper()}: {row.title}",
        f"{row.says}",
        "\n".join(
            [
                f"- The paper: {PAPERS[row.paper][1]}, {row.section}.",
                f"- Its number: {row.value}.",
                f"- Our figures inside their range: {_verdict(row, stored)}.",
            ]
        ),
    ]
    for tell in (_statements, _learned, _threads, _scans, _speed):
        if told := tell(row, stored):
            parts.append(told)
    # What is a template fills when the site is built.
    parts += [
        _BLOCKS[name](stored) if name in _BLOCKS else f'{{% include "{name}.md.jinja" %}}'
        for name in row.blocks
    ]
    if row.note:
        parts += ["## Remark", row.note]
    return _linked(parts)


def _linked(parts: list[str]) -> str:
    """A page below ``docs/papers``, with links to results from there."""
    return "\n\n".join(parts).replace(f"]({_RESULTS}", f"](../../{_RESULTS}") + "\n"


def _verdict(row: Row, stored: Stored) -> str:
    """How many of the judged figures of a row lie inside, in words."""
    if "counter-changes" in row.blocks:
        return counter_changes.verdict(stored)
    # Sister environments have figures of their own for what their statements say, without those
    # that were fitted.
    own = row.threads or row.scans
    found = [] if own else [one["verdict"] for one in _of_statements(row, stored)]
    found += [one["verdict"] for one in _of_threads(row, stored) if not one["fitted"]]
    found += [one["verdict"] for one in _of_scans(row, stored) if one["verdict"] != "fitted"]
    within = [one["median"] <= row.most for one, _ in _of_speed(row, stored)]
    within = within if math.isfinite(row.most) else []
    if row.accuracy:
        within += [one >= row.accuracy for one in imitation.accuracies(stored)]
    found += ["inside" if one else "outside" for one in within]
    judged = [verdict for verdict in found if verdict in ("inside", "outside")]
    if not judged:
        return "not judged"
    told = f"{judged.count('inside')} of {len(judged)}"
    if stood := [one["random_inside"] for one in _of_statements(row, stored) if "random" in one]:
        told += f", by a search; Random {sum(stood)} of {len(stood)}"
    return told


def _of_statements(row: Row, stored: Stored) -> list[dict[str, Any]]:
    by_number = {verdict["number"]: verdict for verdict in stored.validation}
    found = [by_number[number] for number in row.statements]
    # What was fitted to the statement itself proves nothing.
    return [
        {**one, "verdict": "fitted", "cause": ""} if one["cause"].endswith("no evidence") else one
        for one in found
    ]


def _of_threads(row: Row, stored: Stored) -> list[dict[str, Any]]:
    rows = stored["threads"]["rows"] if row.threads else []
    return [one for one in rows if one["statement"].startswith(row.threads)]


def _of_scans(row: Row, stored: Stored) -> list[dict[str, Any]]:
    rows = stored["access-path"]["rows"] if row.scans else []
    return [one for one in rows if one["what"].startswith(row.scans)]


def _statements(row: Row, stored: Stored) -> str:
    return statements.told(_of_statements(row, stored), stored)


def _picture(row: Row) -> str:
    """The file's name. Rows of the same servers share the picture of the first."""
    first = next(one for one in read_rows() if (one.servers, one.plays) == (row.servers, row.plays))
    return f"{first.id}.svg"


def _draw(row: Row, stored: Stored) -> str:
    """The picture of what a row's learned policies serve; empty where none has played."""
    if row.servers:
        plays = [f"same-task/{server}-btree-ycsb-a" for server in row.servers]
        return learned.picture(learned.MACHINES, plays, stored)
    return learned.picture(learned.PAPER, row.plays, stored)


def _learned(row: Row, stored: Stored) -> str:
    """What learned: the paper's own method, and this project's agent."""
    shown = f"![Throughput of each schedule, in Mq/s]({_picture(row)})" * bool(_draw(row, stored))
    if row.servers:
        return learned.servers(row.learned, row.servers, shown, stored)
    return learned.pairs(row.learned, row.plays, shown, stored) if row.plays else ""


def _threads(row: Row, stored: Stored) -> str:
    cells = [
        [one["statement"], one["paper"], f"{one['ours']:.4g}", _judged(one), one["cause"]]
        for one in _of_threads(row, stored)
    ]
    return _figures(stored, "threads", cells)


def _scans(row: Row, stored: Stored) -> str:
    cells = [
        [one["what"], f"{one['paper']:g}", f"{one['ours']:.3g}", one["verdict"], _remark(one)]
        for one in _of_scans(row, stored)
    ]
    return _figures(stored, "access-path", cells)


def _remark(one: Mapping[str, Any]) -> str:
    # Names of the project's own list of open points tell a reader nothing.
    return re.sub(r" \(hole G\d+\)", "", str(one["note"]))


def _judged(one: Mapping[str, Any]) -> str:
    return "fitted" if one["fitted"] else str(one["verdict"])


def _figures(stored: Stored, name: str, cells: list[list[str]]) -> str:
    if not cells:
        return ""
    head = ["figure", "the paper has", "ours", "verdict", "cause or remark"]
    told = ["## Figures", table(head, cells)]
    if any(cell[3] == "fitted" for cell in cells):
        told.append(statements.FITTED)
    return "\n\n".join([*told, made(stored[name], f"{_RESULTS}{name}.jsonl")])


def _of_speed(row: Row, stored: Stored) -> list[tuple[dict[str, Any], tuple[str, str]]]:
    """Figures of a row, each with its host and its command."""
    if not row.speed:
        return []
    return [
        (one, (path.stem, part["command"]))
        for path in sorted((stored.folder / "performance").glob("*.json"))
        for part in stored[f"performance/{path.name}"]["parts"].values()
        for one in part["figures"]
        if one["name"].startswith(row.speed)
    ]


def _speed(row: Row, stored: Stored) -> str:
    """Figures of this software on hosts, with their range over rounds."""
    if not row.speed:
        return ""
    found = _of_speed(row, stored)
    cells = [
        [
            one["name"],
            host,
            f"{one['median']:.4g} [{one['low']:.4g}, {one['high']:.4g}] {one['unit']}",
            str(one["rounds"]),
        ]
        for one, (host, _) in found
    ]
    # Some were stored when each checkout had one report.
    commands = [
        command.replace(f"{_RESULTS}performance.json", f"{_RESULTS}performance/{host}.json")
        for _, (host, command) in found
    ]
    shown = "\n".join(f"$ {command}" for command in dict.fromkeys(map(of_today, commands)))
    return "\n\n".join(
        [
            "## Measured",
            table(["figure", "host", "median [least, most]", "rounds"], cells),
            f"```console\n{shown}\n```",
        ]
    )
