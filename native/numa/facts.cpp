#include "numa/facts.hpp"

#include <sys/utsname.h>

#include <map>
#include <sstream>

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
  facts.governor = text_or_unknown(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return facts;
}

}  // namespace pmoss::numa
