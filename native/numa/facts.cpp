#include "numa/facts.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "numa/control_groups.hpp"
#include "numa/sysfs.hpp"

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;
constexpr const char* unknown = "unknown";

std::string text_or_unknown(const fs::path& file) {
  auto text = sysfs::read_text(file);
  return text && !text->empty() ? *text : unknown;
}

// "always [madvise] never" -> "madvise"
std::string selected_mode(const std::string& text) {
  const auto open = text.find('[');
  const auto close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return text;
  return text.substr(open + 1, close - open - 1);
}

// The fields of the first processor. x86 and arm64 use different names.
std::map<std::string, std::string> first_processor(const fs::path& cpuinfo) {
  std::map<std::string, std::string> fields;
  const auto text = sysfs::read_text(cpuinfo);
  if (!text) return fields;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (sysfs::trim(line).empty()) break;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    fields.emplace(sysfs::trim(std::string_view(line).substr(0, colon)),
                   sysfs::trim(std::string_view(line).substr(colon + 1)));
  }
  return fields;
}

/// CPUs' time that one group gives.
double cpus_of_group(const fs::path& group, int version) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  double quota = 0.0, period = 0.0;
  if (version == 2) {
    // "250000 100000", or "max 100000"
    std::ifstream file(group / "cpu.max");
    if (!(file >> quota >> period)) return unlimited;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;  // -1: no limit
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0.0 && period > 0.0 ? quota / period : unlimited;
}

std::string cpu_limit(const fs::path& root) {
  double limit = std::numeric_limits<double>::infinity();
  sysfs::visit_groups(root, "cpu", [&](const fs::path& group, int version) {
    limit = std::min(limit, cpus_of_group(group, version));
  });
  if (std::isinf(limit)) return "none";
  std::ostringstream text;
  text << std::round(limit * 100.0) / 100.0;
  return text.str();
}

bool has_word(const std::string& text, const std::string& wanted) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

}  // namespace

HostFacts read_facts(const fs::path& root) {
  HostFacts facts;
  auto cpu = first_processor(root / "proc/cpuinfo");
  const auto field = [&](const char* name) {
    const auto at = cpu.find(name);
    return at != cpu.end() && !at->second.empty() ? at->second : std::string(unknown);
  };
  facts.cpu_model = field("model name");
  if (facts.cpu_model == unknown && cpu.contains("CPU part")) {
    facts.cpu_model =
        "implementer " + field("CPU implementer") + " part " + field("CPU part");  // arm64
  }
  facts.cpu_vendor = cpu.contains("vendor_id") ? field("vendor_id") : field("CPU implementer");
  const std::string flags = field("flags");
  facts.hypervisor = flags == unknown ? unknown : has_word(flags, "hypervisor") ? "yes" : "no";

  facts.kernel = text_or_unknown(root / "proc/sys/kernel/osrelease");
  facts.architecture = unknown;
  if (utsname name{}; uname(&name) == 0) {
    facts.architecture = name.machine;
    if (facts.kernel == unknown) facts.kernel = name.release;
  }
  facts.numa_balancing = text_or_unknown(root / "proc/sys/kernel/numa_balancing");
  facts.transparent_hugepages =
      selected_mode(text_or_unknown(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  facts.perf_event_paranoid = text_or_unknown(root / "proc/sys/kernel/perf_event_paranoid");
  facts.cpu_limit = cpu_limit(root);
  facts.governor = text_or_unknown(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return facts;
}

}  // namespace pmoss::numa
