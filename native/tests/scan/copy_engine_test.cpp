#include "scan/copy_engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pmoss::scan {
namespace {

std::string why_absent(const std::filesystem::path& root) {
  try {
    make_dsa_engine(root);
  } catch (const EngineAbsent& absent) {
    return absent.what();
  }
  return "";
}

/// A tree as the idxd driver shows it.
class DsaTree : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    root = std::filesystem::temp_directory_path() /
           (std::string("pmoss-dsa-") + test->name() + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(root);
#if !defined(__x86_64__)
    // Only Intel's processors have the engine, so no tree is looked at.
    EXPECT_NE(why_absent(root).find("no x86-64"), std::string::npos);
    GTEST_SKIP() << why_absent(root);
#endif
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void add_queue(const std::string& state, const std::string& type) const {
    const auto queue = root / "sys/bus/dsa/devices/wq0.0";
    std::filesystem::create_directories(queue);
    std::ofstream(queue / "state") << state << "\n";
    std::ofstream(queue / "type") << type << "\n";
    std::ofstream(queue / "mode") << "dedicated\n";
  }

  std::filesystem::path root;
};

TEST(ThreadEngineConcurrent, CopiesBlockAfterBlock) {
  const auto engine = make_thread_engine();
  EXPECT_EQ(engine->name(), "thread");
  std::vector<std::byte> source(1 << 16), target(1 << 16);
  for (int round = 0; round < 50; ++round) {
    source[static_cast<std::size_t>(round)] = std::byte{0xab};
    engine->start(target.data(), source.data(), source.size());
    engine->wait();
    ASSERT_EQ(target, source);
  }
  engine->start(target.data(), source.data(), 0);
  engine->stop();
}

TEST(ThreadEngineConcurrent, MayBeDroppedWhileItCopies) {
  std::vector<std::byte> source(1 << 22), target(1 << 22);
  make_thread_engine()->start(target.data(), source.data(), source.size());
}

TEST(ThreadEngineConcurrent, RefusesACpuThatIsNotThere) {
  EXPECT_THROW(make_thread_engine(100'000), std::exception);
}

TEST_F(DsaTree, WithoutADriverTheEngineIsAbsent) {
  EXPECT_NE(why_absent(root).find("idxd"), std::string::npos);
}

TEST_F(DsaTree, AQueueThatIsNotForUsersIsNamed) {
  add_queue("enabled", "kernel");
  const std::string reason = why_absent(root);
  EXPECT_NE(reason.find("wq0.0 is enabled, of type kernel"), std::string::npos) << reason;
}

TEST_F(DsaTree, AQueueWithoutItsDeviceIsAbsent) {
  add_queue("enabled", "user");
  // Where the processor cannot submit at all, that is the reason.
  const std::string reason = why_absent(root);
  const bool named = reason.find("dev/dsa/wq0.0") != std::string::npos ||
                     reason.find("no instruction") != std::string::npos;
  EXPECT_TRUE(named) << reason;
}

}  // namespace
}  // namespace pmoss::scan
