#include "wire/daemon_messages.h"

#include <gtest/gtest.h>

#include <cstring>

namespace vram::wire {
namespace {

TEST(DaemonMessages, AWholeRequestIsTaken) {
  DaemonRequest request = make_request(DaemonAsk::kRoom), read{};
  request.bytes = 7;
  EXPECT_EQ(read_request(&request, sizeof request, &read), RequestFault::kNone);
  EXPECT_EQ(read.bytes, 7u);
}

TEST(DaemonMessages, AnythingElseIsRefusedByWhatIsWrong) {
  const auto fault = [](auto change, std::size_t size) {
    DaemonRequest request = make_request(DaemonAsk::kAdmit), read{};
    change(&request);
    return read_request(&request, size, &read);
  };
  constexpr std::size_t kWhole = sizeof(DaemonRequest);
  const auto nothing = [](DaemonRequest*) {};
  EXPECT_EQ(fault(nothing, 0), RequestFault::kSize);
  EXPECT_EQ(fault(nothing, kWhole - 1), RequestFault::kSize);
  EXPECT_EQ(fault([](auto* r) { r->magic = 1; }, kWhole), RequestFault::kMagic);
  EXPECT_EQ(fault([](auto* r) { r->version = 9; }, kWhole), RequestFault::kVersion);
  EXPECT_EQ(fault([](auto* r) { r->version = 9; }, 16), RequestFault::kVersion);
  EXPECT_EQ(fault([](auto* r) { r->ask = DaemonAsk{0}; }, kWhole), RequestFault::kAsk);
  EXPECT_EQ(fault([](auto* r) { r->ask = DaemonAsk{77}; }, kWhole), RequestFault::kAsk);
  EXPECT_EQ(fault([](auto* r) { std::memset(r->job, 'x', sizeof r->job); }, kWhole),
            RequestFault::kText);
}

}  // namespace
}  // namespace vram::wire
