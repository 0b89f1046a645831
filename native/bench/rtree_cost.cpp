// Instructions and mispredicted branches of the R-tree's operations, counted by callgrind: the
// source of the numbers in index/operation_cost.hpp.
//
//   valgrind --tool=callgrind --branch-sim=yes --collect-atstart=no --callgrind-out-file=/dev/null
//       --toggle-collect='run_point_operations*' rtree_cost KIND RECORDS OPERATIONS [POINTS]
//
// KIND is range or insert; POINTS is the workload's max_scan_length. The program prints per
// operation what its cost depends on; callgrind prints the sums Ir, Bcm and Bim.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "index/rtree.hpp"
#include "workload/points.hpp"

namespace {

using pmoss::RTree;

void load(RTree& tree, const pmoss::WorkloadSpec& spec) {
  std::vector<pmoss::Point> points;
  std::vector<std::uint64_t> values;
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    points.push_back(pmoss::point_of_record(spec.space, record));
    values.push_back(record);
  }
  tree.bulk_load(points, values, 0.7);
}

}  // namespace

[[gnu::noinline]] RTree::Work run_point_operations(
    RTree& tree, const std::vector<pmoss::PointOperation>& operations,
    std::vector<std::uint64_t>& values) {
  RTree::Work sum;
  for (const auto& operation : operations) {
    if (operation.kind == pmoss::Operation::Kind::insert) {
      tree.insert({operation.range.x_low, operation.range.y_low}, operation.record);
    } else {
      values.clear();
      const RTree::Work work = tree.find(operation.range, values);
      sum.points += work.points;
      sum.nodes += work.nodes;
      sum.cells += work.cells;
    }
  }
  return sum;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: rtree_cost range|insert RECORDS OPERATIONS [POINTS]\n");
    return 2;
  }
  const bool inserts = std::string(argv[1]) == "insert";
  pmoss::WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.insert = inserts ? 1.0 : 0.0;
  spec.scan = inserts ? 0.0 : 1.0;
  spec.records = std::stoull(argv[2]);
  spec.max_scan_length = argc > 4 ? static_cast<std::uint32_t>(std::stoul(argv[4])) : 10;
  spec.space.kind = pmoss::KeySpace::Kind::clustered;
  pmoss::PointGenerator generator(spec, 0);
  std::vector<pmoss::PointOperation> operations;
  for (std::uint64_t i = std::stoull(argv[3]); i > 0; --i) operations.push_back(generator.next());
  const RTree::Options options = {.grid = {1, 1}, .huge_pages = false};
  RTree tree(options);
  load(tree, spec);
  std::vector<std::uint64_t> values;
  const RTree::Work work = run_point_operations(tree, operations, values);

  // Once more, traced, for the lines that inserts write.
  double lines = 0.0;
  if (inserts) {
    RTree again(options);
    load(again, spec);
    pmoss::TouchLog log;
    for (const auto& operation : operations) {
      log.clear();
      again.insert({operation.range.x_low, operation.range.y_low}, operation.record, log);
      for (const auto entry : log.entries()) lines += entry.writes() ? 1.0 : 0.0;
    }
  }
  const auto n = static_cast<double>(operations.size());
  std::printf("levels %u, cells %.2f, nodes %.2f, points %.2f, lines written %.2f\n",
              tree.height(0), static_cast<double>(work.cells) / n,
              static_cast<double>(work.nodes) / n, static_cast<double>(work.points) / n, lines / n);
}
