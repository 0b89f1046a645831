"""Every published statement is on a page of its paper, and every page has a figure of ours."""

import re
from pathlib import Path

import pytest

from pmoss_benchmarks.study.store import file_of
from pmoss_benchmarks.texts.papers import PAPERS, read_rows
from pmoss_benchmarks.texts.render import Pages, make_readme, write_papers

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"
ROWS = read_rows(ROOT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("papers")


@pytest.fixture(scope="module")
def pages(folder: Path) -> Pages:
    pages = Pages(ROOT, folder)
    assert len(write_papers(pages)) == len(ROWS)
    return pages


def test_texts_are_made_of_the_results_and_show_each_of_them(pages: Pages) -> None:
    before, after = make_readme(pages)
    assert before == after, "run pmoss dev report"
    assert set(pages.results) == set(pages.results.read)
    shown = (ROOT / "README.md").read_text() + (ROOT / "docs/_templates/demo.md.jinja").read_text()
    stores = {file_of(RESULTS, study) for study in pages.results}
    for path in {*RESULTS.rglob("*.*")} - stores - {*(RESULTS / "leaderboard").rglob("*.*")}:
        name = path.relative_to(RESULTS).as_posix()
        # What `pmoss demo` leaves there is in .gitignore.
        assert name in shown or name.startswith(("demo/demo.html", "demo/tuning")), path


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
