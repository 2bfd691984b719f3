#include "cli/child_env.h"

#include <gtest/gtest.h>

namespace vram::cli {
namespace {

using Words = std::vector<std::string>;

std::string preload_after(const std::string& before) {
  ChildEnvironment environment(before.empty() ? Words{} : Words{"LD_PRELOAD=" + before});
  environment.preload({"/lib/a.so", "/lib/b.so"});
  return environment.variables().back();
}

TEST(ChildEnvironment, OurLibrariesComeFirst) {
  EXPECT_EQ(preload_after(""), "LD_PRELOAD=/lib/a.so:/lib/b.so");
  EXPECT_EQ(preload_after("/lib/other.so"), "LD_PRELOAD=/lib/a.so:/lib/b.so:/lib/other.so");
}

TEST(ChildEnvironment, OurLibrariesAreNeverThereTwice) {
  EXPECT_EQ(preload_after("/lib/a.so:/lib/b.so"), "LD_PRELOAD=/lib/a.so:/lib/b.so");
  EXPECT_EQ(preload_after("/lib/o.so /lib/b.so:/lib/a.so:/lib/p.so"),
            "LD_PRELOAD=/lib/a.so:/lib/b.so:/lib/o.so:/lib/p.so");
  EXPECT_EQ(preload_after("::"), "LD_PRELOAD=/lib/a.so:/lib/b.so");
}

TEST(ChildEnvironment, AFolderIsSearchedBeforeThoseThatWere) {
  ChildEnvironment environment(Words{});
  environment.search_first("/lib/a");
  EXPECT_EQ(environment.variables(), (Words{"LD_LIBRARY_PATH=/lib/a"}));
  environment.search_first("/lib/b");
  EXPECT_EQ(environment.variables(), (Words{"LD_LIBRARY_PATH=/lib/b:/lib/a"}));
}

TEST(ChildEnvironment, AVariableIsReplacedNotAdded) {
  ChildEnvironment environment(Words{"A=1", "AB=2", "A=3"});
  environment.set("A", "4");
  EXPECT_EQ(environment.variables(), (Words{"AB=2", "A=4"}));
}

}  // namespace
}  // namespace vram::cli
