"""Pages: whole without anything else, readable in light and dark, and true to the tables."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pmoss_agents.explaining.episodes import write_pages
from pmoss_agents.explaining.measuring import explain
from pmoss_agents.explaining.page import explain_page
from pmoss_datasets import Recipe, collect
from pmoss_datasets.catalog import load
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_datasets.suite import SHIPPED
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DatasetError
from tests.cli.invoking import pmoss

VOID = {"meta", "br", "link", "img", "hr"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed in the wrong place."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(a="os-default", b="lpt", **kwargs):
    env = SPATIAL.make_env({"reward": "terminal", "slices": 64, **kwargs})
    comparison = explain(env, 0, {name: make_baseline(name, shared=True) for name in (a, b)})
    env.close()
    return comparison, explain_page(comparison, "a task <with> signs & more")


@pytest.fixture(scope="module")
def made():
    return page(interference="busy_core")


@pytest.mark.parametrize("machine", ["toy", "skylake-x-8n", "milan-nps4", "random:7"])
def test_every_machine_gets_a_whole_page(machine):
    _, text = page("grouped", "lpt", machine=machine)
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == [] and "script" not in parser.seen
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(svg)


def test_the_page_needs_nothing_else(made):
    _, text = made
    assert not re.search(r"https?://|@import|url\(|src=|@font-face", text)
    assert "a task &lt;with&gt; signs &amp; more" in text


def test_every_worker_and_its_slices_are_drawn(made):
    comparison, text = made
    root = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", text, re.S)[1])
    groups = {g.find("title").text: g for g in root.iter("g")}
    cores = [title for title in groups if re.match(r"core \d+, node", title)]
    machine = comparison.machine
    assert len(cores) == machine.workers.size
    schedule = comparison.after.schedule
    counts = np.bincount(schedule.cores, minlength=machine.cores)
    for title in cores:
        core = int(re.match(r"core (\d+)", title)[1])
        plural = "" if counts[core] == 1 else "s"
        assert re.search(rf"\b{counts[core]} slice{plural}\b", title)
        drawn = [r for r in groups[title].iter("rect") if r.get("class").startswith("s")]
        assert len(drawn) == counts[core]
        heights = sum(float(r.get("height")) for r in drawn)
        busy = comparison.after.snapshot.counter("elapsed_us")[schedule.cores == core].sum()
        assert heights == pytest.approx(34 * busy, abs=0.05 * (1 + counts[core]))


def test_data_that_the_kernel_left_elsewhere_are_reported(made, capsys):
    from pmoss_agents.cli.explain import _print

    comparison, text = made
    assert "are not where" not in text
    away = {"data": {"not_in_place": {"3": "the node is <full>"}}}
    after = replace(comparison.after, snapshot=replace(comparison.after.snapshot, provenance=away))
    comparison = replace(comparison, after=after)
    text = explain_page(comparison, "a task")
    sentence = f"Data of 1 slices are not where {after.name} places them:"
    assert f"<p>{sentence}<br>  slice 3: the node is &lt;full&gt;</p>" in text
    _print(comparison, 1)
    assert f"{sentence}\n  slice 3: the node is <full>\n" in capsys.readouterr().out


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
