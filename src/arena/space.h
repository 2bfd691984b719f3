#pragma once

// A space of addresses of which some pages are backed by memory, and the blocks placed in it. Pure:
// what backs a page, and how, is the caller's affair.
//
// Model. The space is a row of nodes without holes: blocks, free stretches, and gaps. A gap is
// whole pages without backing; everything else is backed. A block goes into one free stretch
// (take), or, when none is large enough, where the fewest pages are missing (find_place, occupy):
// across free stretches and gaps side by side, whose pages the caller then backs. Pages that lie
// wholly inside a free stretch can be had back (detach). So the memory held is what blocks touch,
// whatever the order they came and went in; what is left over is parts of pages.
//
// Streams. A free stretch remembers where it was used last (`stream`, with a ticket that passes
// when that work is done); 0 is nowhere. Stream s may take stretches of s and of 0. Stretches of
// different streams stay apart until promote() finds that their work is done. As long as only one
// stream was ever seen, new memory joins its stretches at once.
//
// Busy nodes belong to a caller who works on their pages without the lock; nobody else touches
// them.
//
// Threads: the caller holds one lock over every call.

#include <cstdint>

#include "arena/node.h"
#include "arena/size_index.h"

namespace vram::arena {

using StreamId = std::uint16_t;
inline constexpr StreamId kMaxStreams = 1024;

// Says whether the work before a free on `stream` that got `ticket` is done. A plain function: a
// class with virtual ones needs the C++ runtime, which injected code has not.
struct Idle {
  bool (*passed)(const void* streams, StreamId stream, std::uint64_t ticket);
  const void* streams;
  [[nodiscard]] bool operator()(StreamId stream, std::uint64_t ticket) const {
    return stream == 0 || passed(streams, stream, ticket);
  }
};

struct Place {
  NodeId first;  // the first node the block lies in
  std::uint64_t start;
  std::uint64_t bytes;
  std::uint64_t missing_pages;
};

class Space {
 public:
  // Once. `begin` and `span` are multiples of `page`; `space` and `shard` are noted in every node.
  // False: no memory for bookkeeping.
  [[nodiscard]] bool open(NodeSupply* nodes, std::uint8_t space, std::uint8_t shard,
                          std::uint64_t begin, std::uint64_t span, std::uint64_t page);

  // A live block in a backed stretch that `stream` may use; 0: there is none.
  [[nodiscard]] NodeId take(std::uint64_t bytes, StreamId stream);

  // A live or cached block becomes free, in this age of the pool.
  void give(NodeId block, StreamId stream, std::uint64_t ticket, std::uint64_t age);

  // Where a block would need the fewest pages; false: no room among the addresses.
  [[nodiscard]] bool find_place(std::uint64_t bytes, StreamId stream, Place* place) const;

  // Makes the nodes of a place just found busy; returns the first. 0: no memory for bookkeeping.
  [[nodiscard]] NodeId occupy(const Place& place);
  // Calls visit(node, page, count) for each run of busy pages that needs backing.
  template <typename Visit>
  void for_each_missing(NodeId first, Visit visit) const {
    for (NodeId id = first; id != 0 && busy(id); id = node(id).after) {
      if (node(id).kind == NodeKind::kBusyGap)
        visit(id, node(id).start / page_, node(id).bytes / page_);
      if (node(id).last_of_run) return;
    }
  }
  // The pages are backed: the block, live.
  [[nodiscard]] NodeId settle(NodeId first, const Place& place);
  // They are not: all as before occupy().
  void abandon(NodeId first);

  // A run of at most `most` pages out of free stretches that are idle and were freed at or before
  // `freed_by`, made busy; 0: there is none. The caller unbacks it, and then calls detached(),
  // or attached() when it could not.
  [[nodiscard]] NodeId detach(std::uint64_t most, const Idle& idle, std::uint64_t freed_by);
  void detached(NodeId run);
  void attached(NodeId run);

  // Stretches whose work is done become anybody's.
  void promote(const Idle& idle);

  [[nodiscard]] std::uint64_t page() const { return page_; }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }
  // Bytes outside of gaps.
  [[nodiscard]] std::uint64_t backed_bytes() const { return span_ - gap_bytes_; }
  // The largest stretch of whatever stream.
  [[nodiscard]] std::uint64_t largest_free() const;
  // Calls visit(stream) for each stream that has free stretches which are not anybody's.
  template <typename Visit>
  void for_each_waiting(Visit visit) const {
    for (StreamId s = 1; s < streams_; ++s) {
      if (indexes_[s].bytes() != 0) visit(s);
    }
  }
  // Calls visit(node) in order of address.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (NodeId id = first_; id != 0; id = node(id).after) visit(node(id));
  }

 private:
  Node& node(NodeId id) { return store()[id]; }
  [[nodiscard]] const Node& node(NodeId id) const { return store()[id]; }
  [[nodiscard]] NodeStore& store() const { return nodes_->store(); }
  [[nodiscard]] bool busy(NodeId id) const {
    return node(id).kind == NodeKind::kBusyFree || node(id).kind == NodeKind::kBusyGap;
  }
  [[nodiscard]] bool usable(NodeId id, StreamId stream) const {
    if (id == 0) return false;
    const Node& n = node(id);
    return n.kind == NodeKind::kGap ||
           (n.kind == NodeKind::kFree && (n.stream == 0 || n.stream == stream));
  }
  [[nodiscard]] bool joins(NodeId id, StreamId stream) const {
    return id != 0 && node(id).kind == NodeKind::kFree &&
           (node(id).stream == stream || streams_ <= 2);
  }

  struct Cut {
    NodeId left;
    NodeId middle;
    NodeId right;
  };
  [[nodiscard]] NodeId split(NodeId id, std::uint64_t bytes);
  [[nodiscard]] Cut cut(NodeId id, std::uint64_t from, std::uint64_t to);
  void merge_after(NodeId id);
  void insert_free(NodeId id);
  void remove_free(NodeId id);
  void insert_gap(NodeId id);
  void remove_gap(NodeId id);
  void unlink_gap(NodeId id);
  void consider_hole(NodeId first, std::uint64_t bytes, StreamId stream, Place* best,
                     std::uint64_t* best_hole) const;
  [[nodiscard]] std::uint64_t missing(NodeId first, std::uint64_t start, std::uint64_t end) const;
  NodeId live(NodeId id, std::uint64_t bytes);

  NodeSupply* nodes_ = nullptr;
  std::uint64_t page_ = 0;
  std::uint64_t span_ = 0;
  std::uint64_t free_bytes_ = 0;
  std::uint64_t gap_bytes_ = 0;
  NodeId first_ = 0;
  NodeId gaps_ = 0;
  StreamId streams_ = 1;             // one past the highest that ever freed here
  GrowingArray<SizeIndex> indexes_;  // by stream
};

}  // namespace vram::arena
