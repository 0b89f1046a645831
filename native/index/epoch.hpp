// Epoch-based reclamation, as in LeanStore (Leis et al., ICDE 2018): when memory that was unlinked
// from an index may be freed.
//
// Example: a migration unlinks the old copy of slice 3 while the epoch is 7. It begins epoch 8 and
// retires the old arena with that number. Thread A has been inside a lookup since epoch 7, and
// thread B enters one in epoch 8. The arena is freed once A has left; B came too late to find it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pmoss {

class SliceArena;

namespace epoch_detail {

/// One thread's entry in the list of readers. A later thread reuses it; it is never freed.
struct alignas(128) Reader {
  static constexpr std::uint64_t outside = ~std::uint64_t{0};

  std::atomic<std::uint64_t> epoch{outside};  ///< in which the thread entered
  std::atomic<bool> taken{true};
  Reader* next = nullptr;
};

// The reads that follow an entry must not overtake it. The thread that retires memory can see to
// that for all others (membarrier); else every reader has to.
extern std::atomic<bool> kernel_barrier;
extern std::atomic<std::uint64_t> current_epoch;
// Within the first thread-local memory of the process, or each access would be a call.
extern constinit thread_local Reader* this_reader [[gnu::tls_model("initial-exec")]];

/// Gives this thread an entry. Ends the process if there is no memory for it.
[[gnu::noinline]] Reader* register_reader() noexcept;

/// Begins an epoch after something was unlinked, and returns its number. Who enters in this epoch
/// or later finds nothing of what was unlinked before.
std::uint64_t begin_epoch() noexcept;

/// The earliest epoch in which a thread that is still inside has entered.
std::uint64_t oldest_reader() noexcept;

}  // namespace epoch_detail

/// While it lives, no memory is freed that its thread may have found in an index. Every operation
/// of an index takes one. A caller takes its own for many operations, or to keep a reference into
/// the index. Guards of one thread may be nested.
class EpochGuard {
 public:
  EpochGuard() noexcept {
    using namespace epoch_detail;
    reader_ = this_reader;
    if (reader_ == nullptr) [[unlikely]]
      reader_ = register_reader();
    outermost_ = reader_->epoch.load(std::memory_order_relaxed) == Reader::outside;
    if (!outermost_) return;
    const std::uint64_t now = current_epoch.load(std::memory_order_acquire);
    if (kernel_barrier.load(std::memory_order_relaxed)) [[likely]] {
      reader_->epoch.store(now, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      reader_->epoch.exchange(now, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  ~EpochGuard() {
    if (outermost_) {
      reader_->epoch.store(epoch_detail::Reader::outside, std::memory_order_release);
    }
  }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 private:
  epoch_detail::Reader* reader_;
  bool outermost_;
};

/// Whether a retirement lets the kernel order the reads of all threads (Linux 4.14 and later,
/// unless a container refuses it). Otherwise each guard costs a fence.
bool kernel_barrier_in_use() noexcept;
/// Chooses, for tests, while no thread is inside a guard; false if the kernel has no such barrier.
bool use_kernel_barrier(bool wanted) noexcept;

/// Memory of one index that was unlinked and may still be read.
class RetiredArenas {
 public:
  RetiredArenas();
  ~RetiredArenas();  ///< no thread may use the index any more
  RetiredArenas(const RetiredArenas&) = delete;
  RetiredArenas& operator=(const RetiredArenas&) = delete;

  /// Takes all of `arenas` but the last one. No reader that enters from now on may find anything
  /// in those. After std::bad_alloc all are as they were.
  void take_all_but_last(std::vector<std::unique_ptr<SliceArena>>& arenas);
  /// Frees what no reader can hold any more; returns how many arenas are still held.
  std::size_t reclaim();

 private:
  struct Retired {
    std::unique_ptr<SliceArena> arena;
    std::uint64_t epoch;  ///< the first one whose readers cannot find it
  };

  std::mutex mutex_;
  std::vector<Retired> held_;
};

}  // namespace pmoss
