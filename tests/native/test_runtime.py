"""The measuring runtime and its counters, seen from Python: no figure is asserted, only sense."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.indexes import DEFAULT

SLICES = 8
SEED = 3


def spec(**changes: Any) -> _native.WorkloadSpec:
    fields = {"lookup": 0.5, "insert": 0.5, "distribution": "zipf", "records": 10_000, "seed": SEED}
    return _native.WorkloadSpec(**{**fields, **changes})


@pytest.fixture(scope="module")
def runner() -> _native.Runner:
    runner = _native.Runner(spec(), DEFAULT, slices=SLICES, huge_pages=False)
    progress: list[int] = []
    runner.load(progress=progress.append)
    assert runner.loaded
    assert progress == sorted(progress) and progress[-1] == 10_000
    return runner


@pytest.fixture
def arguments() -> dict[str, Any]:
    cpus = _native.host_topology()["allowed_cpus"]
    workers = sorted({cpus[0], cpus[-1]})
    return {
        "cores": np.array([workers[i * len(workers) // SLICES] for i in range(SLICES)]),
        "worker_cpus": workers,
        "seconds": 0.3,
        "warmup_seconds": 0.02,
        "seed": 1,
    }


@pytest.mark.parametrize("load", ["closed", "saturated", "open"])
def test_measures_a_schedule(runner: _native.Runner, arguments: dict[str, Any], load: str) -> None:
    before = runner.next_insert_record
    result = runner.measure(**arguments, load=load, rate_mqs=0.02)
    events = _native.probe_events()
    workers = len(arguments["worker_cpus"])
    assert result["completed"] > 0 and result["seconds"] >= 0.3
    assert result["slice_queries"].dtype == np.uint64
    assert result["slice_queries"].sum() == result["completed"]
    assert result["issued"] == result["executed"] and result["not_found"] == 0
    assert result["slice_counters"].shape == (SLICES, len(events))
    assert result["slice_counted"].shape == (SLICES, len(events))
    assert result["worker_counters"].shape == (workers, len(events))
    assert result["worker_slice_queries"].shape == (workers, SLICES)
    assert [e["name"] for e in result["availability"]] == [e["name"] for e in events]
    for i, event in enumerate(result["availability"]):
        if event["source"] == "none":
            assert not result["slice_counted"][:, i].any()
    assert result["worker_cpus"] == arguments["worker_cpus"]
    assert type(result["worker_cpus"][0]) is int  # such lists go into JSON
    assert 0 < result["latency_p50_us"] <= result["latency_p99_us"]
    assert result["inserted"] > 0
    assert runner.next_insert_record >= before + result["inserted"]


def test_refuses_what_makes_no_sense(runner: _native.Runner, arguments: dict[str, Any]) -> None:
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"cores": arguments["cores"][:-1]}, ValueError, "7 entries for 8 slices"),
        ({"cores": arguments["cores"].astype(float)}, TypeError, "integers"),
        ({"cores": np.full(SLICES, 50_000)}, ValueError, "no worker"),
        ({"load": "full"}, ValueError, "closed, saturated or open"),
        ({"load": "open"}, ValueError, "rate_mqs is 0; it must be above 0"),
        ({"load": "open", "rate_mqs": 2e6}, ValueError, r"rate_mqs is 2e\+06; .* at most 1000000"),
        ({"seconds": -0.5}, ValueError, "seconds is -0.5; it must be above 0 and at most 3600"),
        ({"cores": np.full(SLICES, -4)}, OverflowError, "-4 was given"),
        ({"worker_cpus": arguments["worker_cpus"][:1] * 2}, ValueError, r"names CPU \d+ twice"),
        (
            {"co_tenants": [("spin", 50_000, 0.5, 0, -1)]},
            ValueError,
            "not one that this process may use",
        ),
        ({"co_tenants": [("noise", 0, 0.5, 0, -1)]}, ValueError, "co_tenant is 'noise'"),
        ({"data": "slice"}, ValueError, "nodes has 0 entries for 8 slices"),
        ({"data": "there"}, ValueError, "one of keep, slice, interleaved, first_touch"),
        ({"pace": "slow"}, ValueError, "one of lazy, aggressive"),
        ({"batch": 65}, ValueError, "batch is 65"),
    ]
    for change, error, words in bad:
        with pytest.raises(error, match=words):
            runner.measure(**{**arguments, **change})
    with pytest.raises(_native.RunnerError, match="call load"):
        _native.Runner(spec(), DEFAULT, slices=SLICES, huge_pages=False).measure(**arguments)


def test_data_move_while_schedules_change(runner, arguments):
    if refusal := _native.placement_refusal():
        pytest.skip(refusal)
    node = _native.host_topology()["nodes"][0]["id"]
    nodes = [node] * SLICES
    changes = [(0.02 * i, arguments["cores"][:: (-1) ** i], nodes, "core", "slice") for i in (1, 2)]
    moving = {"nodes": nodes, "data": "slice", "changes": changes}
    moving |= {"pace": "aggressive", "always_move": True, "batch": 8}
    for strategy in ("copy", "move_pages"):
        result = runner.measure(**arguments, **moving, strategy=strategy)
        assert result["schedules"] == 2 and result["migration"]["slices"] >= SLICES
        assert result["slice_causes"] == [""] * SLICES and result["in_place"]
        assert (result["slice_pages_home"] == result["slice_pages"]).all()
        assert set(result["node_pages"]) == {node}


def test_cancelling(runner: _native.Runner, arguments: dict[str, Any]) -> None:
    arguments["seconds"] = 60.0
    answers = iter([False, False, True])
    with pytest.raises(_native.Cancelled):
        runner.measure(**arguments, cancelled=lambda: next(answers))
    assert next(answers, None) is None

    def fail() -> bool:
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        runner.measure(**arguments, cancelled=fail)


def test_an_interrupt_ends_a_measurement_and_its_threads(runner, arguments):
    arguments["seconds"] = 3600.0
    threads = Path("/proc/self/task")

    def interrupt(before: int) -> None:
        # From outside of the measuring thread, and without a callback that Python could look in.
        while len(list(threads.iterdir())) <= before:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    # With this one; the measurement then adds its own.
    interrupter = threading.Thread(target=interrupt, args=(len(list(threads.iterdir())) + 1,))
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        runner.measure(**arguments)
    interrupter.join()
    # Nothing is left running: the next measurement works.
    assert runner.measure(**{**arguments, "seconds": 0.1})["seconds"] >= 0.1


def test_other_python_threads_run_meanwhile_but_not_a_second_measurement(runner, arguments):
    errors: list[BaseException] = []
    done = threading.Event()

    def second() -> None:
        try:
            runner.measure(**arguments)
        except BaseException as error:
            errors.append(error)
        done.set()

    thread = threading.Thread(target=second)
    started = False

    def cancelled() -> bool:
        nonlocal started
        if not started:
            started = True
            thread.start()
        return done.is_set()

    with pytest.raises(_native.Cancelled):
        runner.measure(**{**arguments, "seconds": 60.0}, cancelled=cancelled)
    thread.join()
    assert len(errors) == 1
    assert isinstance(errors[0], _native.RunnerError)
    assert "already" in str(errors[0])


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def test_every_event_counts_or_says_why_not() -> None:
    events = _native.probe_events()
    names = [event["name"] for event in events]
    assert len(set(names)) == len(names) and names[:2] == ["cycles", "instructions"]
    first = names.index("task_clock")  # the PMU's events come first
    assert names[first : first + 3] == ["task_clock", "context_switches", "page_faults"]
    for event in events:
        assert event["source"] in ("hardware", "software", "none")
        assert bool(event["reason"]) == (event["source"] == "none")
        assert event["unit"] in ("count", "cycles", "ns")


def test_topology_of_a_made_up_machine(tmp_path: Path) -> None:
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    write(tmp_path, f"{cpu}/online", "0-3")
    for i in range(4):
        write(tmp_path, f"{cpu}/cpu{i}/topology/physical_package_id", str(i // 2))
        write(tmp_path, f"{cpu}/cpu{i}/topology/thread_siblings_list", f"{i & 2}-{i | 1}")
    for i in range(2):
        write(tmp_path, f"{node}/node{i}/cpulist", f"{2 * i}-{2 * i + 1}")
        write(tmp_path, f"{node}/node{i}/distance", "10 21" if i == 0 else "21 10")
    topology = _native.host_topology(str(tmp_path))
    assert [c["node"] for c in topology["cpus"]] == [0, 0, 1, 1]
    assert [c["package"] for c in topology["cpus"]] == [0, 0, 1, 1]
    assert topology["cpus"][3]["siblings"] == [2, 3]
    assert [n["distances"] for n in topology["nodes"]] == [[10, 21], [21, 10]]


def test_a_folder_that_is_no_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no online CPU"):
        _native.host_topology(str(tmp_path))


def test_this_host() -> None:
    topology = _native.host_topology()
    online = {cpu["id"] for cpu in topology["cpus"]}
    assert topology["allowed_cpus"] and set(topology["allowed_cpus"]) <= online
    facts = _native.host_facts()
    assert facts["kernel"] != "unknown"
    assert all(isinstance(value, str) and value for value in facts.values())
