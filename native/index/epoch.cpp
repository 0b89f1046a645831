#include "index/epoch.hpp"

#include <algorithm>
#include <iterator>

#include "index/arena.hpp"
#include "index/at_fork.hpp"
#include "index/kernel_barrier.hpp"

namespace pmoss {
namespace epoch_detail {

constinit std::atomic<bool> kernel_barrier{false};
alignas(128) constinit std::atomic<std::uint64_t> current_epoch{1};
constinit thread_local Reader* this_reader = nullptr;

namespace {

/// What is retired with it is freed with its index only.
constexpr std::uint64_t never = Reader::outside;

constinit std::atomic<Reader*> readers{nullptr};

/// Gives a thread's entry back when the thread ends.
struct Registration {
  Reader* reader = nullptr;
  ~Registration() {
    if (reader == nullptr) return;
    this_reader = nullptr;
    reader->taken.store(false, std::memory_order_release);
  }
};

/// The child of a fork() has one thread: what the others were reading is read no more.
void forget_other_readers() noexcept {
  for (Reader* reader = readers.load(); reader != nullptr; reader = reader->next) {
    if (reader == this_reader) continue;
    reader->epoch.store(Reader::outside);
    reader->taken.store(false);
  }
}

[[maybe_unused]] const bool prepared = [] {
  at_fork_in_child(forget_other_readers);
  return use_kernel_barrier(true);
}();

}  // namespace

Reader* register_reader() noexcept {
  Reader* reader = readers.load(std::memory_order_acquire);
  while (reader != nullptr && reader->taken.exchange(true)) reader = reader->next;
  if (reader == nullptr) {
    reader = new Reader;
    reader->next = readers.load(std::memory_order_relaxed);
    while (!readers.compare_exchange_weak(reader->next, reader, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
  static thread_local Registration registration;
  registration.reader = reader;
  this_reader = reader;
  return reader;
}

std::uint64_t begin_epoch() noexcept {
  const std::uint64_t begun = current_epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!kernel_barrier.load() || order_all_threads()) return begun;
  // The registration may have been lost in a fork().
  const bool ordered = may_order_all_threads() && order_all_threads();
  return ordered ? begun : never;
}

std::uint64_t oldest_reader() noexcept {
  std::uint64_t oldest = Reader::outside;
  for (Reader* reader = readers.load(std::memory_order_acquire); reader != nullptr;
       reader = reader->next) {
    oldest = std::min(oldest, reader->epoch.load(std::memory_order_seq_cst));
  }
  return oldest;
}

}  // namespace epoch_detail

bool kernel_barrier_in_use() noexcept { return epoch_detail::kernel_barrier.load(); }

bool use_kernel_barrier(bool wanted) noexcept {
  using namespace epoch_detail;
  const bool possible = wanted && may_order_all_threads();
  kernel_barrier.store(possible);
  return possible == wanted;
}

RetiredArenas::RetiredArenas() = default;
RetiredArenas::~RetiredArenas() = default;

void RetiredArenas::take_all_but_last(std::vector<std::unique_ptr<SliceArena>>& arenas) {
  const std::lock_guard lock(mutex_);
  held_.reserve(held_.size() + arenas.size());
  const std::uint64_t epoch = epoch_detail::begin_epoch();
  const auto last = std::prev(arenas.end());
  for (auto arena = arenas.begin(); arena != last; ++arena) {
    held_.push_back({std::move(*arena), epoch});
  }
  arenas.erase(arenas.begin(), last);
}

std::size_t RetiredArenas::reclaim() {
  std::vector<Retired> freed;  // after the lock: giving memory back takes long
  const std::lock_guard lock(mutex_);
  if (held_.empty()) return 0;
  const std::uint64_t oldest = epoch_detail::oldest_reader();
  const auto first = std::partition(held_.begin(), held_.end(), [&](const Retired& retired) {
    return retired.epoch > oldest || retired.epoch == epoch_detail::never;
  });
  freed.assign(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
  held_.erase(first, held_.end());
  return held_.size();
}

}  // namespace pmoss
