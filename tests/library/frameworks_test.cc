// What PyTorch and CuPy call, over the simulated GPU, one process for each test.

#include "vram/frameworks.h"

#include <new>
#include <thread>
#include <vector>

#include "../sim/sim_test.h"

namespace {

using vram::sim_test::in_child;
using vram::sim_test::kGiB;
using vram::sim_test::kMiB;

vram_pool_info info_of(int device) {
  vram_pool* pool = nullptr;
  EXPECT_EQ(vram_framework_pool(device, &pool), VRAM_OK) << vram_last_error();
  vram_pool_info info = VRAM_POOL_INFO_INIT;
  EXPECT_EQ(vram_pool_get_info(pool, &info), VRAM_OK);
  return info;
}

TEST(Frameworks, TheLimitIsTheLowerOneOfTheEnvironments) {
  in_child([] {
    ::setenv("VRAM_POOL_LIMIT", "25%", 1);
    EXPECT_EQ(info_of(0).limit, 6 * kGiB);
    ::setenv("PER_PROCESS_GPU_MEMORY", "4096", 1);
    EXPECT_EQ(info_of(1).limit, 4 * kGiB);
    EXPECT_EQ(info_of(0).limit, 6 * kGiB) << "read once";
  });
  in_child([] {
    ::setenv("VRAM_POOL_LIMIT", "4GiB", 1);
    ::setenv("PER_PROCESS_GPU_MEMORY", "8192", 1);
    EXPECT_EQ(info_of(0).limit, 4 * kGiB);
  });
}

TEST(Frameworks, WithoutVariablesTheCardIsTheLimit) {
  in_child([] { EXPECT_EQ(info_of(0).limit, VRAM_NO_LIMIT); });
}

TEST(Frameworks, AGarbledLimitRefusesAndSaysWhy) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"VRAM_POOL_LIMIT", "4"},
                                                        {"VRAM_POOL_LIMIT", ""},
                                                        {"VRAM_POOL_LIMIT", "140%"},
                                                        {"PER_PROCESS_GPU_MEMORY", "4GiB"}}) {
    in_child([name = name, value = value] {
      ::setenv(name, value, 1);
      EXPECT_EQ(vram_torch_pool_alloc(kMiB, 0, nullptr), nullptr);
      EXPECT_NE(std::string(vram_last_error()).find(name), std::string::npos);
      EXPECT_EQ(vram_cupy_malloc(nullptr, kMiB, 0), nullptr);
      EXPECT_THROW(vram_torch_alloc(kMiB, 0, nullptr), std::bad_alloc);
      ::unsetenv(name);
      EXPECT_NE(vram_torch_pool_alloc(kMiB, 0, nullptr), nullptr) << "nothing is kept of it";
    });
  }
}

TEST(Frameworks, ARefusalIsThrownWhereNullWouldBeTakenForMemory) {
  in_child([] {
    ::setenv("VRAM_POOL_LIMIT", "64MiB", 1);
    void* block = vram_torch_alloc(40 * kMiB, 0, nullptr);
    EXPECT_NE(block, nullptr);
    try {
      vram_torch_alloc(40 * kMiB, 0, nullptr);
      FAIL() << "the limit did not hold";
    } catch (const std::bad_alloc& error) {
      EXPECT_NE(std::string(error.what()).find("limit 64.00 MiB"), std::string::npos);
    }
    EXPECT_THROW(vram_torch_alloc(-1, 0, nullptr), std::bad_alloc);
    EXPECT_EQ(vram_torch_pool_alloc(40 * kMiB, 0, nullptr), nullptr);
    EXPECT_EQ(vram_torch_alloc(0, 0, nullptr), nullptr) << "nothing is no refusal";
    vram_torch_free(block, 40 * kMiB, 0, nullptr);
    EXPECT_EQ(info_of(0).in_use, 0U);
  });
}

TEST(Frameworks, DevicesThatAreNotThereAreRefused) {
  in_child([] {
    EXPECT_EQ(vram_torch_pool_alloc(kMiB, 2, nullptr), nullptr);
    EXPECT_EQ(vram_cupy_malloc(nullptr, kMiB, -1), nullptr);
    EXPECT_EQ(vram_cupy_malloc(nullptr, kMiB, 64), nullptr);
    EXPECT_EQ(vram_cupy_malloc(nullptr, kMiB, 1 << 30), nullptr);
    vram_torch_free(nullptr, 0, 99, nullptr);
  });
}

TEST(Frameworks, ThreadsThatComeFirstTogetherGetOnePool) {
  in_child([] {
    std::vector<std::thread> threads;
    std::vector<vram_pool*> pools(8);
    for (std::size_t i = 0; i < pools.size(); ++i) {
      threads.emplace_back([&pools, i] { EXPECT_EQ(vram_framework_pool(0, &pools[i]), VRAM_OK); });
    }
    for (std::thread& thread : threads) thread.join();
    for (vram_pool* pool : pools) EXPECT_EQ(pool, pools[0]);
  });
}

TEST(Frameworks, EmptyCacheGivesIdleMemoryBack) {
  in_child([] {
    vram_torch_free(vram_torch_alloc(kGiB, 1, nullptr), kGiB, 1, nullptr);
    EXPECT_NE(info_of(1).reserved, 0U);
    vram_torch_reset();
    EXPECT_EQ(info_of(1).reserved, 0U);
  });
}

TEST(Frameworks, AFractionIsOfTheCardAndNeverAboveTheEnvironments) {
  in_child([] {
    vram_torch_memory_fraction(0.5, 0);
    EXPECT_EQ(info_of(0).limit, 12 * kGiB);
    vram_torch_memory_fraction(-1, 0);
    vram_torch_memory_fraction(1.5, 0);
    EXPECT_EQ(info_of(0).limit, 12 * kGiB);
    ::setenv("VRAM_POOL_LIMIT", "4GiB", 1);
    vram_torch_memory_fraction(0.5, 1);
    EXPECT_EQ(info_of(1).limit, 4 * kGiB);
  });
}

TEST(Frameworks, ARecordedStreamKeepsAFreedBlockFromOthers) {
  in_child([] {
    ASSERT_EQ(vram::sim_test::use_primary(), CUDA_SUCCESS);
    CUstream busy = nullptr;
    ASSERT_EQ(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void* flag = vram_torch_alloc(4, 0, nullptr);
    const auto word = reinterpret_cast<CUdeviceptr>(flag);
    ASSERT_EQ(cuMemsetD32(word, 0, 1), CUDA_SUCCESS);
    void* block = vram_torch_alloc(kMiB, 0, nullptr);
    ASSERT_EQ(cuStreamWaitValue32(busy, word, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    vram_torch_record_stream(block, busy);
    vram_torch_free(block, kMiB, 0, nullptr);
    void* other = vram_torch_alloc(kMiB, 0, nullptr);
    EXPECT_NE(other, block);
    ASSERT_EQ(cuMemsetD32(word, 1, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(busy), CUDA_SUCCESS);
    vram_torch_free(other, kMiB, 0, nullptr);
    vram_torch_free(flag, 4, 0, nullptr);
  });
}

}  // namespace
