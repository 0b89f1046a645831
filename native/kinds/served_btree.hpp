// The B+-tree behind the runtime.
#pragma once

#include "index/btree.hpp"
#include "index/btree_migration.hpp"
#include "index/node.hpp"
#include "kinds/served_keys.hpp"

namespace pmoss::kinds {

/// About what loading a BTree takes.
inline double bytes_of_loaded_tree(double records, std::uint32_t slices) noexcept {
  constexpr double fill = 0.69;  // what inserts in random order leave
  const double leaves = records / (fill * index_detail::leaf_capacity) + slices;
  // Loading holds the keys besides.
  return 1.01 * leaves * sizeof(index_detail::Node) + sizeof(std::uint64_t) * records;
}

class ServedBTree final : public ServedKeys<BTree, BTreeMigration> {
 public:
  using ServedKeys::ServedKeys;

  double bytes_to_load() const noexcept override {
    return bytes_of_loaded_tree(static_cast<double>(spec_.records), tree_.slices());
  }
};

}  // namespace pmoss::kinds
