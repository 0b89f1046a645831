// Range queries and inserts on the R-tree beside Boost.Geometry's, in one process and in
// alternating rounds.
//
//   rtree_bench [POINTS] [ROUNDS] [QUERIES] [JSON]
//
// Uniform points; squares around points with 100 points in them on average, whose values are copied
// out. Squares are asked one at a time or, as the runtime's workers do, in batches. Both trees are
// packed to the full, fanout 50, and hold the same integers. Rates are per second of the thread's
// CPU time, ratios are taken within a round, values are median [min..max] over the rounds. Inserts
// are of as many points again as there are queries, into trees that keep growing; then the ranges
// are asked once more.
#include <algorithm>
#include <boost/geometry.hpp>
#include <boost/geometry/index/rtree.hpp>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "index/rtree.hpp"
#include "workload/points.hpp"

namespace {

namespace bg = boost::geometry;
using PeerPoint = bg::model::point<std::int64_t, 2, bg::cs::cartesian>;
using PeerBox = bg::model::box<PeerPoint>;
using PeerValue = std::pair<PeerPoint, std::uint64_t>;
using Peer = bg::index::rtree<PeerValue, bg::index::rstar<50, 20>>;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

PeerPoint peer_point(std::uint32_t x, std::uint32_t y) { return {x, y}; }

template <class Operation>
double rate(std::size_t n, Operation operation) {
  const double start = cpu_seconds();
  operation();
  return static_cast<double>(n) / (cpu_seconds() - start);
}

struct Rates {
  std::vector<double> own, batched, peer, ratio, batched_ratio;

  void add(double own_rate, double peer_rate) {
    own.push_back(own_rate);
    peer.push_back(peer_rate);
    ratio.push_back(own_rate / peer_rate);
  }
  void add(double own_rate, double batched_rate, double peer_rate) {
    add(own_rate, peer_rate);
    batched.push_back(batched_rate);
    batched_ratio.push_back(batched_rate / peer_rate);
  }
};

/// Prints a row, and adds it to the members of a JSON object.
void print(const char* name, std::vector<double> values, std::string& json) {
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  std::printf("%-28s %10.2f [%.2f..%.2f]\n", name, median, values.front(), values.back());
  std::ostringstream out;
  out << (json.empty() ? "" : ",") << "\n  \"" << name << "\": {\"median\": " << median
      << ", \"min\": " << values.front() << ", \"max\": " << values.back() << "}";
  json += out.str();
}

/// The ranges of a round on both trees; points found per range.
double ask(const pmoss::WorkloadSpec& spec, int round, std::size_t queries, pmoss::RTree& tree,
           Peer& peer, Rates& rates) {
  pmoss::PointGenerator generator(spec, static_cast<std::uint64_t>(round));
  std::vector<pmoss::Rectangle> squares;
  for (std::size_t i = 0; i < queries; ++i) squares.push_back(generator.next().range);
  std::vector<std::uint64_t> result;
  std::uint64_t own_points = 0;
  const double own = rate(queries, [&] {
    for (const auto& square : squares) {
      result.clear();
      own_points += tree.find(square, result).points;
    }
  });
  // In parts whose values stay in the cache, as the runtime's workers do.
  constexpr std::size_t part = pmoss::RTree::together;
  std::uint64_t batched_points = 0;
  const double batched = rate(queries, [&] {
    for (std::size_t i = 0; i < queries; i += part) {
      std::size_t ends[part];
      result.clear();
      tree.find_batch({&squares[i], std::min(part, queries - i)}, result, ends);
      batched_points += result.size();
    }
  });
  std::vector<PeerValue> peer_result;
  std::uint64_t peer_points = 0;
  const double other = rate(queries, [&] {
    for (const auto& square : squares) {
      peer_result.clear();
      const PeerBox box(peer_point(square.x_low, square.y_low),
                        peer_point(square.x_high, square.y_high));
      peer_points += peer.query(bg::index::intersects(box), std::back_inserter(peer_result));
    }
  });
  if (own_points != peer_points || batched_points != peer_points)
    throw std::runtime_error("the trees find different points");
  rates.add(own, batched, other);
  return static_cast<double>(own_points) / static_cast<double>(queries);
}

}  // namespace

int main(int argc, char** argv) {
  pmoss::WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.scan = 1.0;
  spec.records = argc > 1 ? std::stoull(argv[1]) : 10'000'000;
  spec.max_scan_length = 199;
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 7;
  const std::size_t queries = argc > 3 ? std::stoull(argv[3]) : 100'000;

  std::vector<pmoss::Point> points;
  std::vector<std::uint64_t> values;
  std::vector<PeerValue> peer_values;
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    points.push_back(pmoss::point_of_record(spec.space, record));
    values.push_back(record);
    peer_values.emplace_back(peer_point(points.back().x, points.back().y), record);
  }
  pmoss::RTree tree;
  tree.bulk_load(points, values);
  Peer peer(peer_values.begin(), peer_values.end());

  Rates packed, inserts, grown;
  std::uint64_t next = spec.records;
  double points_per_range = 0.0;
  for (int round = 0; round < rounds; ++round) {
    points_per_range = ask(spec, round, queries, tree, peer, packed);
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<pmoss::Point> fresh;
    for (std::size_t i = 0; i < queries; ++i) {
      fresh.push_back(pmoss::point_of_record(spec.space, next + i));
    }
    const double own = rate(queries, [&] {
      for (std::size_t i = 0; i < queries; ++i) tree.insert(fresh[i], next + i);
    });
    const double other = rate(queries, [&] {
      for (std::size_t i = 0; i < queries; ++i) {
        peer.insert(PeerValue(peer_point(fresh[i].x, fresh[i].y), next + i));
      }
    });
    inserts.add(own, other);
    next += queries;
  }
  for (int round = 0; round < rounds; ++round) {
    ask(spec, rounds + round, queries, tree, peer, grown);
  }
  std::printf("%llu points, %.1f found per range\n", static_cast<unsigned long long>(spec.records),
              points_per_range);
  std::string json;
  print("ranges, own", packed.own, json);
  print("ranges, own in batches", packed.batched, json);
  print("ranges, Boost", packed.peer, json);
  print("ranges, own / Boost", packed.ratio, json);
  print("ranges, own in batches / Boost", packed.batched_ratio, json);
  print("inserts, own", inserts.own, json);
  print("inserts, Boost", inserts.peer, json);
  print("inserts, own / Boost", inserts.ratio, json);
  print("ranges after inserts, own", grown.own, json);
  print("ranges after inserts, own in batches", grown.batched, json);
  print("ranges after inserts, Boost", grown.peer, json);
  print("ranges after inserts, own / Boost", grown.ratio, json);
  print("ranges after inserts, own in batches / Boost", grown.batched_ratio, json);
  if (argc > 4) {
    std::ofstream out(argv[4]);
    out << "{" << json << "\n}\n";
    if (!out) throw std::runtime_error(std::string("cannot write ") + argv[4]);
  }
}
