// Blocks of memory of one size that are reused. Fresh memory costs a page fault per page, several
// times the cost of writing it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pmoss::environment {

class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  /// A block on loan, which goes back to its pool at the end of its life. Keeps the pool alive.
  class Loan {
   public:
    Loan(std::shared_ptr<BlockPool> pool, std::unique_ptr<std::byte[]> block)
        : pool_(std::move(pool)), block_(std::move(block)) {}
    ~Loan() { pool_->give_back(std::move(block_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    std::byte* data() const { return block_.get(); }

   private:
    std::shared_ptr<BlockPool> pool_;
    std::unique_ptr<std::byte[]> block_;
  };

  /// Blocks of `bytes`; keeps at most `spare` unused ones.
  BlockPool(std::size_t bytes, std::size_t spare) : bytes_(bytes), spare_(spare) {
    free_.reserve(spare);
  }

  /// A block with the content of its last use.
  std::unique_ptr<Loan> take() {
    std::unique_ptr<std::byte[]> block;
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        block = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!block) block = std::make_unique_for_overwrite<std::byte[]>(bytes_);
    return std::make_unique<Loan>(shared_from_this(), std::move(block));
  }

 private:
  void give_back(std::unique_ptr<std::byte[]> block) noexcept {
    const std::scoped_lock lock(mutex_);
    if (free_.size() < spare_) free_.push_back(std::move(block));
  }

  std::size_t bytes_;
  std::size_t spare_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

}  // namespace pmoss::environment
