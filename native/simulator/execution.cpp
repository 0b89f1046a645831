#include "simulator/execution.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
// Queries over which the mean wait beyond the L2 is formed where lines are sampled.
constexpr double mean_over_queries = 512.0;
// A lock that seems to be held for longer than this was given back before the clock wrapped.
constexpr std::uint32_t longest_hold_ns = 1U << 20;

// What counters show of a touch that the core's own L2 did not serve.
void count(recording::Touch touch, const Served& served, bool remote, double mlp,
           SliceCounts& counts) {
  const bool from_memory = served.by == Served::By::memory;
  if (from_memory) {
    // Lines that the processor fetches ahead are no retired loads.
    if (!touch.writes() && !touch.streams()) ++(remote ? counts.remote_loads : counts.local_loads);
    if (touch.writes()) {
      counts.writes_from_remote_memory += remote ? 1 : 0;
    } else {
      ++counts.reads_from_memory;
      counts.reads_from_remote_memory += remote ? 1 : 0;
    }
  }
  if (from_memory || served.by == Served::By::modified_elsewhere) {
    ++(touch.writes() ? counts.writes_missed : counts.reads_missed);
    counts.beyond_domain_ns += (served.ns + served.dram_ns) / mlp;
  } else {
    counts.domain_ns += served.ns / mlp;
  }
}

}  // namespace

Execution::Execution(const Machine& machine, std::shared_ptr<const recording::Trace> trace,
                     Interference interference)
    : machine_(machine),
      nodes_(static_cast<std::size_t>(machine.nodes())),
      trace_(std::move(trace)),
      interference_(std::move(interference)),
      memory_(machine, trace_->line_sampling),
      tlb_(machine, memory_.physical_cores(), trace_->page_sampling),
      translated_(trace_->address_page_of_page) {
  for (std::uint32_t& page : translated_) page /= Tlb::base_pages(machine);
}

void Execution::reset(const PageHomes& homes) {
  home_of_line_.resize(trace_->lines());
  for (std::size_t line = 0; line < trace_->lines(); ++line) {
    home_of_line_[line] = homes.of(trace_->address_page_of_line[line], trace_->slice_of_line[line]);
  }
  memory_.reset(home_of_line_, interference_);
  tlb_.clear();
  const auto cores = static_cast<std::size_t>(machine_.cores());
  mean_.assign(cores, MeanWait{});
  mean_dram_.assign(cores * nodes_, 0.0);
  foreign_.assign(static_cast<std::size_t>(machine_.llc_domains()), 0.0);
}

Execution::Work Execution::begin(std::size_t c, std::uint32_t query_index, double now_ns,
                                 double speed, SliceCounts& counts) {
  const recording::TracedQuery& query = trace_->queries[query_index];
  const std::span<const recording::Touch> touches = trace_->touches_of(query_index);
  MeanWait& mean = mean_[c];
  const std::size_t physical = memory_.physical_of(c);
  const double cpu_ns =
      (query.instructions / machine_.instructions_per_cycle +
       query.branch_misses * machine_.branch_miss_cycles + machine_.query_overhead_cycles) /
      machine_.clock_ghz;
  const double exposure =
      query.dependent / machine_.mlp_dependent + query.streaming / machine_.mlp_streaming;
  const double exact_ns = cpu_ns + exposure * machine_.l2_ns;
  const bool every_line = trace_->line_sampling == 1;
  const bool every_page = trace_->page_sampling == 1;
  const double mean_line_ns = every_line ? 0.0 : mean.per_touch * exposure;
  const auto core_node = static_cast<std::size_t>(machine_.node_of_core[c]);
  const auto now = [now_ns](double ns) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now_ns + ns));
  };

  double line_ns = 0.0, dram_ns = 0.0;  // waits of this query for recorded lines
  std::uint32_t locked[8];
  std::size_t locks = 0, n = 0;
  for (const recording::Touch touch : touches) {
    const std::uint32_t line = touch.line();
    LineState& state = memory_.state(line);
    ++n;
    const double fraction = (static_cast<double>(n) - 0.5) / static_cast<double>(touches.size());
    const double before_ns =
        (exact_ns + mean_line_ns) * fraction + (every_line ? line_ns + dram_ns : 0.0);
    const std::uint32_t held_ns = state.locked_ns - now(before_ns / speed);
    if (held_ns - 1 < longest_hold_ns) line_ns += held_ns * speed + cpu_ns;  // begins again
    const Served served = touch.writes() ? memory_.write(c, line) : memory_.read(c, line);
    if (touch.locks() && locks < std::size(locked)) locked[locks++] = line;
    if (served.by == Served::By::l2 && served.ns == 0.0) continue;
    const double mlp = touch.locks()     ? 1.0
                       : touch.streams() ? machine_.mlp_streaming
                                         : machine_.mlp_dependent;
    line_ns += served.ns / mlp;
    dram_ns += served.dram_ns / mlp;
    count(touch, served, state.home != core_node, mlp, counts);
    if (!every_line && served.by == Served::By::memory && served.dram_ns > 0.0) {
      mean_dram_[c * nodes_ + state.home] +=
          machine_.dram_latency(static_cast<int>(core_node), state.home) / mlp;
    }
  }

  const double page_ns = translate(physical, query_index, counts);
  mean.queries += 1.0;
  if (!every_line) {
    mean.touches += exposure;
    mean.line_ns += line_ns;
  }
  if (!every_page) {
    mean.pages += query.pages;
    mean.page_ns += page_ns;
  }
  const double own =
      exact_ns + trace_->line_sampling * (line_ns + dram_ns) + trace_->page_sampling * page_ns;
  const double charged = exact_ns + (every_line ? line_ns + dram_ns : mean_line_ns) +
                         (every_page ? page_ns : mean.per_page * query.pages);
  const double work = std::max(charged, 1e-3);
  const std::uint32_t until = now(work / speed);
  for (std::size_t i = 0; i < locks; ++i) memory_.state(locked[i]).locked_ns = until;

  counts.instructions += query.instructions;
  counts.branch_misses += query.branch_misses;
  counts.touches += std::uint64_t{query.dependent} + query.streaming;
  return {work, own / work};
}

double Execution::translate(std::size_t physical, std::uint32_t query, SliceCounts& counts) {
  double ns = 0.0;
  for (const std::uint32_t page : trace_->pages_of(query)) {
    const Tlb::Found result = tlb_.touch(physical, translated_[page]);
    if (result == Tlb::Found::first_level) continue;
    ns += result == Tlb::Found::walk ? machine_.page_walk_ns : machine_.tlb_ns;
    counts.walks += result == Tlb::Found::walk ? 1 : 0;
  }
  counts.walk_ns += ns;
  return ns;
}

void Execution::rehome(std::int32_t slice, int node) {
  for (std::size_t line = 0; line < trace_->lines(); ++line) {
    if (trace_->slice_of_line[line] != slice) continue;
    memory_.rehome(static_cast<std::uint32_t>(line), static_cast<std::uint8_t>(node));
  }
}

void Execution::close_epoch(double ns) {
  memory_.contention().close_epoch(ns, line_bytes * trace_->line_sampling);
  for (std::size_t domain = 0; domain < interference_.llc_lines_per_ns.size(); ++domain) {
    foreign_[domain] += interference_.llc_lines_per_ns[domain] * ns / trace_->line_sampling;
    const auto whole = static_cast<std::uint64_t>(foreign_[domain]);
    foreign_[domain] -= static_cast<double>(whole);
    memory_.pollute(domain, whole);
  }
  for (std::size_t core = 0; core < mean_.size(); ++core) {
    if (machine_.is_worker[core] != 0) update_mean(core);
  }
}

void Execution::update_mean(std::size_t c) {
  MeanWait& mean = mean_[c];
  const auto node = static_cast<std::size_t>(machine_.node_of_core[c]);
  double line_ns = mean.line_ns;
  for (std::size_t home = 0; home < nodes_; ++home) {
    line_ns += mean_dram_[c * nodes_ + home] * memory_.contention().multiplier(node, home);
  }
  if (mean.touches > 0.0) mean.per_touch = trace_->line_sampling * line_ns / mean.touches;
  if (mean.pages > 0.0) mean.per_page = trace_->page_sampling * mean.page_ns / mean.pages;
  if (mean.queries <= mean_over_queries) return;
  const double keep = mean_over_queries / mean.queries;
  for (double* sum : {&mean.touches, &mean.pages, &mean.line_ns, &mean.page_ns, &mean.queries}) {
    *sum *= keep;
  }
  for (std::size_t home = 0; home < nodes_; ++home) mean_dram_[c * nodes_ + home] *= keep;
}

}  // namespace pmoss::simulator
