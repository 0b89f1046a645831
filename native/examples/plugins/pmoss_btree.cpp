// The B+-tree of this project behind the header for users' libraries: what that way costs is
// measured with it, and recordings of libraries are compared with the tree's own. Built by the
// target pmoss_btree_plugin.
#include <pmoss/index.h>

#include <exception>
#include <optional>

#include "index/btree.hpp"
#include "workload/keyspace.hpp"

struct pmoss_index {
  explicit pmoss_index(const pmoss::BTree::Options& options) : tree(options) {}

  pmoss::BTree tree;
};

namespace {

/// One guard for all operations of a thread. No node is ever unlinked here, so nothing waits for it
/// to end.
thread_local std::optional<pmoss::EpochGuard> guard_of_thread;
/// The same from attach_thread() on, reached without a call. Lookups whose data come from memory
/// overlap as far as they fit together into the processor's windows of instructions and of stores.
constinit thread_local const pmoss::EpochGuard* guard [[gnu::tls_model("initial-exec")]] = nullptr;

/// Runs what may find no memory, or refuse. An exception must not leave the library.
template <class Operation>
int told_of(Operation operation) {
  try {
    return operation() ? 1 : 0;
  } catch (const std::exception&) {
    return -1;
  }
}

pmoss_index* open(const pmoss_index_options* options) {
  try {
    return new pmoss_index({.slices = options->slices});
  } catch (const std::exception&) {
    return nullptr;
  }
}

void close(pmoss_index* index) { delete index; }

int load(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
         std::size_t count) {
  return told_of([&] { return index->tree.insert_batch(keys, values, count) <= count; });
}

int load_sorted(pmoss_index* index, std::uint64_t first, std::uint64_t last,
                const std::uint64_t* keys, const std::uint64_t* values, std::size_t count) {
  return told_of([&] {
    const std::uint32_t slices = index->tree.slices();
    index->tree.bulk_load(pmoss::slice_of_key(first, slices), pmoss::slice_of_key(last, slices) + 1,
                          {keys, count}, {values, count}, 0);
    return true;
  });
}

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  return index->tree.count(*guard, key, *value);
}

int insert(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  return told_of([&] { return index->tree.insert(*guard, key, value); });
}

int update(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  return index->tree.update_count(*guard, key, value);
}

int erase(pmoss_index* index, std::uint64_t key) { return index->tree.erase(key) ? 1 : 0; }

std::int64_t scan(pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                  std::uint64_t* values) {
  return static_cast<std::int64_t>(index->tree.scan(*guard, first, limit, keys, values));
}

std::uint64_t size(pmoss_index* index) { return index->tree.size(); }

int lookup_batch(pmoss_index* index, const std::uint64_t* keys, std::size_t count,
                 std::uint64_t* values, std::uint8_t* found) {
  static_assert(sizeof(bool) == 1);
  index->tree.lookup_batch(keys, count, values, reinterpret_cast<bool*>(found));
  return 1;
}

int attach_thread(pmoss_index*) {
  guard = &guard_of_thread.emplace();
  return 1;
}

void detach_thread(pmoss_index*) {
  guard_of_thread.reset();
  guard = nullptr;
}

int visit_memory(pmoss_index* index, std::uint64_t first, std::uint64_t last, pmoss_visit visit,
                 void* context) {
  const std::uint32_t end = pmoss::slice_of_key(last, index->tree.slices());
  for (std::uint32_t slice = pmoss::slice_of_key(first, index->tree.slices()); slice <= end;
       ++slice) {
    for (const pmoss::ChunkView chunk : index->tree.arena(slice).chunks()) {
      visit(context, reinterpret_cast<const void*>(chunk.address), chunk.bytes);
    }
  }
  return 1;
}

/// Of the nodes that are there. Before that, of nodes as full as many inserts leave them.
double bytes_per_record(pmoss_index* index) {
  using namespace pmoss::index_detail;
  const auto records = static_cast<double>(index->tree.size());
  if (records == 0.0) return 1.02 * sizeof(Node) / (0.69 * leaf_capacity);
  std::size_t bytes = 0;
  for (std::uint32_t slice = 0; slice < index->tree.slices(); ++slice) {
    bytes += index->tree.arena(slice).bytes_used();
  }
  return static_cast<double>(bytes) / records;
}

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "the B+-tree of pmoss",
      .open = open,
      .close = close,
      .load = load,
      .lookup = lookup,
      .insert = insert,
      .update = update,
      .scan = scan,
      .size = size,
      .lookup_batch = lookup_batch,
      .visit_memory = visit_memory,
      .attach_thread = attach_thread,
      .detach_thread = detach_thread,
      .bytes_per_record = bytes_per_record,
      .load_sorted = load_sorted,
      .erase = erase,
  };
  return &api;
}
