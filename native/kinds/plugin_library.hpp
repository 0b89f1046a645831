// A shared library of a user with an index in it (include/pmoss/index.h).
#pragma once

#include <pmoss/index.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace pmoss::kinds {

/// A library that cannot be used, or an index in one that failed or answered wrongly. what() names
/// the library.
class PluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A loaded library. Its own code runs when it is loaded, and from then on.
class PluginLibrary {
 public:
  /// Throws PluginError where the file is no library, exports no pmoss_index_get_api(), was built
  /// for another version, or lacks a function.
  explicit PluginLibrary(const std::string& path);
  /// Functions of this program in the place of a library.
  explicit PluginLibrary(const pmoss_index_api& api) : path_(api.name), api_(api) {}

  const std::string& path() const noexcept { return path_; }
  /// Members that the library was built without are null.
  const pmoss_index_api& api() const noexcept { return api_; }
  /// "plugin 'PATH': " and the words.
  PluginError error(const std::string& words) const;

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };

  std::string path_;
  std::unique_ptr<void, Close> handle_;
  pmoss_index_api api_{};
};

}  // namespace pmoss::kinds
