#include "machine/machine.hpp"

#include <algorithm>
#include <cmath>
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

void Machine::validate() const {
  const auto n_cores = node_of_core.size();
  const auto n_nodes = socket_of_node.size();
  if (n_cores == 0) refuse("cores", n_cores, "at least 1");
  if (n_nodes == 0) refuse("nodes", n_nodes, "at least 1");
  require_length("llc_of_core", llc_of_core.size(), n_cores);
  require_length("is_worker", is_worker.size(), n_cores);
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
  require_length("dram_ns", dram_ns.size(), n_nodes * n_nodes);
  require_length("dram_gb_per_s", dram_gb_per_s.size(), n_nodes);
  const auto n_sockets = static_cast<std::size_t>(sockets());
  require_length("link_gb_per_s", link_gb_per_s.size(), n_sockets * n_sockets);
  require_positive("clock_ghz", clock_ghz);
  require_positive("instructions_per_cycle", instructions_per_cycle);
  require_positive("mlp_dependent", mlp_dependent);
  require_positive("mlp_streaming", mlp_streaming);
  require_positive("l2_lines", l2_lines);
  require_positive("llc_lines", llc_lines);
  require_positive("llc_ns", llc_ns);
  require_positive("tlb_pages", tlb_pages);
  require_positive("page_bytes", page_bytes);
  require_not_negative("branch_miss_cycles", branch_miss_cycles);
  require_not_negative("llc_victim_share", llc_victim_share);
  require_not_negative("page_walk_ns", page_walk_ns);
  require_not_negative("curve_a", curve_a);
  require_not_negative("curve_b", curve_b);
  if (!(curve_c > 0.0 && curve_c <= 50.0)) refuse("curve_c", curve_c, "above 0 and at most 50");
  for (const double value : dram_ns) require_positive("dram_ns", value);
  for (const double value : dram_gb_per_s) require_positive("dram_gb_per_s", value);
  for (std::size_t i = 0; i < link_gb_per_s.size(); ++i) {
    if (i / n_sockets != i % n_sockets) require_positive("link_gb_per_s", link_gb_per_s[i]);
  }
}

}  // namespace pmoss
