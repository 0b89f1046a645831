// Brings the data of the slices to where a schedule wants them, while queries run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/schedule.hpp"
#include "runtime/served_index.hpp"
#include "runtime/slice_placement.hpp"

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
  std::uint64_t slices = 0;         ///< moved as a whole; the kernel says that they lie there
  std::uint64_t slices_failed = 0;  ///< of which some pages still lie elsewhere
  std::uint64_t nodes = 0;          ///< of the index, copied
  std::uint64_t leaves = 0;         ///< of these
  std::uint64_t bytes = 0;
  std::uint64_t pages = 0;         ///< of 4 KiB, moved by the kernel
  std::uint64_t pages_failed = 0;  ///< of the failed slices, that still lie elsewhere
  int error_number = 0;            ///< why they do: of one of these slices
  double busy_seconds = 0.0;       ///< spent on moving, without pauses
  double processor_seconds = 0.0;  ///< on a core, freeing what was left behind included
};

/// A place where the kernel has found the data of a slice.
struct Home {
  numa::Placement place;
  bool then_first_touch = false;  ///< pages that have come since lie wherever they were touched
};

/// Where the data of each slice lie, if that is known; belongs to the index, outlives enforcers.
using Homes = std::vector<std::optional<Home>>;

/// Used by one thread.
///
/// Example: slice 3 moves to node 1, which is full. The copy's pages come to lie on node 0, and the
/// kernel, asked to move them, answers ENOMEM. The slice has failed: homes[3] stays empty. When all
/// other slices have been moved, it is tried again, because some may have left node 1. If that
/// fails too, placements() says how many pages lie elsewhere, and why.
class Enforcer {
 public:
  struct Settings {
    MigrationStrategy strategy = MigrationStrategy::copy;
    MigrationPace pace = MigrationPace::lazy;
    std::uint32_t lazy_nodes = 64;  ///< of the index, per part
    bool always = false;            ///< move a slice even if its data are there already
    /// Of interleaved pages, the kernel's numbers; empty: those with CPUs.
    std::vector<int> interleave_nodes = {};
  };

  /// The settings name the nodes of interleaved pages. Forgets the homes of slices whose pages no
  /// policy binds and which have left.
  Enforcer(ServedIndex& index, Homes& homes, const Settings& settings);

  /// From now on the data are to lie there. A slice that is being copied to somewhere else arrives
  /// there first. Throws PlacementRefused if this index cannot have its data placed so.
  void want(const Schedule& schedule);

  /// Moves one part: a slice, or less of it if lazy. False if there is nothing to move. Throws
  /// PlacementRefused where the kernel refuses to place memory or to say where it lies.
  bool step();
  /// Frees memory that no reader can be reading any more.
  void reclaim();
  /// Once no worker is left: copies the rest of a slice that is on its way and frees all spare
  /// memory. Then asks the kernel where the slices of the last schedule lie.
  void finish();

  /// From now on.
  void set_pace(MigrationPace pace) noexcept { settings_.pace = pace; }
  MigrationPace pace() const noexcept { return settings_.pace; }

  /// Slices that are still to be moved, the next one last.
  std::vector<std::uint32_t> pending() const;
  /// There is nothing left to move, or to try again.
  bool settled() const noexcept { return wanted_.empty() && !moving_; }
  const MigrationReport& report() const noexcept { return report_; }
  /// [slices] after finish(); empty if the last schedule wants the data nowhere.
  const std::vector<SlicePlacement>& placements() const noexcept { return placements_; }

 private:
  struct Goal {
    std::uint32_t slice;
    numa::Placement to;
    bool then_first_touch;
    bool again = false;  ///< it has failed before
  };
  struct Failure {
    Goal goal;
    SlicePlacement placement;
  };

  Goal goal_of(std::uint32_t slice, const Schedule& schedule) const;
  bool is_home(const Goal& goal) const;
  void take_next();
  bool by_kernel(const Goal& goal) const;
  void move_pages(const Goal& goal);
  bool copy_part(const Goal& goal, std::size_t nodes);
  /// The slice has been moved: asks the kernel whether it is there, and notes that.
  void arrive(const Goal& goal);
  void place_later_pages(const Goal& goal);
  void fail(const Goal& goal, const SlicePlacement& placement);
  void try_failed_again();
  void count_failures();

  ServedIndex& index_;
  Homes& homes_;
  Settings settings_;
  std::vector<Goal> goals_;   ///< [slices] of the last schedule; empty if it keeps the data
  std::vector<Goal> wanted_;  ///< the last one is next
  std::optional<Goal> moving_;
  std::unique_ptr<SliceMigration> migration_;  ///< of `moving_`, if it is copied
  std::vector<Failure> failed_;                ///< of the last schedule
  int passes_ = 0;                             ///< in which failed slices were tried again
  bool left_behind_ = false;                   ///< a copy, which readers may hold
  MigrationReport report_;
  std::vector<SlicePlacement> placements_;
};

/// Throws PlacementRefused for what this index cannot do: where it hides its memory, the data stay
/// where loaders have touched them first.
void require_possible(const ServedIndex& index, const Homes& homes, const Schedule& schedule);

}  // namespace pmoss::runtime
