#include "index/slice_migration.hpp"

#include <stdexcept>
#include <string>

namespace pmoss {

SliceMigration::SliceMigration(SliceMemory& memory, RetiredArenas& retired, std::uint32_t slice,
                               const numa::Placement& to)
    : memory_(memory), slice_(slice), retired_(retired) {
  retired.reclaim();
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

bool SliceMigration::step(std::size_t nodes) {
  if (!done_ && !move(nodes)) {
    memory_.retire(retired_);
    done_ = true;
  }
  return !done_;
}

}  // namespace pmoss
