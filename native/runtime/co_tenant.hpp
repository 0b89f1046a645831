// Co-tenants: threads that take processor time, caches or memory bandwidth from the index.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/control.hpp"

namespace pmoss::runtime {

struct CoTenant {
  enum class Kind : std::uint8_t {
    spin,           ///< arithmetic without memory: takes the core, or its SMT sibling's units
    cache_thrash,   ///< sweeps `bytes` of memory, twice the cache say, and writes every line
    memory_stream,  ///< reads `bytes` of memory, far more than any cache, from end to end
  };
  Kind kind = Kind::spin;
  int cpu = 0;  ///< that it is bound to
  /// The part of the time that it works: of a core it shares with one thread of equal weight for a
  /// spinning one (0.5: always runnable), of its own time for the others. Above 0, below 1.
  double strength = 0.5;
  std::uint64_t bytes = std::uint64_t{64} << 20;
  int node = -1;  ///< of its memory; -1: where it is touched first
};

/// How many threads a co-tenant needs: a core is shared evenly, so a spinning one takes more than
/// half of it only with company.
unsigned threads_of(const CoTenant& co_tenant) noexcept;

/// One thread of a co-tenant. Built and run on that thread, once it is bound to its CPU.
class CoTenantThread {
 public:
  /// Takes its memory and touches it. Throws std::bad_alloc.
  explicit CoTenantThread(const CoTenant& co_tenant);
  ~CoTenantThread();
  CoTenantThread(const CoTenantThread&) = delete;
  CoTenantThread& operator=(const CoTenantThread&) = delete;

  /// Until the drain begins; returns the bytes that were streamed while queries were counted.
  std::uint64_t run(const Control& control) noexcept;

 private:
  class Memory;
  CoTenant co_tenant_;
  std::unique_ptr<Memory> memory_;  ///< null if it needs none
};

}  // namespace pmoss::runtime
