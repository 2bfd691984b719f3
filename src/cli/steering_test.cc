#include "cli/steering.h"

#include <gtest/gtest.h>

#include <map>

namespace vram::cli {
namespace {

using Variables = std::map<std::string, std::string>;

struct Steered {
  Variables child;
  std::vector<std::string> kept;
};

// `preset`: what was set for the program before.
Steered steered(const Variables& user, const Variables& preset = {}) {
  std::vector<std::string> list;
  for (const auto& [name, value] : user) list.push_back(name + "=" + value);
  ChildEnvironment child(list);
  for (const auto& [name, value] : preset) child.set(name, value);
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = user.find(name);
    return found == user.end() ? std::nullopt : std::optional(found->second);
  };
  Steered result;
  result.kept = steer(environment, &child);
  for (const std::string& variable : child.variables()) {
    const std::size_t equals = variable.find('=');
    result.child[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return result;
}

TEST(Steering, TurnsFrameworksToTheDriver) {
  const Steered got = steered({});
  const Variables expected{{"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"},
                           {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
                           {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
                           {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}};
  EXPECT_EQ(got.child, expected);
  EXPECT_TRUE(got.kept.empty());
}

TEST(Steering, WhatTheUserSetStaysAndIsTold) {
  const Steered got = steered({{"PYTORCH_CUDA_ALLOC_CONF", "backend:native"},
                               {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
                               {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}});
  EXPECT_EQ(got.child.at("PYTORCH_CUDA_ALLOC_CONF"), "backend:native");
  EXPECT_EQ(got.child.at("XLA_PYTHON_CLIENT_ALLOCATOR"), "platform");
  ASSERT_EQ(got.kept.size(), 2u);
  EXPECT_EQ(
      got.kept[0],
      "PYTORCH_CUDA_ALLOC_CONF is set to backend:native and stays, so pytorch may keep a pool of "
      "its own; with backend:cudaMallocAsync the driver is asked for every block");
}

TEST(Steering, ListsAreAddedTo) {
  EXPECT_EQ(steered({{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"}})
                .child.at("PYTORCH_CUDA_ALLOC_CONF"),
            "max_split_size_mb:64,backend:cudaMallocAsync");
  EXPECT_EQ(steered({{"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"}})
                .child.at("PYTORCH_CUDA_ALLOC_CONF"),
            "backend:cudaMallocAsync");
}

TEST(Steering, ANewerNameOfAVariableIsUsedWhereItIsSet) {
  const Steered got = steered({{"PYTORCH_ALLOC_CONF", "max_split_size_mb:64"}});
  EXPECT_EQ(got.child.at("PYTORCH_ALLOC_CONF"), "max_split_size_mb:64,backend:cudaMallocAsync");
  EXPECT_EQ(got.child.count("PYTORCH_CUDA_ALLOC_CONF"), 0u);
}

TEST(Steering, BothNamesOfAVariableAreSetWhereBothAre) {
  const Steered got = steered({{"PYTORCH_ALLOC_CONF", "a:1"}, {"PYTORCH_CUDA_ALLOC_CONF", "b:1"}});
  EXPECT_EQ(got.child.at("PYTORCH_ALLOC_CONF"), "a:1,backend:cudaMallocAsync");
  EXPECT_EQ(got.child.at("PYTORCH_CUDA_ALLOC_CONF"), "b:1,backend:cudaMallocAsync");
}

TEST(Steering, GoesBeforePresets) {
  const Steered got = steered({}, {{"XLA_PYTHON_CLIENT_PREALLOCATE", "true"},
                                   {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}});
  EXPECT_EQ(got.child.at("XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
  EXPECT_EQ(got.child.at("PYTORCH_CUDA_ALLOC_CONF"),
            "expandable_segments:True,backend:cudaMallocAsync");
}

}  // namespace
}  // namespace vram::cli
