#include "analytic/btree_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "analytic/query_work.hpp"
#include "index/node.hpp"
#include "index/operation_cost.hpp"
#include "workload/keyspace.hpp"
#include "workload/portable_math.hpp"
#include "workload/zipf.hpp"

namespace pmoss::analytic {
namespace {

// The layout of index/node.hpp, the same for leaves and inner nodes: a line with version and count,
// the samples, then keys and words side by side.
constexpr double line_bytes = 64.0;
constexpr double capacity = index_detail::leaf_capacity;
// Random inserts leave fills with the density 1 / x^2 between a half and 1. Of all leaves they are
// ln 2 on average; of those that a random key meets, where full ones count for more, 1 / (2 ln 2).
constexpr double fill = 0.6931471805599453;
constexpr double met_fill = 0.5 / fill;
constexpr double keys_per_line = index_detail::group_keys;
constexpr double sample_lines = sizeof(index_detail::Node::samples) / line_bytes;
constexpr double header_lines = 1.0 + sample_lines;
constexpr double read_data_lines = 2.0;  // one of keys, one of words
// The samples follow the version in one run; the word is fetched together with its key.
constexpr double waits_per_header = 1.0;
constexpr double waits_per_read = 1.0;
constexpr double written_samples = 1.4;  // lines of samples that an insert writes
constexpr double written_header = 1.0 + written_samples;
constexpr double node_bytes = sizeof(index_detail::Node);
constexpr double page_bytes = 4096.0;
// A node lies on two pages, and an operation touches its head and one line each of keys and words.
constexpr double pages_per_visit = 1.72;
constexpr double roots_per_line = 8.0;

// An insert moves the entries behind its own: a line at position y of the node's capacity is moved
// in proportion to y, and is there in leaves that are fuller than y. With the density of fills
// above y is distributed as min(1, 1 / y - 1) / ln 2; this is its Gauss quadrature, relative to its
// mean.
struct MovedPart {
  double lines, moves;
};
constexpr std::array<MovedPart, 3> moved_parts{
    {{0.34157897, 0.26680300}, {0.51447449, 1.16673130}, {0.14394654, 2.14393629}}};

// Touches of a line that was never there, per insert into a leaf: too few for it to be met again.
constexpr double fresh_rate = 1e-6;

// Popular records by rank: 4^b to 4^(b+1) - 1, each in a leaf of its own.
constexpr std::size_t hot_classes = 8;
static_assert(hot_classes % 2 == 0);
constexpr std::uint64_t hot_ranks = 65535;
constexpr std::uint64_t fewest_hot_ranks = 1023;

}  // namespace

BTreeProfiler::BTreeProfiler(const WorkloadSpec& workload, int slices)
    : workload_(workload), slices_(slices) {
  if (slices < 1 || slices > 65536) {
    throw std::invalid_argument("slices = " + std::to_string(slices) +
                                ": must lie between 1 and 65536");
  }
  validate(workload);
  record_share_ = record_shares(workload.space, static_cast<std::uint32_t>(slices));
  if (workload.distribution != Distribution::zipf || workload.space.in_order > 0) return;
  const double normaliser = zeta(workload.zipf_items, workload.theta);
  // Where more records are hot than every other leaf, they share leaves and are as if alike.
  const auto leaves =
      static_cast<std::uint64_t>(static_cast<double>(workload.records) / (2.0 * capacity * fill));
  const std::uint64_t last = std::min({hot_ranks, std::max<std::uint64_t>(leaves, fewest_hot_ranks),
                                       workload.records, workload.zipf_items});
  rank_probability_.reserve(last);
  for (std::uint64_t rank = 1; rank <= last; ++rank) {
    rank_probability_.push_back(portable::power(static_cast<double>(rank), -workload.theta) /
                                normaliser);
  }
}

std::vector<std::vector<BTreeProfiler::Band>> BTreeProfiler::bands(
    const WorkloadSpec& instance) const {
  std::vector<std::vector<Band>> bands(static_cast<std::size_t>(slices_));
  if (instance.distribution == Distribution::hot_range) {
    const std::vector<double> in_range =
        hot_range_shares(instance, static_cast<std::uint32_t>(slices_));
    for (std::size_t s = 0; s < bands.size(); ++s) {
      if (in_range[s] == 0.0) continue;
      bands[s].push_back({std::min(1.0, in_range[s] * instance.hot_fraction / record_share_[s]),
                          instance.hot_share * in_range[s]});
    }
  } else if (instance.space.in_order > 0) {
    add_bands_in_order(instance, bands);
  }
  return bands;
}

/// Ranks from one power of four leaves to the next make a band; a slice holds its part of it. What
/// is asked within a band is taken as even.
void BTreeProfiler::add_bands_in_order(const WorkloadSpec& instance,
                                       std::vector<std::vector<Band>>& bands) const {
  const auto records = static_cast<double>(instance.records);
  const double whole = zeta(instance.zipf_items, instance.theta);
  const auto below = [&](double rank) {
    const auto ranks = std::min(static_cast<std::uint64_t>(rank), instance.zipf_items);
    return ranks == 0 ? 0.0 : zeta(ranks, instance.theta) / whole;
  };
  const auto first = static_cast<double>(instance.space.place_in_order(0, instance.seed));
  double end = 0.0;
  for (std::size_t s = 0; s < bands.size(); ++s) {
    const double from = end;
    end = s + 1 == bands.size() ? records : std::round(from + record_share_[s] * records);
    if (end <= from) continue;
    // Ranks begin at `first` and go on round the end.
    for (const double turn : {0.0, records}) {
      const double low = std::max(from + turn, first) - first;
      const double high = std::min(end + turn, first + records) - first;
      double band = std::floor(capacity * fill);  // the ranks below it
      for (double rank = low; rank < high; band *= 4.0) {
        if (band <= rank) continue;
        const double next = std::min(band, high);
        bands[s].push_back({(next - rank) / (end - from), below(next) - below(rank)});
        rank = next;
      }
    }
  }
}

SliceProfiles BTreeProfiler::profiles(std::uint64_t seed) const {
  const WorkloadSpec& workload = workload_;
  const int slices = slices_;
  const auto n = static_cast<std::size_t>(slices);
  SliceProfiles p;
  p.slices = slices;
  p.first_class.push_back(0);
  p.first_page_class.push_back(0);

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
        slice_of_key(workload.space.key(rank, seed), static_cast<std::uint32_t>(slices));
    const std::size_t cell = slice * hot_classes + hot_class;
    hot_mass[cell] += rank_probability_[rank];
    hot_keys[cell] += 1.0;
    hot_total += rank_probability_[rank];
  }
  // The other records share what is left evenly. Where all items are hot, rounding leaves no rest.
  const bool all_hot = rank_probability_.size() == workload.zipf_items;
  double tail = all_hot ? 0.0 : std::max(0.0, 1.0 - hot_total);
  WorkloadSpec instance = workload;
  instance.seed = seed;
  const std::vector<std::vector<Band>> hot_bands = bands(instance);
  if (workload.distribution == Distribution::hot_range) {
    tail = 1.0 - workload.hot_share;
  } else if (workload.space.in_order > 0) {
    tail = 0.0;  // ranks that are no record fall on any
    if (workload.zipf_items > workload.records) {
      tail =
          1.0 - zeta(workload.records, workload.theta) / zeta(workload.zipf_items, workload.theta);
    }
  }

  const auto share_of = [popular](double kind) { return popular > 0.0 ? kind / popular : 0.0; };
  std::vector<double> inner_nodes;
  std::vector<Band> parts;
  for (std::size_t s = 0; s < n; ++s) {
    const double records_per_slice = static_cast<double>(workload.records) * record_share_[s];
    const double leaves = std::max(1.0, records_per_slice / (capacity * fill));
    // Levels of inner nodes; the uppermost is a slice's root.
    inner_nodes.clear();
    for (double nodes = leaves; nodes > 1.0;) {
      nodes = std::max(1.0, nodes / (capacity * fill));
      inner_nodes.push_back(nodes);
    }
    const double keys_per_leaf = std::min(capacity * fill, records_per_slice);
    const double data_lines = 2.0 * std::ceil(keys_per_leaf / keys_per_line);  // keys, then values
    const double met_keys = std::min(capacity * met_fill, records_per_slice);
    // An insert moves half of the entries, from within a line on; every half leaf of inserts, one
    // is split: a new node is written, and half of the old one is read.
    const double split = 1.0 / (0.5 * capacity);
    const double fresh_lines = split * node_bytes / line_bytes;
    const double split_lines = 0.5 * fresh_lines;
    const double shifted_lines = met_keys / keys_per_line + 1.0 - read_data_lines;
    const double scanned_leaves = 1.0 + mean_scan / keys_per_leaf;
    const double scanned_lines = 2.0 * mean_scan / keys_per_line + scanned_leaves - 1.0;
    const double height = static_cast<double>(inner_nodes.size()) + 1.0;

    // Popular operations on the other records: on all alike, and on those in hot bands.
    const double even = popular * tail * record_share_[s];
    double in_bands = 0.0;
    for (const Band& band : hot_bands[s]) in_bands += popular * band.mass;
    const double cold = even + in_bands;
    const double inserts = workload.insert * record_share_[s];

    // A scan goes on from its record. Lines of hot records are met by all other operations, too, as
    // often as any line; some belong to several hot records.
    const double run = share_of(workload.scan) * scanned_lines;
    const double hot_data_lines = read_data_lines + run;
    double all_hot_keys = 0.0;
    for (std::size_t b = 0; b < hot_classes; ++b) all_hot_keys += hot_keys[s * hot_classes + b];
    const auto distinct = [&](double lines, double among) {
      const double each = all_hot_keys * lines / among;
      return each > 0.0 ? (1.0 - portable::exp(-each)) / each : 1.0;
    };
    const double hot_headers = distinct(1.0, leaves);
    const double hot_data = distinct(hot_data_lines, data_lines * leaves);
    const double other_headers = 1.0 - hot_headers * all_hot_keys / leaves;
    const double other_data =
        1.0 - hot_data * all_hot_keys * hot_data_lines / (data_lines * leaves);
    const double visits = (even + inserts) / leaves;  // of a leaf, by operations on all alike
    const double data_visits = read_data_lines * visits + run * even / leaves +
                               (shifted_lines + split_lines) * inserts / leaves;

    double hot_share = 0.0;
    double hot_pages = 0.0, hot_visits = 0.0;
    for (std::size_t b = 0; b < hot_classes; ++b) {
      const double keys = hot_keys[s * hot_classes + b];
      const double mass = popular * hot_mass[s * hot_classes + b];
      hot_share += mass;
      if (keys > 0.0) {
        const double updated = share_of(workload.update) * mass;
        const double headers = keys * hot_headers;
        const double touches = mass + headers * visits;
        const double locked =
            updated + headers * (inserts + share_of(workload.update) * even) / leaves;
        p.add_class(
            header_lines * headers, touches / headers, waits_per_header * touches,
            (header_lines - waits_per_header) * touches,
            (locked + written_samples * headers * inserts / leaves) / (header_lines * touches),
            locked);
        const double lines = keys * hot_data * hot_data_lines;
        const double part = lines / data_lines;  // of so many leaves
        const double data_touches = hot_data_lines * mass + part * data_visits;
        const double waits = waits_per_read * (mass + part * visits);
        p.add_class(lines, data_touches / lines, waits, data_touches - waits,
                    (updated + part *
                                   (share_of(workload.update) * even +
                                    (read_data_lines + shifted_lines + split_lines) * inserts) /
                                   leaves) /
                        data_touches,
                    0.0);
      }
      // Pages are few beside lines: two classes of records make one of pages.
      hot_pages += keys * pages_per_visit;
      hot_visits += mass * pages_per_visit;
      if (b % 2 == 1 && hot_pages > 0.0) {
        p.add_pages(hot_pages, hot_visits / hot_pages);
        hot_pages = hot_visits = 0.0;
      }
    }
    const double share = hot_share + cold + inserts;
    p.share.push_back(share);
    if (share == 0.0) {  // no query ever comes here
      p.instructions.push_back(0.0);
      p.branch_misses.push_back(0.0);
      p.dependent_touches.push_back(0.0);
      p.streaming_touches.push_back(0.0);
      p.variation.push_back(0.0);
      p.end_slice();
      continue;
    }
    const double scans = (hot_share + cold) * share_of(workload.scan);
    const double lookups = (hot_share + cold) * share_of(workload.lookup);
    const double updates = (hot_share + cold) * share_of(workload.update);
    // Leaves in hot bands and those outside.
    parts.clear();
    double rest = 1.0;
    for (const Band& band : hot_bands[s]) {
      parts.push_back({band.part, popular * band.mass + band.part * even});
      rest -= band.part;
    }
    rest = std::max(0.0, rest);
    if (rest > 1e-9) parts.push_back({rest, rest * even});
    for (const auto& [part, asked] : parts) {
      const double added = part * inserts;
      const double touches = asked + added;
      const double updated = asked * share_of(workload.update);
      const double scanned = asked * share_of(workload.scan) * scanned_lines;
      if (touches + scanned == 0.0) continue;
      const double nodes = part * leaves;
      const double headers = other_headers;
      p.add_class(headers * nodes, touches / nodes, headers * waits_per_header * touches, 0.0,
                  (added + updated) / touches, headers * (added + updated));
      p.add_class(headers * sample_lines * nodes, touches / nodes, 0.0,
                  headers * sample_lines * touches,
                  written_samples * added / (sample_lines * touches), 0.0);
      const auto add_data = [&](const MovedPart& kind) {
        // What an insert moves starts with the lines that it has read.
        const double moved = added * (kind.moves * shifted_lines + split_lines);
        const double read = read_data_lines * touches + scanned;
        const double lines = other_data * kind.lines;
        p.add_class(lines * data_lines * nodes, (read + moved) / (data_lines * nodes),
                    lines * waits_per_read * touches,
                    lines * (read + moved - waits_per_read * touches),
                    (added * read_data_lines + moved + updated) / (read + moved), 0.0);
      };
      if (added > 0.0) {
        for (const MovedPart& kind : moved_parts) add_data(kind);
      } else {
        add_data({1.0, 0.0});
      }
      if (added > 0.0) {
        // Lines of new nodes are in no cache, and there are ever new ones.
        const double rate = fresh_rate * added / nodes;
        p.add_class(added * fresh_lines / rate, rate, 0.0, added * fresh_lines, 1.0, 0.0);
      }
      const double pages = nodes * node_bytes / page_bytes;
      p.add_pages(pages, pages_per_visit * touches / pages);
    }
    double children = leaves;
    for (const double nodes : inner_nodes) {
      const double separator_lines = 2.0 * std::ceil(children / nodes / keys_per_line);
      p.add_class(header_lines * nodes, share / nodes, waits_per_header * share,
                  (header_lines - waits_per_header) * share, 0.0, 0.0);
      p.add_class(separator_lines * nodes, read_data_lines * share / (separator_lines * nodes),
                  waits_per_read * share, (read_data_lines - waits_per_read) * share, 0.0, 0.0);
      const double pages = nodes * node_bytes / page_bytes;
      p.add_pages(pages, pages_per_visit * share / pages);
      children = nodes;
    }
    // The table of the slices' roots.
    p.add_class(1.0 / roots_per_line, roots_per_line * share, share, 0.0, 0.0, 0.0);
    p.add_pages(1.0 / slices, slices * share);
    p.end_slice();
    double dependent = 0.0, streaming = 0.0;
    for (std::size_t k = p.first_class[s]; k < p.first_class[s + 1]; ++k) {
      dependent += p.dependent[k];
      streaming += p.streaming[k];
    }
    // A lock writes what has been read, and so do the moves of an insert.
    p.dependent_touches.push_back((dependent + inserts + updates) / share);
    p.streaming_touches.push_back((streaming + 3.0 * inserts + updates) / share);

    // Lengths of scans and of what inserts move are spread evenly from 0.
    struct Kind {
      double weight;
      OperationCost cost;
      double streamed;  // lines
      double instructions_per_line;
    };
    const double written =
        written_header + shifted_lines + read_data_lines + split * node_bytes / line_bytes;
    const double per_written_line =
        insert_cost(height, 1.0).instructions - insert_cost(height, 0.0).instructions;
    const double per_entry =
        scan_cost(height, 1.0).instructions - scan_cost(height, 0.0).instructions;
    const std::array<Kind, 4> kinds{{
        {lookups, lookup_cost(height), 0.0, 0.0},
        {updates, update_cost(height), 0.0, 0.0},
        {inserts, insert_cost(height, written), shifted_lines, per_written_line},
        {scans, scan_cost(height, mean_scan), scanned_lines, per_entry * mean_scan / scanned_lines},
    }};
    const OperationCost worker =
        worker_cost(std::max({workload.lookup, workload.update, workload.insert, workload.scan}));
    double instructions = worker.instructions, branch_misses = worker.branch_misses;
    double work = 0.0, square = 0.0;
    for (const Kind& kind : kinds) {
      const double weight = kind.weight / share;
      const double in_run = kind.streamed * kind.instructions_per_line;
      const double run = query_work(in_run, 0.0, 0.0, kind.streamed);
      const double fixed =
          query_work(worker.instructions + kind.cost.instructions - in_run, kind.cost.branch_misses,
                     height * (waits_per_header + waits_per_read),
                     height * (header_lines + read_data_lines - waits_per_header - waits_per_read));
      instructions += weight * kind.cost.instructions;
      branch_misses += weight * kind.cost.branch_misses;
      work += weight * (fixed + run);
      square += weight * (fixed * fixed + 2.0 * fixed * run + 4.0 / 3.0 * run * run);
    }
    p.instructions.push_back(instructions);
    p.branch_misses.push_back(branch_misses);
    p.variation.push_back(std::max(0.0, square / (work * work) - 1.0));
  }
  return p;
}

}  // namespace pmoss::analytic
