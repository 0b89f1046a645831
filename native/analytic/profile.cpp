#include "analytic/profile.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "index/node.hpp"
#include "workload/keyspace.hpp"
#include "workload/portable_math.hpp"
#include "workload/zipf.hpp"

namespace pmoss::analytic {
namespace {

// The layout of index/node.hpp, the same for leaves and inner nodes: a line with version and count,
// the samples, then keys and words side by side.
constexpr double line_bytes = 64.0;
constexpr double capacity = index_detail::leaf_capacity;
constexpr double fill = 0.6931471805599453;  // random inserts fill nodes to ln 2
constexpr double keys_per_line = index_detail::group_keys;
constexpr double sample_lines = sizeof(index_detail::Node::samples) / line_bytes;
constexpr double header_lines = 1.0 + sample_lines;
constexpr double read_data_lines = 2.0;  // one of keys, one of words
constexpr double node_bytes = sizeof(index_detail::Node);

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
  // The other records share what is left evenly. Where all items are hot, rounding leaves no rest.
  const bool all_hot = rank_probability_.size() == workload.zipf_items;
  const double tail = all_hot ? 0.0 : std::max(0.0, 1.0 - hot_total) / slices;

  const double records_per_slice = static_cast<double>(workload.records) / slices;
  const double leaves = std::max(1.0, records_per_slice / (capacity * fill));
  const double inner_nodes = std::max(1.0, leaves / (capacity * fill));
  const double keys_per_leaf = std::min(capacity * fill, records_per_slice);
  const double data_lines = 2.0 * std::ceil(keys_per_leaf / keys_per_line);  // keys, then values
  const double shifted_lines = data_lines / 2.0;  // an insert moves half of the entries
  const double children = std::max(1.0, leaves / inner_nodes);
  const double inner_data_lines = 2.0 * std::ceil(children / keys_per_line);
  const double scanned_lines = 2.0 * mean_scan / keys_per_line;
  const auto share_of = [popular](double kind) { return popular > 0.0 ? kind / popular : 0.0; };

  for (std::size_t s = 0; s < n; ++s) {
    const std::size_t row = s * line_classes;
    double hot_share = 0.0;
    for (std::size_t b = 0; b < hot_classes; ++b) {
      const double keys = hot_keys[s * hot_classes + b];
      const double mass = popular * hot_mass[s * hot_classes + b];
      hot_share += mass;
      if (keys == 0.0) continue;
      p.lines[row + b] = keys * (header_lines + read_data_lines);
      p.line_rate[row + b] = mass / keys;
      p.dependent[row + b] = 2.0 * mass;
      // An update writes the version and the value.
      p.dirty_share[row + b] = share_of(workload.update) * 2.0 / (header_lines + read_data_lines);
    }
    const double cold = popular * tail;  // popular operations on the other records
    const double inserts = workload.insert / slices;
    const double share = hot_share + cold + inserts;
    const double scans = (hot_share + cold) * share_of(workload.scan);
    const double cold_updates = cold * share_of(workload.update);
    const double touches = cold + inserts;

    const std::size_t header = row + leaf_header;
    p.lines[header] = header_lines * leaves;
    p.line_rate[header] = touches / leaves;
    p.dependent[header] = touches;
    p.dirty_share[header] = touches > 0.0 ? (inserts + cold_updates / header_lines) / touches : 0.0;

    const std::size_t data = row + leaf_data;
    const double stream = inserts * shifted_lines + scans * scanned_lines;
    const double data_touches = read_data_lines * touches + stream;
    p.lines[data] = data_lines * leaves;
    p.line_rate[data] = data_touches / (data_lines * leaves);
    p.dependent[data] = touches;
    p.streaming[data] = stream;
    p.dirty_share[data] =
        data_touches > 0.0 ? (inserts * shifted_lines + cold_updates) / data_touches : 0.0;

    const std::size_t upper = row + inner_header;
    p.lines[upper] = header_lines * inner_nodes;
    p.line_rate[upper] = share / inner_nodes;
    p.dependent[upper] = share;

    const std::size_t separators = row + inner_data;
    p.lines[separators] = inner_data_lines * inner_nodes;
    p.line_rate[separators] = read_data_lines * share / (inner_data_lines * inner_nodes);
    p.dependent[separators] = share;

    p.share[s] = share;
    p.cold_page_touches[s] = 2.0 * touches;  // a node straddles two small pages
    p.data_bytes[s] = (leaves + inner_nodes) * node_bytes;
    if (share == 0.0) continue;  // no query ever comes here
    const double lookups = (hot_share + cold) * share_of(workload.lookup);
    const double updates = (hot_share + cold) * share_of(workload.update);
    p.instructions[s] =
        (lookups * lookup_cost.instructions + updates * update_cost.instructions +
         inserts * insert_cost.instructions +
         scans * (scan_cost.instructions + scan_instructions_per_entry * mean_scan)) /
        share;
    p.branch_misses[s] =
        (lookups * lookup_cost.branch_misses + updates * update_cost.branch_misses +
         inserts * insert_cost.branch_misses + scans * scan_cost.branch_misses) /
        share;
  }
  return p;
}

}  // namespace pmoss::analytic
