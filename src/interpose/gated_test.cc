// Every handler of a GATED row, before a driver that only notes what it is asked.

#include "interpose/gated.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>

namespace vram::driver {

Real real{};
bool has_driver = true;
bool load() { return has_driver; }

}  // namespace vram::driver

namespace vram::interpose {
namespace {

using driver::Real;
using driver::real;
using residency::Gate;

constexpr std::uint64_t kLong_us = 5'000'000;
constexpr CUresult kAnswer = CUDA_ERROR_ILLEGAL_STATE;  // which no handler gives by itself

struct Asked {
  std::atomic<int> times{0};
  bool as_given = false;  // with the arguments, each in its place
  bool inside = false;    // of the gate
};
Asked asked;
std::function<void()> meanwhile;  // once, while the driver works
std::atomic<bool> waits_outside{false};

// Differs from place to place.
template <typename T>
T argument(std::size_t place) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(1);
  } else {
    std::array<T, 1> value;
    std::memset(value.data(), static_cast<int>(0x10 + place), sizeof value);
    return value[0];
  }
}

template <typename T>
bool is_argument(const T& given, std::size_t place) {
  const std::array<T, 2> both{given, argument<T>(place)};
  return std::memcmp(both.data(), both.data() + 1, sizeof both / 2) == 0;
}

bool is_inside() {
  const bool shuts = Gate::close(0);
  Gate::open();
  return !shuts;
}

template <auto kSlot>
struct Fake;

template <typename... Args, CUresult (*Real::*kSlot)(Args...)>
struct Fake<kSlot> {
  static CUresult answer(Args... args) {
    std::size_t place = 0;
    asked.as_given = (is_argument(args, place++) && ...);
    ++asked.times;
    if (meanwhile) {
      std::exchange(meanwhile, nullptr)();
    } else {
      asked.inside = is_inside();
    }
    return kAnswer;
  }
  static void install() { real.*kSlot = answer; }
  static void remove() { real.*kSlot = nullptr; }

  template <CUresult (*kHandler)(Args...)>
  static CUresult ask() {
    return ask_with<kHandler>(std::index_sequence_for<Args...>());
  }
  template <CUresult (*kHandler)(Args...), std::size_t... kPlaces>
  static CUresult ask_with(std::index_sequence<kPlaces...>) {
    return kHandler(argument<Args>(kPlaces)...);
  }
};

struct Row {
  const char* name;
  void (*install)();
  void (*remove)();
  CUresult (*ask)();
};

const Row kRows[] = {
#define GATED(symbol, since)                                           \
  {#symbol, Fake<&Real::symbol>::install, Fake<&Real::symbol>::remove, \
   Fake<&Real::symbol>::ask<&::symbol>},
#include "driver/hooks.def"
};

class Gated : public ::testing::Test {
 protected:
  void SetUp() override {
    driver::has_driver = true;
    for (const Row& row : kRows) row.install();
  }
  static void put_up_gate() {
    Gate::put_up([] { waits_outside = true; });
  }
};

bool passes(const Row& row, bool inside) {
  asked.times = 0;
  const CUresult result = row.ask();
  const bool right =
      result == kAnswer && asked.times == 1 && asked.as_given && asked.inside == inside;
  if (!right) std::fprintf(stderr, "%s\n", row.name);
  return right;
}

// A forked child has no gate.
TEST_F(Gated, CallsReachTheDriverAsTheyAreWhileNoGateIsUp) {
  const auto all_pass = [] {
    bool all = true;
    for (const Row& row : kRows) all = passes(row, false) && all;
    return all;
  };
  EXPECT_EXIT(_exit(all_pass() ? 0 : 1), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(Gated, CallsAreInsideTheGateForAsLongAsTheDriverWorks) {
  put_up_gate();
  for (const Row& row : kRows) {
    EXPECT_TRUE(passes(row, true)) << row.name;
    ASSERT_TRUE(Gate::close(kLong_us)) << row.name << " is still inside";
    Gate::open();
  }
}

// From then on the thread's calls need no more than a look.
void take_seat() {
  if (Gate::try_enter()) Gate::leave();
}

// In a thread that prepares itself while the gate is shut already.
void expect_to_wait(const Row& row, void (*prepare)()) {
  ASSERT_TRUE(Gate::close(kLong_us) && Gate::shut()) << row.name;
  asked.times = 0;
  waits_outside = false;
  CUresult result = CUDA_SUCCESS;
  bool inside_after = false;
  std::thread caller([&] {
    prepare();
    result = row.ask();
    inside_after = is_inside();
  });
  while (!waits_outside && asked.times == 0) std::this_thread::yield();
  EXPECT_EQ(asked.times, 0) << row.name << " went by a shut gate";
  Gate::open();
  caller.join();
  EXPECT_EQ(result, kAnswer) << row.name;
  EXPECT_TRUE(asked.times == 1 && asked.as_given && asked.inside) << row.name;
  EXPECT_FALSE(inside_after) << row.name;
}

TEST_F(Gated, CallsWaitAtAShutGateAndGoOnWhenItOpens) {
  put_up_gate();
  for (const Row& row : kRows) expect_to_wait(row, take_seat);
}

TEST_F(Gated, TheFirstCallOfAThreadWaitsAtAShutGateToo) {
  put_up_gate();
  for (const Row& row : kRows) expect_to_wait(row, [] {});
}

bool another_thread_may_enter() {
  bool may = false;
  std::thread([&may] {
    may = Gate::try_enter();
    if (may) Gate::leave();
  }).join();
  return may;
}

TEST_F(Gated, CallsInsideACallLeaveItInside) {
  put_up_gate();
  for (const Row& row : kRows) {
    bool inside_after = false;
    meanwhile = [&] {
      EXPECT_TRUE(passes(row, true)) << row.name;
      inside_after = is_inside();
    };
    EXPECT_EQ(row.ask(), kAnswer) << row.name;
    EXPECT_TRUE(inside_after) << row.name;
    EXPECT_FALSE(is_inside()) << row.name;
  }
}

TEST_F(Gated, CallsInsideACallPassAClosingGate) {
  put_up_gate();
  for (const Row& row : kRows) {
    bool closed = false;
    std::thread closer;
    meanwhile = [&] {
      closer = std::thread([&closed] { closed = Gate::close(kLong_us); });
      while (another_thread_may_enter()) std::this_thread::yield();
      meanwhile = [] {};  // who else closes the gate would open it
      EXPECT_EQ(row.ask(), kAnswer) << row.name;
    };
    EXPECT_EQ(row.ask(), kAnswer) << row.name;
    closer.join();
    ASSERT_TRUE(closed) << row.name << " waited at the gate, or is still inside";
    Gate::open();
  }
}

TEST_F(Gated, AThreadThatEndsInTheDriverIsOutside) {
  put_up_gate();
  for (const Row& row : kRows) {
    meanwhile = [] { pthread_exit(nullptr); };
    const auto ask = [](void* of) -> void* {
      take_seat();
      (void)static_cast<const Row*>(of)->ask();
      ADD_FAILURE() << "lives on";
      return nullptr;
    };
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, nullptr, ask, const_cast<Row*>(&row)), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ASSERT_TRUE(Gate::close(kLong_us)) << row.name << " is still inside";
    Gate::open();
  }
}

TEST_F(Gated, CallsThatAreMissingSayWhatIsMissing) {
  for (const Row& row : kRows) {
    row.remove();
    EXPECT_EQ(row.ask(), CUDA_ERROR_NOT_SUPPORTED) << row.name;
    driver::has_driver = false;
    EXPECT_EQ(row.ask(), CUDA_ERROR_NO_DEVICE) << row.name;
    driver::has_driver = true;
  }
}

}  // namespace
}  // namespace vram::interpose
