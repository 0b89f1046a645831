#include "index/slice_migration.hpp"

#include <stdexcept>
#include <string>

namespace pmoss {

SliceMigration::SliceMigration(SliceMemory& memory, std::uint32_t slice, const numa::Placement& to)
    : memory_(memory), slice_(slice) {
  if (!memory.begin_migration()) {
    throw std::logic_error("slice " + std::to_string(slice) + " is being moved already");
  }
  try {
    target_ = &memory.enter(to);
  } catch (...) {
    memory.end_migration();
    throw;
  }
}

SliceMigration::~SliceMigration() { memory_.end_migration(); }

std::vector<std::unique_ptr<SliceArena>> SliceMigration::take_retired() {
  return done_ ? memory_.retire() : std::vector<std::unique_ptr<SliceArena>>{};
}

}  // namespace pmoss
