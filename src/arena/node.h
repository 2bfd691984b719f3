#pragma once

// What an arena knows of a stretch of addresses, kept apart from the memory it describes: device
// memory cannot hold it, and a stray write of a kernel must not reach it.

#include <atomic>
#include <cstdint>

#include "arena/growing_array.h"

namespace vram::arena {

// 0 is no node.
using NodeId = std::uint32_t;

enum class NodeKind : std::uint8_t {
  kUnused,
  kLive,      // taken by the caller
  kFree,      // backed and in an index
  kGap,       // whole pages without backing
  kBusyFree,  // a free stretch or a gap that somebody is working on without the lock
  kBusyGap,
};

// One cache line each.
struct alignas(64) Node {
  std::uint64_t start;  // bytes from the space's begin
  std::uint64_t bytes;
  // Of a free one: of `stream`, the memory is idle once it has passed. Of a live one, the caller's.
  std::uint64_t ticket;
  NodeId before;  // neighbours by address
  NodeId after;
  NodeId previous;  // in the list the node is in, of an index or of the gaps; of a live one, the
                    // caller's to use
  NodeId next;      // of a live one, the caller's to use
  std::uint32_t size_class;  // of a live block
  std::uint16_t stream;      // of a free one: where it was used last; 0: nowhere any more
  std::uint16_t capture;     // of a live block, the caller's to use
  NodeKind kind;
  std::uint8_t space;      // which range of addresses of its pool, and
  std::uint8_t shard;      // which part of that: the caller's numbers for its space
  bool handed_out;         // of a live block, the caller's to use
  bool has_uses;           // a live block that was used on further streams
  bool last_of_run;        // the last of a row of busy nodes that belong together
  std::uint64_t freed_in;  // which age of the pool
};
static_assert(sizeof(Node) == 64);

// All nodes of a pool. Threads: any.
class NodeStore {
 public:
  // 2^24 nodes are 1 GiB of address space; memory comes with use.
  static constexpr std::size_t kCapacity = std::size_t{1} << 24;

  [[nodiscard]] bool open() {
    if (!nodes_.reserve(kCapacity)) return false;
    nodes_.prefer_large_pages();
    return true;
  }

  // The first of kBatch nodes that nobody has had, for ever; 0: there are no more. A page of them:
  // what the processor fetches ahead should not be another lock's.
  static constexpr NodeId kBatch = 64;
  [[nodiscard]] NodeId claim() {
    NodeId first = next_.load(std::memory_order_relaxed);
    do {
      if (first + kBatch > kCapacity) return 0;
    } while (!next_.compare_exchange_weak(first, first + kBatch, std::memory_order_relaxed));
    return first;
  }

  Node& operator[](NodeId id) { return nodes_[id]; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }

 private:
  GrowingArray<Node> nodes_;
  std::atomic<NodeId> next_{kBatch};  // the first batch has the node that is none
};

// The nodes that one lock's spaces have between them. Threads: the caller holds that lock.
class NodeSupply {
 public:
  void open(NodeStore* store) { store_ = store; }

  // A node with everything zero; 0: there are no more.
  [[nodiscard]] NodeId make() {
    const NodeId id = prepare(1) ? unused_ : 0;
    if (id == 0) return 0;
    unused_ = (*store_)[id].next;
    --unused_count_;
    (*store_)[id] = Node{};
    return id;
  }

  void drop(NodeId id) {
    Node& node = (*store_)[id];
    node.kind = NodeKind::kUnused;
    node.next = unused_;
    unused_ = id;
    ++unused_count_;
  }

  // True: the next `count` calls of make() succeed.
  [[nodiscard]] bool prepare(std::size_t count) {
    while (unused_count_ < count) {
      const NodeId first = store_->claim();
      if (first == 0) return false;
      for (NodeId id = first + NodeStore::kBatch; id-- > first;) drop(id);
    }
    return true;
  }

  [[nodiscard]] NodeStore& store() const { return *store_; }

 private:
  NodeStore* store_ = nullptr;
  NodeId unused_ = 0;
  std::size_t unused_count_ = 0;
};

}  // namespace vram::arena
