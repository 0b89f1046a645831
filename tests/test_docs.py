"""The documentation site: it builds without a warning, and its tutorials do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pmoss_benchmarks.functions.transcripts import BLOCK, run_block
from pmoss_benchmarks.study.store import Results
from pmoss_env import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
#: Their blocks follow each other, in one folder.
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "start" / "first-episode.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it was built; links and cross-references that lead nowhere are warnings."""
    pytest.importorskip("sphinx", reason="NOT RUN: the extra docs is missing")
    folder = tmp_path_factory.mktemp("site")
    words = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(DOCS), str(folder / "html")],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_in_the_contents(site: Path) -> None:
    start = (site / "index.html").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert name == "index.html" or f'href="{name}"' in start, name


def test_what_is_generated_stands_there(site: Path) -> None:
    shown = {
        "environments/spatial.html": ("position_mask", "Action Space"),
        "environments/continual.html": ("moves_left", "Rewards"),
        "reference/commands.html": ("pmoss data verify", "pmoss train"),
        "reference/commands/data-verify.html": ("pmoss data verify", "--rebuild"),
        "reference/catalogues.html": ("milan-nps4", "ycsb-a", "surrogate", "pmoss/toy-v0"),
        "datasets/cards.html": ("Trajectory quality", "mixed-v0"),
        "development/contributing.html": ("Set up", "Add a machine"),
        "extend/machine.html": ("lstopo",),
        "extend/environment.html": ("Add an environment",),
    }
    for page, words in shown.items():
        text = (site / page).read_text()
        for word in words:
            assert word in text, f"{page}: {word}"


def test_links_lead_to_files_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="(?!\w+:|//)([^"#?]+)', page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()


STORED = {row["asked"]: row for row in Results(REPOSITORY)["tutorials"].rows}


def words_of(output: str) -> set[str]:
    """What an output says on every processor: its words, without numbers and rules of tables."""
    return {*re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", output.replace("─", " ")).split()}


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    printed = [run_block(language, file, code, tmp_path) for language, file, code in blocks]
    name = page.relative_to(REPOSITORY).as_posix()
    if name in STORED:
        assert [code for _, _, code in blocks] == STORED[name]["blocks"]
        assert [bool(output) for output in printed] == [bool(one) for one in STORED[name]["output"]]
        if not STORED[name].get("host"):
            for ours, shown in zip(printed, STORED[name]["output"], strict=True):
                assert words_of(ours) == words_of(shown)
