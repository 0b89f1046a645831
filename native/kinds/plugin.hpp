// Users' libraries as kinds of index.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pmoss::kinds {

/// Before the path of a library in the name of a kind.
inline constexpr const char* plugin_prefix = "plugin:";

/// Makes a kind of a library: "plugin:PATH". Its code runs when the kind is served, not before.
/// Registering a kind twice changes nothing. Throws std::invalid_argument for a path that is not
/// absolute. Not while another thread asks for kinds.
std::string register_plugin(const std::string& path);

/// What check_plugin() does.
struct PluginCheck {
  std::uint64_t operations = 200'000;  ///< of each thread
  unsigned threads = 4;
  std::uint64_t seed = 0;
  /// Takes the operations done so far, and all of them. One thread at a time calls it.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = {};
};

/// Runs random operations on an index of the library and holds every answer against a model: first
/// one thread alone, then all at once. Each has keys of its own, and reads those of the others.
/// Then all work on the same keys. Looks for leaks, processes and changed CPUs as well. Returns
/// what it did, a line each. Throws PluginError at the first thing that is wrong.
std::vector<std::string> check_plugin(const std::string& path, const PluginCheck& check);

}  // namespace pmoss::kinds
