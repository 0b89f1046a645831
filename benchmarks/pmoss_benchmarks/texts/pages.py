"""Pages with generated blocks.

A block of a page stands between two comments::

    <!-- results: NAME -->
    ...
    <!-- end of results -->
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pmoss_benchmarks.texts import (
    offline,
    spatial,
    summary,
)
from pmoss_benchmarks.texts.papers import FOLDER, read_rows
from pmoss_benchmarks.texts.render import Pages
from pmoss_benchmarks.texts.stored import Stored
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.files import write_atomically

Block = Callable[[Stored], str]
BLOCKS: Mapping[str, Block] = {
    **spatial.BLOCKS,
    **offline.BLOCKS,
    **summary.BLOCKS,
}
_END = "<!-- end of results -->"
_MARKED = re.compile(
    rf"^<!-- results: (?P<name>[a-z-]+) -->\n.*?^{re.escape(_END)}$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Page:
    """A page as it lies there, and as the results would have it.

    Attributes:
        path: of the page.
        before: its text.
        after: its text with all blocks made anew.
        blocks: how many blocks it has.
    """

    path: Path
    before: str
    after: str
    blocks: int

    @property
    def differs(self) -> bool:
        """Whether text and results differ."""
        return self.before != self.after


def make_pages(root: Path) -> list[Page]:
    """Every page with figures of a checkout, made anew in memory.

    Args:
        root: of the checkout.

    Raises:
        UnknownNameError: a page asks for a block that there is not.
        DescriptionError: a block has no end.
        DatasetError: a result is missing or damaged.
    """
    stored, tags = Stored(root), Pages(root)
    pages = []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        page = path.relative_to(root)
        if page.is_relative_to(FOLDER):
            continue
        before = path.read_text(encoding="utf-8")
        after, blocks = fill(before, stored, path.name, "../" * (len(page.parts) - 1))
        if path.name == "README.md":
            after, blocks = tags.fill(after, page), blocks + after.count("<!-- {{")
        else:
            # Its tags are filled when the site is built: here they are only tried.
            tags.render(before, page)
        if blocks:
            pages.append(Page(path, before, after, blocks))
    return pages


def write_papers(pages: Pages) -> list[Path]:
    """Makes the pages of the papers in their folder, and returns them in the order of the rows."""
    template = (pages.root / "docs" / "_templates" / "paper.md.jinja").read_text(encoding="utf-8")
    written = []
    for row in read_rows(pages.root):
        path = pages.papers / f"{row.id}.md"
        text = pages.render(template, Path(os.path.relpath(path, pages.root)), result=row)
        text = re.sub(r"\n{3,}", "\n\n", text)
        # Sphinx reads again what is newer.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
        written.append(path)
    return written


def fill(text: str, stored: Stored, name: str, up: str = "") -> tuple[str, int]:
    """A text with its blocks made anew, and their number.

    Args:
        text: of a page.
        stored: the results.
        name: of the page, for errors.
        up: the way from the page's folder to the checkout; blocks link from there.
    """

    def anew(match: re.Match[str]) -> str:
        block = match["name"]
        if block not in BLOCKS:
            raise UnknownNameError("block of results", block, BLOCKS)
        made = BLOCKS[block](stored).strip().replace("](benchmarks/", f"]({up}benchmarks/")
        return f"<!-- results: {block} -->\n{made}\n{_END}"

    starts = text.count("<!-- results: ")
    filled, found = _MARKED.subn(anew, text)
    if found != starts or text.count(_END) != starts:
        raise DescriptionError(f"{name}: a block of results has no end: close it with {_END}")
    return filled, found
