#include "scan/scan.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bindings/host_bindings.hpp"
#include "environment/forks.hpp"
#include "scan/table.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using Positions = std::vector<std::uint32_t>;

/// An engine takes one copy at a time, so that Python threads take turns.
class SharedEngine {
 public:
  SharedEngine(const std::string& name, int cpu) : engine_(scan::make_engine(name, cpu)) {}
  SharedEngine(const SharedEngine&) = delete;
  SharedEngine& operator=(const SharedEngine&) = delete;
  ~SharedEngine() {
    if (is_forked()) static_cast<void>(engine_.release());  // there is no thread to join
  }

  std::string_view name() const noexcept { return engine_->name(); }
  environment::ForkAwareMutex& mutex() noexcept { return mutex_; }
  scan::CopyEngine& engine() const {
    if (!is_forked()) return *engine_;
    throw environment::ForkedError(
        "the engine stayed in the process that made it; make one in this process");
  }
  /// Kept for later scans with blocks of the same size. For who has the mutex.
  scan::BlockBuffers& buffers(std::size_t bytes) {
    if (!buffers_ || block_bytes_ != bytes) buffers_.emplace(bytes);
    block_bytes_ = bytes;
    return *buffers_;
  }

 private:
  bool is_forked() const noexcept { return environment::forks() != forks_; }

  const std::uint32_t forks_ = environment::forks();
  std::unique_ptr<scan::CopyEngine> engine_;
  std::optional<scan::BlockBuffers> buffers_;
  std::size_t block_bytes_ = 0;
  environment::ForkAwareMutex mutex_;
};

Isa isa_named(const std::string& name) {
  if (name.empty()) return best_isa();
  if (name == "scalar") return Isa::scalar;
  if (name == "avx2") return Isa::avx2;
  if (name == "avx512") return Isa::avx512;
  throw std::invalid_argument("isa '" + name + "': must be scalar, avx2 or avx512");
}

py::dict run_scan(const scan::Column& column, std::int32_t low, std::int32_t high,
                  std::size_t capacity, SharedEngine* shared, double block_kib,
                  const std::string& isa_name) {
  const Isa isa = isa_named(isa_name);
  if (!(block_kib > 0 && block_kib <= 1 << 22)) {
    throw std::invalid_argument("block_kib is " + std::to_string(block_kib) +
                                "; must be above 0 and at most 2^22");
  }
  auto positions = std::make_unique<Positions>(capacity);
  scan::Outcome outcome;
  double seconds = 0;
  {
    const py::gil_scoped_release release;
    const auto timed = [&](const auto& scan) {
      const auto start = std::chrono::steady_clock::now();
      outcome = scan();
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    if (shared == nullptr) {
      timed([&] { return scan::scan_by_loads(column, {low, high}, *positions, isa); });
    } else {
      // Neither waiting for the engine nor the memory of its buffers is part of a scan.
      const std::scoped_lock lock(shared->mutex());
      scan::CopyEngine& engine = shared->engine();
      scan::BlockBuffers& buffers = shared->buffers(static_cast<std::size_t>(block_kib * 1024));
      timed([&] {
        return scan::scan_by_copies(column, {low, high}, *positions, engine, buffers, isa);
      });
    }
  }
  positions->resize(outcome.written);
  Positions* const raw = positions.get();
  const py::capsule owner(positions.release(), [](void* p) { delete static_cast<Positions*>(p); });
  py::dict result;
  result["positions"] =
      py::array_t<std::uint32_t>(static_cast<py::ssize_t>(raw->size()), raw->data(), owner);
  result["matches"] = outcome.matches;
  result["offloaded"] = outcome.offloaded;
  result["reason"] = outcome.reason;
  result["seconds"] = seconds;
  return result;
}

/// The bytes of a one-dimensional, gapless array of int32; its address may be any.
scan::Column column_of(const py::array& values) {
  if (values.ndim() != 1 || !values.dtype().is(py::dtype::of<std::int32_t>())) {
    throw std::invalid_argument("values must be one dimension of int32");
  }
  if (values.shape(0) > 1 && values.strides(0) != sizeof(std::int32_t)) {
    throw std::invalid_argument("values must lie one behind the other, without gaps");
  }
  return {static_cast<const std::byte*>(values.data()), static_cast<std::size_t>(values.shape(0))};
}

}  // namespace

void bind_scan(py::module_& module) {
  py::class_<SharedEngine>(module, "CopyEngine", "What copies memory beside the processor.")
      .def(py::init<const std::string&, int>(), py::arg("name"), py::arg("cpu") = -1,
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("name", &SharedEngine::name);

  py::class_<scan::Table>(module, "ScanTable", "Random values from 0 to 2^31 - 1 on a node.")
      .def(py::init<std::size_t, std::uint64_t, int>(), py::arg("rows"), py::arg("seed"),
           py::arg("node") = -1, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("rows", [](const scan::Table& table) { return table.column().rows; })
      .def_static(
          "range_of",
          [](double share) {
            const scan::Range range = scan::Table::range_of(share);
            return py::make_tuple(range.low, range.high);
          },
          py::arg("share"), "The values (low, high) between which a share of them lies.")
      .def("flush", &scan::Table::flush, py::call_guard<py::gil_scoped_release>(),
           "Takes the table out of the caches.")
      .def(
          "scan",
          [](const scan::Table& table, std::int32_t low, std::int32_t high, std::size_t rows,
             std::size_t capacity, SharedEngine* engine, double block_kib, const std::string& isa) {
            scan::Column column = table.column();
            if (rows > column.rows) {
              throw std::invalid_argument("rows is " + std::to_string(rows) + "; the table has " +
                                          std::to_string(column.rows));
            }
            column.rows = rows;
            return run_scan(column, low, high, capacity, engine, block_kib, isa);
          },
          py::arg("low"), py::arg("high"), py::kw_only(), py::arg("rows"), py::arg("capacity"),
          py::arg("engine") = nullptr, py::arg("block_kib") = 128.0, py::arg("isa") = "",
          "Scans the first rows; see scan_column().");

  module.def(
      "scan_column",
      [](const py::array& values, std::int32_t low, std::int32_t high, std::size_t capacity,
         SharedEngine* engine, double block_kib, const std::string& isa) {
        return run_scan(column_of(values), low, high, capacity, engine, block_kib, isa);
      },
      py::arg("values"), py::arg("low"), py::arg("high"), py::kw_only(), py::arg("capacity"),
      py::arg("engine") = nullptr, py::arg("block_kib") = 128.0, py::arg("isa") = "",
      "Positions of the values from low to high, at most `capacity` of them: by plain loads, or "
      "through an engine.");
}

}  // namespace pmoss::bindings
