"""The pages that lead through the code name files and definitions that are there."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = ("episode.md", "gradient.md")
_ROW = re.compile(r"^\|[^|]*\| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_definitions(page: str) -> None:
    text = (REPOSITORY / "docs/development" / page).read_text(encoding="utf-8")
    rows = _ROW.findall(text)
    assert len(rows) >= 10
    for path, name in rows:
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        definition = rf"(def|class|struct) {name}\b|^[\w:<>&* ]*\b{name}\([^)]*[,)]"
        assert re.search(definition, source, re.MULTILINE), (path, name)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_paths(page: str) -> None:
    text = (REPOSITORY / "docs/development" / page).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:agents|datasets|native|pmoss_env)/[^`]+)`", text):
        assert (REPOSITORY / path).exists(), path
