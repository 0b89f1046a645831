"""The documentation builds, its tutorials and snippets run, and its pages name what is there."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pmoss_benchmarks.functions.transcripts import BLOCK, run_block
from pmoss_benchmarks.study.store import Results
from pmoss_env import __version__
from tests.native.builds import run
from tests.sources import REPOSITORY, sources

DOCS = REPOSITORY / "docs"
#: Their blocks follow each other, in one folder.
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "start" / "first-episode.md"]
#: Opens the pages of a list, in a width and a theme, and writes down what the reader gets.
READER = """<!doctype html><pre id="read"></pre><script>
const [pages, width, theme] = %s;
localStorage.setItem("theme", theme);
(async () => {
  const read = {};
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 844px; border: 0`;
    frame.src = page;
    document.body.append(frame);
    await new Promise(loaded => (frame.onload = loaded));
    const {body, documentElement} = frame.contentDocument;
    read[page] = [documentElement.scrollWidth, getComputedStyle(body).backgroundColor];
    frame.remove();
  }
  document.getElementById("read").textContent = JSON.stringify(read);
})();
</script>"""


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


def test_figures_stay_whole_and_pictures_have_captions(site: Path) -> None:
    text = (site / "benchmarks" / "leaderboard.html").read_text()
    assert re.search(r'<td class="figure-cell"><p>[\d.]+ \[[\d.]+, [\d.]+\]</p></td>', text)
    assert "<figcaption>" in (site / "start" / "demo.html").read_text()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """A test has no log."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where a browser finds the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def browse(url: str) -> str:
    """The page as a browser has it once its scripts have run."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("NOT RUN: no Chromium")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=600000"]
    done = subprocess.run(
        [browser, *words, "--dump-dom", url], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (390, "dark"), (1280, "dark")])
def test_in_a_browser_no_page_is_cut(site: Path, address: str, width: int, theme: str) -> None:
    pages = [f"{page.relative_to(DOCS).with_suffix('.html')}" for page in DOCS.rglob("*.md")]
    (site / "reader.htm").write_text(READER % json.dumps([pages, width, theme]))
    [text] = re.findall(r'<pre id="read">(.*?)</pre>', browse(f"{address}/reader.htm"), re.S)
    by_page = json.loads(text)
    assert set(by_page) == set(pages)
    assert {page: wide for page, (wide, _) in by_page.items() if wide > width} == {}
    white = {colour == "rgb(255, 255, 255)" for _, colour in by_page.values()}
    assert white == {theme == "light"}


@pytest.mark.heavy
def test_in_a_browser_a_search_finds_pages(address: str) -> None:
    assert re.search(r"found \d\d+ pages", browse(f"{address}/search.html?q=slice"))


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


PAGES = [
    path
    for path in sources(".md")
    if (path.name == "README.md" and path.parent == REPOSITORY)
    or path.is_relative_to(REPOSITORY / "docs")
]
TEXTS = {path: path.read_text() for path in PAGES}
SNIPPETS = [
    snippet
    for path, text in TEXTS.items()
    if path.parent.name != "tutorials" and path.stem != "first-episode"
    for snippet in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
]


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 8


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number: int, tmp_path: Path) -> None:
    run(sys.executable, "-c", SNIPPETS[number], cwd=tmp_path)


def test_pictures_and_files_exist() -> None:
    for page, text in TEXTS.items():
        # Code may hold what looks like a link, such as a lambda of C++.
        for target in re.findall(r"\]\(([^)#:]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


MAPS = ("episode.md", "gradient.md")
_ROW = re.compile(r"^\|[^|]*\| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("page", MAPS)
def test_a_page_names_definitions(page: str) -> None:
    rows = _ROW.findall((REPOSITORY / "docs/development" / page).read_text(encoding="utf-8"))
    assert len(rows) >= 10
    for path, name in rows:
        source = (REPOSITORY / path).read_text(encoding="utf-8")
        definition = rf"(def|class|struct) {name}\b|^[\w:<>&* ]*\b{name}\([^)]*[,)]"
        assert re.search(definition, source, re.MULTILINE), (path, name)


@pytest.mark.parametrize("page", MAPS)
def test_a_page_names_paths(page: str) -> None:
    text = (REPOSITORY / "docs/development" / page).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:agents|datasets|native|pmoss_env)/[^`]+)`", text):
        assert (REPOSITORY / path).exists(), path
