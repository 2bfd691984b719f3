#include "arena/space.h"

namespace vram::arena {
namespace {

constexpr std::uint64_t floor_to(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}
constexpr std::uint64_t ceil_to(std::uint64_t value, std::uint64_t unit) {
  return floor_to(value + unit - 1, unit);
}
constexpr std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
constexpr std::uint64_t most(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }

// Holes of more nodes are looked at only so far: find_place() stays bounded.
constexpr int kNodesOfHole = 64;

}  // namespace

bool Space::open(NodeSupply* nodes, std::uint8_t space, std::uint8_t shard, std::uint64_t begin,
                 std::uint64_t span, std::uint64_t page) {
  nodes_ = nodes;
  page_ = page;
  span_ = span;
  if (!indexes_.reserve(kMaxStreams)) return false;
  first_ = nodes->make();
  if (first_ == 0) return false;
  node(first_).start = begin;
  node(first_).bytes = span;
  node(first_).space = space;
  node(first_).shard = shard;
  insert_gap(first_);
  return true;
}

// Cuts a node that is in no list; the rest is a node of the same kind, in no list either.
NodeId Space::split(NodeId id, std::uint64_t bytes) {
  const NodeId rest = nodes_->make();
  if (rest == 0) return 0;
  Node& a = node(id);
  Node& b = node(rest);
  b = a;
  b.start = a.start + bytes;
  b.bytes = a.bytes - bytes;
  b.before = id;
  b.has_uses = false;
  a.bytes = bytes;
  a.after = rest;
  a.last_of_run = false;
  if (b.after != 0) node(b.after).before = rest;
  return rest;
}

// The same on both sides; a side of nothing is 0.
Space::Cut Space::cut(NodeId id, std::uint64_t from, std::uint64_t to) {
  Cut parts{0, id, 0};
  if (from > node(id).start) parts = {id, split(id, from - node(id).start), 0};
  const Node& middle = node(parts.middle);
  if (to < middle.start + middle.bytes) parts.right = split(parts.middle, to - middle.start);
  return parts;
}

// Takes the next node, which is in no list, into this one.
void Space::merge_after(NodeId id) {
  Node& a = node(id);
  const NodeId gone = a.after;
  const Node& b = node(gone);
  a.bytes += b.bytes;
  a.ticket = most(a.ticket, b.ticket);
  a.freed_in = most(a.freed_in, b.freed_in);
  a.after = b.after;
  a.last_of_run = b.last_of_run;
  if (a.after != 0) node(a.after).before = id;
  nodes_->drop(gone);
}

// Joins neighbours that may be joined, and makes the result findable.
void Space::insert_free(NodeId id) {
  node(id).kind = NodeKind::kFree;
  free_bytes_ += node(id).bytes;
  const StreamId stream = node(id).stream;
  if (const NodeId after = node(id).after; joins(after, stream)) {
    indexes_[node(after).stream].remove(store(), after);
    node(id).stream = stream != 0 ? stream : node(after).stream;
    merge_after(id);
  }
  if (const NodeId before = node(id).before; joins(before, node(id).stream)) {
    indexes_[node(before).stream].remove(store(), before);
    if (node(before).stream == 0) node(before).stream = node(id).stream;
    merge_after(before);
    id = before;
  }
  indexes_[node(id).stream].insert(store(), id);
}

void Space::remove_free(NodeId id) {
  free_bytes_ -= node(id).bytes;
  indexes_[node(id).stream].remove(store(), id);
}

void Space::insert_gap(NodeId id) {
  Node& n = node(id);
  n.kind = NodeKind::kGap;
  n.stream = 0;
  n.ticket = 0;
  n.freed_in = 0;
  n.last_of_run = false;
  gap_bytes_ += n.bytes;
  if (n.after != 0 && node(n.after).kind == NodeKind::kGap) {
    unlink_gap(n.after);
    merge_after(id);
  }
  if (n.before != 0 && node(n.before).kind == NodeKind::kGap) {
    merge_after(n.before);
    return;
  }
  n.previous = 0;
  n.next = gaps_;
  if (gaps_ != 0) node(gaps_).previous = id;
  gaps_ = id;
}

void Space::remove_gap(NodeId id) {
  gap_bytes_ -= node(id).bytes;
  unlink_gap(id);
}

void Space::unlink_gap(NodeId id) {
  const Node& n = node(id);
  if (n.next != 0) node(n.next).previous = n.previous;
  if (n.previous != 0) {
    node(n.previous).next = n.next;
  } else {
    gaps_ = n.next;
  }
}

// The first `bytes` of a node that is in no list become a block; the rest becomes free.
NodeId Space::live(NodeId id, std::uint64_t bytes) {
  const NodeId rest = node(id).bytes > bytes ? split(id, bytes) : 0;
  node(id).kind = NodeKind::kLive;
  node(id).has_uses = false;
  if (rest != 0) insert_free(rest);  // else the block is larger than it need be
  return id;
}

NodeId Space::take(std::uint64_t bytes, StreamId stream) {
  NodeId id = stream < streams_ ? indexes_[stream].find(store(), bytes) : 0;
  if (id == 0 && stream != 0) id = indexes_[0].find(store(), bytes);
  if (id == 0) return 0;
  remove_free(id);
  return live(id, bytes);
}

void Space::give(NodeId block, StreamId stream, std::uint64_t ticket, std::uint64_t age) {
  if (stream >= streams_) streams_ = static_cast<StreamId>(stream + 1);
  Node& n = node(block);
  n.stream = stream;
  n.ticket = ticket;
  n.freed_in = age;
  n.has_uses = false;
  n.last_of_run = false;
  insert_free(block);
}

// Pages that [start, end) touches and that are in gaps; `first` is a node at or before `start`.
std::uint64_t Space::missing(NodeId first, std::uint64_t start, std::uint64_t end) const {
  std::uint64_t pages = 0;
  for (NodeId id = first; id != 0 && node(id).start < end; id = node(id).after) {
    const Node& n = node(id);
    if (n.kind != NodeKind::kGap || n.start + n.bytes <= start) continue;
    const std::uint64_t from = floor_to(most(n.start, start), page_);
    const std::uint64_t to = ceil_to(least(n.start + n.bytes, end), page_);
    pages += (to - from) / page_;
  }
  return pages;
}

// A hole is a row of usable nodes. Tried in it: a block that begins where a node does, and one that
// ends where a node does. One of them needs as few pages as any.
void Space::consider_hole(NodeId first, std::uint64_t bytes, StreamId stream, Place* best,
                          std::uint64_t* best_hole) const {
  const std::uint64_t begin = node(first).start;
  std::uint64_t end = begin;
  int count = 0;
  for (NodeId id = first; usable(id, stream) && count < kNodesOfHole;
       id = node(id).after, ++count) {
    end = node(id).start + node(id).bytes;
  }
  if (end - begin < bytes) return;
  const auto consider = [&](NodeId from, std::uint64_t start) {
    const std::uint64_t pages = missing(from, start, start + bytes);
    if (best->first != 0 && (pages > best->missing_pages ||
                             (pages == best->missing_pages && end - begin >= *best_hole))) {
      return;
    }
    *best = {from, start, bytes, pages};
    *best_hole = end - begin;
  };
  NodeId from = first;
  for (NodeId id = first; id != 0 && node(id).start < end; id = node(id).after) {
    const Node& n = node(id);
    if (n.start + bytes <= end) consider(id, n.start);
    const std::uint64_t stop = n.start + n.bytes;
    if (stop < begin + bytes) continue;
    while (node(from).start + node(from).bytes <= stop - bytes) from = node(from).after;
    consider(from, stop - bytes);
  }
}

bool Space::find_place(std::uint64_t bytes, StreamId stream, Place* place) const {
  Place best{};
  std::uint64_t best_hole = 0;
  for (NodeId gap = gaps_; gap != 0; gap = node(gap).next) {
    NodeId first = gap;
    bool seen = false;  // by way of a gap further left
    for (int i = 0; usable(node(first).before, stream) && !seen && i < kNodesOfHole; ++i) {
      first = node(first).before;
      seen = node(first).kind == NodeKind::kGap;
    }
    if (!seen) consider_hole(first, bytes, stream, &best, &best_hole);
  }
  if (best.first == 0) return false;
  *place = best;
  return true;
}

NodeId Space::occupy(const Place& place) {
  const std::uint64_t end = place.start + place.bytes;
  // Two cuts at most, one node each.
  if (!nodes_->prepare(2)) return 0;
  NodeId first = 0;
  NodeId last = 0;
  for (NodeId id = place.first; id != 0 && node(id).start < end; id = node(id).after) {
    const bool gap = node(id).kind == NodeKind::kGap;
    const std::uint64_t unit = gap ? page_ : kGranule;
    if (gap) {
      remove_gap(id);
    } else {
      remove_free(id);
    }
    const std::uint64_t from = floor_to(most(node(id).start, place.start), unit);
    const std::uint64_t to = least(ceil_to(end, unit), node(id).start + node(id).bytes);
    const auto [left, middle, right] = cut(id, from, to);
    id = middle;
    node(id).kind = gap ? NodeKind::kBusyGap : NodeKind::kBusyFree;
    node(id).last_of_run = false;
    if (left != 0) gap ? insert_gap(left) : insert_free(left);
    if (right != 0) gap ? insert_gap(right) : insert_free(right);
    if (first == 0) first = id;
    last = id;
  }
  node(last).last_of_run = true;
  return first;
}

NodeId Space::settle(NodeId first, const Place& place) {
  // Fresh pages have been used nowhere; the block's own stream orders the rest.
  while (!node(first).last_of_run) merge_after(first);
  node(first).last_of_run = false;
  NodeId block = first;
  if (place.start > node(first).start) {
    const NodeId rest = split(first, place.start - node(first).start);
    if (rest != 0) {
      node(first).stream = 0;
      node(first).ticket = 0;
      insert_free(first);
      block = rest;
    }
  }
  if (node(block).bytes > place.bytes) {
    const NodeId rest = split(block, place.bytes);
    if (rest != 0) {
      node(rest).stream = 0;
      node(rest).ticket = 0;
      insert_free(rest);
    }
  }
  node(block).kind = NodeKind::kLive;
  node(block).has_uses = false;
  return block;
}

void Space::abandon(NodeId first) {
  for (NodeId id = first; id != 0;) {
    // Merging may take in the node before, never the one after: that is still busy, or not ours.
    const NodeId next = node(id).last_of_run ? 0 : node(id).after;
    node(id).last_of_run = false;
    if (node(id).kind == NodeKind::kBusyGap) {
      insert_gap(id);
    } else {
      insert_free(id);
    }
    id = next;
  }
}

NodeId Space::detach(std::uint64_t pages, const Idle& idle, std::uint64_t freed_by) {
  NodeId chosen = 0;
  for (StreamId s = 0; s < streams_ && chosen == 0; ++s) {
    indexes_[s].for_each_from(store(), page_, [&](NodeId id) {
      const Node& n = node(id);
      const std::uint64_t from = ceil_to(n.start, page_);
      const std::uint64_t to = floor_to(n.start + n.bytes, page_);
      if (to <= from || n.freed_in > freed_by || !idle(n.stream, n.ticket)) return true;
      chosen = id;
      return false;
    });
  }
  if (chosen == 0 || !nodes_->prepare(2)) return 0;
  const std::uint64_t to = floor_to(node(chosen).start + node(chosen).bytes, page_);
  const std::uint64_t from =
      most(ceil_to(node(chosen).start, page_), to - least(to, pages * page_));
  remove_free(chosen);
  // Idle: its parts, too, are anybody's from now on.
  node(chosen).stream = 0;
  node(chosen).ticket = 0;
  const auto [left, run, right] = cut(chosen, from, to);
  node(run).kind = NodeKind::kBusyGap;
  node(run).last_of_run = true;
  if (left != 0) insert_free(left);
  if (right != 0) insert_free(right);
  return run;
}

void Space::detached(NodeId run) { insert_gap(run); }

void Space::attached(NodeId run) {
  node(run).last_of_run = false;
  insert_free(run);
}

void Space::promote(const Idle& idle) {
  NodeId ready = 0;
  NodeId passed = 0;  // found by the walk, and left behind by it: only then it may go
  const auto set_aside = [&] {
    if (passed == 0) return;
    remove_free(passed);
    node(passed).kind = NodeKind::kBusyFree;
    node(passed).next = ready;
    ready = passed;
    passed = 0;
  };
  for (StreamId s = 1; s < streams_; ++s) {
    indexes_[s].for_each_from(store(), 0, [&](NodeId id) {
      set_aside();
      if (idle(s, node(id).ticket)) passed = id;
      return true;
    });
    set_aside();
  }
  while (ready != 0) {
    const NodeId id = ready;
    ready = node(id).next;
    node(id).stream = 0;
    node(id).ticket = 0;
    insert_free(id);
  }
}

std::uint64_t Space::largest_free() const {
  std::uint64_t largest = 0;
  for (StreamId s = 0; s < streams_; ++s) largest = most(largest, indexes_[s].largest(store()));
  return largest;
}

}  // namespace vram::arena
