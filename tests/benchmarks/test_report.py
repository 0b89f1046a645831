"""Reports of benchmarks: replaced by reports of the same benchmark alone."""

import json
from pathlib import Path

import pytest

from pmoss_benchmarks.report import check_replaceable
from pmoss_env.errors import DatasetError


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
