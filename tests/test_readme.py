"""Every Python snippet of the README runs, and every command it names exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 3


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_pictures_and_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (REPOSITORY / target).exists(), target


def test_commands_exist() -> None:
    pmoss = str(Path(sys.executable).with_name("pmoss"))
    top = subprocess.run([pmoss, "--help"], capture_output=True, text=True, check=True).stdout
    for command in set(re.findall(r"`(?:pmoss|\./run) ([a-z]+)", README)) - {"test"}:
        assert re.search(rf"\b{command}\b", top), command
