// The kinds of index, in one registry: all that other code needs of a kind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analytic/profile.hpp"
#include "numa/memory.hpp"
#include "recording/trace.hpp"
#include "workload/generator.hpp"

namespace pmoss::runtime {
class Runner;
class ServedIndex;
}  // namespace pmoss::runtime

namespace pmoss::kinds {

/// What an index holds, which decides how a workload is read and what a slice is.
enum class Records : std::uint8_t {
  keys,    ///< 64-bit keys of the instance (KeySpace); a slice is a key range
  points,  ///< points in the plane, the same in all instances; a slice is a cell of grid_of()
};

/// Of an index to be served on this host.
struct ServeOptions {
  std::uint32_t slices = 256;
  bool huge_pages = true;
  numa::Placement placement = {};  ///< of the pages that loading touches
};

/// Makes an index behind the runtime, empty. Who calls it includes runtime/served_index.hpp.
using Serve =
    std::function<std::unique_ptr<runtime::ServedIndex>(const WorkloadSpec&, const ServeOptions&)>;

/// The profiles of the instance of a seed, for the analytic model.
using Profiler = std::function<analytic::SliceProfiles(std::uint64_t seed)>;

/// One kind of index. A built-in kind is a function in a file of its own in kinds/, named in
/// built_in.hpp. An external kind is a file outside that has a Registration, compiled into the
/// module by -DPMOSS_INDEX_KINDS=FOLDER: examples/skip_list.cpp is one.
///
/// All functions throw std::invalid_argument for a workload that makes no sense for the kind.
struct IndexKind {
  std::string name;   ///< in options, task ids, datasets and results: never changed
  std::string title;  ///< in messages
  Records records = Records::keys;
  std::string usual_workload;  ///< of the catalogue: what the kind gets by default

  Serve serve;  ///< empty in a build without the runtime
  /// Builds the index, runs queries on it and records what they touched. The same arguments give
  /// the same bits in every process.
  std::function<std::shared_ptr<const recording::Trace>(const WorkloadSpec&, std::uint32_t slices,
                                                        const recording::TraceOptions&)>
      record;
  /// Without one, every instance is recorded when its profiles are asked for.
  std::function<Profiler(const WorkloadSpec&, std::uint32_t slices, const recording::TraceOptions&)>
      make_profiler = {};
  bool large_values = false;  ///< `serve` takes values of more than 8 bytes
  /// Profiles come from formulas, in milliseconds; else the index is built and run, which takes
  /// long.
  bool profiled_by_formulas = false;
};

/// Adds a kind. Throws std::invalid_argument without a name, `record` or, where indexes can be
/// served, `serve`, or if there is a kind of that name. Not while another thread asks for kinds.
void register_kind(IndexKind kind);

/// Registers a kind before main() begins or the module is loaded.
struct Registration {
  explicit Registration(IndexKind kind) { register_kind(std::move(kind)); }
};

/// All kinds, by name in alphabetical order.
std::vector<const IndexKind*> all_kinds();

/// Throws std::invalid_argument, naming those that there are.
const IndexKind& kind_named(const std::string& name);

/// A runner of this kind of index; not in a build without the runtime. `load_threads`: 0 takes one
/// per CPU that the process may use.
std::unique_ptr<runtime::Runner> make_runner(const IndexKind& kind, const WorkloadSpec& spec,
                                             const ServeOptions& options,
                                             unsigned load_threads = 0);

}  // namespace pmoss::kinds
