"""Snippets of README and docs run, commands exist, and pages name code that is there."""

import re
import sys
from pathlib import Path

import pytest

from tests.native.builds import run
from tests.sources import REPOSITORY, sources

PAGES = [
    path
    for path in sources(".md")
    if (path.name == "README.md" and path.parent == REPOSITORY)
    or path.is_relative_to(REPOSITORY / "docs")
]
TEXTS = {path: path.read_text() for path in PAGES}
SNIPPETS = [
    snippet
    for path, text in TEXTS.items()
    if path.parent.name != "tutorials" and path.stem != "first-episode"
    for snippet in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
]


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 8


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number: int, tmp_path: Path) -> None:
    run(sys.executable, "-c", SNIPPETS[number], cwd=tmp_path)


def test_pictures_and_files_exist() -> None:
    for page, text in TEXTS.items():
        # Code may hold what looks like a link, such as a lambda of C++.
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


REPOSITORY = Path(__file__).resolve().parents[1]
MAPS = ("episode.md", "gradient.md")
_ROW = re.compile(r"^\|[^|]*\| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("page", MAPS)
def test_a_page_names_definitions(page: str) -> None:
    text = (REPOSITORY / "docs/development" / page).read_text(encoding="utf-8")
    rows = _ROW.findall(text)
    assert len(rows) >= 10
    for path, name in rows:
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        definition = rf"(def|class|struct) {name}\b|^[\w:<>&* ]*\b{name}\([^)]*[,)]"
        assert re.search(definition, source, re.MULTILINE), (path, name)


@pytest.mark.parametrize("page", MAPS)
def test_a_page_names_paths(page: str) -> None:
    text = (REPOSITORY / "docs/development" / page).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:agents|datasets|native|pmoss_env)/[^`]+)`", text):
        assert (REPOSITORY / path).exists(), path
