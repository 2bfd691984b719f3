#include "cli/framework_env.h"

#include <gtest/gtest.h>

#include <map>

namespace vram::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Variables changed(std::optional<Preallocation> preallocation, std::optional<Profile> profile,
                  const Variables& environment = {}, Layer asked = Layer::kFlag) {
  Variables out;
  const auto get = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  for (const NameValue& variable :
       apply_framework_variables(framework_variables(preallocation, profile), get, asked)) {
    EXPECT_TRUE(out.emplace(variable.name, variable.value).second) << variable.name << " twice";
  }
  return out;
}

TEST(FrameworkEnv, NothingAskedChangesNothing) { EXPECT_TRUE(changed({}, {}).empty()); }

TEST(FrameworkEnv, GrowthAndGreedyAreWhatTheFrameworksRead) {
  EXPECT_EQ(changed(Preallocation::kGrowth, {}),
            (Variables{{"TF_FORCE_GPU_ALLOW_GROWTH", "true"},
                       {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"}}));
  EXPECT_EQ(changed(Preallocation::kGreedy, {}),
            (Variables{{"TF_FORCE_GPU_ALLOW_GROWTH", "false"},
                       {"XLA_PYTHON_CLIENT_PREALLOCATE", "true"},
                       {"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.85"}}));
}

TEST(FrameworkEnv, AProfileDecidesWhatNobodyElseDecided) {
  EXPECT_EQ(changed({}, Profile::kTrain)["TF_FORCE_GPU_ALLOW_GROWTH"], "false");
  const Variables both = changed(Preallocation::kGrowth, Profile::kTrain);
  EXPECT_EQ(both.at("TF_FORCE_GPU_ALLOW_GROWTH"), "true");
  EXPECT_EQ(both.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(both.count("XLA_PYTHON_CLIENT_MEM_FRACTION"), 0u);
}

TEST(FrameworkEnv, OnlyTheCommandLineReplacesAVariableThatIsSet) {
  const Variables set{{"TF_FORCE_GPU_ALLOW_GROWTH", "false"}};
  EXPECT_EQ(changed(Preallocation::kGrowth, {}, set).at("TF_FORCE_GPU_ALLOW_GROWTH"), "true");
  EXPECT_EQ(
      changed(Preallocation::kGrowth, {}, set, Layer::kUserFile).count("TF_FORCE_GPU_ALLOW_GROWTH"),
      0u);
}

TEST(FrameworkEnv, ListsAreAddedToAndTheirKeysAreKept) {
  EXPECT_EQ(changed({}, Profile::kTrain, {{"PYTORCH_CUDA_ALLOC_CONF", "backend:native"}})
                .at("PYTORCH_CUDA_ALLOC_CONF"),
            "backend:native,expandable_segments:True");
  EXPECT_EQ(changed({}, Profile::kTrain, {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"}})
                .count("PYTORCH_CUDA_ALLOC_CONF"),
            0u);
}

TEST(FrameworkEnv, ANewerNameThatIsSetIsNotContradicted) {
  const Variables jax = changed(Preallocation::kGreedy, {}, {{"XLA_CLIENT_MEM_FRACTION", "0.5"}});
  EXPECT_EQ(jax.count("XLA_PYTHON_CLIENT_MEM_FRACTION"), 0u) << "JAX refuses to start with both";
  EXPECT_EQ(jax.count("XLA_CLIENT_MEM_FRACTION"), 0u);
  const Variables torch =
      changed({}, Profile::kTrain, {{"PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.8"}});
  EXPECT_EQ(torch.at("PYTORCH_ALLOC_CONF"),
            "garbage_collection_threshold:0.8,expandable_segments:True");
  EXPECT_EQ(torch.count("PYTORCH_CUDA_ALLOC_CONF"), 0u);
}

TEST(FrameworkEnv, EveryFrameworkHasANameThatCanBeTyped) {
  for (const std::string& name : framework_names()) {
    const std::optional<Framework> framework = parse_framework(name);
    ASSERT_TRUE(framework.has_value()) << name;
    EXPECT_EQ(name_of(*framework), name);
  }
  EXPECT_FALSE(parse_framework("keras").has_value());
}

}  // namespace
}  // namespace vram::cli
