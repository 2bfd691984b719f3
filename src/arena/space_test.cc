#include "arena/space.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace vram::arena {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPage = 2 * kMiB;

struct Fixture {
  NodeStore nodes;
  NodeSupply supply;
  Space space;
  std::uint64_t passed = 0;  // tickets up to here have passed, on every stream

  Fixture() {
    EXPECT_TRUE(nodes.open());
    supply.open(&nodes);
    EXPECT_TRUE(space.open(&supply, 0, 0, 0, 1024 * kPage, kPage));
  }
  Idle idle() {
    return {[](const void* self, StreamId, std::uint64_t ticket) {
              return ticket <= static_cast<const Fixture*>(self)->passed;
            },
            this};
  }
  // A block wherever it fits, with pages backed as needed.
  NodeId place(std::uint64_t bytes, StreamId stream = 1, std::uint64_t* missing = nullptr) {
    if (const NodeId block = space.take(bytes, stream); block != 0) return block;
    Place where{};
    if (!space.find_place(bytes, stream, &where)) return 0;
    if (missing != nullptr) *missing = where.missing_pages;
    const NodeId first = space.occupy(where);
    return space.settle(first, where);
  }
  void give(NodeId block, StreamId stream = 1, std::uint64_t ticket = 1) {
    space.give(block, stream, ticket, 0);
  }
  std::uint64_t pages_of(NodeKind kind) {
    std::uint64_t bytes = 0;
    space.for_each([&](const Node& node) {
      if (node.kind == kind) bytes += node.bytes;
    });
    return bytes / kPage;
  }
  // The row of nodes has no hole, no overlap, and no two neighbours that should be one.
  void check() {
    std::uint64_t at = 0;
    NodeKind last = NodeKind::kUnused;
    space.for_each([&](const Node& node) {
      EXPECT_EQ(node.start, at);
      EXPECT_GT(node.bytes, 0u);
      if (node.kind == NodeKind::kGap) {
        EXPECT_EQ(node.start % kPage, 0u);
        EXPECT_EQ(node.bytes % kPage, 0u);
        EXPECT_NE(last, NodeKind::kGap);
      }
      last = node.kind;
      at += node.bytes;
    });
    EXPECT_EQ(at, 1024 * kPage);
  }
};

TEST(Space, BacksOnlyThePagesThatABlockTouches) {
  Fixture f;
  std::uint64_t missing = 0;
  const NodeId a = f.place(3 * kMiB, 1, &missing);
  EXPECT_EQ(missing, 2u);
  // The second begins in the first one's last page.
  const NodeId b = f.place(kPage, 1, &missing);
  EXPECT_EQ(missing, 1u);
  EXPECT_EQ(f.nodes[b].start, f.nodes[a].start + 3 * kMiB);
  f.check();
}

TEST(Space, FreedNeighboursBecomeOneStretch) {
  Fixture f;
  const NodeId a = f.place(kMiB);
  const NodeId b = f.place(kMiB);
  const NodeId c = f.place(2 * kMiB);
  f.give(a);
  f.give(c);
  f.give(b);
  EXPECT_EQ(f.space.largest_free(), 4 * kMiB);
  EXPECT_NE(f.space.take(4 * kMiB, 1), 0u);
  f.check();
}

TEST(Space, IdlePagesInsideAStretchCanBeHadBackAndTheRestStays) {
  Fixture f;
  const NodeId a = f.place(kMiB);
  const NodeId b = f.place(6 * kMiB);
  const NodeId c = f.place(kMiB);
  f.give(b);
  f.passed = 1;
  const NodeId run = f.space.detach(100, f.idle(), 0);
  ASSERT_NE(run, 0u);
  // 1 to 7 MiB are free; whole pages in there are 2 to 6.
  EXPECT_EQ(f.nodes[run].start, 2 * kMiB);
  EXPECT_EQ(f.nodes[run].bytes, 4 * kMiB);
  f.space.detached(run);
  EXPECT_EQ(f.space.free_bytes(), 2 * kMiB);
  f.check();
  // The hole is filled again with what is missing, not placed anew.
  std::uint64_t missing = 0;
  const NodeId d = f.place(6 * kMiB, 1, &missing);
  EXPECT_EQ(missing, 2u);
  EXPECT_EQ(f.nodes[d].start, kMiB);
  f.give(a);
  f.give(c);
  f.give(d);
  f.check();
}

TEST(Space, PagesOfAFreeWhoseWorkIsNotDoneStay) {
  Fixture f;
  const NodeId a = f.place(4 * kMiB);
  f.give(a, 1, 5);
  f.passed = 4;
  EXPECT_EQ(f.space.detach(1, f.idle(), 0), 0u);
  f.passed = 5;
  EXPECT_NE(f.space.detach(1, f.idle(), 0), 0u);
}

TEST(Space, OnlyStretchesFreedLongAgoAreHadBackByAge) {
  Fixture f;
  const NodeId a = f.place(4 * kMiB);
  f.space.give(a, 1, 0, 100);
  EXPECT_EQ(f.space.detach(1, f.idle(), 99), 0u);
  EXPECT_NE(f.space.detach(1, f.idle(), 100), 0u);
}

TEST(Space, AnotherStreamWaitsForTheTicket) {
  Fixture f;
  const NodeId a = f.place(2 * kMiB, 1);
  const NodeId b = f.place(2 * kMiB, 2);
  f.give(b, 2, 1);
  f.give(a, 1, 1);
  EXPECT_EQ(f.space.take(4 * kMiB, 1), 0u) << "half of it was freed on stream 2";
  const NodeId c = f.space.take(2 * kMiB, 2);
  ASSERT_NE(c, 0u);
  EXPECT_EQ(c, b) << "a stream's own frees are free for it at once";
  EXPECT_EQ(f.space.take(2 * kMiB, 2), 0u);
  f.passed = 1;
  f.space.promote(f.idle());
  EXPECT_EQ(f.space.take(2 * kMiB, 2), a);
  f.check();
}

TEST(Space, StretchesOfOneStreamJoinWhenNoOtherWasSeen) {
  Fixture f;
  const NodeId a = f.place(kMiB);  // the rest of its page was used nowhere
  f.give(a, 1, 9);
  EXPECT_EQ(f.space.largest_free(), kPage);
  EXPECT_NE(f.space.take(kPage, 1), 0u);
}

TEST(Space, AbandonRestoresWhatOccupyTook) {
  Fixture f;
  const NodeId a = f.place(3 * kMiB);
  const NodeId b = f.place(3 * kMiB);
  f.give(a);
  const std::uint64_t free = f.space.free_bytes();
  const std::uint64_t gaps = f.pages_of(NodeKind::kGap);
  Place where{};
  ASSERT_TRUE(f.space.find_place(9 * kMiB, 1, &where));
  const NodeId first = f.space.occupy(where);
  ASSERT_NE(first, 0u);
  f.space.abandon(first);
  EXPECT_EQ(f.space.free_bytes(), free);
  EXPECT_EQ(f.pages_of(NodeKind::kGap), gaps);
  f.check();
  f.give(b);
  f.check();
}

TEST(Space, ARequestLargerThanTheAddressesHasNoPlace) {
  Fixture f;
  Place where{};
  EXPECT_FALSE(f.space.find_place(1025 * kPage, 1, &where));
  EXPECT_TRUE(f.space.find_place(1024 * kPage, 1, &where));
}

// Whatever comes and goes: blocks never overlap, every page a block touches is backed, and nothing
// is lost.
TEST(Space, RandomBlocksNeverOverlapAndNothingIsLost) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Fixture f;
    std::mt19937 random(seed);
    std::map<std::uint64_t, NodeId> live;  // by start
    const auto bytes_of = [&] { return ((1u << (random() % 14)) + random() % 64) * kGranule; };
    for (int i = 0; i < 4000; ++i) {
      const StreamId stream = static_cast<StreamId>(1 + random() % (seed % 3 + 1));
      if (random() % 2 == 0 && live.size() < 300) {
        const NodeId block = f.place(bytes_of(), stream);
        if (block == 0) continue;
        const Node& node = f.nodes[block];
        const auto next = live.lower_bound(node.start);
        ASSERT_TRUE(next == live.end() || next->first >= node.start + node.bytes);
        if (next != live.begin()) {
          const Node& before = f.nodes[std::prev(next)->second];
          ASSERT_LE(before.start + before.bytes, node.start);
        }
        live[node.start] = block;
      } else if (!live.empty()) {
        auto it = live.lower_bound(random() % (64 * kPage));
        if (it == live.end()) it = live.begin();
        f.give(it->second, stream, static_cast<std::uint64_t>(i));
        live.erase(it);
      }
      if (i % 16 == 0) f.passed = static_cast<std::uint64_t>(i);
      if (i % 64 == 0) f.space.promote(f.idle());
      if (i % 32 == 0) {
        if (const NodeId run = f.space.detach(random() % 8 + 1, f.idle(), 0); run != 0) {
          f.space.detached(run);
        }
      }
      if (i % 500 == 0) f.check();
    }
    for (const auto& [start, block] : live) f.give(block, 1, 0);
    f.passed = 5000;
    f.space.promote(f.idle());
    while (const NodeId run = f.space.detach(1024, f.idle(), 0)) f.space.detached(run);
    f.check();
    EXPECT_EQ(f.space.free_bytes(), 0u);
    EXPECT_EQ(f.pages_of(NodeKind::kGap), 1024u);
  }
}

}  // namespace
}  // namespace vram::arena
