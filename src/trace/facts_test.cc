#include "trace/facts.h"

#include <gtest/gtest.h>

namespace vram::trace {
namespace {

TEST(Facts, AreOneWordEach) {
  EXPECT_EQ(format_facts({{"a", "1"}, {"b", "two words\n100%"}}), "a=1 b=two%20words%0A100%25");
  EXPECT_EQ(format_facts({}), "");
}

TEST(Facts, ComeBackAsTheyWere) {
  const std::string value = "python3 -c 'x=1 % 2'\t\x7f é";
  const auto fact = parse_fact(format_facts({{"command", value}}));
  ASSERT_TRUE(fact);
  EXPECT_EQ(fact->first, "command");
  EXPECT_EQ(fact->second, value);
}

TEST(Facts, WrongOnesAreRefused) {
  for (const char* word : {"", "=", "=1", "name", "a=%", "a=%2", "a=%2x", "a=%zz"}) {
    EXPECT_FALSE(parse_fact(word)) << word;
  }
  EXPECT_EQ(parse_fact("a=")->second, "");
}

TEST(Facts, AreFoundByName) {
  const Facts facts{{"a", "1"}, {"b", "2"}};
  EXPECT_EQ(find_fact(facts, "b"), "2");
  EXPECT_FALSE(find_fact(facts, "c"));
}

}  // namespace
}  // namespace vram::trace
