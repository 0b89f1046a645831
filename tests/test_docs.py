"""The documentation site: it builds without a warning, and its tutorials do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pmoss_env import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
#: Their blocks follow each other, in one folder.
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "start" / "first-episode.md"]
BLOCK = re.compile(r"^```(python|console)(?: file=(\S+))?\n(.*?)^```", re.M | re.S)


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
        "reference/commands.html": ("pmoss datasets verify", "--rebuild", "pmoss train"),
        "reference/catalogues.html": ("milan-nps4", "ycsb-a", "surrogate", "pmoss/toy-v0"),
        "datasets/cards.html": ("Trajectory quality", "mixed-v0"),
        "development/contributing.html": ("Add a machine",),
    }
    for page, words in shown.items():
        text = (site / page).read_text()
        for word in words:
            assert word in text, f"{page}: {word}"


def test_links_lead_to_files_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="(?!\w+:|//)([^"#?]+)', page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"


def test_figures_stay_whole_and_pictures_have_captions(site: Path) -> None:
    text = (site / "benchmarks" / "leaderboard.html").read_text()
    assert re.search(r'<td class="figure-cell"><p>[\d.]+ \[[\d.]+, [\d.]+\]</p></td>', text)
    assert "<figcaption>" in (site / "start" / "demo.html").read_text()


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    for kind, file, text in blocks:
        if file:
            (tmp_path / file).write_text(text)
            continue
        words = [sys.executable, "-c", text]
        if kind == "console":
            commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            words = ["sh", "-ec", "\n".join(commands)]
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
