"""The pages of the papers: one for each row of ``docs/papers/papers.toml``, all of one template."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from pmoss_benchmarks.functions import validation
from pmoss_benchmarks.study.description import convert
from pmoss_benchmarks.study.store import Results
from pmoss_env.errors import UnknownNameError
from pmoss_env.files import read_toml

_PLACE = Path("docs") / "papers"
#: Where the pages go when the site is built, from the checkout; git ignores them.
FOLDER = _PLACE / "rows"
#: Titles of the papers in the order of the contents.
PAPERS = {
    "p-moss": "P-MOSS: Learned Scheduling For Indexes Over NUMA Servers Using Low-Level Hardware "
    "Statistics",
    "access-paths": "Adaptive Access Path Selection for Hardware-Accelerated DRAM Loads",
    "smart-scheduler": "Smart scheduler: an adaptive NVM-aware thread scheduling approach on NUMA "
    "systems",
}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of results; the head of the file says what the fields are."""

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
    most: float = 0.0
    verdict: str = ""
    text: str = ""

    @property
    def where(self) -> dict[str, list[str]]:
        """Fields of the rows with what learned: its plays, closed and under a backlog."""
        plays = self.plays or [f"same-task/{server}-btree-ycsb-a" for server in self.servers]
        track = plays[0].split("/")[0]
        backlog = "saturated" if track == "same-task" else f"{track}-saturated"
        return {"track": [track, backlog], "task": [play.split("/")[1] for play in plays]}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    row: list[Row]


@cache
def read_rows(root: Path) -> tuple[Row, ...]:
    """The rows of a checkout; none where it has no such file.

    Raises:
        DescriptionError: names the field and the reason.
    """
    path = root / _PLACE / "papers.toml"
    return read_toml(path, lambda data: tuple(convert(data, _File).row))


def names(root: Path, results: Results, to: Callable[[Path], str], folder: Path) -> dict[str, Any]:
    """What tags about the papers may call.

    Args:
        to: the way from the page that is rendered to a file of the checkout.
    """

    def paper(id_: str) -> str:
        """A link to the page of a row."""
        ids = [row.id for row in read_rows(root)]
        if id_ not in ids:
            raise UnknownNameError("row of the papers", id_, ids)
        return f"[{id_.upper()}]({to(folder / f'{id_}.md')})"

    def verdicts() -> list[validation.Verdict]:
        """Of every published statement."""
        judged, modelled = (results[name].rows for name in ("validation", "validation/model"))
        return list(validation.verdicts(judged, modelled).values())

    return {
        "paper": paper,
        "paper_rows": lambda: read_rows(root),
        "paper_titles": PAPERS,
        "verdicts": verdicts,
    }
