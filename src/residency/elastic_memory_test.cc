#include "residency/elastic_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/sanitized.h"
#include "residency/card_for_test.h"

namespace vram::residency {
namespace {

using test::Call;
using test::card;
using wire::Refusal;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kPage = 64 << 10;
// So that a few pages make several batches.
constexpr std::uint64_t kBatch = 2 * kPage;

CUmemAllocationProp on_card(int ordinal) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = ordinal;
  return prop;
}

struct Block {
  CUdeviceptr at;
  std::uint64_t bytes;
  CUmemGenericAllocationHandle handle;
  std::uint64_t seed;
};

void fill(Block& block, std::uint64_t seed) {
  block.seed = seed;
  std::mt19937_64 random(seed);
  auto* words = reinterpret_cast<std::uint64_t*>(block.at);
  for (std::uint64_t i = 0; i < block.bytes / 8; i += 97) words[i] = random();
}

bool is_intact(const Block& block) {
  std::mt19937_64 random(block.seed);
  const auto* words = reinterpret_cast<const std::uint64_t*>(block.at);
  for (std::uint64_t i = 0; i < block.bytes / 8; i += 97) {
    if (words[i] != random()) return false;
  }
  return true;
}

class ElasticMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    card().work();
    card().capacity = card().host_room = ~std::uint64_t{0};
    held_before_ = card().held;
    memory_ = std::make_unique<ElasticMemory>();
    ASSERT_TRUE(memory_->open(test::calls(), kBatch));
  }
  void TearDown() override {
    card().work();
    for (const Block& block : blocks_) remove(block);
    memory_.reset();
    EXPECT_EQ(card().held, held_before_) << "memory of the card was lost";
    EXPECT_EQ(card().streams, 0);
    EXPECT_EQ(card().registered, 0);
  }

  CUresult create(CUmemGenericAllocationHandle* handle, std::uint64_t bytes, int ordinal = 0) {
    const CUmemAllocationProp prop = on_card(ordinal);
    return memory_->create(handle, bytes, &prop, 0, Owner::kProgram);
  }
  CUresult open_to_card(CUdeviceptr at, std::uint64_t bytes, int ordinal = 0) {
    const CUmemAccessDesc access{on_card(ordinal).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return memory_->set_access(at, bytes, &access, 1);
  }
  Block& add(std::uint64_t bytes, CUdeviceptr at = 0, int ordinal = 0) {
    Block block{at == 0 ? test::reserve(bytes) : at, bytes, 0, 0};
    EXPECT_EQ(create(&block.handle, bytes, ordinal), CUDA_SUCCESS);
    EXPECT_EQ(memory_->map(block.at, bytes, 0, block.handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(open_to_card(block.at, bytes, ordinal), CUDA_SUCCESS);
    fill(block, ++seed_);
    blocks_.push_back(block);
    return blocks_.back();
  }
  // Two that lie together, and some alone.
  void add_some() {
    const CUdeviceptr together = test::reserve(3 * kPage);
    add(kPage, together);
    add(2 * kPage, together + kPage);
    for (int i = 0; i < 3; ++i) add(kPage);
  }
  void remove(const Block& block) {
    EXPECT_EQ(memory_->unmap(block.at, block.bytes), CUDA_SUCCESS);
    EXPECT_EQ(memory_->release(block.handle), CUDA_SUCCESS);
  }
  std::uint64_t on_the_card() const { return card().held - held_before_; }
  std::uint64_t all_bytes() const {
    std::uint64_t bytes = 0;
    for (const Block& block : blocks_) bytes += block.bytes;
    return bytes;
  }
  void expect_intact() {
    ASSERT_EQ(on_the_card(), all_bytes());
    for (const Block& block : blocks_) EXPECT_TRUE(is_intact(block));
  }
  Refusal park(std::uint64_t bytes = ElasticMemory::kEverything, unsigned of = 0) {
    moved_ = 0;
    const Refusal refusal = memory_->choose(bytes, of);
    return refusal == Refusal::kNone ? memory_->park(&moved_) : refusal;
  }
  std::uint64_t away(unsigned of = 0) const { return memory_->away(of, Owner::kProgram); }
  // What the card has nothing of is known, and the rest can be used.
  void expect_the_rest_is_there() {
    EXPECT_EQ(on_the_card() + away(0) + away(1), all_bytes());
    EXPECT_EQ(memory_->is_parked(), away(0) + away(1) != 0);
  }
  Refusal restore() {
    moved_ = 0;
    return memory_->restore(&moved_);
  }

  std::unique_ptr<ElasticMemory> memory_;
  std::vector<Block> blocks_;
  std::atomic<std::uint64_t> moved_{0};
  std::uint64_t seed_ = 0;
  std::uint64_t held_before_ = 0;
};

TEST_F(ElasticMemoryTest, WhatIsParkedComesBackAtItsAddressesByteForByte) {
  add_some();
  add(70 * kMiB);  // larger than a piece of host memory
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(park(), Refusal::kNone);
    EXPECT_TRUE(memory_->is_parked());
    EXPECT_EQ(on_the_card(), 0u);
    EXPECT_EQ(moved_, all_bytes());
    ASSERT_EQ(restore(), Refusal::kNone);
    EXPECT_FALSE(memory_->is_parked());
    EXPECT_EQ(moved_, all_bytes());
    expect_intact();
    for (Block& block : blocks_) fill(block, ++seed_);
  }
}

TEST_F(ElasticMemoryTest, APartIsParkedAndTheRestStays) {
  add_some();
  ASSERT_EQ(park(2 * kPage), Refusal::kNone);
  EXPECT_EQ(moved_, 2 * kPage);
  EXPECT_EQ(away(), 2 * kPage);
  expect_the_rest_is_there();
  EXPECT_TRUE(is_intact(blocks_[0])) << "it is on the card";
  ASSERT_EQ(restore(), Refusal::kNone);
  EXPECT_EQ(moved_, 2 * kPage) << "and nothing else";
  EXPECT_EQ(away(), 0u);
  expect_intact();
}

TEST_F(ElasticMemoryTest, WhatIsParkedLaterLiesBesideWhatIsThere) {
  add_some();
  add(70 * kMiB);  // the later ones end in the piece of host memory that it begins
  add(kPage);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(park(kPage), Refusal::kNone);
    ASSERT_EQ(park(2 * kPage), Refusal::kNone);
    ASSERT_EQ(park(70 * kMiB), Refusal::kNone);
    EXPECT_EQ(away(), 70 * kMiB + 3 * kPage);
    expect_the_rest_is_there();
    ASSERT_EQ(park(), Refusal::kNone);
    EXPECT_EQ(on_the_card(), 0u);
    EXPECT_EQ(park(), Refusal::kNothing);
    ASSERT_EQ(restore(), Refusal::kNone);
    EXPECT_EQ(moved_, all_bytes());
    expect_intact();
    for (Block& block : blocks_) fill(block, ++seed_);
  }
}

TEST_F(ElasticMemoryTest, WholeHandlesMoveTheLargestThatFitAndTheSmallestForTheRest) {
  for (const unsigned pages : {9u, 2u, 4u, 2u, 1u}) add(pages * kPage);
  const auto parks = [&](std::uint64_t asked) {
    EXPECT_EQ(park(asked), Refusal::kNone);
    const std::uint64_t parked = away();
    EXPECT_EQ(restore(), Refusal::kNone);
    return parked / kPage;
  };
  EXPECT_EQ(parks(1), 1u);
  EXPECT_EQ(parks(3 * kPage), 3u);
  EXPECT_EQ(parks(3 * kPage + 1), 5u) << "2, 1 and 2";
  EXPECT_EQ(parks(9 * kPage), 9u);
  EXPECT_EQ(parks(9 * kPage + 1), 10u);
  EXPECT_EQ(parks(1000 * kPage), 18u) << "all there is";
  expect_intact();
}

TEST_F(ElasticMemoryTest, OfTheOtherCardNothingMoves) {
  add(kPage);
  add(2 * kPage, 0, 1);
  ASSERT_EQ(park(5 * kPage, 1), Refusal::kNone);
  EXPECT_EQ(away(0), 0u);
  EXPECT_EQ(away(1), 2 * kPage);
  EXPECT_EQ(park(kPage, 1), Refusal::kNothing);
  ASSERT_EQ(park(kPage, 0), Refusal::kNone);
  EXPECT_EQ(on_the_card(), 0u);
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
}

TEST_F(ElasticMemoryTest, AHostThatHasNoMoreMemoryKeepsWhatIsParkedAlready) {
  add_some();
  add(kPage + HostStore::kPiece);
  card().host_room = HostStore::kPiece;
  ASSERT_EQ(park(2 * kPage), Refusal::kNone);
  card().host_room = 0;
  EXPECT_EQ(park(), Refusal::kHostMemory);
  EXPECT_EQ(away(), 2 * kPage);
  expect_the_rest_is_there();
  ASSERT_EQ(park(kPage), Refusal::kNone) << "there is room beside what is there";
  card().host_room = ~std::uint64_t{0};
  ASSERT_EQ(park(), Refusal::kNone);
  EXPECT_EQ(on_the_card(), 0u);
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
}

TEST_F(ElasticMemoryTest, WhatIsOnTheHostIsNotGivenUpForMoreThanItHasAddressesFor) {
  add_some();
  ASSERT_EQ(park(2 * kPage), Refusal::kNone);
  add(2 * HostStore::kPiece);
  EXPECT_EQ(park(), Refusal::kHostMemory);
  expect_the_rest_is_there();
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
}

TEST_F(ElasticMemoryTest, AHandleMappedTwiceIsOneMemoryAfterwards) {
  Block& block = add(2 * kPage);
  const CUdeviceptr second = test::reserve(block.bytes);
  ASSERT_EQ(memory_->map(second, block.bytes, 0, block.handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(open_to_card(second, block.bytes), CUDA_SUCCESS);
  ASSERT_EQ(park(), Refusal::kNone);
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
  *reinterpret_cast<int*>(second) = 4711;
  EXPECT_EQ(*reinterpret_cast<int*>(block.at), 4711);
  EXPECT_EQ(memory_->unmap(second, block.bytes), CUDA_SUCCESS);
  fill(block, ++seed_);
}

TEST_F(ElasticMemoryTest, AHandleMayBeReleasedWhileItsMemoryIsMapped) {
  const Block block = add(kPage);
  blocks_.clear();
  ASSERT_EQ(memory_->release(block.handle), CUDA_SUCCESS);
  EXPECT_NE(memory_->release(block.handle), CUDA_SUCCESS);
  ASSERT_EQ(park(), Refusal::kNone);
  ASSERT_EQ(restore(), Refusal::kNone);
  EXPECT_TRUE(is_intact(block));
  EXPECT_EQ(memory_->unmap(block.at, block.bytes), CUDA_SUCCESS);
  EXPECT_EQ(on_the_card(), 0u);
  EXPECT_NE(memory_->map(block.at, block.bytes, 0, block.handle, 0), CUDA_SUCCESS) << "stale";
}

TEST_F(ElasticMemoryTest, TheHandleAtAnAddressIsOurs) {
  const Block& block = add(2 * kPage);
  CUmemGenericAllocationHandle found = 0;
  ASSERT_TRUE(memory_->retain(&found, block.at + kPage + 5));
  EXPECT_EQ(found, block.handle);
  EXPECT_EQ(memory_->release(found), CUDA_SUCCESS);
  EXPECT_FALSE(memory_->retain(&found, block.at + block.bytes));
  EXPECT_NE(memory_->real(block.handle), block.handle);
  EXPECT_EQ(memory_->real(42), 42u);
}

TEST_F(ElasticMemoryTest, SharedMemoryStaysWhole) {
  add_some();
  (void)memory_->share(blocks_[1].handle);
  EXPECT_EQ(park(), Refusal::kShared);
  EXPECT_FALSE(memory_->is_parked());
  expect_intact();
}

TEST_F(ElasticMemoryTest, WhatCannotBeMovedIsCountedOnceAndUntilItIsGone) {
  add_some();
  EXPECT_EQ(memory_->pins(), 0u);
  CUmemGenericAllocationHandle alone = 0;
  ASSERT_EQ(create(&alone, kPage), CUDA_SUCCESS);
  (void)memory_->share(alone);
  (void)memory_->share(alone);
  memory_->share_range(blocks_[0].at, kPage);
  memory_->share_around(blocks_[0].at);
  EXPECT_EQ(memory_->pins(), 2u);
  ASSERT_EQ(memory_->release(alone), CUDA_SUCCESS);
  EXPECT_EQ(memory_->pins(), 1u);
}

TEST_F(ElasticMemoryTest, ARangeThatOthersReachStaysWhole) {
  add_some();
  memory_->share_range(blocks_[0].at, 3 * kPage);
  EXPECT_EQ(park(), Refusal::kShared);
  expect_intact();
}

TEST_F(ElasticMemoryTest, MemoryThatIsMappedNowhereStaysWhole) {
  add_some();
  CUmemGenericAllocationHandle unmapped = 0;
  ASSERT_EQ(create(&unmapped, kPage), CUDA_SUCCESS);
  EXPECT_EQ(park(), Refusal::kUnmapped);
  EXPECT_EQ(memory_->release(unmapped), CUDA_SUCCESS);
  expect_intact();
  EXPECT_EQ(park(), Refusal::kNone);
  EXPECT_EQ(restore(), Refusal::kNone);
}

TEST_F(ElasticMemoryTest, NothingCannotBeParked) { EXPECT_EQ(park(), Refusal::kNothing); }

TEST_F(ElasticMemoryTest, WhatTheCardHasNoRoomForStaysParkedAndComesLater) {
  add_some();
  ASSERT_EQ(park(), Refusal::kNone);
  card().capacity = card().held + 3 * kPage;
  EXPECT_EQ(restore(), Refusal::kCardMemory);
  EXPECT_TRUE(memory_->is_parked());
  EXPECT_EQ(on_the_card(), 0u);
  card().capacity = ~std::uint64_t{0};
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
}

TEST_F(ElasticMemoryTest, AHostThatRegistersNothingIsOnlySlower) {
  add_some();
  card().fail(Call::kRegister, 1, true);
  ASSERT_EQ(park(), Refusal::kNone);
  ASSERT_EQ(restore(), Refusal::kNone);
  expect_intact();
}

// Every call of the driver that parking makes fails once, and once from then on.
TEST_F(ElasticMemoryTest, AFailureAtAnyStepOfParkingLosesNothing) {
  add_some();
  for (unsigned kind = 0; kind < static_cast<unsigned>(Call::kKinds); ++kind) {
    for (const bool stays : {false, true}) {
      for (unsigned long nth = 1;; ++nth) {
        card().fail(static_cast<Call>(kind), nth, stays);
        const Refusal refusal = park();
        const bool hit = card().failed();
        card().work();
        if (refusal == Refusal::kNone || memory_->is_parked()) {
          ASSERT_EQ(restore(), Refusal::kNone) << kind << ", call " << nth;
        }
        expect_intact();
        if (!hit) break;
      }
    }
  }
}

TEST_F(ElasticMemoryTest, AFailureAtAnyStepOfParkingMoreKeepsWhatIsParked) {
  add_some();
  for (unsigned kind = 0; kind < static_cast<unsigned>(Call::kKinds); ++kind) {
    for (const bool stays : {false, true}) {
      for (unsigned long nth = 1;; ++nth) {
        ASSERT_EQ(park(2 * kPage), Refusal::kNone);
        card().fail(static_cast<Call>(kind), nth, stays);
        const Refusal refusal = park(3 * kPage);
        const bool hit = card().failed();
        card().work();
        EXPECT_GE(away(), 2 * kPage) << kind << ", call " << nth;
        EXPECT_TRUE(refusal != Refusal::kNone || away() == 5 * kPage) << kind << ", call " << nth;
        expect_the_rest_is_there();
        if (nth % 2 == 0) {
          ASSERT_EQ(park(), Refusal::kNone) << kind << ", call " << nth;
          EXPECT_EQ(on_the_card(), 0u) << kind << ", call " << nth;
          EXPECT_EQ(away(), all_bytes());
        }
        ASSERT_EQ(restore(), Refusal::kNone) << kind << ", call " << nth;
        expect_intact();
        if (!hit) break;
      }
    }
  }
}

TEST_F(ElasticMemoryTest, AFailureAtAnyStepOfRestoringLeavesItParked) {
  add_some();
  for (unsigned kind = 0; kind < static_cast<unsigned>(Call::kKinds); ++kind) {
    for (const bool stays : {false, true}) {
      for (unsigned long nth = 1;; ++nth) {
        ASSERT_EQ(park(nth % 2 == 0 ? ElasticMemory::kEverything : 3 * kPage), Refusal::kNone);
        card().fail(static_cast<Call>(kind), nth, stays);
        const Refusal refusal = restore();
        const bool hit = card().failed();
        card().work();
        EXPECT_EQ(on_the_card() + away(), all_bytes()) << kind << ", call " << nth;
        EXPECT_EQ(refusal != Refusal::kNone, memory_->is_parked()) << kind << ", call " << nth;
        ASSERT_EQ(restore(), Refusal::kNone) << kind << ", call " << nth;
        expect_intact();
        if (!hit) break;
      }
    }
  }
}

TEST_F(ElasticMemoryTest, HostMemoryIsKeptUntilItIsGivenBack) {
  add_some();
  ASSERT_EQ(park(), Refusal::kNone);
  memory_->give_back_host_memory();
  EXPECT_GT(card().registered, 0) << "it holds what is parked";
  ASSERT_EQ(restore(), Refusal::kNone);
  EXPECT_GT(memory_->host_bytes_kept(), all_bytes() - 1);
  memory_->give_back_host_memory();
  EXPECT_EQ(memory_->host_bytes_kept(), 0u);
  EXPECT_EQ(card().registered, 0);
}

// With a sanitizer each takes ten times as long.
constexpr int kCycles = base::kSanitized ? 500 : 10'000;

// The program allocates, writes and frees between; a random call fails now and then.
TEST_F(ElasticMemoryTest, ThousandsOfCyclesWithFailuresLoseNoByte) {
  std::mt19937_64 random(7);
  unsigned refused = 0;
  unsigned parked_times = 0;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    card().work();
    if (blocks_.size() < 4 || (blocks_.size() < 12 && random() % 2 == 0)) {
      add(kPage * (1 + random() % 2));
    } else if (random() % 2 == 0) {
      std::swap(blocks_[random() % blocks_.size()], blocks_.back());
      remove(blocks_.back());
      blocks_.pop_back();
    }
    fill(blocks_[random() % blocks_.size()], ++seed_);
    const auto kind = static_cast<Call>(random() % static_cast<unsigned>(Call::kKinds));
    if (random() % 2 == 0) card().fail(kind, 1 + random() % 12, random() % 4 == 0);
    if (random() % 4 == 0) card().fail_one_in(4 + static_cast<unsigned>(random() % 12));
    for (std::uint64_t parts = random() % 3; parts > 0; --parts) {
      if (park(kPage * (1 + random() % 4)) != Refusal::kNone) ++refused;
    }
    if (random() % 2 == 0 && park() != Refusal::kNone) ++refused;
    ASSERT_EQ(on_the_card() + away(), all_bytes()) << "cycle " << cycle;
    if (memory_->is_parked()) {
      ++parked_times;
      for (std::uint64_t attempts = random() % 4; attempts > 0 && restore() != Refusal::kNone;
           --attempts) {
        ++refused;
      }
      card().work();
      ASSERT_EQ(restore(), Refusal::kNone);
    }
    card().work();
    ASSERT_EQ(on_the_card(), all_bytes()) << "cycle " << cycle;
    const Block& looked_at = blocks_[random() % blocks_.size()];
    ASSERT_TRUE(is_intact(looked_at)) << "cycle " << cycle;
  }
  expect_intact();
  EXPECT_GT(refused, kCycles / 100u);
  EXPECT_GT(parked_times, kCycles / 10u);
}

}  // namespace
}  // namespace vram::residency
