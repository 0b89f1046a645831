// Where memory lies: policies for pages to come, moving pages that are there, and asking the
// kernel. System calls only, no library: they are the same ones that libnuma makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pmoss::numa {

/// Where pages go when they are first touched.
struct Placement {
  enum class Kind : std::uint8_t {
    first_touch,  ///< the node of the CPU that touches them: Linux's default
    node,         ///< `node` while it has room, else what the kernel finds nearest
    interleaved,  ///< all nodes in turn, page by page
  };
  Kind kind = Kind::first_touch;
  int node = 0;  ///< the kernel's number; only of Kind::node

  static Placement on(int node) noexcept { return {Kind::node, node}; }
  static Placement interleaved() noexcept { return {Kind::interleaved, 0}; }
  friend bool operator==(const Placement&, const Placement&) = default;
  friend auto operator<=>(const Placement&, const Placement&) = default;
};

/// The nodes with memory that this process may use, ascending. Where the kernel does not say (no
/// NUMA support, or a container that forbids the question), node 0.
std::vector<int> memory_nodes();

/// For pages of the range that are touched from now on; 0 or the errno. The range must begin at a
/// page. A node that is full does not make the process fail: its pages go elsewhere, and
/// resident_pages() shows it.
int set_placement(void* address, std::size_t bytes, const Placement& placement) noexcept;

/// Which nodes hold a range, by pages of 4 KiB (those of huge pages count one by one).
struct ResidentPages {
  std::map<int, std::uint64_t> on_node;
  std::uint64_t absent = 0;  ///< not touched yet
  int error_number = 0;      ///< the kernel did not answer; then nothing is known

  std::uint64_t on(int node) const;
  std::uint64_t total() const;
  ResidentPages& operator+=(const ResidentPages& other);
};
ResidentPages resident_pages(const void* address, std::size_t bytes);

/// What moving pages came to.
struct PageMove {
  std::uint64_t moved = 0;   ///< pages of 4 KiB that lay elsewhere and lie on the node now
  std::uint64_t failed = 0;  ///< that still lie elsewhere
  int error_number = 0;      ///< of the last call or page that failed; 0 if none did

  PageMove& operator+=(const PageMove& other);
};

/// Moves the pages of a range that are there to `node`, in batches, while others read and write
/// them. The outcome is what the kernel answers afterwards, not what it was asked to do.
PageMove move_pages(void* address, std::size_t bytes, int node);

/// Why placing or moving fails, and the way out.
std::string explain_memory_error(int error_number);

}  // namespace pmoss::numa
