#include "sim/address_space.h"

#include <gtest/gtest.h>

namespace vram::sim {
namespace {

TEST(RangeAllocator, NeighboursJoinAgain) {
  RangeAllocator ranges;
  ranges.add(0x1000, 0x3000);
  EXPECT_EQ(ranges.allocate(0x1000, 1), 0x1000u);
  EXPECT_EQ(ranges.allocate(0x1000, 1), 0x2000u);
  EXPECT_EQ(ranges.allocate(0x1000, 1), 0x3000u);
  EXPECT_EQ(ranges.allocate(1, 1), 0u);
  ranges.release(0x1000, 0x1000);
  ranges.release(0x3000, 0x1000);
  EXPECT_EQ(ranges.allocate(0x2000, 1), 0u) << "the middle is taken";
  ranges.release(0x2000, 0x1000);
  EXPECT_EQ(ranges.allocate(0x3000, 1), 0x1000u);
}

TEST(RangeAllocator, AlignmentSkipsTheBeginning) {
  RangeAllocator ranges;
  ranges.add(0x1800, 0x3000);
  EXPECT_EQ(ranges.allocate(0x1000, 0x1000), 0x2000u);
  EXPECT_EQ(ranges.allocate(0x800, 1), 0x1800u);
}

TEST(RangeAllocator, AChosenPlaceIsTakenOnce) {
  RangeAllocator ranges;
  ranges.add(0x1000, 0x3000);
  EXPECT_TRUE(ranges.allocate_at(0x2000, 0x1000));
  EXPECT_FALSE(ranges.allocate_at(0x2000, 0x1000));
  EXPECT_FALSE(ranges.allocate_at(0x3800, 0x1000)) << "past the end";
  EXPECT_FALSE(ranges.allocate_at(0x800, 0x1000)) << "before the beginning";
}

TEST(AddressSpace, BytesGoWithTheRelease) {
  AddressSpace* const space = AddressSpace::get();
  ASSERT_NE(space, nullptr);
  const CUdeviceptr base = space->allocate(2 << 20);
  auto* const bytes = static_cast<unsigned char*>(space->shadow(base));
  bytes[100] = 1;
  EXPECT_TRUE(space->contains(base));
  space->release(base, 2 << 20);
  EXPECT_EQ(space->allocate(2 << 20), base);
  EXPECT_EQ(bytes[100], 0);
}

}  // namespace
}  // namespace vram::sim
