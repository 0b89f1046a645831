// Leaving out of the log what the first-level cache would serve.
#include <algorithm>

#include "index/tracer.hpp"
#include "workload/random.hpp"

namespace pmoss {

TouchLog::TouchLog() : seen_(places) { entries_.reserve(capacity); }

void TouchLog::forget_lines() noexcept {
  lines_ = 0;
  if (++epoch_ != 0) return;
  std::fill(seen_.begin(), seen_.end(), Seen{});  // the epochs begin anew
  epoch_ = 1;
}

void TouchLog::clear() noexcept {
  entries_.clear();
  overflowed_ = false;
  forget_lines();
}

void TouchLog::add_line(std::uint64_t line, bool writes, bool streams, bool locks) noexcept {
  std::size_t place = mix64(line) % places;
  while (seen_[place].epoch == epoch_ && seen_[place].line != line) place = (place + 1) % places;
  Seen& last_touch = seen_[place];
  if (last_touch.epoch == epoch_) {
    if (!writes || last_touch.written) return;
    last_touch.written = true;
  } else {
    last_touch = {line, epoch_, writes};
    ++lines_;
  }
  if (entries_.size() < capacity) {
    entries_.emplace_back(line, writes, streams, locks);
  } else {
    overflowed_ = true;
  }
  if (lines_ == remembered) forget_lines();
}

}  // namespace pmoss
