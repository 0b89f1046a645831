// A program's threads on a simulated server.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "bindings/bindings.hpp"
#include "threads/server.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using threads::Kernel;
using threads::Program;
using threads::Server;
using threads::SlowMemory;
using threads::Thread;

template <typename T, typename Get>
py::array_t<T> of_threads(const Server& server, Get&& get) {
  const auto& all = server.threads();
  py::array_t<T> result(static_cast<py::ssize_t>(all.size()));
  auto out = result.template mutable_unchecked<1>();
  for (std::size_t i = 0; i < all.size(); ++i) out(static_cast<py::ssize_t>(i)) = get(all[i]);
  return result;
}

template <typename T, typename Field>
auto column(Field field) {
  return [field](const Server& server) {
    return of_threads<T>(server, [field](const Thread& thread) { return thread.*field; });
  };
}

void bind_parameters(py::module_& module) {
  py::class_<SlowMemory>(module, "SlowMemory",
                         "What persistent memory does beyond ordinary memory.")
      .def(py::init<>())
      .def_readwrite("read_ns", &SlowMemory::read_ns)
      .def_readwrite("write_ns", &SlowMemory::write_ns)
      .def_readwrite("remote_read_ratio", &SlowMemory::remote_read_ratio)
      .def_readwrite("remote_write_ratio", &SlowMemory::remote_write_ratio)
      .def_readwrite("remote_read_share", &SlowMemory::remote_read_share)
      .def_readwrite("remote_write_share", &SlowMemory::remote_write_share)
      .def_readwrite("remote_writers", &SlowMemory::remote_writers)
      .def_readwrite("remote_writer_cost", &SlowMemory::remote_writer_cost)
      .def_readwrite("remote_mixed_cost", &SlowMemory::remote_mixed_cost)
      .def_readwrite("granule_bytes", &SlowMemory::granule_bytes);

  py::class_<Program>(module, "ThreadProgram", "What every thread of a program does.")
      .def(py::init<>())
      .def_readwrite("write_share", &Program::write_share)
      .def_readwrite("value_bytes", &Program::value_bytes)
      .def_readwrite("read_cycles", &Program::read_cycles)
      .def_readwrite("write_cycles", &Program::write_cycles)
      .def_readwrite("read_faults", &Program::read_faults)
      .def_readwrite("write_faults", &Program::write_faults)
      .def_readwrite("fault_ns", &Program::fault_ns)
      .def_readwrite("index_lines", &Program::index_lines)
      .def_readwrite("ordinary_lines", &Program::ordinary_lines)
      .def_readwrite("first_touches", &Program::first_touches);

  py::class_<Kernel>(module, "KernelScheduler", "What the kernel's scheduler does.")
      .def(py::init<>())
      .def_readwrite("slice_s", &Kernel::slice_s)
      .def_readwrite("node_imbalance", &Kernel::node_imbalance)
      .def_readwrite("turbo_ghz", &Kernel::turbo_ghz)
      .def_readwrite("move_lines", &Kernel::move_lines);
}

void bind_thread_server(py::module_& module) {
  py::class_<Server>(module, "ThreadServer",
                     "A program's threads on a simulated server, epoch by epoch. An object is for "
                     "one thread of Python at a time.")
      .def(py::init<const Machine&, const SlowMemory&, const Program&, const Kernel&,
                    std::vector<int>, double, std::uint64_t>(),
           py::arg("machine"), py::arg("slow"), py::arg("program"), py::arg("kernel"),
           py::kw_only(), py::arg("homes"), py::arg("requests"), py::arg("seed"))
      .def(
          "place", [](Server& server, const std::vector<int>& cpus) { server.place(cpus); },
          py::arg("cpus"), "Puts every thread on a CPU and pins it there.")
      .def("move", &Server::move, py::arg("thread"), py::arg("cpu"), "Pins a thread to a CPU.")
      .def("advance", &Server::advance, py::arg("seconds"),
           py::call_guard<py::gil_scoped_release>(),
           "Lets the program run; returns the seconds that it ran.")
      .def("cpus", column<std::int32_t>(&Thread::cpu), "(T,) int32: the CPU of each thread.")
      .def("homes", column<std::int32_t>(&Thread::home), "(T,) int32: the node of its data.")
      .def("pinned", column<bool>(&Thread::pinned), "(T,) bool: whether an agent has pinned it.")
      .def("requests", column<double>(&Thread::requests), "(T,) float64, of the latest epoch.")
      .def("major_faults", column<double>(&Thread::major), "(T,) float64, of the latest epoch.")
      .def("minor_faults", column<double>(&Thread::minor), "(T,) float64, of the latest epoch.")
      .def(
          "inputs",
          [](const Server& server) {
            const auto& inputs = server.inputs();
            constexpr auto columns = static_cast<py::ssize_t>(threads::input_count);
            py::array_t<double> result(
                {static_cast<py::ssize_t>(inputs.size()) / columns, columns});
            std::copy(inputs.begin(), inputs.end(), result.mutable_data());
            return result;
          },
          "(cores, 12) float64: the inputs of the latest epoch.")
      .def("latency_ns", &Server::latency_ns, py::arg("quantile"))
      .def_property_readonly("ended", &Server::ended)
      .def_property_readonly("slow_read_gb_per_s", &Server::slow_read)
      .def_property_readonly("slow_write_gb_per_s", &Server::slow_write)
      .def_property_readonly("local_slow_accesses", &Server::local_slow)
      .def_property_readonly("remote_slow_accesses", &Server::remote_slow)
      .def_property_readonly("utilisation", &Server::utilisation)
      .def_property_readonly("requests_done", &Server::requests_done)
      .def_property_readonly("user_seconds", &Server::user_seconds)
      .def_property_readonly("kernel_seconds", &Server::kernel_seconds);
}

}  // namespace

void bind_threads(py::module_& module) {
  bind_parameters(module);
  bind_thread_server(module);
}

}  // namespace pmoss::bindings
