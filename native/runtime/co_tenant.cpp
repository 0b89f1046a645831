#include "runtime/co_tenant.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>

#include "index/chunk_pool.hpp"
#include "numa/memory.hpp"
#include "workload/random.hpp"

namespace pmoss::runtime {
namespace {

using Time = std::chrono::steady_clock;
constexpr std::chrono::microseconds period(5000);
constexpr std::size_t line = 64;

void spin_once() noexcept {
  static thread_local std::uint64_t value = 1;
  for (int i = 0; i < 4096; ++i) value = mix64(value);
  // The compiler must not see that the result is unused.
  asm volatile("" : "+r"(value));
}

/// Works for its part of every period; `work` takes some microseconds.
template <typename Work>
void alternate(const Control& control, double part, Work work) {
  while (control.phase() < Phase::drain) {
    const auto begin = Time::now();
    const auto until = begin + std::chrono::duration_cast<Time::duration>(period * part);
    do {
      work();
    } while (Time::now() < until && control.phase() < Phase::drain);
    if (part < 1.0) std::this_thread::sleep_until(begin + period);
  }
}

}  // namespace

unsigned threads_of(const CoTenant& co_tenant) noexcept {
  if (co_tenant.kind != CoTenant::Kind::spin) return 1;
  const double others = co_tenant.strength / (1.0 - co_tenant.strength);
  return static_cast<unsigned>(std::clamp(std::round(others), 1.0, 16.0));
}

class CoTenantThread::Memory {
 public:
  Memory(std::uint64_t bytes, int node) : pool_(true) {
    const auto placement = node >= 0 ? numa::Placement::on(node) : numa::Placement{};
    const std::uint64_t chunks = std::max<std::uint64_t>(1, bytes / chunk_bytes);
    for (std::uint64_t i = 0; i < chunks; ++i) {
      chunks_.push_back(pool_.take(placement));
      for (std::size_t at = 0; at < chunk_bytes; at += 4096)
        chunks_.back().get()[at] = std::byte{1};
    }
  }
  /// The next 64 KiB, round and round.
  std::byte* next() noexcept {
    std::byte* const part = chunks_[chunk_].get() + at_;
    at_ += part_bytes;
    if (at_ == chunk_bytes) {
      at_ = 0;
      chunk_ = (chunk_ + 1) % chunks_.size();
    }
    return part;
  }
  static constexpr std::size_t part_bytes = std::size_t{64} << 10;

 private:
  ChunkPool pool_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t at_ = 0;
};

CoTenantThread::CoTenantThread(const CoTenant& co_tenant) : co_tenant_(co_tenant) {
  if (co_tenant.kind != CoTenant::Kind::spin) {
    memory_ = std::make_unique<Memory>(co_tenant.bytes, co_tenant.node);
  }
}

CoTenantThread::~CoTenantThread() = default;

std::uint64_t CoTenantThread::run(const Control& control) noexcept {
  std::uint64_t streamed = 0;
  switch (co_tenant_.kind) {
    case CoTenant::Kind::spin: {
      const double wanted = co_tenant_.strength / (1.0 - co_tenant_.strength);
      alternate(control, std::min(1.0, wanted / threads_of(co_tenant_)), [] { spin_once(); });
      break;
    }
    case CoTenant::Kind::cache_thrash:
      alternate(control, co_tenant_.strength, [&] {
        auto* const part = reinterpret_cast<volatile std::uint64_t*>(memory_->next());
        for (std::size_t i = 0; i < Memory::part_bytes / 8; i += line / 8) part[i] = part[i] + 1;
        if (control.phase() == Phase::measuring) streamed += Memory::part_bytes;
      });
      break;
    case CoTenant::Kind::memory_stream: {
      std::uint64_t sum = 0;
      alternate(control, co_tenant_.strength, [&] {
        const auto* const part = reinterpret_cast<const std::uint64_t*>(memory_->next());
        for (std::size_t i = 0; i < Memory::part_bytes / 8; ++i) sum += part[i];
        asm volatile("" : "+r"(sum));
        if (control.phase() == Phase::measuring) streamed += Memory::part_bytes;
      });
      break;
    }
  }
  return streamed;
}

}  // namespace pmoss::runtime
