#include "simulator/scan_paths.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "machine/loaded_latency.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
constexpr double values_per_line = 16.0;
/// Lines that travel as one event where nobody looks at single ones.
constexpr int copy_unit = 8;
constexpr int background_unit = 4;
/// The background alone, before the counters are read and the scan begins.
constexpr double settle_ns = 5'000.0;
constexpr double reading_ns = 10'000.0;
/// Part of a long scan that is simulated line by line; its second half gives the pace of the rest.
constexpr std::uint64_t sampled_lines = 1'024;
constexpr std::uint64_t sampled_blocks = 3;
/// How often the use of a memory is looked at for its loaded latency.
constexpr double memory_epoch_ns = 2'000.0;
/// A background worker's pauses differ from each other by up to this share either way.
constexpr double pace_jitter = 0.5;

void require(bool right, const std::string& message) {
  if (!right) throw std::invalid_argument(message);
}

std::string told(const char* name, double value) {
  return std::string(name) + " is " + std::to_string(value);
}

}  // namespace

ScanPaths::ScanPaths(const Machine& machine, const OffloadParameters& parameters)
    : machine_(machine), parameters_(parameters), nodes_(machine.nodes()) {
  const OffloadParameters& p = parameters_;
  require(p.sockets_per_blade > 0 && nodes_ % p.sockets_per_blade == 0,
          told("sockets_per_blade", p.sockets_per_blade) + "; must divide the number of nodes, " +
              std::to_string(nodes_));
  require(machine.sockets() == nodes_, "blades are modelled with one node per socket");
  require(p.hubs_per_blade > 0 && p.sockets_per_blade % p.hubs_per_blade == 0,
          told("hubs_per_blade", p.hubs_per_blade) + "; must divide sockets_per_blade");
  const std::pair<const char*, double> positive[] = {
      {"socket_link_gb_per_s", p.socket_link_gb_per_s},
      {"hub_link_gb_per_s", p.hub_link_gb_per_s},
      {"engine_line_ns", p.engine_line_ns}};
  for (const auto& [name, value] : positive) {
    require(std::isfinite(value) && value > 0, told(name, value) + "; must be positive");
  }
  const std::pair<const char*, double> not_negative[] = {
      {"line_overhead_bytes", p.line_overhead_bytes},
      {"request_bytes", p.request_bytes},
      {"lookahead_lines", p.lookahead_lines},
      {"cycles_per_value", p.cycles_per_value},
      {"cycles_per_result", p.cycles_per_result},
      {"result_bytes", p.result_bytes},
      {"page_fault_us", p.page_fault_us},
      {"scan_setup_us", p.scan_setup_us},
      {"engine_setup_us", p.engine_setup_us},
      {"block_overhead_us", p.block_overhead_us},
      {"engine_coherence_ns", p.engine_coherence_ns}};
  for (const auto& [name, value] : not_negative) {
    require(std::isfinite(value) && value >= 0, told(name, value) + "; must not be negative");
  }
  const std::pair<const char*, double> lines[] = {{"prefetch_lines", p.prefetch_lines},
                                                  {"prefetch_page_lines", p.prefetch_page_lines},
                                                  {"block_kib", p.block_kib},
                                                  {"engine_lines", p.engine_lines}};
  for (const auto& [name, value] : lines) {
    require(value >= 1 && value <= 1 << 20 && value == std::floor(value),
            told(name, value) + "; must be a whole number from 1 to 2^20");
  }
  require(p.engine_lines >= copy_unit,
          told("engine_lines", p.engine_lines) + "; must be at least " + std::to_string(copy_unit));

  const int blades = nodes_ / p.sockets_per_blade;
  hubs_ = blades * p.hubs_per_blade;
  const std::size_t places = static_cast<std::size_t>(nodes_ + hubs_);
  link_of_.assign(places * places, -1);
  const int side = p.sockets_per_blade;
  for (int a = 0; a < nodes_; ++a) {
    for (int b = 0; b < nodes_; ++b) {
      // A ring on each blade: a square has no diagonals.
      const int apart = std::abs(a - b);
      const bool joined = blade_of(a) == blade_of(b) && a != b && (apart == 1 || apart == side - 1);
      if (joined) {
        add_link(a, b, "socket" + std::to_string(a) + "-socket" + std::to_string(b),
                 p.socket_link_gb_per_s);
      }
    }
    const int hub = hub_of(a);
    const std::string names[] = {"socket" + std::to_string(a), "hub" + std::to_string(hub)};
    add_link(a, nodes_ + hub, names[0] + "-" + names[1], p.socket_link_gb_per_s);
    add_link(nodes_ + hub, a, names[1] + "-" + names[0], p.socket_link_gb_per_s);
  }
  for (int a = 0; a < hubs_; ++a) {
    for (int b = 0; b < hubs_; ++b) {
      if (a != b) {
        add_link(nodes_ + a, nodes_ + b, "hub" + std::to_string(a) + "-hub" + std::to_string(b),
                 p.hub_link_gb_per_s);
      }
    }
  }
  // What the latencies of the machine say of one link.
  const double local = machine_.dram_latency(0, 0);
  hop_ns_ = side > 1 ? machine_.dram_latency(0, 1) - local : 0.0;
  hub_hop_ns_ = blades > 1 ? machine_.dram_latency(0, side) - local - 2 * hop_ns_ : 0.0;
  require(hop_ns_ >= 0 && hub_hop_ns_ >= 0,
          "latencies: the next socket must be farther than the own memory, and another blade "
          "farther than two sockets");
}

int ScanPaths::hub_of(int node) const {
  const int in_blade = node % parameters_.sockets_per_blade;
  const int sockets_per_hub = parameters_.sockets_per_blade / parameters_.hubs_per_blade;
  return blade_of(node) * parameters_.hubs_per_blade + in_blade / sockets_per_hub;
}

std::size_t ScanPaths::add_link(int from, int to, const std::string& name, double gb_per_s) {
  const std::size_t number = link_names_.size();
  link_of_[static_cast<std::size_t>(from * (nodes_ + hubs_) + to)] = static_cast<int>(number);
  link_names_.push_back(name);
  link_gb_per_s_.push_back(gb_per_s);
  return number;
}

std::size_t ScanPaths::link(int from, int to) const {
  return static_cast<std::size_t>(link_of_[static_cast<std::size_t>(from * (nodes_ + hubs_) + to)]);
}

double ScanPaths::latency_ns(int execution_node, int storage_node) const {
  return machine_.dram_latency(execution_node, storage_node);
}

void ScanPaths::add_hop(Route& route, int from, int to, double after_ns) const {
  const std::size_t first_link = static_cast<std::size_t>(nodes_ + hubs_);
  const std::size_t forward = link(from, to);
  const double ns = (line_bytes + parameters_.line_overhead_bytes) / link_gb_per_s_[forward];
  route.push_back({first_link + forward, ns, after_ns, first_link + link(to, from), true});
}

/// The way of a line that a core loads: its memory, then the links to the core.
ScanPaths::Route ScanPaths::load_route(int execution_node, int storage_node) const {
  const auto memory = static_cast<std::size_t>(storage_node);
  Route route{{memory, line_bytes / machine_.dram_gb_per_s[memory], 0.0, memory, false}};
  if (execution_node == storage_node) return route;
  if (blade_of(execution_node) == blade_of(storage_node)) {
    const int side = parameters_.sockets_per_blade;
    const int first = blade_of(storage_node) * side;
    // Round the ring the shorter way; the lower numbers where both are as long.
    const int ahead = (execution_node - storage_node + side) % side;
    const int step = ahead <= side - ahead ? 1 : side - 1;
    for (int at = storage_node; at != execution_node;) {
      const int next = first + (at - first + step) % side;
      add_hop(route, at, next, 0.0);
      at = next;
    }
  } else {
    const int from = nodes_ + hub_of(storage_node), to = nodes_ + hub_of(execution_node);
    add_hop(route, storage_node, from, 0.0);
    add_hop(route, from, to, 0.0);
    add_hop(route, to, execution_node, 0.0);
  }
  // The idle latency of the machine holds as a whole: what the queues do not take of it is spread
  // evenly over the links.
  double rest = latency_ns(execution_node, storage_node) - latency_ns(storage_node, storage_node);
  for (std::size_t i = 1; i < route.size(); ++i) rest -= route[i].ns_per_line;
  for (std::size_t i = 1; i < route.size(); ++i) {
    route[i].after_ns = std::max(0.0, rest) / static_cast<double>(route.size() - 1);
  }
  return route;
}

/// The way of a line that the engine of a hub copies: it always passes the hub, even from a node to
/// itself.
ScanPaths::Route ScanPaths::copy_route(int hub, int storage_node, int target_node,
                                       bool coherent) const {
  const auto memory = static_cast<std::size_t>(storage_node);
  Route route{{memory, line_bytes / machine_.dram_gb_per_s[memory], 0.0, memory, false}};
  const int near = hub_of(storage_node);
  add_hop(route, storage_node, nodes_ + near, hop_ns_);
  if (near != hub) add_hop(route, nodes_ + near, nodes_ + hub, hub_hop_ns_);
  const auto engine = static_cast<std::size_t>(nodes_ + hub);
  const double ns = parameters_.engine_line_ns + (coherent ? parameters_.engine_coherence_ns : 0.0);
  route.push_back({engine, ns, 0.0, engine, false});
  const int far = hub_of(target_node);
  if (far != hub) add_hop(route, nodes_ + hub, nodes_ + far, hub_hop_ns_ / 2);
  add_hop(route, nodes_ + far, target_node, hop_ns_ / 2);
  return route;
}

/// The node that the background exchanges data with: the storage node, or a neighbour of a scan of
/// local data.
int ScanPaths::background_peer(const Scan& scan) const {
  if (scan.storage_node != scan.execution_node) return scan.storage_node;
  const int side = parameters_.sockets_per_blade;
  const int first = blade_of(scan.execution_node) * side;
  return first + (scan.execution_node - first + 1) % side;
}

void ScanPaths::check(const Scan& scan) const {
  for (const int node : {scan.execution_node, scan.storage_node}) {
    require(node >= 0 && node < nodes_,
            told("node", node) + "; the machine has nodes 0 to " + std::to_string(nodes_ - 1));
  }
  require(std::isfinite(scan.rows) && scan.rows >= 0 && scan.rows <= 1e12,
          told("rows", scan.rows) + "; must be from 0 to 10^12");
  require(scan.results >= 0 && scan.results <= scan.rows,
          told("results", scan.results) + "; must be from 0 to rows");
  const std::pair<const char*, std::pair<int, double>> workers[] = {
      {"cpu_workers", {scan.cpu_workers, scan.cpu_worker_gb_per_s}},
      {"engine_workers", {scan.engine_workers, scan.engine_worker_gb_per_s}}};
  for (const auto& [name, asked] : workers) {
    require(asked.first >= 0 && asked.first <= 256,
            told(name, asked.first) + "; must be from 0 to 256");
    require(asked.first == 0 || (std::isfinite(asked.second) && asked.second > 0),
            std::string(name) + ": the GB/s of each must be positive");
  }
}

/// One simulation: the queues, the flows and the events between them.
class ScanPaths::Run {
 public:
  Run(const ScanPaths& paths, std::uint64_t seed)
      : paths_(paths),
        p_(paths.parameters_),
        random_(seed),
        curve_(paths.machine_.dram_curve),
        resources_(static_cast<std::size_t>(paths.nodes_ + paths.hubs_) + paths.link_names_.size()),
        memory_factor_(static_cast<std::size_t>(paths.nodes_), 1.0),
        memory_bytes_(static_cast<std::size_t>(paths.nodes_), 0.0) {
    heap_.reserve(1024);
  }

  void add_background(const Scan& scan) {
    const int here = scan.execution_node, peer = paths_.background_peer(scan);
    for (int w = 0; w < scan.cpu_workers; ++w) {
      const std::size_t flow = add_flow(paths_.load_route(here, peer), background_unit,
                                        p_.prefetch_lines, scan.cpu_worker_gb_per_s);
      flows_[flow].counted = 1;
    }
    const int hub = paths_.hub_of(here);
    for (int w = 0; w < scan.engine_workers; ++w) {
      // To and fro: every second worker copies the other way.
      const bool away = w % 2 == 1;
      const std::size_t flow =
          add_flow(paths_.copy_route(hub, away ? here : peer, away ? peer : here, true), copy_unit,
                   p_.engine_lines, scan.engine_worker_gb_per_s);
      flows_[flow].counted = 2;
    }
    // Starts are scattered over one pause, so that workers are not in step.
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      const auto window = static_cast<int>(flows_[f].window);
      for (int i = 0; i < window; ++i) {
        push(flows_[f].pause_ns * window * random_.uniform(), f, issue_hop, 0);
      }
    }
  }

  /// Runs the background alone and reads the counters.
  void settle(ScanOutcome& outcome) {
    if (flows_.empty()) return;
    run_until(settle_ns);
    const std::array<double, 3> before = moved_;
    run_until(settle_ns + reading_ns);
    outcome.link_traffic_gb_per_s = (moved_[1] - before[1]) / reading_ns;
    outcome.engine_traffic_gb_per_s = (moved_[2] - before[2]) / reading_ns;
    now_ = settle_ns + reading_ns;
    for (Resource& r : resources_) r.payload = r.overhead = 0;
  }

  double load(const Scan& scan, double line_ns) {
    const auto lines = static_cast<std::uint64_t>(std::ceil(scan.rows / values_per_line));
    const std::uint64_t sampled = std::min(lines, sampled_lines);
    const double start = now_;
    const std::size_t flow = add_flow(paths_.load_route(scan.execution_node, scan.storage_node), 1,
                                      p_.prefetch_lines, 0);
    stream_ = {flow, sampled, line_ns, start};
    finish_.assign(sampled, 0.0);
    arrived_.assign(sampled, 0);
    issue_lines();
    while (stream_.consumed < sampled) step();
    return finish_.empty() ? 0.0 : extrapolate(finish_, lines, start);
  }

  double offload(const Scan& scan, double line_ns, bool coherent) {
    const auto lines = static_cast<std::uint64_t>(std::ceil(scan.rows / values_per_line));
    const auto block = static_cast<std::uint64_t>(p_.block_kib * 1024 / line_bytes);
    const std::uint64_t blocks = (lines + block - 1) / block;
    const std::uint64_t sampled = std::min(blocks, sampled_blocks);
    const double start = now_;
    const int hub = paths_.hub_of(scan.execution_node);
    const std::size_t flow =
        add_flow(paths_.copy_route(hub, scan.storage_node, scan.execution_node, coherent),
                 copy_unit, p_.engine_lines, 0);
    copy_flow_ = flow;
    const double overhead_ns = p_.block_overhead_us * 1e3;
    std::vector<double> scanned(sampled, 0.0);
    double core_free = start;
    // Both buffers are empty at first: the copies of two blocks are asked for at once.
    std::uint64_t asked = 0;
    const auto ask = [&](double at) {
      const std::uint64_t left = lines - asked * block;
      copies_.push_back({std::min(left, block), 0, 0, at});
      push(at, flow, start_hop, static_cast<std::uint32_t>(asked));
      ++asked;
    };
    for (int i = 0; i < 2 && asked < sampled; ++i) {
      core_free += overhead_ns;
      ask(core_free);
    }
    for (std::uint64_t b = 0; b < sampled; ++b) {
      while (copies_[b].arrived < copies_[b].lines) step();
      core_free =
          std::max(core_free, copies_[b].done_at) + static_cast<double>(copies_[b].lines) * line_ns;
      scanned[b] = core_free;
      if (asked < sampled) {
        core_free += overhead_ns;
        ask(core_free);
      }
    }
    if (scanned.empty()) return 0.0;
    if (blocks == sampled) return scanned.back() - start;
    // Whole blocks, each as long as the last sampled ones took.
    const std::size_t half = scanned.size() / 2;
    const double pace =
        (scanned.back() - scanned[half - 1]) / static_cast<double>((scanned.size() - half) * block);
    return scanned.back() - start + pace * static_cast<double>(lines - sampled * block);
  }

  double bandwidth(int execution_node, int storage_node, int workers) {
    for (int w = 0; w < workers; ++w) {
      const std::size_t flow = add_flow(paths_.load_route(execution_node, storage_node),
                                        background_unit, p_.prefetch_lines, 0);
      flows_[flow].counted = 1;
      for (int i = 0; i < static_cast<int>(flows_[flow].window); ++i) {
        push(random_.uniform() * 100.0, flow, issue_hop, 0);
      }
    }
    run_until(settle_ns);
    const double before = moved_[1];
    run_until(settle_ns + reading_ns);
    return (moved_[1] - before) / reading_ns;
  }

  void traffic(ScanOutcome& outcome, double elapsed_ns) const {
    const std::size_t first = resources_.size() - paths_.link_names_.size();
    outcome.links.resize(paths_.link_names_.size());
    if (elapsed_ns <= 0) return;
    for (std::size_t i = 0; i < outcome.links.size(); ++i) {
      outcome.links[i] = {resources_[first + i].payload / elapsed_ns,
                          resources_[first + i].overhead / elapsed_ns};
    }
  }

  double now() const noexcept { return now_; }

 private:
  static constexpr std::uint16_t issue_hop = 0xffff;  ///< a worker asks for its next lines
  static constexpr std::uint16_t wake_hop = 0xfffe;   ///< the scanning core may go on asking
  static constexpr std::uint16_t start_hop = 0xfffd;  ///< a block's copy is asked for

  struct Event {
    double at;
    std::uint64_t order;  // of making: ties go to the older one
    std::uint32_t unit;
    std::uint16_t flow, hop;
    bool operator<(const Event& other) const noexcept {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Resource {
    double free_at = 0, payload = 0, overhead = 0;
  };
  struct Flow {
    Route route;
    int unit;         // lines per event
    double window;    // units under way at most
    double pause_ns;  // between two units
    double next_at = 0;
    int counted = 0;  // which counter of the background sees it; 0 for none
  };
  struct Stream {
    std::size_t flow = std::numeric_limits<std::size_t>::max();
    std::uint64_t lines = 0;
    double line_ns = 0;
    double core_free = 0;
    std::uint64_t issued = 0, consumed = 0;
    double under_way = 0;
    bool waking = false;
  };
  struct Copy {
    std::uint64_t lines, issued, arrived;
    double asked_at;
    double done_at = 0;
  };

  std::size_t add_flow(Route route, int unit, double lines_under_way, double gb_per_s) {
    const double window = std::max(1.0, std::floor(lines_under_way / unit));
    const double pause = gb_per_s > 0 ? unit * line_bytes / gb_per_s : 0.0;
    flows_.push_back({std::move(route), unit, window, pause, now_});
    return flows_.size() - 1;
  }

  void push(double at, std::size_t flow, std::uint16_t hop, std::uint32_t unit) {
    heap_.push_back({at, made_++, unit, static_cast<std::uint16_t>(flow), hop});
    std::push_heap(heap_.begin(), heap_.end());
  }

  void run_until(double end) {
    while (!heap_.empty() && heap_.front().at < end) step();
  }

  void step() {
    std::pop_heap(heap_.begin(), heap_.end());
    const Event event = heap_.back();
    heap_.pop_back();
    now_ = event.at;
    if (now_ >= epoch_end_) close_epoch();
    if (event.hop == wake_hop) {
      stream_.waking = false;
      issue_lines();
    } else if (event.hop == start_hop) {
      start_copies();
    } else if (event.hop == issue_hop) {
      send(event.flow, 0, flows_[event.flow].unit);
    } else {
      pass(event);
    }
  }

  /// A unit leaves for its memory; the unit's number carries the lines where they vary.
  void send(std::size_t flow, std::uint32_t unit, int lines) {
    const Flow& f = flows_[flow];
    const std::size_t memory = f.route.front().resource;
    memory_bytes_[memory] += line_bytes * lines;
    // The request takes room on the links the other way round, and no time of its own.
    for (const Hop& hop : f.route) {
      if (!hop.crosses_link) continue;
      Resource& back = resources_[hop.reverse];
      const double bytes = p_.request_bytes * lines;
      const double ns = hop.ns_per_line * bytes / (line_bytes + p_.line_overhead_bytes);
      back.free_at = std::max(back.free_at, now_) + ns;
      back.overhead += bytes;
    }
    const int node = static_cast<int>(memory);
    const double idle = paths_.latency_ns(node, node) - f.route.front().ns_per_line;
    push(now_ + idle * memory_factor_[memory], flow, 0, unit);
  }

  void pass(const Event& event) {
    Flow& f = flows_[event.flow];
    if (event.hop == f.route.size()) {
      arrive(event);
      return;
    }
    const Hop& hop = f.route[event.hop];
    Resource& r = resources_[hop.resource];
    r.free_at = std::max(r.free_at, now_) + hop.ns_per_line * f.unit;
    if (hop.crosses_link) {
      r.payload += line_bytes * f.unit;
      r.overhead += p_.line_overhead_bytes * f.unit;
    }
    push(r.free_at + hop.after_ns, event.flow, static_cast<std::uint16_t>(event.hop + 1),
         event.unit);
  }

  void arrive(const Event& event) {
    Flow& f = flows_[event.flow];
    if (event.flow == stream_.flow) {
      consume(event.unit);
    } else if (event.flow == copy_flow_) {
      copied(event.unit);
    } else {
      moved_[static_cast<std::size_t>(f.counted)] += line_bytes * f.unit;
      double at = now_;
      if (f.pause_ns > 0) {
        at = std::max(now_, f.next_at);
        f.next_at = at + f.pause_ns * (1.0 + pace_jitter * (2.0 * random_.uniform() - 1.0));
      }
      push(at, event.flow, issue_hop, 0);
    }
  }

  /// The core asks for lines while it may: so many under way, and none beyond the page's end
  /// before it comes near it.
  void issue_lines() {
    const auto page = static_cast<std::uint64_t>(p_.prefetch_page_lines);
    const auto ahead = static_cast<std::uint64_t>(p_.lookahead_lines);
    while (stream_.issued < stream_.lines && stream_.under_way < p_.prefetch_lines) {
      const std::uint64_t next = stream_.issued;
      const std::uint64_t page_start = next / page * page;
      if (page_start > 0) {
        // The core must be at this line before it, or its prefetcher, asks for the page.
        const std::uint64_t gate = page_start - std::min(ahead + 1, page_start);
        if (stream_.consumed <= gate) return;
        if (finish_[gate] > now_) {
          if (!stream_.waking) {
            stream_.waking = true;
            push(finish_[gate], stream_.flow, wake_hop, 0);
          }
          return;
        }
      }
      send(stream_.flow, static_cast<std::uint32_t>(next), 1);
      ++stream_.issued;
      ++stream_.under_way;
    }
  }

  void consume(std::uint32_t line) {
    arrived_[line] = 1;
    --stream_.under_way;
    while (stream_.consumed < stream_.lines && arrived_[stream_.consumed] != 0) {
      stream_.core_free = std::max(stream_.core_free, now_) + stream_.line_ns;
      finish_[stream_.consumed++] = stream_.core_free;
    }
    issue_lines();
  }

  /// The engine works on its blocks in the order in which they were asked for.
  void start_copies() {
    const auto lines = static_cast<std::uint64_t>(flows_[copy_flow_].unit);
    while (copying_ < copies_.size() && units_under_way_ < flows_[copy_flow_].window) {
      Copy& copy = copies_[copying_];
      if (copy.asked_at > now_) return;
      send(copy_flow_, static_cast<std::uint32_t>(copying_), static_cast<int>(lines));
      ++units_under_way_;
      copy.issued += lines;
      if (copy.issued >= copy.lines) ++copying_;
    }
  }

  void copied(std::uint32_t number) {
    Copy& copy = copies_[number];
    copy.arrived += static_cast<std::uint64_t>(flows_[copy_flow_].unit);
    if (copy.arrived >= copy.lines) copy.done_at = now_;
    --units_under_way_;
    start_copies();
  }

  void close_epoch() {
    const double ns = now_ - epoch_end_ + memory_epoch_ns;
    for (std::size_t n = 0; n < memory_bytes_.size(); ++n) {
      const double use = memory_bytes_[n] / ns / paths_.machine_.dram_gb_per_s[n];
      // Beyond the bandwidth the queue itself makes lines wait.
      memory_factor_[n] += 0.5 * (curve_.at(std::min(use, 0.95)) - memory_factor_[n]);
      memory_bytes_[n] = 0;
    }
    epoch_end_ = now_ + memory_epoch_ns;
  }

  static double extrapolate(const std::vector<double>& finish, std::uint64_t lines, double start) {
    const std::size_t n = finish.size();
    const double sampled = finish.back() - start;
    if (lines == n) return sampled;
    const std::size_t half = n / 2;
    const double pace = (finish.back() - finish[half - 1]) / static_cast<double>(n - half);
    return sampled + pace * static_cast<double>(lines - n);
  }

  const ScanPaths& paths_;
  const OffloadParameters& p_;
  Random random_;
  LoadedLatency curve_;
  std::vector<Resource> resources_;
  std::vector<Flow> flows_;
  std::vector<Event> heap_;
  std::uint64_t made_ = 0;
  double now_ = 0, epoch_end_ = memory_epoch_ns;
  std::vector<double> memory_factor_, memory_bytes_;
  std::array<double, 3> moved_{};
  Stream stream_;
  std::vector<double> finish_;
  std::vector<std::uint8_t> arrived_;
  std::size_t copy_flow_ = std::numeric_limits<std::size_t>::max();
  std::vector<Copy> copies_;
  std::size_t copying_ = 0;
  double units_under_way_ = 0;
};

ScanOutcome ScanPaths::run(const Scan& scan, AccessPath path, std::uint64_t seed) const {
  check(scan);
  Run simulation(*this, seed);
  ScanOutcome outcome;
  simulation.add_background(scan);
  simulation.settle(outcome);

  // What the core does with a line: compare its values, mispredict the rarer outcome, write.
  const OffloadParameters& p = parameters_;
  const double share = scan.rows > 0 ? scan.results / scan.rows : 0.0;
  const double cycles =
      values_per_line * (p.cycles_per_value + share * p.cycles_per_result +
                         std::min(share, 1.0 - share) * machine_.branch_miss_cycles);
  const double fault_ns =
      values_per_line * share * p.result_bytes / machine_.page_bytes * p.page_fault_us * 1e3;
  const double line_ns = cycles / machine_.clock_ghz + fault_ns;

  const double begun = simulation.now();
  double ns = p.scan_setup_us * 1e3;
  // An empty table moves nothing: nobody sets an engine up for it.
  if (path == AccessPath::cpu) {
    ns += simulation.load(scan, line_ns);
  } else if (scan.rows > 0) {
    ns += p.engine_setup_us * 1e3 + simulation.offload(scan, line_ns, path == AccessPath::offload);
  }
  simulation.traffic(outcome, simulation.now() - begun);
  outcome.run_time_us = ns * 1e-3;
  return outcome;
}

void ScanPaths::run_batch(std::span<const Scan> scans, std::span<const std::uint8_t> paths,
                          std::span<const std::uint64_t> seeds, int threads,
                          std::span<ScanOutcome> outcomes) const {
  require(paths.size() == scans.size() && seeds.size() == scans.size() &&
              outcomes.size() == scans.size(),
          "scans, paths, seeds and outcomes must be as many");
  require(threads >= 1, told("threads", threads) + "; must be at least 1");
  for (std::size_t i = 0; i < scans.size(); ++i) {
    check(scans[i]);
    require(paths[i] <= static_cast<std::uint8_t>(AccessPath::relaxed),
            told("path", paths[i]) + "; must be 0 (cpu), 1 (offload) or 2 (relaxed)");
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < scans.size(); i = next++) {
        outcomes[i] = run(scans[i], static_cast<AccessPath>(paths[i]), seeds[i]);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> team;
    for (int t = 1; t < threads; ++t) team.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

double ScanPaths::bandwidth_gb_per_s(int execution_node, int storage_node, int workers) const {
  Scan scan;
  scan.execution_node = execution_node;
  scan.storage_node = storage_node;
  check(scan);
  require(workers >= 1 && workers <= 256, told("workers", workers) + "; must be from 1 to 256");
  return Run(*this, 0).bandwidth(execution_node, storage_node, workers);
}

}  // namespace pmoss::simulator
