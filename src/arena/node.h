#pragma once

// What an arena knows of a stretch of addresses, kept apart from the memory it describes: device
// memory cannot hold it, and a stray write of a kernel must not reach it.

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
  std::uint64_t ticket;  // of `stream`: the memory is idle once it has passed
  NodeId before;         // neighbours by address
  NodeId after;
  NodeId previous;           // in the list the node is in, of an index or of the gaps
  NodeId next;               // of a live one, the caller's to use
  std::uint32_t size_class;  // of a live block
  std::uint16_t stream;      // of a free one: where it was used last; 0: nowhere any more
  std::uint16_t capture;     // of a live block, the caller's to use
  NodeKind kind;
  std::uint8_t space;      // which space of its pool
  bool handed_out;         // of a live block, the caller's to use
  bool has_uses;           // a live block that was used on further streams
  bool last_of_run;        // the last of a row of busy nodes that belong together
  std::uint64_t freed_in;  // which age of the pool
};
static_assert(sizeof(Node) == 64);

class NodeStore {
 public:
  // 2^24 nodes are 1 GiB of address space; memory comes with use.
  static constexpr std::size_t kCapacity = std::size_t{1} << 24;

  [[nodiscard]] bool open() {
    if (!nodes_.reserve(kCapacity)) return false;
    nodes_.prefer_large_pages();
    return true;
  }

  // A node with everything zero; 0: there are no more.
  [[nodiscard]] NodeId make() {
    NodeId id = unused_;
    if (id != 0) {
      unused_ = nodes_[id].next;
    } else {
      if (used_ + 1 >= kCapacity) return 0;
      id = ++used_;
    }
    nodes_[id] = Node{};
    return id;
  }

  void drop(NodeId id) {
    nodes_[id].kind = NodeKind::kUnused;
    nodes_[id].next = unused_;
    unused_ = id;
  }

  // Whether `count` further nodes can be made.
  [[nodiscard]] bool has_room(std::size_t count) const { return used_ + count < kCapacity; }

  Node& operator[](NodeId id) { return nodes_[id]; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }

 private:
  GrowingArray<Node> nodes_;
  NodeId used_ = 0;
  NodeId unused_ = 0;
};

}  // namespace vram::arena
