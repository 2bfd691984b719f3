// The C interface and its C++ form over the simulated GPU, one process for each test.

#include <cstring>
#include <thread>
#include <vector>

#include "../sim/sim_test.h"
#include "vram/pool.h"

namespace vram {
namespace {

using namespace literals;
using sim_test::in_child;

class PoolOfKind : public ::testing::TestWithParam<PoolKind> {};

TEST_P(PoolOfKind, AllocatesWithinItsLimitAndGivesBack) {
  in_child([] {
    PoolOptions options;
    options.kind = GetParam();
    options.limit = 64_MiB;
    Pool pool(options);
    void* block = pool.allocate(40_MiB);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(pool.info().in_use, (40_MiB).count());
    EXPECT_EQ(pool.info().limit, (64_MiB).count());
    EXPECT_THROW(static_cast<void>(pool.allocate(40_MiB)), ResourceExhausted);
    EXPECT_EQ(pool.info().failures, 1U);
    EXPECT_NE(pool.report(40_MiB).find("40.00 MiB asked for"), std::string::npos);
    pool.deallocate(block);
    EXPECT_THROW(pool.deallocate(block), ValueError);
    static_cast<void>(pool.trim());
    EXPECT_EQ(pool.info().reserved, 0U);
    pool.set_limit(128_MiB);
    block = pool.allocate(100_MiB);
    pool.record_use(block, nullptr);
    pool.deallocate(block);
    EXPECT_THROW(pool.record_use(block, nullptr), ValueError);
    pool.reset_peaks();
    EXPECT_EQ(pool.info().peak_in_use, 0U);
    pool.forget_stream(nullptr);
    EXPECT_EQ(pool.allocate(0_B), nullptr);
  });
}

TEST(Pool, ACapturesBlocksAreItsOwnAndTheOrderIsHeldTo) {
  in_child([] {
    Pool pool;
    const std::uint32_t capture = pool.begin_capture(nullptr);
    EXPECT_THROW(pool.release_capture(capture), ValueError) << "not ended";
    void* block = pool.allocate(1_MiB);
    pool.end_capture(capture);
    EXPECT_THROW(pool.end_capture(capture), ValueError);
    pool.deallocate(block);
    EXPECT_NE(pool.allocate(1_MiB), block);
    pool.release_capture(capture);
    EXPECT_THROW(pool.release_capture(capture), ValueError);
    EXPECT_THROW(pool.end_capture(9999), ValueError);
    EXPECT_EQ(vram_pool_begin_capture(nullptr, nullptr, nullptr), VRAM_INVALID_ARGUMENT);
  });
}

INSTANTIATE_TEST_SUITE_P(All, PoolOfKind,
                         ::testing::Values(PoolKind::kSegments, PoolKind::kBfc,
                                           PoolKind::kDriverAsync, PoolKind::kHost));

TEST(Pool, IsMovedAndDestroyedWithWhatItHolds) {
  in_child([] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    {
      Pool first;
      static_cast<void>(first.allocate(1_GiB));
      Pool second(std::move(first));
      EXPECT_GE(second.info().reserved, (1_GiB).count());
      EXPECT_GE(sim_test::used(), sim_test::kContextBytes + (1_GiB).count());
    }
    EXPECT_LT(sim_test::used(), (1_GiB).count());
  });
}

TEST(Pool, GreedyManagedAndOtherOptionsReachThePool) {
  in_child([] {
    PoolOptions options;
    options.kind = PoolKind::kBfc;
    options.limit = 2_GiB;
    options.greedy = true;
    Pool pool(options);
    static_cast<void>(pool.allocate(1_MiB));
    EXPECT_EQ(pool.info().reserved, (2_GiB).count());
    options.managed = true;
    options.limit = 30_GiB;  // more than the card
    Pool managed(options);
    static_cast<void>(managed.allocate(1_MiB));
    EXPECT_EQ(managed.info().reserved, (30_GiB).count());
  });
}

TEST(PoolApi, WhatMeansNothingIsRefusedAndSaysWhy) {
  in_child([] {
    const auto refused = [](auto change) {
      vram_pool_options options = VRAM_POOL_OPTIONS_INIT;
      change(options);
      vram_pool* pool = nullptr;
      const vram_status status = vram_pool_create(&options, &pool);
      EXPECT_EQ(pool, nullptr);
      EXPECT_NE(std::string(vram_last_error()), "");
      return status;
    };
    EXPECT_STREQ(vram_last_error(), "");
    EXPECT_EQ(refused([](auto& o) { o.size = 0; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.kind = 4; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.kind = -1; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.limit = 0; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.flags = VRAM_POOL_GREEDY; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.flags = 8; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.fragmentation_fraction = -1; }), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(refused([](auto& o) { o.device = 2; }), VRAM_NO_DEVICE);
    EXPECT_NE(std::string(vram_last_error()).find("device 2"), std::string::npos);
    vram_pool* pool = nullptr;
    EXPECT_EQ(vram_pool_create(nullptr, &pool), VRAM_INVALID_ARGUMENT);
    vram_pool_options options = VRAM_POOL_OPTIONS_INIT;
    EXPECT_EQ(vram_pool_create(&options, nullptr), VRAM_INVALID_ARGUMENT);
    void* address = nullptr;
    EXPECT_EQ(vram_pool_allocate(nullptr, 1, nullptr, &address), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(vram_pool_free(nullptr, nullptr, nullptr), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(vram_pool_report(nullptr, 0, nullptr, 0), 0U);
    ASSERT_EQ(vram_pool_create(&options, &pool), VRAM_OK);
    EXPECT_EQ(vram_pool_set_limit(pool, 0), VRAM_INVALID_ARGUMENT);
    EXPECT_EQ(vram_pool_allocate(pool, 1, nullptr, nullptr), VRAM_INVALID_ARGUMENT);
    vram_pool_info info{};
    EXPECT_EQ(vram_pool_get_info(pool, &info), VRAM_INVALID_ARGUMENT);
    vram_pool_destroy(pool);
    vram_pool_destroy(nullptr);
  });
}

// A program built against a later header, with fields that this library does not know.
struct LaterOptions {
  vram_pool_options now = VRAM_POOL_OPTIONS_INIT;
  std::uint64_t later = 0;
};
struct LaterInfo {
  vram_pool_info now = VRAM_POOL_INFO_INIT;
  std::uint64_t later = 7;
};

TEST(PoolApi, ALaterProgramIsUnderstoodAsLongAsItAsksForNothingNew) {
  in_child([] {
    LaterOptions options;
    options.now.size = sizeof options;
    vram_pool* pool = nullptr;
    options.later = 1;
    EXPECT_EQ(vram_pool_create(&options.now, &pool), VRAM_NOT_SUPPORTED);
    options.later = 0;
    ASSERT_EQ(vram_pool_create(&options.now, &pool), VRAM_OK);
    LaterInfo info;
    info.now.size = sizeof info;
    EXPECT_EQ(vram_pool_get_info(pool, &info.now), VRAM_OK);
    EXPECT_EQ(info.now.size, sizeof info);
    EXPECT_EQ(info.later, 0U);
    vram_pool_destroy(pool);
  });
}

TEST(PoolApi, EachThreadHasItsOwnLastError) {
  in_child([] {
    EXPECT_EQ(vram_pool_free(nullptr, nullptr, nullptr), VRAM_INVALID_ARGUMENT);
    std::thread([] { EXPECT_STREQ(vram_last_error(), ""); }).join();
    EXPECT_NE(std::string(vram_last_error()), "");
  });
}

TEST(PoolApi, AReportIsCutToTheRoomThereIs) {
  in_child([] {
    Pool pool;
    const std::size_t length = vram_pool_report(pool.handle(), 0, nullptr, 0);
    ASSERT_GT(length, 20U);
    char text[16];
    std::memset(text, 'x', sizeof text);
    EXPECT_EQ(vram_pool_report(pool.handle(), 0, text, 8), length);
    EXPECT_EQ(std::strlen(text), 7U);
    EXPECT_EQ(text[8], 'x');
    EXPECT_EQ(pool.report().size(), length);
  });
}

TEST(PoolApi, EveryStatusHasWords) {
  for (int status = VRAM_OK; status <= VRAM_INTERNAL_ERROR; ++status) {
    EXPECT_STRNE(vram_status_text(static_cast<vram_status>(status)), "unknown status");
  }
  EXPECT_EQ(vram_version(), static_cast<std::uint32_t>(VRAM_VERSION));
}

}  // namespace
}  // namespace vram
