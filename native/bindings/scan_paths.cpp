#include "simulator/scan_paths.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using simulator::OffloadParameters;
using simulator::Scan;
using simulator::ScanOutcome;
using simulator::ScanPaths;

template <typename T>
using Column = py::array_t<T, py::array::c_style>;

/// The values of a column; throws std::invalid_argument unless there are `n`.
template <typename T>
const T* values_of(const Column<T>& column, std::size_t n, const char* name) {
  if (column.ndim() != 1 || static_cast<std::size_t>(column.size()) != n) {
    throw std::invalid_argument(std::string(name) + " must be one dimension, as long as rows");
  }
  return column.data();
}

py::array_t<double> gathered(const std::vector<ScanOutcome>& outcomes,
                             double ScanOutcome::* field) {
  py::array_t<double> result(static_cast<py::ssize_t>(outcomes.size()));
  double* const out = result.mutable_data();
  for (std::size_t i = 0; i < outcomes.size(); ++i) out[i] = outcomes[i].*field;
  return result;
}

}  // namespace

void bind_scan_paths(py::module_& module) {
  py::class_<OffloadParameters>(module, "OffloadParameters",
                                "Blades, hubs and their copy engines; see the machine files.")
      .def(py::init<>())
      .def_readwrite("sockets_per_blade", &OffloadParameters::sockets_per_blade)
      .def_readwrite("hubs_per_blade", &OffloadParameters::hubs_per_blade)
      .def_readwrite("socket_link_gb_per_s", &OffloadParameters::socket_link_gb_per_s)
      .def_readwrite("hub_link_gb_per_s", &OffloadParameters::hub_link_gb_per_s)
      .def_readwrite("line_overhead_bytes", &OffloadParameters::line_overhead_bytes)
      .def_readwrite("request_bytes", &OffloadParameters::request_bytes)
      .def_readwrite("prefetch_lines", &OffloadParameters::prefetch_lines)
      .def_readwrite("prefetch_page_lines", &OffloadParameters::prefetch_page_lines)
      .def_readwrite("lookahead_lines", &OffloadParameters::lookahead_lines)
      .def_readwrite("cycles_per_value", &OffloadParameters::cycles_per_value)
      .def_readwrite("cycles_per_result", &OffloadParameters::cycles_per_result)
      .def_readwrite("result_bytes", &OffloadParameters::result_bytes)
      .def_readwrite("page_fault_us", &OffloadParameters::page_fault_us)
      .def_readwrite("scan_setup_us", &OffloadParameters::scan_setup_us)
      .def_readwrite("engine_setup_us", &OffloadParameters::engine_setup_us)
      .def_readwrite("block_kib", &OffloadParameters::block_kib)
      .def_readwrite("block_overhead_us", &OffloadParameters::block_overhead_us)
      .def_readwrite("engine_lines", &OffloadParameters::engine_lines)
      .def_readwrite("engine_line_ns", &OffloadParameters::engine_line_ns)
      .def_readwrite("engine_coherence_ns", &OffloadParameters::engine_coherence_ns);

  py::class_<ScanPaths, std::shared_ptr<ScanPaths>>(
      module, "ScanPaths", "Scans on blades with copy engines, as a discrete-event simulation.")
      .def(py::init<const Machine&, const OffloadParameters&>(), py::arg("machine"),
           py::arg("parameters"))
      .def_property_readonly("link_names", &ScanPaths::link_names)
      .def("latency_ns", &ScanPaths::latency_ns, py::arg("execution_node"), py::arg("storage_node"))
      .def("bandwidth_gb_per_s", &ScanPaths::bandwidth_gb_per_s, py::arg("execution_node"),
           py::arg("storage_node"), py::arg("workers"), py::call_guard<py::gil_scoped_release>(),
           "GB/s that cores of one node get together out of the memory of another.")
      .def(
          "run",
          [](const ScanPaths& paths, const Column<std::int32_t>& execution_node,
             const Column<std::int32_t>& storage_node, const Column<double>& rows,
             const Column<double>& results, const Column<std::int32_t>& cpu_workers,
             const Column<double>& cpu_worker_gb_per_s, const Column<std::int32_t>& engine_workers,
             const Column<double>& engine_worker_gb_per_s, const Column<std::uint8_t>& path,
             const Column<std::uint64_t>& seed, int threads, bool links) {
            const auto n = static_cast<std::size_t>(rows.size());
            const std::int32_t* const execution = values_of(execution_node, n, "execution_node");
            const std::int32_t* const storage = values_of(storage_node, n, "storage_node");
            const double* const row = values_of(rows, n, "rows");
            const double* const result = values_of(results, n, "results");
            const std::int32_t* const cpus = values_of(cpu_workers, n, "cpu_workers");
            const double* const cpu_rate = values_of(cpu_worker_gb_per_s, n, "cpu_worker_gb_per_s");
            const std::int32_t* const engines = values_of(engine_workers, n, "engine_workers");
            const double* const engine_rate =
                values_of(engine_worker_gb_per_s, n, "engine_worker_gb_per_s");
            std::vector<Scan> scans(n);
            for (std::size_t i = 0; i < n; ++i) {
              scans[i] = {execution[i], storage[i],  row[i],     result[i],
                          cpus[i],      cpu_rate[i], engines[i], engine_rate[i]};
            }
            std::vector<ScanOutcome> outcomes(n);
            const std::span<const std::uint8_t> ways{values_of(path, n, "path"), n};
            const std::span<const std::uint64_t> seeds{values_of(seed, n, "seed"), n};
            {
              const py::gil_scoped_release release;
              paths.run_batch(scans, ways, seeds, threads, outcomes);
            }
            py::dict columns;
            columns["run_time_us"] = gathered(outcomes, &ScanOutcome::run_time_us);
            columns["link_traffic_gb_per_s"] =
                gathered(outcomes, &ScanOutcome::link_traffic_gb_per_s);
            columns["engine_traffic_gb_per_s"] =
                gathered(outcomes, &ScanOutcome::engine_traffic_gb_per_s);
            if (links) {
              const auto width = static_cast<py::ssize_t>(paths.link_names().size());
              py::array_t<double> traffic({static_cast<py::ssize_t>(n), width, py::ssize_t{2}});
              double* out = traffic.mutable_data();
              for (const ScanOutcome& outcome : outcomes) {
                for (const simulator::LinkTraffic& link : outcome.links) {
                  *out++ = link.payload_gb_per_s;
                  *out++ = link.overhead_gb_per_s;
                }
              }
              columns["links"] = traffic;
            }
            return columns;
          },
          py::arg("execution_node").noconvert(), py::arg("storage_node").noconvert(),
          py::arg("rows").noconvert(), py::arg("results").noconvert(), py::kw_only(),
          py::arg("cpu_workers").noconvert(), py::arg("cpu_worker_gb_per_s").noconvert(),
          py::arg("engine_workers").noconvert(), py::arg("engine_worker_gb_per_s").noconvert(),
          py::arg("path").noconvert(), py::arg("seed").noconvert(), py::arg("threads") = 1,
          py::arg("links") = false,
          "Runs one scan per row; the result depends on the row alone. With `links`, what each "
          "link carried: (scans, links, 2), payload and overhead in GB/s.");
}

}  // namespace pmoss::bindings
