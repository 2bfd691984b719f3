#include "daemon/policy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace vram::daemon {
namespace {

Policy policy_of(const std::string& text) {
  const std::string path = testing::TempDir() + "policy_test.toml";
  std::ofstream(path) << text;
  auto policy = read_policy(path);
  std::remove(path.c_str());
  EXPECT_TRUE(policy) << policy.error().message;
  return *policy;
}

probe::Card card_of(int index, std::uint64_t bytes) {
  probe::Card card;
  card.index = index;
  card.uuid = "GPU-0000000" + std::to_string(index) + "-1111";
  card.total = bytes;
  return card;
}

TEST(PolicyTest, WithoutAFileNobodySharesWithOthersAndNothingIsCapped) {
  const Standing standing = Policy().of({1000, "alice", {"users"}});
  EXPECT_EQ(standing.may_park, MayPark::kOwn);
  EXPECT_FALSE(standing.limit);
  EXPECT_FALSE(standing.reserve);
  EXPECT_EQ(standing.priority, 0);
}

TEST(PolicyTest, AUserGoesBeforeGroupsAndTheseBeforeTheDefaultKeyByKey) {
  const Policy policy = policy_of(
      "[default]\npriority = 1\nlimit = \"1GiB\"\nmay_park = \"idle\"\n"
      "[group.a]\npriority = 2\nlimit = \"2GiB\"\n"
      "[group.b]\npriority = 3\nreserve = \"3GiB\"\n"
      "[user.alice]\npriority = 4\n");
  const Standing alice = policy.of({1000, "alice", {"b", "a"}});
  EXPECT_EQ(alice.priority, 4);
  EXPECT_EQ(alice.limit->amount, 2ull << 30);
  EXPECT_EQ(alice.reserve->amount, 3ull << 30);
  EXPECT_EQ(alice.may_park, MayPark::kIdle);
  EXPECT_EQ(policy.of({1001, "bob", {"a", "b"}}).priority, 2) << "the file's order decides";
  EXPECT_EQ(policy.of({1002, "carol", {}}).priority, 1);
}

TEST(PolicyTest, AUserIsNamedByItsNumberAsWell) {
  EXPECT_EQ(policy_of("[user.1000]\npriority = 4\n").of({1000, "alice", {}}).priority, 4);
  EXPECT_EQ(policy_of("[user.1000]\npriority = 4\n").of({100, "bob", {}}).priority, 0);
}

TEST(PolicyTest, TheSmallestBudgetThatNamesACardHolds) {
  const Policy policy = policy_of("[card.all]\nbudget = \"50%\"\n[card.1]\nbudget = \"2GiB\"\n");
  EXPECT_EQ(policy.budget_on(card_of(0, 8ull << 30)), 4ull << 30);
  EXPECT_EQ(policy.budget_on(card_of(1, 8ull << 30)), 2ull << 30);
  EXPECT_EQ(Policy().budget_on(card_of(0, 8ull << 30)), 8ull << 30);
}

}  // namespace
}  // namespace vram::daemon
