#include "analytic/rtree_profile.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "analytic/trace_profile.hpp"
#include "recording/record_rtree.hpp"

namespace pmoss::analytic {
namespace {

/// A line that more of its slice's queries touch than this lies above what a hot region cuts.
constexpr double common_share = 0.25;
/// Parts of a slice smaller than this are not distinguished.
constexpr double least_part = 0.01;

WorkloadSpec evenly(WorkloadSpec workload) {
  if (workload.distribution == Distribution::zipf) {
    throw std::invalid_argument(
        "distribution is zipf; for profiles of points it must be uniform or hot_range");
  }
  workload.distribution = Distribution::uniform;
  return workload;
}

/// Share of the touches of recorded lines that inserts make, which follow the points' density.
double inserting_share(const recording::Trace& trace) {
  std::size_t touches = 0;
  for (std::size_t q = 0; q < trace.size(); ++q) {
    if (trace.queries[q].kind == static_cast<std::uint8_t>(Operation::Kind::insert)) {
      touches += trace.touches_of(q).size();
    }
  }
  return static_cast<double>(touches) /
         static_cast<double>(std::max<std::size_t>(1, trace.touches.size()));
}

/// How much more often than in the base the parts of a slice are touched.
struct Parts {
  double inside;      // share of the slice's records in the hot region
  double cold, warm;  // factors outside and inside
  double all() const { return (1.0 - inside) * cold + inside * warm; }
  bool cut() const { return inside > least_part && inside < 1.0 - least_part; }
};

void add_lines(SliceProfiles& p, const SliceProfiles& base, std::size_t k, double part,
               double factor) {
  if (factor <= 0.0) return;
  // Inserts, which are all that writes, follow the density of the points.
  p.add_class(part * base.lines[k], factor * base.line_rate[k], part * factor * base.dependent[k],
              part * factor * base.streaming[k], std::min(1.0, base.dirty_share[k] / factor),
              part * base.locks[k]);
}

void add_slice(SliceProfiles& p, const SliceProfiles& base, std::size_t s, const Parts& parts) {
  const double common = common_share * base.share[s];
  for (std::size_t k = base.first_class[s]; k < base.first_class[s + 1]; ++k) {
    if (parts.cut() && base.line_rate[k] < common) {
      add_lines(p, base, k, 1.0 - parts.inside, parts.cold);
      add_lines(p, base, k, parts.inside, parts.warm);
    } else {
      add_lines(p, base, k, 1.0, parts.all());
    }
  }
  for (std::size_t k = base.first_page_class[s]; k < base.first_page_class[s + 1]; ++k) {
    if (parts.cut() && base.page_rate[k] < common) {
      p.add_pages((1.0 - parts.inside) * base.pages[k], parts.cold * base.page_rate[k]);
      p.add_pages(parts.inside * base.pages[k], parts.warm * base.page_rate[k]);
    } else {
      p.add_pages(base.pages[k], parts.all() * base.page_rate[k]);
    }
  }
  p.end_slice();
}

/// Queries of one slice on lines of the next lie at the border, which is as hot as both are.
std::vector<SharedTouches> reweighted(const SliceProfiles& base, const std::vector<Parts>& parts) {
  std::vector<double> own(parts.size(), 1.0), sum(parts.size(), 0.0);
  std::vector<SharedTouches> result = base.shared;
  for (SharedTouches& touches : result) {
    const auto touched = static_cast<std::size_t>(touches.touched);
    own[touched] -= touches.share;
    touches.share *=
        0.5 * (parts[static_cast<std::size_t>(touches.executing)].all() + parts[touched].all());
    sum[touched] += touches.share;
  }
  for (std::size_t s = 0; s < parts.size(); ++s) sum[s] += own[s] * parts[s].all();
  for (SharedTouches& touches : result) {
    touches.share /= sum[static_cast<std::size_t>(touches.touched)];
  }
  return result;
}

}  // namespace

RTreeProfiler::RTreeProfiler(const WorkloadSpec& workload, std::uint32_t slices,
                             const recording::TraceOptions& options)
    : workload_(workload), sample_(workload.space, workload.records, grid_of(slices)) {
  validate_points(workload);
  const auto trace = recording::record_rtree(evenly(workload), slices, options);
  inserting_ = inserting_share(*trace);
  base_ = profile_trace(*trace);
}

SliceProfiles RTreeProfiler::profiles(std::uint64_t seed) const {
  if (workload_.distribution != Distribution::hot_range) return base_;
  WorkloadSpec spec = workload_;
  spec.seed = seed;
  const std::vector<double> within = sample_.share_within(hot_region(spec));
  const double inside = std::accumulate(within.begin(), within.end(), 0.0);
  const double hot = 1.0 / std::max(inside, 1.0 / static_cast<double>(RecordSample::most_points));
  // Of an insert's touches none are drawn to the region, and inserts are shorter than ranges.
  const auto factors = [&](double inserts, double part) {
    const double drawn = spec.hot_share * (1.0 - inserts);
    return Parts{part, 1.0 - drawn, 1.0 - drawn + drawn * hot};
  };
  std::vector<Parts> parts;
  std::vector<double> queries;
  for (std::size_t s = 0; s < within.size(); ++s) {
    const double all = sample_.share()[s];
    const double part = all > 0.0 ? within[s] / all : 0.0;
    parts.push_back(factors(inserting_, part));
    queries.push_back(factors(spec.insert, part).all());
  }
  SliceProfiles p;
  p.slices = base_.slices;
  p.first_class.push_back(0);
  p.first_page_class.push_back(0);
  p.share = base_.share;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    add_slice(p, base_, s, parts[s]);
    p.share[s] *= queries[s];
  }
  const double sum = std::accumulate(p.share.begin(), p.share.end(), 0.0);
  for (double& share : p.share) share /= sum;
  p.instructions = base_.instructions;
  p.branch_misses = base_.branch_misses;
  p.dependent_touches = base_.dependent_touches;
  p.streaming_touches = base_.streaming_touches;
  p.variation = base_.variation;
  p.shared = reweighted(base_, parts);
  return p;
}

}  // namespace pmoss::analytic
