#include "kinds/served_keys.hpp"

#include <utility>

namespace pmoss::kinds {
namespace {

class Stream final : public runtime::QueryStream {
 public:
  Stream(OperationGenerator generator, const WorkloadSpec& spec, std::uint32_t slices)
      : generator_(std::move(generator)),
        key_spacing_(~std::uint64_t{0} / spec.records),
        slices_(slices) {}

  Operation next() noexcept override { return generator_.next(); }

  runtime::Candidates candidates(const Operation& operation) const noexcept override {
    const std::uint32_t slice = slice_of_key(operation.key, slices_);
    if (operation.kind != Operation::Kind::scan) return {slice};
    // Keys lie evenly over their range, which predicts where the scan will end.
    const std::uint64_t left = ~operation.key;
    const std::uint64_t length =
        operation.scan_length > left / key_spacing_ ? left : operation.scan_length * key_spacing_;
    return {slice, slice_of_key(operation.key + length, slices_) - slice + 1};
  }

 private:
  OperationGenerator generator_;
  std::uint64_t key_spacing_;
  std::uint32_t slices_;
};

}  // namespace

std::unique_ptr<runtime::QueryStream> stream_of_keys(OperationGenerator generator,
                                                     const WorkloadSpec& spec,
                                                     std::uint32_t slices) {
  return std::make_unique<Stream>(std::move(generator), spec, slices);
}

}  // namespace pmoss::kinds
