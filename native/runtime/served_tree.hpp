// What is the same for every index of index/ that the runtime serves.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/served_index.hpp"

namespace pmoss::runtime {

/// `Tree` keeps a SliceMemory or the like for each slice, and `Migration` moves one of its slices.
/// Without one (void), the kernel moves the pages.
template <class Tree, class Migration>
class ServedTree : public ServedIndex {
 public:
  using Memory = std::remove_reference_t<decltype(std::declval<Tree&>().memory(0))>;

  const Tree& tree() const noexcept { return tree_; }

  std::uint32_t slices() const noexcept final { return tree_.slices(); }
  std::uint64_t size() const noexcept final { return tree_.size(); }
  Memory& memory(std::uint32_t slice) final { return tree_.memory(slice); }
  const Memory& memory(std::uint32_t slice) const final { return tree_.memory(slice); }
  void free_spare_memory() final {
    for (std::uint32_t slice = 0; slice < slices(); ++slice) tree_.memory(slice).free_spare();
  }
  bool copies() const noexcept final { return !std::is_void_v<Migration>; }
  std::unique_ptr<SliceMigration> migrate(std::uint32_t slice, const numa::Placement& to) final {
    if constexpr (std::is_void_v<Migration>) {
      throw std::logic_error("this index does not copy slice " + std::to_string(slice));
    } else {
      return std::make_unique<Migration>(tree_, slice, to);
    }
  }
  std::size_t reclaim() final { return tree_.retired().reclaim(); }

 protected:
  ServedTree(const WorkloadSpec& spec, const typename Tree::Options& options)
      : spec_(spec), tree_(options) {}

  WorkloadSpec spec_;
  Tree tree_;
};

}  // namespace pmoss::runtime
