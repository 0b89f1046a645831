// Reading a counter without a system call, from the page that the kernel shares for an open event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

struct perf_event_mmap_page;

namespace pmoss::pmu {

/// Reads the page by the protocol of perf_event_open(2): a sequence lock around the offset, the
/// number of the counter and the clock, with the register read in between. Only by the thread that
/// is counted.
class UserPage {
 public:
  /// What the protocol needs from the processor; tests put their own in place.
  struct Processor {
    std::uint64_t (*counter)(std::uint32_t number);  ///< x86: rdpmc; Arm: PMEVCNTR<n>, PMCCNTR
    std::uint64_t (*ticks)();                        ///< x86: rdtsc; Arm: CNTVCT
  };
  using Page = std::shared_ptr<perf_event_mmap_page>;
  /// Maps the page of a descriptor; null where that cannot be done.
  using Mapper = std::function<Page(int descriptor)>;

  struct Value {
    std::uint64_t count;
    std::uint64_t enabled_ns;
    std::uint64_t running_ns;
  };

  UserPage() = default;
  UserPage(Page page, const Processor& processor) noexcept
      : page_(std::move(page)), processor_(processor) {}

  /// Whether the kernel lets this process read the event's counter and its clock.
  bool usable() const noexcept;
  /// False while the event is on no counter: then only the kernel has the count.
  bool read(Value& value) const noexcept;

 private:
  Page page_;
  Processor processor_{};
};

/// The event's page on x86, and on Arm where kernel.perf_user_access is 1.
UserPage::Mapper system_mapper();
UserPage::Processor this_processor() noexcept;

}  // namespace pmoss::pmu
