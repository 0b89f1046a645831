// A skip list for each slice, behind a lock of its own: a kind of index from outside. Compiled into
// the module by -DPMOSS_INDEX_KINDS=FOLDER (CONTRIBUTING.md, "Add an index"), and into the tests.
#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <utility>

#include "index/line_allocator.hpp"
#include "index/slice_migration.hpp"
#include "index/tracer.hpp"
#include "kinds/index_kind.hpp"
#include "kinds/served_keys.hpp"
#include "recording/record_keys.hpp"
#include "recording/recording_size.hpp"

namespace {

using namespace pmoss;

constexpr unsigned levels = 16;

// What an operation touches is logged if a log is given, by the same code.
index_detail::Untraced tracer_of() { return {}; }
index_detail::Traced tracer_of(TouchLog& log) { return index_detail::Traced(log); }

struct Node {
  std::uint64_t key, value, height;

  static std::size_t bytes(std::size_t height) { return sizeof(Node) + height * sizeof(Node*); }
  Node** next() { return reinterpret_cast<Node**>(this + 1); }  // on each level
};

/// On each level the last node with a smaller key.
using Path = std::array<Node*, levels>;

class SkipList {
 public:
  struct Options {
    std::uint32_t slices = 256;
    bool huge_pages = true;
    numa::Placement placement = {};
  };

  explicit SkipList(const Options& options) : heads_(options.slices), locks_(options.slices) {
    const auto pool = std::make_shared<ChunkPool>(options.huge_pages);
    for (Node*& head : heads_) {
      memory_.push_back(std::make_unique<SliceMemory>(pool, options.placement));
      head = make_node(memory_.back()->current(), 0, 0, levels);
    }
  }

  template <class... Log>
  bool lookup(std::uint64_t key, std::uint64_t& value, Log&... log) const {
    const std::uint32_t slice = slice_of_key(key, slices());
    const std::shared_lock lock(locks_[slice]);
    const Node* const node = find(slice, key, tracer_of(log...));
    if (node != nullptr) value = node->value;
    return node != nullptr;
  }

  template <class... Log>
  bool update(std::uint64_t key, std::uint64_t value, Log&... log) {
    const std::uint32_t slice = slice_of_key(key, slices());
    const std::unique_lock lock(locks_[slice]);
    Node* const node = find(slice, key, tracer_of(log...));
    if (node == nullptr) return false;
    node->value = value;
    tracer_of(log...).writes(&node->value, sizeof value);
    return true;
  }

  template <class... Log>
  bool insert(std::uint64_t key, std::uint64_t value, Log&... log) {
    const std::uint32_t slice = slice_of_key(key, slices());
    const unsigned height =
        1 + std::min(levels - 1, static_cast<unsigned>(std::countr_zero(mix64(key))) / 2);
    const auto tracer = tracer_of(log...);
    const std::unique_lock lock(locks_[slice]);
    const Path path = path_to(slice, key, tracer);
    if (Node* const next = path[0]->next()[0]; next != nullptr && next->key == key) {
      next->value = value;
      tracer.writes(&next->value, sizeof value);
      return false;
    }
    Node* const node = make_node(memory_[slice]->current(), key, value, height);
    tracer.writes(node, Node::bytes(height));
    for (unsigned level = 0; level < height; ++level) {
      node->next()[level] = std::exchange(path[level]->next()[level], node);
      tracer.writes(path[level]->next() + level, sizeof(Node*));
    }
    ++memory_[slice]->size;
    return true;
  }

  template <class... Log>
  std::size_t scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                   std::uint64_t* values, Log&... log) const {
    const auto tracer = tracer_of(log...);
    std::size_t count = 0;
    for (std::uint32_t s = slice_of_key(first, slices()); s < slices() && count < limit; ++s) {
      const std::shared_lock lock(locks_[s]);
      Node* node = path_to(s, first, tracer)[0]->next()[0];
      for (; node != nullptr && count < limit; node = node->next()[0]) {
        tracer.reads(node, sizeof *node);
        keys[count] = node->key;
        values[count++] = node->value;
      }
    }
    return count;
  }

  std::uint32_t slices() const noexcept { return static_cast<std::uint32_t>(heads_.size()); }
  std::uint64_t size() const noexcept {
    return std::accumulate(
        memory_.begin(), memory_.end(), std::uint64_t{0},
        [](std::uint64_t sum, const auto& memory) { return sum + memory->size; });
  }
  SliceMemory& memory(std::uint32_t slice) { return *memory_.at(slice); }
  const SliceMemory& memory(std::uint32_t slice) const { return *memory_.at(slice); }
  const SliceArena& arena(std::uint32_t slice) const { return memory(slice).current(); }
  RetiredArenas& retired() { return retired_; }
  ChunkView root_table() const noexcept {
    return {reinterpret_cast<std::uintptr_t>(heads_.data()), heads_.size() * sizeof(Node*)};
  }

 private:
  friend class Migration;

  static Node* make_node(SliceArena& arena, std::uint64_t key, std::uint64_t value,
                         std::uint64_t height) {
    auto* const node = static_cast<Node*>(arena.allocate(Node::bytes(height)));
    *node = {key, value, height};
    std::fill_n(node->next(), height, nullptr);
    return node;
  }

  template <class Tracer>
  Path path_to(std::uint32_t slice, std::uint64_t key, Tracer tracer) const {
    Path path;
    tracer.reads(&heads_[slice], sizeof(Node*));
    Node* node = heads_[slice];
    for (unsigned level = levels; level-- > 0; path[level] = node) {
      tracer.reads(node->next() + level, sizeof(Node*));
      for (Node* next = node->next()[level]; next != nullptr; next = node->next()[level]) {
        tracer.reads(next, sizeof *next);
        if (next->key >= key) break;
        node = next;
      }
    }
    return path;
  }

  template <class Tracer>
  Node* find(std::uint32_t slice, std::uint64_t key, Tracer tracer) const {
    Node* const node = path_to(slice, key, tracer)[0]->next()[0];
    return node != nullptr && node->key == key ? node : nullptr;
  }

  std::vector<Node*, LineAllocator<Node*>> heads_;  // nodes without a key
  mutable std::vector<std::shared_mutex> locks_;
  std::vector<std::unique_ptr<SliceMemory>> memory_;
  RetiredArenas retired_;
};

/// Copies the nodes of a slice in the order of their keys, some at a time under its lock.
class Migration final : public SliceMigration {
 public:
  Migration(SkipList& list, std::uint32_t slice, const numa::Placement& to)
      : SliceMigration(list.memory(slice), list.retired(), slice, to), list_(list) {}

 private:
  bool move(std::size_t nodes) override {
    const std::unique_lock lock(list_.locks_[slice_]);
    Node*& head = list_.heads_[slice_];
    if (!target_->owns(head)) head = copy(*head);
    Path path = list_.path_to(slice_, next_key_, index_detail::Untraced{});
    for (Node* node = path[0]->next()[0]; node != nullptr; node = node->next()[0]) {
      if (!target_->owns(node)) {
        next_key_ = node->key;
        if (nodes-- == 0) return true;
        node = copy(*node);
        for (unsigned level = 0; level < node->height; ++level) path[level]->next()[level] = node;
      }
      std::fill_n(path.begin(), node->height, node);
    }
    return false;
  }

  Node* copy(Node& node) {
    Node* const moved = SkipList::make_node(*target_, node.key, node.value, node.height);
    std::copy_n(node.next(), node.height, moved->next());
    count_move(Node::bytes(node.height), true);
    return moved;
  }

  SkipList& list_;
  std::uint64_t next_key_ = 0;
};

class Served final : public kinds::ServedKeys<SkipList, Migration> {
 public:
  using ServedKeys::ServedKeys;
  double bytes_to_load() const noexcept override {
    return 64.5 * static_cast<double>(spec_.records) + 192.0 * tree_.slices();
  }
};

std::shared_ptr<const recording::Trace> record(const WorkloadSpec& spec, std::uint32_t slices,
                                               const recording::TraceOptions& options) {
  validate(spec);
  recording::validate(options, slices);
  const double bytes = 64.5 * (static_cast<double>(spec.records) +
                               spec.insert * static_cast<double>(options.queries));
  recording::check({bytes, 0.0, 8.0 * static_cast<double>(spec.records), 64.0, 64.0}, spec.records,
                   slices, options);
  SkipList list({.slices = slices, .huge_pages = recording::suits_huge_pages(bytes, slices)});
  for (const std::uint64_t key : recording::keys_of_instance(spec)) list.insert(key, key);
  // An estimate: ten instructions for a node, and half of the turns are a surprise.
  const auto cost = [](std::uint32_t) {
    return [](Operation::Kind, const TouchLog& log, std::size_t results) {
      const auto touched = static_cast<double>(log.entries().size());
      return OperationCost{50.0 + 10.0 * touched + 5.0 * static_cast<double>(results),
                           0.5 * touched};
    };
  };
  return std::make_shared<const recording::Trace>(
      recording::KeyRecorder(spec, options, list, cost).record(options.queries));
}

const kinds::Registration registration{{
    .name = "skiplist",
    .title = "skip list",
    .records = kinds::Records::keys,
    .usual_workload = "skiplist-lookups",
    .serve = [](const WorkloadSpec& spec,
                const kinds::ServeOptions& options) -> std::unique_ptr<runtime::ServedIndex> {
      return std::make_unique<Served>(
          spec, SkipList::Options{options.slices, options.huge_pages, options.placement});
    },
    .record = record,
}};

}  // namespace
