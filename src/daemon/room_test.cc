#include "daemon/room.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace vram::daemon {
namespace {

using wire::Place;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr const char* kCard = "GPU-card";

// A card of 24 GiB and the jobs that a test puts there, one process each; all of one user.
class RoomTest : public testing::Test {
 protected:
  RoomTest() : admissions_(&policy_, standing_of()), room_(&policy_, &admissions_, standing_of()) {
    sight_.now_ns = 1'000'000 * kSecond;
    probe::Card card;
    card.index = 0;
    card.uuid = kCard;
    card.total = card.free = 24 * kGiB;
    sight_.cards.push_back(card);
  }

  StandingOf standing_of() {
    return [this](std::uint32_t uid) {
      Standing standing;
      standing.may_park = may_park_;
      standing.priority = uid == 2 ? 1 : 0;
      return standing;
    };
  }

  enum class Does { kIdle, kWork };
  void add_job(const std::string& id, std::uint64_t gib, Does does, std::uint32_t uid = 1) {
    host::JobInfo job;
    job.id = id;
    job.path = "/state/" + id + ".job";
    job.uid = uid;
    job.elastic = true;
    host::JobDevice device;
    device.card.uuid = kCard;
    job.devices.push_back(device);
    host::JobMember member;
    member.owner = {sight_.jobs.size() + 1, 1};
    member.place = Place::kCard;
    member.shares.push_back({gib * kGiB, gib * kGiB});
    member.move_us = 100'000;
    if (does == Does::kIdle) member.idle_ns = sight_.now_ns - (100 - sight_.jobs.size()) * kSecond;
    job.members.push_back(member);
    sight_.jobs.push_back(job);
    sight_.cards[0].free -= gib * kGiB;
  }
  host::JobMember& member(const std::string& id) {
    for (host::JobInfo& job : sight_.jobs) {
      if (job.id == id) return job.members[0];
    }
    ADD_FAILURE() << id;
    return sight_.jobs[0].members[0];
  }
  void reserve(const std::string& id, std::uint64_t gib) {
    for (const host::JobInfo& job : sight_.jobs) {
      if (job.id == id) admissions_.admit(job, {{kCard, gib * kGiB, 0}});
    }
  }
  ProcessKey key(const std::string& id) {
    for (const host::JobInfo& job : sight_.jobs) {
      if (job.id == id) return key_of(job, job.members[0]);
    }
    return {};
  }
  void ask(const std::string& id, std::uint64_t gib) {
    EXPECT_EQ(room_.add(sight_, {++number_, key(id), kCard, gib * kGiB, sight_.now_ns,
                                 sight_.now_ns + 3600 * kSecond}),
              "");
  }
  void parked(const std::string& id) {
    host::JobMember& m = member(id);
    sight_.cards[0].free += m.shares[0].settled;
    m.parked = m.shares[0].settled;
    m.shares[0] = {};
    m.place = Place::kHost;
    m.asked = false;
    m.since_ns = sight_.now_ns;
    ++m.times;
  }
  void gives(const std::string& id, std::uint64_t gib) {
    host::JobMember& m = member(id);
    const std::uint64_t bytes = gib * kGiB;
    sight_.cards[0].free += bytes;
    m.parked += bytes;
    m.shares[0] = {m.shares[0].settled - bytes, m.shares[0].movable - bytes};
    m.place = Place::kHost;
    m.asked = false;
    m.since_ns = sight_.now_ns;
    ++m.times;
  }
  std::uint64_t asked_bytes(const std::string& id) {
    for (const MoveOrder& order : plan_.moves) {
      if (order.who == key(id)) return order.amount.bytes;
    }
    ADD_FAILURE() << id << " was not asked";
    return 0;
  }
  void takes(const std::string& id, std::uint64_t gib) {
    host::JobMember& m = member(id);
    m.shares[0].settled += gib * kGiB;
    m.shares[0].movable += gib * kGiB;
    sight_.cards[0].free -= gib * kGiB;
  }
  // The ids of the jobs that are asked to park.
  std::vector<std::string> look() {
    plan_ = room_.look(sight_);
    std::vector<std::string> ids;
    for (const MoveOrder& order : plan_.moves) {
      const Found found = find(sight_, order.who);
      ids.push_back(found.job->id);
      member(found.job->id).asked = true;
    }
    return ids;
  }
  std::size_t granted() const { return plan_.decisions.size(); }
  using Ids = std::vector<std::string>;

  Policy policy_;
  MayPark may_park_ = MayPark::kOwn;
  Admissions admissions_;
  Room room_;
  Sight sight_;
  RoomPlan plan_;
  std::uint64_t number_ = 0;
};

TEST_F(RoomTest, TwoAreNeverPromisedTheSameBytes) {
  add_job("a", 1, Does::kWork);
  add_job("b", 1, Does::kWork);
  ask("a", 15);
  ask("b", 15);
  look();
  ASSERT_EQ(granted(), 1u);
  look();
  EXPECT_EQ(granted(), 0u) << "the first has not taken it yet";
  takes("a", 15);
  look();
  EXPECT_EQ(granted(), 0u);
  EXPECT_EQ(room_.promised_on(sight_, kCard), 0u) << "taken, so no promise any more";
}

TEST_F(RoomTest, APromiseThatNobodyTakesUpEnds) {
  add_job("a", 1, Does::kWork);
  add_job("b", 1, Does::kWork);
  ask("a", 15);
  look();
  ask("b", 15);
  look();
  EXPECT_EQ(granted(), 0u);
  sight_.now_ns += 3 * kSecond;
  look();
  EXPECT_EQ(granted(), 1u);
}

TEST_F(RoomTest, WhatIsOnItsWayOutIsCountedOnce) {
  add_job("idle", 12, Does::kIdle);
  add_job("other", 10, Does::kIdle);
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{"idle"});
  EXPECT_EQ(look(), Ids{}) << "it comes";
  parked("idle");
  look();
  EXPECT_EQ(granted(), 1u);
}

TEST_F(RoomTest, WhatIsMissingAndALittleMoreIsTakenOfALargeOne) {
  add_job("idle", 20, Does::kIdle);
  add_job("a", 1, Does::kWork);
  add_job("b", 1, Does::kWork);
  ask("a", 9);
  EXPECT_EQ(look(), Ids{"idle"});
  EXPECT_EQ(asked_bytes("idle"), 8 * kGiB) << "2 are free";
  ask("b", 1);
  EXPECT_EQ(look(), Ids{}) << "the little more is on its way";
  member("idle").place = Place::kParking;
  EXPECT_EQ(look(), Ids{});
  member("idle").place = Place::kCard;
  gives("idle", 8);
  look();
  EXPECT_EQ(granted(), 2u);
}

TEST_F(RoomTest, OfWhoWasAskedOnlyThePartIsOnItsWay) {
  add_job("idle", 12, Does::kIdle);
  add_job("other", 8, Does::kIdle);
  add_job("a", 1, Does::kWork);
  add_job("b", 1, Does::kWork);
  ask("a", 5);
  EXPECT_EQ(look(), Ids{"idle"});
  EXPECT_EQ(asked_bytes("idle"), 4 * kGiB);
  sight_.now_ns += kSecond / 10;
  ask("b", 8);
  EXPECT_EQ(look(), Ids{"other"});
}

TEST_F(RoomTest, OfASmallCardTheLittleMoreIsASmallPart) {
  sight_.cards[0].total = sight_.cards[0].free = 4 * kGiB;
  add_job("idle", 3, Does::kIdle);
  add_job("a", 1, Does::kWork);
  ask("a", 1);
  EXPECT_EQ(look(), Ids{"idle"});
  EXPECT_EQ(asked_bytes("idle"), kGiB + kGiB / 4);
}

TEST_F(RoomTest, OfSeveralTheLastGivesThePart) {
  add_job("older", 8, Does::kIdle);
  add_job("younger", 12, Does::kIdle);
  add_job("a", 1, Does::kWork);
  ask("a", 17);
  EXPECT_EQ(look(), (Ids{"older", "younger"}));
  EXPECT_EQ(asked_bytes("older"), 8 * kGiB);
  EXPECT_EQ(asked_bytes("younger"), 7 * kGiB);
}

TEST_F(RoomTest, WhoIsParkedInPartGivesTheRestBeforeAnotherOneMoves) {
  add_job("idle", 10, Does::kIdle);
  add_job("part", 12, Does::kWork);
  add_job("a", 1, Does::kWork);
  member("part").place = Place::kHost;
  member("part").parked = 5 * kGiB;
  member("part").idle_ns = sight_.now_ns - 5 * kSecond;
  ask("a", 9);
  EXPECT_EQ(look(), Ids{"part"});
  EXPECT_EQ(asked_bytes("part"), 9 * kGiB);
  EXPECT_EQ(look(), Ids{}) << "it is where it was, and has not given it yet";
  EXPECT_EQ(granted(), 0u);
  gives("part", 9);
  look();
  EXPECT_EQ(granted(), 1u);
}

TEST_F(RoomTest, OneParkedInPartThatRefusesTheRestIsLeftAloneForAWhile) {
  add_job("part", 20, Does::kWork);
  add_job("a", 1, Does::kWork);
  member("part").place = Place::kHost;
  ask("a", 9);
  EXPECT_EQ(look(), Ids{"part"});
  member("part").asked = false;
  member("part").refusal = wire::Refusal::kHostMemory;
  EXPECT_EQ(look(), Ids{});
  sight_.now_ns += 6 * kSecond;
  EXPECT_EQ(look(), Ids{"part"});
}

TEST_F(RoomTest, WhoWaitsLongerKeepsWhatItStillHas) {
  add_job("first", 12, Does::kWork);
  add_job("second", 11, Does::kWork);
  for (const char* id : {"first", "second"}) {
    member(id).place = Place::kWaiting;
    member(id).parked = 4 * kGiB;
  }
  ask("first", 4);
  sight_.now_ns += kSecond / 10;
  ask("second", 4);
  EXPECT_EQ(look(), Ids{"second"}) << "for the first, and not the other way round";
  EXPECT_EQ(asked_bytes("second"), 4 * kGiB);
  ASSERT_EQ(granted(), 1u);
  EXPECT_EQ(plan_.decisions[0].number, 2u);
  EXPECT_EQ(plan_.decisions[0].verdict, wire::Verdict::kLater) << "what it asks for is more now";
  sight_.now_ns += kSecond / 10;
  gives("second", 4);
  look();
  ASSERT_EQ(granted(), 1u);
  EXPECT_EQ(plan_.decisions[0].verdict, wire::Verdict::kGranted);
  sight_.now_ns += kSecond / 10;
  ask("second", 8);
  EXPECT_EQ(look(), Ids{}) << "the first has not taken what it was promised yet";
}

TEST_F(RoomTest, WhoIsToGiveMoreOfOneCardIsNotLetInOnAnother) {
  add_job("a", 1, Does::kWork);
  add_job("part", 20, Does::kWork);
  sight_.cards.push_back(sight_.cards[0]);
  sight_.cards[1].uuid = "GPU-other";
  sight_.cards[1].free = 24 * kGiB;
  host::JobDevice other;
  other.account = 1;
  other.card.uuid = "GPU-other";
  sight_.jobs[1].devices.push_back(other);
  member("part").shares.push_back({});
  member("part").place = Place::kWaiting;
  member("part").parked = 4 * kGiB;
  ask("a", 9);
  sight_.now_ns += kSecond / 10;
  EXPECT_EQ(room_.add(sight_, {++number_, key("part"), "GPU-other", 4 * kGiB, sight_.now_ns,
                               sight_.now_ns + kSecond}),
            "");
  EXPECT_EQ(look(), Ids{"part"});
  ASSERT_EQ(granted(), 1u);
  EXPECT_EQ(plan_.decisions[0].verdict, wire::Verdict::kLater);
}

TEST_F(RoomTest, OneParkedInPartWaitsForNoMoreThanWhatIsAway) {
  add_job("part", 10, Does::kWork);
  add_job("other", 12, Does::kWork);
  member("part").place = Place::kWaiting;
  member("part").parked = 2 * kGiB;
  sight_.now_ns += 2 * kSecond;
  EXPECT_EQ(look(), Ids{"part"});
  EXPECT_EQ(plan_.moves[0].move, ledger::Move::kToCard);
}

TEST_F(RoomTest, WhatParkedMemoryMayTakeOfTheHostIsNotExceededByALittleMore) {
  std::ofstream(testing::TempDir() + "room_test.toml") << "host_memory = \"10GiB\"\n";
  policy_ = *read_policy(testing::TempDir() + "room_test.toml");
  std::remove((testing::TempDir() + "room_test.toml").c_str());
  add_job("part", 6, Does::kIdle);
  add_job("idle", 16, Does::kIdle);
  add_job("a", 1, Does::kWork);
  member("part").place = Place::kHost;
  member("part").parked = 3 * kGiB;
  member("part").shares[0].movable = 0;
  ask("a", 8);
  EXPECT_EQ(look(), Ids{"idle"});
  EXPECT_EQ(asked_bytes("idle"), 7 * kGiB);
  ask("a", 1);
  EXPECT_EQ(look(), Ids{}) << "nothing is left beside what was asked for";
}

TEST_F(RoomTest, WhatGaveEnoughWithoutAMoveMayBeAskedAgainAtOnce) {
  add_job("trims", 20, Does::kIdle);
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{"trims"});
  member("trims").asked = false;
  EXPECT_EQ(look(), Ids{"trims"});
  EXPECT_EQ(plan_.lines, std::vector<std::string>{});
}

TEST_F(RoomTest, WhoWaitsLongestIsServedFirstAndNobodyTakesItsRoom) {
  add_job("idle", 12, Does::kIdle);
  add_job("large", 1, Does::kWork);
  add_job("small", 1, Does::kWork);
  ask("large", 20);
  EXPECT_EQ(look(), Ids{"idle"});
  sight_.now_ns += kSecond / 10;
  ask("small", 5);
  EXPECT_EQ(look(), Ids{});
  EXPECT_EQ(granted(), 0u) << "10 GiB are free, and are the large one's";
  parked("idle");
  look();
  ASSERT_EQ(granted(), 1u);
  EXPECT_EQ(plan_.decisions[0].number, 1u);
}

TEST_F(RoomTest, OneThatCannotBeServedHoldsUpNobody) {
  add_job("a", 1, Does::kWork);
  add_job("b", 1, Does::kWork);
  sight_.jobs[0].stays = sight_.jobs[1].stays = true;
  ask("a", 23);
  ask("b", 5);
  look();
  ASSERT_EQ(granted(), 1u);
  EXPECT_EQ(plan_.decisions[0].number, 2u);
}

TEST_F(RoomTest, APauseBetweenStepsIsNotIdleness) {
  add_job("trains", 20, Does::kIdle);
  member("trains").idle_ns = sight_.now_ns - kSecond / 100;
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{});
}

TEST_F(RoomTest, WithinItsReserveAJobTakesBackWhatOthersHoldAboveTheirs) {
  add_job("borrower", 20, Does::kWork);
  add_job("a", 1, Does::kWork);
  reserve("borrower", 4);
  reserve("a", 12);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{"borrower"});
}

TEST_F(RoomTest, AReserveIsKeptForThoseWithinTheirsToo) {
  add_job("fair", 12, Does::kWork);
  add_job("a", 12, Does::kWork);
  reserve("fair", 12);
  reserve("a", 12);
  ask("a", 1);
  EXPECT_EQ(look(), Ids{}) << "it asks beyond its own";
}

TEST_F(RoomTest, AHolderKeepsItsTurnForTenTimesTheMoves) {
  add_job("holder", 20, Does::kWork);
  add_job("a", 1, Does::kWork);
  member("holder").move_us = member("a").move_us = 1'000'000;
  ask("a", 10);
  EXPECT_EQ(look(), Ids{});
  ASSERT_EQ(room_.turns().size(), 1u);
  EXPECT_EQ(room_.turns()[0].holder, "holder");
  EXPECT_EQ(room_.turns()[0].ends_ns, sight_.now_ns + 20 * kSecond);
  sight_.now_ns += 19 * kSecond;
  EXPECT_EQ(look(), Ids{});
  sight_.now_ns += 2 * kSecond;
  EXPECT_EQ(look(), Ids{"holder"});
}

TEST_F(RoomTest, WhoWasJustLetInIsNotParkedBeforeItsTurnIsOver) {
  add_job("first", 20, Does::kWork);
  add_job("second", 1, Does::kWork);
  ask("second", 20);
  look();
  sight_.now_ns += 3 * kSecond;
  EXPECT_EQ(look(), Ids{"first"});
  parked("first");
  ask("first", 20);
  look();
  ASSERT_EQ(granted(), 1u);
  takes("second", 20);
  for (int tenth = 0; tenth < 19; ++tenth) {
    sight_.now_ns += kSecond / 10;
    EXPECT_EQ(look(), Ids{}) << tenth;
  }
  sight_.now_ns += kSecond / 5;
  EXPECT_EQ(look(), Ids{"second"});
}

TEST_F(RoomTest, OfOthersOnlyWhatThePolicyAllowsIsMoved) {
  add_job("theirs", 20, Does::kIdle, 5);
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{});
  may_park_ = MayPark::kIdle;
  EXPECT_EQ(look(), Ids{"theirs"});
}

TEST_F(RoomTest, NobodyAtWorkGoesForALowerPriority) {
  may_park_ = MayPark::kAny;
  add_job("high", 20, Does::kWork, 2);
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  sight_.now_ns += 100 * kSecond;
  EXPECT_EQ(look(), Ids{});
}

TEST_F(RoomTest, WhoRefusedIsLeftAloneForAWhile) {
  add_job("shares", 20, Does::kIdle);
  add_job("a", 1, Does::kWork);
  ask("a", 10);
  EXPECT_EQ(look(), Ids{"shares"});
  member("shares").asked = false;
  member("shares").refusal = wire::Refusal::kShared;
  EXPECT_EQ(look(), Ids{});
  sight_.now_ns += kSecond;
  EXPECT_EQ(look(), Ids{});
  sight_.now_ns += 5 * kSecond;
  EXPECT_EQ(look(), Ids{"shares"});
}

TEST_F(RoomTest, OneThatWaitsAndAsksNobodyIsToldWhenThereIsRoom) {
  add_job("a", 10, Does::kWork);
  parked("a");
  member("a").place = Place::kWaiting;
  sight_.now_ns += 2 * kSecond;
  EXPECT_EQ(look(), Ids{"a"});
  EXPECT_EQ(plan_.moves[0].move, ledger::Move::kToCard);
}

TEST_F(RoomTest, WhatNobodyCouldGiveIsRefusedAfterAMoment) {
  add_job("a", 14, Does::kWork);
  add_job("b", 8, Does::kWork);
  ask("a", 11);
  EXPECT_EQ(look(), Ids{});
  EXPECT_EQ(granted(), 0u) << "somebody may be about to end";
  sight_.now_ns += 3 * kSecond;
  look();
  ASSERT_EQ(plan_.decisions.size(), 1u);
  EXPECT_EQ(plan_.decisions[0].verdict, wire::Verdict::kNever);
  EXPECT_EQ(
      plan_.decisions[0].text,
      "11GiB on card 0 is more than others could give (10GiB with what is free); use less, or "
      "end a job");
}

TEST_F(RoomTest, WhatOthersWillGiveLaterIsWaitedFor) {
  add_job("a", 14, Does::kWork);
  add_job("b", 8, Does::kWork);
  ask("a", 10);
  look();
  sight_.now_ns += kSecond;
  look();
  EXPECT_EQ(granted(), 0u) << "b has its turn";
  sight_.now_ns += 10 * kSecond;
  EXPECT_EQ(look(), Ids{"b"});
  EXPECT_EQ(granted(), 0u);
}

TEST_F(RoomTest, WhoWaitsForItsOwnMemoryIsNotRefused) {
  add_job("a", 14, Does::kWork);
  add_job("b", 9, Does::kWork);
  member("a").place = Place::kWaiting;
  member("b").shares[0].movable = 0;
  ask("a", 14);
  sight_.now_ns += 10 * kSecond;
  look();
  EXPECT_EQ(granted(), 0u);
}

}  // namespace
}  // namespace vram::daemon
