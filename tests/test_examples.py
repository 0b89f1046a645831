"""The notebooks in examples/ run from the first cell to the last, and open as notebooks."""

import json
import sys
from pathlib import Path

import pytest

from tests.native.builds import REPOSITORY, run

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_all_cells_run(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run(sys.executable, path, timeout=1200, cwd=tmp_path, OMP_NUM_THREADS="1")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_a_notebook(path: Path) -> None:
    jupytext = pytest.importorskip("jupytext", reason="NOT RUN: the extra notebooks is missing")
    notebook = json.loads(jupytext.writes(jupytext.read(path), fmt="ipynb"))
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds[0] == "markdown" and kinds.count("code") >= 3
