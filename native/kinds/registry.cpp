#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "analytic/trace_profile.hpp"
#include "kinds/built_in.hpp"
#include "kinds/index_kind.hpp"

namespace pmoss::kinds {
namespace {

/// What models and recordings are made by: they know no larger values.
template <class Result>
auto of_words(
    std::function<Result(const WorkloadSpec&, std::uint32_t, const recording::TraceOptions&)>
        make) {
  return [make = std::move(make)](const WorkloadSpec& spec, std::uint32_t slices,
                                  const recording::TraceOptions& options) {
    require_word_values(spec, "the models know");
    return make(spec, slices, options);
  };
}

void add(std::map<std::string, IndexKind>& kinds, IndexKind kind) {
  if (kind.name.empty()) throw std::invalid_argument("a kind of index must have a name");
  if ((indexes_are_served && !kind.serve) || !kind.record) {
    throw std::invalid_argument("the index '" + kind.name + "' must have `serve` and `record`");
  }
  if (kinds.contains(kind.name)) {
    throw std::invalid_argument("there is an index '" + kind.name + "' already: name it otherwise");
  }
  if (!kind.make_profiler) {
    kind.make_profiler = [record = kind.record](const WorkloadSpec& spec, std::uint32_t slices,
                                                const recording::TraceOptions& options) {
      return [=, spec = spec](std::uint64_t seed) mutable {
        spec.seed = seed;
        return analytic::profile_trace(*record(spec, slices, options));
      };
    };
    kind.profiled_by_formulas = false;
  }
  kind.record = of_words(std::move(kind.record));
  kind.make_profiler = of_words(std::move(kind.make_profiler));
  std::string name = kind.name;
  kinds.emplace(std::move(name), std::move(kind));
}

/// Made when first asked for, so that a Registration may come before everything else.
std::map<std::string, IndexKind>& registry() {
  static std::map<std::string, IndexKind> kinds = [] {
    std::map<std::string, IndexKind> built_in;
    for (auto* const kind : {btree, rtree}) add(built_in, kind());
    return built_in;
  }();
  return kinds;
}

}  // namespace

void register_kind(IndexKind kind) { add(registry(), std::move(kind)); }

std::vector<const IndexKind*> all_kinds() {
  std::vector<const IndexKind*> kinds;
  for (const auto& [name, kind] : registry()) kinds.push_back(&kind);
  return kinds;
}

const IndexKind& kind_named(const std::string& name) {
  const auto entry = registry().find(name);
  if (entry != registry().end()) return entry->second;
  std::string choices;
  for (const IndexKind* const kind : all_kinds()) {
    choices += (choices.empty() ? "" : ", ") + kind->name;
  }
  throw std::invalid_argument("index is '" + name + "'; it must be one of " + choices);
}

}  // namespace pmoss::kinds
