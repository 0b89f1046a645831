// Which key a record has, and which slice serves a key. Every backend uses these two functions, so
// the hot slices of a workload instance are the same on the model, the simulator and the machine.
#pragma once

#include <cstdint>

#include "workload/random.hpp"

namespace pmoss {

/// The key of record number `record` in the workload instance `seed`: a bijection for each seed, so
/// keys are distinct, fill the whole 64-bit range and lie scattered. A Zipf rank used as a record
/// number therefore is YCSB's scrambled Zipf (P-MOSS §7.2; hot keys scatter over the slices).
constexpr std::uint64_t key_of_record(std::uint64_t record, std::uint64_t seed) noexcept {
  return mix64(record + mix64(seed));
}

/// The slice that serves `key`: `slices` key ranges of equal width (P-MOSS §3, mission row A8).
constexpr std::uint32_t slice_of_key(std::uint64_t key, std::uint32_t slices) noexcept {
  return static_cast<std::uint32_t>(scale64(key, slices));
}

/// The first key of a slice: the smallest key that slice_of_key() maps to it.
constexpr std::uint64_t first_key_of_slice(std::uint32_t slice, std::uint32_t slices) noexcept {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((((static_cast<wide>(slice) << 64) + slices - 1) / slices));
}

}  // namespace pmoss
