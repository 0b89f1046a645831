#include "numa/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace pmoss::numa {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// 0 or the errno. Above 0 the kernel says that pages did not move; each status says why, or keeps
/// what it was.
int call_for(const PageCall& call, std::vector<void*>& pages, const int* nodes,
             std::vector<int>& status) {
  return call(status.size(), pages.data(), nodes, status.data()) < 0 ? errno : 0;
}

struct Query {
  std::vector<void*> pages;
  std::vector<int> status;
  int error_number = 0;
};

Query query(const void* address, std::size_t bytes, const PageCall& call) {
  Query result;
  const auto first = reinterpret_cast<std::uintptr_t>(address) / page_bytes * page_bytes;
  const auto end = reinterpret_cast<std::uintptr_t>(address) + bytes;
  result.pages.resize((end - first + page_bytes - 1) / page_bytes);
  for (std::size_t i = 0; i < result.pages.size(); ++i) {
    result.pages[i] = reinterpret_cast<void*>(first + i * page_bytes);
  }
  result.status.assign(result.pages.size(), -ENOENT);
  result.error_number = call_for(call, result.pages, nullptr, result.status);
  return result;
}

bool may_pass(int error_number) noexcept { return error_number == EBUSY || error_number == EAGAIN; }

/// Moves one part of a range, which lies within one huge page.
class PartMove {
 public:
  PartMove(std::byte* first, std::size_t bytes, int node, const PageCall& call)
      : first_(first), bytes_(bytes), node_(node), call_(call) {}

  PageMove run() {
    std::size_t elsewhere = find_elsewhere();
    const std::size_t at_first = elsewhere;
    // Of a huge page, moving any part moves all: one page is tried first, the others only if they
    // have stayed. Each call costs the kernel a lengthy set-up, however few the pages.
    for (const std::size_t limit : {std::size_t{1}, bytes_}) {
      if (elsewhere == 0 || error_ != 0) break;
      move(std::min(limit, elsewhere));
      elsewhere = find_elsewhere();
    }
    for (int attempt = 0; attempt < retries; ++attempt) {
      if (elsewhere == 0 || error_ != 0 || !may_pass(page_error_)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(200) * (1 << attempt));
      move(elsewhere);
      elsewhere = find_elsewhere();
    }
    PageMove result;
    // Others may have touched pages meanwhile, so that more lie elsewhere than at first.
    result.moved = at_first - std::min(at_first, elsewhere);
    result.failed = elsewhere;
    if (elsewhere > 0 || error_ != 0) result.error_number = error_ != 0 ? error_ : page_error_;
    return result;
  }

 private:
  static constexpr int retries = 3;

  /// The number of pages that lie elsewhere; as before if the kernel does not say.
  std::size_t find_elsewhere() {
    const Query answer = query(first_, bytes_, call_);
    if (answer.error_number != 0) {
      error_ = answer.error_number;
      return elsewhere_.size();
    }
    elsewhere_.clear();
    for (std::size_t i = 0; i < answer.pages.size(); ++i) {
      if (answer.status[i] >= 0 && answer.status[i] != node_) elsewhere_.push_back(answer.pages[i]);
    }
    return elsewhere_.size();
  }

  void move(std::size_t count) {
    const std::vector<int> nodes(count, node_);
    // Kernels from 5.7 on return the number of pages that did not move and leave their status.
    std::vector<int> status(count, -EBUSY);
    error_ = call_for(call_, elsewhere_, nodes.data(), status);
    for (const int page : status) {
      if (page < 0) page_error_ = -page;
    }
    // A whole call that fails for want of room or time is as if each page had.
    if (error_ == ENOMEM || may_pass(error_)) page_error_ = std::exchange(error_, 0);
  }

  std::byte* first_;
  std::size_t bytes_;
  int node_;
  const PageCall& call_;
  std::vector<void*> elsewhere_;
  int error_ = 0;       // of the last call as a whole
  int page_error_ = 0;  // of the last page that did not move
};

}  // namespace

std::vector<int> nodes_to_interleave(const Topology& topology, const std::vector<int>& memory) {
  std::vector<int> nodes;
  for (const Node& node : topology.nodes) {
    const bool has_memory = std::find(memory.begin(), memory.end(), node.id) != memory.end();
    if (has_memory && !node.cpus.empty()) nodes.push_back(node.id);
  }
  return nodes.empty() ? memory : nodes;
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

std::uint64_t ResidentPages::home(const Placement& placement) const {
  switch (placement.kind) {
    case Placement::Kind::first_touch:
      return total();
    case Placement::Kind::node:
      return on(placement.node);
    case Placement::Kind::interleaved:
      break;
  }
  std::uint64_t sum = 0;
  for (const int node : placement.nodes) sum += on(node);
  return sum;
}

ResidentPages& ResidentPages::operator+=(const ResidentPages& other) {
  for (const auto& [node, pages] : other.on_node) on_node[node] += pages;
  absent += other.absent;
  if (other.error_number != 0) error_number = other.error_number;
  return *this;
}

ResidentPages resident_pages(const void* address, std::size_t bytes, const PageCall& call) {
  ResidentPages result;
  const Query answer = query(address, bytes, call);
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

ResidentPages resident_pages(const void* address, std::size_t bytes) {
  ResidentPages result;
  const PageCall call = system_page_call();
  const auto* const first = static_cast<const std::byte*>(address);
  std::size_t part = 0;
  for (std::size_t done = 0; done < bytes; done += part) {
    const auto at = reinterpret_cast<std::uintptr_t>(first + done);
    part = std::min(huge_page_bytes - at % huge_page_bytes, bytes - done);
    if (part == huge_page_bytes && is_huge_page(first + done)) {
      ResidentPages huge_page = resident_pages(first + done, page_bytes, call);
      for (auto& [node, pages] : huge_page.on_node) pages *= huge_page_bytes / page_bytes;
      huge_page.absent *= huge_page_bytes / page_bytes;
      result += huge_page;
    } else {
      result += resident_pages(first + done, part, call);
    }
    if (is_refusal(result.error_number)) break;
  }
  return result;
}

PageMove& PageMove::operator+=(const PageMove& other) {
  moved += other.moved;
  failed += other.failed;
  if (other.error_number != 0) error_number = other.error_number;
  return *this;
}

PageMove move_pages(void* address, std::size_t bytes, int node, const PageCall& call) {
  PageMove result;
  auto* const first = static_cast<std::byte*>(address);
  std::size_t part = 0;
  for (std::size_t done = 0; done < bytes; done += part) {
    // Up to where the next huge page may begin.
    const auto at = reinterpret_cast<std::uintptr_t>(first + done);
    part = std::min(huge_page_bytes - at % huge_page_bytes, bytes - done);
    result += PartMove(first + done, part, node, call).run();
    if (is_refusal(result.error_number)) break;
  }
  return result;
}

bool is_refusal(int error_number) noexcept {
  return error_number == EPERM || error_number == ENOSYS || error_number == ENOTSUP;
}

std::string explain_memory_error(int error_number) {
  const std::string text = std::strerror(error_number);
  switch (error_number) {
    case 0:
      return "";
    case ENOSYS:
      return "this kernel has no NUMA support, or a sandbox hides it: run on the host itself (" +
             text + ")";
    case ENOTSUP:
      return "this build has no libnuma: install libnuma-dev (Debian, Ubuntu) or numactl-devel "
             "(Fedora, RHEL), and build it again (" +
             text + ")";
    case EPERM:
      return "not permitted: a container's seccomp profile forbids it, or the node is outside of "
             "the process's memory set; allow mbind, move_pages and get_mempolicy in the profile "
             "or grant CAP_SYS_NICE, or widen cpuset.mems (" +
             text + ")";
    case EACCES:
      return "the node is outside of the process's memory set, or a forked process shares the "
             "pages; widen cpuset.mems, or end that process (" +
             text + ")";
    case ENODEV:
    case EINVAL:
      return "the node has no memory or does not exist (" + text + ")";
    case ENOMEM:
      return "the node is full (" + text + ")";
    case EBUSY:
      return "pages were in use by the kernel; moving again may succeed (" + text + ")";
    case EMLINK:
      return "they hold records of other slices as well, or have come since they were moved (" +
             text + ")";
    default:
      return text;
  }
}

}  // namespace pmoss::numa
