// An index as the runtime sees it, whichever it is: what routers draw, how workers execute that,
// and how the enforcer moves data.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "index/epoch.hpp"
#include "index/slice_migration.hpp"
#include "numa/placed_memory.hpp"
#include "runtime/item.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/spsc_ring.hpp"
#include "workload/generator.hpp"
#include "workload/keyspace.hpp"
#include "workload/points.hpp"

namespace pmoss::runtime {

using Ring = SpscRing<Item>;

/// The slices whose workers may run a query: neighbouring key ranges, or a rectangle of cells.
struct Candidates {
  std::uint32_t first;
  std::uint32_t columns = 1;
  std::uint32_t rows = 1;
  std::uint32_t row_length = 0;  ///< from a cell to the one in the next row

  std::uint32_t count() const noexcept { return columns * rows; }
  std::uint32_t at(std::uint32_t i) const noexcept {
    return first + i / columns * row_length + i % columns;
  }
};

/// On which slice a query is booked: that of its key, or of the middle of its range.
class SliceOfKey {
 public:
  explicit SliceOfKey(std::uint32_t slices) noexcept : slices_(slices) {}
  explicit SliceOfKey(const Grid& grid) noexcept : slices_(0), grid_(grid) {}

  std::uint32_t operator()(std::uint64_t key) const noexcept {
    return slices_ > 0 ? slice_of_key(key, slices_) : grid_.slice_of(unpacked(key));
  }

 private:
  std::uint32_t slices_;  // 0: the key is a point
  Grid grid_;
};

/// One router's queries. The key of a query on points is its point, packed; a range is given by its
/// centre and, as its length, by the number of points that it holds on average.
class QueryStream {
 public:
  virtual ~QueryStream() = default;
  virtual Operation next() noexcept = 0;
  virtual Candidates candidates(const Operation& operation) const noexcept = 0;
};

/// Executes one worker's queries.
class QueryExecutor {
 public:
  struct Totals {
    std::uint64_t executed = 0;
    std::uint64_t inserted = 0;
    std::uint64_t not_found = 0;
    std::uint64_t checksum = 0;
  };

  virtual ~QueryExecutor() = default;
  /// `guard` covers what it reads of the index.
  virtual void execute(const EpochGuard& guard, const Item& item) = 0;
  /// The oldest `count` items of a queue, their cache misses overlapped. Queries that are in flight
  /// together have no order.
  virtual void execute_batch(const EpochGuard& guard, const Ring& ring, std::size_t count) = 0;

  const Totals& totals() const noexcept { return totals_; }

 protected:
  Totals totals_;
};

/// What the queries so far have written.
struct Written {
  std::uint64_t next_insert_record;        ///< no record from here on
  std::uint64_t most_added = 0;            ///< to the value of a record, by an update
  std::uint64_t not_found = 0;             ///< queries of the last run that missed their record
  std::optional<std::uint64_t> size = {};  ///< the records that there must be, if that is known
};

/// All members may be called while others use the index.
class ServedIndex {
 public:
  virtual ~ServedIndex() = default;

  virtual std::uint32_t slices() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  virtual SliceOfKey slice_of_key() const noexcept = 0;

  /// About how much memory loading takes.
  virtual double bytes_to_load() const noexcept = 0;

  /// Puts the records of the slices first .. last - 1 there. Counts them in `done` now and then,
  /// and gives up when `cancelled` says so; then it may be called again.
  virtual void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                    const std::function<bool()>& cancelled) = 0;
  /// The same for any slices, [slices]; asked only of an index with hidden_memory().
  virtual void load_chosen(const std::vector<bool>& slices, std::atomic<std::uint64_t>& done,
                           const std::function<bool()>& cancelled);

  virtual std::unique_ptr<QueryStream> stream(std::uint64_t seed, std::uint64_t first_insert_record,
                                              std::uint64_t insert_stride) const = 0;
  /// One worker's executor in the worker's memory; called on its thread (make_in()).
  virtual InNodeMemory<QueryExecutor> executor(std::pmr::memory_resource& memory) = 0;

  /// Where the data of a slice lie.
  virtual numa::PlacedMemory& memory(std::uint32_t slice) = 0;
  virtual const numa::PlacedMemory& memory(std::uint32_t slice) const = 0;
  /// Why that is unknown; empty if it is known. Such data lie where they are touched first.
  virtual std::string hidden_memory() const { return ""; }
  /// Frees memory that slices have left and that is kept for the next one that moves.
  virtual void free_spare_memory() = 0;
  /// Whether there is migrate(). Without it the kernel moves the pages.
  virtual bool copies() const noexcept { return true; }
  /// Copies a slice's nodes to another place.
  virtual std::unique_ptr<SliceMigration> migrate(std::uint32_t slice,
                                                  const numa::Placement& to) = 0;
  /// Frees what migrations have left behind and no reader can hold any more; how many arenas some
  /// may still hold.
  virtual std::size_t reclaim() = 0;

  /// Whether it is code of others, whose answers are unchecked.
  virtual bool is_foreign() const noexcept { return false; }
  /// Asks for a sample of the records and throws for the first wrong answer. Not while others use
  /// the index: it updates records, and writes back what was there.
  virtual void check_answers(const Written&, const std::function<bool()>& /*cancelled*/) {}
};

inline void ServedIndex::load_chosen(const std::vector<bool>&, std::atomic<std::uint64_t>&,
                                     const std::function<bool()>&) {
  throw std::logic_error("the data of this index can be moved once they are loaded");
}

}  // namespace pmoss::runtime
