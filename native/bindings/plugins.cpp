// Python: indexes in libraries of users.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>

#include "bindings/host_bindings.hpp"
#include "kinds/plugin.hpp"
#include "kinds/plugin_library.hpp"

namespace py = pybind11;

namespace pmoss::bindings {

void bind_plugins(py::module_& module) {
  py::register_exception<kinds::PluginError>(module, "IndexPluginError", PyExc_RuntimeError);
  module.def(
      "register_plugin", &kinds::register_plugin, py::arg("path"),
      "Makes a kind of a user's library (native/include/pmoss/index.h) and returns its name, "
      "\"plugin:PATH\". The path is absolute. Its code runs when the kind is served.");
  const kinds::PluginCheck usual;
  module.def(
      "check_plugin",
      [](const std::string& path, std::uint64_t operations, unsigned threads, std::uint64_t seed,
         const py::object& progress) {
        kinds::PluginCheck check{operations, threads, seed};
        if (!progress.is_none()) {
          check.progress = [&progress](std::uint64_t done, std::uint64_t all) {
            const py::gil_scoped_acquire acquire;
            progress(done, all);
          };
        }
        const py::gil_scoped_release release;
        return kinds::check_plugin(path, check);
      },
      py::arg("path"), py::kw_only(), py::arg("operations") = usual.operations,
      py::arg("threads") = usual.threads, py::arg("seed") = usual.seed,
      py::arg("progress") = py::none(),
      "Holds random operations of one thread, then of several, against a model. Returns what was "
      "done, a line each; IndexPluginError is raised at the first wrong answer. `progress` is "
      "called with the number of operations done, and of all.");
}

}  // namespace pmoss::bindings
