"""The results in short say what the tables below say."""

import re
from pathlib import Path

from pmoss_benchmarks.texts import summary
from pmoss_benchmarks.texts.pages import BLOCKS
from pmoss_benchmarks.texts.stored import Stored

STORED = Stored(Path(__file__).resolve().parents[3])
SHORT = summary.in_short(STORED)


def test_counts_are_those_of_the_tables() -> None:
    found = re.search(
        r"above the best rule on (\d+) of (\d+) tasks, "
        r"level with it on (\d+) and below it on (\d+)",
        SHORT,
    )
    assert found
    above, whole, level, below = map(int, found.groups())
    text = BLOCKS["standard-tasks"](STORED)
    assert f"Played are {whole} of" in text
    assert f"above the best rule on {above}, level with the best rule on {level}" in text
    assert above + level + below == whole


def test_the_range_over_the_papers_schedules_is_that_of_the_closed_load() -> None:
    found = re.search(r"serves ([\d.]+ to [\d.]+) times", SHORT)
    assert found
    closed = BLOCKS["servers"](STORED).split("Unbounded backlog.")[0]
    assert f"`surrogate` is {found[1]}." in closed


def test_links_lead_to_headings_of_the_page() -> None:
    page = STORED.root / "docs" / "benchmarks" / "results.md"
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    asked = set(re.findall(r"\]\(#([^)]+)\)", page.read_text(encoding="utf-8")))
    assert asked >= {"the-demo", "headroom-of-spatial-tasks"}
    assert asked <= anchors
