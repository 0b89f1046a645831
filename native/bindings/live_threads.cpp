// Threads of this host: their counters, and a program to schedule.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bindings/host_bindings.hpp"
#include "pmu/counters.hpp"
#include "threads/key_value_load.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using threads::KeyValueLoad;
using threads::LoadOptions;

// What counts on this host, and how many events together. Tried on a thread of ours: another one
// may sleep, so that nothing of it ever runs.
class WhatCounts {
 public:
  static const WhatCounts& here() {
    static const WhatCounts counts;
    return counts;
  }
  const pmu::ThreadCounters::Options& options() const noexcept { return options_; }
  /// Without the events that do not run here.
  std::vector<pmu::Availability> probe(const pmu::Opener& opener) const {
    std::vector<pmu::Availability> probed = pmu::probe(opener);
    for (std::size_t event = 0; event < probed.size(); ++event) {
      if (!running_[event].available() && probed[event].available()) {
        probed[event] = running_[event];
      }
    }
    return probed;
  }

 private:
  WhatCounts() {
    const pmu::RaisedDescriptorLimit many_files;
    // An epoch is long enough for the kernel to give every group its turns.
    options_.rotate = false;
    // A register holds the event of the thread that runs here, which is not the one that is asked
    // for.
    options_.user_reads = false;
    pmu::ThreadCounters own(pmu::probe(), options_);
    own.check_running();
    running_ = own.availability();
    std::vector<std::size_t> members(own.group_count());
    for (std::size_t i = 0; i < own.events().size(); ++i) {
      if (pmu::index_of(own.events()[i]) < pmu::first_software_event) ++members[own.group_of()[i]];
    }
    const auto largest = std::max_element(members.begin(), members.end());
    if (largest != members.end() && *largest > 0) options_.hardware_events_per_group = *largest;
  }

  pmu::ThreadCounters::Options options_;
  std::vector<pmu::Availability> running_;
};

// Counters of another thread.
class CountersOfThread {
 public:
  explicit CountersOfThread(int thread)
      : opener_(pmu::system_opener(thread)),
        counters_(WhatCounts::here().probe(opener_), WhatCounts::here().options(), opener_) {}

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const pmu::Event event : counters_.events()) names.emplace_back(pmu::name_of(event));
    return names;
  }

  py::dict read() {
    pmu::Snapshot now;
    counters_.read(now);
    py::dict result;
    for (std::size_t i = 0; i < counters_.events().size(); ++i) {
      const std::size_t event = pmu::index_of(counters_.events()[i]);
      auto& group = now.groups[counters_.group_of()[i]];
      const auto& before = last_.groups[counters_.group_of()[i]];
      if (group.error_number != 0) {
        now.values[event] = last_.values[event];
        continue;
      }
      if (group.running_ns == before.running_ns) continue;
      // What the group would have counted, had it never had to share the CPU's counters.
      const double whole = static_cast<double>(group.enabled_ns - before.enabled_ns) /
                           static_cast<double>(group.running_ns - before.running_ns);
      result[py::str(std::string(pmu::name_of(counters_.events()[i])))] =
          static_cast<double>(now.values[event] - last_.values[event]) * whole;
    }
    for (std::size_t g = 0; g < now.groups.size(); ++g) {
      // The next read counts from the last one that did not fail.
      if (now.groups[g].error_number != 0) now.groups[g] = last_.groups[g];
    }
    last_ = now;
    return result;
  }

 private:
  const pmu::RaisedDescriptorLimit many_files_;
  pmu::Opener opener_;
  pmu::ThreadCounters counters_;
  pmu::Snapshot last_;
};

}  // namespace

void bind_live_threads(py::module_& module) {
  py::class_<CountersOfThread>(module, "ThreadCounters",
                               "The canonical events of another thread, by its id.")
      .def(py::init<int>(), py::arg("thread"))
      .def_property_readonly("names", &CountersOfThread::names,
                             "Events that this host counts, also of a thread that sleeps.")
      .def("read", &CountersOfThread::read,
           "{event: count since the last call}, of those that were counted since then.");

  py::class_<KeyValueLoad>(module, "KeyValueLoad",
                           "A key-value store under load by threads of this process.")
      .def(py::init([](int count, double write_share, bool sequential, std::size_t keys,
                       std::size_t value_bytes, int node, std::uint64_t requests,
                       std::uint64_t seed) {
             const LoadOptions options{count,       write_share, sequential, keys,
                                       value_bytes, node,        requests,   seed};
             const py::gil_scoped_release release;
             return std::make_unique<KeyValueLoad>(options);
           }),
           py::kw_only(), py::arg("threads"), py::arg("write_share"), py::arg("sequential"),
           py::arg("keys"), py::arg("value_bytes"), py::arg("node") = -1, py::arg("requests") = 0,
           py::arg("seed") = 0)
      .def("start", &KeyValueLoad::start)
      .def("stop", &KeyValueLoad::stop, py::call_guard<py::gil_scoped_release>())
      .def("latency_ns", &KeyValueLoad::latency_ns, py::arg("quantile"))
      .def_property_readonly("running", &KeyValueLoad::running)
      .def_property_readonly("requests", &KeyValueLoad::requests)
      .def_property_readonly("damaged", &KeyValueLoad::damaged);
}

}  // namespace pmoss::bindings
