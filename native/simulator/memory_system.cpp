#include "simulator/memory_system.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

namespace pmoss::simulator {
namespace {

std::size_t physical_cores_of(const Machine& machine) {
  std::vector<int> numbers = machine.physical_of_core;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() > Directory::max_cores) {
    throw std::invalid_argument("physical cores = " + std::to_string(numbers.size()) +
                                ": the simulator holds at most " +
                                std::to_string(Directory::max_cores));
  }
  return numbers.size();
}

std::size_t domains_of(const Machine& machine) {
  const auto domains = static_cast<std::size_t>(machine.llc_domains());
  if (domains > Directory::max_domains) {
    throw std::invalid_argument("last-level domains = " + std::to_string(domains) +
                                ": the simulator holds at most " +
                                std::to_string(Directory::max_domains));
  }
  return domains;
}

}  // namespace

void MemorySystem::check(const Machine& machine) {
  physical_cores_of(machine);
  domains_of(machine);
}

MemorySystem::MemorySystem(const Machine& machine, std::uint32_t line_sampling)
    : nodes_(static_cast<std::size_t>(machine.nodes())),
      domains_(domains_of(machine)),
      physical_cores_(physical_cores_of(machine)),
      core_words_(BitSet::words_for(physical_cores_)),
      inclusive_(machine.llc_inclusive),
      l2_ns_(machine.l2_ns),
      home_reader_ns_(machine.modified_home_reader_ns),
      physical_of_(machine.node_of_core.size()),
      node_of_physical_(physical_cores_),
      own_domain_(physical_cores_),
      socket_of_node_(machine.socket_of_node.begin(), machine.socket_of_node.end()),
      socket_of_domain_(domains_),
      domain_of_(physical_cores_ * nodes_),
      l2s_of_(domains_ * nodes_ * core_words_),
      modified_ns_(machine.modified_ns),
      mesh_ns_(physical_cores_, 0.0),
      llc_extra_ns_(physical_cores_, std::max(0.0, machine.llc_ns - machine.l2_ns)),
      l2_(physical_cores_, CacheShape::of(machine.l2_lines / line_sampling, machine.l2_ways)),
      llc_(domains_, CacheShape::of(machine.llc_lines / line_sampling, machine.llc_ways)),
      contention_(machine),
      lines_(physical_cores_, domains_) {
  std::map<int, std::size_t> number_of;
  std::vector<std::size_t> first_thread;  // of each physical core
  for (std::size_t thread = 0; thread < physical_of_.size(); ++thread) {
    const auto [it, is_new] =
        number_of.try_emplace(machine.physical_of_core[thread], number_of.size());
    const std::size_t physical = it->second;
    physical_of_[thread] = physical;
    if (!is_new) continue;
    first_thread.push_back(thread);
    node_of_physical_[physical] = static_cast<std::size_t>(machine.node_of_core[thread]);
    own_domain_[physical] = static_cast<std::size_t>(machine.llc_of_core[thread]);
    socket_of_domain_[own_domain_[physical]] = socket_of_node_[node_of_physical_[physical]];
    for (std::size_t home = 0; home < nodes_; ++home) {
      const auto domain = static_cast<std::size_t>(
          machine.llc_of(static_cast<int>(thread), static_cast<int>(home)));
      domain_of_[physical * nodes_ + home] = domain;
      BitSet(&l2s_of_[(domain * nodes_ + home) * core_words_], core_words_).insert(physical);
    }
  }
  if (!machine.has_mesh()) return;
  for (std::size_t reader = 0; reader < physical_cores_; ++reader) {
    mesh_ns_[reader] = machine.mesh_ns[first_thread[reader]];
    llc_extra_ns_[reader] = std::max(0.0, machine.llc_ns + mesh_ns_[reader] - machine.l2_ns);
    for (const std::size_t owner : first_thread) {
      mesh_modified_ns_.push_back(
          machine.mesh_modified_ns[first_thread[reader] * physical_of_.size() + owner]);
    }
  }
}

void MemorySystem::reset(std::span<const std::uint8_t> home_of_line,
                         const Interference& interference) {
  l2_.clear();
  llc_.clear();
  contention_.reset(interference);
  lines_.reset(home_of_line);
  next_foreign_ = 0;
}

Served MemorySystem::read(std::size_t thread, std::uint32_t line) noexcept {
  return fetch(thread, line, false);
}

Served MemorySystem::write(std::size_t thread, std::uint32_t line) noexcept {
  Served served = fetch(thread, line, true);
  const double others_ns = invalidate_others(physical_of_[thread], line);
  if (others_ns > served.ns + served.dram_ns) {
    served.ns = others_ns;
    served.dram_ns = 0.0;
  }
  LineState& state = lines_.state(line);
  state.modified = static_cast<std::int16_t>(domain_of(physical_of_[thread], state.home));
  state.in_writers_l2 = true;
  return served;
}

void MemorySystem::pollute(std::size_t domain, std::uint64_t lines) noexcept {
  for (; lines > 0; --lines) {
    const std::uint32_t out = llc_.insert(domain, first_foreign + next_foreign_);
    next_foreign_ = (next_foreign_ + 1) % first_foreign;
    left_domain(domain, out);
  }
}

void MemorySystem::rehome(std::uint32_t line, std::uint8_t home) noexcept {
  LineState& state = lines_.state(line);
  const BitSet sharers = lines_.sharers(line), domains = lines_.domains(line);
  sharers.for_each([&](std::size_t core) { l2_.erase(core, line); });
  domains.for_each([&](std::size_t domain) { llc_.erase(domain, line); });
  sharers.clear();
  domains.clear();
  state.modified = LineState::clean;
  state.in_writers_l2 = false;
  state.home = home;
}

Served MemorySystem::fetch(std::size_t thread, std::uint32_t line, bool writes) noexcept {
  const std::size_t physical = physical_of_[thread];
  if (l2_.touch(physical, line)) return {Served::By::l2, 0.0, 0.0};
  LineState& state = lines_.state(line);
  const std::size_t home = state.home;
  const std::size_t domain = domain_of(physical, home);
  const std::size_t node = node_of_physical_[physical];
  Served served{Served::By::domain, llc_extra_ns_[physical], 0.0};
  bool domain_holds = llc_.touch(domain, line);
  if (domain_holds && !inclusive_) {
    llc_.erase(domain, line);
    lines_.domains(line).erase(domain);
  } else if (domain_holds || lines_.sharers(line).meets(l2s_of(domain, home))) {
    // The domain itself or another L2 of it, which must hand over what it has modified.
    if (state.modified == static_cast<std::int16_t>(domain) &&
        (!inclusive_ || state.in_writers_l2)) {
      served.ns = std::max(0.0, handed_over_ns(physical, domain, line) - l2_ns_);
    }
  } else if (state.modified >= 0) {
    const auto owner = static_cast<std::size_t>(state.modified);
    const std::size_t from = socket_of_domain_[owner];
    const std::size_t to = socket_of_node_[node];
    double ns = from_domain_ns(physical, owner);
    if (socket_of_node_[home] == to && from != to) {
      ns += home_reader_ns_ * contention_.link_multiplier(from, to);
    }
    served = {Served::By::modified_elsewhere, std::max(0.0, ns - l2_ns_), 0.0};
    contention_.move(from, to);
    if (!writes) {
      contention_.write(home, from);
      state.modified = LineState::clean;
    }
  } else {
    served = {Served::By::memory, mesh_ns_[physical] - l2_ns_, contention_.dram_ns(node, home)};
    contention_.read(home, socket_of_node_[node]);
  }
  state.in_writers_l2 = false;
  if (inclusive_ && !domain_holds) insert_into_domain(domain, line);
  insert_into_l2(physical, line);
  return served;
}

double MemorySystem::invalidate_others(std::size_t physical, std::uint32_t line) noexcept {
  LineState& state = lines_.state(line);
  const std::size_t home = state.home;
  const std::size_t domain = domain_of(physical, home);
  const BitSet sharers = lines_.sharers(line), domains = lines_.domains(line);
  double slowest = 0.0;
  const auto wait_for = [&](std::size_t holder) {
    const double ns =
        holder == domain ? llc_extra_ns_[physical] : from_domain_ns(physical, holder) - l2_ns_;
    slowest = std::max(slowest, ns);
  };
  sharers.erase(physical);
  sharers.for_each([&](std::size_t other) {
    l2_.erase(other, line);
    wait_for(domain_of(other, home));
  });
  sharers.clear();
  sharers.insert(physical);
  const bool in_own_domain = domains.holds(domain);
  domains.erase(domain);
  domains.for_each([&](std::size_t other) {
    llc_.erase(other, line);
    wait_for(other);
  });
  domains.clear();
  if (!in_own_domain) return slowest;
  if (inclusive_) {
    domains.insert(domain);
  } else {  // evicted by another L2 of the domain
    llc_.erase(domain, line);
  }
  return slowest;
}

double MemorySystem::handed_over_ns(std::size_t physical, std::size_t domain,
                                    std::uint32_t line) noexcept {
  const double mean = modified_ns_[domain * domains_ + domain];
  if (mesh_modified_ns_.empty()) return mean;
  double nearest = std::numeric_limits<double>::infinity();
  const ConstBitSet l2s = l2s_of(domain, lines_.state(line).home);
  lines_.sharers(line).for_each_common(l2s, [&](std::size_t owner) {
    nearest = std::min(nearest, mesh_modified_ns_[physical * physical_cores_ + owner]);
  });
  // An inclusive last level may have the line when no L2 has it any more.
  return mean + (std::isinf(nearest) ? mesh_ns_[physical] : nearest);
}

double MemorySystem::from_domain_ns(std::size_t physical, std::size_t holder) const noexcept {
  return modified_ns_[own_domain_[physical] * domains_ + holder] *
         contention_.link_multiplier(socket_of_domain_[holder],
                                     socket_of_node_[node_of_physical_[physical]]);
}

void MemorySystem::insert_into_l2(std::size_t physical, std::uint32_t line) noexcept {
  const std::uint32_t out = l2_.insert(physical, line);
  lines_.sharers(line).insert(physical);
  if (out == SetAssociativeCache::none) return;
  LineState& state = lines_.state(out);
  const BitSet sharers = lines_.sharers(out);
  sharers.erase(physical);
  if (sharers.empty()) state.in_writers_l2 = false;
  const std::size_t domain = domain_of(physical, state.home);
  if (!inclusive_ && !lines_.domains(out).holds(domain)) insert_into_domain(domain, out);
}

void MemorySystem::insert_into_domain(std::size_t domain, std::uint32_t line) noexcept {
  const std::uint32_t out = llc_.insert(domain, line);
  lines_.domains(line).insert(domain);
  left_domain(domain, out);
}

void MemorySystem::left_domain(std::size_t domain, std::uint32_t line) noexcept {
  if (line >= first_foreign) return;  // also where nothing had to go
  LineState& state = lines_.state(line);
  lines_.domains(line).erase(domain);
  const BitSet sharers = lines_.sharers(line);
  const ConstBitSet l2s = l2s_of(domain, state.home);
  if (inclusive_) {
    sharers.for_each_common(l2s, [&](std::size_t core) {
      l2_.erase(core, line);
      sharers.erase(core);
    });
  } else if (sharers.meets(l2s)) {
    return;
  }
  if (state.modified == static_cast<std::int16_t>(domain)) {
    contention_.write(state.home, socket_of_domain_[domain]);
    state.modified = LineState::clean;
  }
}

}  // namespace pmoss::simulator
