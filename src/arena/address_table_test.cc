#include "arena/address_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>

namespace vram::arena {
namespace {

const auto kNobody = [] {};

TEST(AddressTable, FindsWhatIsInItAndNothingElse) {
  AddressTable table;
  std::unordered_map<std::uint64_t, NodeId> known;
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t address = (random() % 50'000 + 1) * 512;
    if (known.count(address) == 0) {
      ASSERT_TRUE(table.insert(address, static_cast<NodeId>(i + 1), kNobody));
      known[address] = static_cast<NodeId>(i + 1);
    } else {
      table.remove(address);
      known.erase(address);
    }
  }
  for (std::uint64_t a = 1; a <= 50'000; ++a) {
    const auto it = known.find(a * 512);
    ASSERT_EQ(table.find(a * 512), it == known.end() ? 0 : it->second);
  }
}

TEST(AddressTable, AReaderFindsALiveBlockWhileTheTableIsRebuilt) {
  AddressTable table;
  ASSERT_TRUE(table.insert(512, 7, kNobody));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> inside{0};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!stop.load()) {
      inside.fetch_add(1);
      if (table.find(512) != 7) wrong.fetch_add(1);
      inside.fetch_add(1);
    }
  });
  // Returns when the reader has left the find() it was in.
  const auto wait = [&] {
    const std::uint64_t seen = inside.load();
    while (seen % 2 == 1 && inside.load() == seen) std::this_thread::yield();
  };
  for (std::uint64_t a = 2; a < 100'000; ++a) ASSERT_TRUE(table.insert(a * 512, 1, wait));
  stop.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace vram::arena
