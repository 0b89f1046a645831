// A workload as a stream of index operations, described by plain numbers and a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/keyspace.hpp"
#include "workload/random.hpp"
#include "workload/zipf.hpp"

namespace pmoss {

/// How reads, scans and updates choose their record.
enum class Distribution : std::uint8_t {
  uniform,
  zipf,       ///< hot records lie anywhere, or side by side where the key space is in order
  hot_range,  ///< neighbouring records are hot, all others are alike
  latest,     ///< the newest records are hot: YCSB's, Zipf over the age of all records
};

/// One workload. The five fractions add up to 1. With `zipf`, ranks are drawn over `zipf_items` and
/// those that are no record are scattered over the records: YCSB's scrambled Zipf, whose constant
/// is that of 10^10 items whatever the size of the table.
struct WorkloadSpec {
  double lookup = 1.0;
  double insert = 0.0;
  double scan = 0.0;
  double update = 0.0;
  Distribution distribution = Distribution::uniform;
  double theta = 0.99;
  std::uint64_t zipf_items = 10'000'000'000;
  std::uint64_t records = 30'000'000;
  std::uint32_t max_scan_length = 100;
  std::uint64_t seed = 0;  ///< the instance: decides which keys exist and which of them are hot
  KeySpace space = {};
  double hot_share = 0.9;      ///< hot_range: share of the choices that fall into the hot range
  double hot_fraction = 0.05;  ///< hot_range: share of the records in it
  /// hot_range: by what share of the records it moves per 10^6 choices of all clients together.
  double drift = 0.0;
  /// Share of the draws that read a record and then write it: two operations, one after the other.
  double read_modify_write = 0.0;
  std::uint32_t value_bytes = 8;  ///< of each record; a multiple of 8, at most 1024
};

/// The same mix with shares of operations, of which a read-modify-write is a lookup and an update.
WorkloadSpec by_operations(WorkloadSpec spec) noexcept;

/// The share of the most frequent kind of operation.
double main_share(const WorkloadSpec& spec) noexcept;

/// The hot range of an instance after some choices: `width` positions (KeySpace::position) from
/// `first` on, round the end.
struct HotRange {
  std::uint64_t first;
  std::uint64_t width;

  bool holds(std::uint64_t position) const noexcept { return position - first < width; }
};
HotRange hot_range(const WorkloadSpec& spec, std::uint64_t choices) noexcept;

/// Share of the hot range's choices that fall on each slice, before it has drifted.
std::vector<double> hot_range_shares(const WorkloadSpec& spec, std::uint32_t slices);

/// Throws std::invalid_argument, naming the value and what is right, when the spec makes no sense.
void validate(const WorkloadSpec& spec);

/// Throws std::invalid_argument for values of more than 8 bytes, where `what` knows no others.
void require_word_values(const WorkloadSpec& spec, const std::string& what);

/// One operation on the index. `scan_length` is 0 unless the kind is scan.
struct Operation {
  enum class Kind : std::uint8_t { lookup, insert, scan, update };
  std::uint64_t key;
  std::uint32_t scan_length;
  Kind kind;
};

/// Draws the operations of one client. Streams with different seeds are independent, and clients
/// with the same `insert_stride`, which is their number, and different `first_insert_record` never
/// insert the same key. With Distribution::latest a client reads records of its own and loaded
/// ones, its last `unread_inserts` left out: those may still be on their way.
class OperationGenerator {
 public:
  /// Inserts take the records first_insert_record, first_insert_record + insert_stride, ...; the
  /// first must not be below spec.records. Throws std::invalid_argument.
  OperationGenerator(const WorkloadSpec& spec, std::uint64_t stream_seed,
                     std::uint64_t first_insert_record, std::uint64_t insert_stride);

  Operation next() noexcept;

  const WorkloadSpec& spec() const noexcept { return spec_; }

  static constexpr std::uint64_t unread_inserts = 256;

 private:
  std::uint64_t choose_record() noexcept;
  std::uint64_t choose_in_hot_range() noexcept;
  std::uint64_t choose_latest(std::uint64_t rank) const noexcept;

  WorkloadSpec spec_;
  Random random_;
  std::optional<ZipfSampler> zipf_;
  std::uint64_t first_insert_;
  std::uint64_t next_insert_;
  std::uint64_t insert_stride_;
  std::uint64_t choices_ = 0;
  double below_insert_;  // the fractions, summed up in the order of Operation::Kind
  double below_scan_;
  double below_update_;
  double below_read_modify_write_;
  std::optional<std::uint64_t> read_;  ///< a key that was read to be written
};

}  // namespace pmoss
