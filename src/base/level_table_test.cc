#include "base/level_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace vram::base {
namespace {

// In memory that is zero, as where it is used.
class LevelTables : public testing::Test {
 protected:
  std::unique_ptr<LevelTable> table_ = std::make_unique<LevelTable>();

  std::uint64_t value_of(std::uint64_t key) {
    const LevelTable::Entry* entry = table_->find(key);
    return entry == nullptr ? ~std::uint64_t{0} : entry->value.load();
  }
};

TEST_F(LevelTables, WhatIsInsertedIsFoundUntilItIsTaken) {
  std::uint64_t value = 7;
  EXPECT_EQ(table_->find(5), nullptr);
  EXPECT_FALSE(table_->take(5, &value));
  EXPECT_EQ(value, 7u) << "untouched on failure";
  ASSERT_TRUE(table_->insert(5, 50));
  EXPECT_EQ(value_of(5), 50u);
  EXPECT_TRUE(table_->take(5, &value));
  EXPECT_EQ(value, 50u);
  EXPECT_EQ(table_->find(5), nullptr);
  EXPECT_FALSE(table_->take(5, &value));
}

TEST_F(LevelTables, HoldsAddressesOfEverySpacing) {
  for (const unsigned shift : {9u, 12u, 21u}) {
    table_ = std::make_unique<LevelTable>();
    constexpr std::uint64_t kCount = 100'000;
    for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_TRUE(table_->insert(i << shift, i));
    for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_EQ(value_of(i << shift), i);
    std::uint64_t value = 0;
    for (std::uint64_t i = 1; i <= kCount; i += 2) ASSERT_TRUE(table_->take(i << shift, &value));
    for (std::uint64_t i = 1; i <= kCount; ++i) {
      ASSERT_EQ(table_->find(i << shift) == nullptr, i % 2 == 1);
    }
  }
}

TEST_F(LevelTables, AgreesWithAMapOverManyRandomChanges) {
  std::map<std::uint64_t, std::uint64_t> model;
  std::minstd_rand random(1);
  for (int i = 0; i < 300'000; ++i) {
    const std::uint64_t key = random() % 20'000 + 1;
    const auto known = model.find(key);
    if (known == model.end()) {
      ASSERT_TRUE(table_->insert(key, random()));
      model[key] = value_of(key);
    } else {
      std::uint64_t value = 0;
      ASSERT_TRUE(table_->take(key, &value));
      ASSERT_EQ(value, known->second);
      model.erase(known);
    }
  }
  std::map<std::uint64_t, std::uint64_t> seen;
  table_->for_each([&](std::uint64_t key, std::uint64_t value) { seen[key] = value; });
  EXPECT_EQ(seen, model);
}

TEST_F(LevelTables, AnEntryMadeWhereAnotherWasTakenStartsAtZero) {
  std::uint64_t value = 0;
  for (std::uint64_t key = 1; key <= 5'000; ++key) ASSERT_TRUE(table_->insert(key, 99));
  for (std::uint64_t key = 1; key <= 5'000; ++key) ASSERT_TRUE(table_->take(key, &value));
  for (std::uint64_t key = 10'001; key <= 15'000; ++key) {
    LevelTable::Entry* entry = table_->find_or_insert(key);
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(entry->value, 0u);
  }
}

TEST_F(LevelTables, ThreadsThatMakeTheSameKeysShareTheirEntries) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kKeys = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t key = 1; key <= kKeys; ++key) ++table_->find_or_insert(key)->value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t key = 1; key <= kKeys; ++key) ASSERT_EQ(value_of(key), kThreads);
}

TEST_F(LevelTables, OfManyWhoTakeAKeyOneGetsIt) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kKeys = 20'000;
  for (std::uint64_t key = 1; key <= kKeys; ++key) ASSERT_TRUE(table_->insert(key, key * 3));
  std::atomic<std::uint64_t> taken{0}, sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t key = 1; key <= kKeys; ++key) {
        std::uint64_t value = 0;
        if (!table_->take(key, &value)) continue;
        ++taken;
        sum += value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kKeys);
  EXPECT_EQ(sum, kKeys * (kKeys + 1) / 2 * 3);
}

TEST_F(LevelTables, WhoTakesAKeyThatComesBackGetsTheValueOfThatTime) {
  // Two threads free and one makes the same key again and again, as racing double frees do. A value
  // is handed out once.
  constexpr std::uint64_t kKey = 42, kRounds = 500;
  std::vector<std::atomic<int>> handed_out(kRounds + 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> takers;
  for (int t = 0; t < 2; ++t) {
    takers.emplace_back([&] {
      std::uint64_t value = 0;
      while (!stop) {
        if (table_->take(kKey, &value)) ++handed_out[value];
        std::this_thread::yield();
      }
    });
  }
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    ASSERT_TRUE(table_->insert(kKey, i));
    while (table_->find(kKey) != nullptr) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& taker : takers) taker.join();
  for (std::uint64_t i = 1; i <= kRounds; ++i) ASSERT_EQ(handed_out[i], 1) << i;
}

TEST_F(LevelTables, AForkedChildFindsNothing) {
  for (std::uint64_t key = 1; key <= 20'000; ++key) ASSERT_TRUE(table_->insert(key, key));
  const pid_t child = fork();
  if (child == 0) {
    int found = 0;
    table_->for_each([&](std::uint64_t, std::uint64_t) { found = 1; });
    if (table_->find(77) != nullptr) found = 2;
    if (!table_->insert(77, 1)) found = 3;
    _exit(found);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(value_of(77), 77u) << "the parent keeps everything";
}

}  // namespace
}  // namespace vram::base
