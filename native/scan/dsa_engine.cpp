// Intel's Data Streaming Accelerator. Layouts follow the Intel DSA Architecture Specification,
// sections 5 (descriptors) and 8 (operations); paths follow the Linux idxd driver.
#include "scan/copy_engine.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>
#endif

namespace pmoss::scan {

#if defined(__x86_64__) && defined(__linux__)
namespace {

struct alignas(64) Descriptor {
  std::uint32_t pasid = 0;
  std::uint32_t flags_and_operation = 0;
  std::uint64_t completion = 0;
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  std::uint32_t bytes = 0;
  std::uint16_t interrupt = 0;
  std::uint16_t reserved_1 = 0;
  std::uint64_t reserved_2[3] = {};
};
static_assert(sizeof(Descriptor) == 64);

struct alignas(32) Completion {
  volatile std::uint8_t status = 0;  // the device writes it
  std::uint8_t result = 0;
  std::uint16_t reserved_1 = 0;
  std::uint32_t bytes_completed = 0;
  std::uint64_t fault_address = 0;
  std::uint64_t reserved_2[2] = {};
};
static_assert(sizeof(Completion) == 32);

constexpr std::uint32_t memory_move = 3U << 24;
constexpr std::uint32_t block_on_fault = 1U << 1;
constexpr std::uint32_t completion_is_valid = 1U << 2;
constexpr std::uint32_t completion_is_wanted = 1U << 3;
constexpr std::uint8_t success = 1;
constexpr std::uint8_t status_bits = 0x3f;  // the highest: whether a fault was a write
constexpr std::size_t portal_bytes = 4096;
constexpr int submission_attempts = 1 << 16;  // a shared queue may be full for a moment
/// Polls of a completion before the device is taken for dead: seconds, where a copy takes
/// microseconds.
constexpr std::uint64_t completion_polls = std::uint64_t{1} << 30;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool processor_can_submit(bool shared) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ecx >> (shared ? 29U : 28U) & 1U) != 0;  // ENQCMD, MOVDIR64B
}

/// True where the device took the descriptor; only a shared queue may refuse it.
bool submit_shared(void* portal, const Descriptor& descriptor) {
  bool retry = false;
  // enqcmd rdx, rax: named by its bytes, which older assemblers do not know.
  asm volatile(".byte 0xf2, 0x0f, 0x38, 0xf8, 0x02\n\tsetz %0"
               : "=r"(retry)
               : "a"(portal), "d"(&descriptor)
               : "memory", "cc");
  return !retry;
}

void submit_dedicated(void* portal, const Descriptor& descriptor) {
  // movdir64b rdx, rax
  asm volatile(".byte 0x66, 0x0f, 0x38, 0xf8, 0x02" : : "a"(portal), "d"(&descriptor) : "memory");
}

class DsaEngine final : public CopyEngine {
 public:
  DsaEngine(const std::filesystem::path& device, bool shared, std::size_t largest)
      : shared_(shared), largest_(largest) {
    const int file = ::open(device.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw EngineAbsent(device.string() + ": " + std::strerror(errno));
    portal_ = ::mmap(nullptr, portal_bytes, PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    const int failure = errno;
    ::close(file);
    if (portal_ == MAP_FAILED) {
      throw EngineAbsent(device.string() +
                         ": its portal cannot be mapped: " + std::strerror(failure));
    }
  }

  ~DsaEngine() override {
    stop();
    ::munmap(portal_, portal_bytes);
  }

  std::string_view name() const noexcept override { return "dsa"; }

  void start(std::byte* target, const std::byte* source, std::size_t bytes) override {
    if (under_way_ > 0) throw CopyError("a copy is under way already: wait() for it first");
    // A device takes so many bytes at once; the parts may end in any order.
    const std::size_t parts = (bytes + largest_ - 1) / largest_;
    if (completions_.size() < parts) completions_.resize(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t offset = i * largest_;
      completions_[i].status = 0;
      Descriptor descriptor;
      descriptor.flags_and_operation =
          memory_move | block_on_fault | completion_is_valid | completion_is_wanted;
      descriptor.completion = reinterpret_cast<std::uint64_t>(&completions_[i]);
      descriptor.source = reinterpret_cast<std::uint64_t>(source + offset);
      descriptor.target = reinterpret_cast<std::uint64_t>(target + offset);
      descriptor.bytes = static_cast<std::uint32_t>(std::min(bytes - offset, largest_));
      _mm_sfence();
      submit(descriptor);
      under_way_ = i + 1;
    }
  }

  void wait() override {
    const std::size_t parts = under_way_;
    std::uint8_t bad = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::uint8_t status = outcome(i);
      if (status != success) bad = status == 0 ? 0xff : status;
    }
    under_way_ = 0;
    if (bad == 0xff) throw CopyError("the accelerator does not answer");
    if (bad != 0) throw CopyError("the accelerator reports status " + std::to_string(bad));
  }

  void stop() noexcept override {
    for (std::size_t i = 0; i < under_way_; ++i) outcome(i);
    under_way_ = 0;
  }

 private:
  void submit(const Descriptor& descriptor) {
    if (!shared_) {
      submit_dedicated(portal_, descriptor);
      return;
    }
    for (int i = 0; i < submission_attempts; ++i) {
      if (submit_shared(portal_, descriptor)) return;
      _mm_pause();
    }
    throw CopyError("the accelerator's queue stays full");
  }

  std::uint8_t outcome(std::size_t part) const noexcept {
    for (std::uint64_t i = 0; i < completion_polls; ++i) {
      const std::uint8_t status = completions_[part].status & status_bits;
      if (status != 0) return status;
      _mm_pause();
    }
    return 0;
  }

  void* portal_ = nullptr;
  bool shared_;
  std::size_t largest_;
  std::vector<Completion> completions_;
  std::size_t under_way_ = 0;
};

}  // namespace

std::unique_ptr<CopyEngine> make_dsa_engine(const std::filesystem::path& root) {
  const std::filesystem::path devices = root / "sys/bus/dsa/devices";
  std::error_code error;
  std::vector<std::filesystem::path> queues;
  for (const auto& entry : std::filesystem::directory_iterator(devices, error)) {
    if (entry.path().filename().string().starts_with("wq")) queues.push_back(entry.path());
  }
  if (error) {
    throw EngineAbsent("no Intel Data Streaming Accelerator: " + devices.string() +
                       " does not exist (no device, or its driver idxd is not loaded)");
  }
  std::sort(queues.begin(), queues.end());
  std::string reason = devices.string() + " lists no work queue: configure one with accel-config";
  for (const auto& queue : queues) {
    const std::string name = queue.filename().string();
    const std::string state = first_line(queue / "state"), type = first_line(queue / "type");
    if (state != "enabled" || type != "user") {
      reason = "work queue " + name + " is " + state + ", of type " + type +
               ": it must be enabled, of type user (accel-config)";
      continue;
    }
    const bool shared = first_line(queue / "mode") == "shared";
    if (!processor_can_submit(shared)) {
      reason = "this processor has no instruction to fill work queue " + name;
      continue;
    }
    std::size_t largest = 0;
    try {
      largest = std::stoull(first_line(queue / "max_transfer_size"));
    } catch (const std::exception&) {
      largest = 0;
    }
    // The driver's default; what lies far above a block need not be asked for at once.
    constexpr std::size_t usual = std::size_t{2} << 20;
    largest = largest == 0 ? usual : std::min(largest, usual);
    try {
      return std::make_unique<DsaEngine>(root / "dev/dsa" / name, shared, largest);
    } catch (const EngineAbsent& absent) {
      reason = absent.what();
    }
  }
  throw EngineAbsent(reason);
}

#else

std::unique_ptr<CopyEngine> make_dsa_engine(const std::filesystem::path&) {
  throw EngineAbsent("no Intel Data Streaming Accelerator: this is no x86-64 Linux");
}

#endif

}  // namespace pmoss::scan
