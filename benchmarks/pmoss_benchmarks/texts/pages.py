"""The pages of a checkout that are made of results."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pmoss_benchmarks.texts.papers import FOLDER, read_rows
from pmoss_benchmarks.texts.render import Pages
from pmoss_env.files import write_atomically


@dataclass(frozen=True)
class Readme:
    """README.md as it lies there, and as the results would have it.

    Attributes:
        path: of the page.
        before: its text.
        after: its text with all blocks made anew.
    """

    path: Path
    before: str
    after: str

    @property
    def differs(self) -> bool:
        """Whether text and results differ."""
        return self.before != self.after


def make_readme(pages: Pages) -> Readme:
    """README.md of a checkout, made anew in memory; the tags of all other pages are tried.

    Raises:
        DescriptionError: a tag is wrong, or what it asks for is missing or damaged.
    """
    root = pages.root
    for path in sorted((root / "docs").rglob("*.md")):
        page = path.relative_to(root)
        if not page.is_relative_to(FOLDER):
            pages.render(path.read_text(encoding="utf-8"), page)
    path = root / "README.md"
    before = path.read_text(encoding="utf-8")
    return Readme(path, before, pages.fill(before, path.relative_to(root)))


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
