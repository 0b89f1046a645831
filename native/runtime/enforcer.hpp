// Brings the data of the slices to where a schedule wants them, while queries run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/schedule.hpp"
#include "runtime/served_index.hpp"

namespace pmoss::runtime {

/// How data move.
enum class MigrationStrategy : std::uint8_t {
  copy,        ///< nodes are copied under their locks into memory on the new node
  move_pages,  ///< the kernel moves the pages that hold them
};

/// How soon (P-MOSS, section 5).
enum class MigrationPace : std::uint8_t {
  aggressive,  ///< one range scan per slice, slice after slice
  lazy,        ///< scans over parts of slices, with pauses between them
};

/// What moving came to.
struct MigrationReport {
  std::uint64_t slices = 0;  ///< moved as a whole
  std::uint64_t nodes = 0;   ///< of the index, copied
  std::uint64_t leaves = 0;  ///< of these
  std::uint64_t bytes = 0;
  std::uint64_t pages = 0;         ///< of 4 KiB, moved by the kernel
  std::uint64_t pages_failed = 0;  ///< that the kernel left where they were
  int error_number = 0;            ///< why it did
  double busy_seconds = 0.0;       ///< spent on moving, without pauses
};

/// A reader's side of epoch-based reclamation, as in LeanStore (Leis et al., ICDE 2018): memory
/// that a migration has unlinked is freed once every reader has begun a later epoch. A pointer into
/// the index lives no longer than the epoch in which it was read.
///
/// Example: the enforcer unlinks the old copy of slice 3 while worker 0 is in epoch 7 and worker 1
/// in epoch 12. It retires the old arena with the epochs (7, 12). At (9, 13) worker 1 may still be
/// in the operation of its epoch 12. At (9, 14) the arena is freed.
class ReaderEpoch {
 public:
  /// Between two operations; only by the reader.
  void advance() noexcept {
    epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// The reader uses the index no more.
  void finish() noexcept { epoch_.store(finished, std::memory_order_release); }

  std::uint64_t now() const noexcept { return epoch_.load(std::memory_order_acquire); }
  /// Whether no operation that had begun when now() was `retired` is still running. Two epochs: the
  /// first of them may become visible late, after the operation that follows it has begun.
  bool has_passed(std::uint64_t retired) const noexcept {
    return retired == finished || now() == finished || now() >= retired + 2;
  }

 private:
  static constexpr std::uint64_t finished = ~std::uint64_t{0};
  alignas(128) std::atomic<std::uint64_t> epoch_{0};
};

/// Where the data of each slice have been brought so far; belongs to the index, outlives enforcers.
using Homes = std::vector<std::optional<numa::Placement>>;

/// Used by one thread.
class Enforcer {
 public:
  struct Settings {
    MigrationStrategy strategy = MigrationStrategy::copy;
    MigrationPace pace = MigrationPace::lazy;
    std::uint32_t lazy_nodes = 64;  ///< of the index, per part
    bool always = false;            ///< move a slice even if its data are there already
  };

  /// `readers`: the epochs of all threads that use the index meanwhile.
  Enforcer(ServedIndex& index, Homes& homes, const Settings& settings,
           std::vector<const ReaderEpoch*> readers);

  /// From now on the data are to lie there. A slice on its way to somewhere else is left in two
  /// places, which is correct but not local, until it has been moved again.
  void want(const Schedule& schedule);

  /// Moves one part: a slice, or less of it if lazy. False if there is nothing to move.
  bool step();
  /// Frees memory that no reader can be reading any more.
  void reclaim();

  bool in_place() const noexcept { return wanted_.empty() && !migration_; }
  const MigrationReport& report() const noexcept { return report_; }

 private:
  struct Goal {
    std::uint32_t slice;
    numa::Placement to;
    bool then_first_touch;
  };
  struct Retired {
    std::vector<std::unique_ptr<SliceArena>> arenas;
    std::vector<std::uint64_t> epochs;  ///< [readers] when the arenas were unlinked
  };

  void move_pages(const Goal& goal);
  bool copy_part(const Goal& goal);
  void arrive(const Goal& goal);

  ServedIndex& index_;
  Homes& homes_;
  Settings settings_;
  std::vector<const ReaderEpoch*> readers_;
  std::vector<Goal> wanted_;  ///< the last one is next
  std::unique_ptr<SliceMigration> migration_;
  std::vector<Retired> retired_;
  MigrationReport report_;
};

}  // namespace pmoss::runtime
