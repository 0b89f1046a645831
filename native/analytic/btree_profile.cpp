#include "analytic/btree_profile.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "analytic/btree_layout.hpp"
#include "workload/keyspace.hpp"
#include "workload/portable_math.hpp"
#include "workload/zipf.hpp"

namespace pmoss::analytic {
namespace {

using btree_layout::capacity;
using btree_layout::fill;

constexpr std::uint64_t hot_ranks = 65535;
constexpr std::uint64_t fewest_hot_ranks = 1023;

}  // namespace

BTreeProfiler::BTreeProfiler(const WorkloadSpec& workload, int slices)
    : workload_(by_operations(workload)), slices_(slices) {
  if (slices < 1 || slices > 65536) {
    throw std::invalid_argument("slices = " + std::to_string(slices) +
                                ": must lie between 1 and 65536");
  }
  validate(workload);
  for (const double share : record_shares(workload.space, static_cast<std::uint32_t>(slices))) {
    shapes_.emplace_back(workload_, share);
  }
  rank_hottest();
  tail_ = even_share();
}

/// Fills `rank_probability_`.
void BTreeProfiler::rank_hottest() {
  if (zipf_items() == 0 || workload_.space.in_order > 0) return;
  const double normaliser = zeta(zipf_items(), workload_.theta);
  // Where more records are hot than every other leaf, they share leaves and are as if alike.
  const auto leaves =
      static_cast<std::uint64_t>(static_cast<double>(workload_.records) / (2.0 * capacity * fill));
  const std::uint64_t last = std::min({hot_ranks, std::max<std::uint64_t>(leaves, fewest_hot_ranks),
                                       workload_.records, zipf_items()});
  rank_probability_.reserve(last);
  for (std::uint64_t rank = 1; rank <= last; ++rank) {
    rank_probability_.push_back(portable::power(static_cast<double>(rank), -workload_.theta) /
                                normaliser);
  }
}

std::vector<std::vector<HotBand>> BTreeProfiler::bands(const WorkloadSpec& instance) const {
  std::vector<std::vector<HotBand>> bands(static_cast<std::size_t>(slices_));
  if (instance.distribution == Distribution::hot_range) {
    const std::vector<double> in_range =
        hot_range_shares(instance, static_cast<std::uint32_t>(slices_));
    for (std::size_t s = 0; s < bands.size(); ++s) {
      if (in_range[s] == 0.0) continue;
      bands[s].push_back(
          {std::min(1.0, in_range[s] * instance.hot_fraction / shapes_[s].record_share),
           instance.hot_share * in_range[s]});
    }
  } else if (instance.space.in_order > 0) {
    add_bands_in_order(instance, bands);
  }
  return bands;
}

/// Ranks from one power of four leaves to the next make a band; a slice holds its part of it. What
/// is asked within a band is taken as even.
void BTreeProfiler::add_bands_in_order(const WorkloadSpec& instance,
                                       std::vector<std::vector<HotBand>>& bands) const {
  const auto records = static_cast<double>(instance.records);
  const double whole = zeta(instance.zipf_items, instance.theta);
  const auto below = [&](double rank) {
    const auto ranks = std::min(static_cast<std::uint64_t>(rank), instance.zipf_items);
    return ranks == 0 ? 0.0 : zeta(ranks, instance.theta) / whole;
  };
  const auto first = static_cast<double>(instance.space.place_in_order(0, instance.seed));
  double end = 0.0;
  for (std::size_t s = 0; s < bands.size(); ++s) {
    const double from = end;
    end = s + 1 == bands.size() ? records : std::round(from + shapes_[s].record_share * records);
    if (end <= from) continue;
    // Ranks begin at `first` and go on round the end.
    for (const double turn : {0.0, records}) {
      const double low = std::max(from + turn, first) - first;
      const double high = std::min(end + turn, first + records) - first;
      double band = std::floor(capacity * fill);  // the ranks below it
      for (double rank = low; rank < high; band *= 4.0) {
        if (band <= rank) continue;
        const double next = std::min(band, high);
        bands[s].push_back({(next - rank) / (end - from), below(next) - below(rank)});
        rank = next;
      }
    }
  }
}

/// Of how many items the ranks are drawn; 0 if there are none.
std::uint64_t BTreeProfiler::zipf_items() const noexcept {
  if (workload_.distribution == Distribution::latest) return workload_.records;
  return workload_.distribution == Distribution::zipf ? workload_.zipf_items : 0;
}

/// Per slice the hottest records of the instance `seed`, by classes of rank.
std::vector<std::array<HotClass, hot_classes>> BTreeProfiler::hottest(std::uint64_t seed) const {
  const auto slices = static_cast<std::uint32_t>(slices_);
  std::vector<std::array<HotClass, hot_classes>> hottest(slices);
  // Most of an instance's time goes into these keys: the usual kind's take no call.
  const bool latest = workload_.distribution == Distribution::latest;
  const bool scattered =
      workload_.space.kind == KeySpace::Kind::scattered && workload_.space.in_order == 0 && !latest;
  const std::uint64_t first_record = mix64(seed);
  std::vector<HotClass> in_class(slices);  // side by side, so that they stay near the core
  std::size_t rank = 0;
  for (std::size_t hot_class = 0; rank < rank_probability_.size(); ++hot_class) {
    const std::size_t class_end = (std::size_t{4} << (2 * hot_class)) - 1;
    const std::size_t end = hot_class + 1 < hot_classes
                                ? std::min(class_end, rank_probability_.size())
                                : rank_probability_.size();
    const auto add_keys = [&](auto key_of) {
      for (; rank < end; ++rank) {
        HotClass& records = in_class[slice_of_key(key_of(rank), slices)];
        records.mass += rank_probability_[rank];
        records.keys += 1.0;
      }
    };
    if (scattered) {
      add_keys([&](std::size_t record) { return mix64(record + first_record); });
    } else {
      // The newest records are hot: as they are before the first insert.
      add_keys([&](std::size_t ranked) {
        return workload_.space.key(latest ? workload_.records - 1 - ranked : ranked, seed);
      });
    }
    for (std::size_t s = 0; s < hottest.size(); ++s) {
      hottest[s][hot_class] = std::exchange(in_class[s], HotClass{});
    }
  }
  return hottest;
}

/// The share of the choices that all records share evenly.
double BTreeProfiler::even_share() const {
  if (workload_.distribution == Distribution::hot_range) return 1.0 - workload_.hot_share;
  if (workload_.space.in_order > 0) {
    // Ranks that are no record fall on any.
    if (workload_.zipf_items <= workload_.records) return 0.0;
    return 1.0 -
           zeta(workload_.records, workload_.theta) / zeta(workload_.zipf_items, workload_.theta);
  }
  if (rank_probability_.empty()) return 1.0;
  // Where all items are hot, rounding leaves no rest.
  if (rank_probability_.size() == zipf_items()) return 0.0;
  double hot = 0.0;
  for (const double probability : rank_probability_) hot += probability;
  return std::max(0.0, 1.0 - hot);
}

SliceProfiles BTreeProfiler::profiles(std::uint64_t seed) const {
  SliceProfiles profiles;
  profiles.slices = slices_;
  profiles.reserve(static_cast<std::size_t>(slices_));
  profiles.first_class.push_back(0);
  profiles.first_page_class.push_back(0);
  WorkloadSpec instance = workload_;
  instance.seed = seed;
  const std::vector<std::vector<HotBand>> hot_bands = bands(instance);
  const auto hot_records = hottest(seed);
  for (std::size_t s = 0; s < hot_records.size(); ++s) {
    const SlicePopularity popularity{tail_, hot_records[s], hot_bands[s]};
    BTreeSlice(workload_, shapes_[s], popularity, slices_).add_to(profiles);
  }
  return profiles;
}

}  // namespace pmoss::analytic
