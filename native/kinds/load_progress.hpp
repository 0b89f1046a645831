// How far a loader is that reads the keys of all records twice before it loads its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace pmoss::kinds {

/// Counts records for a progress bar: ascending, and all of the loader's at the end. The passes
/// over the keys count as a tenth of the records, since they take time as well.
class LoadProgress {
 public:
  /// `chosen`: [slices] the loader's.
  LoadProgress(std::atomic<std::uint64_t>& done, std::uint64_t records,
               const std::vector<bool>& chosen)
      : done_(done),
        records_(static_cast<double>(records)),
        expected_(records_ * static_cast<double>(std::count(chosen.begin(), chosen.end(), true)) /
                  static_cast<double>(chosen.size())) {}

  /// A pass has come to this record.
  void pass(std::uint64_t record) {
    const double passed = passes_ + static_cast<double>(record) / records_;
    tell(passed / most_passes * share_of_passes * expected_);
  }
  void end_pass() { ++passes_; }

  /// So many are the loader's.
  void expect(std::uint64_t own) {
    expected_ = static_cast<double>(own);
    if (own == 0) done_.store(0, std::memory_order_relaxed);
  }
  void load(std::uint64_t records) {
    loaded_ += static_cast<double>(records);
    tell(share_of_passes * expected_ + (1.0 - share_of_passes) * loaded_);
    if (loaded_ >= expected_) done_.store(static_cast<std::uint64_t>(expected_));
  }

 private:
  void tell(double records) {
    const auto now = static_cast<std::uint64_t>(records);
    if (now > done_.load(std::memory_order_relaxed)) {
      done_.store(now, std::memory_order_relaxed);
    }
  }

  static constexpr double most_passes = 2.0;
  static constexpr double share_of_passes = 0.1;

  std::atomic<std::uint64_t>& done_;
  double records_, expected_;
  double passes_ = 0.0, loaded_ = 0.0;
};

}  // namespace pmoss::kinds
