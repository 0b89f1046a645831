#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/shared_model.hpp"
#include "environment/batch.hpp"
#include "environment/block_pool.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using environment::Batch;
using environment::BlockPool;
using environment::Observations;
using environment::Oracle;
using environment::Results;
using environment::Start;
using environment::Task;

// No cast and no copy: what is read is what was given.
template <typename T>
using Array = py::array_t<T, py::array::c_style>;

class ModelOracle : public Oracle {
 public:
  explicit ModelOracle(std::shared_ptr<SharedModel> shared) : shared_(std::move(shared)) {}
  double place(std::span<const std::int32_t> cores, std::span<const std::int32_t> nodes) override {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->model.place({cores, nodes});
  }
  double move(int slice, int core, int node) override {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->model.move(slice, core, node);
  }

 private:
  std::shared_ptr<SharedModel> shared_;
};

// The writable array `name` of `arrays`, checked for its type and size.
template <typename T>
T* writable(const py::dict& arrays, const char* name, std::size_t size) {
  if (!arrays.contains(name)) throw py::key_error(name);
  const py::object object = arrays[name];
  if (!py::isinstance<Array<T>>(object)) {
    throw py::type_error(std::string(name) + ": must be a contiguous array of the right type");
  }
  auto array = py::reinterpret_borrow<Array<T>>(object);
  if (static_cast<std::size_t>(array.size()) != size) {
    throw std::invalid_argument("size of " + std::string(name) + " = " +
                                std::to_string(array.size()) + ": must be " + std::to_string(size));
  }
  return array.mutable_data();  // throws where it is read-only
}

Observations observations(const py::dict& arrays, const Task& task, std::size_t environments) {
  const std::size_t tiles = environments * task.tiles();
  const auto counters = static_cast<std::size_t>(task.counters);
  Observations result;
  result.view_mask = writable<std::int8_t>(arrays, "view_mask", tiles);
  result.position_mask = writable<std::int8_t>(arrays, "position_mask", tiles);
  result.machine_view = writable<float>(arrays, "machine_view", tiles * counters);
  result.meta = writable<float>(arrays, "meta", environments * static_cast<std::size_t>(task.meta));
  result.slice = writable<float>(arrays, "slice", environments);
  if (!task.full) return result;
  result.slice_view = writable<float>(arrays, "slice_view", environments * counters);
  result.incumbent_view = writable<float>(arrays, "incumbent_view", tiles * counters);
  return result;
}

Results results(const py::dict& arrays, std::size_t environments) {
  Results result;
  result.rewards = writable<double>(arrays, "rewards", environments);
  result.ended = writable<bool>(arrays, "ended", environments);
  result.throughput = writable<double>(arrays, "throughput", environments);
  result.illegal_actions = writable<std::int64_t>(arrays, "illegal_actions", environments);
  result.slice = writable<std::int64_t>(arrays, "slice", environments);
  result.tile = writable<std::int64_t>(arrays, "tile", environments);
  return result;
}

template <typename T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// The batch with the arrays that it writes. Threads of Python take turns, as with SharedModel.
class SharedBatch {
 public:
  SharedBatch(const Task& task, const std::vector<std::shared_ptr<SharedModel>>& models,
              py::dict state, py::dict outcome, int threads)
      : task_(task),
        state_(std::move(state)),
        outcome_(std::move(outcome)),
        batch_(task, oracles(models), observations(state_, task, models.size()),
               results(outcome_, models.size()), threads),
        pool_(std::make_shared<BlockPool>(bytes(state_), spare_blocks)) {}

  void start(std::size_t environment, const Start& start) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.start(environment, start);
  }

  /// The observations in arrays of their own, or None where no copy is wanted.
  py::object step(const Array<std::int64_t>& actions, const Array<bool>& resting, bool copy) {
    const auto chosen = view(actions);
    const auto left = view(resting);
    py::object result = copy ? py::object(fresh()) : py::none();
    Observations to;
    if (copy) to = observations(result, task_, batch_.environments());
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.step(chosen, left, copy ? &to : nullptr);
    return result;
  }

  py::dict observe() {
    py::dict result = fresh();
    const Observations to = observations(result, task_, batch_.environments());
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.observe(to);
    return result;
  }

  Array<std::int32_t> placed(std::size_t environment) {
    std::vector<std::int32_t> tiles;
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      const auto now = batch_.placed(environment);
      tiles.assign(now.begin(), now.end());
    }
    return Array<std::int32_t>(static_cast<py::ssize_t>(tiles.size()), tiles.data());
  }

 private:
  static constexpr std::size_t alignment = 64;  // a cache line
  // As many as a training loop has in use: the present observations, the next and a spare.
  static constexpr std::size_t spare_blocks = 3;

  static std::size_t rounded(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  static std::size_t bytes(const py::dict& arrays) {
    std::size_t sum = 0;
    for (const auto& [name, array] : arrays) {
      sum += rounded(static_cast<std::size_t>(py::cast<py::array>(array).nbytes()));
    }
    return sum;
  }

  // Arrays like those of the state, all in one block that returns to the pool after the last.
  py::dict fresh() {
    std::unique_ptr<BlockPool::Loan> loan = pool_->take();
    std::byte* at = loan->data();
    const py::capsule owner(loan.get(), [](void* pointer) {
      const std::unique_ptr<BlockPool::Loan> ended(static_cast<BlockPool::Loan*>(pointer));
    });
    static_cast<void>(loan.release());  // the capsule's now
    py::dict result;
    for (const auto& [name, item] : state_) {
      const auto like = py::cast<py::array>(item);
      const std::vector<py::ssize_t> shape(like.shape(), like.shape() + like.ndim());
      result[name] = py::array(like.dtype(), shape, at, owner);
      at += rounded(static_cast<std::size_t>(like.nbytes()));
    }
    return result;
  }

  static std::vector<std::unique_ptr<Oracle>> oracles(
      const std::vector<std::shared_ptr<SharedModel>>& models) {
    std::vector<std::unique_ptr<Oracle>> result;
    for (const auto& model : models) result.push_back(std::make_unique<ModelOracle>(model));
    return result;
  }

  Task task_;
  // Copies of the dictionaries: the arrays that the batch writes live as long as it does.
  py::dict state_, outcome_;
  Batch batch_;
  std::shared_ptr<BlockPool> pool_;
  std::mutex mutex_;
};

}  // namespace

void bind_environment(py::module_& module) {
  py::class_<Task>(module, "BatchTask", "What all episodes of a batch have in common.")
      .def(py::init<>())
      .def_readwrite("slices", &Task::slices)
      .def_readwrite("counters", &Task::counters)
      .def_readwrite("meta", &Task::meta)
      .def_readwrite("core_of_tile", &Task::core_of_tile)
      .def_readwrite("node_of_core", &Task::node_of_core)
      .def_readwrite("worker_tiles", &Task::worker_tiles)
      .def_readwrite("nearest", &Task::nearest)
      .def_readwrite("max_slices_per_core", &Task::max_slices_per_core)
      .def_readwrite("measure_every", &Task::measure_every)
      .def_readwrite("pays_improvement", &Task::pays_improvement)
      .def_readwrite("full", &Task::full);

  py::class_<SharedBatch>(module, "EpisodeBatch",
                          "Episodes on the analytic model that advance together.")
      .def(py::init([](const Task& task, const std::vector<std::shared_ptr<SharedModel>>& models,
                       const py::dict& observations, const py::dict& results, int threads) {
             return std::make_unique<SharedBatch>(task, models,
                                                  py::dict(observations.attr("copy")()),
                                                  py::dict(results.attr("copy")()), threads);
           }),
           py::arg("task"), py::arg("models"), py::kw_only(), py::arg("observations"),
           py::arg("results"), py::arg("threads"))
      .def(
          "start",
          [](SharedBatch& batch, std::size_t environment, const Array<float>& counters,
             const Array<float>& meta, const std::optional<Array<float>>& incumbent_view,
             const Array<std::int32_t>& order, const Array<std::int32_t>& cores,
             const Array<std::int32_t>& nodes, const Array<double>& readings, double throughput) {
            Start start;
            start.counters = view(counters);
            start.meta = view(meta);
            if (incumbent_view) start.incumbent_view = view(*incumbent_view);
            start.order = view(order);
            start.cores = view(cores);
            start.nodes = view(nodes);
            start.readings = view(readings);
            start.throughput = throughput;
            batch.start(environment, start);
          },
          py::arg("environment"), py::kw_only(), py::arg("counters").noconvert(),
          py::arg("meta").noconvert(), py::arg("incumbent_view").noconvert(),
          py::arg("order").noconvert(), py::arg("cores").noconvert(), py::arg("nodes").noconvert(),
          py::arg("readings").noconvert(), py::arg("throughput"))
      .def("step", &SharedBatch::step, py::arg("actions").noconvert(),
           py::arg("resting").noconvert(), py::kw_only(), py::arg("copy"),
           "One step of every environment that does not rest.")
      .def("observe", &SharedBatch::observe, "All observations in arrays of their own.")
      .def("placed", &SharedBatch::placed, py::arg("environment"),
           "(steps,) int32: the tiles that an episode's slices went to so far.");
}

}  // namespace pmoss::bindings
