// The solver for schedules under which several cores touch the same lines: it goes through every
// class of lines of every stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analytic/caches.hpp"
#include "analytic/coherence.hpp"
#include "analytic/residence.hpp"

namespace pmoss::analytic {

class ClassCaches final : public Caches {
 public:
  explicit ClassCaches(const CacheInputs& inputs);

  void set_instance() override;
  void start() override;
  void mark_new_owners(StreamSet& streams) override;
  void solve_core(Index physical) override;
  void solve_domain(Index domain, double ns_per_unit) override;
  void past_llc(Index stream, std::span<double> past) const override;

 private:
  /// Classes of a stream's row, padded.
  std::size_t classes(Index stream) const {
    return first_state_[stream + 1] - first_state_[stream];
  }
  std::size_t classes_of(const std::vector<Index>& streams) const;
  void enter_lines(Index stream, double through, int copies, double* lines, double* rates) const;
  void solve_private(Index physical);
  void solve_pages(Index physical);
  void add_page_misses(const std::vector<Index>& streams, double counted, double ns);
  double past_private(Index stream, std::size_t k) const;
  void keep_past_llc(const std::vector<Index>& streams);
  void refresh(Index stream);

  Coherence coherence_;
  std::vector<double> domain_time_;  // of a victim cache: beyond the private time
  // Per stream and class: probability that a line was not touched for so long that it has left.
  std::vector<std::size_t> first_state_;  // per stream, then the number of all
  std::vector<double> past_l2_, past_llc_;
  std::vector<Coherence::OwnersWait> owners_wait_;  // per stream
  std::vector<std::uint8_t> written_;               // per slice: whether anything writes its lines
  // Scratch space, so that a step allocates nothing.
  Residents residents_;
  std::vector<double> shared_past_l2_, shared_past_llc_;  // of one row
};

}  // namespace pmoss::analytic
