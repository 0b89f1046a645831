// What copies memory while the processor does something else.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pmoss::scan {

/// A copy that did not end well; what was to be copied is untouched at its source.
class CopyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The engine is not there, or this process may not use it; the message says why.
class EngineAbsent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Takes one copy at a time. Not for use by two threads at once.
class CopyEngine {
 public:
  CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
  virtual ~CopyEngine() = default;

  virtual std::string_view name() const noexcept = 0;
  /// Starts a copy and returns at once. The memory must stay until wait() or stop() has returned.
  /// Throws CopyError if it cannot be started.
  virtual void start(std::byte* target, const std::byte* source, std::size_t bytes) = 0;
  /// Returns when the copy that was started is complete; throws CopyError if it failed.
  virtual void wait() = 0;
  /// Returns when nothing is under way any more, however it ended.
  virtual void stop() noexcept = 0;
};

/// A helper thread that copies, bound to a CPU unless that is -1. Throws numa::AffinityError.
std::unique_ptr<CopyEngine> make_thread_engine(int cpu = -1);

/// Intel's Data Streaming Accelerator, through the first work queue below `root` that is enabled
/// for user space. Throws EngineAbsent.
std::unique_ptr<CopyEngine> make_dsa_engine(const std::filesystem::path& root = "/");

/// `name` is "thread" or "dsa". Throws std::invalid_argument for another, and what these throw.
std::unique_ptr<CopyEngine> make_engine(const std::string& name, int cpu = -1);

}  // namespace pmoss::scan
