// Batches of random operations at the places of their keys, held against a model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "index/btree.hpp"
#include "workload/random.hpp"

namespace pmoss::testing {

/// Which keys a scan may find besides those of the model.
enum class Others : std::uint8_t { none, of_other_threads };

/// Looks up to 64 keys up together, then inserts, updates, erases and scans there. A key may come
/// several times, so that a place is often out of date. `draw()` gives a key that no other thread
/// writes, and `check(holds, what)` takes the comparisons.
template <class Draw, class Check>
void run_at_places(BTree& tree, std::map<std::uint64_t, std::uint64_t>& model, Random& random,
                   Others others, Draw draw, Check check) {
  constexpr std::size_t max_keys = 64;
  std::array<std::uint64_t, max_keys> keys, values;
  std::array<bool, max_keys> found;
  std::array<BTree::Place, max_keys> places;
  std::array<std::uint64_t, 300> scanned, scanned_values;
  const std::size_t n = random.below(max_keys + 1);
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = i > 0 && random.below(4) == 0 ? keys[random.below(i)] : draw();
  }
  const EpochGuard guard;
  tree.lookup_batch(guard, keys.data(), n, values.data(), found.data(), places.data());
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = model.find(keys[i]);
    check(found[i] == (at != model.end()), "a batch disagrees about a key");
    if (found[i]) check(values[i] == at->second, "a batch gives another value");
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t key = keys[i];
    const std::uint64_t value = random.next();
    const auto at = model.find(key);
    const bool present = at != model.end();
    const std::uint64_t kind = random.below(8);
    if (kind < 3) {
      tree.fetch_to_insert(places[i]);
      check(tree.insert(guard, places[i], key, value) == !present, "an insert at a place");
      model[key] = value;
    } else if (kind < 5) {
      check(tree.update(guard, places[i], key, value) == present, "an update at a place");
      if (present) at->second = value;
    } else if (kind < 6) {
      check(tree.erase(key) == present, "an erase");
      model.erase(key);
    } else {
      const std::size_t limit = random.below(scanned.size() + 1);
      tree.fetch_to_scan(places[i], limit);
      const std::size_t got =
          tree.scan(guard, places[i], key, limit, scanned.data(), scanned_values.data());
      check(got <= limit, "a scan gives too much");
      auto own = model.lower_bound(key);
      for (std::size_t j = 0; j < got; ++j) {
        check(scanned[j] >= (j > 0 ? scanned[j - 1] + 1 : key), "a scan is not ascending");
        if (own != model.end() && scanned[j] == own->first) {
          check(scanned_values[j] == own->second, "a scan gives another value");
          ++own;
        } else {
          check(others == Others::of_other_threads, "a scan finds a key that is not there");
          check(own == model.end() || scanned[j] < own->first, "a scan has missed a key");
        }
      }
      check(got == limit || own == model.end(), "a scan stops before a key that is there");
    }
  }
}

}  // namespace pmoss::testing
