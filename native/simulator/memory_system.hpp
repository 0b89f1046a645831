// The caches of all cores, the coherence between them, and the memory behind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/machine.hpp"
#include "simulator/contention.hpp"
#include "simulator/directory.hpp"
#include "simulator/set_associative_cache.hpp"

namespace pmoss::simulator {

/// One touch, and the memory or cache that served it.
struct Served {
  enum class By : std::uint8_t { l2, domain, modified_elsewhere, memory };
  By by;
  double ns;       ///< latency as far as it is beyond the L2, of all but memory
  double dram_ns;  ///< latency of memory under load; 0 unless memory set the latency
};

/// Private L2 caches and last-level domains with exact LRU. A physical core has one L2, shared by
/// its hardware threads. Caches are smaller by the factor `line_sampling`, as 1 line in that many
/// is recorded. The first level is not modelled: its hits are part of the time that instructions
/// take.
///
/// A line is clean, or modified in one domain. Reading a line that is modified in another domain
/// writes it back to its home (MESI); writing takes it over. A victim domain takes what its L2s
/// evict, and a hit moves the line to the L2; an inclusive one holds all that its L2s hold. A line
/// that an L2 has modified comes from that L2 when another core of its domain first asks. Its
/// latency is that of modified lines in the domain; on a mesh the nearest L2 that holds the line
/// hands it over. Dirty lines are written back when the last copy leaves their domain.
class MemorySystem {
 public:
  /// Throws std::invalid_argument for more physical cores or domains than the directory can hold.
  static void check(const Machine& machine);

  /// For a machine that passes check().
  MemorySystem(const Machine& machine, std::uint32_t line_sampling);

  /// Empties everything; line i has its home at node home_of_line[i].
  void reset(std::span<const std::uint8_t> home_of_line, const Interference& interference);

  Served read(std::size_t thread, std::uint32_t line) noexcept;
  /// What is waited for is the slower of the line itself and the invalidation of other copies.
  Served write(std::size_t thread, std::uint32_t line) noexcept;

  /// Brings `lines` into a domain that are never used again.
  void pollute(std::size_t domain, std::uint64_t lines) noexcept;

  /// The line's data are at another node, under another address: no cache holds it.
  void rehome(std::uint32_t line, std::uint8_t home) noexcept;

  std::size_t physical_cores() const noexcept { return physical_cores_; }
  std::size_t physical_of(std::size_t thread) const noexcept { return physical_of_[thread]; }
  LineState& state(std::uint32_t line) noexcept { return lines_.state(line); }
  Directory& directory() noexcept { return lines_; }
  /// Has the host fetch what a touch of the line by that core will read.
  void prefetch(std::size_t physical, std::uint32_t line) const noexcept {
    lines_.prefetch(line);
    l2_.prefetch(physical, line);
  }
  bool l2_holds(std::size_t thread, std::uint32_t line) const noexcept {
    return l2_.contains(physical_of_[thread], line);
  }
  bool domain_holds(std::size_t domain, std::uint32_t line) const noexcept {
    return llc_.contains(domain, line);
  }
  Contention& contention() noexcept { return contention_; }
  const Contention& contention() const noexcept { return contention_; }

 private:
  std::size_t domain_of(std::size_t physical, std::size_t home) const noexcept {
    return domain_of_[physical * nodes_ + home];
  }
  ConstBitSet l2s_of(std::size_t domain, std::size_t home) const noexcept {
    return {&l2s_of_[(domain * nodes_ + home) * core_words_], core_words_};
  }
  Served fetch(std::size_t thread, std::uint32_t line, bool writes) noexcept;
  /// Until another domain has handed over its modified line, or given up its copy.
  double from_domain_ns(std::size_t physical, std::size_t holder) const noexcept;
  /// Until an L2 of the own domain has handed over a modified line.
  double handed_over_ns(std::size_t physical, std::size_t domain, std::uint32_t line) noexcept;
  double invalidate_others(std::size_t physical, std::uint32_t line) noexcept;
  void insert_into_l2(std::size_t physical, std::uint32_t line) noexcept;
  void insert_into_domain(std::size_t domain, std::uint32_t line) noexcept;
  void left_domain(std::size_t domain, std::uint32_t line) noexcept;

  // Numbers from here on belong to co-tenants' lines.
  static constexpr std::uint32_t first_foreign = std::uint32_t{1} << 30;

  std::size_t nodes_, domains_, physical_cores_, core_words_;
  bool inclusive_;
  double l2_ns_, home_reader_ns_;
  std::vector<std::size_t> physical_of_;       // of each hardware thread, without gaps
  std::vector<std::size_t> node_of_physical_;  //
  std::vector<std::size_t> own_domain_;        // of each physical core, for memory of its own node
  std::vector<std::size_t> socket_of_node_, socket_of_domain_;
  std::vector<std::size_t> domain_of_;  // [physical core][home]
  std::vector<std::uint64_t> l2s_of_;   // [domain][home][word]: whose lines the domain caches
  std::vector<double> modified_ns_;     // [reader's domain][owner's domain]
  std::vector<double> mesh_ns_, llc_extra_ns_;  // per physical core; see Machine::mesh_ns
  std::vector<double> mesh_modified_ns_;        // [reader][owner], physical cores; maybe empty
  SetAssociativeCache l2_, llc_;
  Contention contention_;
  Directory lines_;
  std::uint32_t next_foreign_ = 0;
};

}  // namespace pmoss::simulator
