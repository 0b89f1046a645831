"""Pages of the documentation: Markdown with Jinja tags that are filled from stored rows.

A page below ``docs`` is rendered whenever the site is built. README.md is read where it lies, so
its blocks are filled in place::

    <!-- {{ table("core") }} -->
    ...
    <!-- end -->

No sentence stands here: sentences are in the pages, and shared ones in ``docs/_templates``.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pmoss_agents.configs import read_ranges
from pmoss_agents.demo.picture import Bar, draw_bars
from pmoss_benchmarks.functions.transcripts import BLOCK
from pmoss_benchmarks.leaderboard.board import standings
from pmoss_benchmarks.leaderboard.rounds import newest_round, rounds_of
from pmoss_benchmarks.study.function import load_function
from pmoss_benchmarks.study.store import Results, file_of
from pmoss_benchmarks.study.tables import interval, make_table, percent, select
from pmoss_benchmarks.texts import papers
from pmoss_datasets.domain import find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task, splits
from pmoss_env.counter_table import read_table
from pmoss_env.errors import (
    DatasetError,
    DescriptionError,
    PmossError,
    SubmissionError,
    UnknownNameError,
)
from pmoss_env.extras import require
from pmoss_env.files import write_atomically
from pmoss_env.machines import load_machine
from pmoss_env.pictures import write_svg

#: Pictures that pages show, from the checkout; git ignores them.
PICTURES = Path("docs") / "_pictures"
#: The study with what the code of pages prints.
TUTORIALS = "tutorials"
#: The line below a printed table's head, what separates its cells, and a figure with an interval.
_RULE = re.compile(r"[ ─]*─|[|-]*-\|")
_CELLS = re.compile(r" {2,}| \| ")
_FIGURE = re.compile(r"(-?\d[\d.]*)(?: \[(-?[\d.]+), (-?[\d.]+)\])?")
_BLOCK = re.compile(r"^<!-- (?P<tag>\{\{.*?\}\}) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


class Pages:
    """Renders the pages of a checkout.

    Args:
        out: folder of the papers' pages, with their pictures below; None: where the site's are.

    Raises:
        MissingExtraError: Jinja is not installed.
    """

    def __init__(self, root: Path, out: Path | None = None) -> None:
        require("jinja2")
        from jinja2 import FileSystemLoader, StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        self.root = root
        self.results = Results(root)
        self.papers = out or root / papers.FOLDER
        self.pictures = out / "pictures" if out else root / PICTURES
        self._environment = SandboxedEnvironment(
            loader=FileSystemLoader(root / "docs" / "_templates"),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.filters["tags"] = lambda text: self._environment.from_string(
            text
        ).render()
        about_papers = papers.names(root, self.results, self.to, self.papers)
        self._environment.globals.update({**self._names(), **about_papers})
        macros = self._environment.get_template("macros.md.jinja").module
        self._environment.globals.update(
            {name: value for name, value in vars(macros).items() if not name.startswith("_")}
        )
        template = self._environment.get_template("papers.md.jinja")
        self._environment.globals["papers"] = template.module
        self._page = Path("README.md")
        self._summaries: dict[str, Mapping[str, Any]] = {}

    def render(self, text: str, page: Path, **names: Any) -> str:
        """A text with its tags filled.

        Args:
            page: its path from the checkout: links lead from there, and errors name it.
            **names: that its tags have besides the usual ones.

        Raises:
            DescriptionError: a tag is wrong.
            PmossError: rows that a tag asks for are missing or damaged.
        """
        from jinja2 import TemplateError

        self._page = page
        try:
            return self._with_outputs(self._environment.from_string(text).render(**names), page)
        except TemplateError as error:
            line = f", line {error.lineno}" if getattr(error, "lineno", None) else ""  # type: ignore[attr-defined]
            raise DescriptionError(f"{page}{line}: {error.message}") from error
        except PmossError as error:
            raise DescriptionError(f"{page}: {error}") from error

    def _with_outputs(self, text: str, page: Path) -> str:
        """The text of a page with what its code printed below each block, if that is stored."""
        row = self._tutorial(page)
        if not row:
            return text
        if [match[3] for match in BLOCK.finditer(text)] != row["blocks"]:
            raise DescriptionError(f"its code differs from the stored one: run study {TUTORIALS}")
        outputs = iter(row["output"])
        where = f"On a host with {row['host']} this printed:\n\n" if row.get("host") else ""

        def with_output(match: re.Match[str]) -> str:
            output = next(outputs)
            return f"{match[0]}\n\n{where}````text\n{output}\n````" if output else match[0]

        return BLOCK.sub(with_output, text)

    def _tutorial(self, page: Path) -> Mapping[str, Any]:
        """What the code of a page printed; empty if that is not stored."""
        stored = self.results[TUTORIALS].rows if TUTORIALS in self.results else []
        return next((row for row in stored if row["asked"] == page.as_posix()), {})

    def fill(self, text: str, page: Path) -> str:
        """A text whose marked blocks are filled in place; see render()."""

        def anew(match: re.Match[str]) -> str:
            return f"<!-- {match['tag']} -->\n{self.render(match['tag'], page)}\n<!-- end -->"

        if text.count("<!-- {{") != len(_BLOCK.findall(text)):
            raise DescriptionError(f"{page}: a block has no end: close it with <!-- end -->")
        return _BLOCK.sub(anew, text)

    def _names(self) -> dict[str, Callable[..., Any]]:
        """What tags may call."""
        return {
            "bars": self._bars,
            "counter_table": read_table,
            "function": load_function,
            "information_of": find_domain(FIRST_DOMAIN).knows,
            "link": self._link,
            "load_machine": load_machine,
            "load_task": load_task,
            "plot": self._plot,
            "printed_bars": self._printed_bars,
            "ranges": read_ranges,
            "report": self._report,
            "newest_standings": self._newest_standings,
            "rounds": lambda: rounds_of(self._board),
            "row": self._row,
            "rows": self._rows,
            "runs": self._runs,
            "settings": lambda study: self.results[study].settings,
            "splits": splits,
            "studies": self._studies,
            "study": self.results.study,
            "summaries": self._summaries_of,
            "summary": self._summary,
            "table": self._table,
            "to_page": lambda path: self.to(Path(path)),
        }

    def to(self, path: Path) -> str:
        """The way from the page to a file of the checkout, or to any absolute path."""
        return os.path.relpath(self.root / path, self.root / self._page.parent)

    def _table(self, study: str, name: str = "default", **where: Any) -> str:
        stored = self.results[study]
        return make_table(self.results.study(study), stored, name, **where).as_markdown()

    def _plot(self, study: str, name: str, words: str, file: str = "", **where: Any) -> str:
        """A picture of a study's rows with these fields, and the words that stand in its place.

        It is drawn to PICTURES when a page that shows it is rendered; ``file`` names it where
        fields do not.
        """
        plots = getattr(load_function(self.results.study(study).function), "PLOTS", {})
        if name not in plots:
            raise UnknownNameError(f"plot of {study}", name, plots)
        file = file or "-".join([study.replace("/", "-"), name, *where.values()])
        path = self.pictures / f"{file}.svg"
        write_svg(plots[name](self._rows(study, **where)), path)
        return f"![{words}]({self.to(path)})"

    def _bars(
        self, file: str, words: str, unit: str, bars: Sequence[Sequence[Any]], digits: int = 1
    ) -> str:
        """A picture of bars, drawn to PICTURES as ``file``; each has the fields of a Bar."""
        path = self.pictures / f"{file}.svg"
        write_atomically(path, draw_bars([Bar(*bar) for bar in bars], unit, digits))
        return f"![{words}]({self.to(path)})"

    def _printed_bars(
        self,
        block: int,
        words: str,
        unit: str,
        column: int,
        learned: Sequence[str] = (),
        digits: int = 1,
    ) -> str:
        """A picture of a column of the first table that a block of the page printed.

        Args:
            block: its number, from 0.
            learned: the rows of agents.

        Raises:
            DescriptionError: no such output is stored, or it has no such figures.
        """
        outputs = self._tutorial(self._page).get("output", [])
        rows = _figures(outputs[block], column) if block < len(outputs) else []
        if not rows:
            raise DescriptionError(f"printed_bars({block}): no figures in column {column}")
        bars = [
            (name, value, "learned" if name in learned else "rule", *interval_)
            for name, value, *interval_ in rows
        ]
        return self._bars(f"{self._page.stem}-{block}", words, unit, bars, digits)

    def _report(self, name: str) -> Any:
        """A JSON file by its path below the results."""
        path = self.results.folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DatasetError(f"{path}: cannot be read: {error}") from error

    def _rows(self, study: str, **where: Any) -> list[Mapping[str, Any]]:
        return select(self.results[study], **where)

    def _runs(self, study: str, **where: Any) -> list[Mapping[str, Any]]:
        """What made the rows with these fields."""
        stored = self.results[study]
        return [stored.runs[name] for name in {row["run"]: 0 for row in self._rows(study, **where)}]

    def _row(self, study: str, **where: Any) -> Mapping[str, Any]:
        """The one row with these fields."""
        rows = self._rows(study, **where)
        if len(rows) != 1:
            raise DescriptionError(f"row({study!r}, {where}): {len(rows)} rows have these fields")
        return rows[0]

    @property
    def _board(self) -> Path:
        return self.results.folder / "leaderboard"

    def _newest_standings(self, name: str) -> Mapping[str, Any]:
        """The standings in a tier of the newest round that is revealed."""
        round_ = newest_round(self._board, revealed=True)
        ranked, problems = standings(self._board, round_, round_.tier(name))
        if problems:
            raise SubmissionError(problems[0])
        return {"round": round_.name, "tier": round_.tier(name), "standings": ranked}

    def _studies(self, pattern: str, *without: str) -> list[str]:
        """The studies with rows whose names match a pattern of the shell, and no other one."""
        return [
            name
            for name in self.results
            if fnmatch.fnmatch(name, pattern)
            and not any(fnmatch.fnmatch(name, other) for other in without)
        ]

    def _summaries_of(self, pattern: str, *without: str) -> list[Mapping[str, Any]]:
        """The summaries of the studies that _studies() gives."""
        return [self._summary(name) for name in self._studies(pattern, *without)]

    def _summary(self, study: str) -> Mapping[str, Any]:
        """What the function of a study says of all its rows."""
        if study not in self._summaries:
            stored = self.results[study]
            function = load_function(self.results.study(study).function)
            self._summaries[study] = function.summarise(stored.settings, stored.rows)
        return self._summaries[study]

    def _link(self, study: str) -> str:
        """A link from the page to the rows of a study."""
        path = file_of(self.results.folder, study)
        return f"[`{path.name}`]({self.to(path)})"


#: Forms of numbers in tags, e.g. ``{{ gain | percent }}``, and rows by a field.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "by": lambda rows, field: {row[field]: row for row in rows},
    "extract": lambda name, mapping: mapping[name],
    "fixed": lambda value, digits=1: f"{value:.{digits}f}",
    "hex": hex,
    "interval": interval,
    "percent": percent,
    "thousands": lambda number: f"{number:,}",
}


def _figures(output: str, column: int) -> list[list[Any]]:
    """Name and figure of each row of a printed table, and the figure's interval if it has one."""
    lines = output.splitlines()
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line)]
    rows: list[list[Any]] = []
    for line in lines[rules[0] + 1 if rules else 0 :]:
        if rules and not line:
            break
        name, *cells = _CELLS.split(line.strip(" |"))
        figure = _FIGURE.match(cells[column - 1]) if len(cells) > column else None
        if figure:
            rows.append([name, *(float(part) for part in figure.groups() if part)])
        elif rules and rows and re.match(r" {1,2}\S", line):  # the rest of a name
            rows[-1][0] += f" {name}"
    return rows


@cache
def pages_of(root: Path) -> Pages:
    """The pages of a checkout: its results are read once."""
    return Pages(root)


def make_readme(pages: Pages) -> tuple[str, str]:
    """README.md as it lies there, and with all blocks made anew; all other pages are tried.

    Raises:
        DescriptionError: a tag is wrong, or what it asks for is missing or damaged.
    """
    root = pages.root
    for path in sorted((root / "docs").rglob("*.md")):
        page = path.relative_to(root)
        if not page.is_relative_to(papers.FOLDER):
            pages.render(path.read_text(encoding="utf-8"), page)
    before = (root / "README.md").read_text(encoding="utf-8")
    return before, pages.fill(before, Path("README.md"))


def render_page(pages: Pages, path: Path) -> str:
    """A page of the checkout, by its path or one from the checkout, with its tags filled.

    Raises:
        DescriptionError: it cannot be read, lies elsewhere, or a tag is wrong.
    """
    path = path if path.is_file() else pages.root / path
    try:
        page = path.resolve().relative_to(pages.root)
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it lies elsewhere"
        raise DescriptionError(f"{path}: is no page of this checkout: {reason}") from error
    return pages.render(text, page)


def write_papers(pages: Pages) -> list[Path]:
    """Makes the pages of the papers in their folder, and returns them in the order of the rows."""
    template = (pages.root / "docs" / "_templates" / "paper.md.jinja").read_text(encoding="utf-8")
    written = []
    for row in papers.read_rows(pages.root):
        path = pages.papers / f"{row.id}.md"
        text = pages.render(template, Path(os.path.relpath(path, pages.root)), result=row)
        text = re.sub(r"\n{3,}", "\n\n", text)
        # Sphinx reads again what is newer.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
        written.append(path)
    return written
