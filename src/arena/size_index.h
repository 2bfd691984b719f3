#pragma once

// Free stretches by size: finds one that is large enough in constant time.
//
// Model. Two levels of bins, a power of two each with 32 steps inside (a two-level segregated fit).
// The bin of a request may hold stretches too small for it, so a few of that bin are tried; every
// stretch of a higher bin fits. Lists are last in, first out: what was used last is likely to be
// warm in the card's translation caches.
//
// Threads: none of its own; the caller holds its lock.

#include <bit>
#include <cstdint>

#include "arena/node.h"
#include "arena/size_class.h"

namespace vram::arena {

class SizeIndex {
 public:
  void insert(NodeStore& nodes, NodeId id) {
    Node& node = nodes[id];
    const Bin bin = bin_of(node.bytes);
    NodeId& head = heads_[bin.level][bin.step];
    node.previous = 0;
    node.next = head;
    if (head != 0) nodes[head].previous = id;
    head = id;
    steps_[bin.level] |= 1u << bin.step;
    levels_ |= std::uint64_t{1} << bin.level;
    bytes_ += node.bytes;
  }

  void remove(NodeStore& nodes, NodeId id) {
    Node& node = nodes[id];
    bytes_ -= node.bytes;
    if (node.next != 0) nodes[node.next].previous = node.previous;
    if (node.previous != 0) {
      nodes[node.previous].next = node.next;
      return;
    }
    const Bin bin = bin_of(node.bytes);
    heads_[bin.level][bin.step] = node.next;
    if (node.next != 0) return;
    steps_[bin.level] &= ~(1u << bin.step);
    if (steps_[bin.level] == 0) levels_ &= ~(std::uint64_t{1} << bin.level);
  }

  // A stretch of at least `bytes`, still in the index; 0: none.
  [[nodiscard]] NodeId find(const NodeStore& nodes, std::uint64_t bytes) const {
    const Bin bin = bin_of(bytes);
    const NodeId near = smallest(nodes, heads_[bin.level][bin.step], bytes, kTriesInOwnBin);
    if (near != 0) return near;
    const NodeId head = first_above(bin);
    return head == 0 ? 0 : smallest(nodes, head, bytes, kTriesAbove);
  }

  // Calls visit(id) from the smallest bin that may hold `bytes` up, until it returns false. Visit
  // may not change the index.
  template <typename Visit>
  void for_each_from(const NodeStore& nodes, std::uint64_t bytes, Visit visit) const {
    Bin bin = bin_of(bytes);
    NodeId id = heads_[bin.level][bin.step];
    while (true) {
      for (; id != 0; id = nodes[id].next) {
        if (nodes[id].bytes >= bytes && !visit(id)) return;
      }
      if (!next_bin(&bin)) return;
      id = heads_[bin.level][bin.step];
    }
  }

  // The size of the largest stretch, to the step of its bin; exact for the only one of a bin.
  [[nodiscard]] std::uint64_t largest(const NodeStore& nodes) const {
    if (levels_ == 0) return 0;
    const unsigned level = static_cast<unsigned>(std::bit_width(levels_)) - 1;
    const unsigned step = static_cast<unsigned>(std::bit_width(steps_[level])) - 1;
    std::uint64_t most = 0;
    for (NodeId id = heads_[level][step]; id != 0; id = nodes[id].next) {
      if (nodes[id].bytes > most) most = nodes[id].bytes;
    }
    return most;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr unsigned kLevels = 40;  // up to 2^48 bytes
  static constexpr unsigned kStepsOfLevel = 32;
  static constexpr int kTriesInOwnBin = 8;
  static constexpr int kTriesAbove = 4;

  struct Bin {
    unsigned level;
    unsigned step;
  };

  // Sizes below 32 granules have a bin each, in level 0.
  static Bin bin_of(std::uint64_t bytes) {
    const std::uint64_t granules = bytes / kGranule;
    if (granules < kStepsOfLevel) return {0, static_cast<unsigned>(granules)};
    const unsigned top = static_cast<unsigned>(std::bit_width(granules)) - 1;
    return {top - 4, static_cast<unsigned>(granules >> (top - 5)) & (kStepsOfLevel - 1)};
  }

  bool next_bin(Bin* bin) const {
    const std::uint32_t rest =
        bin->step + 1 < kStepsOfLevel ? steps_[bin->level] >> (bin->step + 1) : 0;
    if (rest != 0) {
      bin->step += 1 + static_cast<unsigned>(std::countr_zero(rest));
      return true;
    }
    const std::uint64_t levels = levels_ >> (bin->level + 1);
    if (levels == 0) return false;
    bin->level += 1 + static_cast<unsigned>(std::countr_zero(levels));
    bin->step = static_cast<unsigned>(std::countr_zero(steps_[bin->level]));
    return true;
  }

  NodeId first_above(Bin bin) const { return next_bin(&bin) ? heads_[bin.level][bin.step] : 0; }

  static NodeId smallest(const NodeStore& nodes, NodeId head, std::uint64_t bytes, int tries) {
    NodeId best = 0;
    for (NodeId id = head; id != 0 && tries > 0; id = nodes[id].next, --tries) {
      if (nodes[id].bytes == bytes) return id;
      if (nodes[id].bytes > bytes && (best == 0 || nodes[id].bytes < nodes[best].bytes)) best = id;
    }
    return best;
  }

  std::uint64_t levels_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t steps_[kLevels] = {};
  NodeId heads_[kLevels][kStepsOfLevel] = {};
};

}  // namespace vram::arena
