"""What `pmoss benchmark ... --out` may replace: nothing, or its own earlier report."""

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pmoss_benchmarks.cli.benchmark.commands import RENAMED_STUDIES, app
from tests.cli.invoking import pmoss

_COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
_OUTS = {
    name: option
    for name, command in _COMMANDS.items()
    for option in command.params
    if option.name == "out"
}


@pytest.mark.parametrize("name", sorted(_OUTS))
def test_a_foreign_file_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"my": "notes"}')
    output = pmoss("benchmark", name, "--out", str(path), status=2)
    assert output.startswith(f"error: {path}: is no report of `pmoss benchmark {name}`")
    assert output.count("\n") == 1 and "choose another file" in output
    assert path.read_text() == '{"my": "notes"}'
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.json"]


def test_a_benchmark_that_is_a_study_now_says_so() -> None:
    for old, study in RENAMED_STUDIES.items():
        output = pmoss("benchmark", old, "--machine", "toy", status=2)
        assert f"`pmoss benchmark {old}` is now `pmoss study run {study}`" in output
