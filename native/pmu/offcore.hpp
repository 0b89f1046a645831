// Counters outside of the cores: bandwidth of memory channels and links, where the host has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pmu/file_descriptor.hpp"

struct perf_event_attr;

namespace pmoss::pmu {

/// Opens one event of a CPU, whichever thread runs there. Returns a file descriptor, or minus the
/// errno. Tests put their own function in place of the system call.
using CpuOpener = std::function<int(perf_event_attr& attributes, int cpu)>;
CpuOpener system_cpu_opener();

/// One quantity: the sum over all channels or links of a node.
struct OffcoreQuantity {
  std::string name;  ///< "node0_read_gb_per_s", "node0_write_gb_per_s", "node0_link_out_gb_per_s"
  std::size_t events = 0;  ///< that are open
  int error_number = 0;    ///< why one could not be opened; then the quantity is not available
  std::string reason;

  bool available() const noexcept { return events > 0 && error_number == 0; }
};

/// Open events of memory controllers and links (Intel: uncore_imc_*, uncore_upi_*; AMD: amd_umc_*,
/// Linux 6.7 and later). A controller is booked on the node of the CPU that the kernel names for
/// it; with several nodes per socket that may be the socket's first.
class OffcoreCounters {
 public:
  /// Nothing on a host without such counters. Missing rights are no error either, but a reason.
  explicit OffcoreCounters(const std::filesystem::path& root = "/",
                           const CpuOpener& opener = system_cpu_opener());

  const std::vector<OffcoreQuantity>& quantities() const noexcept { return quantities_; }

  /// Bytes so far of each quantity; 0 where it is not available. They grow for ever.
  std::vector<double> read_bytes() const;

 private:
  struct Source {
    std::size_t quantity;
    double bytes_per_count;
    FileDescriptor descriptor;
  };
  std::vector<OffcoreQuantity> quantities_;
  std::vector<Source> sources_;
};

}  // namespace pmoss::pmu
