// Counters outside of the cores: bandwidth of memory channels and links, where the host has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pmu/events.hpp"
#include "pmu/file_descriptor.hpp"

namespace pmoss::pmu {

/// Opens one event of a CPU, whichever thread runs there. Returns a file descriptor, or minus the
/// errno. Tests put their own function in place of the system call.
using CpuOpener = std::function<int(perf_event_attr& attributes, int cpu)>;
CpuOpener system_cpu_opener();

/// One quantity: the sum over all channels or links of a node or socket.
struct OffcoreQuantity {
  /// "node0_read_gb_per_s", "node0_write_gb_per_s", "node0_link_out_gb_per_s"; and where reads and
  /// writes are counted together "node0_memory_gb_per_s". "socket0_..." where the kernel does not
  /// say which of a socket's nodes a channel belongs to.
  std::string name;
  std::size_t events = 0;  ///< that are open
  int error_number = 0;    ///< why one could not be opened; then the quantity is not available
  std::string reason;

  bool available() const noexcept { return events > 0 && error_number == 0; }
};

/// Open events of memory controllers and links, as far as the kernel lists them (Intel:
/// uncore_imc_*; NVIDIA: nvidia_scf_pmu_*; Arm: arm_cmn_*) or this CPU's manual has their codes
/// (Intel: uncore_upi_*; AMD: amd_umc_*, Linux 6.7 and later, and before Zen 4 amd_df). A
/// controller is booked on the node of the CPU that the kernel names for it. Where a socket has
/// several nodes and the kernel names CPUs on only some of them, it is booked on the socket.
class OffcoreCounters {
 public:
  /// What the kernel tells of one event: all since it was opened.
  struct Counts {
    std::uint64_t value = 0;
    std::uint64_t enabled_ns = 0;
    std::uint64_t running_ns = 0;
  };

  /// Nothing on a host without such counters. Missing rights are no error either, but a reason.
  explicit OffcoreCounters(const std::filesystem::path& root = "/",
                           const CpuOpener& opener = system_cpu_opener(),
                           const CpuIdentity& cpu = this_cpu());

  const std::vector<OffcoreQuantity>& quantities() const noexcept { return quantities_; }

  /// One per open event.
  std::vector<Counts> read() const;
  /// Bytes of each quantity between two readings; 0 where it is not available. An event that shared
  /// its counter is scaled to the whole time.
  std::vector<double> bytes_between(const std::vector<Counts>& begin,
                                    const std::vector<Counts>& end) const;
  /// The quantities, without those of which an event did not run between two readings.
  std::vector<OffcoreQuantity> quantities_between(const std::vector<Counts>& begin,
                                                  const std::vector<Counts>& end) const;

 private:
  struct Source {
    std::size_t quantity;
    double bytes_per_count;
    FileDescriptor descriptor;
  };
  void open(const std::string& name, double bytes_per_count, int descriptor);

  std::vector<OffcoreQuantity> quantities_;
  std::vector<Source> sources_;
};

}  // namespace pmoss::pmu
