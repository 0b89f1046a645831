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

/// How soon (mission row A14).
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

/// Counts the turns of a thread that reads the index, so that others learn when it holds no pointer
/// into it any longer.
class Turns {
 public:
  /// Between two operations; only by that thread.
  void next() noexcept {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// It reads the index no more.
  void finish() noexcept { turns_.store(finished, std::memory_order_release); }

  std::uint64_t now() const noexcept { return turns_.load(std::memory_order_acquire); }
  /// Whether no operation that had begun at `then` is still running. Two turns: the first of them
  /// may become visible late, after the operation behind it has begun.
  bool passed(std::uint64_t then) const noexcept {
    return then == finished || now() == finished || now() >= then + 2;
  }

 private:
  static constexpr std::uint64_t finished = ~std::uint64_t{0};
  alignas(128) std::atomic<std::uint64_t> turns_{0};
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

  /// `readers`: the turns of all threads that use the index meanwhile.
  Enforcer(ServedIndex& index, Homes& homes, const Settings& settings,
           std::vector<const Turns*> readers);

  /// From now on the data are to lie there; what is under way to elsewhere is given up.
  void want(const Schedule& schedule);

  /// Moves one part: a slice, or less of it if lazy. False if there is nothing to move.
  bool step();
  /// Frees memory that nobody can be reading any more.
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
    std::vector<std::uint64_t> turns;
  };

  void move_pages(const Goal& goal);
  bool copy_part(const Goal& goal);
  void arrive(const Goal& goal);

  ServedIndex& index_;
  Homes& homes_;
  Settings settings_;
  std::vector<const Turns*> readers_;
  std::vector<Goal> wanted_;  ///< the last one is next
  std::unique_ptr<SliceMigration> migration_;
  std::vector<Retired> retired_;
  MigrationReport report_;
};

}  // namespace pmoss::runtime
