#include "environment/team.hpp"

#include <stdexcept>
#include <string>

namespace pmoss::environment {
namespace {

std::size_t checked(int threads) {
  if (threads < 1) {
    throw std::invalid_argument("threads = " + std::to_string(threads) + ": must be at least 1");
  }
  return static_cast<std::size_t>(threads);
}

}  // namespace

Team::Team(int threads)
    : parts_(checked(threads)),
      errors_(parts_),
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

void Team::dismiss() noexcept {
  over_ = true;
  ++round_;
  round_.notify_all();
}

void Team::serve(std::size_t part) {
  for (std::uint64_t round = 0;;) {
    round_.wait(round);
    // No thread misses a round: run() waits for every part.
    ++round;
    if (over_) return;
    play(part);
    if (--busy_ == 0) busy_.notify_one();
  }
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
  if (is_forked()) {
    throw ForkedError("threads = " + std::to_string(parts_) +
                      ": they stayed in the process that this one was forked from; make the "
                      "environment anew in this process, or with threads=1");
  }
  count_ = count;
  work_ = &work;
  busy_ = parts_ - 1;
  if (parts_ > 1) {
    ++round_;
    round_.notify_all();
  }
  play(0);
  for (std::size_t left = busy_; left != 0; left = busy_) busy_.wait(left);
  for (const std::exception_ptr& error : errors_) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace pmoss::environment
