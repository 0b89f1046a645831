#include "kinds/plugin_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace pmoss::kinds {
namespace {

constexpr const char* entry = "pmoss_index_get_api";

/// What every library of this version has at least.
constexpr std::size_t required_bytes = offsetof(pmoss_index_api, lookup_batch);

}  // namespace

void PluginLibrary::Close::operator()(void* handle) const noexcept { ::dlclose(handle); }

PluginLibrary::PluginLibrary(const std::string& path) : path_(path) {
  // Its symbols stay its own: two libraries may bring functions of the same name.
  handle_.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle_) {
    const char* const why = ::dlerror();
    throw error(std::string("cannot be loaded: ") + (why != nullptr ? why : "no reason is given"));
  }
  void* const symbol = ::dlsym(handle_.get(), entry);
  if (symbol == nullptr) {
    throw error("exports no pmoss_index_get_api(): include pmoss/index.h and define it");
  }
  const auto get = reinterpret_cast<decltype(&pmoss_index_get_api)>(symbol);
  const pmoss_index_api* const api = get();
  if (api == nullptr) throw error("pmoss_index_get_api() gives NULL");
  if (api->abi != PMOSS_INDEX_ABI) {
    throw error("is for version " + std::to_string(api->abi) + " of pmoss/index.h, and this is " +
                std::to_string(PMOSS_INDEX_ABI) + ": build it again");
  }
  if (api->struct_size < required_bytes) {
    throw error("struct_size is " + std::to_string(api->struct_size) + " and must be at least " +
                std::to_string(required_bytes) + ": set it to sizeof(struct pmoss_index_api)");
  }
  std::memcpy(&api_, api, std::min<std::size_t>(api->struct_size, sizeof api_));
  const auto require = [this](bool given, const char* name) {
    if (!given) throw error(std::string(name) + " is missing (NULL)");
  };
  require(api_.name != nullptr, "name");
  require(api_.open != nullptr, "open");
  require(api_.close != nullptr, "close");
  require(api_.load != nullptr, "load");
  require(api_.lookup != nullptr, "lookup");
  require(api_.insert != nullptr, "insert");
  require(api_.update != nullptr, "update");
  require(api_.size != nullptr, "size");
  if (api_.open_words != nullptr) {
    require(api_.insert_words != nullptr, "insert_words");
    require(api_.update_words != nullptr, "update_words");
  }
}

PluginError PluginLibrary::error(const std::string& words) const {
  return PluginError("plugin '" + path_ + "': " + words);
}

}  // namespace pmoss::kinds
