"""Recording a library under Valgrind, as the tutorial does it."""

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.errors import PluginError, UnsupportedError
from pmoss_env.plugin_recordings import load_recording
from pmoss_env.record import record
from pmoss_env.workloads import load_workload
from tests.native.builds import REPOSITORY

INCLUDE = REPOSITORY / "native" / "include"
TUTORIAL = REPOSITORY / "docs" / "tutorials" / "your-index.md"
PMOSS = Path(sys.executable).with_name("pmoss")
WORKLOAD = dataclasses.replace(load_workload("lookups"), records=1_000)
SMALL = {"workload": WORKLOAD, "slices": 4, "queries": 200}

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="NOT RUN: Valgrind is missing"
)


def build(source: str, library: Path) -> Path:
    path = REPOSITORY / "native" / source
    words = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", path, "-o", library]
    subprocess.run(["c++", *words], check=True)
    return library


@pytest.fixture(scope="module")
def std_map(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("examples/plugins/std_map.cpp", tmp_path_factory.mktemp("record") / "map.so")


@needs_valgrind
def test_the_tutorial_records_a_library(std_map: Path) -> None:
    [block] = re.findall(r"```sh\n(pmoss index record .*?)```", TUTORIAL.read_text(), re.DOTALL)
    commands = [line.removeprefix("pmoss ").split() for line in block.splitlines()]
    assert [command[0] for command in commands] == ["index", "measure", "measure"]
    for command in commands:
        subprocess.run([PMOSS, *command], cwd=std_map.parent, check=True, capture_output=True)
    recording = load_recording(std_map.with_name("map.so.recording"))
    assert recording.instances[0].facts["tool"] == "drd"
    trace = recording.trace(0)
    # Two thousand records are a tree of eleven levels or a few more.
    assert 5 < trace.mean_dependent + trace.mean_streaming < 40


def test_without_valgrind_the_package_is_named(std_map, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="apt-get install valgrind"):
        record(std_map, tmp_path / "out", **SMALL)
    assert not (tmp_path / "out").exists()


def test_points_are_refused(std_map: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="on points"):
        record(std_map, tmp_path, **{**SMALL, "workload": load_workload("rtree-ranges")})


@needs_valgrind
@pytest.mark.heavy
def test_a_crash_is_an_error(tmp_path: Path) -> None:
    library = build("tests/kinds/faulty_plugin.cpp", tmp_path / "crashes.so")
    inserting = dataclasses.replace(SMALL["workload"], lookup=0.5, insert=0.5)
    with pytest.raises(PluginError, match=r"crashes\.so' ended the recording"):
        record(library, tmp_path / "out", **{**SMALL, "workload": inserting})
    assert not (tmp_path / "out").exists()


@needs_valgrind
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("finds_nothing", r"it said: plugin .* does not find the key \d+"),
        ("one_more", r"lookup\(\) of the key \d+ gives the value \d+, which .*written"),
    ],
)
def test_wrong_answers_are_not_recorded(fault: str, message: str, tmp_path: Path) -> None:
    library = build("tests/kinds/faulty_plugin.cpp", tmp_path / f"{fault}.so")
    with pytest.raises(PluginError, match=rf"{message}.*pmoss index check"):
        record(library, tmp_path / "out", **SMALL)
    assert not (tmp_path / "out").exists()


@needs_valgrind
@pytest.mark.heavy
def test_a_recording_is_repeatable(std_map: Path, tmp_path: Path) -> None:
    traces = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        trace = record(std_map, folder, **SMALL).trace(0)
        traces.append(_native.arrays_of_trace(trace))
    names = ("slice", "touches", "first_touch", "instructions")
    assert all(np.array_equal(traces[0][name], traces[1][name]) for name in names)
