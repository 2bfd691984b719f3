#include "ledger/devices.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "ledger/test_job.h"

namespace vram::ledger {
namespace {

using Uuid = std::array<std::uint8_t, 16>;

Uuid uuid_of(unsigned number) {
  Uuid uuid{};
  std::memcpy(uuid.data(), &number, sizeof number);
  return uuid;
}

TEST(Devices, TheSameUuidIsTheSameAccount) {
  TestJob job;
  const Uuid a = uuid_of(5), b = uuid_of(6);
  EXPECT_EQ(find_device(*job, a.data()), kNoDevice);
  const std::uint32_t first = find_or_add_device(*job, a.data(), 1 << 20);
  const std::uint32_t second = find_or_add_device(*job, b.data(), 1 << 20);
  EXPECT_NE(first, second);
  EXPECT_EQ(find_or_add_device(*job, a.data(), 1 << 20), first);
  EXPECT_EQ(find_device(*job, b.data()), second);
  EXPECT_EQ(std::memcmp(job->device[first].uuid, a.data(), 16), 0);
  EXPECT_EQ(job->device[first].capacity, 1u << 20);
}

// Number 0 would be the first card's.
TEST(Devices, ACardThatAProcessMeetsHasNoNumber) {
  TestJob job;
  const std::uint32_t met = find_or_add_device(*job, uuid_of(5).data(), 1 << 20);
  EXPECT_EQ(job->device[met].index, -1);
  job->device[met].index = 3;
  EXPECT_EQ(find_or_add_device(*job, uuid_of(5).data(), 1 << 20), met);
  EXPECT_EQ(job->device[met].index, 3);
}

TEST(Devices, UuidsThatDifferInOneBitAreTwoCards) {
  for (unsigned bit = 0; bit < 128; ++bit) {
    TestJob job;
    Uuid one = uuid_of(0xabcdef01), other = one;
    other[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_NE(find_or_add_device(*job, one.data(), 0), find_or_add_device(*job, other.data(), 0))
        << "bit " << bit;
  }
}

TEST(Devices, SixtyFourFitAndNoMore) {
  TestJob job;
  for (unsigned i = 0; i < wire::kMaxDevices; ++i) {
    ASSERT_NE(find_or_add_device(*job, uuid_of(i).data(), 0), kNoDevice);
  }
  EXPECT_EQ(find_or_add_device(*job, uuid_of(999).data(), 0), kNoDevice);
  EXPECT_NE(find_or_add_device(*job, uuid_of(63).data(), 0), kNoDevice);
}

TEST(Devices, ThreadsThatMeetTheSameCardsAtOnceMakeOneAccountForEach) {
  constexpr unsigned kThreads = 8, kCards = 32;
  TestJob job;
  std::vector<std::array<std::uint32_t, kCards>> found(kThreads);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < kCards; ++i) {
        const unsigned card = (i * 5 + t * 3) % kCards;
        found[t][card] = find_or_add_device(*job, uuid_of(card).data(), 1 << 30);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned t = 1; t < kThreads; ++t) EXPECT_EQ(found[t], found[0]);
  for (unsigned card = 0; card < kCards; ++card) {
    EXPECT_EQ(std::memcmp(job->device[found[0][card]].uuid, uuid_of(card).data(), 16), 0);
  }
  EXPECT_EQ(job->device[kCards].key, 0u);
}

TEST(Devices, AnEntryThatItsMakerDidNotCompleteIsCompletedByTheNext) {
  TestJob job;
  job->header.default_limit = 4096;
  const std::uint32_t device = find_or_add_device(*job, uuid_of(1).data(), 1 << 20);
  job->device[device].limit = 0;  // as by a process that died after it took the entry
  job->device[device].capacity = 0;
  std::memset(job->device[device].uuid, 0, 16);
  EXPECT_EQ(find_or_add_device(*job, uuid_of(1).data(), 1 << 20), device);
  EXPECT_EQ(job->device[device].limit, 4096u);
  EXPECT_EQ(job->device[device].capacity, 1u << 20);
  EXPECT_EQ(std::memcmp(job->device[device].uuid, uuid_of(1).data(), 16), 0);
}

TEST(Devices, AShareOfTheCapacityIsTheDefaultLimitInWholeGranules) {
  TestJob job;
  job->header.default_limit_permille = 333;
  EXPECT_EQ(default_limit(*job, 1'000'000), 333'000u / 512 * 512);
  EXPECT_EQ(default_limit(*job, 143'155ull << 20), (143'155ull << 20) * 333 / 1000 / 512 * 512);
}

TEST(Devices, AShareOfAnUnknownCapacityAllowsNothingUntilItIsKnown) {
  TestJob job;
  const FakeWorld world;
  job->header.default_limit_permille = 500;
  const std::uint32_t device = find_or_add_device(*job, uuid_of(1).data(), 0);
  const Account account(&*job, device, claim_slot(*job, {1, 0}, *world.get()), world.get());
  EXPECT_FALSE(account.reserve(1));
  EXPECT_EQ(find_or_add_device(*job, uuid_of(1).data(), 1 << 20), device);
  EXPECT_TRUE(account.reserve(1 << 19));
  EXPECT_FALSE(account.reserve(1));
}

TEST(Devices, ALimitOfNothingIsNotTakenForNone) {
  TestJob job;
  const std::uint32_t device = find_or_add_device(*job, uuid_of(1).data(), 1 << 20);
  set_limit(job->device[device], 0);
  (void)find_or_add_device(*job, uuid_of(1).data(), 1 << 20);
  EXPECT_EQ(most_granules(*job, device), 0u);
}

}  // namespace
}  // namespace vram::ledger
