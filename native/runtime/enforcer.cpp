#include "runtime/enforcer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace pmoss::runtime {

Enforcer::Enforcer(ServedIndex& index, Homes& homes, const Settings& settings,
                   std::vector<const ReaderEpoch*> readers)
    : index_(index), homes_(homes), settings_(settings), readers_(std::move(readers)) {}

void Enforcer::want(const Schedule& schedule) {
  if (migration_) {
    homes_[migration_->slice()].reset();  // in two places
    migration_.reset();
  }
  wanted_.clear();
  if (schedule.data == DataPlacement::keep) return;
  for (std::uint32_t slice = index_.slices(); slice-- > 0;) {
    Goal goal{slice, numa::Placement::interleaved(), false};
    if (schedule.data != DataPlacement::interleaved) {
      goal.to = numa::Placement::on(schedule.nodes[slice]);
      goal.then_first_touch = schedule.data == DataPlacement::first_touch;
    }
    if (homes_[slice] == goal.to && !settings_.always) {
      arrive(goal);
    } else {
      wanted_.push_back(goal);
    }
  }
}

bool Enforcer::step() {
  reclaim();
  if (wanted_.empty()) return false;
  const auto begin = std::chrono::steady_clock::now();
  const Goal goal = wanted_.back();
  // The kernel moves pages to one node; there is no call that interleaves what is there.
  const bool by_kernel = settings_.strategy == MigrationStrategy::move_pages &&
                         goal.to.kind == numa::Placement::Kind::node;
  bool arrived = true;
  if (by_kernel) {
    move_pages(goal);
  } else {
    arrived = !copy_part(goal);
  }
  if (arrived) {
    ++report_.slices;
    homes_[goal.slice] = goal.to;
    arrive(goal);
    wanted_.pop_back();
  }
  report_.busy_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return true;
}

void Enforcer::move_pages(const Goal& goal) {
  const numa::PageMove move = index_.memory(goal.slice).move_pages(goal.to.node);
  report_.pages += move.moved;
  report_.pages_failed += move.failed;
  if (move.error_number != 0) report_.error_number = move.error_number;
}

/// True while there is more of the slice to copy.
bool Enforcer::copy_part(const Goal& goal) {
  if (!migration_) migration_ = index_.migrate(goal.slice, goal.to);
  const std::uint64_t nodes = migration_->nodes_moved();
  const std::uint64_t leaves = migration_->leaves_moved();
  const std::uint64_t bytes = migration_->bytes_moved();
  const std::size_t part = settings_.pace == MigrationPace::lazy
                               ? settings_.lazy_nodes
                               : std::numeric_limits<std::size_t>::max();
  const bool more = migration_->step(part);
  report_.nodes += migration_->nodes_moved() - nodes;
  report_.leaves += migration_->leaves_moved() - leaves;
  report_.bytes += migration_->bytes_moved() - bytes;
  if (more) return true;
  Retired retired;
  retired.arenas = migration_->take_retired();
  retired.epochs.reserve(readers_.size());
  for (const ReaderEpoch* reader : readers_) retired.epochs.push_back(reader->now());
  retired_.push_back(std::move(retired));
  migration_.reset();
  return false;
}

void Enforcer::arrive(const Goal& goal) {
  index_.memory(goal.slice).place_from_now_on(goal.then_first_touch ? numa::Placement{} : goal.to);
}

void Enforcer::reclaim() {
  std::erase_if(retired_, [&](const Retired& retired) {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      if (!readers_[i]->has_passed(retired.epochs[i])) return false;
    }
    return true;
  });
}

}  // namespace pmoss::runtime
