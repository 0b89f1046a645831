#include "environment/running.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "environment/checks.hpp"

namespace pmoss::environment {
namespace {

constexpr double line_bytes = 64.0;
// However busy a memory or link is, a copy gets this share of it.
constexpr double least_share = 0.02;
// Of its time, a core spends no more than this on fetching cold lines.
constexpr double most_cold = 0.9;

Machine completed(Machine machine) {
  machine.complete();
  return machine;
}

/// The share of a memory or link that co-tenants leave.
double left_of(double taken, double whole) { return std::max(least_share, 1.0 - taken / whole); }

double part(double mine, double of) { return of > 0.0 ? mine / of : 0.0; }

void sort_unique(std::vector<int>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// `first` times one snapshot and `second` times another; times are weighted by `time`.
Snapshot sum(double first, const Snapshot& a, double second, const Snapshot& b, double time) {
  Snapshot result = a;
  const auto add = [&](double& to, double of_a, double of_b) { to = first * of_a + second * of_b; };
  const auto add_all = [&](std::vector<double>& to, const std::vector<double>& of_b) {
    for (std::size_t i = 0; i < to.size(); ++i) add(to[i], to[i], of_b[i]);
  };
  add(result.throughput, a.throughput, b.throughput);
  for (const ComputedCounter& counter : computed_counters) {
    for (std::size_t s = 0; s < a.slices.size(); ++s) {
      add(result.slices[s].*counter.rate, a.slices[s].*counter.rate, b.slices[s].*counter.rate);
    }
  }
  add_all(result.read_gb_per_s, b.read_gb_per_s);
  add_all(result.write_gb_per_s, b.write_gb_per_s);
  add_all(result.link_gb_per_s, b.link_gb_per_s);
  result.latency_p50_us = time * a.latency_p50_us + (1.0 - time) * b.latency_p50_us;
  result.latency_p99_us = time * a.latency_p99_us + (1.0 - time) * b.latency_p99_us;
  return result;
}

/// The snapshot of a whole epoch from those of its two parts, of which either may be missing.
Snapshot mean(const Snapshot* middle, const Snapshot* settled, const std::vector<Piece>& pieces,
              double queries, double seconds) {
  if (middle == nullptr) return *settled;
  const Piece last = settled != nullptr ? pieces.back() : Piece{};
  queries -= last.seconds * last.throughput;
  // The middle piece stands for all in which data moved.
  const double served = middle->throughput * seconds;
  const double rates = served > 0.0 ? queries / served : 0.0;
  if (settled == nullptr) return sum(rates, *middle, 0.0, *middle, 1.0);
  return sum(rates, *middle, last.seconds / seconds, *settled, 1.0 - last.seconds / seconds);
}

}  // namespace

RunningIndex::RunningIndex(Machine machine, std::vector<double> slice_bytes, double most_gb_per_s)
    : machine_(completed(std::move(machine))),
      slice_bytes_(std::move(slice_bytes)),
      most_gb_per_s_(most_gb_per_s > 0.0 ? most_gb_per_s : std::numeric_limits<double>::infinity()),
      cores_(slices(), 0),
      nodes_(slices(), 0),
      pending_(slices(), 0.0) {}

std::int32_t RunningIndex::slot(int slice) const {
  const int count = static_cast<int>(slices());
  return static_cast<std::int32_t>(((slice - shift_) % count + count) % count);
}

void RunningIndex::begin(analytic::Model& model, analytic::SliceProfiles profiles,
                         const Interference& interference, int shift,
                         std::span<const std::int32_t> cores) {
  if (profiles.share.size() != slices()) {
    refuse("profiles of " + std::to_string(profiles.share.size()) + " slices: must be of " +
           std::to_string(slices()));
  }
  check(cores);
  validate(interference, machine_);
  began_ = unplaced_ = false;
  shares_ = profiles.share;
  take(interference, shift);
  model.set_instance(std::move(profiles), taken_);
  start(model, cores);
}

void RunningIndex::begin_again(analytic::Model& model, const Interference& interference, int shift,
                               std::span<const std::int32_t> cores) {
  if (!began_) refuse("nothing runs that could begin again: call begin() first");
  check(cores);
  validate(interference, machine_);
  began_ = unplaced_ = false;
  take(interference, shift);
  model.set_co_tenants(taken_);
  start(model, cores);
}

void RunningIndex::check(std::span<const std::int32_t> cores) const {
  if (cores.size() != slices()) {
    refuse(std::to_string(cores.size()) + " cores for " + std::to_string(slices()) + " slices");
  }
  for (const std::int32_t core : cores) {
    if (core < 0 || core >= machine_.cores()) refuse("core " + std::to_string(core));
  }
}

void RunningIndex::start(analytic::Model& model, std::span<const std::int32_t> cores) {
  std::copy(cores.begin(), cores.end(), cores_.begin());
  for (std::size_t s = 0; s < slices(); ++s) nodes_[s] = node_of(cores_[s]);
  std::fill(pending_.begin(), pending_.end(), 0.0);
  copies_.clear();
  moved_.clear();
  unsettled_.clear();
  place(model);
  began_ = true;
}

void RunningIndex::move(int slice, int core) {
  if (slice < 0 || static_cast<std::size_t>(slice) >= slices() || core < 0 ||
      core >= machine_.cores()) {
    refuse("slice " + std::to_string(slice) + " to core " + std::to_string(core) +
           ": one of the two does not exist");
  }
  const auto s = static_cast<std::size_t>(slice);
  if (cores_[s] == core) return;
  const std::int32_t node = node_of(core), before = node_of(cores_[s]);
  cores_[s] = core;
  moved_.push_back(slice);
  if (node == before) return;
  std::erase_if(copies_, [slice](const Copy& copy) { return copy.slice == slice; });
  pending_[s] = 0.0;
  if (node != nodes_[s]) {
    copies_.push_back({slice, slice_bytes_[s]});
    pending_[s] = 1.0;
  }
}

void RunningIndex::take(const Interference& interference, int shift) {
  taken_ = interference;
  taken_.dram_gb_per_s.resize(static_cast<std::size_t>(machine_.nodes()), 0.0);
  taken_.link_gb_per_s.resize(machine_.link_gb_per_s.size(), 0.0);
  busy_nodes_ = taken_.dram_gb_per_s;
  busy_links_ = taken_.link_gb_per_s;
  shift_ = shift;
}

void RunningIndex::place(analytic::Model& model) {
  std::vector<std::int32_t> cores(slices()), nodes(slices());
  for (std::size_t s = 0; s < slices(); ++s) {
    const auto at = static_cast<std::size_t>(slot(static_cast<int>(s)));
    cores[at] = cores_[s];
    nodes[at] = nodes_[s];
  }
  model.place({cores, nodes});
}

/// Lets the cores of slices that have moved lose the time for their cold lines. A slice holds of a
/// cache what it has of the queries that go through it.
void RunningIndex::add_cold_lines(double seconds) {
  if (moved_.empty()) return;
  const auto core_count = static_cast<std::size_t>(machine_.cores());
  std::vector<int> moved = moved_;
  sort_unique(moved);
  const auto share = [&](std::size_t slice) {
    return shares_[static_cast<std::size_t>(slot(static_cast<int>(slice)))];
  };
  const auto domain_of = [&](std::int32_t core) {
    return static_cast<std::size_t>(machine_.llc_of_core[static_cast<std::size_t>(core)]);
  };
  std::vector<double> through_core(core_count, 0.0), lost(core_count, 0.0);
  std::vector<double> through_domain(static_cast<std::size_t>(machine_.llc_domains()), 0.0);
  for (std::size_t s = 0; s < slices(); ++s) {
    through_core[static_cast<std::size_t>(cores_[s])] += share(s);
    through_domain[domain_of(cores_[s])] += share(s);
  }
  for (const int slice : moved) {
    const auto s = static_cast<std::size_t>(slice);
    const auto core = static_cast<std::size_t>(cores_[s]);
    const double held = machine_.l2_lines * part(share(s), through_core[core]) +
                        machine_.llc_lines * part(share(s), through_domain[domain_of(cores_[s])]);
    const double wait =
        machine_.dram_latency(node_of(cores_[s]), nodes_[s]) / machine_.mlp_dependent;
    lost[core] += std::min(held, slice_bytes_[s] / line_bytes) * wait * 1e-9;
  }
  taken_.busy_share.resize(core_count, 0.0);
  for (std::size_t core = 0; core < core_count; ++core) {
    const double cold = std::min(lost[core] / seconds, most_cold);
    taken_.busy_share[core] = 1.0 - (1.0 - taken_.busy_share[core]) * (1.0 - cold);
  }
}

/// How fast a copy is beside co-tenants, and what it takes. One thread has as many lines in flight
/// as the processor fetches ahead. Each takes the latency from the source, longer where co-tenants
/// use its memory. Memories and links give no more than co-tenants leave.
Traffic RunningIndex::traffic(int source, int target) const {
  const auto from = static_cast<std::size_t>(source), to = static_cast<std::size_t>(target);
  Traffic result;
  result.source = source;
  result.target = target;
  const double memory = left_of(busy_nodes_[from], machine_.dram_gb_per_s[from]);
  double rate =
      line_bytes * machine_.mlp_streaming / machine_.dram_latency(target, source) * memory;
  rate = std::min(rate, machine_.dram_gb_per_s[from] * memory);
  rate = std::min(rate, machine_.dram_write_gb_per_s[to] *
                            left_of(busy_nodes_[to], machine_.dram_gb_per_s[to]));
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  const auto end = static_cast<std::size_t>(machine_.socket_of_node[to]);
  for (auto at = static_cast<std::size_t>(machine_.socket_of_node[from]); at != end;) {
    const auto next = static_cast<std::size_t>(machine_.next_socket[at * sockets + end]);
    const std::size_t link = at * sockets + next;
    rate = std::min(rate, machine_.link_gb_per_s[link] *
                              left_of(busy_links_[link], machine_.link_gb_per_s[link]));
    result.links.push_back(link);
    at = next;
  }
  rate = std::min(rate, most_gb_per_s_);
  result.rate = rate;
  result.writing = rate * machine_.dram_gb_per_s[to] / machine_.dram_write_gb_per_s[to];
  return result;
}

/// The pieces in which data move, and how many arrive.
std::vector<RunningIndex::Planned> RunningIndex::plan(double seconds, std::size_t& arrived) {
  std::vector<Planned> pieces;
  double rest = seconds;
  for (arrived = 0; arrived < copies_.size(); ++arrived) {
    Copy& copy = copies_[arrived];
    const auto s = static_cast<std::size_t>(copy.slice);
    Traffic of_copy = traffic(nodes_[s], node_of(cores_[s]));
    const double bytes_per_s = of_copy.rate * 1e9;
    const double need = copy.bytes / bytes_per_s;
    if (need > rest) {
      copy.bytes -= rest * of_copy.rate * 1e9;
      if (rest > 0.0) pieces.push_back({rest, std::move(of_copy), copy.slice});
      return pieces;
    }
    pieces.push_back({need, std::move(of_copy), copy.slice});
    rest -= need;
  }
  return pieces;
}

/// Sets what co-tenants and a copy take, and where some slices now are; returns the throughput.
double RunningIndex::change(analytic::Model& model, const Traffic* traffic,
                            std::vector<int> slices) {
  taken_.dram_gb_per_s = busy_nodes_;
  taken_.link_gb_per_s = busy_links_;
  if (traffic != nullptr) {
    taken_.dram_gb_per_s[static_cast<std::size_t>(traffic->source)] += traffic->rate;
    taken_.dram_gb_per_s[static_cast<std::size_t>(traffic->target)] += traffic->writing;
    for (const std::size_t link : traffic->links) taken_.link_gb_per_s[link] += traffic->rate;
  }
  sort_unique(slices);
  std::vector<std::int32_t> slots, cores, nodes;
  for (const int slice : slices) {
    slots.push_back(slot(slice));
    cores.push_back(cores_[static_cast<std::size_t>(slice)]);
    nodes.push_back(nodes_[static_cast<std::size_t>(slice)]);
  }
  return model.change(taken_, {slots, cores, nodes});
}

double RunningIndex::left(const Copy& copy) const {
  const double whole = slice_bytes_[static_cast<std::size_t>(copy.slice)];
  return whole > 0.0 ? copy.bytes / whole : 0.0;
}

/// The model's snapshot, slice by slice as they are now.
Snapshot RunningIndex::seen(const analytic::Model& model) const {
  Snapshot result = model.snapshot();
  if (shift_ == 0) return result;
  std::vector<SliceRates> of_slice(result.slices.size());
  for (std::size_t s = 0; s < of_slice.size(); ++s) {
    of_slice[s] = result.slices[static_cast<std::size_t>(slot(static_cast<int>(s)))];
  }
  result.slices = std::move(of_slice);
  return result;
}

Epoch RunningIndex::run(analytic::Model& model, const Interference& interference, int shift,
                        double seconds, double limit_us) {
  if (!began_) refuse("nothing runs: call begin() first");
  if (!(seconds > 0.0) || !std::isfinite(seconds)) {
    refuse("an epoch of " + std::to_string(seconds) + " s: must be above 0 and finite");
  }
  validate(interference, machine_);
  const Progress before = progress();
  const bool shifted = shift != shift_;
  try {
    take(interference, shift);
    if (shifted || unplaced_) place(model);
    unplaced_ = false;
    return advance(model, seconds, limit_us);
  } catch (...) {
    go_back(before);
    throw;
  }
}

/// What was there before an epoch that has failed. Addresses stay.
void RunningIndex::go_back(const Progress& before) {
  std::copy(before.nodes.begin(), before.nodes.end(), nodes_.begin());
  std::copy(before.pending.begin(), before.pending.end(), pending_.begin());
  copies_ = before.copies;
  moved_ = before.moved;
  unsettled_ = before.unsettled;
  shift_ = before.shift;
  unplaced_ = true;
}

Epoch RunningIndex::advance(analytic::Model& model, double seconds, double limit_us) {
  add_cold_lines(seconds);
  std::vector<int> changed = unsettled_;
  changed.insert(changed.end(), moved_.begin(), moved_.end());
  std::size_t arrived = 0;
  const std::vector<Planned> copying = plan(seconds, arrived);
  Epoch epoch;
  const auto within = [&] { return limit_us > 0.0 ? model.share_within(limit_us) : 1.0; };
  Snapshot middle, settled;
  double copied = 0.0, spent = 0.0;
  for (std::size_t number = 0; number < copying.size(); ++number) {
    const Planned& piece = copying[number];
    const auto s = static_cast<std::size_t>(piece.slice);
    const double throughput = change(model, &piece.traffic, std::move(changed));
    epoch.pieces.push_back({piece.seconds, throughput});
    epoch.within += piece.seconds * throughput * within();
    copied += piece.seconds * piece.traffic.rate;
    spent += piece.seconds;
    if (number == copying.size() / 2) middle = seen(model);
    changed.clear();
    if (number < arrived) {
      changed.push_back(piece.slice);
      nodes_[s] = node_of(cores_[s]);
    }
    pending_[s] = number < arrived ? 0.0 : left(copies_[number]);
  }
  const double rest = seconds - spent;
  if (rest > 0.0) {
    const double throughput = change(model, nullptr, changed);
    epoch.pieces.push_back({rest, throughput});
    epoch.within += rest * throughput * within();
    settled = seen(model);
    changed.clear();
  }
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(arrived));
  moved_.clear();
  // What arrived at the very end is in place from the next epoch on.
  unsettled_ = std::move(changed);
  for (const Piece& piece : epoch.pieces) epoch.queries += piece.seconds * piece.throughput;
  epoch.moved_bytes = copied * 1e9;
  epoch.snapshot = mean(copying.empty() ? nullptr : &middle, rest > 0.0 ? &settled : nullptr,
                        epoch.pieces, epoch.queries, seconds);
  return epoch;
}

}  // namespace pmoss::environment
