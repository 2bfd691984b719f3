// All ways in which the steps of several processes can fall between each other, and every step at
// which one of them can be killed.
//
// The code under test is the real one, compiled here once more with a step before each access to a
// shared word. Actors run on stacks of their own and give way at every step; who goes on, or dies,
// is the explorer's choice. A run is a list of choices. Runs that lead to the same memory, with
// actors that have seen the same, go on alike and are followed once.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <unordered_set>
#include <vector>

#include "ledger/world.h"
#include "wire/job_layout.h"

// The words' accesses under other names, so that the code below uses those with steps.
#define read read_at_once
#define swap swap_at_once
#include "ledger/word.h"
#undef read
#undef swap

namespace vram::ledger {

void give_way();
void note_seen(std::uint64_t value);

inline wire::Word128 read(const wire::Word128& word) {
  give_way();
  const wire::Word128 value = read_at_once(word);
  note_seen(value.lo * 31 + value.hi);
  return value;
}

inline bool swap(wire::Word128& word, const wire::Word128& from, const wire::Word128& to) {
  give_way();
  const bool done = swap_at_once(word, from, to);
  note_seen(done ? 1 : 2);
  return done;
}

}  // namespace vram::ledger

#define owner_of owner_of_at_once
#include "ledger/slots.h"
#undef owner_of

namespace vram::ledger {

inline Owner owner_of(const wire::Job& job, std::uint32_t slot) {
  give_way();
  const Owner owner = owner_of_at_once(job, slot);
  note_seen(owner.identity * 31 + owner.pid_namespace);
  return owner;
}

}  // namespace vram::ledger

#include "ledger/reap.cc"
#include "ledger/settled.cc"
#include "ledger/total.cc"

namespace vram::ledger {
namespace {

constexpr std::uint32_t kSlots = 3;
constexpr std::uint64_t kAll = kMaxSum;

struct Actor {
  std::function<void()> body;
  std::uint64_t identity;  // 0: never killed
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(64UL * 1024);
  std::uint64_t seen = 0;  // all that it has seen, hashed
  std::uint64_t steps = 0;
  bool finished = false;
  bool killed = false;
};

// The run under way; one at a time.
struct Replay {
  std::vector<std::unique_ptr<Actor>> actors;
  Actor* current = nullptr;
  ucontext_t explorer{};
  std::set<std::uint64_t> dead;
  int last = -1;  // actor
  int switches = 0;
  std::uint64_t history = 0;  // the choices, hashed
};
Replay* run = nullptr;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

void give_way() {
  if (run == nullptr || run->current == nullptr) return;
  Actor* self = run->current;
  ++self->steps;
  swapcontext(&self->context, &run->explorer);
}

void note_seen(std::uint64_t value) {
  if (run != nullptr && run->current != nullptr)
    run->current->seen = mix(run->current->seen, value);
}

namespace {

void start_actor() {
  Actor* self = run->current;
  self->body();
  self->finished = true;
}

const World& world_of_the_run() {
  static const World world{
      [](std::uint64_t identity, std::uint64_t) { return run->dead.count(identity) == 0; }, nullptr,
      nullptr};
  return world;
}

class Interleaving : public testing::Test {
 protected:
  Interleaving() {
    void* at = mmap(nullptr, sizeof(wire::Job), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    job_ = static_cast<wire::Job*>(at);
  }
  ~Interleaving() override { munmap(job_, sizeof(wire::Job)); }

  wire::Job& job() { return *job_; }
  wire::Cell& cell(std::uint32_t slot) { return job_->cell[0][slot]; }

  // Says what the actors do, and what the account was before. Called anew for each run.
  std::function<void()> scene;
  // Checked after every step, and when all have finished and the dead are reaped.
  std::function<void()> always = [] {};
  std::function<void()> finally = [] {};
  bool kills = false;
  // With more than two actors: how often one may be left for another before it has finished.
  int most_switches = 1000;
  // False where actors read what has no step: then what they have seen does not tell them apart.
  bool merges = true;

  void actor(std::uint64_t identity, std::function<void()> body) {
    run_.actors.push_back(std::make_unique<Actor>());
    run_.actors.back()->body = std::move(body);
    run_.actors.back()->identity = identity;
  }

  void held_before(std::uint32_t slot, std::uint64_t count) {
    ASSERT_TRUE(add(job(), 0, slot, count, kAll));
  }

  std::uint64_t share(std::uint32_t slot) { return share_at(job(), 0, charge_of(slot)); }
  std::uint64_t beside(std::uint32_t slot) { return share_at(job(), 0, beside_of(slot)); }

  void explore() {
    std::vector<std::vector<int>> todo{{}};
    while (!todo.empty()) {
      std::vector<int> choices = std::move(todo.back());
      todo.pop_back();
      follow(std::move(choices), &todo);
      if (HasFailure()) return;
      ++runs_;
    }
    printf("%zu states, %zu runs\n", states_.size(), runs_);
    EXPECT_GT(states_.size(), 20u);
  }

 private:
  static constexpr int kKill = 100;

  void begin() {
    std::memset(static_cast<void*>(&job_->device[0]), 0, sizeof job_->device[0]);
    std::memset(static_cast<void*>(job_->cell[0]), 0, kSlots * sizeof(wire::Cell));
    job_->device[0].key = 1;
    job_->device[0].limit = wire::kUnlimited;
    job_->header.slots_used = kSlots;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) job_->owner[slot] = {slot + 1, 0};
    run_ = Replay{};
    run = &run_;
    scene();
    for (const auto& actor : run_.actors) {
      getcontext(&actor->context);
      actor->context.uc_stack.ss_sp = actor->stack.data();
      actor->context.uc_stack.ss_size = actor->stack.size();
      actor->context.uc_link = &run_.explorer;
      makecontext(&actor->context, start_actor, 0);
    }
  }

  void choose(int choice) {
    run_.history = mix(run_.history, static_cast<std::uint64_t>(choice) + 1);
    Actor& actor = *run_.actors[static_cast<std::size_t>(choice % kKill)];
    if (choice < kKill) {
      if (run_.last >= 0 && run_.last != choice && going_on(run_.last)) ++run_.switches;
      run_.last = choice;
    }
    if (choice >= kKill) {
      actor.killed = true;
      run_.dead.insert(actor.identity);
      return;
    }
    run_.current = &actor;
    swapcontext(&run_.explorer, &actor.context);
    run_.current = nullptr;
  }

  bool going_on(int at) {
    const Actor& actor = *run_.actors[static_cast<std::size_t>(at)];
    return !actor.finished && !actor.killed;
  }

  std::vector<int> options() {
    std::vector<int> options;
    const bool only_last = run_.switches >= most_switches && run_.last >= 0 && going_on(run_.last);
    for (std::size_t i = 0; i < run_.actors.size(); ++i) {
      const Actor& actor = *run_.actors[i];
      if (!going_on(static_cast<int>(i))) continue;
      if (only_last && static_cast<int>(i) != run_.last) continue;
      options.push_back(static_cast<int>(i));
      if (kills && run_.dead.empty() && actor.identity != 0) {
        options.push_back(static_cast<int>(i) + kKill);
      }
    }
    return options;
  }

  std::uint64_t state() {
    if (!merges) return run_.history;
    std::uint64_t hash = mix(job_->device[0].total.lo, job_->device[0].total.hi);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      for (const wire::Word128* word :
           {&cell(slot).charge, &cell(slot).beside, &job_->owner[slot]}) {
        hash = mix(mix(hash, word->lo), word->hi);
      }
      hash = mix(mix(hash, cell(slot).committed), cell(slot).released);
    }
    if (most_switches < 1000)
      hash = mix(hash, run_.switches * 8u + static_cast<unsigned>(run_.last));
    for (const auto& actor : run_.actors) {
      hash =
          mix(mix(hash, actor->seen), actor->steps * 4UL + actor->finished * 2UL + actor->killed);
    }
    return hash;
  }

  void expect_total_is_the_sum_of_the_shares() {
    const Total last = unpack(job_->device[0].total);
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      sum += last.place == charge_of(slot) ? last.share : cell(slot).charge.lo;
      sum += last.place == beside_of(slot) ? last.share : cell(slot).beside.lo;
    }
    ASSERT_EQ(last.sum, sum) << "the last operation counted as written";
  }

  void follow(std::vector<int> choices, std::vector<std::vector<int>>* todo) {
    begin();
    for (const int choice : choices) choose(choice);
    for (;;) {
      ASSERT_NO_FATAL_FAILURE(expect_total_is_the_sum_of_the_shares());
      ASSERT_NO_FATAL_FAILURE(always());
      if (!states_.insert(state()).second) return;
      const std::vector<int> next = options();
      if (next.empty()) break;
      for (std::size_t i = 1; i < next.size(); ++i) {
        todo->push_back(choices);
        todo->back().push_back(next[i]);
      }
      choices.push_back(next[0]);
      choose(next[0]);
    }
    (void)reap(job(), world_of_the_run());
    ASSERT_NO_FATAL_FAILURE(expect_total_is_the_sum_of_the_shares());
    for (const std::uint64_t identity : run_.dead) {
      const auto slot = static_cast<std::uint32_t>(identity - 1);
      ASSERT_EQ(share(slot) + beside(slot), 0u) << "the dead hold nothing";
    }
    ASSERT_NO_FATAL_FAILURE(finally());
  }

  wire::Job* job_ = nullptr;
  Replay run_;
  std::unordered_set<std::uint64_t> states_;
  std::size_t runs_ = 0;
};

TEST_F(Interleaving, TwoProcessesThatChargeAndGiveBackHoldWhatTheySay) {
  scene = [&] {
    actor(1, [&] {
      (void)add(job(), 0, 0, 3, kAll);
      subtract(job(), 0, 0, 2);
    });
    actor(2, [&] {
      (void)add(job(), 0, 1, 5, kAll);
      subtract(job(), 0, 1, 5);
    });
  };
  finally = [&] {
    ASSERT_EQ(share(0), 1u);
    ASSERT_EQ(share(1), 0u);
  };
  explore();
}

TEST_F(Interleaving, TwoProcessesOfWhichOneIsKilledAtAnyStepLeaveWhatTheOtherHolds) {
  kills = true;
  scene = [&] {
    actor(1, [&] { (void)add(job(), 0, 0, 3, kAll); });
    actor(2, [&] {
      (void)add(job(), 0, 1, 5, kAll);
      subtract(job(), 0, 1, 4);
    });
  };
  finally = [&] {
    ASSERT_EQ(share(0), run->dead.count(1) != 0 ? 0u : 3u);
    ASSERT_EQ(share(1), run->dead.count(2) != 0 ? 0u : 1u);
  };
  explore();
}

TEST_F(Interleaving, TwoThreadsOfAProcessShareItsAccount) {
  scene = [&] {
    actor(0, [&] { (void)add(job(), 0, 0, 3, kAll); });
    actor(0, [&] {
      (void)add(job(), 0, 0, 5, kAll);
      subtract(job(), 0, 0, 4);
    });
  };
  finally = [&] { ASSERT_EQ(share(0), 4u); };
  explore();
}

TEST_F(Interleaving, ThreeProcessesNeverLoseAnOperation) {
  kills = true;
  most_switches = 2;
  scene = [&] {
    actor(1, [&] { (void)add(job(), 0, 0, 1, kAll); });
    actor(2, [&] { (void)add(job(), 0, 1, 2, kAll); });
    actor(3, [&] { (void)add(job(), 0, 2, 4, kAll); });
  };
  finally = [&] {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_EQ(share(slot), run->dead.count(slot + 1) != 0 ? 0u : 1u << slot);
    }
  };
  explore();
}

TEST_F(Interleaving, TheCapHoldsAtEveryStepAndOneOfTwoFits) {
  static int granted;
  scene = [&] {
    granted = 0;
    actor(0, [&] { granted += add(job(), 0, 0, 6, 10); });
    actor(0, [&] { granted += add(job(), 0, 1, 6, 10); });
  };
  always = [&] { ASSERT_LE(total_of(job(), 0), 10u); };
  finally = [&] { ASSERT_EQ(granted, 1); };
  explore();
}

TEST_F(Interleaving, WhatANeighbourMeasuresIsWholeWhereverHeDies) {
  kills = true;
  most_switches = 5;
  scene = [&] {
    held_before(0, 3);
    actor(2, [&] { (void)set_beside(job(), 0, 0, {1, 0}, 0, 7); });
    actor(0, [&] {
      (void)add(job(), 0, 0, 2, kAll);
      subtract(job(), 0, 0, 3);
    });
  };
  finally = [&] {
    ASSERT_EQ(share(0), 2u);
    ASSERT_TRUE(beside(0) == 7 || (beside(0) == 0 && run->dead.count(2) != 0));
  };
  explore();
}

TEST_F(Interleaving, ReapersThatMeetAndDieGiveBackTheDeadsShareOnce) {
  kills = true;
  most_switches = 5;
  scene = [&] {
    held_before(0, 5);
    (void)set_beside(job(), 0, 0, {1, 0}, 0, 2);
    held_before(2, 4);
    actor(2, [&] { (void)reap_slot(job(), 1, 0, world_of_the_run()); });
    actor(3, [&] { (void)reap_slot(job(), 1, 0, world_of_the_run()); });
    job().owner[0].lo |= kReaping;  // as by a reaper that died
  };
  finally = [&] {
    ASSERT_EQ(share(0) + beside(0), 0u);
    ASSERT_EQ(identity_in(job(), 0), 0u);
    ASSERT_EQ(share(2), run->dead.count(3) != 0 ? 0u : 4u);
  };
  explore();
}

TEST_F(Interleaving, ASleepingReaperTakesNothingFromTheSlotsNextOwner) {
  most_switches = 3;
  static bool claimed;
  scene = [&] {
    claimed = false;
    held_before(0, 5);
    job().owner[0].lo |= kReaping;
    actor(0, [&] { (void)reap_slot(job(), 1, 0, world_of_the_run()); });
    actor(0, [&] { (void)reap_slot(job(), 1, 0, world_of_the_run()); });
    actor(0, [&] {
      if (!swap_owner(job(), 0, {0, 0}, {42, 0})) return;
      claimed = true;
      (void)add(job(), 0, 0, 3, kAll);
    });
  };
  finally = [&] { ASSERT_EQ(share(0), claimed ? 3u : 0u); };
  explore();
}

TEST_F(Interleaving, ARefusalIsRightAtSomeMomentOfTheCall) {
  static std::uint64_t settled, highest;
  static bool looking, refused;
  merges = false;
  const auto settle = [](std::int64_t change) {
    settled += static_cast<std::uint64_t>(change);
    if (looking && settled > highest) highest = settled;
  };
  scene = [&, settle] {
    settled = 5;
    looking = refused = false;
    held_before(0, 5);  // will be released
    count_committed(cell(0), 5);
    held_before(2, 5);  // under way, will be committed
    job().device[0].limit = 12 * wire::kGranule;
    actor(0, [&, settle] {
      give_way();
      count_released(cell(0), 5);
      settle(-5);
      note_seen(1);
    });
    actor(0, [&, settle] {
      give_way();
      count_committed(cell(2), 5);
      settle(5);
      note_seen(1);
    });
    actor(0, [&] {
      give_way();
      looking = true;
      highest = settled;
      refused = never_fits(job(), 0, 3);
      looking = false;
      note_seen(highest * 2 + refused);
    });
  };
  finally = [&] { ASSERT_TRUE(!refused || highest + 3 > 12); };
  explore();
}

}  // namespace
}  // namespace vram::ledger
