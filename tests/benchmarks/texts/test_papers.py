"""Every published statement is on a page of its paper, and every page has a figure of ours."""

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
