"""Every published statement is on a page of its paper, and every page has a figure of ours."""

import re
from pathlib import Path

import pytest

from pmoss_benchmarks.functions.validation import verdicts
from pmoss_benchmarks.study.store import file_of
from pmoss_benchmarks.texts.pages import make_readme, write_papers
from pmoss_benchmarks.texts.papers import PAPERS, read_rows
from pmoss_benchmarks.texts.render import Pages

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"
ROWS = read_rows(ROOT)
#: Sources of statements that are none of the three papers.
OTHERS = ("PROFET", "P-MOSS's published snapshot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("papers")


@pytest.fixture(scope="module")
def pages(folder: Path) -> Pages:
    pages = Pages(ROOT, folder)
    assert len(write_papers(pages)) == len(ROWS)
    return pages


def test_texts_are_made_of_the_results_and_show_each_of_them(pages: Pages) -> None:
    assert not make_readme(pages).differs, "run pmoss dev report"
    assert set(pages.results) == set(pages.results.read)
    shown = (ROOT / "README.md").read_text() + (ROOT / "docs/_templates/demo.md.jinja").read_text()
    stores = {file_of(RESULTS, study) for study in pages.results}
    for path in {*RESULTS.rglob("*.*")} - stores - {*(RESULTS / "leaderboard").rglob("*.*")}:
        name = path.relative_to(RESULTS).as_posix()
        # What `pmoss demo` leaves there is in .gitignore.
        assert name in shown or name.startswith(("demo/demo.html", "demo/tuning")), path


def test_no_statement_is_left_out(pages: Pages) -> None:
    shown = [number for row in ROWS for number in row.statements]
    targets = [one.target for one in verdicts([], []).values()]
    asked = [one.number for one in targets if not one.source.startswith(OTHERS)]
    assert sorted(shown) == sorted(asked)


def test_every_figure_of_threads_and_scans_is_shown(pages: Pages) -> None:
    names = tuple(name for row in ROWS for name in row.threads)
    # What the paper names as future work has no row of its own.
    for one in pages.results["threads"].rows[0]["statements"]:
        assert one["statement"].startswith((*names, "sum of the seven")), one["statement"]
    names = tuple(name for row in ROWS for name in row.scans)
    for one in pages.results["access-path"].rows[0]["statements"]:
        assert one["what"].startswith(names), one["what"]


def test_a_reader_finds_a_number_in_two_clicks(folder: Path, pages: Pages) -> None:
    index = Path("docs/papers/index.md")
    contents = pages.render((ROOT / index).read_text(), index)
    assert {f"{row.id}.md" for row in ROWS} == {path.name for path in folder.glob("*.md")}
    for row in ROWS:
        assert row.paper in PAPERS and f"](rows/{row.id}.md)" in contents
        page = (folder / f"{row.id}.md").read_text()
        assert row.value in page and row.section in page and "$ pmoss" in page
        assert "\n## " in page, row.id
        assert "{{" not in page and "\n\n\n" not in page


def test_links_and_pictures_of_pages_are_there(folder: Path, pages: Pages) -> None:
    for path in folder.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
    # What the paper draws: throughput by schedule and server, and counters by core.
    for number in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17):
        assert ".svg)" in (folder / f"d{number}.md").read_text(), number


def test_rows_of_the_paper_have_a_learned_figure_or_say_why_not() -> None:
    for row in ROWS:
        if row.id.startswith("d") and row.id != "d17":
            assert row.learned or "No policy learns in this row" in row.text, row.id


def test_what_lies_outside_has_its_cause_and_what_the_switches_show(
    folder: Path, pages: Pages
) -> None:
    page = (folder / "d16.md").read_text()
    assert "- 20. Cause: a search under closed load stands in" in page
    assert "Inside with: closed load (" in page
    (line,) = [line for line in page.splitlines() if line.startswith("| closed load |")]
    assert line.count("**") == 4, "bold figures lie inside"
