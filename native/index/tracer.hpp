// Receivers of the cache lines that the index touches: none, or a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pmoss {

/// The cache lines that operations on an index touch, in order. A line is logged when it is first
/// read and when it is first written; further touches find it in the first-level cache. The log
/// remembers as many lines as that cache holds. So one operation on a few nodes logs each line once
/// or, if it writes what it has read, twice.
class TouchLog {
 public:
  /// One touch.
  class Entry {
   public:
    constexpr Entry(std::uint64_t line, bool writes, bool streams, bool locks) noexcept
        : bits_(line << 3 | (writes ? 4 : 0) | (streams ? 2 : 0) | (locks ? 1 : 0)) {}

    std::uint64_t line() const noexcept { return bits_ >> 3; }  ///< address / 64
    bool writes() const noexcept { return (bits_ & 4) != 0; }
    /// Fetched ahead of its use or beside others; else what follows had to wait for it.
    bool streams() const noexcept { return (bits_ & 2) != 0; }
    bool locks() const noexcept { return (bits_ & 1) != 0; }

   private:
    std::uint64_t bits_;
  };

  static constexpr unsigned line_shift = 6;
  /// Touches between two calls of clear(); what comes after them is lost, and overflowed() says so.
  static constexpr std::size_t capacity = std::size_t{1} << 18;

  TouchLog();

  /// Forgets everything.
  void clear() noexcept;

  std::span<const Entry> entries() const noexcept { return entries_; }
  bool overflowed() const noexcept { return overflowed_; }

  void add(const void* address, std::size_t bytes, bool writes, bool streams, bool locks) noexcept {
    if (bytes == 0) return;
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const std::uint64_t last = (start + bytes - 1) >> line_shift;
    for (std::uint64_t line = start >> line_shift; line <= last; ++line) {
      add_line(line, writes, streams, locks);
    }
  }

 private:
  struct Seen {
    std::uint64_t line = 0;
    std::uint32_t epoch = 0;  // of another epoch: the place is free
    bool written = false;
  };
  static constexpr std::size_t places = 1024;
  static constexpr std::size_t remembered = 512;  // lines: a first-level cache of 32 KiB

  void add_line(std::uint64_t line, bool writes, bool streams, bool locks) noexcept;
  void forget_lines() noexcept;

  std::vector<Entry> entries_;
  std::vector<Seen> seen_;
  std::uint32_t epoch_ = 1;
  std::size_t lines_ = 0;
  bool overflowed_ = false;
};

namespace index_detail {

/// For the index as it runs on hardware: compiles to nothing.
struct Untraced {
  static void reads(const void*, std::size_t) noexcept {}
  static void reads_ahead(const void*, std::size_t) noexcept {}
  static void writes(const void*, std::size_t) noexcept {}
  static void locks(const void*, std::size_t) noexcept {}
};

/// Logs what the same code touches.
class Traced {
 public:
  explicit Traced(TouchLog& log) noexcept : log_(&log) {}

  /// What follows needs the data.
  void reads(const void* address, std::size_t bytes) const noexcept {
    log_->add(address, bytes, false, false, false);
  }
  /// Fetched early, in a run of lines, or together with a line that is waited for anyway.
  void reads_ahead(const void* address, std::size_t bytes) const noexcept {
    log_->add(address, bytes, false, true, false);
  }
  /// Nothing waits for a store.
  void writes(const void* address, std::size_t bytes) const noexcept {
    log_->add(address, bytes, true, true, false);
  }
  /// A compare-and-swap of a version.
  void locks(const void* address, std::size_t bytes) const noexcept {
    log_->add(address, bytes, true, false, true);
  }

 private:
  TouchLog* log_;
};

}  // namespace index_detail
}  // namespace pmoss
