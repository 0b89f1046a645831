"""Pages of a dataset's episodes: whole, linked, without scripts, for every domain."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pmoss_agents.explaining.episodes import write_pages
from pmoss_datasets import Recipe, collect
from pmoss_datasets.catalog import load
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DatasetError
from tests.cli.invoking import pmoss


class Links(HTMLParser):
    """Targets of links, and the names of all elements."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.elements: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.targets += [str(value) for name, value in attrs if name == "href"]


def test_pages_lead_to_episodes_and_back(tmp_path: Path) -> None:
    said = pmoss("data", "browse", SHIPPED[0], str(tmp_path / "pages"), "--pages", "3")
    assert "open file://" in said
    folder, dataset = tmp_path / "pages", load(SHIPPED[0])
    for page in folder.iterdir():
        links = Links(page)
        assert "script" not in links.elements
        assert {folder / target for target in links.targets} <= set(folder.iterdir())
    first = (folder / "index.html").read_text()
    assert first.count("<circle") == len(dataset) + len({*dataset.column("policy")})
    outcome = dataset.column("final_throughput")
    for number in (outcome.argmin(), outcome.argmax()):
        text = (folder / f"episode-{number}.html").read_text()
        assert f"{outcome[number]:.1f}" in text and "On the chip" in text
    assert len(list(folder.iterdir())) == 4
    with pytest.raises(DatasetError, match="exists already"):
        write_pages(dataset, folder)


def test_other_domains_have_one_page(tmp_path: Path) -> None:
    recipe = Recipe(
        domain="threads", env={"requests": 20_000}, episodes=2, tier="random", reference_episodes=0
    )
    first = write_pages(collect(recipe, tmp_path / "data"), tmp_path / "pages")
    assert [page.name for page in first.parent.iterdir()] == ["index.html"]
    assert re.search(r"2 episodes, [\d.]+ ", first.read_text())
