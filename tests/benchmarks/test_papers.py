"""Every published statement is on a page of its paper, and every page has a figure of ours."""

import re
from pathlib import Path
from xml.etree import ElementTree

from pmoss_benchmarks.texts.papers import PAPERS, pages, read_rows
from pmoss_benchmarks.texts.stored import Stored

STORED = Stored(Path(__file__).resolve().parents[2])
#: Sources of statements that are none of the three papers.
OTHERS = ("PROFET", "P-MOSS's published snapshot")


def test_no_statement_is_left_out() -> None:
    told = [number for row in read_rows() for number in row.statements]
    asked = [v["number"] for v in STORED.validation if not v["source"].startswith(OTHERS)]
    assert sorted(told) == sorted(asked)


def test_every_row_of_threads_and_scans_is_told() -> None:
    rows = read_rows()
    names = tuple(name for row in rows for name in row.threads)
    # What the paper names as future work has no row of its own.
    for one in STORED["threads"]["rows"]:
        assert one["statement"].startswith((*names, "sum of the seven")), one["statement"]
    names = tuple(name for row in rows for name in row.scans)
    for one in STORED["access-path"]["rows"]:
        assert one["what"].startswith(names), one["what"]


def test_a_reader_finds_his_number_in_two_clicks() -> None:
    made = pages(STORED)
    rows = read_rows()
    assert {f"{row.id}.md" for row in rows} | {"index.md"} == {
        name for name in made if name.endswith(".md")
    }
    for row in rows:
        assert row.paper in PAPERS and f"]({row.id}.md)" in made["index.md"]
        page = made[f"{row.id}.md"]
        assert row.value in page and row.section in page and "$ pmoss" in page
        assert "\n## " in page or row.blocks, row.id


def test_every_picture_is_shown_on_its_page() -> None:
    made = pages(STORED)
    pictures = {name for name in made if name.endswith(".svg")}
    shown = [
        link
        for name, text in made.items()
        if name.endswith(".md")
        for link in re.findall(r"!\[[^]]+\]\((\S+)\)", text)
    ]
    assert set(shown) == pictures
    # What the paper draws: throughput by schedule and server, and counters by core.
    for number in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16):
        assert ".svg)" in made[f"d{number}.md"], number
    for name in pictures:
        ElementTree.fromstring(made[name])


def test_rows_of_the_paper_have_a_learned_figure_or_say_why_not() -> None:
    for row in read_rows():
        if row.id.startswith("d"):
            learned = row.learned or "counter-changes" in row.blocks
            assert learned or row.note.startswith("No policy learns in this row"), row.id
