"""Counters through perfevent's interface, and processes that may not place memory."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pmoss_env import _native
from tests.native.builds import CMAKE, REPOSITORY, configure, run

#: Our own, with the interface of the wrapper: each event counts its position up from start to stop.
HEADER = """
#pragma once
#include <linux/perf_event.h>
#include <cstdint>
#include <string>
#include <vector>

struct PerfEvent {
  struct event {
    perf_event_attr pe;
    int fd;
    double value;
    double readCounter() { return value; }
  };
  std::vector<event> events;
  std::vector<std::string> names;
  int starts = 0;

  PerfEvent() {
    registerCounter("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
    registerCounter("anything", PERF_TYPE_RAW, 0x99);
    registerCounter("task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
  }
  void registerCounter(const std::string& name, std::uint64_t type, std::uint64_t id) {
    names.push_back(name);
    events.push_back({});
    events.back().pe.type = static_cast<std::uint32_t>(type);
    events.back().pe.config = id;
    events.back().fd = 1;
  }
  void startCounters() { ++starts; }
  void stopCounters() {
    for (std::size_t i = 0; i < events.size(); ++i) events[i].value = 10.0 * (i + 1);
  }
};
"""

PROGRAM = """
#include <linux/perf_event.h>
#include <cerrno>
#include <vector>
#include "pmu/counters.hpp"

#define REQUIRE(condition) if (!(condition)) return __LINE__

int main() {
  using namespace pmoss::pmu;
  std::vector<Availability> probed(event_count);
  for (std::size_t i = 0; i < event_count; ++i) {
    probed[i].event = static_cast<Event>(i);
    probed[i].source = Availability::Source::hardware;
  }
  CpuIdentity skylake_x;
  skylake_x.intel = true;
  skylake_x.family = 6;
  skylake_x.model = 0x55;
  // What the wrapper has not opened is registered with it, in the order of the table.
  std::vector<perf_event_attr> opened;
  const Opener opener = [&](perf_event_attr& attributes, int) {
    opened.push_back(attributes);
    return opened.size() == 2 ? -EACCES : 7;
  };
  const ThreadCounters counters(probed, {.names = {}}, opener, skylake_x);
  std::size_t encoded = 0;
  for (std::size_t i = 0; i < event_count; ++i) {
    perf_event_attr attributes{};
    encoded += detail::encode(static_cast<Event>(i), skylake_x, attributes) ? 1 : 0;
  }
  REQUIRE(encoded >= 15);  // the paper's counters
  REQUIRE(opened.size() == encoded - 2);  // cycles and the task clock are the wrapper's own
  REQUIRE(counters.events().size() == encoded - 1);
  std::size_t refused = 0;
  for (const Availability& available : counters.availability()) {
    refused += available.error_number == EACCES ? 1 : 0;
  }
  REQUIRE(refused == 1);
  REQUIRE(counters.group_count() == 1);
  Snapshot begin, end;
  REQUIRE(counters.read(begin));
  REQUIRE(counters.read(end));
  REQUIRE(end.values[index_of(Event::cycles)] - begin.values[index_of(Event::cycles)] == 10);
  REQUIRE(end.values[index_of(Event::task_clock)] == 60);
  REQUIRE(running_ratio(begin.groups[0], end.groups[0]) == 1.0);
  return 0;
}
"""


def build_and_run(header: Path, program: str, folder: Path) -> None:
    (folder / "main.cpp").write_text(program)
    build = REPOSITORY / "build" / "tests-perfevent"
    # One source a unit: the program then needs no more of these libraries than it calls.
    configure(build, f"-DPMOSS_PERFEVENT_DIR={header}", "-DCMAKE_UNITY_BUILD=OFF")
    run(CMAKE, "--build", build, "--target", "pmoss_pmu", "-j", "2", timeout=600)
    run(
        *("c++", "-std=c++20", "-DPMOSS_PERFEVENT", "-I", REPOSITORY / "native"),
        *("-I", build / "counters" / "include"),
        *(folder / "main.cpp", build / "pmu" / "libpmoss_pmu.a"),
        *(build / "numa" / "libpmoss_numa.a", "-ldl", "-o", folder / "program"),
        timeout=600,
    )
    run(folder / "program", timeout=600)


@pytest.mark.native
def test_counters_go_through_the_wrapper_whose_header_is_given(tmp_path: Path) -> None:
    (tmp_path / "PerfEvent.hpp").write_text(HEADER)
    build_and_run(tmp_path, PROGRAM, tmp_path)


@pytest.mark.native
def test_a_folder_without_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as error:
        configure(tmp_path / "build", f"-DPMOSS_PERFEVENT_DIR={tmp_path}")
    # CMake breaks the line where the folder's name makes it too long.
    assert "it must hold PerfEvent.hpp" in " ".join(str(error.value).split())


#: Numbers of mbind, move_pages and get_mempolicy.
CALLS = {
    "x86_64": {"mbind": 237, "get_mempolicy": 239, "move_pages": 279},
    "aarch64": {"mbind": 235, "get_mempolicy": 236, "move_pages": 239},
}[platform.machine()]

MEASURE = """
import json, sys
import numpy as np
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.workloads.catalog import load_workload
from pmoss_env.workloads.description import resized

cpu = _native.host_topology()["allowed_cpus"][0]
spec = native_workload(resized(load_workload("ycsb-a"), 20_000), 0)
runner = _native.Runner(spec, "btree", slices=16, huge_pages=False)
runner.load()
results = {"refusal": _native.placement_refusal()}
for data in ("slice", "interleaved", "first_touch", "keep"):
    try:
        raw = runner.measure(
            np.full(16, cpu), worker_cpus=[cpu], nodes=[0] * 16, data=data,
            strategy=sys.argv[1], pace="aggressive", seconds=0.05, warmup_seconds=0.0, window=0,
        )
        # On a busy host so short a measurement may complete no query.
        results[data] = [raw["seconds"] >= 0.05, raw["migration"]["slices"], raw["in_place"]]
    except _native.PlacementRefused as error:
        results[data] = str(error)
print(json.dumps(results))
"""

BACKEND = """
import json
from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import PlacementError

backend = make_backend("hardware", machine="host", workload="ycsb-a", slices=8, records=20_000,
                       seconds=0.05, warmup_seconds=0.0, own_process=False)
schedule = make_baseline("spread")(Context(backend.machine, 8))
answers = [backend.measure(schedule, seed=0).provenance["data"]]
backend.not_asked = ""  # as on a host with several nodes
try:
    backend.measure(schedule, seed=0)
except PlacementError as error:
    answers.append(str(error))
print(json.dumps(answers))
"""

REPORT = """
import json
from dataclasses import astuple
from pmoss_env.host_report import host_report

print(json.dumps([astuple(check) for check in host_report().checks]))
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("refuse") / "refuse.so"
    source = Path(__file__).with_name("refuse.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run_refused(preload: Path, calls: list[str], program: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={
            **os.environ,
            "LD_PRELOAD": str(preload),
            "PMOSS_REFUSED": "," + "".join(f"{CALLS[name]}," for name in calls),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("strategy", ["copy", "move_pages"])
@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_an_error_that_names_the_way_out(preload, call, strategy):
    results = run_refused(preload, [call], MEASURE, strategy)
    for data in ("slice", "interleaved", "first_touch"):
        for words in ("seccomp", "CAP_SYS_NICE", "cpuset.mems", "keep"):
            assert words in results[data], (data, results[data])
    assert results["refusal"] in results["slice"]
    # What stays where it is needs none of these calls.
    assert results["keep"] == [True, 0, True]


def test_the_same_process_measures_where_nothing_is_refused(preload: Path) -> None:
    if refusal := _native.placement_refusal():
        pytest.skip(refusal)
    results = run_refused(preload, [], MEASURE, "copy")
    assert results["refusal"] == ""
    # What lies on the node already stays.
    assert results["slice"] == [True, 16, True]
    assert results["first_touch"][0::2] == [True, True]


def test_on_one_node_the_backend_asks_nothing_and_says_so(preload: Path) -> None:
    if len(_native.host_topology()["nodes"]) > 1:
        pytest.skip("this host has several nodes")
    data, refused = run_refused(preload, list(CALLS), BACKEND)
    assert "seccomp" in data["not_known"] and data["home_share"] is None
    assert data["moved"]["slices"] == 0 and data["not_in_place"] == {}
    assert "seccomp" in refused


def test_the_host_report_says_so(preload: Path) -> None:
    report = {
        name: (value, words) for name, value, words in run_refused(preload, ["mbind"], REPORT)
    }
    assert report["memory placement"][0] == "refused"
    assert "CAP_SYS_NICE" in report["memory placement"][1]
