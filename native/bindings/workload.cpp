// Python: workload descriptions, streams of operations, the key space and Zipf's numbers.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/integers.hpp"
#include "workload/generator.hpp"
#include "workload/keyspace.hpp"
#include "workload/points.hpp"
#include "workload/sorted_key_file.hpp"
#include "workload/zipf.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

constexpr const char* ordered = "zipf_ordered";

Distribution distribution_of(const std::string& name) {
  if (name == "uniform") return Distribution::uniform;
  if (name == "zipf" || name == ordered) return Distribution::zipf;
  if (name == "hot_range") return Distribution::hot_range;
  if (name == "latest") return Distribution::latest;
  throw std::invalid_argument(
      "distribution is '" + name +
      "'; it must be 'uniform', 'zipf', 'zipf_ordered', 'hot_range' or 'latest'");
}

const char* distribution_name(const WorkloadSpec& spec) {
  switch (spec.distribution) {
    case Distribution::zipf:
      return spec.space.in_order > 0 ? ordered : "zipf";
    case Distribution::hot_range:
      return "hot_range";
    case Distribution::latest:
      return "latest";
    case Distribution::uniform:
      break;
  }
  return "uniform";
}

const char* name_of(KeySpace::Kind kind) {
  switch (kind) {
    case KeySpace::Kind::clustered:
      return "clustered";
    case KeySpace::Kind::file:
      return "file";
    case KeySpace::Kind::points:
      return "points";
    case KeySpace::Kind::scattered:
      break;
  }
  return "scattered";
}

KeySpace key_space_of(const std::string& name, std::shared_ptr<SortedKeyFile> keys,
                      std::shared_ptr<PointSet> points) {
  if (name == "scattered") return {KeySpace::Kind::scattered};
  if (name == "clustered") return {KeySpace::Kind::clustered};
  if (name == "file") return {KeySpace::Kind::file, std::move(keys)};
  if (name == "points") return {KeySpace::Kind::points, nullptr, 0, std::move(points)};
  throw std::invalid_argument("key_space is '" + name +
                              "'; it must be 'scattered', 'clustered', 'file' or 'points'");
}

using Coordinates = py::array_t<std::uint32_t, py::array::c_style>;

void set_points(PointSet& set, std::uint64_t first, const Coordinates& points) {
  if (points.ndim() != 2 || points.shape(1) != 2) {
    throw std::invalid_argument("points must have two columns, x and y");
  }
  std::vector<Point> rows;
  for (py::ssize_t i = 0; i < points.shape(0); ++i)
    rows.push_back({points.at(i, 0), points.at(i, 1)});
  set.set(first, rows);
}

WorkloadSpec make_spec(double lookup, double insert, double scan, double update,
                       const std::string& distribution, double theta, std::uint64_t zipf_items,
                       std::uint64_t records, std::uint32_t max_scan_length, std::uint64_t seed,
                       const std::string& key_space, std::shared_ptr<SortedKeyFile> keys,
                       std::shared_ptr<PointSet> points, double hot_share, double hot_fraction,
                       double drift, double read_modify_write, std::uint32_t value_bytes) {
  WorkloadSpec spec{lookup,
                    insert,
                    scan,
                    update,
                    distribution_of(distribution),
                    theta,
                    zipf_items,
                    records,
                    max_scan_length,
                    seed,
                    key_space_of(key_space, std::move(keys), std::move(points)),
                    hot_share,
                    hot_fraction,
                    drift,
                    read_modify_write,
                    value_bytes};
  if (distribution == ordered) spec.space.in_order = records;
  validate(spec);
  return spec;
}

py::str describe(const WorkloadSpec& spec) {
  return py::
      str("WorkloadSpec(lookup={}, insert={}, scan={}, update={}, distribution='{}', theta={}, "
          "zipf_items={}, records={}, max_scan_length={}, seed={}, key_space='{}', hot_share={}, "
          "hot_fraction={}, drift={}, read_modify_write={}, value_bytes={})")
          .format(spec.lookup, spec.insert, spec.scan, spec.update, distribution_name(spec),
                  spec.theta, spec.zipf_items, spec.records, spec.max_scan_length, spec.seed,
                  name_of(spec.space.kind), spec.hot_share, spec.hot_fraction, spec.drift,
                  spec.read_modify_write, spec.value_bytes);
}

py::dict draw(OperationGenerator& generator, py::ssize_t n) {
  if (n < 0) {
    throw std::invalid_argument("n is " + std::to_string(n) + "; it must be at least 0");
  }
  py::array_t<std::uint8_t> kinds(n);
  py::array_t<std::uint64_t> keys(n);
  py::array_t<std::uint32_t> scan_lengths(n);
  auto* const kind = kinds.mutable_data();
  auto* const key = keys.mutable_data();
  auto* const scan_length = scan_lengths.mutable_data();
  {
    const py::gil_scoped_release release;
    for (py::ssize_t i = 0; i < n; ++i) {
      const Operation operation = generator.next();
      kind[i] = static_cast<std::uint8_t>(operation.kind);
      key[i] = operation.key;
      scan_length[i] = operation.scan_length;
    }
  }
  py::dict result;
  result["kind"] = kinds;
  result["key"] = keys;
  result["scan_length"] = scan_lengths;
  return result;
}

void check_slices(std::uint32_t slices) {
  if (slices == 0) throw std::invalid_argument("slices is 0; it must be at least 1");
}

void bind_spec(py::module_& module) {
  py::class_<SortedKeyFile, std::shared_ptr<SortedKeyFile>>(
      module, "SortedKeyFile", "Keys from a file in the format of the SOSD benchmark.")
      .def(py::init<const std::string&>(), py::arg("path"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("size", &SortedKeyFile::size);
  py::class_<PointSet, std::shared_ptr<PointSet>>(module, "PointSet", "Points of a user.")
      .def(py::init<std::uint64_t>(), py::arg("size"))
      .def_property_readonly("size", &PointSet::size)
      .def("set", &set_points, py::arg("first"), py::arg("points"),
           "Places the points number first, first + 1, ...: rows of x and y.");

  const WorkloadSpec standard;
  py::class_<WorkloadSpec>(module, "WorkloadSpec",
                           "A mix of operations and the distribution of their keys.")
      .def(py::init(&make_spec), py::kw_only(), py::arg("lookup") = standard.lookup,
           py::arg("insert") = standard.insert, py::arg("scan") = standard.scan,
           py::arg("update") = standard.update,
           py::arg("distribution") = distribution_name(standard), py::arg("theta") = standard.theta,
           py::arg("zipf_items") = standard.zipf_items, py::arg("records") = standard.records,
           py::arg("max_scan_length") = standard.max_scan_length, py::arg("seed") = standard.seed,
           py::arg("key_space") = name_of(standard.space.kind), py::arg("keys") = nullptr,
           py::arg("points") = nullptr, py::arg("hot_share") = standard.hot_share,
           py::arg("hot_fraction") = standard.hot_fraction, py::arg("drift") = standard.drift,
           py::arg("read_modify_write") = standard.read_modify_write,
           py::arg("value_bytes") = standard.value_bytes)
      .def_readonly("lookup", &WorkloadSpec::lookup)
      .def_readonly("insert", &WorkloadSpec::insert)
      .def_readonly("scan", &WorkloadSpec::scan)
      .def_readonly("update", &WorkloadSpec::update)
      .def_property_readonly("distribution", &distribution_name)
      .def_readonly("theta", &WorkloadSpec::theta)
      .def_readonly("zipf_items", &WorkloadSpec::zipf_items)
      .def_readonly("records", &WorkloadSpec::records)
      .def_readonly("max_scan_length", &WorkloadSpec::max_scan_length)
      .def_readonly("seed", &WorkloadSpec::seed)
      .def_property_readonly("key_space",
                             [](const WorkloadSpec& spec) { return name_of(spec.space.kind); })
      .def_readonly("hot_share", &WorkloadSpec::hot_share)
      .def_readonly("hot_fraction", &WorkloadSpec::hot_fraction)
      .def_readonly("drift", &WorkloadSpec::drift)
      .def_readonly("read_modify_write", &WorkloadSpec::read_modify_write)
      .def_readonly("value_bytes", &WorkloadSpec::value_bytes)
      .def(
          "keys_of_records",
          [](const WorkloadSpec& spec, const py::object& records) {
            return map_integers<std::uint64_t>(records, [&spec](std::uint64_t record) {
              return spec.space.key(record, spec.seed);
            });
          },
          py::arg("record"), "The keys of records in this instance.")
      .def(
          "record_shares",
          [](const WorkloadSpec& spec, std::uint32_t slices) {
            check_slices(slices);
            return record_shares(spec.space, slices);
          },
          py::arg("slices"), "Share of the records that each slice holds, in expectation.")
      .def(
          "cell_shares",
          [](const WorkloadSpec& spec, std::uint32_t slices) {
            return RecordSample(spec.space, spec.records, grid_of(slices)).share();
          },
          py::arg("slices"),
          "Share of the records, taken for points, that each cell of a grid holds; of a sample.")
      .def(
          "hot_range_shares",
          [](const WorkloadSpec& spec, std::uint32_t slices) {
            check_slices(slices);
            return hot_range_shares(spec, slices);
          },
          py::arg("slices"), "Share of the hot range's choices that fall on each slice.")
      .def("__repr__", &describe);
}

void bind_generator(py::module_& module) {
  module.attr("OPERATION_KINDS") = py::make_tuple("lookup", "insert", "scan", "update");
  py::class_<OperationGenerator>(module, "OperationGenerator",
                                 "The operations of one client, drawn from a WorkloadSpec.")
      .def(py::init([](const WorkloadSpec& spec, std::uint64_t stream_seed,
                       std::optional<std::uint64_t> first_insert_record,
                       std::uint64_t insert_stride) {
             return OperationGenerator(spec, stream_seed,
                                       first_insert_record.value_or(spec.records), insert_stride);
           }),
           py::arg("spec"), py::arg("stream_seed") = 0, py::arg("first_insert_record") = py::none(),
           py::arg("insert_stride") = 1)
      .def_property_readonly("spec", [](const OperationGenerator& g) { return g.spec(); })
      .def("draw", &draw, py::arg("n"),
           "The next n operations: arrays 'kind' (index into OPERATION_KINDS), 'key' and "
           "'scan_length' (0 unless the kind is scan).");
}

void bind_keys(py::module_& module) {
  module.def(
      "key_of_record",
      [](const py::object& records, std::uint64_t seed) {
        return map_integers<std::uint64_t>(
            records, [=](std::uint64_t record) { return key_of_record(record, seed); });
      },
      py::arg("record"), py::arg("seed") = 0, "The keys of records in the workload instance.");
  module.def(
      "slice_of_key",
      [](const py::object& keys, std::uint32_t slices) {
        check_slices(slices);
        return map_integers<std::uint32_t>(
            keys, [=](std::uint64_t key) { return slice_of_key(key, slices); });
      },
      py::arg("key"), py::arg("slices"), "The slices that serve the keys.");
  module.def(
      "first_key_of_slice",
      [](std::uint32_t slice, std::uint32_t slices) {
        check_slices(slices);
        if (slice >= slices) {
          throw py::index_error("slice is " + std::to_string(slice) + "; it must be below " +
                                std::to_string(slices));
        }
        return first_key_of_slice(slice, slices);
      },
      py::arg("slice"), py::arg("slices"), "The smallest key that the slice serves.");
}

}  // namespace

void bind_workload(py::module_& module) {
  bind_spec(module);
  bind_generator(module);
  bind_keys(module);
}

}  // namespace pmoss::bindings
