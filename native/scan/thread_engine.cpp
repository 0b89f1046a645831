// The copy engine that every host has: a second thread.
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "numa/affinity.hpp"
#include "scan/copy_engine.hpp"

namespace pmoss::scan {
namespace {

class ThreadEngine final : public CopyEngine {
 public:
  explicit ThreadEngine(int cpu) : thread_([this, cpu] { serve(cpu); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
    if (failure_) {
      lock.unlock();
      thread_.join();
      std::rethrow_exception(failure_);
    }
  }

  ~ThreadEngine() override {
    if (!thread_.joinable()) return;
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::string_view name() const noexcept override { return "thread"; }

  void start(std::byte* target, const std::byte* source, std::size_t bytes) override {
    {
      const std::scoped_lock lock(mutex_);
      if (busy_) throw CopyError("a copy is under way already: wait() for it first");
      target_ = target;
      source_ = source;
      bytes_ = bytes;
      busy_ = true;
    }
    changed_.notify_all();
  }

  void wait() override { stop(); }

  void stop() noexcept override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void serve(int cpu) {
    std::unique_lock lock(mutex_);
    try {
      if (cpu >= 0) numa::pin_thread(cpu);
    } catch (...) {
      failure_ = std::current_exception();
    }
    ready_ = true;
    changed_.notify_all();
    while (!failure_) {
      changed_.wait(lock, [this] { return busy_ || ending_; });
      if (!busy_) return;
      lock.unlock();
      if (bytes_ > 0) std::memcpy(target_, source_, bytes_);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::byte* target_ = nullptr;
  const std::byte* source_ = nullptr;
  std::size_t bytes_ = 0;
  bool busy_ = false, ready_ = false, ending_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<CopyEngine> make_thread_engine(int cpu) {
  return std::make_unique<ThreadEngine>(cpu);
}

}  // namespace pmoss::scan
