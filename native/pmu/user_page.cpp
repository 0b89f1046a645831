#include "pmu/user_page.hpp"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

#if defined(__x86_64__)
#include <x86intrin.h>
#elif defined(__aarch64__)
#include "numa/sysfs.hpp"
#endif

namespace pmoss::pmu {
namespace {

/// A clock tick in the units of the page; the product of 64 and 32 bits in two parts.
std::uint64_t to_ns(const perf_event_mmap_page& page, std::uint64_t ticks) noexcept {
  // A clock of fewer than 64 bits goes on from where the kernel last looked.
  if (page.cap_user_time_short != 0) {
    ticks = page.time_cycles + ((ticks - page.time_cycles) & page.time_mask);
  }
  const std::uint64_t whole = ticks >> page.time_shift;
  const std::uint64_t rest = ticks & ((std::uint64_t{1} << page.time_shift) - 1);
  return page.time_offset + whole * page.time_mult + ((rest * page.time_mult) >> page.time_shift);
}

template <typename T>
T fresh(const T& word) noexcept {
  return *static_cast<const volatile T*>(&word);
}

}  // namespace

bool UserPage::usable() const noexcept {
  return page_ && processor_.counter != nullptr && page_->cap_user_rdpmc != 0 &&
         page_->cap_user_time != 0;
}

bool UserPage::read(Value& value) const noexcept {
  const perf_event_mmap_page& page = *page_;
  for (;;) {
    const std::uint32_t sequence = fresh(page.lock);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // The kernel may take the right away at any time, as it may take the counter.
    const std::uint32_t number = fresh(page.index);
    if (number == 0 || page.cap_user_rdpmc == 0) return false;
    const unsigned unused = 64U - fresh(page.pmc_width);
    const std::int64_t offset = fresh(page.offset);
    const std::uint64_t enabled = fresh(page.time_enabled);
    const std::uint64_t running = fresh(page.time_running);
    const std::uint64_t since = to_ns(page, processor_.ticks());
    const std::uint64_t raw = processor_.counter(number - 1);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (fresh(page.lock) != sequence) continue;
    const auto counted = static_cast<std::int64_t>(raw << unused) >> unused;
    value = {static_cast<std::uint64_t>(offset + counted), enabled + since, running + since};
    return true;
  }
}

UserPage::Mapper system_mapper() {
  return [](int descriptor) -> UserPage::Page {
#if defined(__aarch64__)
    if (sysfs::read_integer("/proc/sys/kernel/perf_user_access") != 1) return nullptr;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return nullptr;
    return {static_cast<perf_event_mmap_page*>(memory),
            [bytes](perf_event_mmap_page* page) { ::munmap(page, bytes); }};
#else
    static_cast<void>(descriptor);
    return nullptr;
#endif
  };
}

#if defined(__aarch64__)
namespace {

// A register's number is part of the instruction that reads it.
template <std::uint32_t number>
std::uint64_t read_counter() noexcept {
  std::uint64_t value;
  if constexpr (number == 31) {
    asm volatile("isb\n\tmrs %0, pmccntr_el0" : "=r"(value));
  } else {
    // PMEVCNTR<number>_EL0
    asm volatile("isb\n\tmrs %0, s3_3_c14_c%1_%2"
                 : "=r"(value)
                 : "i"(8 + number / 8), "i"(number % 8));
  }
  return value;
}

template <std::uint32_t... numbers>
constexpr auto counter_readers(std::integer_sequence<std::uint32_t, numbers...>) {
  return std::array{&read_counter<numbers>...};
}

/// The kernel numbers the event counters from 0 on; the cycle counter is 31.
std::uint64_t arm_counter(std::uint32_t number) {
  constexpr auto readers = counter_readers(std::make_integer_sequence<std::uint32_t, 32>{});
  return number < readers.size() ? readers[number]() : 0;
}

}  // namespace
#endif

UserPage::Processor this_processor() noexcept {
#if defined(__x86_64__)
  return {[](std::uint32_t number) -> std::uint64_t {
            return static_cast<std::uint64_t>(__rdpmc(static_cast<int>(number)));
          },
          []() -> std::uint64_t { return __rdtsc(); }};
#elif defined(__aarch64__)
  return {&arm_counter, []() -> std::uint64_t {
            std::uint64_t value;
            asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(value));
            return value;
          }};
#else
  return {};
#endif
}

}  // namespace pmoss::pmu
