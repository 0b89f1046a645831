#include "threads/key_value_load.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include "numa/available_memory.hpp"
#include "workload/random.hpp"

namespace pmoss::threads {
namespace {

constexpr std::size_t lock_count = 1024;
constexpr int bind_strictly = 2;  // MPOL_BIND of linux/mempolicy.h

void check(bool good, const std::string& what) {
  if (!good) throw std::invalid_argument(what);
}

void bind_to_node(void* address, std::size_t bytes, int node) {
  constexpr std::size_t bits = 64;
  std::vector<unsigned long> mask(static_cast<std::size_t>(node) / bits + 1, 0UL);
  mask.back() = 1UL << (static_cast<std::size_t>(node) % bits);
  // The kernel uses one bit fewer than the given number.
  const unsigned long length = mask.size() * bits + 1;
  if (::syscall(SYS_mbind, address, bytes, bind_strictly, mask.data(), length, 0UL) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot put values on node " + std::to_string(node));
  }
}

void require_on_node(double bytes, int node, const std::string& what) {
  const auto available = numa::available_on_node(node);
  check(!available || bytes <= static_cast<double>(*available),
        what + ": node " + std::to_string(node) + " has room for " +
            std::to_string(available.value_or(0)) + " bytes: take fewer or smaller ones");
}

}  // namespace

void Unmap::operator()(std::byte* values) const noexcept { ::munmap(values, bytes); }

KeyValueLoad::KeyValueLoad(const LoadOptions& options) : options_(options), locks_(lock_count) {
  check(options.threads >= 1,
        "threads = " + std::to_string(options.threads) + ": must be at least 1");
  check(options.keys >= 1, "keys = 0: must be at least 1");
  check(options.value_bytes >= sizeof(std::uint64_t),
        "value_bytes = " + std::to_string(options.value_bytes) + ": must be at least 8");
  check(options.write_share >= 0.0 && options.write_share <= 1.0,
        "write_share = " + std::to_string(options.write_share) + ": must be from 0 to 1");
  check(options.node >= -1, "node = " + std::to_string(options.node) + ": must be a node or -1");
  const std::size_t bytes = options.keys * options.value_bytes;
  check(bytes / options.keys == options.value_bytes, "keys x value_bytes: is too large");
  const std::string what = std::to_string(options.keys) + " values";
  // The table of the keys lies anywhere.
  const double table = static_cast<double>(std::bit_ceil(2 * options.keys)) * sizeof(Entry);
  numa::require_memory(static_cast<double>(bytes) + table, what, "take fewer or smaller ones");
  if (options.node >= 0) require_on_node(static_cast<double>(bytes), options.node, what);
  // Writable once it is placed: no huge page of a neighbour covers a part of it before.
  void* const memory =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot map " + std::to_string(bytes) + " bytes of values");
  }
  values_ = std::unique_ptr<std::byte[], Unmap>(static_cast<std::byte*>(memory), Unmap{bytes});
  if (options.node >= 0) bind_to_node(memory, bytes, options.node);
  if (::mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot map " + std::to_string(bytes) + " bytes of values");
  }

  table_.resize(std::bit_ceil(2 * options.keys));
  for (std::uint64_t number = 0; number < options.keys; ++number) {
    const Key key = key_of(number);
    std::size_t slot = mix64(key.low) & (table_.size() - 1);
    while (table_[slot].value != empty) slot = (slot + 1) & (table_.size() - 1);
    table_[slot] = {key, number};
    std::byte* const value = values_.get() + number * options.value_bytes;
    std::memset(value, static_cast<int>(number & 0xff), options.value_bytes);
    std::memcpy(value, &key.low, sizeof key.low);
  }
  for (int i = 0; i < options.threads; ++i) workers_.push_back(std::make_unique<Worker>());
}

KeyValueLoad::~KeyValueLoad() { stop(); }

KeyValueLoad::Key KeyValueLoad::key_of(std::uint64_t number) const noexcept {
  return {mix64(number ^ options_.seed), mix64(~number ^ options_.seed)};
}

std::uint64_t KeyValueLoad::find(const Key& key) const noexcept {
  std::size_t slot = mix64(key.low) & (table_.size() - 1);
  while (table_[slot].value != empty && !(table_[slot].key == key)) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  return table_[slot].value;
}

void KeyValueLoad::start() {
  check(threads_.empty(), "start(): the load was started before");
  active_ = options_.threads;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] { serve(i); });
    const std::string name = "kv-" + std::to_string(i);
    ::pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

void KeyValueLoad::stop() {
  stopping_ = true;
  threads_.clear();  // joins
}

std::uint64_t KeyValueLoad::requests() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->requests.load(std::memory_order_relaxed);
  return sum;
}

double KeyValueLoad::latency_ns(double quantile) const noexcept {
  Histogram all;
  for (const auto& worker : workers_) all.merge(worker->latency);
  return all.quantile(quantile);
}

void KeyValueLoad::serve(std::size_t worker) {
  Worker& mine = *workers_[worker];
  Random random(mix64(options_.seed + worker + 1));
  std::vector<std::byte> buffer(options_.value_bytes, std::byte{0x5a});
  std::uint64_t at = options_.keys * worker / workers_.size();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (options_.requests > 0 && taken_.fetch_add(1) >= options_.requests) break;
    at = options_.sequential ? (at + 1) % options_.keys : random.below(options_.keys);
    const auto begin = std::chrono::steady_clock::now();
    if (random.uniform() < options_.write_share) {
      write(at, buffer.data());
    } else {
      read(at);
    }
    const auto passed = std::chrono::steady_clock::now() - begin;
    mine.latency.add(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
    mine.requests.fetch_add(1, std::memory_order_relaxed);
  }
  --active_;
}

void KeyValueLoad::read(std::uint64_t number) {
  const Key key = key_of(number);
  const std::uint64_t place = find(key);
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(options_.value_bytes);
  {
    const std::scoped_lock lock(locks_[place % lock_count]);
    std::memcpy(copy.get(), values_.get() + place * options_.value_bytes, options_.value_bytes);
  }
  std::uint64_t stored = 0;
  std::memcpy(&stored, copy.get(), sizeof stored);
  if (stored != key.low) ++damaged_;
}

void KeyValueLoad::write(std::uint64_t number, std::byte* buffer) {
  const Key key = key_of(number);
  const std::uint64_t place = find(key);
  std::memcpy(buffer, &key.low, sizeof key.low);
  const std::scoped_lock lock(locks_[place % lock_count]);
  std::memcpy(values_.get() + place * options_.value_bytes, buffer, options_.value_bytes);
}

}  // namespace pmoss::threads
