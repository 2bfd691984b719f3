#include "ledger/parking.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "ledger/test_job.h"

namespace vram::ledger {
namespace {

using wire::Refusal;
using Clock = std::chrono::steady_clock;

// Longer than any test may take: who is woken does not wait for it.
constexpr std::uint32_t kLong_us = 60'000'000;

struct Parked : wire::Parking {
  Parked() : wire::Parking{} {}
};

TEST(Parking, ARequestHasItsOwnNumberAndSaysWhatToDo) {
  Parked parking;
  const MoveRequest first = ask(parking, Move::kToHost);
  const MoveRequest second = ask(parking, Move::kToCard);
  EXPECT_EQ(first.move(), Move::kToHost);
  EXPECT_EQ(second.move(), Move::kToCard);
  EXPECT_EQ(second.word >> 1, (first.word >> 1) + 1);
}

TEST(Parking, ARequestSaysHowMuchIsToLeaveWhichDevice) {
  constexpr std::uint64_t kUnit = MoveRequest::kUnit;
  Parked parking;
  for (const Amount amount : {Amount{kUnit, 0}, Amount{29184 * kUnit, wire::kMaxDevices - 1}}) {
    answer(parking, ask(parking, Move::kToHost, amount), Refusal::kNone);
    const MoveRequest asked{parking.asked.load()};
    EXPECT_EQ(asked.move(), Move::kToHost);
    EXPECT_EQ(asked.amount().bytes, amount.bytes);
    EXPECT_EQ(asked.amount().device, amount.device);
  }
  EXPECT_EQ(ask(parking, Move::kToHost, {kUnit + 1, 3}).amount().bytes, 2 * kUnit) << "no less";
  EXPECT_EQ(ask(parking, Move::kToCard).amount().bytes, 0u);
  EXPECT_EQ(ask(parking, Move::kToHost, {~std::uint64_t{0}, 0}).amount().bytes, 0u) << "everything";
}

TEST(Parking, ALaterRequestToParkAsksForNoLessThanTheOneWhosePlaceItTakes) {
  constexpr std::uint64_t kUnit = MoveRequest::kUnit;
  Parked parking;
  (void)ask(parking, Move::kToHost, {5 * kUnit, 2});
  EXPECT_EQ(ask(parking, Move::kToHost, {3 * kUnit, 2}).amount().bytes, 5 * kUnit);
  EXPECT_EQ(ask(parking, Move::kToHost, {7 * kUnit, 2}).amount().bytes, 7 * kUnit);
  EXPECT_EQ(ask(parking, Move::kToHost, {7 * kUnit, 1}).amount().bytes, 0u) << "of both devices";
  EXPECT_EQ(ask(parking, Move::kToHost, {kUnit, 1}).amount().bytes, 0u) << "of everything";
  answer(parking, open_request(parking), Refusal::kNone);
  EXPECT_EQ(ask(parking, Move::kToHost, {kUnit, 1}).amount().bytes, kUnit) << "that was dealt with";
  (void)ask(parking, Move::kToCard);
  EXPECT_EQ(ask(parking, Move::kToHost, {kUnit, 1}).amount().bytes, kUnit) << "the opposite";
}

TEST(Parking, NothingIsOpenBeforeSomebodyAsksAndAfterTheAnswer) {
  Parked parking;
  EXPECT_EQ(open_request(parking).word, 0u);
  const MoveRequest request = ask(parking, Move::kToHost);
  EXPECT_EQ(open_request(parking).word, request.word);
  EXPECT_FALSE(is_answered(parking, request));
  answer(parking, request, Refusal::kShared);
  EXPECT_EQ(open_request(parking).word, 0u);
  EXPECT_TRUE(is_answered(parking, request));
  EXPECT_EQ(parking.refusal.load(), Refusal::kShared);
}

TEST(Parking, ALaterRequestTakesThePlaceOfAnEarlierOneAndItsAnswerStandsForBoth) {
  Parked parking;
  const MoveRequest earlier = ask(parking, Move::kToHost);
  const MoveRequest later = ask(parking, Move::kToCard);
  EXPECT_EQ(open_request(parking).move(), Move::kToCard);
  answer(parking, open_request(parking), Refusal::kNone);
  EXPECT_TRUE(is_answered(parking, earlier));
  EXPECT_TRUE(is_answered(parking, later));
}

TEST(Parking, TheAnswerOfAnEarlierRequestDoesNotStandForALaterOne) {
  Parked parking;
  const MoveRequest earlier = ask(parking, Move::kToHost);
  const MoveRequest later = ask(parking, Move::kToCard);
  answer(parking, earlier, Refusal::kNone);
  EXPECT_TRUE(is_answered(parking, earlier));
  EXPECT_FALSE(is_answered(parking, later));
  EXPECT_EQ(open_request(parking).word, later.word);
}

TEST(Parking, AnswersAreKnownWhereNumbersGoRound) {
  Parked parking;
  parking.asked.store(0xfffffffcu);  // two numbers before the last
  parking.answered.store(0xfffffffcu);
  MoveRequest before{0xfffffffcu};
  for (int i = 0; i < 5; ++i) {
    const MoveRequest request = ask(parking, i % 2 == 0 ? Move::kToHost : Move::kToCard);
    EXPECT_FALSE(is_answered(parking, request)) << i;
    answer(parking, request, Refusal::kNone);
    EXPECT_TRUE(is_answered(parking, request)) << i;
    EXPECT_TRUE(is_answered(parking, before)) << i;
    before = request;
  }
  EXPECT_LT(before.word, 16u) << "they did go round";
}

TEST(Parking, NoRequestIsTheWordForNone) {
  for (const Move move : {Move::kToCard, Move::kToHost}) {
    for (const std::uint32_t last : {0u, 0xfffffffcu, 0xfffffffdu, 0xfffffffeu, 0xffffffffu}) {
      Parked parking;
      parking.asked.store(last);
      const MoveRequest request = ask(parking, move);
      EXPECT_GT(request.word, 1u) << last;
      EXPECT_EQ(request.move(), move) << last;
      EXPECT_EQ(open_request(parking).word, request.word) << last;
    }
  }
}

TEST(Parking, AnAnswerOfAnotherThreadWakesWhoWaits) {
  Parked parking;
  const MoveRequest request = ask(parking, Move::kToHost);
  const auto start = Clock::now();
  std::thread process([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answer(parking, open_request(parking), Refusal::kNone);
  });
  while (!is_answered(parking, request)) wait_for_answer(parking, real_world(), kLong_us);
  process.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST(Parking, WaitingForAnAnswerEndsWithItsTime) {
  Parked parking;
  const MoveRequest request = ask(parking, Move::kToHost);
  wait_for_answer(parking, real_world(), 1000);
  EXPECT_FALSE(is_answered(parking, request));
}

TEST(Parking, ARequestWakesTheProcessAtItsBell) {
  Parked parking;
  std::thread process([&] {
    while (open_request(parking).word == 0) {
      const std::uint32_t heard = bell(parking);
      if (open_request(parking).word != 0) break;
      wait_at_bell(parking, real_world(), heard, kLong_us);
    }
    answer(parking, open_request(parking), Refusal::kNone);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = Clock::now();
  const MoveRequest request = ask(parking, Move::kToHost);
  process.join();
  EXPECT_TRUE(is_answered(parking, request));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST(Parking, TheBellIsNotMissedByWhoLookedBeforeItRang) {
  Parked parking;
  const std::uint32_t heard = bell(parking);
  ring(parking);
  const auto start = Clock::now();
  wait_at_bell(parking, real_world(), heard, kLong_us);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST(Parking, WhoTakesASlotIsNotAskedWhatTheLastOwnerWas) {
  TestJob job;
  FakeWorld world;
  const std::uint32_t slot = claim_slot(*job, {7, 1}, *world.get());
  wire::Parking& parking = job->parking[slot];
  parking.place.store(wire::Place::kHost);
  parking.bytes.store(1 << 20);
  parking.times.store(3);
  parking.moved.store(1 << 19);
  parking.move_us.store(7);
  parking.since_ns.store(8);
  parking.idle_ns.store(9);
  parking.refusal.store(Refusal::kShared);
  const MoveRequest request = ask(parking, Move::kToCard);
  world.dead.insert(7);
  reap(*job, *world.get());
  ASSERT_EQ(claim_slot(*job, {8, 1}, *world.get()), slot);
  EXPECT_EQ(open_request(parking).word, 0u);
  EXPECT_TRUE(is_answered(parking, request)) << "whoever waits for the dead one may look";
  EXPECT_EQ(parking.place.load(), wire::Place::kNone);
  EXPECT_EQ(parking.refusal.load(), Refusal::kNone);
  EXPECT_EQ(parking.bytes.load(), 0u);
  EXPECT_EQ(parking.times.load(), 0u);
  EXPECT_EQ(parking.moved.load(), 0u);
  EXPECT_EQ(parking.move_us.load(), 0u);
  EXPECT_EQ(parking.since_ns.load(), 0u);
  EXPECT_EQ(parking.idle_ns.load(), 0u);
  EXPECT_GT(ask(parking, Move::kToHost).word, request.word) << "numbers go on";
}

}  // namespace
}  // namespace vram::ledger
