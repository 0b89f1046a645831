#include "pmu/event_names.hpp"

#include <dlfcn.h>
#include <linux/perf_event.h>

#include <cstddef>

namespace pmoss::pmu {
namespace {

// What libpfm4 takes and fills in; its layout has been the same since version 4.2.
struct EncodeArgument {
  perf_event_attr* attributes;
  char** full_name;
  std::size_t size;
  int index;
  int cpu;
  int flags;
  int padding;
};
constexpr int os_perf_event = 1;
constexpr int user_and_kernel = 0x8 | 0x1;

NameEncoder load() {
  // Never closed: the encoder lives as long as the program.
  void* const library = ::dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  using Initialize = int (*)();
  using Encode = int (*)(const char*, int, int, void*);
  const auto initialize = reinterpret_cast<Initialize>(::dlsym(library, "pfm_initialize"));
  const auto encode = reinterpret_cast<Encode>(::dlsym(library, "pfm_get_os_event_encoding"));
  if (initialize == nullptr || encode == nullptr || initialize() != 0) return {};
  return [encode](const std::string& name, perf_event_attr& attributes) {
    perf_event_attr result{};
    result.size = sizeof result;
    EncodeArgument argument{};
    argument.attributes = &result;
    argument.size = sizeof argument;
    if (encode(name.c_str(), user_and_kernel, os_perf_event, &argument) != 0) return false;
    attributes.type = result.type;
    attributes.config = result.config;
    attributes.config1 = result.config1;
    attributes.config2 = result.config2;
    return true;
  };
}

}  // namespace

const NameEncoder& libpfm_encoder() {
  static const NameEncoder encoder = load();
  return encoder;
}

}  // namespace pmoss::pmu
