#include "environment/epochs.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/modelled_index.hpp"
#include "environment/noise.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using environment::Conditions;
using environment::EpochBatch;
using environment::EpochResults;
using environment::EpochRows;
using environment::EpochTask;
using environment::NoiseStream;

EpochRows rows_of(const py::dict& arrays, const EpochTask& task, std::size_t environments) {
  const std::size_t slices = environments * static_cast<std::size_t>(task.slices);
  const std::size_t counters = task.counters();
  EpochRows rows{};
  rows.slice_counters = writable<float>(arrays, "slice_counters", slices * counters);
  rows.core_counters =
      writable<float>(arrays, "core_counters", environments * task.tiles() * counters);
  rows.meta = writable<float>(arrays, "meta", environments * task.meta());
  rows.last = writable<float>(arrays, "last", environments * 4);
  rows.slice_tiles = writable<std::int32_t>(arrays, "slice_tiles", slices);
  rows.slice_nodes = writable<std::int32_t>(arrays, "slice_nodes", slices);
  rows.pending = writable<float>(arrays, "pending", slices);
  rows.moved = writable<std::int8_t>(arrays, "moved", slices);
  rows.slice_mask = writable<std::int8_t>(arrays, "slice_mask", slices + environments);
  rows.epoch = writable<float>(arrays, "epoch", environments);
  rows.moves_left = writable<float>(arrays, "moves_left", environments);
  return rows;
}

EpochResults results_of(const py::dict& arrays, std::size_t environments) {
  EpochResults results{};
  results.rewards = writable<double>(arrays, "rewards", environments);
  results.queries = writable<double>(arrays, "queries", environments);
  results.paid = writable<double>(arrays, "paid", environments);
  results.throughput = writable<double>(arrays, "throughput", environments);
  results.p99_us = writable<double>(arrays, "p99_us", environments);
  results.moved_gb = writable<double>(arrays, "moved_gb", environments);
  results.truncated = writable<bool>(arrays, "truncated", environments);
  results.epoch = writable<std::int64_t>(arrays, "epoch", environments);
  results.moves = writable<std::int64_t>(arrays, "moves", environments);
  results.illegal_actions = writable<std::int64_t>(arrays, "illegal_actions", environments);
  results.pending_slices = writable<std::int64_t>(arrays, "pending_slices", environments);
  return results;
}

template <typename T>
Array<T> copied(std::span<const T> values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// The batch with the arrays that it writes. Threads of Python take turns, as with SharedModel.
class SharedEpochBatch {
 private:
  template <typename Get>
  auto locked(Get get) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return get();
  }

 public:
  SharedEpochBatch(const EpochTask& task, std::size_t environments, py::dict rows, py::dict results,
                   int threads)
      : rows_(std::move(rows)),
        results_(std::move(results)),
        batch_(task, environments, rows_of(rows_, task, environments),
               results_of(results_, environments), threads) {}

  void start(std::size_t environment, std::shared_ptr<ModelledIndex> index,
             std::vector<Conditions> course, std::uint64_t noise_seed) {
    const py::gil_scoped_release release;
    auto runs = std::make_shared<ModelledRuns>(std::move(index));
    const std::scoped_lock lock(mutex_);
    batch_.start(environment, std::move(runs), std::move(course), noise_seed);
  }

  void step(const Array<std::int64_t>& actions, const Array<bool>& resting) {
    const auto chosen = view(actions);
    const auto left = view(resting);
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.step(chosen, left);
  }

  void step_one(std::size_t environment, std::int64_t slice, std::int64_t tile) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.step_one(environment, slice, tile);
  }

  py::dict epoch(std::size_t environment) {
    return of_epoch(locked([&] { return batch_.epoch(environment); }));
  }
  Array<std::int32_t> cores(std::size_t environment) {
    return listed<std::int32_t>([&] { return batch_.cores(environment); });
  }
  Array<double> timeline(std::size_t environment) {
    return listed<double>([&] { return batch_.timeline(environment); });
  }
  Array<std::int32_t> moves(std::size_t environment) {
    return listed<std::int32_t>([&] { return batch_.moves(environment); });
  }

 private:
  template <typename T, typename Get>
  Array<T> listed(Get get) {
    const std::vector<T> values = locked([&] {
      const auto now = get();
      return std::vector<T>(now.begin(), now.end());
    });
    return copied<T>(values);
  }

  // Copies of the dictionaries: the arrays that the batch writes live as long as it does.
  py::dict rows_, results_;
  EpochBatch batch_;
  environment::ForkAwareMutex mutex_;
};

EpochTask make_task(int slices, int nodes, int sockets, int epochs, int moves_per_epoch,
                    double seconds, double limit_us, double price_per_gb, double noise,
                    double throughput_variation, std::vector<double> variations,
                    std::vector<std::uint8_t> observed, bool sees_offcore, std::vector<float> facts,
                    std::vector<std::int32_t> core_of_tile, std::vector<std::int32_t> tile_of_core,
                    std::vector<std::uint8_t> worker_tiles) {
  EpochTask task;
  task.slices = slices;
  task.nodes = nodes;
  task.sockets = sockets;
  task.epochs = epochs;
  task.moves_per_epoch = moves_per_epoch;
  task.seconds = seconds;
  task.limit_us = limit_us;
  task.price_per_gb = price_per_gb;
  task.noise = noise;
  task.throughput_variation = throughput_variation;
  task.variations = std::move(variations);
  task.observed = std::move(observed);
  task.sees_offcore = sees_offcore;
  task.facts = std::move(facts);
  task.core_of_tile = std::move(core_of_tile);
  task.tile_of_core = std::move(tile_of_core);
  task.worker_tiles = std::move(worker_tiles);
  return task;
}

}  // namespace

void bind_epochs(py::module_& module) {
  py::class_<NoiseStream>(module, "NoiseStream", "A seeded stream of factors with mean 1.")
      .def(py::init([](double strength, const std::vector<std::uint64_t>& seed) {
             return NoiseStream(strength, seed);
           }),
           py::arg("strength"), py::arg("seed"))
      .def(
          "readings",
          [](NoiseStream& self, double variation, py::ssize_t count) {
            py::array_t<double> out(count);
            for (double& each : std::span(out.mutable_data(), static_cast<std::size_t>(count))) {
              each = self.factor(variation);
            }
            return out;
          },
          py::arg("variation"), py::arg("count"), "(count,) factors, one after the other.")
      .def(
          "factors",
          [](NoiseStream& self, const std::vector<double>& variations, py::ssize_t rows) {
            py::array_t<double> out({rows, static_cast<py::ssize_t>(variations.size())});
            self.factors(variations, {out.mutable_data(), static_cast<std::size_t>(out.size())});
            return out;
          },
          py::arg("variations"), py::arg("rows"), "(rows, variations) factors.");
  py::class_<EpochTask>(module, "EpochTask", "What environments of an EpochBatch have in common.")
      .def(py::init(&make_task), py::kw_only(), py::arg("slices"), py::arg("nodes"),
           py::arg("sockets"), py::arg("epochs"), py::arg("moves_per_epoch"), py::arg("seconds"),
           py::arg("limit_us"), py::arg("price_per_gb"), py::arg("noise"),
           py::arg("throughput_variation"), py::arg("variations"), py::arg("seen"),
           py::arg("sees_offcore"), py::arg("facts"), py::arg("core_of_tile"),
           py::arg("tile_of_core"), py::arg("worker_tiles"));
  py::class_<SharedEpochBatch>(module, "EpochBatch",
                               "Indexes that run side by side, with moves between their epochs.")
      .def(py::init<const EpochTask&, std::size_t, py::dict, py::dict, int>(), py::arg("task"),
           py::arg("environments"), py::arg("rows"), py::arg("results"), py::arg("threads") = 1)
      .def("start", &SharedEpochBatch::start, py::arg("environment"), py::arg("index"),
           py::arg("course"), py::arg("noise_seed"))
      .def("step", &SharedEpochBatch::step, py::arg("actions").noconvert(),
           py::arg("resting").noconvert())
      .def("step_one", &SharedEpochBatch::step_one, py::arg("environment"), py::arg("slice"),
           py::arg("tile"))
      .def("epoch", &SharedEpochBatch::epoch, py::arg("environment"))
      .def("cores", &SharedEpochBatch::cores, py::arg("environment"))
      .def("timeline", &SharedEpochBatch::timeline, py::arg("environment"))
      .def("moves", &SharedEpochBatch::moves, py::arg("environment"));
}

}  // namespace pmoss::bindings
