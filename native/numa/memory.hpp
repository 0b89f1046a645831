// Where memory lies: policies for pages to come, moving pages that are there, and asking the
// kernel. By libnuma (memory_calls.cpp); what came of it is asked of the kernel here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "numa/topology.hpp"

namespace pmoss::numa {

/// Where pages go when they are first touched.
struct Placement {
  enum class Kind : std::uint8_t {
    first_touch,  ///< the node of the CPU that touches them: Linux's default
    node,         ///< `node` while it has room, else what the kernel finds nearest
    interleaved,  ///< `nodes` in turn, page by page
  };
  Kind kind = Kind::first_touch;
  int node = 0;            ///< the kernel's number; only of Kind::node
  std::vector<int> nodes;  ///< likewise, of Kind::interleaved: at least one, ascending

  static Placement on(int node) { return {Kind::node, node, {}}; }
  static Placement interleaved(std::vector<int> nodes) {
    return {Kind::interleaved, 0, std::move(nodes)};
  }
  friend bool operator==(const Placement&, const Placement&) = default;
  friend bool operator<(const Placement& a, const Placement& b) {
    return std::tie(a.kind, a.node, a.nodes) < std::tie(b.kind, b.node, b.nodes);
  }
};

/// The nodes with memory that this process may use, ascending. Where the kernel does not say (no
/// NUMA support, or a container that forbids the question), or without libnuma, node 0.
std::vector<int> memory_nodes();

/// Of these nodes with memory, those with CPUs; all of them if none has. Interleaved pages belong
/// there unless a caller wants them elsewhere too: memory without CPUs is slower (CXL, HBM behind
/// it).
std::vector<int> nodes_to_interleave(const Topology& topology, const std::vector<int>& memory);

/// Whether the kernel lets this process place, move and find pages: 0, or the errno of the call
/// that is refused. Asks about one page of its own. ENOTSUP in a build without libnuma.
int refused_placement();

/// For pages of the range that are touched from now on; 0 or the errno. The range must begin at a
/// page. A node that is full does not make the process fail: its pages go elsewhere, and
/// resident_pages() shows it.
int set_placement(void* address, std::size_t bytes, const Placement& placement) noexcept;

/// Which nodes hold a range, by parts of 4 KiB: also where the kernel's pages are larger, as huge
/// ones are, or those of 64 KiB of some Arm kernels.
struct ResidentPages {
  std::map<int, std::uint64_t> on_node;
  std::uint64_t absent = 0;  ///< not touched yet
  int error_number = 0;      ///< the kernel did not answer; then nothing is known

  std::uint64_t on(int node) const;
  std::uint64_t total() const;
  /// Those that lie where the placement wants them; all, if that is where they are touched first.
  std::uint64_t home(const Placement& placement) const;
  ResidentPages& operator+=(const ResidentPages& other);
};

/// The system call move_pages: where pages are, or, with `nodes`, where they are to go. Writes each
/// page's node or minus an errno to `status`. Returns as the kernel does, with errno. Tests have
/// calls of their own.
using PageCall =
    std::function<long(std::size_t count, void** pages, const int* nodes, int* status)>;
PageCall system_page_call();

ResidentPages resident_pages(const void* address, std::size_t bytes, const PageCall& call);
/// The kernel's answer. Of a huge page it is asked about one part, which costs a hundredth.
ResidentPages resident_pages(const void* address, std::size_t bytes);

/// Whether one huge page lies at an address that is a multiple of 2 MiB. False, too, where the
/// kernel does not say (before Linux 6.7).
bool is_huge_page(const void* address) noexcept;

/// What moving pages came to.
struct PageMove {
  std::uint64_t moved = 0;   ///< pages of 4 KiB that lay elsewhere and lie on the node now
  std::uint64_t failed = 0;  ///< that still lie elsewhere
  int error_number = 0;      ///< of the last call or page that failed; 0 if none did

  PageMove& operator+=(const PageMove& other);
};

/// Moves the pages of a range that are there to `node`, in batches, while others read and write
/// them. Pages that the kernel holds for a moment (EBUSY) are tried again, for about a
/// millisecond per huge page. The outcome is what the kernel answers afterwards, not what it was
/// asked to do.
PageMove move_pages(void* address, std::size_t bytes, int node,
                    const PageCall& call = system_page_call());

/// Whether the kernel or a container forbids the call: trying again cannot help.
bool is_refusal(int error_number) noexcept;

/// Why placing or moving fails, and the way out.
std::string explain_memory_error(int error_number);

}  // namespace pmoss::numa
