#include "machine/machine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>

namespace pmoss {
namespace {

template <typename T>
[[noreturn]] void refuse(const std::string& field, const T& value, const std::string& right) {
  std::ostringstream text;
  text << field << " = " << value << ": must be " << right;
  throw std::invalid_argument(text.str());
}

void require_positive(const char* field, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) refuse(field, value, "positive and finite");
}

void require_not_negative(const char* field, double value) {
  if (!(value >= 0.0) || !std::isfinite(value)) refuse(field, value, "finite and at least 0");
}

void require_curve(const std::string& field, const LatencyCurve& curve) {
  require_not_negative((field + ".a").c_str(), curve.a);
  require_not_negative((field + ".b").c_str(), curve.b);
  if (!(curve.c > 0.0 && curve.c <= 50.0)) {
    refuse(field + ".c", curve.c, "above 0 and at most 50");
  }
}

void require_length(const char* field, std::size_t length, std::size_t right) {
  if (length != right) {
    refuse(std::string("length of ") + field, length, "exactly " + std::to_string(right));
  }
}

}  // namespace

int Machine::sockets() const {
  return socket_of_node.empty()
             ? 0
             : *std::max_element(socket_of_node.begin(), socket_of_node.end()) + 1;
}

int Machine::llc_domains() const {
  return llc_of_core.empty() ? 0 : *std::max_element(llc_of_core.begin(), llc_of_core.end()) + 1;
}

int Machine::workers() const {
  return static_cast<int>(std::count(is_worker.begin(), is_worker.end(), std::uint8_t{1}));
}

int Machine::llc_of(int core, int memory_node) const {
  const auto c = static_cast<std::size_t>(core);
  const int core_node = node_of_core[c];
  const auto socket = [this](int node) { return socket_of_node[static_cast<std::size_t>(node)]; };
  if (llc_at_home_cluster && core_node != memory_node && socket(core_node) == socket(memory_node)) {
    for (std::size_t other = 0; other < node_of_core.size(); ++other) {
      if (node_of_core[other] == memory_node) return llc_of_core[other];
    }
  }
  return llc_of_core[c];
}

void Machine::complete() {
  if (physical_of_core.empty()) {
    physical_of_core.resize(node_of_core.size());
    std::iota(physical_of_core.begin(), physical_of_core.end(), 0);
  }
  if (dram_write_gb_per_s.empty()) dram_write_gb_per_s = dram_gb_per_s;
  if (next_socket.empty()) {
    for (int from = 0; from < sockets(); ++from) {
      for (int to = 0; to < sockets(); ++to) next_socket.push_back(to);
    }
  }
  if (modified_ns.empty()) {
    check_places();  // they are followed here
    const auto domains = static_cast<std::size_t>(llc_domains());
    modified_ns.assign(domains * domains, llc_ns);
    for (std::size_t a = 0; a < llc_of_core.size(); ++a) {
      for (std::size_t b = 0; b < llc_of_core.size(); ++b) {
        const auto reader = static_cast<std::size_t>(llc_of_core[a]);
        const auto owner = static_cast<std::size_t>(llc_of_core[b]);
        if (reader == owner || dram_ns.size() != socket_of_node.size() * socket_of_node.size()) {
          continue;
        }
        modified_ns[reader * domains + owner] = dram_latency(node_of_core[a], node_of_core[b]);
      }
    }
  }
  check();
}

void Machine::check_places() const {
  require_length("llc_of_core", llc_of_core.size(), node_of_core.size());
  for (const int node : node_of_core) {
    if (node < 0 || node >= nodes()) {
      refuse("node_of_core", node, "between 0 and " + std::to_string(nodes() - 1));
    }
  }
  for (const int domain : llc_of_core) {
    if (domain < 0) refuse("llc_of_core", domain, "0 or more");
  }
}

void Machine::check() const {
  const auto n_cores = node_of_core.size();
  const auto n_nodes = socket_of_node.size();
  if (n_cores == 0) refuse("cores", n_cores, "at least 1");
  if (n_nodes == 0) refuse("nodes", n_nodes, "at least 1");
  require_length("llc_of_core", llc_of_core.size(), n_cores);
  require_length("is_worker", is_worker.size(), n_cores);
  require_length("physical_of_core", physical_of_core.size(), n_cores);
  if (workers() == 0) refuse("workers", 0, "at least 1");
  for (const int node : node_of_core) {
    if (node < 0 || node >= nodes()) {
      refuse("node_of_core", node, "between 0 and " + std::to_string(nodes() - 1));
    }
  }
  for (const int socket : socket_of_node) {
    if (socket < 0) refuse("socket_of_node", socket, "0 or more");
  }
  for (const int domain : llc_of_core) {
    if (domain < 0) refuse("llc_of_core", domain, "0 or more");
  }
  for (const int physical : physical_of_core) {
    if (physical < 0) refuse("physical_of_core", physical, "0 or more");
  }
  const auto n_sockets = static_cast<std::size_t>(sockets());
  const auto n_domains = static_cast<std::size_t>(llc_domains());
  require_length("modified_ns", modified_ns.size(), n_domains * n_domains);
  require_length("dram_ns", dram_ns.size(), n_nodes * n_nodes);
  require_length("dram_gb_per_s", dram_gb_per_s.size(), n_nodes);
  require_length("dram_write_gb_per_s", dram_write_gb_per_s.size(), n_nodes);
  require_length("link_gb_per_s", link_gb_per_s.size(), n_sockets * n_sockets);
  require_length("next_socket", next_socket.size(), n_sockets * n_sockets);
  require_positive("clock_ghz", clock_ghz);
  require_positive("instructions_per_cycle", instructions_per_cycle);
  require_positive("mlp_dependent", mlp_dependent);
  require_positive("mlp_streaming", mlp_streaming);
  require_positive("smt_share", smt_share);
  require_positive("l2_lines", l2_lines);
  require_positive("l2_ways", l2_ways);
  require_positive("llc_lines", llc_lines);
  require_positive("llc_ways", llc_ways);
  require_positive("llc_ns", llc_ns);
  require_positive("tlb_pages", tlb_pages);
  require_positive("page_bytes", page_bytes);
  require_positive("routers", routers);
  require_not_negative("branch_miss_cycles", branch_miss_cycles);
  require_not_negative("query_overhead_cycles", query_overhead_cycles);
  require_not_negative("l2_ns", l2_ns);
  require_not_negative("modified_home_reader_ns", modified_home_reader_ns);
  require_not_negative("dtlb_pages", dtlb_pages);
  require_not_negative("tlb_ns", tlb_ns);
  require_not_negative("page_walk_ns", page_walk_ns);
  require_not_negative("dispatch_ns", dispatch_ns);
  require_curve("dram_curve", dram_curve);
  require_curve("link_curve", link_curve);
  for (const double value : modified_ns) require_not_negative("modified_ns", value);
  for (const double value : dram_ns) require_positive("dram_ns", value);
  for (const double value : dram_gb_per_s) require_positive("dram_gb_per_s", value);
  for (const double value : dram_write_gb_per_s) require_positive("dram_write_gb_per_s", value);
  for (std::size_t i = 0; i < link_gb_per_s.size(); ++i) {
    if (i / n_sockets != i % n_sockets) require_not_negative("link_gb_per_s", link_gb_per_s[i]);
  }
  for (std::size_t from = 0; from < n_sockets; ++from) {
    for (std::size_t to = 0; to < n_sockets; ++to) check_route(from, to);
  }
  if (has_mesh()) check_mesh();
}

void Machine::check_mesh() const {
  const std::size_t n = node_of_core.size();
  require_length("mesh_ns", mesh_ns.size(), n);
  require_length("mesh_modified_ns", mesh_modified_ns.size(), n * n);
  if (llc_at_home_cluster) refuse("llc_at_home_cluster", 1, "0 on a machine with a mesh");
  const auto domains = static_cast<std::size_t>(llc_domains());
  for (std::size_t reader = 0; reader < n; ++reader) {
    require_positive("llc_ns and mesh_ns", llc_ns + mesh_ns[reader]);
    const auto domain = static_cast<std::size_t>(llc_of_core[reader]);
    const double mean = modified_ns[domain * domains + domain];
    for (std::size_t owner = 0; owner < n; ++owner) {
      require_positive("modified_ns and mesh_modified_ns",
                       mean + mesh_modified_ns[reader * n + owner]);
    }
  }
}

void Machine::check_route(std::size_t from, std::size_t to) const {
  const auto n = static_cast<std::size_t>(sockets());
  std::size_t at = from;
  for (std::size_t hops = 0; at != to; ++hops) {
    const int next = next_socket[at * n + to];
    if (next < 0 || static_cast<std::size_t>(next) >= n || hops == n) {
      refuse("next_socket", next,
             "a socket on the way from " + std::to_string(from) + " to " + std::to_string(to));
    }
    const double bandwidth = link_gb_per_s[at * n + static_cast<std::size_t>(next)];
    if (static_cast<std::size_t>(next) == at || !(bandwidth > 0.0)) {
      refuse("link_gb_per_s", bandwidth,
             "positive from socket " + std::to_string(at) + " to " + std::to_string(next) +
                 ", which the way to " + std::to_string(to) + " takes");
    }
    at = static_cast<std::size_t>(next);
  }
}

}  // namespace pmoss
