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
// Of its time, a core spends no more than this on fetching cold lines.
constexpr double most_cold = 0.9;

Machine completed(Machine machine) {
  machine.complete();
  return machine;
}

double part(double amount, double whole) { return whole > 0.0 ? amount / whole : 0.0; }

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
  return static_cast<std::int32_t>(((slice - asked_.shift) % count + count) % count);
}

void RunningIndex::begin(analytic::Model& model, std::vector<analytic::SliceProfiles> mixes,
                         const Conditions& conditions, std::span<const std::int32_t> cores) {
  if (mixes.empty()) refuse("no profiles: the index needs those of one mix of queries at least");
  for (const analytic::SliceProfiles& profiles : mixes) {
    if (profiles.share.size() != slices()) {
      refuse("profiles of " + std::to_string(profiles.share.size()) + " slices: must be of " +
             std::to_string(slices()));
    }
  }
  check(cores);
  validate(conditions.interference, machine_);
  mixes_.swap(mixes);
  try {
    check(conditions.asked);
    model.offer(conditions.asked.load);
  } catch (...) {
    mixes_.swap(mixes);
    throw;
  }
  began_ = unplaced_ = false;
  taken_ = conditions.interference;
  asked_ = conditions.asked;
  model.set_instance(mixes_[static_cast<std::size_t>(asked_.mix)], taken_);
  start(model, cores);
}

void RunningIndex::begin_again(analytic::Model& model, const Conditions& conditions,
                               std::span<const std::int32_t> cores) {
  if (!began_) refuse("nothing runs that could begin again: call begin() first");
  check(cores);
  check(conditions.asked);
  validate(conditions.interference, machine_);
  model.offer(conditions.asked.load);
  taken_ = conditions.interference;
  const bool other = unplaced_ || conditions.asked.mix != asked_.mix;
  began_ = unplaced_ = false;
  asked_ = conditions.asked;
  if (other) {
    model.set_instance(mixes_[static_cast<std::size_t>(asked_.mix)], taken_);
  } else {
    model.set_co_tenants(taken_);
  }
  start(model, cores);
}

void RunningIndex::check(const Asked& asked) const {
  if (asked.mix < 0 || static_cast<std::size_t>(asked.mix) >= mixes_.size()) {
    refuse("mix " + std::to_string(asked.mix) + ": the index has " + std::to_string(mixes_.size()));
  }
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

/// Lets the model have what is asked from now on.
void RunningIndex::ask(analytic::Model& model, const Asked& asked) {
  const bool other = unplaced_ || asked.mix != asked_.mix;
  if (!other && asked == asked_) return;
  asked_ = asked;
  if (other) model.set_instance(mixes_[static_cast<std::size_t>(asked.mix)], taken_);
  model.offer(asked.load);
  place(model);
  unplaced_ = false;
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
  const std::vector<double>& shares = mixes_[static_cast<std::size_t>(asked_.mix)].share;
  const auto share = [&](std::size_t slice) {
    return shares[static_cast<std::size_t>(slot(static_cast<int>(slice)))];
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

/// Sets the copy that is under way, if any, and where some slices now are; returns the throughput.
double RunningIndex::change(analytic::Model& model, const Copy* copy, std::vector<int> slices) {
  sort_unique(slices);
  std::vector<std::int32_t> slots, cores, nodes;
  for (const int slice : slices) {
    slots.push_back(slot(slice));
    cores.push_back(cores_[static_cast<std::size_t>(slice)]);
    nodes.push_back(nodes_[static_cast<std::size_t>(slice)]);
  }
  if (copy == nullptr) return model.change(taken_, {slots, cores, nodes});
  const auto s = static_cast<std::size_t>(copy->slice);
  const analytic::Copying copying{static_cast<std::size_t>(nodes_[s]),
                                  static_cast<std::size_t>(node_of(cores_[s])), most_gb_per_s_};
  return model.change(taken_, {slots, cores, nodes}, &copying);
}

double RunningIndex::left(const Copy& copy) const {
  const double whole = slice_bytes_[static_cast<std::size_t>(copy.slice)];
  return whole > 0.0 ? copy.bytes / whole : 0.0;
}

/// The model's snapshot, slice by slice as they are now.
Snapshot RunningIndex::observe(const analytic::Model& model) const {
  Snapshot result = model.snapshot();
  if (asked_.shift == 0) return result;
  std::vector<SliceRates> of_slice(result.slices.size());
  for (std::size_t s = 0; s < of_slice.size(); ++s) {
    of_slice[s] = result.slices[static_cast<std::size_t>(slot(static_cast<int>(s)))];
  }
  result.slices = std::move(of_slice);
  return result;
}

Epoch RunningIndex::run(analytic::Model& model, const Conditions& conditions, double seconds,
                        double limit_us) {
  if (!began_) refuse("nothing runs: call begin() first");
  if (!(seconds > 0.0) || !std::isfinite(seconds)) {
    refuse("an epoch of " + std::to_string(seconds) + " s: must be above 0 and finite");
  }
  check(conditions.asked);
  validate(conditions.interference, machine_);
  const Progress before = progress();
  try {
    taken_ = conditions.interference;
    ask(model, conditions.asked);
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
  asked_ = before.asked;
  unplaced_ = true;
}

Epoch RunningIndex::advance(analytic::Model& model, double seconds, double limit_us) {
  add_cold_lines(seconds);
  std::vector<int> changed = unsettled_;
  changed.insert(changed.end(), moved_.begin(), moved_.end());
  Epoch epoch;
  const auto within = [&] { return limit_us > 0.0 ? model.share_within(limit_us) : 1.0; };
  // The middle one is known when all pieces are.
  std::vector<Snapshot> copying;
  Snapshot settled;
  double rest = seconds;
  std::size_t arrived = 0;
  while (arrived < copies_.size() && rest > 0.0) {
    Copy& copy = copies_[arrived];
    const auto s = static_cast<std::size_t>(copy.slice);
    const double throughput = change(model, &copy, std::move(changed));
    const double bytes_per_s = model.copied_gb_per_s() * 1e9;
    const double need = copy.bytes / bytes_per_s;
    const bool arrives = need <= rest;
    const double spent = arrives ? need : rest;
    epoch.pieces.push_back({spent, throughput});
    epoch.within += spent * throughput * within();
    if (copying.size() <= copies_.size() / 2) copying.push_back(observe(model));
    changed.clear();
    rest -= spent;
    const double bytes = arrives ? copy.bytes : std::min(copy.bytes, spent * bytes_per_s);
    epoch.moved_bytes += bytes;
    copy.bytes -= bytes;
    pending_[s] = left(copy);
    if (!arrives) break;
    changed.push_back(copy.slice);
    nodes_[s] = node_of(cores_[s]);
    ++arrived;
  }
  if (rest > 0.0) {
    const double throughput = change(model, nullptr, changed);
    epoch.pieces.push_back({rest, throughput});
    epoch.within += rest * throughput * within();
    settled = observe(model);
    changed.clear();
  }
  const std::size_t moving = epoch.pieces.size() - (rest > 0.0 ? 1 : 0);
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(arrived));
  moved_.clear();
  // What arrived at the very end is in place from the next epoch on.
  unsettled_ = std::move(changed);
  for (const Piece& piece : epoch.pieces) epoch.queries += piece.seconds * piece.throughput;
  epoch.snapshot = mean(moving == 0 ? nullptr : &copying[moving / 2],
                        rest > 0.0 ? &settled : nullptr, epoch.pieces, epoch.queries, seconds);
  return epoch;
}

}  // namespace pmoss::environment
