#include "cli/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <map>

namespace vram::cli {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/vram-settings-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    files_ = {folder_ + "/user.toml", folder_ + "/system.toml"};
  }
  void TearDown() override {
    unlink(files_.user.c_str());
    unlink(files_.system.c_str());
    rmdir(folder_.c_str());
  }

  void user(const std::string& text) { std::ofstream(files_.user) << text; }
  void system(const std::string& text) { std::ofstream(files_.system) << text; }

  Result<Settings> resolve() const {
    return resolve_settings(
        flags_,
        [this](const std::string& name) -> std::optional<std::string> {
          const auto found = environment_.find(name);
          return found == environment_.end() ? std::nullopt : std::optional(found->second);
        },
        files_);
  }

  std::string limit() const {
    const Result<Settings> settings = resolve();
    if (!settings) return settings.error().message;
    return format_limit(settings->limit.value) + " from " + settings->limit.origin;
  }

  std::string error() const {
    const Result<Settings> settings = resolve();
    return settings ? "" : settings.error().message;
  }

  std::string folder_;
  SettingsFiles files_;
  std::map<std::string, std::string> environment_;
  Flags flags_;
};

TEST_F(SettingsTest, NothingSaidMeansNoLimit) {
  EXPECT_EQ(limit(), " from default");
  EXPECT_EQ(resolve()->on_failure.value, OnFailure::kRefuse);
}

TEST_F(SettingsTest, FlagBeatsEnvironmentBeatsUserFileBeatsSystemFile) {
  system("limit = \"8GiB\"\n");
  EXPECT_EQ(limit(), "8GiB from " + files_.system + ":1: limit");
  user("\nlimit = \"6GiB\"\n");
  EXPECT_EQ(limit(), "6GiB from " + files_.user + ":2: limit");
  environment_["PER_PROCESS_GPU_MEMORY"] = "5120";
  EXPECT_EQ(limit(), "5GiB from PER_PROCESS_GPU_MEMORY");
  environment_["VRAM_LIMIT"] = "4GiB";
  EXPECT_EQ(limit(), "4GiB from VRAM_LIMIT");
  flags_.limit = "2GiB";
  EXPECT_EQ(limit(), "2GiB from -m");
  EXPECT_EQ(format_limit(resolve()->ceiling.value), "8GiB") << "whoever else speaks";
}

TEST_F(SettingsTest, AnUnknownKeyIsAnErrorWithItsPlace) {
  user("quiet = true\nlimt = \"4GiB\"\n");
  EXPECT_EQ(
      error(),
      files_.user +
          ":2: unknown key 'limt'; known are limit, reserve, gpu, profile, alloc, park_after, "
          "on_failure, sim, growth, greedy, elastic, park, wait, quiet");
  user("[limits]\n");
  EXPECT_EQ(error().rfind(files_.user + ":1: unknown key 'limits'", 0), 0u) << error();
}

TEST_F(SettingsTest, WrongTypesAndValuesAreErrorsWithTheirPlace) {
  user("limit = 4\n");
  EXPECT_EQ(error(), files_.user + ":1: limit must be a text in quotes, like limit = \"4GiB\"");
  user("limit = \"4\"\n");
  EXPECT_EQ(error(),
            files_.user + ":1: limit: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?");
  user("growth = \"yes\"\n");
  EXPECT_EQ(error(), files_.user + ":1: growth must be true or false");
  user("growth = true\ngreedy = true\n");
  EXPECT_EQ(error(), files_.user + ":1: growth and " + files_.user +
                         ":2: greedy exclude each other; choose one");
  user("profile = \"fast\"\n");
  EXPECT_EQ(error(),
            files_.user + ":1: profile: there is no profile 'fast'; use shared, serve or train");
  user("on_failure = \"ignore\"\n");
  EXPECT_EQ(error(), files_.user + ":1: on_failure: 'ignore' is unknown; use refuse or allow");
}

TEST_F(SettingsTest, AFileThatIsNotTomlIsAnErrorWithItsPlace) {
  user("quiet = true\nlimit 4GiB\n");
  EXPECT_EQ(error().rfind(files_.user + ":2: ", 0), 0u) << error();
}

TEST_F(SettingsTest, CharactersOutsideOfAsciiAreForComments) {
  user("\xEF\xBB\xBF# \u03C2 is fine here\nlimit = \"4GiB\"\n");
  EXPECT_EQ(limit(), "4GiB from " + files_.user + ":2: limit");
  user("limit = \"4GiB\"\n\u03C2");
  EXPECT_EQ(error().rfind(files_.user + ":2: ", 0), 0u) << error();
}

TEST_F(SettingsTest, AFileThatCannotBeReadIsAnError) {
  files_.user = folder_;  // a folder
  EXPECT_NE(error(), "");
}

TEST_F(SettingsTest, GarbageInTheEnvironmentIsAnErrorAndNotNoLimit) {
  environment_["PER_PROCESS_GPU_MEMORY"] = "lots";
  EXPECT_EQ(error().rfind("PER_PROCESS_GPU_MEMORY: 'lots' is not a whole number of MiB", 0), 0u);
  environment_["PER_PROCESS_GPU_MEMORY"] = "";
  EXPECT_NE(error(), "") << "a deployment file whose value went missing";
  environment_.clear();
  environment_["VRAM_LIMIT"] = "";
  EXPECT_EQ(error(), "VRAM_LIMIT: the size is empty; write one like 4GiB or 40%");
  environment_["VRAM_LIMIT"] = "4";
  EXPECT_NE(error(), "");
  environment_.clear();
  environment_["VRAM_PROFILE"] = "fast";
  EXPECT_EQ(error(), "VRAM_PROFILE: there is no profile 'fast'; use shared, serve or train");
}

TEST_F(SettingsTest, AVariableThatAFlagReplacesIsNotRead) {
  environment_["PER_PROCESS_GPU_MEMORY"] = "lots";
  flags_.limit = "2GiB";
  EXPECT_EQ(limit(), "2GiB from -m");
}

TEST_F(SettingsTest, GrowthAndGreedyExcludeEachOtherOnTheCommandLine) {
  flags_.growth = flags_.greedy = true;
  EXPECT_EQ(error(), "--growth and --greedy exclude each other; choose one");
  flags_.growth = false;
  EXPECT_EQ(resolve()->preallocation.value, Preallocation::kGreedy);
}

TEST_F(SettingsTest, FalseInTheUserFileTakesBackWhatTheSystemFileSays) {
  system("growth = true\nquiet = true\n");
  EXPECT_EQ(resolve()->preallocation.value, Preallocation::kGrowth);
  EXPECT_TRUE(resolve()->quiet.value);
  user("growth = false\nquiet = false\n");
  EXPECT_FALSE(resolve()->preallocation.value.has_value());
  EXPECT_EQ(resolve()->preallocation.origin, files_.user + ":1: growth");
  EXPECT_FALSE(resolve()->quiet.value);
  user("greedy = false\n");
  EXPECT_EQ(resolve()->preallocation.value, Preallocation::kGrowth) << "the other one stays";
}

TEST_F(SettingsTest, ElasticIsServedByPoolsOfVrams) {
  EXPECT_FALSE(resolve()->elastic.value);
  flags_.elastic = true;
  EXPECT_TRUE(resolve()->elastic.value);
  EXPECT_EQ(resolve()->alloc.value, Allocator::kVram);
  EXPECT_EQ(resolve()->alloc.origin, "--elastic");
  flags_.alloc = "vram";
  EXPECT_TRUE(resolve()->elastic.value);
}

TEST_F(SettingsTest, ElasticAndTheDriversPoolsContradictEachOtherInOneLayer) {
  const std::string why = " the driver's, which cannot be parked; leave one of them out";
  flags_.elastic = true;
  flags_.alloc = "driver";
  EXPECT_EQ(error(), "--elastic needs vram's own pools, and --alloc chooses" + why);
  flags_ = {};
  environment_ = {{"VRAM_ELASTIC", "1"}, {"VRAM_ALLOC", "driver"}};
  EXPECT_EQ(error(), "VRAM_ELASTIC needs vram's own pools, and VRAM_ALLOC chooses" + why);
  environment_.clear();
  user("elastic = true\nalloc = \"driver\"\n");
  EXPECT_EQ(error(), files_.user + ":1: elastic needs vram's own pools, and " + files_.user +
                         ":2: alloc chooses" + why);
}

TEST_F(SettingsTest, OfElasticAndTheDriversPoolsTheHigherLayerHolds) {
  user("elastic = true\n");
  flags_.alloc = "driver";
  EXPECT_FALSE(resolve()->elastic.value);
  EXPECT_EQ(resolve()->elastic.origin, "--alloc");
  user("alloc = \"driver\"\n");
  flags_ = {};
  flags_.elastic = true;
  EXPECT_TRUE(resolve()->elastic.value);
  EXPECT_EQ(resolve()->alloc.value, Allocator::kVram);
}

TEST_F(SettingsTest, ElasticIsTrueOrFalseInEveryLayer) {
  system("elastic = true\n");
  EXPECT_TRUE(resolve()->elastic.value);
  user("elastic = false\n");
  EXPECT_FALSE(resolve()->elastic.value);
  EXPECT_EQ(resolve()->alloc.value, Allocator::kDriver);
  environment_["VRAM_ELASTIC"] = "true";
  EXPECT_TRUE(resolve()->elastic.value);
  environment_["VRAM_ELASTIC"] = "0";
  EXPECT_FALSE(resolve()->elastic.value);
  environment_["VRAM_ELASTIC"] = "yes";
  EXPECT_EQ(error(), "VRAM_ELASTIC: 'yes' is unknown; use true or false");
  flags_.elastic = true;
  EXPECT_TRUE(resolve()->elastic.value) << "a variable that a flag replaces is not read";
}

TEST_F(SettingsTest, ACardMayBeWrittenAsANumber) {
  user("gpu = 1\n");
  EXPECT_EQ(resolve()->gpu.value, "1");
}

TEST_F(SettingsTest, TheCeilingIsReadAlone) {
  system("limit = \"40%\"\n");
  const auto ceiling = read_ceiling(files_.system);
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(format_limit(ceiling->value), "40%");
  system("limit = \"40\"\n");
  EXPECT_FALSE(read_ceiling(files_.system));
}

TEST(SettingsFiles, FollowTheXdgSpecification) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(settings_files(environment).user, "");
  variables["HOME"] = "/home/me";
  EXPECT_EQ(settings_files(environment).user, "/home/me/.config/vram/config.toml");
  variables["XDG_CONFIG_HOME"] = "relative";
  EXPECT_EQ(settings_files(environment).user, "/home/me/.config/vram/config.toml");
  variables["XDG_CONFIG_HOME"] = "/conf";
  EXPECT_EQ(settings_files(environment).user, "/conf/vram/config.toml");
  EXPECT_EQ(settings_files(environment).system, "/etc/vram/config.toml");
}

}  // namespace
}  // namespace vram::cli
