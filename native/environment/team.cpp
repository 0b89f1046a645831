#include "environment/team.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace pmoss::environment {
namespace {

std::size_t checked(int threads) {
  if (threads < 1) {
    throw std::invalid_argument("threads = " + std::to_string(threads) + ": must be at least 1");
  }
  return static_cast<std::size_t>(threads);
}

}  // namespace

Team::Team(int threads, std::function<bool()> idle)
    : parts_(checked(threads)),
      idle_(std::move(idle)),
      errors_(parts_),
      claimed_(parts_),
      forks_(forks()),
      threads_(std::make_unique<std::vector<JoinedThread>>()) {
  try {
    for (std::size_t part = 1; part < parts_; ++part) {
      threads_->emplace_back([this, part] { serve(part); });
    }
  } catch (...) {
    dismiss();  // or those that could be started would be waited for without end
    throw;
  }
}

Team::~Team() {
  if (is_forked()) {
    // A forked child has no threads to join.
    static_cast<void>(threads_.release());
  } else {
    dismiss();
  }
}

bool Team::is_forked() const noexcept { return parts_ > 1 && forks_ != forks(); }

void Team::check_forks() const {
  if (is_forked()) {
    throw ForkedError("threads = " + std::to_string(parts_) +
                      ": they stayed in the process that this one was forked from; make the "
                      "environment anew in this process, or with threads=1");
  }
}

void Team::dismiss() noexcept {
  over_ = true;
  wake();
}

void Team::wake() noexcept {
  ++bell_;
  bell_.notify_all();
}

void Team::serve(std::size_t part) {
  for (std::uint64_t heard = 0;;) {
    bell_.wait(heard);
    heard = bell_;  // before what it calls for is looked at: no call is missed
    do {
      if (over_) return;
      if (claim(part)) {
        play(part);
        if (--busy_ == 0) busy_.notify_one();
      }
    } while (idle_ && idle_());
  }
}

/// Whether a part of the present round is the caller's to do: it is done by one thread alone.
bool Team::claim(std::size_t part) noexcept {
  const std::uint64_t round = round_;
  // Every part was claimed in the round before. An older round, seen late, claims nothing.
  std::uint64_t before = round - 1;
  return round > 0 && claimed_[part].compare_exchange_strong(before, round);
}

void Team::play(std::size_t part) noexcept {
  errors_[part] = nullptr;
  try {
    (*work_)(count_* part / parts_, count_ * (part + 1) / parts_);
  } catch (...) {
    errors_[part] = std::current_exception();
  }
}

void Team::run(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work) {
  check_forks();
  count_ = count;
  work_ = &work;
  busy_ = parts_ - 1;
  if (parts_ > 1) {
    ++round_;
    wake();
  }
  play(0);
  for (std::size_t part = parts_ - 1; part > 0; --part) {
    if (claim(part)) {
      play(part);
      --busy_;
    }
  }
  for (std::size_t left = busy_; left != 0; left = busy_) busy_.wait(left);
  for (const std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace pmoss::environment
