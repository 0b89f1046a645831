// Where each recorded line is: what the coherence protocol of the machine knows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pmoss::simulator {

/// A set of numbers as bits of words that lie elsewhere.
template <class Word>
class BasicBitSet {
 public:
  BasicBitSet(Word* words, std::size_t n) noexcept : words_(words), n_(n) {}

  static constexpr std::size_t words_for(std::size_t numbers) { return (numbers + 63) / 64; }

  bool holds(std::size_t i) const noexcept { return (words_[i / 64] >> i % 64 & 1) != 0; }
  void insert(std::size_t i) const noexcept { words_[i / 64] |= bit(i); }
  void erase(std::size_t i) const noexcept { words_[i / 64] &= ~bit(i); }
  void clear() const noexcept { std::fill_n(words_, n_, 0); }
  bool empty() const noexcept {
    std::uint64_t any = 0;
    for (std::size_t w = 0; w < n_; ++w) any |= words_[w];
    return any == 0;
  }
  /// Sets of the same numbers.
  template <class Other>
  bool meets(const BasicBitSet<Other>& other) const noexcept {
    std::uint64_t any = 0;
    for (std::size_t w = 0; w < n_; ++w) any |= words_[w] & other.words_[w];
    return any != 0;
  }

  /// Calls visit() with each number, in their order. It may erase from this set.
  template <class Visit>
  void for_each(Visit visit) const noexcept {
    for (std::size_t w = 0; w < n_; ++w) visit_word(w, words_[w], visit);
  }
  /// The same, with those that are in the other set as well.
  template <class Other, class Visit>
  void for_each_common(const BasicBitSet<Other>& other, Visit visit) const noexcept {
    for (std::size_t w = 0; w < n_; ++w) visit_word(w, words_[w] & other.words_[w], visit);
  }

 private:
  template <class>
  friend class BasicBitSet;

  static constexpr std::uint64_t bit(std::size_t i) noexcept { return std::uint64_t{1} << i % 64; }
  template <class Visit>
  static void visit_word(std::size_t w, std::uint64_t bits, Visit& visit) noexcept {
    for (; bits != 0; bits &= bits - 1) {
      visit(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }

  Word* words_;
  std::size_t n_;
};

using BitSet = BasicBitSet<std::uint64_t>;
using ConstBitSet = BasicBitSet<const std::uint64_t>;

/// The state of one line, without the caches that hold it.
struct LineState {
  static constexpr std::int16_t clean = -1;

  std::uint32_t locked_ns = 0;    ///< simulated time at which its node's lock is given back
  std::int16_t modified = clean;  ///< the domain whose copies differ from memory
  std::uint8_t home = 0;          ///< the node whose memory it lies in
  bool in_writers_l2 = false;     ///< modified, and not yet handed over by the L2 that did it
};

/// The states of all lines, and the sets of caches that hold each.
class Directory {
 public:
  static constexpr std::size_t max_cores = 1024, max_domains = 256;

  Directory(std::size_t cores, std::size_t domains)
      : domain_words_(BitSet::words_for(domains)),
        core_words_(BitSet::words_for(cores)),
        stride_(std::max(words_per_row, std::bit_ceil(domain_words_ + core_words_))) {}

  /// As many lines as there are homes; no cache holds any.
  void reset(std::span<const std::uint8_t> home_of_line) {
    states_.assign(home_of_line.size(), LineState{});
    for (std::size_t line = 0; line < home_of_line.size(); ++line) {
      states_[line].home = home_of_line[line];
    }
    sets_.assign(home_of_line.size() * stride_ / words_per_row, Row{});
  }

  LineState& state(std::uint32_t line) noexcept { return states_[line]; }
  /// The last-level domains that hold it.
  BitSet domains(std::uint32_t line) noexcept { return {row_of(line), domain_words_}; }
  /// The physical cores whose L2 holds it.
  BitSet sharers(std::uint32_t line) noexcept {
    return {row_of(line) + domain_words_, core_words_};
  }

  /// Has the host fetch what is known of a line.
  void prefetch(std::uint32_t line) const noexcept {
    __builtin_prefetch(&states_[line], 1);
    __builtin_prefetch(&sets_[line * stride_ / words_per_row], 1);
  }

 private:
  // So that the host's lines cut none of them in two: up to 128 cores and 64 domains.
  struct alignas(32) Row {
    std::array<std::uint64_t, 4> words{};
  };
  static constexpr std::size_t words_per_row = 4;

  std::uint64_t* row_of(std::uint32_t line) noexcept {
    return reinterpret_cast<std::uint64_t*>(sets_.data()) + line * stride_;
  }

  std::size_t domain_words_, core_words_;
  std::size_t stride_;  // words of a line's sets: a power of two
  std::vector<LineState> states_;
  std::vector<Row> sets_;
};

}  // namespace pmoss::simulator
