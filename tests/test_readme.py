"""Every Python snippet of README and docs runs, and every command they name exists.

Those of tutorials run in their order: tests/test_docs.py.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pmoss_benchmarks import read
from tests.sources import REPOSITORY, sources

PAGES = [
    path
    for path in sources(".md")
    if (path.name == "README.md" and path.parent == REPOSITORY)
    or path.is_relative_to(REPOSITORY / "docs")
]
TEXTS = {path: path.read_text() for path in PAGES}
ALL = "\n".join(TEXTS.values())
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
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def as_form(text: str) -> str:
    """A text without its numbers and line ends, which no two runs have in common."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", text).split())


def test_threads_of_a_live_process_are_scheduled_as_shown() -> None:
    rows = read("transcripts").set_index("name")
    words = shlex.split(rows.asked["threads"])
    target, _, ours = as_form(rows.output["threads"]).partition(" note:")
    # On a busy host the target may not have begun to serve after a few seconds.
    for seconds in ("4", "30", "200"):
        words[words.index("--seconds") + 1] = seconds
        words[-1] = "600"
        done = subprocess.run(
            words,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = as_form(done.stdout)
        if target in said:
            break
    assert target in said, done.stdout
    nodes = Path("/sys/devices/system/node/online")
    if not nodes.exists() or nodes.read_text().strip() == "0":
        # The notes depend on the host's counters; what happened does not.
        first, last = ours.split("note: accesses")[0].strip(), ours[ours.index("# s observed") :]
        assert first in said
        assert last in said


def test_pictures_and_files_exist() -> None:
    for page, text in TEXTS.items():
        # Code may hold what looks like a link, such as a lambda of C++.
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_exist() -> None:
    pmoss = str(Path(sys.executable).with_name("pmoss"))
    top = subprocess.run([pmoss, "--help"], capture_output=True, text=True, check=True).stdout
    for command in set(re.findall(r"`(?:pmoss|\./run) ([a-z]+)", ALL)) - {"test", "wheel", "docs"}:
        assert re.search(rf"\b{command}\b", top), command
