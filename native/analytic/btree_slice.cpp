#include "analytic/btree_slice.hpp"

#include <algorithm>
#include <cmath>

#include "analytic/btree_layout.hpp"
#include "analytic/query_work.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

using namespace btree_layout;

constexpr double read_data_lines = 2.0;  // one of keys, one of words
// The samples follow the version in one run; the word is fetched together with its key.
constexpr double waits_per_header = 1.0;
constexpr double waits_per_read = 1.0;
constexpr double written_samples = 1.4;  // lines of samples that an insert writes
constexpr double written_header = 1.0 + written_samples;
constexpr double page_bytes = 4096.0;
// A node lies on two pages, and an operation touches its head and one line each of keys and words.
constexpr double pages_per_visit = 1.72;
constexpr double roots_per_line = 8.0;

// An insert moves the entries behind its own. Lines at position y of a node's capacity are moved in
// proportion to y, and only in leaves that are fuller than y. With the density of fills, the share
// of leaves fuller than y is min(1, 1 / y - 1) / ln 2. These are the points of its Gauss
// quadrature, with moves relative to their mean.
struct MovedPart {
  double lines, moves;
};
constexpr std::array<MovedPart, 3> moved_parts{
    {{0.34157897, 0.26680300}, {0.51447449, 1.16673130}, {0.14394654, 2.14393629}}};

// Touches of a line that was never there, per insert into a leaf: too few for it to be met again.
constexpr double fresh_rate = 1e-6;

static_assert(hot_classes % 2 == 0);

}  // namespace

SliceShape::SliceShape(const WorkloadSpec& workload, double share_of_records)
    : record_share(share_of_records) {
  const double records = static_cast<double>(workload.records) * record_share;
  leaves = std::max(1.0, records / (capacity * fill));
  for (double nodes = leaves; nodes > 1.0;) {
    nodes = std::max(1.0, nodes / (capacity * fill));
    inner_nodes.push_back(nodes);
  }
  const double keys_per_leaf = std::min(capacity * fill, records);
  data_lines = 2.0 * std::ceil(keys_per_leaf / keys_per_line);
  const double met_keys = std::min(capacity * met_fill, records);
  // An insert moves half of the entries, from within a line on. Once in half a leaf of inserts a
  // node is split: a new node is written, and half of the old one is read.
  fresh_lines = splits_per_insert * node_bytes / line_bytes;
  split_lines = 0.5 * fresh_lines;
  shifted_lines = met_keys / keys_per_line + 1.0 - read_data_lines;
  mean_scan = 0.5 * (1.0 + static_cast<double>(workload.max_scan_length));
  const double scanned_leaves = 1.0 + mean_scan / keys_per_leaf;
  scanned_lines = 2.0 * mean_scan / keys_per_line + scanned_leaves - 1.0;
  height = static_cast<double>(inner_nodes.size()) + 1.0;
  worker =
      worker_cost(std::max({workload.lookup, workload.update, workload.insert, workload.scan}));
  kinds = work_of_kinds();
}

std::array<KindWork, 4> SliceShape::work_of_kinds() const {
  const double written = written_header + shifted_lines + read_data_lines +
                         splits_per_insert * node_bytes / line_bytes;
  const double per_written_line =
      insert_cost(height, 1.0).instructions - insert_cost(height, 0.0).instructions;
  const double per_entry =
      scan_cost(height, 1.0).instructions - scan_cost(height, 0.0).instructions;
  const auto work = [this](OperationCost cost, double streamed, double instructions_per_line) {
    const double in_run = streamed * instructions_per_line;
    const double fixed =
        query_work(worker.instructions + cost.instructions - in_run, cost.branch_misses,
                   height * (waits_per_header + waits_per_read),
                   height * (header_lines + read_data_lines - waits_per_header - waits_per_read));
    return KindWork{cost, fixed, query_work(in_run, 0.0, 0.0, streamed)};
  };
  return {work(lookup_cost(height), 0.0, 0.0), work(update_cost(height), 0.0, 0.0),
          work(insert_cost(height, written), shifted_lines, per_written_line),
          work(scan_cost(height, mean_scan), scanned_lines, per_entry * mean_scan / scanned_lines)};
}

BTreeSlice::BTreeSlice(const WorkloadSpec& workload, const SliceShape& shape,
                       const SlicePopularity& popularity, int slices)
    : workload_(workload),
      shape_(shape),
      popularity_(popularity),
      slices_(slices),
      popular_(workload.lookup + workload.update + workload.scan) {
  even_ = popular_ * popularity.tail * shape.record_share;
  double in_bands = 0.0;
  for (const HotBand& band : popularity.bands) in_bands += popular_ * band.mass;
  cold_ = even_ + in_bands;
  for (const HotClass& records : popularity.hottest) hot_share_ += popular_ * records.mass;
  queries_.inserts = workload.insert * shape.record_share;
  queries_.scans = (hot_share_ + cold_) * share_of(workload.scan);
  queries_.lookups = (hot_share_ + cold_) * share_of(workload.lookup);
  queries_.updates = (hot_share_ + cold_) * share_of(workload.update);
  share_ = hot_share_ + cold_ + queries_.inserts;
}

void BTreeSlice::add_to(SliceProfiles& p) const {
  const HotLeaves hot = hot_leaves();
  add_hot_records(p, hot);
  p.share.push_back(share_);
  if (share_ == 0.0) {  // no query ever comes here
    for (auto* values : {&p.instructions, &p.branch_misses, &p.dependent_touches,
                         &p.streaming_touches, &p.variation}) {
      values->push_back(0.0);
    }
    p.end_slice();
    return;
  }
  add_leaves(p, hot);
  add_inner_nodes(p);
  // The table of the slices' roots.
  p.add_class(1.0 / roots_per_line, roots_per_line * share_, share_, 0.0, 0.0, 0.0);
  p.add_pages(1.0 / slices_, slices_ * share_);
  p.end_slice();
  add_touches(p);
  add_work(p);
}

BTreeSlice::HotLeaves BTreeSlice::hot_leaves() const {
  const double leaves = shape_.leaves, data_lines = shape_.data_lines;
  // A scan goes on from its record.
  const double run = share_of(workload_.scan) * shape_.scanned_lines;
  double keys = 0.0;
  for (const HotClass& records : popularity_.hottest) keys += records.keys;
  const auto distinct = [&](double lines, double among) {
    const double each = keys * lines / among;
    return each > 0.0 ? (1.0 - portable::exp(-each)) / each : 1.0;
  };
  HotLeaves hot{};
  hot.data_lines = read_data_lines + run;
  hot.headers = distinct(1.0, leaves);
  hot.data = distinct(hot.data_lines, data_lines * leaves);
  hot.other_headers = 1.0 - hot.headers * keys / leaves;
  hot.other_data = 1.0 - hot.data * keys * hot.data_lines / (data_lines * leaves);
  hot.visits = (even_ + queries_.inserts) / leaves;
  hot.data_visits = read_data_lines * hot.visits + run * even_ / leaves +
                    (shape_.shifted_lines + shape_.split_lines) * queries_.inserts / leaves;
  return hot;
}

void BTreeSlice::add_hot_records(SliceProfiles& p, const HotLeaves& hot) const {
  double pages = 0.0, visits = 0.0;
  for (std::size_t b = 0; b < hot_classes; ++b) {
    const HotClass& records = popularity_.hottest[b];
    if (records.keys > 0.0) add_hot_class(p, hot, records);
    // Pages are few beside lines: two classes of records make one of pages.
    pages += records.keys * pages_per_visit;
    visits += popular_ * records.mass * pages_per_visit;
    if (b % 2 == 1 && pages > 0.0) {
      p.add_pages(pages, visits / pages);
      pages = visits = 0.0;
    }
  }
}

/// Adds the leaves' headers and the data of hot records.
void BTreeSlice::add_hot_class(SliceProfiles& p, const HotLeaves& hot,
                               const HotClass& records) const {
  const double leaves = shape_.leaves, inserts = queries_.inserts;
  const double mass = popular_ * records.mass;
  const double updated = share_of(workload_.update) * mass;
  const double headers = records.keys * hot.headers;
  const double touches = mass + headers * hot.visits;
  const double locked = updated + headers * (inserts + share_of(workload_.update) * even_) / leaves;
  p.add_class(header_lines * headers, touches / headers, waits_per_header * touches,
              (header_lines - waits_per_header) * touches,
              (locked + written_samples * headers * inserts / leaves) / (header_lines * touches),
              locked);
  const double lines = records.keys * hot.data * hot.data_lines;
  const double part = lines / shape_.data_lines;  // of so many leaves
  const double data_touches = hot.data_lines * mass + part * hot.data_visits;
  const double waits = waits_per_read * (mass + part * hot.visits);
  p.add_class(
      lines, data_touches / lines, waits, data_touches - waits,
      (updated + part *
                     (share_of(workload_.update) * even_ +
                      (read_data_lines + shape_.shifted_lines + shape_.split_lines) * inserts) /
                     leaves) /
          data_touches,
      0.0);
}

/// Adds the leaves of hot bands, and those outside.
void BTreeSlice::add_leaves(SliceProfiles& p, const HotLeaves& hot) const {
  double rest = 1.0;
  for (const HotBand& band : popularity_.bands) {
    add_leaves_of(p, hot, band.part, popular_ * band.mass + band.part * even_);
    rest -= band.part;
  }
  rest = std::max(0.0, rest);
  if (rest > 1e-9) add_leaves_of(p, hot, rest, rest * even_);
}

/// Adds the leaves of a part of the records. `asked`: how often these are chosen.
void BTreeSlice::add_leaves_of(SliceProfiles& p, const HotLeaves& hot, double part,
                               double asked) const {
  const double added = part * queries_.inserts;
  const double touches = asked + added;
  const double updated = asked * share_of(workload_.update);
  const double scanned = asked * share_of(workload_.scan) * shape_.scanned_lines;
  if (touches + scanned == 0.0) return;
  const double nodes = part * shape_.leaves, data_lines = shape_.data_lines;
  const double headers = hot.other_headers;
  p.add_class(headers * nodes, touches / nodes, headers * waits_per_header * touches, 0.0,
              (added + updated) / touches, headers * (added + updated));
  p.add_class(headers * sample_lines * nodes, touches / nodes, 0.0,
              headers * sample_lines * touches, written_samples * added / (sample_lines * touches),
              0.0);
  const auto add_data = [&](const MovedPart& kind) {
    // What an insert moves starts with the lines that it has read.
    const double moved = added * (kind.moves * shape_.shifted_lines + shape_.split_lines);
    const double read = read_data_lines * touches + scanned;
    const double lines = hot.other_data * kind.lines;
    p.add_class(lines * data_lines * nodes, (read + moved) / (data_lines * nodes),
                lines * waits_per_read * touches, lines * (read + moved - waits_per_read * touches),
                (added * read_data_lines + moved + updated) / (read + moved), 0.0);
  };
  if (added > 0.0) {
    for (const MovedPart& kind : moved_parts) add_data(kind);
    // Lines of new nodes are in no cache, and there are ever new ones.
    const double rate = fresh_rate * added / nodes;
    p.add_class(added * shape_.fresh_lines / rate, rate, 0.0, added * shape_.fresh_lines, 1.0, 0.0);
  } else {
    add_data({1.0, 0.0});
  }
  const double pages = nodes * node_bytes / page_bytes;
  p.add_pages(pages, pages_per_visit * touches / pages);
}

/// Every query passes one node of each level.
void BTreeSlice::add_inner_nodes(SliceProfiles& p) const {
  double children = shape_.leaves;
  for (const double nodes : shape_.inner_nodes) {
    const double separator_lines = 2.0 * std::ceil(children / nodes / keys_per_line);
    p.add_class(header_lines * nodes, share_ / nodes, waits_per_header * share_,
                (header_lines - waits_per_header) * share_, 0.0, 0.0);
    p.add_class(separator_lines * nodes, read_data_lines * share_ / (separator_lines * nodes),
                waits_per_read * share_, (read_data_lines - waits_per_read) * share_, 0.0, 0.0);
    const double pages = nodes * node_bytes / page_bytes;
    p.add_pages(pages, pages_per_visit * share_ / pages);
    children = nodes;
  }
}

/// Sums up the touches of the slice that has just been ended, per query of the slice.
void BTreeSlice::add_touches(SliceProfiles& p) const {
  double dependent = 0.0, streaming = 0.0;
  for (std::size_t k = p.first_class[p.first_class.size() - 2]; k < p.first_class.back(); ++k) {
    dependent += p.dependent[k];
    streaming += p.streaming[k];
  }
  // A lock writes what has been read, and so do the moves of an insert.
  p.dependent_touches.push_back((dependent + queries_.inserts + queries_.updates) / share_);
  p.streaming_touches.push_back((streaming + 3.0 * queries_.inserts + queries_.updates) / share_);
}

/// Adds instructions and branch misses per query, and how much queries differ: the lengths of scans
/// and of what inserts move are spread evenly from 0.
void BTreeSlice::add_work(SliceProfiles& p) const {
  const std::array queries{queries_.lookups, queries_.updates, queries_.inserts, queries_.scans};
  double instructions = shape_.worker.instructions, branch_misses = shape_.worker.branch_misses;
  double work = 0.0, square = 0.0;
  for (std::size_t kind = 0; kind < queries.size(); ++kind) {
    const auto& [cost, fixed, run] = shape_.kinds[kind];
    const double weight = queries[kind] / share_;
    instructions += weight * cost.instructions;
    branch_misses += weight * cost.branch_misses;
    work += weight * (fixed + run);
    square += weight * (fixed * fixed + 2.0 * fixed * run + 4.0 / 3.0 * run * run);
  }
  p.instructions.push_back(instructions);
  p.branch_misses.push_back(branch_misses);
  p.variation.push_back(std::max(0.0, square / (work * work) - 1.0));
}

}  // namespace pmoss::analytic
