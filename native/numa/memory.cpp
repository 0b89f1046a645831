#include "numa/memory.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace pmoss::numa {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t most_nodes = 1024;
constexpr std::size_t word_bits = 8 * sizeof(unsigned long);

class NodeMask {
 public:
  void add(int node) noexcept {
    const auto bit = static_cast<std::size_t>(node);
    words_[bit / word_bits] |= 1UL << (bit % word_bits);
  }
  bool contains(std::size_t bit) const noexcept {
    return (words_[bit / word_bits] >> (bit % word_bits)) & 1UL;
  }
  unsigned long* words() noexcept { return words_.data(); }
  /// The kernel takes the number of bits plus one.
  static constexpr unsigned long bits = most_nodes + 1;

 private:
  std::array<unsigned long, most_nodes / word_bits + 1> words_{};
};

// Page by page: the node, or minus an errno. A null `nodes` only asks.
int call_move_pages(void** pages, const int* nodes, std::vector<int>& status) noexcept {
  const long answer = ::syscall(SYS_move_pages, 0, status.size(), pages, nodes, status.data(),
                                nodes != nullptr ? MPOL_MF_MOVE : 0);
  // Above 0: some pages did not move; each status says why.
  return answer < 0 ? errno : 0;
}

struct Query {
  std::vector<void*> pages;
  std::vector<int> status;
  int error_number = 0;
};

Query query(const void* address, std::size_t bytes) {
  Query result;
  const auto first = reinterpret_cast<std::uintptr_t>(address) / page_bytes * page_bytes;
  const auto end = reinterpret_cast<std::uintptr_t>(address) + bytes;
  result.pages.resize((end - first + page_bytes - 1) / page_bytes);
  for (std::size_t i = 0; i < result.pages.size(); ++i) {
    result.pages[i] = reinterpret_cast<void*>(first + i * page_bytes);
  }
  result.status.assign(result.pages.size(), -ENOENT);
  result.error_number = call_move_pages(result.pages.data(), nullptr, result.status);
  return result;
}

}  // namespace

std::vector<int> memory_nodes() {
  NodeMask mask;
  std::vector<int> nodes;
  int unused = 0;
  if (::syscall(SYS_get_mempolicy, &unused, mask.words(), NodeMask::bits, nullptr,
                MPOL_F_MEMS_ALLOWED) == 0) {
    for (std::size_t node = 0; node < most_nodes; ++node) {
      if (mask.contains(node)) nodes.push_back(static_cast<int>(node));
    }
  }
  if (nodes.empty()) nodes.push_back(0);
  return nodes;
}

int set_placement(void* address, std::size_t bytes, const Placement& placement) noexcept {
  NodeMask mask;
  int mode = MPOL_DEFAULT;
  switch (placement.kind) {
    case Placement::Kind::first_touch:
      break;
    case Placement::Kind::node:
      if (placement.node < 0 || static_cast<std::size_t>(placement.node) >= most_nodes) {
        return EINVAL;
      }
      // Not MPOL_BIND, under which a full node kills the process.
      mode = MPOL_PREFERRED;
      mask.add(placement.node);
      break;
    case Placement::Kind::interleaved:
      mode = MPOL_INTERLEAVE;
      try {
        for (const int node : memory_nodes()) mask.add(node);
      } catch (const std::bad_alloc&) {
        return ENOMEM;
      }
      break;
  }
  const bool named = mode != MPOL_DEFAULT;
  return ::syscall(SYS_mbind, address, bytes, mode, named ? mask.words() : nullptr,
                   named ? NodeMask::bits : 0UL, 0U) == 0
             ? 0
             : errno;
}

std::uint64_t ResidentPages::on(int node) const {
  const auto at = on_node.find(node);
  return at == on_node.end() ? 0 : at->second;
}

std::uint64_t ResidentPages::total() const {
  std::uint64_t sum = 0;
  for (const auto& [node, pages] : on_node) sum += pages;
  return sum;
}

ResidentPages& ResidentPages::operator+=(const ResidentPages& other) {
  for (const auto& [node, pages] : other.on_node) on_node[node] += pages;
  absent += other.absent;
  if (other.error_number != 0) error_number = other.error_number;
  return *this;
}

ResidentPages resident_pages(const void* address, std::size_t bytes) {
  ResidentPages result;
  const Query answer = query(address, bytes);
  result.error_number = answer.error_number;
  if (answer.error_number != 0) return result;
  for (const int status : answer.status) {
    if (status >= 0) {
      ++result.on_node[status];
    } else {
      ++result.absent;
    }
  }
  return result;
}

PageMove& PageMove::operator+=(const PageMove& other) {
  moved += other.moved;
  failed += other.failed;
  if (other.error_number != 0) error_number = other.error_number;
  return *this;
}

PageMove move_pages(void* address, std::size_t bytes, int node) {
  PageMove result;
  auto* const first = static_cast<std::byte*>(address);
  std::size_t part = 0;
  for (std::size_t done = 0; done < bytes; done += part) {
    // Up to where the next huge page may begin.
    const auto at = reinterpret_cast<std::uintptr_t>(first + done);
    part = std::min(huge_page_bytes - at % huge_page_bytes, bytes - done);
    std::uint64_t elsewhere_before = 0;
    // Of a huge page, moving any part moves all: one page is tried first, the others only if they
    // have stayed. Each call costs the kernel a lengthy set-up, however few the pages.
    for (int attempt = 0;; ++attempt) {
      Query answer = query(first + done, part);
      if (answer.error_number != 0) {
        result.error_number = answer.error_number;
        return result;
      }
      std::vector<void*> pages;
      pages.reserve(answer.pages.size());
      for (std::size_t i = 0; i < answer.pages.size(); ++i) {
        if (answer.status[i] >= 0 && answer.status[i] != node) pages.push_back(answer.pages[i]);
      }
      if (attempt == 0) elsewhere_before = pages.size();
      if (pages.empty() || attempt == 2) {
        result.moved += elsewhere_before - pages.size();
        result.failed += pages.size();
        break;
      }
      const std::size_t tried = attempt == 0 ? 1 : pages.size();
      const std::vector<int> nodes(tried, node);
      std::vector<int> status(tried, 0);
      if (const int error = call_move_pages(pages.data(), nodes.data(), status); error != 0) {
        result.error_number = error;
        result.failed += elsewhere_before;
        break;
      }
      for (const int page : status) {
        if (page < 0) result.error_number = -page;
      }
    }
  }
  if (result.failed == 0) result.error_number = 0;
  return result;
}

std::string explain_memory_error(int error_number) {
  const std::string text = std::strerror(error_number);
  switch (error_number) {
    case 0:
      return "";
    case ENOSYS:
      return "this kernel has no NUMA support (" + text + ")";
    case EPERM:
    case EACCES:
      return "not permitted: a container's seccomp profile forbids it, or the node is outside of "
             "the process's memory set; grant CAP_SYS_NICE or widen cpuset.mems (" +
             text + ")";
    case ENODEV:
    case EINVAL:
      return "the node has no memory or does not exist (" + text + ")";
    case ENOMEM:
      return "the node is full (" + text + ")";
    case EBUSY:
      return "pages were in use by the kernel; moving again may succeed (" + text + ")";
    default:
      return text;
  }
}

}  // namespace pmoss::numa
