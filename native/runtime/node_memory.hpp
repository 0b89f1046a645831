// Memory of one thread, on the node of its CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "numa/memory.hpp"

namespace pmoss::runtime {

/// Fresh pages for one thread. What malloc hands out may have been touched by a thread of another
/// node that has ended: glibc gives its arenas to new threads.
///
/// Example: worker 3 runs on node 1. Its queues and its counts come from here, so that they lie on
/// node 1 in the first measurement and in every later one.
///
/// Nothing is freed before the resource dies. Used by one thread; others may use what it has handed
/// out.
class NodeMemory final : public std::pmr::memory_resource {
 public:
  /// `node`: where pages are placed. If the kernel refuses that, they lie where they are touched
  /// first, which is the node of the thread's CPU.
  explicit NodeMemory(int node) noexcept : node_(node) {}
  ~NodeMemory() override;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int node() const noexcept { return node_; }
  /// Where the kernel says that all of it lies.
  numa::ResidentPages resident_pages() const;

 private:
  struct Block {
    std::byte* begin;
    std::size_t bytes;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  int node_;
  std::vector<Block> blocks_;
  std::size_t used_in_last_ = 0;
};

/// Ends what lies in a NodeMemory, whose memory is not freed one by one.
struct EndInPlace {
  template <typename T>
  void operator()(T* object) const noexcept {
    std::destroy_at(object);
  }
};
template <typename T>
using InNodeMemory = std::unique_ptr<T, EndInPlace>;

template <typename T, typename... Arguments>
InNodeMemory<T> make_in(std::pmr::memory_resource& memory, Arguments&&... arguments) {
  void* const at = memory.allocate(sizeof(T), alignof(T));
  return InNodeMemory<T>(::new (at) T(std::forward<Arguments>(arguments)...));
}

}  // namespace pmoss::runtime
