"""Reports of figures: written part by part, added to later, never mixed."""

import json
from pathlib import Path

import pytest

from pmoss_benchmarks.report import Figure, Report
from pmoss_env.errors import DescriptionError

FAST, SLOW = (Figure.of("speed", "M/s", values) for values in ([3.0, 1.0, 2.0], [0.5]))


def test_parts_are_added_and_replaced_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    first = Report(path)
    first.add("index", "made so", [SLOW], "pmoss_benchmarks.performance.index")
    assert json.loads(path.read_text())["parts"]["index"]["figures"][0]["median"] == 0.5
    second = Report(path)
    second.add("scan", "made otherwise", [FAST], "pmoss_benchmarks.performance.index")
    second.add("index", "made again", [FAST], "pmoss_benchmarks.performance.index")
    assert Report(path).parts == {"index": [FAST], "scan": [FAST]}
    parts = json.loads(path.read_text())["parts"]
    assert {name: part["command"] for name, part in parts.items()} == {
        "index": "made again",
        "scan": "made otherwise",
    }


def test_figures_of_another_machine_or_another_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    Report(path).add("index", "made so", [FAST], "pmoss_benchmarks.performance.index")
    content = json.loads(path.read_text())
    content["machine"]["cpus"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(DescriptionError, match=r"another machine \(cpus differ\)"):
        Report(path)
    for text in ("[]", "{", '{"parts": {"index": {"command": "x", "figures": [{}]}}}'):
        path.write_text(text)
        with pytest.raises(DescriptionError, match="no report of figures"):
            Report(path)
