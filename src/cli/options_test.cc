#include "cli/options.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace vram::cli {
namespace {

using Words = std::vector<std::string>;

struct Split {
  Words options, command;
};

Split split(Words arguments) {
  Options options;
  const auto root = make_options(&options);
  Words command = take_command(*root->get_subcommand("run"), &arguments);
  return {arguments, command};
}

RunOptions parse(Words arguments) {
  Options options;
  const auto root = make_options(&options);
  Words command = take_command(*root->get_subcommand("run"), &arguments);
  arguments.insert(arguments.begin(), "run");
  std::reverse(arguments.begin(), arguments.end());
  root->parse(arguments);
  options.run.command = command;
  return options.run;
}

TEST(Options, TheProgramBeginsAtTheFirstWordThatIsNoOption) {
  EXPECT_EQ(split({"-m", "4GiB", "python", "-m", "http.server"}).command,
            (Words{"python", "-m", "http.server"}));
  EXPECT_EQ(split({"-m", "4GiB", "--", "python", "--", "x"}).command, (Words{"python", "--", "x"}));
  EXPECT_EQ(split({"-q", "echo", "-q"}).command, (Words{"echo", "-q"}));
  EXPECT_EQ(split({"--sim=1x24GiB", "cmd"}).command, (Words{"cmd"}));
  EXPECT_EQ(split({"-m4GiB", "cmd"}).command, (Words{"cmd"}));
  EXPECT_EQ(split({"-qm", "4GiB", "cmd"}).command, (Words{"cmd"}));
  EXPECT_EQ(split({"-m", "4GiB", "--", "-odd-name"}).command, (Words{"-odd-name"}));
  EXPECT_TRUE(split({"-m", "4GiB"}).command.empty());
  EXPECT_TRUE(split({"-m", "4GiB", "--"}).command.empty());
}

TEST(Options, AValueMayBeginWithADash) {
  EXPECT_EQ(parse({"-m", "-4GiB", "cmd"}).flags.limit, "-4GiB");
  EXPECT_EQ(parse({"--gpu", "-1", "cmd"}).flags.gpu, "-1");
}

TEST(Options, EverySpellingReachesTheSetting) {
  EXPECT_EQ(parse({"-m", "4GiB", "c"}).flags.limit, "4GiB");
  EXPECT_EQ(parse({"-m4GiB", "c"}).flags.limit, "4GiB");
  EXPECT_EQ(parse({"--limit", "4GiB", "c"}).flags.limit, "4GiB");
  EXPECT_EQ(parse({"--limit=4GiB", "c"}).flags.limit, "4GiB");
  const RunOptions clustered = parse({"-qm", "4GiB", "c"});
  EXPECT_EQ(clustered.flags.limit, "4GiB");
  EXPECT_TRUE(clustered.flags.quiet);
  EXPECT_EQ(parse({"-m", "0=4GiB,1=8GiB", "c"}).flags.limit, "0=4GiB,1=8GiB");
  EXPECT_EQ(parse({"-m", "", "c"}).flags.limit, "") << "given and empty is not absent";
  EXPECT_FALSE(parse({"c"}).flags.limit.has_value());
}

TEST(Options, EveryOptionHasHelp) {
  Options options;
  const auto root = make_options(&options);
  for (const CLI::App* app : root->get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_FALSE(app->get_description().empty()) << app->get_name();
    for (const CLI::Option* option : app->get_options()) {
      EXPECT_FALSE(option->get_description().empty()) << app->get_name() << option->get_name();
    }
  }
}

}  // namespace
}  // namespace vram::cli
