// Instructions and mispredicted branches of the tree's operations, counted by callgrind: the source
// of the numbers in index/operation_cost.hpp.
//
//   valgrind --tool=callgrind --branch-sim=yes --collect-atstart=no --callgrind-out-file=/dev/null
//       --toggle-collect='run_operations*' operation_cost KIND RECORDS OPERATIONS [SCAN_LENGTH]
//
// KIND is none, lookup, insert, update or scan; `none` runs the loop alone, to be subtracted. The
// program prints per operation what its cost depends on; callgrind prints the sums Ir, Bcm and Bim.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "index/btree.hpp"
#include "workload/keyspace.hpp"

namespace {

using pmoss::BTree;

struct Work {
  std::string kind;
  std::vector<std::uint64_t> keys;  // of the operations
  std::size_t scan_length;
};

/// Keys of records 0 .. records - 1, the tree's, or of later ones, for inserts.
std::uint64_t key_of(std::uint64_t record) { return pmoss::key_of_record(record, 0); }

void load(BTree& tree, std::uint64_t records) {
  std::vector<std::uint64_t> keys(records);
  for (std::uint64_t record = 0; record < records; ++record) keys[record] = key_of(record);
  std::sort(keys.begin(), keys.end());
  tree.bulk_load(keys, keys, 0);
}

template <class Operation>
std::uint64_t for_each_key(const Work& work, Operation operation) {
  std::uint64_t sum = 0;
  for (const std::uint64_t key : work.keys) sum += operation(key);
  return sum;
}

}  // namespace

[[gnu::noinline]] std::uint64_t run_operations(BTree& tree, const Work& work,
                                               std::vector<std::uint64_t>& keys,
                                               std::vector<std::uint64_t>& values) {
  if (work.kind == "lookup") {
    return for_each_key(work, [&](std::uint64_t key) {
      std::uint64_t value = 0;
      return tree.lookup(key, value) ? value : 0;
    });
  }
  if (work.kind == "insert") {
    return for_each_key(work, [&](std::uint64_t key) { return tree.insert(key, key) ? 1u : 0u; });
  }
  if (work.kind == "update") {
    return for_each_key(work, [&](std::uint64_t key) { return tree.update(key, key) ? 1u : 0u; });
  }
  if (work.kind == "scan") {
    return for_each_key(work, [&](std::uint64_t key) {
      return tree.scan(key, work.scan_length, keys.data(), values.data());
    });
  }
  return for_each_key(work, [&](std::uint64_t key) {
    asm volatile("" : "+r"(key));
    return key;
  });
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: operation_cost KIND RECORDS OPERATIONS [SCAN_LENGTH]\n");
    return 2;
  }
  Work work{argv[1], {}, argc > 4 ? std::stoull(argv[4]) : 50};
  const std::uint64_t records = std::stoull(argv[2]);
  const std::uint64_t operations = std::stoull(argv[3]);
  for (std::uint64_t i = 0; i < operations; ++i) {
    const bool fresh = work.kind == "insert";
    work.keys.push_back(key_of(fresh ? records + i : pmoss::scale64(pmoss::mix64(i), records)));
  }
  BTree tree({.slices = 1, .huge_pages = false});
  load(tree, records);
  std::vector<std::uint64_t> keys(work.scan_length), values(work.scan_length);
  const std::uint64_t result = run_operations(tree, work, keys, values);

  // Once more, traced, for the lines that inserts write.
  double lines = 0.0;
  if (work.kind == "insert") {
    BTree again({.slices = 1, .huge_pages = false});
    load(again, records);
    pmoss::TouchLog log;
    for (const std::uint64_t key : work.keys) {
      log.clear();
      again.insert(key, key, log);
      for (const auto entry : log.entries()) lines += entry.writes() ? 1.0 : 0.0;
    }
  }
  std::printf("levels %u, result %.2f, lines written %.2f\n", tree.height(0),
              static_cast<double>(result) / static_cast<double>(operations),
              lines / static_cast<double>(operations));
}
