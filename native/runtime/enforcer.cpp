#include "runtime/enforcer.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <string>
#include <utility>

#include "runtime/errors.hpp"

namespace pmoss::runtime {
namespace {

// A node that is full at the end of one pass may have room once the others have moved.
constexpr int most_passes = 3;

/// That the calling thread was on a core.
double processor_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void require_allowed(std::uint32_t slice, int error_number) {
  if (!numa::is_refusal(error_number)) return;
  throw PlacementRefused("the data of slice " + std::to_string(slice) +
                         " cannot be placed: " + numa::explain_memory_error(error_number));
}

}  // namespace

void require_possible(const ServedIndex& index, const Homes& homes, const Schedule& schedule) {
  if (schedule.data == DataPlacement::keep) return;
  const std::string hidden = index.hidden_memory();
  if (schedule.data == DataPlacement::interleaved && (!index.copies() || !hidden.empty())) {
    throw PlacementRefused(
        "the data cannot be interleaved: this index does not copy its nodes, and the kernel "
        "moves pages to one node alone; choose a schedule whose slices have a node each");
  }
  if (hidden.empty()) return;
  for (std::uint32_t slice = 0; slice < index.slices(); ++slice) {
    const std::optional<Home>& home = homes[slice];
    const int wanted = schedule.nodes[slice];
    if (home && home->place == numa::Placement::on(wanted)) continue;
    const std::string where =
        home ? "was loaded on node " + std::to_string(home->place.node) : "was loaded anywhere";
    throw PlacementRefused("the data cannot be placed: " + hidden + ", and slice " +
                           std::to_string(slice) + " " + where + ", not on node " +
                           std::to_string(wanted) +
                           "; define it, keep the data where they are, or load the index anew");
  }
}

Enforcer::Enforcer(ServedIndex& index, Homes& homes, const Settings& settings)
    : index_(index), homes_(homes), settings_(settings) {
  // The kernel may have moved pages that no policy binds, as automatic NUMA balancing does. A run
  // must not begin where the one before it ended.
  for (std::uint32_t slice = 0; slice < index_.slices(); ++slice) {
    std::optional<Home>& home = homes_[slice];
    if (!home || !home->then_first_touch) continue;
    if (find_placement(index_.memory(slice), home->place).error_number != 0) home.reset();
  }
}

Enforcer::Goal Enforcer::goal_of(std::uint32_t slice, const Schedule& schedule) const {
  if (schedule.data == DataPlacement::interleaved) {
    return {slice, numa::Placement::interleaved(settings_.interleave_nodes), false};
  }
  return {slice, numa::Placement::on(schedule.nodes[slice]),
          schedule.data == DataPlacement::first_touch};
}

bool Enforcer::is_home(const Goal& goal) const {
  const std::optional<Home>& home = homes_[goal.slice];
  // Pages that were touched first elsewhere are where that schedule wants them, but no other one.
  return home && home->place == goal.to && (!home->then_first_touch || goal.then_first_touch);
}

void Enforcer::want(const Schedule& schedule) {
  goals_.clear();
  wanted_.clear();
  failed_.clear();
  passes_ = 0;
  count_failures();
  if (schedule.data == DataPlacement::keep) return;
  require_possible(index_, homes_, schedule);
  for (std::uint32_t slice = 0; slice < index_.slices(); ++slice) {
    goals_.push_back(goal_of(slice, schedule));
  }
  const bool movable = index_.hidden_memory().empty();
  for (auto goal = goals_.rbegin(); goal != goals_.rend(); ++goal) {
    // What cannot be moved lies where it should: require_possible() has looked.
    if (!movable || (is_home(*goal) && !settings_.always)) {
      place_later_pages(*goal);
    } else {
      wanted_.push_back(*goal);
    }
  }
}

std::vector<std::uint32_t> Enforcer::pending() const {
  std::vector<std::uint32_t> slices;
  for (const Goal& goal : wanted_) slices.push_back(goal.slice);
  if (moving_) slices.push_back(moving_->slice);
  return slices;
}

bool Enforcer::step() {
  const double processor_begin = processor_seconds();
  reclaim();
  if (settled()) return false;
  const auto begin = std::chrono::steady_clock::now();
  if (!moving_) take_next();
  bool arrived = true;
  if (by_kernel(*moving_)) {
    move_pages(*moving_);
  } else {
    const bool lazy = settings_.pace == MigrationPace::lazy;
    arrived =
        !copy_part(*moving_, lazy ? settings_.lazy_nodes : std::numeric_limits<std::size_t>::max());
  }
  if (arrived) arrive(*std::exchange(moving_, std::nullopt));
  if (settled()) try_failed_again();
  report_.busy_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report_.processor_seconds += processor_seconds() - processor_begin;
  return true;
}

void Enforcer::take_next() {
  moving_ = std::move(wanted_.back());
  wanted_.pop_back();
  homes_[moving_->slice].reset();  // in two places, until it has arrived
}

bool Enforcer::by_kernel(const Goal& goal) const {
  // The kernel moves pages to one node; there is no call that interleaves what is there. A copy
  // that came to lie elsewhere need not be copied once more.
  return goal.to.kind == numa::Placement::Kind::node && !migration_ &&
         (settings_.strategy == MigrationStrategy::move_pages || goal.again || !index_.copies());
}

void Enforcer::move_pages(const Goal& goal) {
  const numa::PageMove move = index_.memory(goal.slice).move_pages(goal.to.node);
  report_.pages += move.moved;
  require_allowed(goal.slice, move.error_number);
}

/// True while there is more of the slice to copy.
bool Enforcer::copy_part(const Goal& goal, std::size_t part) {
  if (!migration_) migration_ = index_.migrate(goal.slice, goal.to);
  const std::uint64_t nodes = migration_->nodes_moved();
  const std::uint64_t leaves = migration_->leaves_moved();
  const std::uint64_t bytes = migration_->bytes_moved();
  const bool more = migration_->step(part);
  report_.nodes += migration_->nodes_moved() - nodes;
  report_.leaves += migration_->leaves_moved() - leaves;
  report_.bytes += migration_->bytes_moved() - bytes;
  if (more) return true;
  left_behind_ = true;
  migration_.reset();
  return false;
}

void Enforcer::arrive(const Goal& goal) {
  numa::PlacedMemory& memory = index_.memory(goal.slice);
  SlicePlacement placement = find_placement(memory, goal.to);
  if (placement.error_number != 0 && goal.to.kind == numa::Placement::Kind::node) {
    // Spare memory of the pool may be what fills the node. A copy takes pages of other nodes where
    // the kernel would have to reclaim some, and moving them makes it do that.
    index_.free_spare_memory();
    const numa::PageMove move = memory.move_pages(goal.to.node);
    report_.pages += move.moved;
    placement = find_placement(memory, goal.to);
    if (placement.error_number != 0 && move.error_number != 0)
      placement.error_number = move.error_number;
  }
  require_allowed(goal.slice, placement.error_number);
  const bool superseded = goals_.empty() || goals_[goal.slice].to != goal.to;
  if (placement.error_number == 0) {
    ++report_.slices;
    homes_[goal.slice] = Home{goal.to, false};
    if (!superseded) place_later_pages(goals_[goal.slice]);
  } else if (!superseded) {
    fail(goals_[goal.slice], placement);
  }
  // The move may have begun before the schedule that wants the same.
  if (!superseded) {
    std::erase_if(wanted_, [&](const Goal& other) { return other.slice == goal.slice; });
  }
}

void Enforcer::place_later_pages(const Goal& goal) {
  numa::PlacedMemory& memory = index_.memory(goal.slice);
  require_allowed(goal.slice,
                  memory.place_from_now_on(goal.then_first_touch ? numa::Placement{} : goal.to));
  homes_[goal.slice]->then_first_touch |= goal.then_first_touch;
}

void Enforcer::fail(const Goal& goal, const SlicePlacement& placement) {
  failed_.push_back({goal, placement});
  count_failures();
}

void Enforcer::try_failed_again() {
  if (failed_.empty() || passes_ == most_passes) return;
  ++passes_;
  for (Failure& failure : failed_) {
    failure.goal.again = true;
    wanted_.push_back(std::move(failure.goal));
  }
  failed_.clear();
  count_failures();
}

void Enforcer::count_failures() {
  report_.slices_failed = failed_.size();
  report_.pages_failed = 0;
  report_.error_number = 0;
  for (const Failure& failure : failed_) {
    report_.pages_failed += failure.placement.pages - failure.placement.home;
    report_.error_number = failure.placement.error_number;
  }
}

void Enforcer::reclaim() {
  if (!left_behind_) return;
  left_behind_ = index_.reclaim() > 0;
  if (!left_behind_ && settled()) index_.free_spare_memory();
}

void Enforcer::finish() {
  if (migration_) {
    copy_part(*moving_, std::numeric_limits<std::size_t>::max());
    arrive(*std::exchange(moving_, std::nullopt));
  }
  index_.reclaim();
  index_.free_spare_memory();
  placements_.resize(goals_.size());
  for (const Goal& goal : goals_) {
    SlicePlacement& placement = placements_[goal.slice];
    placement = find_placement(index_.memory(goal.slice), goal.to);
    require_allowed(goal.slice, placement.error_number);
    std::optional<Home>& home = homes_[goal.slice];
    if (home && home->then_first_touch) {
      placement.error_number = 0;  // what has been touched since lies where it should
    } else if (placement.error_number != 0) {
      home.reset();
    }
    const auto waits = [&](const Goal& other) { return other.slice == goal.slice; };
    placement.pending =
        placement.error_number != 0 && std::any_of(wanted_.begin(), wanted_.end(), waits);
    const auto failure = std::find_if(failed_.begin(), failed_.end(), [&](const Failure& other) {
      return other.goal.slice == goal.slice;
    });
    if (failure != failed_.end() && placement.error_number != 0) {
      placement.error_number = failure->placement.error_number;
    }
  }
}

}  // namespace pmoss::runtime
