"""Reports of figures: written part by part, added to later, never mixed."""

import json
from pathlib import Path

import pytest

from pmoss_benchmarks.cli.benchmark.performance import performance
from pmoss_benchmarks.performance import suite, tables
from pmoss_benchmarks.performance.growth import _wide, grown
from pmoss_benchmarks.performance.growth_picture import draw_growth, growth_of
from pmoss_benchmarks.report import Figure, Report, check_replaceable
from pmoss_env.errors import BackendError, DatasetError, DescriptionError

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


def test_the_exponent_of_a_cost_is_its_slope_in_logarithms() -> None:
    costs = {8: [2.0, 4.0], 32: [4.0, 8.0], 128: [8.0, 16.0]}
    *at_sizes, slope = grown("a move", "slices", costs)
    assert [figure.name for figure in at_sizes] == [f"a move, {n} slices" for n in costs]
    assert [figure.median for figure in at_sizes] == [3.0, 6.0, 12.0]
    assert slope.median == pytest.approx(0.5)
    assert slope.unit == "exponent"


def test_growth_is_read_back_by_size_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    figures = [*grown("a move, all told", "slices", {1: [1.0], 10: [10.0]}), FAST]
    Report(path).add("growth", "made so", figures, "pmoss_benchmarks.performance.growth")
    report = json.loads(path.read_text())
    (costs,) = growth_of(report)["slices"].values()
    assert [(size, figure["median"]) for size, figure in costs] == [
        (1, 1.0),
        (10, 10.0),
        (0, pytest.approx(1.0)),
    ]
    draw_growth(report, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_a_widened_machine_differs_in_its_cores_alone() -> None:
    narrow, wide = _wide(8), _wide(512)
    assert (narrow.cores, wide.cores) == (8, 512)
    assert narrow.nodes == wide.nodes == 8
    assert narrow.parameters == wide.parameters
    assert wide.workers.size == 512


def test_stored_hosts_stand_beside_what_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def report(median: float, unit: str = "M/s") -> str:
        figure = {"name": "speed", "unit": unit, "median": median}
        return json.dumps({"parts": {"index": {"figures": [figure]}}})

    monkeypatch.setitem(suite.PARTS, "index", lambda **_: [FAST])
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    with pytest.raises(BackendError, match="source checkout"):
        performance(["index"], compare=True)
    for name, text in (("old", report(1.2345678)), ("other", report(9.0, "k/s"))):
        (tmp_path / f"{name}.json").write_text(text)
    performance(["index"], compare=True)
    told = capsys.readouterr().out
    heads, row = (
        next(one for one in told.splitlines() if word in one) for word in ("old", "speed")
    )
    assert heads.split()[4:6] == ["old", "other"]
    # Of the other host only another unit is known.
    assert row.split() == ["speed", "2", "1", "3", "1.235", "M/s"]


def _command_of(benchmark: str) -> str:
    return json.dumps({"command": f"pmoss benchmark {benchmark} --out x.json", "cells": []})


def test_a_benchmark_replaces_its_own_reports_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    check_replaceable(path, "fidelity")
    for text in ("", _command_of("fidelity")):
        path.write_text(text)
        check_replaceable(path, "fidelity")
    foreign = ["{}", "[]", "1", "null", '"pmoss benchmark fidelity"', "{", "notes", "\0"]
    foreign += ['{"command": 1}', '{"command": "pmoss benchmark"}', '{"command": "a \'b"}']
    foreign += ['{"command": "pmoss demo fidelity"}', '{"parts": [1]}', '{"parts": {"a": 1}}']
    foreign += [_command_of("continual"), _command_of("fidelity-2"), "[" * 100_000]
    for text in foreign:
        path.write_text(text)
        with pytest.raises(DatasetError, match=r"report\.json: is no report of `pmoss benchmark f"):
            check_replaceable(path, "fidelity")
        assert path.read_text() == text
    with pytest.raises(DatasetError, match="is no report"):
        check_replaceable(Path("/dev/null"), "fidelity")
    with pytest.raises(DatasetError, match=r"\.partial is the ending of unfinished results"):
        check_replaceable(tmp_path / "report.partial", "fidelity")


def test_a_report_of_figures_is_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report, module = Report(path), "pmoss_benchmarks.performance.index"
    report.add("index", "pmoss benchmark performance --only index", [FAST], module)
    check_replaceable(path, "performance")
    report.add("scan", "pmoss benchmark fidelity", [FAST], module)
    with pytest.raises(DatasetError, match="is no report of `pmoss benchmark performance`"):
        check_replaceable(path, "performance")
