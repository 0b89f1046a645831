#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/model_types.hpp"
#include "bindings/named_profiler.hpp"
#include "bindings/shared_model.hpp"
#include "environment/batch.hpp"
#include "environment/block_pool.hpp"
#include "environment/rules.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using environment::Batch;
using environment::BlockPool;
using environment::Detail;
using environment::Observations;
using environment::Opening;
using environment::Outcome;
using environment::Results;
using environment::Reward;
using environment::Rules;
using environment::Start;
using environment::Task;
using environment::ThroughputSource;

// What is shown of `rows` environments or steps where actions choose nodes.
void add_nodes(const py::dict& arrays, const Task& task, std::size_t rows, Observations& to) {
  if (!task.chooses_node) return;
  const std::size_t nodes = rows * task.nodes();
  to.node_mask = writable<std::int8_t>(arrays, "node_mask", nodes);
  to.node_room = writable<float>(arrays, "node_room", nodes);
  if (task.detail == Detail::compact) return;
  to.node_view =
      writable<float>(arrays, "node_view", nodes * static_cast<std::size_t>(task.counters));
  if (task.detail != Detail::complete) return;
  const std::size_t slices = rows * static_cast<std::size_t>(task.slices);
  to.slice_nodes = writable<std::int32_t>(arrays, "slice_nodes", slices);
}

// What is shown of `rows` environments or steps in a compact form, besides the mask of tiles.
void add_compact(const py::dict& arrays, const Task& task, std::size_t rows, Observations& to) {
  to.slice = writable<float>(arrays, "slice", rows);
  to.slice_view =
      writable<float>(arrays, "slice_view", rows * static_cast<std::size_t>(task.counters));
  to.slice_places =
      writable<std::int16_t>(arrays, "slice_places", rows * static_cast<std::size_t>(task.slices));
  add_nodes(arrays, task, rows, to);
}

Observations observations(const py::dict& arrays, const Task& task, std::size_t environments) {
  const std::size_t tiles = environments * task.tiles();
  const auto counters = static_cast<std::size_t>(task.counters);
  Observations result;
  result.position_mask = writable<std::int8_t>(arrays, "position_mask", tiles);
  if (task.detail == Detail::compact) {
    add_compact(arrays, task, environments, result);
    return result;
  }
  result.view_mask = writable<std::int8_t>(arrays, "view_mask", tiles);
  result.machine_view = writable<float>(arrays, "machine_view", tiles * counters);
  result.meta = writable<float>(arrays, "meta", environments * static_cast<std::size_t>(task.meta));
  result.slice = writable<float>(arrays, "slice", environments);
  add_nodes(arrays, task, environments, result);
  if (task.detail == Detail::paper) return result;
  result.slice_view = writable<float>(arrays, "slice_view", environments * counters);
  result.incumbent_view = writable<float>(arrays, "incumbent_view", tiles * counters);
  if (task.detail == Detail::full) return result;
  const std::size_t slices = environments * static_cast<std::size_t>(task.slices);
  result.slice_counters = writable<float>(arrays, "slice_counters", slices * counters);
  result.incumbent_tiles = writable<std::int32_t>(arrays, "incumbent_tiles", slices);
  result.slice_tiles = writable<std::int32_t>(arrays, "slice_tiles", slices);
  if (task.chooses_node) {
    result.incumbent_nodes = writable<std::int32_t>(arrays, "incumbent_nodes", slices);
  }
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
  result.node = writable<std::int64_t>(arrays, "node", environments);
  return result;
}

/// (environment, profiler, seed, co-tenants, cores, nodes): the profiler or None for the instance
/// at hand; the co-tenants or None for those at hand.
using OpeningFields = std::tuple<std::size_t, std::shared_ptr<NamedProfiler>, std::uint64_t,
                                 const Interference*, Array<std::int32_t>, Array<std::int32_t>>;

Opening opening_of(const OpeningFields& fields) {
  const auto& [environment, profiler, seed, taken, cores, nodes] = fields;
  Opening opening{environment, {}, taken, view(cores), view(nodes), false, nullptr};
  if (profiler) {
    opening.profiles = [profiler = profiler, seed = seed] { return profiler->profiles(seed); };
  }
  return opening;
}

/// The same for later: Python may change or drop what it gave.
Opening owned(Opening opening) {
  struct Owned {
    std::vector<std::int32_t> cores, nodes;
    Interference taken;
  };
  const auto copy = std::make_shared<Owned>();
  copy->cores.assign(opening.cores.begin(), opening.cores.end());
  copy->nodes.assign(opening.nodes.begin(), opening.nodes.end());
  opening.cores = copy->cores;
  opening.nodes = copy->nodes;
  if (opening.taken != nullptr) {
    copy->taken = *opening.taken;
    opening.taken = &copy->taken;
  }
  opening.owned = copy;
  return opening;
}

// The batch with the arrays that it writes. Threads of Python take turns, as with SharedModel.
class SharedBatch {
 public:
  SharedBatch(const Rules& rules, const std::vector<std::shared_ptr<SharedModel>>& models,
              py::dict state, py::dict outcome, int threads)
      : task_(rules.task()),
        state_(std::move(state)),
        outcome_(std::move(outcome)),
        results_(results(outcome_, models.size())),
        batch_(rules, sources(models), observations(state_, task_, models.size()), results_,
               threads) {
    for (const auto& [name, item] : state_) {
      const auto like = py::cast<py::array>(item);
      const std::vector<py::ssize_t> shape(like.shape(), like.shape() + like.ndim());
      all_.add(name, like.dtype(), shape);
      one_.add(name, like.dtype(), {shape.begin() + 1, shape.end()});
    }
  }

  /// A ModelSnapshot each.
  py::list open(const std::vector<OpeningFields>& rows, const std::vector<std::size_t>& prepared) {
    std::vector<Opening> openings;
    for (const OpeningFields& fields : rows) {
      Opening& opening = openings.emplace_back(opening_of(fields));
      opening.prepared = std::ranges::find(prepared, opening.environment) != prepared.end();
    }
    std::vector<Snapshot> snapshots;
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      snapshots = batch_.open(openings);
    }
    py::list result;
    for (const Snapshot& snapshot : snapshots) {
      result.append(to_dict(snapshot, &ComputedCounter::analytic));
    }
    return result;
  }

  void prepare(const std::vector<OpeningFields>& rows) {
    std::vector<Opening> openings;
    for (const OpeningFields& fields : rows) openings.push_back(owned(opening_of(fields)));
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.prepare(std::move(openings));
  }

  void start(std::size_t environment, const Start& start) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.start(environment, start);
  }

  /// The observations in arrays of their own, or None where no copy is wanted.
  py::object step(const Array<std::int64_t>& actions, const Array<bool>& resting, bool copy) {
    const auto chosen = view(actions);
    const auto left = view(resting);
    Observations to;
    py::object result = copy ? py::object(all_.fresh(to)) : py::none();
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.step(chosen, left, copy ? &to : nullptr);
    return result;
  }

  /// (ended, whether read() is to be called now, what observe_one() gives or None where it is).
  py::tuple step_one(std::size_t environment, std::int64_t action) {
    bool due = false;
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      due = batch_.step_one(environment, action);
    }
    py::object shown = due ? py::object(py::none()) : py::object(observe_one(environment));
    return py::make_tuple(results_.ended[environment], due, std::move(shown));
  }

  void read(std::size_t environment, double throughput) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.read(environment, throughput);
  }

  py::dict observe() {
    Observations to;
    py::dict result = all_.fresh(to);
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    batch_.observe(to);
    return result;
  }

  /// An observation in arrays of its own, the mask of actions, and
  /// (reward, throughput, illegal actions, next slice, latest tile, latest node).
  py::tuple observe_one(std::size_t i) {
    Observations to;
    py::dict result = one_.fresh(to);
    py::array_t<std::int8_t> mask(static_cast<py::ssize_t>(task_.actions()));
    std::int8_t* const flat = mask.mutable_data();
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      batch_.observe_one(i, to);
      batch_.rules().action_mask(to.position_mask, to.node_mask, flat);
    }
    return py::make_tuple(result, mask, results_.rewards[i], results_.throughput[i],
                          results_.illegal_actions[i], results_.slice[i], results_.tile[i],
                          results_.node[i]);
  }

  Array<std::int32_t> placed(std::size_t environment) {
    return listed([&] { return batch_.placed(environment); });
  }
  py::tuple schedule(std::size_t environment) {
    return py::make_tuple(listed([&] { return batch_.cores(environment); }),
                          listed([&] { return batch_.nodes(environment); }));
  }

 private:
  // Arrays of one shape each that lie in one block, which returns to its pool after the last.
  class Layout {
   public:
    void add(py::handle name, const py::dtype& type, const std::vector<py::ssize_t>& shape) {
      std::size_t bytes = static_cast<std::size_t>(type.itemsize());
      for (const py::ssize_t length : shape) bytes *= static_cast<std::size_t>(length);
      const auto key = py::cast<std::string>(name);
      float* Observations::* number = nullptr;
      std::int8_t* Observations::* flag = nullptr;
      std::int32_t* Observations::* place = nullptr;
      std::int16_t* Observations::* action = nullptr;
      if (key == "view_mask") flag = &Observations::view_mask;
      if (key == "position_mask") flag = &Observations::position_mask;
      if (key == "machine_view") number = &Observations::machine_view;
      if (key == "meta") number = &Observations::meta;
      if (key == "slice") number = &Observations::slice;
      if (key == "slice_view") number = &Observations::slice_view;
      if (key == "incumbent_view") number = &Observations::incumbent_view;
      if (key == "slice_counters") number = &Observations::slice_counters;
      if (key == "incumbent_tiles") place = &Observations::incumbent_tiles;
      if (key == "slice_tiles") place = &Observations::slice_tiles;
      if (key == "node_mask") flag = &Observations::node_mask;
      if (key == "node_room") number = &Observations::node_room;
      if (key == "node_view") number = &Observations::node_view;
      if (key == "incumbent_nodes") place = &Observations::incumbent_nodes;
      if (key == "slice_nodes") place = &Observations::slice_nodes;
      if (key == "slice_places") action = &Observations::slice_places;
      if (number == nullptr && flag == nullptr && place == nullptr && action == nullptr) {
        throw py::key_error(key);
      }
      parts_.push_back({py::reinterpret_borrow<py::object>(name), type, shape, bytes_, number, flag,
                        place, action});
      bytes_ += (bytes + alignment - 1) / alignment * alignment;
      pool_.reset();
    }

    // `to` gets their places, which saves looking them up by name.
    py::dict fresh(Observations& to) {
      if (!pool_) pool_ = std::make_shared<BlockPool>(bytes_, spare_blocks);
      std::unique_ptr<BlockPool::Loan> loan = pool_->take();
      std::byte* const at = loan->data();
      const py::capsule owner(loan.get(), [](void* pointer) {
        const std::unique_ptr<BlockPool::Loan> ended(static_cast<BlockPool::Loan*>(pointer));
      });
      static_cast<void>(loan.release());  // the capsule's now
      py::dict result;
      for (const Part& part : parts_) {
        std::byte* const values = at + part.offset;
        result[part.name] = part.array(values, owner);
        if (part.number != nullptr) {
          to.*part.number = reinterpret_cast<float*>(values);
        } else if (part.flag != nullptr) {
          to.*part.flag = reinterpret_cast<std::int8_t*>(values);
        } else if (part.action != nullptr) {
          to.*part.action = reinterpret_cast<std::int16_t*>(values);
        } else {
          to.*part.place = reinterpret_cast<std::int32_t*>(values);
        }
      }
      return result;
    }

   private:
    struct Part {
      /// What the constructor of py::array gives, in half of its time.
      py::object array(std::byte* values, const py::capsule& owner) const {
        const py::detail::npy_api& api = py::detail::npy_api::get();
        constexpr int flags = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                              py::detail::npy_api::NPY_ARRAY_ALIGNED_ |
                              py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
        // Both calls take a reference of theirs.
        py::object made = py::reinterpret_steal<py::object>(api.PyArray_NewFromDescr_(
            api.PyArray_Type_, py::dtype(type).release().ptr(), static_cast<int>(shape.size()),
            reinterpret_cast<const Py_intptr_t*>(shape.data()), nullptr, values, flags, nullptr));
        if (!made ||
            api.PyArray_SetBaseObject_(made.ptr(), py::object(owner).release().ptr()) < 0) {
          throw py::error_already_set();
        }
        return made;
      }

      py::object name;
      py::dtype type;
      std::vector<py::ssize_t> shape;
      std::size_t offset;
      // Which of the pointers of Observations it is.
      float* Observations::* number;
      std::int8_t* Observations::* flag;
      std::int32_t* Observations::* place;
      std::int16_t* Observations::* action;
    };
    static constexpr std::size_t alignment = 64;  // a cache line
    // As many as a training loop has in use: the present observations, the next and a spare.
    static constexpr std::size_t spare_blocks = 3;

    std::vector<Part> parts_;
    std::size_t bytes_ = 0;
    std::shared_ptr<BlockPool> pool_;
  };

  template <typename Get>
  Array<std::int32_t> listed(Get get) {
    std::vector<std::int32_t> values;
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      const auto now = get();
      values.assign(now.begin(), now.end());
    }
    return Array<std::int32_t>(static_cast<py::ssize_t>(values.size()), values.data());
  }

  static std::vector<std::unique_ptr<ThroughputSource>> sources(
      const std::vector<std::shared_ptr<SharedModel>>& models) {
    std::vector<std::unique_ptr<ThroughputSource>> result;
    for (const auto& model : models) {
      result.push_back(model ? std::make_unique<ModelSource>(model) : nullptr);
    }
    return result;
  }

  Task task_;
  // Copies of the dictionaries: the arrays that the batch writes live as long as it does.
  py::dict state_, outcome_;
  Results results_;
  Batch batch_;
  Layout all_, one_;
  environment::ForkAwareMutex mutex_;
};

Reward reward_of(const std::string& name) {
  if (name == "improvement") return Reward::improvement;
  if (name == "slice") return Reward::slice;
  if (name == "terminal") return Reward::terminal;
  throw std::invalid_argument("reward = '" + name + "': unknown");
}

Detail detail_of(const std::string& name) {
  if (name == "paper") return Detail::paper;
  if (name == "full") return Detail::full;
  if (name == "complete") return Detail::complete;
  if (name == "compact") return Detail::compact;
  throw std::invalid_argument("observation = '" + name + "': unknown");
}

Rules make_rules(int slices, int counters, int meta, int columns,
                 std::vector<std::int32_t> core_of_tile, std::vector<std::int32_t> node_of_core,
                 std::vector<std::int32_t> socket_of_node, std::vector<std::uint8_t> worker_tiles,
                 bool remaps, int max_slices_per_core, std::vector<std::int32_t> max_slices_of_node,
                 bool chooses_node, int measure_every, const std::string& reward,
                 const std::string& observation) {
  Task task;
  task.slices = slices;
  task.counters = counters;
  task.meta = meta;
  task.columns = columns;
  task.core_of_tile = std::move(core_of_tile);
  task.node_of_core = std::move(node_of_core);
  task.socket_of_node = std::move(socket_of_node);
  task.worker_tiles = std::move(worker_tiles);
  task.remaps = remaps;
  task.max_slices_per_core = max_slices_per_core;
  task.max_slices_of_node = std::move(max_slices_of_node);
  task.chooses_node = chooses_node;
  task.measure_every = measure_every;
  task.reward = reward_of(reward);
  task.detail = detail_of(observation);
  return Rules(std::move(task));
}

// Writes the rows of the steps into arrays of the caller.
void expand(const Rules& rules, const Array<float>& counters, const Array<std::int32_t>& order,
            const Array<std::int32_t>& incumbent, const Array<std::int32_t>& incumbent_nodes,
            const Array<std::int32_t>& actions, std::size_t steps, const py::dict& arrays) {
  const Task& task = rules.task();
  const std::size_t cells = steps * task.tiles();
  const auto width = static_cast<std::size_t>(task.counters);
  Observations rows;
  rows.position_mask = writable<std::int8_t>(arrays, "position_mask", cells);
  if (task.detail == Detail::compact) {
    add_compact(arrays, task, steps, rows);
  } else {
    rows.view_mask = writable<std::int8_t>(arrays, "view_mask", cells);
    rows.machine_view = writable<float>(arrays, "machine_view", cells * width);
    rows.slice = writable<float>(arrays, "slice", steps);
    add_nodes(arrays, task, steps, rows);
  }
  if (task.detail == Detail::full || task.detail == Detail::complete) {
    rows.slice_view = writable<float>(arrays, "slice_view", steps * width);
  }
  if (task.detail == Detail::complete) {
    const auto slices = static_cast<std::size_t>(task.slices);
    rows.slice_tiles = writable<std::int32_t>(arrays, "slice_tiles", steps * slices);
  }
  const auto c = view(counters);
  const auto o = view(order);
  const auto i = view(incumbent);
  const auto n = view(incumbent_nodes);
  const auto a = view(actions);
  const py::gil_scoped_release release;
  rules.expand(c, o, i, n, a, steps, rows);
}

Array<std::int8_t> expand_masks(const Rules& rules, const Array<std::int32_t>& actions,
                                std::size_t steps) {
  const auto all = static_cast<py::ssize_t>(rules.task().actions());
  Array<std::int8_t> masks({static_cast<py::ssize_t>(steps), all});
  rules.expand_masks(view(actions), steps, masks.mutable_data());
  return masks;
}

Array<float> incumbent_view(const Rules& rules, const Array<float>& counters,
                            const Array<std::int32_t>& cores) {
  const Task& task = rules.task();
  const auto slices = static_cast<py::ssize_t>(task.slices);
  if (cores.size() != slices || counters.size() != slices * task.counters) {
    throw std::invalid_argument("counters and cores: must be of " + std::to_string(slices) +
                                " slices");
  }
  rules.check_cores("cores", view(cores));
  Array<float> result(
      {static_cast<py::ssize_t>(task.tiles()), static_cast<py::ssize_t>(task.counters)});
  rules.incumbent_view(view(counters), view(cores), result.mutable_data());
  return result;
}

template <auto calculate>
Array<double> in_hindsight(const std::string& mode, double incumbent, double final,
                           const Array<double>& throughput, const Array<double>& shares,
                           const Array<std::int32_t>& order) {
  Array<double> result(order.size());
  const Outcome outcome{incumbent, final, view(throughput), view(shares), view(order)};
  calculate(reward_of(mode), outcome,
            {result.mutable_data(), static_cast<std::size_t>(result.size())});
  return result;
}

// The package above puts a type of its own into ForkedError's place.
void bind_forks(py::module_& module) {
  module.attr("ForkedError") = py::reinterpret_borrow<py::object>(PyExc_RuntimeError);
  static PyObject* const names = module.ptr();  // the module lives as long as the process
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const environment::ForkedError& error) {
      const py::object type = py::handle(names).attr("ForkedError");
      py::set_error(type, error.what());
    }
  });
}

}  // namespace

void bind_environment(py::module_& module) {
  bind_forks(module);
  py::class_<Rules>(module, "SpatialRules", "The rules of spatial scheduling.")
      .def(py::init(&make_rules), py::kw_only(), py::arg("slices"), py::arg("counters"),
           py::arg("meta"), py::arg("columns"), py::arg("core_of_tile"), py::arg("node_of_core"),
           py::arg("socket_of_node"), py::arg("worker_tiles"), py::arg("remaps"),
           py::arg("max_slices_per_core"), py::arg("max_slices_of_node"), py::arg("chooses_node"),
           py::arg("measure_every"), py::arg("reward"), py::arg("observation"))
      .def("expand", &expand, py::arg("counters").noconvert(), py::arg("order").noconvert(),
           py::arg("incumbent").noconvert(), py::arg("incumbent_nodes").noconvert(),
           py::arg("actions").noconvert(), py::arg("steps"), py::arg("arrays"),
           "Writes what an episode showed into arrays with a row per step.")
      .def("expand_masks", &expand_masks, py::arg("actions").noconvert(), py::arg("steps"),
           "(steps, actions) int8: the masks of an episode's actions.")
      .def("incumbent_view", &incumbent_view, py::arg("counters").noconvert(),
           py::arg("cores").noconvert(), "(tiles, counters) float32: the sums on each tile.");
  const auto hindsight = [&](const char* name, auto function, const char* help) {
    module.def(name, function, py::arg("mode"), py::kw_only(), py::arg("incumbent"),
               py::arg("final"), py::arg("throughput"), py::arg("shares"), py::arg("order"), help);
  };
  hindsight("spatial_rewards", &in_hindsight<environment::rewards>,
            "(steps,) float64: what each step of an episode pays in hindsight.");
  hindsight("spatial_returns_to_go", &in_hindsight<environment::returns_to_go>,
            "(steps,) float64: the rewards of each and all later steps.");

  py::class_<SharedBatch>(module, "EpisodeBatch", "Episodes that advance together.")
      .def(py::init([](const Rules& rules, const std::vector<std::shared_ptr<SharedModel>>& models,
                       const py::dict& observations, const py::dict& results, int threads) {
             return std::make_unique<SharedBatch>(rules, models,
                                                  py::dict(observations.attr("copy")()),
                                                  py::dict(results.attr("copy")()), threads);
           }),
           py::arg("rules"), py::arg("models"), py::kw_only(), py::arg("observations"),
           py::arg("results"), py::arg("threads"))
      .def("open", &SharedBatch::open, py::arg("openings"),
           py::arg("prepared") = std::vector<std::size_t>(),
           "Gives models another instance and measures incumbents, side by side. Each is (row, "
           "profiler or None for the instance at hand, seed, co-tenants or None for those at "
           "hand, cores, nodes). Of the rows `prepared`, prepare() got the same.")
      .def("prepare", &SharedBatch::prepare, py::arg("openings"),
           "Has the threads beside the caller measure next incumbents while episodes go on.")
      .def(
          "start",
          [](SharedBatch& batch, std::size_t environment, const Array<float>& counters,
             const Array<float>& meta, const Array<std::int32_t>& order,
             const Array<std::int32_t>& cores, const Array<std::int32_t>& nodes,
             const Array<double>& readings, double throughput) {
            Start start;
            start.counters = view(counters);
            start.meta = view(meta);
            start.order = view(order);
            start.cores = view(cores);
            start.nodes = view(nodes);
            start.readings = view(readings);
            start.throughput = throughput;
            batch.start(environment, start);
          },
          py::arg("environment"), py::kw_only(), py::arg("counters").noconvert(),
          py::arg("meta").noconvert(), py::arg("order").noconvert(), py::arg("cores").noconvert(),
          py::arg("nodes").noconvert(), py::arg("readings").noconvert(), py::arg("throughput"))
      .def("step", &SharedBatch::step, py::arg("actions").noconvert(),
           py::arg("resting").noconvert(), py::kw_only(), py::arg("copy"),
           "One step of every environment that does not rest.")
      .def("step_one", &SharedBatch::step_one, py::arg("environment"), py::arg("action"),
           "One step of one environment: (ended, whether read() is to be called now, what "
           "observe_one() gives or None where it is).")
      .def("read", &SharedBatch::read, py::arg("environment"), py::arg("throughput"),
           "Takes a reading of the present schedule in Mq/s, unless it was read already.")
      .def("observe", &SharedBatch::observe, "All observations in arrays of their own.")
      .def("observe_one", &SharedBatch::observe_one, py::arg("environment"),
           "(observation, action mask, reward, throughput, illegal actions, slice, tile).")
      .def("schedule", &SharedBatch::schedule, py::arg("environment"),
           "(slices,) int32 each: the cores and nodes of the present schedule.")
      .def("placed", &SharedBatch::placed, py::arg("environment"),
           "(steps,) int32: the tiles that an episode's slices went to so far.");
}

}  // namespace pmoss::bindings
