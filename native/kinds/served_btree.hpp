// The B+-tree behind the runtime.
#pragma once

#include "index/btree.hpp"
#include "index/btree_migration.hpp"
#include "index/node.hpp"
#include "kinds/served_keys.hpp"

namespace pmoss::kinds {

class ServedBTree final : public ServedKeys<BTree, BTreeMigration> {
 public:
  using ServedKeys::ServedKeys;

  double bytes_to_load() const noexcept override {
    constexpr double fill = 0.69;  // what inserts in random order leave
    const double leaves =
        static_cast<double>(spec_.records) / (fill * index_detail::leaf_capacity) + tree_.slices();
    // Loading holds the keys besides.
    return 1.01 * leaves * sizeof(index_detail::Node) +
           sizeof(std::uint64_t) * static_cast<double>(spec_.records);
  }
};

}  // namespace pmoss::kinds
