#include "kinds/plugin.hpp"

#include <memory>
#include <stdexcept>

#include "kinds/index_kind.hpp"
#include "kinds/served_plugin.hpp"

namespace pmoss::kinds {

std::string register_plugin(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    throw std::invalid_argument("the plugin '" + path + "' must be named by its absolute path");
  }
  const std::string name = plugin_prefix + path;
  for (const IndexKind* const kind : all_kinds()) {
    if (kind->name == name) return name;
  }
  register_kind({
      .name = name,
      .title = "index of " + path,
      .records = Records::keys,
      .usual_workload = "ycsb-a",
      .serve = [path](const WorkloadSpec& spec,
                      const ServeOptions& options) -> std::unique_ptr<runtime::ServedIndex> {
        return std::make_unique<ServedPlugin>(std::make_shared<PluginLibrary>(path), spec,
                                              options.slices);
      },
      .record = [path](const WorkloadSpec&, std::uint32_t,
                       const recording::TraceOptions&) -> std::shared_ptr<const recording::Trace> {
        throw std::invalid_argument("the memory accesses of plugin '" + path +
                                    "' cannot be recorded: measure it on hardware");
      },
      .large_values = true,
  });
  return name;
}

}  // namespace pmoss::kinds
