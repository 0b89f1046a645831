// Drawing operations: first the kind, then the record, then the length of a scan.
#include "workload/generator.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "workload/points.hpp"
#include "workload/sorted_key_file.hpp"

namespace pmoss {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value,
                         const std::string& right) {
  throw std::invalid_argument(name + " is " + value + "; it must " + right);
}

void check_fraction(const char* name, double value) {
  if (!(value >= 0.0 && value <= 1.0)) refuse(name, std::to_string(value), "lie in [0, 1]");
}

constexpr double whole_range = 0x1.0p64;

}  // namespace

HotRange hot_range(const WorkloadSpec& spec, std::uint64_t choices) noexcept {
  const double moved = spec.drift * static_cast<double>(choices) * 1e-6;
  const double turn = moved - std::floor(moved);
  // Not mix64(seed) itself, which scatters the records.
  return {mix64(mix64(spec.seed) + 1) + static_cast<std::uint64_t>(turn * 0x1.0p63) * 2,
          static_cast<std::uint64_t>(spec.hot_fraction * whole_range)};
}

WorkloadSpec by_operations(WorkloadSpec spec) noexcept {
  const double pairs = spec.read_modify_write;
  if (pairs == 0.0) return spec;
  const double operations = 1.0 + pairs;
  spec.lookup = (spec.lookup + pairs) / operations;
  spec.update = (spec.update + pairs) / operations;
  spec.insert /= operations;
  spec.scan /= operations;
  spec.read_modify_write = 0.0;
  return spec;
}

double main_share(const WorkloadSpec& spec) noexcept {
  const WorkloadSpec of = by_operations(spec);
  return std::max({of.lookup, of.insert, of.scan, of.update});
}

std::vector<double> hot_range_shares(const WorkloadSpec& spec, std::uint32_t slices) {
  const HotRange range = hot_range(spec, 0);
  const double first = static_cast<double>(range.first) / whole_range;
  const double end = first + spec.hot_fraction;
  std::vector<double> shares = record_shares(spec.space, slices);
  double below = 0.0;
  for (double& share : shares) {
    const double from = below;
    below += share;
    // The range may go round the end of the key space.
    double covered = 0.0;
    for (const double turn : {0.0, 1.0}) {
      covered += std::max(0.0, std::min(below + turn, end) - std::max(from + turn, first));
    }
    share = covered / spec.hot_fraction;
  }
  return shares;
}

void validate(const WorkloadSpec& spec) {
  check_fraction("lookup", spec.lookup);
  check_fraction("insert", spec.insert);
  check_fraction("scan", spec.scan);
  check_fraction("update", spec.update);
  check_fraction("read_modify_write", spec.read_modify_write);
  const double sum = spec.lookup + spec.insert + spec.scan + spec.update + spec.read_modify_write;
  if (std::abs(sum - 1.0) > 1e-9) {
    refuse("lookup + insert + scan + update + read_modify_write", std::to_string(sum), "be 1");
  }
  if (spec.records == 0) refuse("records", "0", "be at least 1");
  if (spec.value_bytes < 8 || spec.value_bytes > 1024 || spec.value_bytes % 8 != 0) {
    refuse("value_bytes", std::to_string(spec.value_bytes), "be a multiple of 8 up to 1024");
  }
  if (spec.space.kind == KeySpace::Kind::file) {
    if (spec.space.keys == nullptr) refuse("key space", "a file without keys", "have keys");
    if (spec.records > spec.space.keys->size()) {
      refuse("records", std::to_string(spec.records),
             "be at most the " + std::to_string(spec.space.keys->size()) +
                 " different keys of the key file");
    }
  } else if (spec.space.kind == KeySpace::Kind::points) {
    if (spec.space.points == nullptr) refuse("key space", "points without a set", "have one");
    if (spec.records > spec.space.points->size()) {
      refuse("records", std::to_string(spec.records),
             "be at most the " + std::to_string(spec.space.points->size()) + " points of the set");
    }
  } else if (spec.records >= std::uint64_t{1} << 39) {
    refuse("records", std::to_string(spec.records), "be below 2^39");
  }
  if (spec.space.in_order != 0 &&
      (spec.space.in_order != spec.records || spec.distribution != Distribution::zipf)) {
    refuse("in_order", std::to_string(spec.space.in_order),
           "be 0, or the number of records of a Zipf distribution");
  }
  if (spec.scan > 0.0 && spec.max_scan_length == 0) {
    refuse("max_scan_length", "0", "be at least 1 when there are scans");
  }
  switch (spec.distribution) {
    case Distribution::uniform:
      break;
    case Distribution::zipf:
    case Distribution::latest:
      if (!(spec.theta >= 1e-6 && spec.theta <= 10.0)) {
        refuse("theta", std::to_string(spec.theta), "lie in [1e-6, 10]");
      }
      if (spec.zipf_items == 0 || spec.zipf_items > ZipfSampler::max_items) {
        refuse("zipf_items", std::to_string(spec.zipf_items),
               "lie in 1 .. " + std::to_string(ZipfSampler::max_items));
      }
      break;
    case Distribution::hot_range:
      check_fraction("hot_share", spec.hot_share);
      // Below one in 10,000 finding a record in the range takes too long.
      if (!(spec.hot_fraction >= 1e-4 && spec.hot_fraction <= 0.5)) {
        refuse("hot_fraction", std::to_string(spec.hot_fraction), "lie in [0.0001, 0.5]");
      }
      if (spec.hot_fraction * static_cast<double>(spec.records) < 100.0) {
        refuse("hot_fraction * records",
               std::to_string(spec.hot_fraction * static_cast<double>(spec.records)),
               "be at least 100");
      }
      if (!(spec.drift >= 0.0 && spec.drift <= 1e6)) {
        refuse("drift", std::to_string(spec.drift), "lie in [0, 1e6]");
      }
      break;
    default:
      refuse("distribution", std::to_string(static_cast<int>(spec.distribution)),
             "be uniform, zipf, hot_range or latest");
  }
}

void require_word_values(const WorkloadSpec& spec, const std::string& what) {
  if (spec.value_bytes == sizeof(std::uint64_t)) return;
  refuse("value_bytes", std::to_string(spec.value_bytes),
         "be 8: " + what + " values of 8 bytes; the trees on this host hold larger ones");
}

OperationGenerator::OperationGenerator(const WorkloadSpec& spec, std::uint64_t stream_seed,
                                       std::uint64_t first_insert_record,
                                       std::uint64_t insert_stride)
    : spec_(spec),
      // Mixed, so that stream 0 of instance 1 is not stream 1 of instance 0.
      random_(mix64(mix64(spec.seed) + stream_seed)),
      first_insert_(first_insert_record),
      next_insert_(first_insert_record),
      insert_stride_(insert_stride) {
  validate(spec);
  if (spec.space.kind == KeySpace::Kind::points) refuse("key space", "of points", "be of keys");
  if (first_insert_record < spec.records) {
    refuse("first_insert_record", std::to_string(first_insert_record),
           "be at least records, which is " + std::to_string(spec.records));
  }
  if (insert_stride == 0) refuse("insert_stride", "0", "be at least 1");
  if (spec.distribution == Distribution::zipf) zipf_.emplace(spec.zipf_items, spec.theta);
  if (spec.distribution == Distribution::latest) zipf_.emplace(spec.records, spec.theta);
  // Divided by their sum, so that a kind with fraction 0 is never drawn whatever the rounding.
  const double sum = spec.lookup + spec.insert + spec.scan + spec.update + spec.read_modify_write;
  below_insert_ = spec.lookup / sum;
  below_scan_ = (spec.lookup + spec.insert) / sum;
  below_update_ = (spec.lookup + spec.insert + spec.scan) / sum;
  below_read_modify_write_ = (spec.lookup + spec.insert + spec.scan + spec.update) / sum;
}

std::uint64_t OperationGenerator::choose_in_hot_range() noexcept {
  // The other clients, whose number is the stride, have chosen about as often.
  const HotRange range = hot_range(spec_, choices_++ * insert_stride_);
  if (random_.uniform() >= spec_.hot_share) return random_.below(spec_.records);
  // Bounded, although a range of at least 100 expected records is found long before.
  for (int attempt = 0; attempt < 10'000'000; ++attempt) {
    const std::uint64_t record = random_.below(spec_.records);
    if (range.holds(spec_.space.position(record, spec_.seed))) return record;
  }
  return 0;
}

/// The newest record has rank 0. There are `records` ranks, however many are inserted.
std::uint64_t OperationGenerator::choose_latest(std::uint64_t rank) const noexcept {
  const std::uint64_t inserted = (next_insert_ - first_insert_) / insert_stride_;
  const std::uint64_t read = inserted - std::min(inserted, unread_inserts);
  if (rank < read) return next_insert_ - (unread_inserts + 1 + rank) * insert_stride_;
  return spec_.records - 1 - (rank - read);
}

std::uint64_t OperationGenerator::choose_record() noexcept {
  if (spec_.distribution == Distribution::hot_range) return choose_in_hot_range();
  if (!zipf_) return random_.below(spec_.records);
  const std::uint64_t rank = (*zipf_)(random_);
  if (spec_.distribution == Distribution::latest) return choose_latest(rank);
  return rank < spec_.records ? rank : scale64(mix64(rank), spec_.records);
}

Operation OperationGenerator::next() noexcept {
  if (read_) {
    const std::uint64_t key = *read_;
    read_.reset();
    return {key, 0, Operation::Kind::update};
  }
  const double kind = random_.uniform();
  Operation operation{};
  if (kind >= below_insert_ && kind < below_scan_) {
    operation.kind = Operation::Kind::insert;
    operation.key = spec_.space.key(next_insert_, spec_.seed);
    next_insert_ += insert_stride_;
    return operation;
  }
  operation.key = spec_.space.key(choose_record(), spec_.seed);
  if (kind < below_insert_) {
    operation.kind = Operation::Kind::lookup;
  } else if (kind < below_update_) {
    operation.kind = Operation::Kind::scan;
    operation.scan_length = 1 + static_cast<std::uint32_t>(random_.below(spec_.max_scan_length));
  } else if (kind < below_read_modify_write_) {
    operation.kind = Operation::Kind::update;
  } else {
    operation.kind = Operation::Kind::lookup;
    read_ = operation.key;
  }
  return operation;
}

}  // namespace pmoss
