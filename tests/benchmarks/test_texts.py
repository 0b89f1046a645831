"""Texts are made of results."""

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmoss_benchmarks.study.store import find_root
from pmoss_benchmarks.texts.render import Pages, render_page
from pmoss_env.cli.app import make_app
from pmoss_env.errors import DescriptionError, UnsupportedError

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small copy: README with one block, and one study."""
    (tmp_path / "docs").mkdir()
    shutil.copytree(REPOSITORY / "docs" / "_templates", tmp_path / "docs" / "_templates")
    for name in ("studies/transfer.toml", "results/transfer.jsonl"):
        (tmp_path / "benchmarks" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "benchmarks" / name, tmp_path / "benchmarks" / name)
    block = '<!-- {{ rows("transfer") | length }} -->\nold\n<!-- end -->'
    (tmp_path / "README.md").write_text(f"# Title\n\n{block}\n\nWords.\n")
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["dev", "report", *words])
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    return result.exit_code, result.output


def test_a_text_that_differs_from_its_results_is_named_and_mended(checkout: Path) -> None:
    root = str(checkout)
    code, output = run("--check", "--root", root)
    assert code == 1
    assert "README.md: differs" in output
    assert "old" in (checkout / "README.md").read_text()
    assert run("--root", root)[0] == 0
    text = (checkout / "README.md").read_text()
    assert text.endswith("| length }} -->\n3\n<!-- end -->\n\nWords.\n")
    assert run("--check", "--root", root)[0] == 0
    # A figure that is changed by hand, and a result that is made anew.
    (checkout / "README.md").write_text(text.replace("\n3\n", "\n5\n"))
    assert run("--check", "--root", root)[0] == 1
    (checkout / "README.md").write_text(text)
    path = checkout / "benchmarks" / "results" / "transfer.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert run("--check", "--root", root)[0] == 1


def test_what_a_page_asks_for_in_vain_is_told() -> None:
    pages = Pages(REPOSITORY)
    with pytest.raises(DescriptionError, match="headrom"):
        pages.fill('<!-- {{ table("headrom") }} -->\n<!-- end -->\n', Path("page.md"))
    with pytest.raises(DescriptionError, match=r"page.md: .* has no end"):
        pages.fill("<!-- {{ demo() }} -->\nwords\n", Path("page.md"))
    with pytest.raises(DescriptionError, match=r"nothing.json: cannot be read"):
        pages.render('{{ report("nothing.json") }}', Path("page.md"))


def test_a_folder_outside_a_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="is in no checkout"):
        find_root(tmp_path)
    assert find_root(REPOSITORY / "tests") == REPOSITORY


def test_a_page_is_printed_with_its_tags_filled(checkout: Path) -> None:
    page = checkout / "docs" / "page.md"
    page.write_text('{{ rows("transfer") | length }} tasks\n')
    for named in (str(page), "docs/page.md"):
        assert run(named, "--root", str(checkout)) == (0, "3 tasks\n\n")
    with pytest.raises(DescriptionError, match=r"none.md: is no page of"):
        render_page(Pages(checkout), Path("none.md"))


def test_bars_show_what_the_code_of_a_page_printed(tmp_path: Path) -> None:
    pages = Pages(REPOSITORY, tmp_path)
    for name, labels in {
        "start/first-episode": ("random: ", "generalist-v1: "),
        "tutorials/measure-your-server": ("grouped: ", "lpt: ", "grouped, again: "),
        "tutorials/autopilot": ("epoch 1: ", "epoch 3: "),
    }.items():
        page = Path("docs", f"{name}.md")
        text = (REPOSITORY / page).read_text()
        pages.render(text, page)
        [drawn] = tmp_path.rglob(f"{page.stem}-*.svg")
        shown = re.findall(r'aria-label="(.*?)"', drawn.read_text())
        assert all(label in shown[0] for label in labels)
        with pytest.raises(DescriptionError, match=r"printed_bars\(1\): no figures in column 20"):
            pages.render(text + '{{ printed_bars(1, "words", "unit", 20) }}', page)
