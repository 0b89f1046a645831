// What models and schedules look like on the Python side, the same for every model.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/load.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::bindings {

/// No cast: a core that does not fit 32 bits must not become another core.
using Places = pybind11::array_t<std::int32_t, pybind11::array::c_style>;

/// Throws std::invalid_argument unless there is one dimension.
std::span<const std::int32_t> view(const Places& places);

template <typename T>
pybind11::array_t<T> to_array(const std::vector<T>& values) {
  return pybind11::array_t<T>(static_cast<pybind11::ssize_t>(values.size()), values.data());
}

/// ModelSnapshot of _native.pyi, with the counters that this model computes.
pybind11::dict to_dict(const Snapshot& snapshot, bool ComputedCounter::* model);

/// `kind` is closed, saturated, saturated:mix or open; else throws std::invalid_argument.
Load make_load(const std::string& kind, int outstanding_per_worker, double offered_mq_per_s);

}  // namespace pmoss::bindings
