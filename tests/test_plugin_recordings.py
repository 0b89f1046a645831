"""Recordings of libraries: made under Valgrind, turned into traces, and checked."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import DescriptionError, PluginError, RecordingError, UnsupportedError
from pmoss_env.indexes import register_plugin
from pmoss_env.plugin_recordings import (
    Recording,
    library_facts,
    load_recording,
    recording_of,
    remove_instances,
    save_instance,
)
from pmoss_env.record import record
from pmoss_env.workloads import load_workload
from tests.native.builds import REPOSITORY

MARK, DATA = 0x1000, 0x100_0000
SLICES, QUERIES, RECORDS = 4, 200, 1_000
FACTS = f"mark {MARK:x}\ndata {DATA:x} {DATA + (1 << 24):x}\nrecord 32\n"
WORKLOAD = dataclasses.replace(load_workload("lookups"), records=RECORDS)
COSTS = [(100.0, 0.5)] * 4
#: Bytes between two nodes: the head's line, and one that is always two lines behind it.
NODE = 256


def planned() -> _native.PlannedQueries:
    return _native.PlannedQueries(native_workload(WORKLOAD), SLICES, queries=QUERIES)


def touched() -> list[list[tuple[int, int]]]:
    """Of each query: instruction and address. Each reads a root, then a node of its slice."""
    keys = planned().operations[::3]
    nodes = [int(key) % 97 + 97 * (int(key) * SLICES >> 64) for key in keys]
    starts = [DATA + 4096 * (1 + node) for node in nodes]
    return [[(0x10, DATA), (0x20, at), (0x30, at + NODE), (0x40, at)] for at in starts]


def of_drd() -> str:
    def line(what: str, address: int, instruction: int) -> str:
        access = f"{what} 0x{address:x} size 8 (thread 1 / vc [ 1: 1 ])"
        return f"==7== {access}\n==7==    at 0x{instruction:X}: find (map.cpp:1)\n"

    text = "==7== \n"
    for query in touched():
        text += line("store", MARK, 0x1)
        text += "".join(line("load ", address, at) for at, address in query)
        text += line("store", MARK, 0x2)
    return text


def of_lackey() -> str:
    text = "I  04001000,3\n L 1ffe000,8\n"
    for query in touched():
        text += f"I  1,4\n S {MARK:08x},8\n S 1ffe000008,8\n"
        text += "".join(f"I  {at:x},4\n L {address:08x},8\n" for at, address in query)
        text += f"I  2,4\n S {MARK:08x},8\n"
    return text


def trace_of(text: str, piece: int) -> _native.Trace:
    accesses = _native.AccessTrace(planned())
    accesses.take_facts(FACTS)
    for start in range(0, len(text), piece):
        done = accesses.feed(text[start : start + piece].encode())
    assert done == QUERIES
    trace = accesses.finish(COSTS)
    assert accesses.left_out == 1.0  # the root's line, which every query reads
    return trace


@pytest.mark.parametrize("text", [of_drd(), of_lackey()], ids=["drd", "lackey"])
def test_a_list_becomes_a_trace(text: str) -> None:
    trace = trace_of(text, piece=1_000)
    # The node is waited for; the line that always lies behind it is fetched beside it.
    assert (trace.mean_dependent, trace.mean_streaming) == (1.0, 1.0)
    arrays = _native.arrays_of_trace(trace)
    assert set(arrays["instructions"][:-1].tolist()) == {230}  # with the worker's own
    executing = np.repeat(arrays["slice"][:-1], np.diff(arrays["first_touch"].astype(int)))
    assert np.array_equal(arrays["slice_of_line"][arrays["touches"] >> 3], executing)
    assert trace.bytes_of_slice.sum() == 32 * RECORDS
    again = _native.arrays_of_trace(trace_of(text, piece=77))
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_damaged_traces_are_refused() -> None:
    arrays = _native.arrays_of_trace(trace_of(of_lackey(), piece=10_000))
    assert _native.trace_of_arrays(SLICES, arrays).size == QUERIES
    for name, value in [
        *[("slice", SLICES), ("kind", 9), ("touches", 2**32 - 1), ("first_page", 7)],
        *[("branch_misses", np.inf), ("branch_misses", np.nan)],
    ]:
        with pytest.raises(ValueError):
            _native.trace_of_arrays(SLICES, {**arrays, name: np.full_like(arrays[name], value)})
    for name in arrays:
        with pytest.raises(ValueError, match=f"{name} is missing"):
            _native.trace_of_arrays(SLICES, {n: arrays[n] for n in arrays if n != name})


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library that nothing runs, with a recording beside it."""
    path = tmp_path / "mine.so"
    words = ["c++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-o", str(path)]
    subprocess.run(words, check=True)
    folder = path.with_name("mine.so.recording")
    instance = save_instance(folder, 0, trace_of(of_lackey(), piece=10_000), {"tool": "lackey"})
    Recording(folder, library_facts(path), WORKLOAD, SLICES, QUERIES, (instance,)).save()
    return path


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
def test_models_measure_a_recorded_library(library: Path, backend: str) -> None:
    options = {"machine": "toy", "workload": "lookups", "index": register_plugin(library)}
    subject = make_backend(backend, slices=SLICES, **options)
    assert subject.workload.records == RECORDS
    schedule = make_baseline("grouped")(Context(subject.machine, SLICES))
    first = subject.measure(schedule, seed=0)
    assert first.throughput > 0
    assert subject.measure(schedule, seed=0).throughput == first.throughput
    with pytest.raises(DescriptionError, match="records = 5"):
        make_backend(backend, slices=SLICES, records=5, **options)


def test_recordings_of_something_else_are_refused(library: Path) -> None:
    index = register_plugin(library)
    folder = library.with_name("mine.so.recording")
    with pytest.raises(RecordingError, match="4 slices, not 8"):
        recording_of(index, WORKLOAD, 8)
    with pytest.raises(RecordingError, match="with lookup"):
        recording_of(index, load_workload("ycsb-a"), SLICES)
    with pytest.raises(UnsupportedError, match="pmoss index record --index"):
        recording_of(index, WORKLOAD, SLICES, folder=str(folder / "none"))
    with pytest.raises(UnsupportedError, match="is none"):
        make_backend("analytic", machine="toy", workload="ycsb-a", recording=str(folder))

    [arrays] = folder.glob("instance-0-*.npz")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(RecordingError, match="was changed"):
        load_recording(folder).trace(0)
    stored = json.loads((folder / "recording.json").read_text())
    stored["instances"][0]["file"] = "../../other.npz"
    (folder / "recording.json").write_text(json.dumps(stored))
    with pytest.raises(RecordingError, match="its instances are"):
        load_recording(folder)
    (folder / "recording.json").write_text("{")
    with pytest.raises(RecordingError, match="is no recording"):
        load_recording(folder)


def test_a_recording_is_replaced_as_a_whole(library: Path) -> None:
    folder = library.with_name("mine.so.recording")
    old = load_recording(folder)
    arrays = {**_native.arrays_of_trace(old.trace(0))}
    arrays["instructions"] = arrays["instructions"] + 1
    new = [
        save_instance(folder, seed, _native.trace_of_arrays(SLICES, arrays), {"tool": "drd"})
        for seed in range(2)
    ]
    # Until all instances are there, the old one counts.
    assert load_recording(folder).trace(0).size == old.trace(0).size == QUERIES
    remove_instances(folder, new[1:])
    remove_instances(folder, list(old.instances))
    assert old.trace(0).size == QUERIES
    new[1] = save_instance(folder, 1, old.trace(0), {"tool": "drd"})
    dataclasses.replace(old, instances=tuple(new)).save()
    assert len(load_recording(folder).instances) == 2
    files = {path.name for path in folder.iterdir()}
    assert files == {"recording.json", *(instance.file for instance in new)}


def test_a_recording_that_no_run_would_read_is_not_written(library, monkeypatch):
    folder = library.with_name("mine.so.recording")
    before = sorted(folder.iterdir())
    trace = load_recording(folder).trace(0)
    monkeypatch.setattr("pmoss_env.plugin_recordings.MAX_BYTES", 1000)
    with pytest.raises(RecordingError, match="record fewer queries"):
        save_instance(folder, 5, trace, {})
    assert sorted(folder.iterdir()) == before


def test_a_library_that_was_built_again_needs_another_recording(library: Path) -> None:
    with library.open("ab") as file:
        file.write(b"built again")
    with pytest.raises(RecordingError, match="record it again"):
        recording_of(register_plugin(library), WORKLOAD, SLICES)


INCLUDE = REPOSITORY / "native" / "include"
TUTORIAL = REPOSITORY / "docs" / "tutorials" / "your-index.md"
PMOSS = Path(sys.executable).with_name("pmoss")
LOOKUPS = dataclasses.replace(load_workload("lookups"), records=1_000)
SMALL = {"workload": LOOKUPS, "slices": 4, "queries": 200}

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
        traces.append(_native.arrays_of_trace(record(std_map, folder, **SMALL).trace(0)))
    names = ("slice", "touches", "first_touch", "instructions")
    assert all(np.array_equal(traces[0][name], traces[1][name]) for name in names)
