// One suite for all pools: what memory_pool.h promises of each.
//
// Driver: the simulated one; with VRAM_TEST_ON=card the machine's own (status 77 when it has none).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pool/dry_driver.h"
#include "pool/memory_pool.h"

namespace vram::pool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

bool on_card() {
  const char* where = getenv("VRAM_TEST_ON");
  return where != nullptr && std::string(where) == "card";
}

// The driver of the tests, and what they need of it besides the pools.
struct TestDriver {
  TestDriver() {
    if (!on_card()) {
      name_ = "pool-contract-" + std::to_string(getpid());
      setenv("VRAM_SIM", "1x24GiB", 1);
      setenv("VRAM_SIM_NAME", name_.c_str(), 1);
      unsetenv("CUDA_VISIBLE_DEVICES");
      // From here on its name leads to it.
      dlopen(VRAM_SIMULATED_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    }
    base::Expected<const DriverCalls*, Failure> opened = open_driver();
    if (!opened) {
      if (on_card()) {
        printf("skipped: %s\n", opened.error().message.c_str());
        _exit(77);
      }
      ADD_FAILURE() << opened.error().message;
      return;
    }
    calls = *opened;
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    (void)calls->primary_retain(&context, 0);
    (void)calls->context_push(context);
  }
  ~TestDriver() {
    if (!name_.empty()) {
      unlink(("/dev/shm/vram-sim-" + std::to_string(geteuid()) + "-" + name_).c_str());
    }
  }
  template <typename Function>
  Function symbol(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  const DriverCalls* calls = nullptr;
  CUcontext context = nullptr;

 private:
  void* library_ = nullptr;
  std::string name_;
};

const TestDriver& driver() {
  static const TestDriver the_driver;
  return the_driver;
}
#define CALL(function) driver().symbol<decltype(&::function)>(#function)

struct Case {
  const char* name;
  Kind kind;
  bool dry;
  bool exact;  // the limit is in what is reserved, not only in what is in use
  // TensorFlow's arena: a block may be larger than asked for, and a request comes on top of whole
  // regions.
  bool regions = false;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class PoolContract : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!GetParam().dry) (void)driver();
  }
  void TearDown() override {
    pool.reset();
    if (!GetParam().dry) return;
    const DryCounts counts = dry_counts();
    EXPECT_EQ(counts.bytes, 0u);
    EXPECT_EQ(counts.reservations, 0u);
    EXPECT_EQ(counts.pinned, 0u);
    EXPECT_EQ(counts.faults, 0u);
  }
  [[nodiscard]] const DriverCalls& calls() const {
    return GetParam().dry ? dry_driver(24 * kGiB) : *driver().calls;
  }
  void open(std::uint64_t limit) {
    Options options;
    options.kind = GetParam().kind;
    options.limit = limit;
    base::Expected<std::unique_ptr<MemoryPool>, Failure> made = make_pool(calls(), options);
    ASSERT_TRUE(static_cast<bool>(made)) << made.error().message;
    pool = std::move(*made);
  }
  CUdeviceptr take(std::uint64_t bytes, CUstream stream = nullptr) {
    const base::Expected<CUdeviceptr, Failure> block = pool->allocate(bytes, stream);
    EXPECT_TRUE(static_cast<bool>(block)) << bytes << ": " << block.error().message;
    return block ? *block : 0;
  }
  [[nodiscard]] bool has_memory() const { return !GetParam().dry; }
  [[nodiscard]] bool host() const { return GetParam().kind == Kind::kHost; }

  std::unique_ptr<MemoryPool> pool;
};

TEST_P(PoolContract, BlocksAreAlignedAndNeverOverlap) {
  open(kGiB);
  std::mt19937 random(1);
  std::map<CUdeviceptr, std::uint64_t> live;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bytes = 1 + random() % (1u << (8 + random() % 14));
    const CUdeviceptr address = take(bytes);
    ASSERT_EQ(address % 256, 0u);
    const auto next = live.lower_bound(address);
    ASSERT_TRUE(next == live.end() || next->first >= address + bytes);
    ASSERT_TRUE(next == live.begin() ||
                std::prev(next)->first + std::prev(next)->second <= address);
    live[address] = bytes;
    if (live.size() > 200) {
      auto gone = live.lower_bound(address - random() % (64 * kMiB));
      if (gone == live.end()) gone = live.begin();
      ASSERT_TRUE(pool->free(gone->first, nullptr));
      live.erase(gone);
    }
  }
  for (const auto& [address, bytes] : live) EXPECT_TRUE(pool->free(address, nullptr));
  EXPECT_EQ(pool->info().in_use, 0u);
}

TEST_P(PoolContract, ABlockKeepsWhatIsWrittenWhileOthersComeAndGo) {
  if (!has_memory()) GTEST_SKIP() << "a dry card has no memory";
  open(512 * kMiB);
  const auto fill = CALL(cuMemsetD32_v2);
  const auto read = CALL(cuMemcpyDtoH_v2);
  std::mt19937 random(2);
  std::map<CUdeviceptr, std::pair<std::uint64_t, unsigned>> live;
  for (unsigned i = 0; i < 400; ++i) {
    const std::uint64_t bytes = 4 * (1 + random() % (1u << (6 + random() % 15)));
    const CUdeviceptr address = take(bytes);
    ASSERT_EQ(fill(address, i, bytes / 4), CUDA_SUCCESS);
    live[address] = {bytes, i};
    if (live.size() > 40) {
      auto it = live.begin();
      std::advance(it, random() % live.size());
      const auto [size, value] = it->second;
      for (const std::uint64_t at : {std::uint64_t{0}, size / 8 * 4, size - 4}) {
        unsigned found = 0;
        ASSERT_EQ(read(&found, it->first + at, 4), CUDA_SUCCESS);
        ASSERT_EQ(found, value) << "at " << at << " of " << size;
      }
      ASSERT_TRUE(pool->free(it->first, nullptr));
      live.erase(it);
    }
    if (i % 50 == 0) (void)pool->trim(0);
  }
  for (const auto& [address, what] : live) EXPECT_TRUE(pool->free(address, nullptr));
}

TEST_P(PoolContract, NothingIsAddressZeroAndFreeingItDoesNothing) {
  open(kGiB);
  EXPECT_EQ(take(0), 0u);
  EXPECT_TRUE(pool->free(0, nullptr));
  EXPECT_EQ(pool->info().live_blocks, 0u);
}

TEST_P(PoolContract, WhatIsNoLiveBlockIsNotFreed) {
  open(kGiB);
  const CUdeviceptr a = take(100'000);
  EXPECT_FALSE(pool->free(a + 256, nullptr));
  EXPECT_FALSE(pool->free(0xdead000, nullptr));
  EXPECT_FALSE(pool->record_use(a + 256, nullptr));
  EXPECT_EQ(pool->info().live_blocks, 1u);
  EXPECT_TRUE(pool->free(a, nullptr));
  EXPECT_FALSE(pool->free(a, nullptr));
}

TEST_P(PoolContract, TheLimitRefusesWithANamedReasonAndFreeingHelps) {
  open(64 * kMiB);
  const CUdeviceptr a = take(40 * kMiB);
  const base::Expected<CUdeviceptr, Failure> refused = pool->allocate(40 * kMiB, nullptr);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_EQ(refused.error().code, CUDA_ERROR_OUT_OF_MEMORY);
  const std::string& message = refused.error().message;
  EXPECT_NE(message.find("40.00 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("limit 64.00 MiB"), std::string::npos) << message;
  const char* would_do = GetParam().regions ? "104.00 MiB would do" : "80.00 MiB would do";
  EXPECT_NE(message.find(would_do), std::string::npos) << message;
  EXPECT_EQ(pool->info().failures, 1u);
  EXPECT_TRUE(pool->free(a, nullptr));
  const CUdeviceptr b = take(60 * kMiB);
  EXPECT_TRUE(pool->free(b, nullptr));
  if (GetParam().exact) {
    EXPECT_LE(pool->info().peak_reserved, 64 * kMiB);
  }
}

TEST_P(PoolContract, CountsAreOfWhatIsLive) {
  open(kGiB);
  const std::uint64_t a_bytes = (GetParam().regions ? 16 : 10) * kMiB;
  const std::uint64_t b_bytes = (GetParam().regions ? 32 : 20) * kMiB;
  const CUdeviceptr a = take(10 * kMiB);
  const CUdeviceptr b = take(20 * kMiB);
  Info info = pool->info();
  EXPECT_EQ(info.in_use, a_bytes + b_bytes);
  EXPECT_EQ(info.live_blocks, 2u);
  EXPECT_EQ(info.allocations, 2u);
  EXPECT_EQ(info.largest_request, 20 * kMiB);
  EXPECT_GE(info.reserved, 30 * kMiB);
  EXPECT_TRUE(pool->free(b, nullptr));
  info = pool->info();
  EXPECT_EQ(info.in_use, a_bytes);
  EXPECT_EQ(info.peak_in_use, a_bytes + b_bytes);
  pool->reset_peaks();
  EXPECT_EQ(pool->info().peak_in_use, a_bytes);
  EXPECT_TRUE(pool->free(a, nullptr));
}

TEST_P(PoolContract, TheLimitCanChangeWhileThePoolLives) {
  open(64 * kMiB);
  const CUdeviceptr a = take(40 * kMiB);
  pool->set_limit(128 * kMiB);
  const CUdeviceptr b = take(40 * kMiB);
  EXPECT_TRUE(pool->free(b, nullptr));
  pool->set_limit(64 * kMiB);
  EXPECT_FALSE(static_cast<bool>(pool->allocate(40 * kMiB, nullptr)));
  EXPECT_TRUE(pool->free(a, nullptr));
}

TEST_P(PoolContract, TrimGivesFreeMemoryBackToTheCard) {
  open(2 * kGiB);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(take(32 * kMiB));
  if (!host()) {
    ASSERT_EQ(calls().mem_info(&before, &total), CUDA_SUCCESS);
  }
  for (const CUdeviceptr block : blocks) EXPECT_TRUE(pool->free(block, nullptr));
  (void)pool->trim(0);
  if (!host()) {
    ASSERT_EQ(calls().mem_info(&after, &total), CUDA_SUCCESS);
    EXPECT_GE(after, before + 900 * kMiB);
  }
  EXPECT_LE(pool->info().reserved, 64 * kMiB);
  const CUdeviceptr again = take(32 * kMiB);
  EXPECT_NE(again, 0u);
  EXPECT_TRUE(pool->free(again, nullptr));
}

TEST_P(PoolContract, ThreadsNeverShareABlock) {
  open(kGiB);
  std::mutex lock;
  std::map<CUdeviceptr, std::uint64_t> live;
  std::atomic<int> faults{0};
  std::atomic<CUdeviceptr> exchange[32] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 1500; ++i) {
        const std::uint64_t bytes = std::uint64_t{1} << (8 + random() % 15);
        const base::Expected<CUdeviceptr, Failure> block = pool->allocate(bytes, nullptr);
        if (!block) {
          faults.fetch_add(1);
          continue;
        }
        {
          const std::lock_guard<std::mutex> hold(lock);
          const auto next = live.lower_bound(*block);
          if ((next != live.end() && next->first < *block + bytes) ||
              (next != live.begin() && std::prev(next)->first + std::prev(next)->second > *block)) {
            faults.fetch_add(1);
          }
          live[*block] = bytes;
        }
        const CUdeviceptr other = exchange[random() % 32].exchange(*block);
        if (other == 0) continue;
        {
          const std::lock_guard<std::mutex> hold(lock);
          live.erase(other);
        }
        if (!pool->free(other, nullptr)) faults.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults.load(), 0);
  for (const auto& [address, bytes] : live) EXPECT_TRUE(pool->free(address, nullptr));
  EXPECT_EQ(pool->info().in_use, 0u);
}

// Stream 1 is held up by a word in memory; what it still uses must not reach stream 2.
TEST_P(PoolContract, ABlockFreedOnABusyStreamDoesNotReachAnother) {
  if (!has_memory() || host()) GTEST_SKIP() << "needs streams that work";
  open(kGiB);
  const auto create = CALL(cuStreamCreate);
  const auto destroy = CALL(cuStreamDestroy_v2);
  const auto wait = CALL(cuStreamWaitValue32_v2);
  const auto write = CALL(cuStreamWriteValue32_v2);
  const auto fill = CALL(cuMemsetD32Async);
  const auto read = CALL(cuMemcpyDtoH_v2);
  CUstream one = nullptr;
  CUstream two = nullptr;
  ASSERT_EQ(create(&one, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(create(&two, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr flag = 0;  // not from the pool: a driver's own takes no such words
  ASSERT_EQ(driver().calls->mem_alloc(&flag, 4), CUDA_SUCCESS);
  ASSERT_EQ(write(two, flag, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver().calls->context_synchronize(), CUDA_SUCCESS);
  // TensorFlow's arena waits for the first stream once, when it meets the second.
  EXPECT_TRUE(pool->free(take(256, one), one));
  EXPECT_TRUE(pool->free(take(256, two), two));
  for (const std::uint64_t bytes : {std::uint64_t{4096}, 4 * kMiB, 40 * kMiB}) {
    const CUdeviceptr a = take(bytes, one);
    ASSERT_EQ(wait(one, flag, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    ASSERT_EQ(fill(a, 0x11111111, bytes / 4, one), CUDA_SUCCESS);
    EXPECT_TRUE(pool->free(a, one));
    const CUdeviceptr b = take(bytes, two);
    ASSERT_EQ(fill(b, 0x22222222, bytes / 4, two), CUDA_SUCCESS);
    ASSERT_EQ(driver().calls->stream_synchronize(two), CUDA_SUCCESS);
    ASSERT_EQ(write(two, flag, 1, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver().calls->stream_synchronize(one), CUDA_SUCCESS);
    unsigned found = 0;
    ASSERT_EQ(read(&found, b, 4), CUDA_SUCCESS);
    EXPECT_EQ(found, 0x22222222u) << bytes;
    EXPECT_TRUE(pool->free(b, two));
    ASSERT_EQ(write(two, flag, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver().calls->context_synchronize(), CUDA_SUCCESS);
  }
  pool.reset();
  (void)driver().calls->mem_free(flag);
  (void)destroy(one);
  (void)destroy(two);
}

TEST_P(PoolContract, TheReportNamesWhatIsHeldAndTheLargestHole) {
  open(256 * kMiB);
  const CUdeviceptr a = take(100 * kMiB);
  const std::string report = pool->report(200 * kMiB);
  for (const char* part : {"200.00 MiB", "in use", GetParam().regions ? "128.00 MiB" : "100.00 MiB",
                           "reserved", "largest hole", "fragmentation", "limit", "256.00 MiB"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " in:\n" << report;
  }
  EXPECT_TRUE(pool->free(a, nullptr));
}

TEST_P(PoolContract, APoolThatGoesTakesNothingWithIt) {
  for (int i = 0; i < 3; ++i) {
    open(kGiB);
    (void)take(100 * kMiB);  // and not freed
    pool.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(All, PoolContract,
                         ::testing::Values(Case{"segments_dry", Kind::kSegments, true, true},
                                           Case{"segments", Kind::kSegments, false, true},
                                           Case{"bfc_dry", Kind::kBfc, true, true, true},
                                           Case{"bfc", Kind::kBfc, false, true, true},
                                           Case{"host_dry", Kind::kHost, true, true, true},
                                           Case{"host", Kind::kHost, false, true, true},
                                           Case{"driver_async", Kind::kDriverAsync, false, false}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace vram::pool
