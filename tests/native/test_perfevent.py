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
  }
  void startCounters() { ++starts; }
  void stopCounters() {
    for (std::size_t i = 0; i < events.size(); ++i) events[i].value = 10.0 * (i + 1);
  }
};
"""

PROGRAM = """
#include <cstdlib>
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
  const ThreadCounters counters(probed, {});
  REQUIRE(counters.events() == (std::vector<Event>{Event::cycles, Event::task_clock}));
  REQUIRE(!counters.availability()[index_of(Event::instructions)].available());
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


@pytest.mark.native
def test_counters_go_through_the_wrapper_whose_header_is_given(tmp_path: Path) -> None:
    (tmp_path / "PerfEvent.hpp").write_text(HEADER)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    build = REPOSITORY / "build" / "tests-perfevent"
    configure(build, f"-DPMOSS_PERFEVENT_DIR={tmp_path}")
    run(CMAKE, "--build", build, "--target", "pmoss_pmu", "-j", "2", timeout=600)
    run(
        *("c++", "-std=c++20", "-DPMOSS_PERFEVENT", "-I", REPOSITORY / "native"),
        *("-I", build / "counters" / "include"),
        *(tmp_path / "main.cpp", build / "pmu" / "libpmoss_pmu.a"),
        *(build / "numa" / "libpmoss_numa.a", "-ldl", "-o", tmp_path / "program"),
        timeout=600,
    )
    run(tmp_path / "program", timeout=600)


@pytest.mark.native
def test_a_folder_without_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as error:
        configure(tmp_path / "build", f"-DPMOSS_PERFEVENT_DIR={tmp_path}")
    # CMake breaks the line where the folder's name makes it too long.
    assert "it must hold PerfEvent.hpp" in " ".join(str(error.value).split())
