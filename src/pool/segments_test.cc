#include "pool/segments.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

#include "pool/dry_driver.h"

namespace vram::pool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

CUstream stream(std::uintptr_t n) { return reinterpret_cast<CUstream>(0x1000 * n); }

// A pool on a dry card; at the end everything must be back with the driver, and no call been wrong.
class SegmentsTest : public ::testing::Test {
 protected:
  void open(std::uint64_t card, SegmentsOptions options = {}) {
    ASSERT_EQ(pool.open(dry_driver(card), options), CUDA_SUCCESS);
  }
  void TearDown() override {
    let_dry_streams_go();
    pool.close();
    const DryCounts counts = dry_counts();
    EXPECT_EQ(counts.bytes, 0u);
    EXPECT_EQ(counts.handles, 0u);
    EXPECT_EQ(counts.reservations, 0u);
    EXPECT_EQ(counts.pinned, 0u);
    EXPECT_EQ(counts.faults, 0u);
  }
  CUdeviceptr take(std::uint64_t bytes, CUstream on = nullptr) {
    CUdeviceptr address = 0;
    EXPECT_EQ(pool.allocate(&address, bytes, on), CUDA_SUCCESS) << bytes;
    return address;
  }
  bool refused(std::uint64_t bytes, CUstream on = nullptr) {
    CUdeviceptr address = 0;
    return pool.allocate(&address, bytes, on) == CUDA_ERROR_OUT_OF_MEMORY;
  }

  // Threads move apart at their first chance.
  static SegmentsOptions apart(std::uint8_t most_shards) {
    SegmentsOptions options;
    options.most_shards = most_shards;
    options.patience = 0;
    return options;
  }
  void let_threads_free_each_others_blocks(SegmentsOptions options);

  Segments pool;
};

TEST_F(SegmentsTest, HoldsWhatBlocksTouchAndNoMore) {
  open(8 * kGiB);
  const CUdeviceptr a = take(3 * kMiB);
  EXPECT_EQ(pool.info().reserved, 4 * kMiB);
  EXPECT_EQ(dry_counts().bytes, 4 * kMiB);
  const CUdeviceptr b = take(4 * kMiB);
  EXPECT_EQ(pool.info().reserved, 8 * kMiB);
  EXPECT_TRUE(pool.free(a, nullptr));
  EXPECT_TRUE(pool.free(b, nullptr));
}

// As under `ulimit -v` or a sanitizer: every zone gets its part, none takes what the next needs.
TEST_F(SegmentsTest, AProcessWithFewAddressesStillGetsAPool) {
  const DriverCalls& calls = dry_driver(141 * kGiB);
  limit_dry_addresses(256 * kGiB);
  ASSERT_EQ(pool.open(calls, {}), CUDA_SUCCESS);
  EXPECT_EQ(dry_counts().reservations, 4u);
  for (const std::uint64_t bytes : {kMiB / 2, 3 * kMiB, 32 * kMiB, 8 * kGiB}) {
    EXPECT_TRUE(pool.free(take(bytes), nullptr));
  }
}

TEST_F(SegmentsTest, AProcessWithoutAddressesGetsNoPoolAndLosesNone) {
  const DriverCalls& calls = dry_driver(141 * kGiB);
  limit_dry_addresses(32 * kGiB);
  EXPECT_EQ(pool.open(calls, {}), CUDA_ERROR_OUT_OF_MEMORY);
}

// The classical trap: everything freed, and no hole large enough.
TEST_F(SegmentsTest, PagesOfScatteredHolesServeOneLargeRequest) {
  SegmentsOptions options;
  options.limit = kGiB;
  open(8 * kGiB, options);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 128; ++i) blocks.push_back(take(8 * kMiB));
  EXPECT_TRUE(refused(8 * kMiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) EXPECT_TRUE(pool.free(blocks[i], nullptr));
  const CUdeviceptr large = take(512 * kMiB);
  EXPECT_LE(pool.info().reserved, kGiB);
  EXPECT_TRUE(pool.free(large, nullptr));
  for (std::size_t i = 1; i < blocks.size(); i += 2) EXPECT_TRUE(pool.free(blocks[i], nullptr));
}

TEST_F(SegmentsTest, WhatOneSizeFreedServesEveryOtherSize) {
  SegmentsOptions options;
  options.limit = 256 * kMiB;
  open(8 * kGiB, options);
  for (const std::uint64_t bytes : {512ul, 4096ul, 100'000ul, 3 * kMiB, 20 * kMiB, 256 * kMiB}) {
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr address = 0;
    while (pool.allocate(&address, bytes, nullptr) == CUDA_SUCCESS) blocks.push_back(address);
    EXPECT_GE(blocks.size() * bytes + bytes, 250 * kMiB) << bytes;
    for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
  }
}

TEST_F(SegmentsTest, RefusesWhatIsNotALiveBlock) {
  open(kGiB);
  const CUdeviceptr a = take(1000);
  EXPECT_FALSE(pool.free(a + 512, nullptr));
  EXPECT_FALSE(pool.free(0x1234, nullptr));
  EXPECT_TRUE(pool.free(a, nullptr));
  EXPECT_FALSE(pool.free(a, nullptr));
  EXPECT_FALSE(pool.record_use(a, stream(1)));
  EXPECT_EQ(pool.info().live_blocks, 0u);
}

TEST_F(SegmentsTest, CountsWhatIsLive) {
  open(kGiB);
  const CUdeviceptr a = take(1000);
  const CUdeviceptr b = take(30 * kMiB);
  SegmentsInfo info = pool.info();
  EXPECT_EQ(info.in_use, 1024 + 30 * kMiB);
  EXPECT_EQ(info.live_blocks, 2u);
  EXPECT_EQ(info.largest_request, 30 * kMiB);
  EXPECT_EQ(pool.bytes_at(a), 1024u);
  EXPECT_EQ(pool.bytes_at(a + 512), 0u);
  EXPECT_TRUE(pool.free(b, nullptr));
  info = pool.info();
  EXPECT_EQ(info.in_use, 1024u);
  EXPECT_EQ(info.peak_in_use, 1024 + 30 * kMiB);
  pool.reset_peaks();
  EXPECT_EQ(pool.info().peak_in_use, 1024u);
  EXPECT_TRUE(refused(2 * kGiB));
  EXPECT_EQ(pool.info().failures, 1u);
  EXPECT_TRUE(pool.free(a, nullptr));
}

TEST_F(SegmentsTest, AnotherStreamGetsABlockOnlyWhenTheWorkBeforeItsFreeIsDone) {
  SegmentsOptions options;
  options.limit = 32 * kMiB;
  open(kGiB, options);
  const CUdeviceptr a = take(30 * kMiB, stream(1));
  hold_dry_streams();
  EXPECT_TRUE(pool.free(a, stream(1)));
  const CUdeviceptr again = take(30 * kMiB, stream(1));
  EXPECT_EQ(again, a) << "its own stream has it at once";
  EXPECT_TRUE(pool.free(again, stream(1)));
  CUdeviceptr other = 0;
  std::thread waits([&] { other = take(30 * kMiB, stream(2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(__atomic_load_n(&other, __ATOMIC_RELAXED), 0u) << "the work is not done";
  let_dry_streams_go();
  waits.join();
  EXPECT_NE(other, 0u);
  EXPECT_TRUE(pool.free(other, stream(2)));
}

// Work on one stream may wait for what the program does next.
TEST_F(SegmentsTest, MemoryThatTheCardHasIsNotWaitedFor) {
  open(8 * kGiB);
  hold_dry_streams();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    const CUdeviceptr a = take(100 * kMiB, stream(1));
    EXPECT_TRUE(pool.free(a, stream(1)));
    const CUdeviceptr b = take(100 * kMiB, stream(2));
    EXPECT_TRUE(pool.free(b, stream(2)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(SegmentsTest, SmallBlocksToo) {
  open(kGiB);
  hold_dry_streams();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(take(4096, stream(1)));
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, stream(1)));
  std::vector<CUdeviceptr> others;
  for (int i = 0; i < 200; ++i) {
    others.push_back(take(4096, stream(2)));
    for (const CUdeviceptr block : blocks) EXPECT_NE(others.back(), block);
  }
  for (const CUdeviceptr block : others) EXPECT_TRUE(pool.free(block, stream(2)));
}

TEST_F(SegmentsTest, ABlockUsedOnAnotherStreamStaysUntilThatIsDone) {
  open(kGiB);
  const CUdeviceptr a = take(4096, stream(1));
  EXPECT_TRUE(pool.record_use(a, stream(2)));
  EXPECT_TRUE(pool.record_use(a, stream(3)));
  hold_dry_streams();
  EXPECT_TRUE(pool.free(a, stream(1)));
  EXPECT_FALSE(pool.free(a, stream(1)));
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(take(4096, stream(1)));
    EXPECT_NE(blocks.back(), a);
  }
  let_dry_streams_go();
  (void)pool.trim(0);
  bool back = false;
  for (int i = 0; i < 600 && !back; ++i) {
    blocks.push_back(take(4096, stream(1)));
    back = blocks.back() == a;
  }
  EXPECT_TRUE(back);
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, stream(1)));
}

TEST_F(SegmentsTest, TrimGivesBackABlockThatOtherStreamsUsed) {
  open(kGiB);
  const CUdeviceptr a = take(48 * kMiB, stream(1));
  EXPECT_TRUE(pool.record_use(a, stream(2)));
  EXPECT_TRUE(pool.free(a, stream(1)));
  EXPECT_EQ(pool.trim(0), 48 * kMiB);
}

TEST_F(SegmentsTest, AForgottenStreamsHandleIsAnotherStreamAfterwards) {
  SegmentsOptions options;
  options.limit = 32 * kMiB;
  open(kGiB, options);
  const CUdeviceptr a = take(30 * kMiB, stream(1));
  hold_dry_streams();
  EXPECT_TRUE(pool.free(a, stream(1)));
  pool.forget_stream(stream(1));
  CUdeviceptr b = 0;
  std::thread waits([&] { b = take(30 * kMiB, stream(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(__atomic_load_n(&b, __ATOMIC_RELAXED), 0u);
  let_dry_streams_go();
  waits.join();
  EXPECT_TRUE(pool.free(b, stream(1)));
}

// A graph writes its blocks at every launch, whatever became of them in the meantime.
TEST_F(SegmentsTest, WhatACaptureAllocatesStaysItsOwnUntilTheGraphIsGone) {
  open(kGiB);
  for (const std::uint64_t bytes : {std::uint64_t{4096}, 3 * kMiB, 40 * kMiB}) {
    const CUdeviceptr before = take(bytes, stream(1));
    EXPECT_TRUE(pool.free(before, stream(1)));
    arena::StreamId capture = 0;
    ASSERT_TRUE(pool.begin_capture(stream(1), &capture));
    const CUdeviceptr a = take(bytes, stream(1));
    EXPECT_TRUE(pool.free(a, stream(1)));
    const CUdeviceptr b = take(bytes, stream(1));
    EXPECT_EQ(b, a) << "within the capture it is free at once";
    ASSERT_TRUE(pool.end_capture(capture));
    EXPECT_TRUE(pool.free(b, stream(2)));
    (void)pool.trim(0);
    std::vector<CUdeviceptr> others;
    for (int i = 0; i < 8; ++i) {
      others.push_back(take(bytes, stream(static_cast<unsigned>(1 + i % 2))));
      EXPECT_NE(others.back(), b);
    }
    ASSERT_TRUE(pool.release_capture(capture));
    for (const CUdeviceptr other : others) EXPECT_TRUE(pool.free(other, stream(1)));
    (void)pool.trim(0);
    EXPECT_EQ(pool.info().reserved, 0u);
  }
}

TEST_F(SegmentsTest, ManyCapturesLeaveNoStreamsBehind) {
  open(kGiB);
  for (int i = 0; i < arena::kMaxStreams + 500; ++i) {
    arena::StreamId capture = 0;
    ASSERT_TRUE(pool.begin_capture(stream(1), &capture));
    const CUdeviceptr a = take(4096, stream(1));
    ASSERT_TRUE(pool.end_capture(capture));
    EXPECT_TRUE(pool.free(a, stream(1)));
    ASSERT_TRUE(pool.release_capture(capture));
  }
}

TEST_F(SegmentsTest, MoreStreamsThanCanBeToldApartStillWork) {
  open(kGiB);
  for (std::uintptr_t i = 1; i < 1500; ++i) {
    const CUdeviceptr a = take(4096, stream(i));
    ASSERT_TRUE(pool.free(a, stream(i)));
  }
}

TEST_F(SegmentsTest, TrimGivesIdleMemoryBackAndKeepsWhatIsAsked) {
  open(8 * kGiB);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(take(20 * kMiB));
  for (int i = 0; i < 100; ++i) blocks.push_back(take(100'000));
  const CUdeviceptr stays = take(5000);
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
  const std::uint64_t before = pool.info().reserved;
  EXPECT_GE(before, 2000 * kMiB);
  const std::uint64_t first = pool.trim(500 * kMiB);
  EXPECT_LE(pool.info().reserved, 500 * kMiB);
  EXPECT_GE(pool.info().reserved, 480 * kMiB);
  const std::uint64_t rest = pool.trim(0);
  EXPECT_EQ(pool.info().reserved, 2 * kMiB) << "one page has a live block";
  EXPECT_EQ(first + rest, before - 2 * kMiB);
  EXPECT_EQ(dry_counts().bytes, 2 * kMiB);
  EXPECT_TRUE(pool.free(stays, nullptr));
}

TEST_F(SegmentsTest, TrimLeavesMemoryThatWorkStillUses) {
  open(8 * kGiB);
  const CUdeviceptr a = take(200 * kMiB);
  hold_dry_streams();
  EXPECT_TRUE(pool.free(a, nullptr));
  EXPECT_EQ(pool.trim(0), 0u);
  let_dry_streams_go();
  EXPECT_GE(pool.trim(0), 200 * kMiB);
}

TEST_F(SegmentsTest, DecayGivesBackWhatIdledSinceBeforeTheLastCall) {
  open(8 * kGiB);
  const CUdeviceptr a = take(200 * kMiB);
  const CUdeviceptr b = take(100'000);
  EXPECT_TRUE(pool.free(a, nullptr));
  EXPECT_TRUE(pool.free(b, nullptr));
  EXPECT_EQ(pool.decay(), 0u) << "just freed";
  const CUdeviceptr c = take(150 * kMiB);
  EXPECT_TRUE(pool.free(c, nullptr));
  EXPECT_LT(pool.decay(), 10 * kMiB) << "used again since";
  EXPECT_GE(pool.decay(), 200 * kMiB);
  (void)pool.decay();
  EXPECT_EQ(pool.info().reserved, 0u);
}

TEST_F(SegmentsTest, ALowerLimitHoldsAtOnce) {
  open(8 * kGiB);
  const CUdeviceptr a = take(100 * kMiB);
  const CUdeviceptr b = take(100 * kMiB);
  EXPECT_TRUE(pool.free(b, nullptr));
  pool.set_limit(128 * kMiB);
  EXPECT_LE(pool.info().reserved, 128 * kMiB);
  EXPECT_TRUE(refused(100 * kMiB));
  pool.set_limit(256 * kMiB);
  const CUdeviceptr c = take(100 * kMiB);
  EXPECT_TRUE(pool.free(a, nullptr));
  EXPECT_TRUE(pool.free(c, nullptr));
}

struct Purse {
  std::uint64_t left;
  std::uint64_t committed;
};

TEST_F(SegmentsTest, AsksTheGrantForEveryByteAndTellsWhatWentBack) {
  Purse purse{64 * kMiB, 0};
  SegmentsOptions options;
  options.grant.owner = &purse;
  options.grant.reserve = [](void* owner, std::uint64_t bytes) {
    Purse* p = static_cast<Purse*>(owner);
    if (bytes > p->left) return false;
    p->left -= bytes;
    return true;
  };
  options.grant.commit = [](void* owner, std::uint64_t bytes) {
    static_cast<Purse*>(owner)->committed += bytes;
  };
  options.grant.roll_back = [](void* owner, std::uint64_t bytes) {
    static_cast<Purse*>(owner)->left += bytes;
  };
  options.grant.end_release = [](void* owner, std::uint64_t bytes) {
    static_cast<Purse*>(owner)->left += bytes;
    static_cast<Purse*>(owner)->committed -= bytes;
  };
  open(8 * kGiB, options);
  const CUdeviceptr a = take(40 * kMiB);
  EXPECT_TRUE(refused(40 * kMiB));
  EXPECT_EQ(64 * kMiB - purse.left, pool.info().reserved);
  EXPECT_EQ(purse.committed, pool.info().reserved);
  EXPECT_TRUE(pool.free(a, nullptr));
  (void)pool.trim(0);
  EXPECT_EQ(purse.left, 64 * kMiB);
  EXPECT_EQ(purse.committed, 0u);
}

// Whatever call fails, and whenever: the request is refused or not, but nothing leaks, nothing
// overlaps, and the pool goes on.
TEST_F(SegmentsTest, AFailureOfAnyDriverCallLeavesThePoolWhole) {
  SegmentsOptions options;
  options.limit = 512 * kMiB;
  open(kGiB, options);
  std::mt19937 random(7);
  std::map<CUdeviceptr, std::uint64_t> live;
  int refusals = 0;
  for (int i = 0; i < 6000; ++i) {
    if (i % 3 == 0) {
      const auto kind = static_cast<DryCall>(random() % static_cast<unsigned>(DryCall::kKinds));
      fail_dry(kind, 1 + random() % 5);
    }
    const std::uint64_t bytes = std::uint64_t{1} << (9 + random() % 18);
    CUdeviceptr address = 0;
    const CUresult result = pool.allocate(&address, bytes, stream(random() % 2));
    ASSERT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (result == CUDA_SUCCESS) {
      const auto next = live.lower_bound(address);
      ASSERT_TRUE(next == live.end() || next->first >= address + bytes);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= address);
      live[address] = bytes;
    } else {
      ++refusals;
    }
    while (!live.empty() && (result != CUDA_SUCCESS || random() % 3 == 0)) {
      auto it = live.lower_bound(address);
      if (it == live.end()) it = live.begin();
      ASSERT_TRUE(pool.free(it->first, stream(random() % 2)));
      live.erase(it);
      if (random() % 4 == 0) break;
    }
    if (i % 100 == 0) (void)pool.trim(0);
    ASSERT_LE(pool.info().reserved, 512 * kMiB);
    ASSERT_EQ(pool.info().reserved, dry_counts().bytes);
  }
  EXPECT_GT(refusals, 0);
  for (unsigned kind = 0; kind < static_cast<unsigned>(DryCall::kKinds); ++kind) {
    fail_dry(static_cast<DryCall>(kind), 0);
  }
  for (const auto& [address, bytes] : live) EXPECT_TRUE(pool.free(address, nullptr));
  (void)pool.trim(0);
  EXPECT_EQ(pool.info().reserved, 0u);
}

TEST(Segments, AFailureWhileOpeningLeavesNothingBehind) {
  const DriverCalls& driver = dry_driver(kGiB);
  fail_dry(DryCall::kHost, 1);
  Segments pool;
  EXPECT_NE(pool.open(driver, {}), CUDA_SUCCESS);
  pool.close();
  EXPECT_EQ(dry_counts().reservations, 0u);
  EXPECT_EQ(dry_counts().pinned, 0u);
}

TEST(Segments, FewerAddressesWillDo) {
  const DriverCalls& driver = dry_driver(kGiB);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    fail_dry(DryCall::kReserve, n);
    Segments pool;
    ASSERT_EQ(pool.open(driver, {}), CUDA_SUCCESS);
    CUdeviceptr address = 0;
    EXPECT_EQ(pool.allocate(&address, 900 * kMiB, nullptr), CUDA_SUCCESS);
    pool.close();
    EXPECT_EQ(dry_counts().reservations, 0u);
  }
}

TEST_F(SegmentsTest, ARefusedRequestLeavesNothingReserved) {
  SegmentsOptions options;
  options.limit = 2 * kGiB;
  open(kGiB, options);  // the card has less than the limit
  EXPECT_TRUE(refused(3 * kGiB / 2));
  EXPECT_EQ(pool.info().reserved, 0u);
  const CUdeviceptr a = take(900 * kMiB);
  EXPECT_TRUE(pool.free(a, nullptr));
}

// Threads allocate, free their own blocks and those of others; blocks never overlap, and in the end
// everything can be had back.
void SegmentsTest::let_threads_free_each_others_blocks(SegmentsOptions options) {
  options.limit = 2 * kGiB;
  open(4 * kGiB, options);
  constexpr int kThreads = 6;
  std::mutex lock;
  std::map<CUdeviceptr, std::uint64_t> live;
  std::atomic<int> overlaps{0};
  std::atomic<CUdeviceptr> exchange[64] = {};
  const auto enter = [&](CUdeviceptr address, std::uint64_t bytes) {
    const std::lock_guard<std::mutex> hold(lock);
    const auto next = live.lower_bound(address);
    if ((next != live.end() && next->first < address + bytes) ||
        (next != live.begin() && std::prev(next)->first + std::prev(next)->second > address)) {
      overlaps.fetch_add(1);
    }
    live[address] = bytes;
  };
  const auto leave = [&](CUdeviceptr address) {
    const std::lock_guard<std::mutex> hold(lock);
    live.erase(address);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t bytes = std::uint64_t{1} << (9 + random() % 15);
        CUdeviceptr address = 0;
        if (pool.allocate(&address, bytes, stream(static_cast<unsigned>(t % 3))) != CUDA_SUCCESS) {
          continue;
        }
        enter(address, bytes);
        const CUdeviceptr other = exchange[random() % 64].exchange(address);
        if (other == 0) continue;
        leave(other);
        if (!pool.free(other, stream(random() % 3))) overlaps.fetch_add(1);
        if (i % 500 == 0) (void)pool.trim(0);
        if (i % 700 == 0) (void)pool.decay();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps.load(), 0);
  for (const auto& [address, bytes] : live) EXPECT_TRUE(pool.free(address, nullptr));
  (void)pool.trim(0);
  const SegmentsInfo info = pool.info();
  EXPECT_EQ(info.in_use, 0u);
  EXPECT_EQ(info.live_blocks, 0u);
  EXPECT_EQ(info.reserved, 0u);
}

TEST_F(SegmentsTest, ThreadsThatFreeEachOthersBlocksNeverShareOne) {
  let_threads_free_each_others_blocks({});
}

TEST_F(SegmentsTest, NorDoThreadsInShardsOfTheirOwn) {
  let_threads_free_each_others_blocks(apart(4));
}

// Another thread, which does as it is told and stays, with its cache.
class OtherThread {
 public:
  ~OtherThread() {
    run(nullptr);
    thread_.join();
  }
  void run(std::function<void()> job) {
    job_ = std::move(job);
    begin_.release();
    done_.acquire();
  }

 private:
  std::function<void()> job_;
  std::binary_semaphore begin_{0};
  std::binary_semaphore done_{0};
  std::thread thread_{[this] {
    for (bool last = false; !last; done_.release()) {
      begin_.acquire();
      last = job_ == nullptr;
      if (!last) job_();
    }
  }};
};

TEST_F(SegmentsTest, ThreadsThatWaitForEachOtherMoveApartAndTogetherAgainAtRest) {
  open(8 * kGiB, apart(4));
  EXPECT_TRUE(pool.free(take(4096), nullptr));
  OtherThread other;
  other.run([&] { EXPECT_TRUE(pool.free(take(3 * kMiB), nullptr)); });
  EXPECT_EQ(pool.info().shards, 2u);
  (void)pool.decay();
  EXPECT_EQ(pool.info().shards, 2u) << "there were allocations since";
  (void)pool.decay();
  EXPECT_EQ(pool.info().shards, 1u);
}

TEST_F(SegmentsTest, AThreadAloneStaysWhereItIs) {
  open(8 * kGiB, apart(4));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.free(take(3 * kMiB), nullptr));
  EXPECT_EQ(pool.info().shards, 1u);
}

// What another shard has free serves a request, as does what its pages can back.
TEST_F(SegmentsTest, NothingIsRefusedThatAnotherShardHasRoomFor) {
  SegmentsOptions options = apart(4);
  options.limit = 256 * kMiB;
  open(8 * kGiB, options);
  const auto fill_and_free = [&](std::uint64_t bytes) {
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr address = 0;
    while (pool.allocate(&address, bytes, nullptr) == CUDA_SUCCESS) blocks.push_back(address);
    for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
    return blocks.size();
  };
  const std::size_t here = fill_and_free(3 * kMiB);
  EXPECT_GE(here, 80u);
  OtherThread other;
  other.run([&] {
    (void)fill_and_free(kMiB / 2);
    EXPECT_EQ(fill_and_free(3 * kMiB), here);
  });
  EXPECT_EQ(pool.info().shards, 2u);
  EXPECT_EQ(fill_and_free(3 * kMiB), here);
  EXPECT_EQ(fill_and_free(200 * kMiB), 1u);
}

TEST_F(SegmentsTest, AShardThatLivesOnOthersGetsPagesThatIdleThere) {
  open(8 * kGiB, apart(4));
  std::vector<CUdeviceptr> here;
  for (int i = 0; i < 64; ++i) here.push_back(take(3 * kMiB));
  for (const CUdeviceptr block : here) EXPECT_TRUE(pool.free(block, nullptr));
  const std::uint64_t reserved = pool.info().reserved;
  OtherThread other;
  CUdeviceptr first = 0;
  CUdeviceptr last = 0;
  other.run([&] {
    for (int i = 0; i < 200; ++i) {
      last = take(3 * kMiB);
      if (i == 1) first = last;
      EXPECT_TRUE(pool.free(last, nullptr));
    }
  });
  const auto is_near = [&](CUdeviceptr address) { return address - here[0] < kGiB; };
  EXPECT_TRUE(is_near(first)) << "taken elsewhere";
  EXPECT_FALSE(is_near(last)) << "of its own";
  EXPECT_LE(pool.info().reserved, reserved);
}

// A chain of a shelf is as much in a cache as what the thread freed itself.
TEST_F(SegmentsTest, TrimTakesWhatAThreadGotFromAShelf) {
  open(kGiB);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 60; ++i) blocks.push_back(take(512));
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
  OtherThread other;
  CUdeviceptr kept = 0;
  other.run([&] { EXPECT_TRUE(pool.free(take(100'000), nullptr)); });  // it knows the stream now
  (void)pool.trim(0);
  blocks.clear();
  for (int i = 0; i < 60; ++i) blocks.push_back(take(512));
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
  other.run([&] { kept = take(512); });
  (void)pool.trim(0);
  EXPECT_EQ(pool.info().cached, 0u);
  EXPECT_TRUE(pool.free(kept, nullptr));
}

// Somebody else may launch work between a caller's mark and his wait.
TEST_F(SegmentsTest, AFreeAfterTheMarkIsNotDoneByTheWait) {
  open(8 * kGiB);
  const CUdeviceptr before = take(100 * kMiB, stream(1));
  const CUdeviceptr after = take(200 * kMiB, stream(1));
  hold_dry_streams();
  EXPECT_TRUE(pool.free(before, stream(1)));
  const Segments::Marks marks = pool.mark(stream(1));
  EXPECT_TRUE(pool.free(after, stream(1)));
  pool.synchronized(marks);
  EXPECT_LT(pool.give_back_idle(0), 200 * kMiB);
  let_dry_streams_go();
}

TEST_F(SegmentsTest, AnyAddressOfABlockFindsTheBlockAsItWasAskedFor) {
  open(8 * kGiB);
  const CUdeviceptr small = take(1000);
  const CUdeviceptr large = take(5 * kMiB + 1);
  Segments::BlockAsked first{};
  Segments::BlockAsked found{};
  ASSERT_TRUE(pool.block_around(small, &first));
  EXPECT_EQ(first.start, small);
  EXPECT_EQ(first.bytes, 1000u);
  ASSERT_TRUE(pool.block_around(small + 999, &found));
  EXPECT_EQ(found.number, first.number);
  EXPECT_FALSE(pool.block_around(small + 1000, &found)) << "what it was rounded up to is nobody's";
  ASSERT_TRUE(pool.block_around(large + 5 * kMiB, &found));
  EXPECT_EQ(found.start, large);
  EXPECT_EQ(found.bytes, 5 * kMiB + 1);
  EXPECT_NE(found.number, first.number);
  EXPECT_TRUE(pool.free(small, nullptr));
  EXPECT_FALSE(pool.block_around(small, &found));
  ASSERT_EQ(take(990), small);
  ASSERT_TRUE(pool.block_around(small, &found));
  EXPECT_NE(found.number, first.number) << "another block, at the address of one that is gone";
  EXPECT_TRUE(pool.free(small, nullptr));
  EXPECT_TRUE(pool.free(large, nullptr));
}

// As cuMemFree waits for all work, and cuMemAlloc's memory may be used on any stream.
TEST_F(SegmentsTest, WhatWasWaitedForIsReadyForEveryStream) {
  SegmentsOptions options;
  options.limit = 128 * kMiB;
  open(8 * kGiB, options);
  const CUdeviceptr block = take(100 * kMiB, synchronized_stream());
  hold_dry_streams();
  EXPECT_TRUE(pool.free(block, synchronized_stream()));
  const CUdeviceptr again = take(100 * kMiB, stream(1));
  EXPECT_TRUE(pool.free(again, stream(1)));
  let_dry_streams_go();
}

TEST_F(SegmentsTest, AThreadThatEndedLeavesNothingInItsCache) {
  open(kGiB);
  std::thread([&] {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(take(4096));
    for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool.free(block, nullptr));
    EXPECT_EQ(pool.info().cached, 20u * 4096);
  }).join();
  EXPECT_EQ(pool.info().cached, 0u);
}

TEST(Segments, ManyPoolsComeAndGoWhileThreadsLive) {
  const DriverCalls& driver = dry_driver(kGiB);
  for (int round = 0; round < 300; ++round) {
    Segments pool;
    ASSERT_EQ(pool.open(driver, {}), CUDA_SUCCESS);
    CUdeviceptr address = 0;
    ASSERT_EQ(pool.allocate(&address, 4096, nullptr), CUDA_SUCCESS);
    ASSERT_TRUE(pool.free(address, nullptr));
  }
  EXPECT_EQ(dry_counts().bytes, 0u);
}

}  // namespace
}  // namespace vram::pool
