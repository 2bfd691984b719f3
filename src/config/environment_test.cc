#include "config/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace vram::config {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Environment> read(const Variables& variables, Mode mode = Mode::kStrict) {
  const Variable variable = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return read_environment(variable, mode);
}

struct Row {
  const char* name;
  const char* value;
  bool compat_notes;  // compat: ignored, with a diagnostic
};

// Values that mean nothing.
const Row kMeaningless[] = {
    {"TF_FORCE_GPU_ALLOW_GROWTH", "True", true},
    {"TF_FORCE_GPU_ALLOW_GROWTH", "1", true},
    {"TF_FORCE_GPU_ALLOW_GROWTH", "", true},
    {"TF_GPU_ALLOCATOR", "jemalloc", true},
    {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "1GiB", true},
    {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "-1", true},
    {"TF_ENABLE_GPU_GARBAGE_COLLECTION", "yes", true},
    {"TF_PER_DEVICE_MEMORY_LIMIT_MB", "many", true},
    {"TF_FORCE_UNIFIED_MEMORY", "maybe", true},
    {"TF_GPU_HOST_MEM_LIMIT_IN_MB", "0", true},
    {"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "-2", true},
    {"PER_PROCESS_GPU_MEMORY", "4GiB", false},
    {"PER_PROCESS_GPU_MEMORY", "", false},
    {"PER_PROCESS_GPU_MEMORY", "0", false},
    {"PER_PROCESS_GPU_MEMORY", "-1", false},
    {"GPU_ID", "first", true},
};

TEST(Environment, WhatMeansNothingIsAnErrorInStrictMode) {
  for (const Row& row : kMeaningless) {
    const auto answer = read({{row.name, row.value}});
    ASSERT_FALSE(answer) << row.name << "=" << row.value;
    EXPECT_EQ(answer.error().kind, FaultKind::kInvalidArgument);
    EXPECT_NE(answer.error().message.find(row.name), std::string::npos) << answer.error().message;
  }
}

TEST(Environment, WhatMeansNothingIsIgnoredInCompatModeAndTold) {
  for (const Row& row : kMeaningless) {
    const auto answer = read({{row.name, row.value}}, Mode::kCompat);
    if (row.compat_notes) {
      ASSERT_TRUE(answer) << row.name << "=" << row.value;
      EXPECT_GE(answer->diagnostics.size(), 1U) << row.name;
    } else {
      EXPECT_FALSE(answer) << "a lost cap must not mean no cap: " << row.value;
    }
  }
}

TEST(Environment, WithoutVariablesNothingIsSaid) {
  const auto answer = read({});
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->force_growth);
  EXPECT_FALSE(answer->driver_async);
  EXPECT_TRUE(answer->garbage_collection);
  EXPECT_FALSE(answer->card_cap());
  EXPECT_EQ(answer->host_limit, std::uint64_t{128} << 30);
  EXPECT_TRUE(answer->diagnostics.empty());
}

TEST(Environment, EachVariableIsRead) {
  const auto answer = read({{"TF_FORCE_GPU_ALLOW_GROWTH", "true"},
                            {"TF_GPU_ALLOCATOR", "cuda_malloc_async"},
                            {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "300"},
                            {"TF_ENABLE_GPU_GARBAGE_COLLECTION", "false"},
                            {"TF_PER_DEVICE_MEMORY_LIMIT_MB", "2048"},
                            {"TF_FORCE_UNIFIED_MEMORY", "1"},
                            {"TF_GPU_HOST_MEM_LIMIT_IN_MB", "64"},
                            {"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "-1"},
                            {"PER_PROCESS_GPU_MEMORY", "1024"},
                            {"GPU_ID", "1,0"}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->force_growth, true);
  EXPECT_TRUE(answer->driver_async);
  EXPECT_EQ(answer->system_mib, 300);
  EXPECT_FALSE(answer->garbage_collection);
  EXPECT_EQ(answer->device_limit, std::uint64_t{2} << 30);
  EXPECT_TRUE(answer->unified);
  EXPECT_EQ(answer->host_limit, std::uint64_t{64} << 20);
  EXPECT_EQ(answer->preallocate, -1);
  EXPECT_EQ(answer->process_limit, std::uint64_t{1} << 30);
  EXPECT_EQ(answer->card_cap(), std::uint64_t{1} << 30) << "the lower of the two";
  EXPECT_EQ(answer->gpu_ids, (std::vector<int>{1, 0}));
}

TEST(Environment, GpuIdThatTheLauncherAppliedIsNotAppliedAgain) {
  EXPECT_TRUE(read({{"GPU_ID", "1"}, {"CUDA_VISIBLE_DEVICES", "1"}})->gpu_ids.empty());
  EXPECT_EQ(read({{"GPU_ID", "1"}, {"CUDA_VISIBLE_DEVICES", "2,3"}})->gpu_ids.size(), 1U);
}

TEST(Environment, WhatIsNotHonouredIsTold) {
  for (const char* name : {"TF_BFC_MEMORY_DUMP", "TF_DETERMINISTIC_ALLOCATOR"}) {
    EXPECT_EQ(read({{name, "x"}})->diagnostics.size(), 1U) << name;
  }
  EXPECT_EQ(read({{"TF_GPU_ALLOCATOR", "cuda_malloc"}})->diagnostics.size(), 1U);
  EXPECT_EQ(read({{"GPU_ID", "1"}}, Mode::kCompat)->diagnostics.size(), 1U);
  EXPECT_EQ(read({{"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "5"}})->diagnostics.size(), 1U);
}

TEST(Environment, TheModeIsOneOfTwo) {
  const auto mode = [](const char* value) {
    return mode_of_environment([=](const char*) { return std::optional<std::string>(value); });
  };
  EXPECT_EQ(*mode("compat"), Mode::kCompat);
  EXPECT_EQ(*mode("strict"), Mode::kStrict);
  EXPECT_EQ(mode("Compat").error().kind, FaultKind::kInvalidArgument);
}

}  // namespace
}  // namespace vram::config
