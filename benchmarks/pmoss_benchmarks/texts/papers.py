"""The pages of the papers: one for each row of ``docs/papers/papers.toml``, all of one template."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from pmoss_benchmarks.functions import validation
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.texts import counter_changes, learned
from pmoss_benchmarks.texts.stored import Stored
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import read_toml, write_atomically

_PLACE = Path("docs") / "papers"
#: Where the pages go when the site is built, from the checkout; git ignores them.
FOLDER = _PLACE / "rows"
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


class _File(msgspec.Struct, forbid_unknown_fields=True):
    row: list[Row]


@cache
def read_rows(root: Path) -> tuple[Row, ...]:
    """The rows of a checkout; none where it has no such file.

    Raises:
        DescriptionError: names the field and the reason.
    """

    def build(data: dict[str, Any]) -> tuple[Row, ...]:
        try:
            return tuple(msgspec.convert(data, _File).row)
        except msgspec.ValidationError as error:
            raise DescriptionError(str(error)) from error

    return read_toml(root / _PLACE / "papers.toml", build)


#: The way from the page that is rendered to a file of the checkout.
To = Callable[[Path], str]


def names(root: Path, results: Results, to: To, folder: Path, pictures: Path) -> dict[str, Any]:
    """What tags about the papers may call.

    Args:
        root: of the checkout.
        results: of the checkout.
        to: for links.
        folder: of the papers' pages.
        pictures: folder of pictures.
    """
    stored = Stored(root)

    def paper(id_: str) -> str:
        """A link to the page of a row."""
        ids = [row.id for row in read_rows(root)]
        if id_ not in ids:
            raise UnknownNameError("row of the papers", id_, ids)
        return f"[{id_.upper()}]({to(folder / f'{id_}.md')})"

    def verdicts() -> list[validation.Verdict]:
        """Of every published statement."""
        judged, switched = (results[name].rows for name in ("validation", "validation/switches"))
        return list(validation.verdicts(judged, switched).values())

    return {
        "block": lambda name: _block(name, stored, to, pictures),
        "learned": lambda row: _led(_learned(row, stored, to, pictures), to),
        "paper": paper,
        "paper_rows": lambda: read_rows(root),
        "paper_titles": {paper: title for paper, (_, title) in PAPERS.items()},
        "throughputs": lambda task: learned.throughputs(
            stored, learned.MACHINES, "same-task", task
        ),
        "verdicts": verdicts,
    }


def _standing(stored: Stored) -> str:
    """What the learned policies were played on, below the heading of the page."""
    return learned.standing(stored).partition("\n\n")[2]


_BLOCKS = {
    "counter-changes": counter_changes.section,
    "counter-changes-verdict": counter_changes.verdict,
    "learned-standing": _standing,
}


def _block(name: str, stored: Stored, to: To, pictures: Path) -> str:
    text = _led(_BLOCKS[name](stored), to)
    if name == "counter-changes":
        for file, drawn in counter_changes.pictures(stored).items():
            write_atomically(pictures / file, drawn)
            text = text.replace(f"]({file})", f"]({to(pictures / file)})")
    return text


def _led(text: str, to: To) -> str:
    """A text of a page below docs/papers whose links lead on from the page that is rendered."""
    text = text.replace("](benchmarks/", f"]({to(Path('benchmarks'))}/")
    return text.replace("](../benchmarks/", f"]({to(Path('docs/benchmarks'))}/")


def _learned(row: Row, stored: Stored, to: To, pictures: Path) -> str:
    """What learned: the paper's own method, and this project's agent."""
    suite = learned.MACHINES if row.servers else learned.PAPER
    plays = [f"same-task/{server}-btree-ycsb-a" for server in row.servers] or row.plays
    shown = ""
    if drawn := learned.picture(suite, plays, stored):
        path = pictures / f"paper-{row.id}.svg"
        write_atomically(path, drawn)
        shown = f"![Throughput of each schedule, in Mq/s]({to(path)})"
    if row.servers:
        return learned.servers(row.learned, row.servers, shown, stored)
    return learned.pairs(row.learned, row.plays, shown, stored)
