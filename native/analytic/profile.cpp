#include "analytic/profile.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "workload/keyspace.hpp"
#include "workload/portable_math.hpp"
#include "workload/zipf.hpp"

namespace pmoss::analytic {
namespace {

// The layout of index/: 255 entries per leaf, one header line, 2 lines of samples, 8 keys per line.
constexpr double leaf_capacity = 255.0;
constexpr double inner_capacity = 254.0;
constexpr double fill = 0.6931471805599453;  // random inserts fill nodes to ln 2
constexpr double leaf_header_lines = 3.0;
constexpr double inner_header_lines = 5.0;
constexpr double keys_per_line = 8.0;
constexpr double node_bytes = 4288.0;

// Software cost of one operation that no cache explains: descent, search, version checks, the
// worker's queue. Engineering estimates (machines.md section 15, first open parameter).
struct OperationCost {
  double instructions;
  double branch_misses;
};
constexpr OperationCost lookup_cost{700.0, 2.0};
constexpr OperationCost update_cost{760.0, 2.2};
constexpr OperationCost insert_cost{1100.0, 3.0};
constexpr OperationCost scan_cost{800.0, 3.0};
constexpr double scan_instructions_per_entry = 6.0;

}  // namespace

BTreeProfiler::BTreeProfiler(const WorkloadSpec& workload, int slices)
    : workload_(workload), slices_(slices) {
  if (slices < 1 || slices > 65536) {
    throw std::invalid_argument("slices = " + std::to_string(slices) +
                                ": must lie between 1 and 65536");
  }
  validate(workload);
  if (workload.distribution != Distribution::zipf) return;
  const double normaliser = zeta(workload.zipf_items, workload.theta);
  const std::uint64_t last = std::min({hot_ranks, workload.records, workload.zipf_items});
  rank_probability_.reserve(last);
  for (std::uint64_t rank = 1; rank <= last; ++rank) {
    rank_probability_.push_back(portable::power(static_cast<double>(rank), -workload.theta) /
                                normaliser);
  }
}

SliceProfiles BTreeProfiler::profiles(std::uint64_t seed) const {
  const WorkloadSpec& workload = workload_;
  const int slices = slices_;
  const auto n = static_cast<std::size_t>(slices);
  SliceProfiles p;
  p.slices = slices;
  for (auto* field : {&p.lines, &p.line_rate, &p.dependent, &p.streaming, &p.dirty_share}) {
    field->assign(n * line_classes, 0.0);
  }
  for (auto* field :
       {&p.share, &p.instructions, &p.branch_misses, &p.cold_page_touches, &p.data_bytes}) {
    field->assign(n, 0.0);
  }

  // Operations that choose an existing record by popularity; inserts take fresh, uniform keys.
  const double popular = workload.lookup + workload.update + workload.scan;
  const double mean_scan = 0.5 * (1.0 + static_cast<double>(workload.max_scan_length));
  const double records = static_cast<double>(workload.records);

  // Which slices hold the hottest records of this instance, and with how much of the load.
  std::vector<double> hot_mass(n * hot_classes, 0.0);
  std::vector<double> hot_keys(n * hot_classes, 0.0);
  double hot_total = 0.0;
  std::size_t hot_class = 0;
  std::size_t class_end = 3;
  for (std::size_t rank = 0; rank < rank_probability_.size(); ++rank) {
    if (rank == class_end && hot_class + 1 < hot_classes) {
      ++hot_class;
      class_end = 4 * class_end + 3;  // 4^(b+1) - 1
    }
    const std::size_t slice =
        slice_of_key(key_of_record(rank, seed), static_cast<std::uint32_t>(slices));
    const std::size_t cell = slice * hot_classes + hot_class;
    hot_mass[cell] += rank_probability_[rank];
    hot_keys[cell] += 1.0;
    hot_total += rank_probability_[rank];
  }
  const double tail = (1.0 - hot_total) / static_cast<double>(slices);

  const double leaves =
      std::max(1.0, records / static_cast<double>(slices) / (leaf_capacity * fill));
  const double inner_nodes = std::max(1.0, leaves / (inner_capacity * fill));
  const double keys_per_leaf =
      std::min(leaf_capacity * fill, records / static_cast<double>(slices));
  const double key_lines = std::ceil(keys_per_leaf / keys_per_line);
  const double data_lines = 2.0 * key_lines;      // keys, then values
  const double shifted_lines = data_lines / 2.0;  // an insert moves half of the entries
  const double children = std::max(1.0, leaves / inner_nodes);
  const double inner_data_lines = 2.0 * std::ceil(children / keys_per_line);
  const double scanned_lines = 2.0 * mean_scan / keys_per_line;

  for (std::size_t s = 0; s < n; ++s) {
    const std::size_t row = s * line_classes;
    double hot_share = 0.0;
    for (std::size_t b = 0; b < hot_classes; ++b) {
      const double keys = hot_keys[s * hot_classes + b];
      const double mass = popular * hot_mass[s * hot_classes + b];
      hot_share += mass;
      if (keys == 0.0) continue;
      p.lines[row + b] = keys * (leaf_header_lines + 2.0);
      p.line_rate[row + b] = mass / keys;
      p.dependent[row + b] = 2.0 * mass;
      p.dirty_share[row + b] = popular > 0.0 ? workload.update / popular / 5.0 : 0.0;
    }
    const double cold = popular * tail;  // popular operations on the other records
    const double inserts = workload.insert / static_cast<double>(slices);
    const double share = hot_share + cold + inserts;
    const double scans = popular > 0.0 ? (hot_share + cold) * workload.scan / popular : 0.0;
    const double touches = cold + inserts;

    const std::size_t header = row + leaf_header;
    p.lines[header] = leaf_header_lines * leaves;
    p.line_rate[header] = touches / leaves;
    p.dependent[header] = touches;
    p.dirty_share[header] = touches > 0.0 ? inserts / touches : 0.0;

    const std::size_t data = row + leaf_data;
    const double stream = inserts * shifted_lines + scans * scanned_lines;
    p.lines[data] = data_lines * leaves;
    p.line_rate[data] = (2.0 * touches + stream) / (data_lines * leaves);
    p.dependent[data] = touches;
    p.streaming[data] = stream;
    p.dirty_share[data] =
        stream + touches > 0.0 ? inserts * shifted_lines / (2.0 * touches + stream) : 0.0;

    const std::size_t upper = row + inner_header;
    p.lines[upper] = inner_header_lines * inner_nodes;
    p.line_rate[upper] = share / inner_nodes;
    p.dependent[upper] = share;

    const std::size_t separators = row + inner_data;
    p.lines[separators] = inner_data_lines * inner_nodes;
    p.line_rate[separators] = 2.0 * share / (inner_data_lines * inner_nodes);
    p.dependent[separators] = share;

    p.share[s] = share;
    const double lookups = popular > 0.0 ? (hot_share + cold) * workload.lookup / popular : 0.0;
    const double updates = popular > 0.0 ? (hot_share + cold) * workload.update / popular : 0.0;
    p.instructions[s] =
        (lookups * lookup_cost.instructions + updates * update_cost.instructions +
         inserts * insert_cost.instructions +
         scans * (scan_cost.instructions + scan_instructions_per_entry * mean_scan)) /
        share;
    p.branch_misses[s] =
        (lookups * lookup_cost.branch_misses + updates * update_cost.branch_misses +
         inserts * insert_cost.branch_misses + scans * scan_cost.branch_misses) /
        share;
    p.cold_page_touches[s] = 2.0 * touches;  // a node straddles two small pages
    p.data_bytes[s] = (leaves + inner_nodes) * node_bytes;
  }
  return p;
}

}  // namespace pmoss::analytic
