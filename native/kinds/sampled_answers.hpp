// What queries on a user's library must find: a sample of its answers is held against the workload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kinds/plugin_index.hpp"
#include "runtime/served_index.hpp"
#include "workload/generator.hpp"

namespace pmoss::kinds {

/// Knows what a sample of an index holds: records that were drawn, and stretches of neighbours in
/// which every key is known. So it also knows keys that are not there, and what a scan must give.
class SampledAnswers {
 public:
  SampledAnswers(const WorkloadSpec& spec, std::uint32_t slices) : spec_(spec), slices_(slices) {}

  /// Takes note of all keys of a slice; none of those repeat. Any thread may call it.
  void note(std::uint32_t slice, std::span<const std::uint64_t> keys);

  /// Throws PluginError for the first answer that is wrong: of a lookup, a batch of lookups, a scan
  /// or an update, as far as the workload has them. Returns at once when `cancelled` says so.
  void check(PluginIndex& index, const runtime::Written& written,
             const std::function<bool()>& cancelled);

 private:
  /// Neighbours in one slice. All keys ascend.
  struct Stretch {
    std::uint32_t slice;
    std::vector<std::uint64_t> loaded;
    std::vector<std::uint64_t> inserted;  ///< between them; each may be there
  };

  void note_inserted(std::uint64_t end, const std::function<bool()>& cancelled);
  std::vector<std::uint64_t> drawn_keys() const;

  static constexpr std::size_t most_stretches = 16;
  static constexpr std::size_t longest_stretch = 64;
  static constexpr std::uint64_t most_drawn = 1000;
  static constexpr std::size_t most_updated = 100;

  WorkloadSpec spec_;
  std::uint32_t slices_;
  std::mutex mutex_;
  std::array<Stretch, most_stretches> stretches_;
  std::uint64_t inserted_until_ = 0;  ///< records that are noted
};

/// Throws PluginError if a key is not there, or its value is none from the key on up to
/// `most_added` more.
void require_found(PluginIndex& index, std::uint64_t key, std::uint64_t most_added);

}  // namespace pmoss::kinds
