"""Builds the counters against a header with the perfevent wrapper's interface, and uses them."""

from pathlib import Path

import pytest

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
    configure(build, f"-DPMOSS_PERFEVENT_DIR={header}")
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
