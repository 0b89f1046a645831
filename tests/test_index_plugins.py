"""Indexes of users: shared libraries that include pmoss/index.h."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

from pmoss_env import _native, index_check
from pmoss_env.backends import make_backend
from pmoss_env.backends.data_facts import placement_lines
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, PluginError, UnsupportedError
from pmoss_env.index_check import check_index
from pmoss_env.indexes import index_kind, register_plugin
from pmoss_env.machines import load_machine
from pmoss_env.record import record
from pmoss_env.workloads import Workload, load_workload
from tests.native.builds import REPOSITORY
from tests.native.examples import EXAMPLES, need_example

TOY_DATA = REPOSITORY / "datasets/pmoss_datasets/shipped/pmoss/toy-btree-ycsb-a-busy-core/mixed-v0"
PMOSS = Path(sys.executable).with_name("pmoss")
SMALL = {"slices": 16, "records": 20_000, "seconds": 0.1, "warmup_seconds": 0.02}


def measure(library: Path, workload: str | Workload = "ycsb-a", **options):
    options |= {"machine": "host", "workload": workload, "index": register_plugin(library)}
    backend = make_backend("hardware", **SMALL, **options)
    try:
        context = Context(backend.machine, backend.slices)
        return backend.measure(make_baseline("grouped")(context), seed=0)
    finally:
        backend.close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [("other_abi", "version 99"), ("no_lookup", "lookup"), ("no_index", "open")],
)
@pytest.mark.parametrize("own_process", [True, False])
def test_a_library_that_cannot_be_loaded_is_one_error(faulty, fault, message, own_process) -> None:
    with pytest.raises(BackendError, match=message) as refused:
        measure(faulty(fault), own_process=own_process)
    assert "Traceback" not in str(refused.value)


def test_large_values_are_served_or_refused_by_name(faulty) -> None:
    large = replace(load_workload("ycsb-a"), value_bytes=1024)
    snapshot = measure(faulty("words"), large)
    assert snapshot.throughput > 0
    if not snapshot.provenance["data"]["not_known"]:
        assert sum(snapshot.provenance["data"]["pages_by_node"].values()) > 0
    wanted = "holds values of 8 bytes, and 1024 are asked for: give it open_words"
    for own_process in (True, False):
        for fault in ("good", "minor_0"):
            with pytest.raises(BackendError, match=wanted) as refused:
                measure(faulty(fault), large, own_process=own_process)
            assert str(faulty(fault)) in str(refused.value)
    with pytest.raises(UnsupportedError, match="value_bytes = 1024: recordings are of values of 8"):
        record(faulty("words"), Path("none"), workload=large, slices=16, queries=10)


def test_where_the_data_lie_is_reported(faulty) -> None:
    data = measure(faulty("good")).provenance["data"]
    if data["not_known"]:
        pytest.skip("NOT RUN: this process may not place memory")
    assert sum(data["pages_by_node"].values()) > 20_000 * 32 // 4096
    lines = placement_lines({"data": data})
    assert len(lines) == 1 and re.match(r"Data: [\d,]+ pages \(node \d+: ", lines[0])


def test_bound_loaders_place_what_a_library_hides(faulty) -> None:
    data = measure(faulty("hidden")).provenance["data"]
    if data["not_known"]:
        pytest.skip("NOT RUN: this process may not place memory")
    node_of = {cpu["id"]: cpu["node"] for cpu in _native.host_topology()["cpus"]}
    assert data["in_place"] is None
    loaders = data["loaded"]["loaders"]
    assert sum(loader["slices"] for loader in loaders) == SMALL["slices"]
    assert all(node_of[loader["cpu"]] == loader["node"] for loader in loaders)
    [line] = placement_lines({"data": data})
    assert "hides its memory" in line
    if not data["loaded"]["not_known"]:
        assert sum(data["loaded"]["pages_by_node"].values()) > 20_000 * 32 // 4096


def test_wrong_answers_are_named(faulty) -> None:
    with pytest.raises(PluginError, match=r"which .*written"):
        check_index(faulty("wrong_value"), operations=2_000)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("two_steps", r"insert\(\) by 2 threads at once of the new key \d+ gives 1 to [02] "),
        ("old_copies", r"gives the value \d+, which is older than \d+"),
        ("no_extremes", r"insert\(\) gives -1 at the key 0"),
        ("leaks", r"memory grows by \d+ bytes for each lookup.*a leak"),
        ("forks", r"starts processes \(fork\)"),
        ("prints", "writes to the standard output"),
        ("ignores_signals", r"changes what is done with signals \(SIGTERM ignored\)"),
        ("forks_at_once", r"starts processes \(fork\)"),
        ("pins", r"changes the CPUs of threads"),
        ("words_in_parts", r"of the key \d+ gives parts of several values"),
        ("words_cut", r"lookup.* gives parts of several values, or not all 24 bytes of one"),
    ],
)
def test_a_check_names_what_would_falsify_a_measurement(faulty, fault: str, message: str) -> None:
    if fault == "pins" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    with pytest.raises(PluginError, match=message):
        check_index(faulty(fault), operations=2_000, threads=2)


def test_a_measurement_fails_where_a_library_moves_its_workers(faulty) -> None:
    if load_machine("host").workers.size < 2:
        pytest.skip("needs two worker cores")
    with pytest.raises(BackendError, match=r"worker \d+ was bound to CPU \d+ and ran on CPU \d+"):
        measure(faulty("moves"))


def test_no_process_of_a_library_outlives_its_check(faulty) -> None:
    library = faulty("forks")
    with pytest.raises(PluginError):
        check_index(library, operations=2_000, threads=2)
    left = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(library) in _mapped(entry)
    ]
    assert not left


def _mapped(process: Path) -> str:
    """The files that a process has mapped; empty once it has ended."""
    try:
        return (process / "maps").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("crashes", "died of signal 11"),
        ("throws", "something was thrown|died of signal 6"),
        ("exits", "ended with status 0|died of signal"),
        ("hangs", "fell silent and was killed"),
        ("closes_files", "has closed files that are not its own"),
    ],
)
def test_whatever_a_library_does_a_measurement_ends_with_its_name(faulty, fault, message) -> None:
    with pytest.raises(BackendError, match=message) as refused:
        measure(faulty(fault), silence_seconds=5.0)
    assert f"pmoss index check {faulty(fault)}" in str(refused.value)
    # Where in Python the process was does not help the author of a library.
    assert "most recent call first" not in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("crashes", r"crashes\.so': the check died of signal 11"),
        ("exits", r"exits\.so': the check ended with status 0"),
        ("hangs", r"hangs\.so': the check fell silent and was killed: a deadlock"),
        ("closes_files", r"closes_files\.so': .* closed files that are not its own"),
        ("throws_words", r"throws_words\.so' has thrown .*: no such key"),
    ],
)
def test_whatever_a_library_does_a_check_ends_with_its_name(faulty, fault, message) -> None:
    with pytest.raises(PluginError, match=message):
        check_index(faulty(fault), operations=2_000, seconds=3)


def test_a_check_in_which_nothing_ends_is_reported_and_killed(faulty, monkeypatch, caplog) -> None:
    monkeypatch.setattr(index_check, "_WARN_SECONDS", 0.5)
    monkeypatch.setattr(index_check, "_SILENCE_SECONDS", 2.0)
    with pytest.raises(PluginError, match=r"hangs\.so': the check fell silent .*: a deadlock"):
        check_index(faulty("hangs"), operations=2_000)
    assert "the check has given no sign of life for 0.5 s; it is killed after 2 s" in caplog.text


def test_impossible_numbers_are_refused(faulty) -> None:
    for words in ({"operations": 999}, {"threads": 0}, {"threads": 16}):
        with pytest.raises(ValueError, match="there must be at least 1000 operations"):
            check_index(faulty("good"), **words)


def test_only_libraries_are_registered(tmp_path) -> None:
    text = tmp_path / "index.so"
    text.write_text("no library")
    with pytest.raises(PluginError, match="no shared library"):
        register_plugin(text)
    with pytest.raises(PluginError, match="No such file"):
        register_plugin(tmp_path / "none.so")
    os.mkfifo(tmp_path / "pipe.so")
    with pytest.raises(PluginError, match="cannot be read"):
        register_plugin(tmp_path / "pipe.so")


def test_models_have_no_recording_of_it(faulty) -> None:
    name = register_plugin(faulty("good"))
    assert index_kind(name).records == "keys"
    with pytest.raises(UnsupportedError, match="hardware"):
        make_backend("analytic", machine="toy", workload="ycsb-a", index=name)


def test_what_a_file_names_is_not_loaded(faulty, tmp_path) -> None:
    """Naming a library in code or on the command line is what lets its code run."""
    library = faulty("leaves_a_trace")
    trace = library.with_name(f"{library.name}.loaded")
    with pytest.raises(PluginError, match="not registered"):
        gymnasium.make("pmoss/toy-v0", index=f"plugin:{library}", backend="hardware")
    folder = shutil.copytree(TOY_DATA, tmp_path / "data")
    metadata = folder / "metadata.json"
    stored = json.loads(metadata.read_text())
    stored["env_kwargs"].update(index=f"plugin:{library}", backend="hardware", machine="host")
    metadata.write_text(json.dumps(stored))
    for command in (["verify", "--rebuild"], ["show"]):
        words = [PMOSS, "datasets", command[0], folder, *command[1:]]
        assert "Traceback" not in subprocess.run(words, capture_output=True, text=True).stderr
    assert not trace.exists()
    check_index(library, operations=1_000, threads=1)
    assert trace.exists()


@pytest.mark.parametrize("example", [name for name, each in EXAMPLES.items() if each.package])
def test_the_examples_pass(example: str, tmp_path: Path) -> None:
    need_example(EXAMPLES[example])
    assert len(EXAMPLES[example].source.read_text().splitlines()) <= 150
    assert check_index(EXAMPLES[example].build(tmp_path, "-O1"), operations=3_000, threads=2)
