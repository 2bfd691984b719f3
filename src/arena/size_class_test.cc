#include "arena/size_class.h"

#include <gtest/gtest.h>

namespace vram::arena {
namespace {

TEST(SizeClass, ABlockIsLargeEnoughAndAtMostASixtyFourthTooLarge) {
  for (std::uint64_t bytes = 1; bytes < (std::uint64_t{1} << 40); bytes += 1 + bytes / 97) {
    const std::uint64_t block = class_bytes(class_of(bytes));
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % kGranule, 0u);
    ASSERT_LT(block - bytes, kGranule + bytes / kSteps);
  }
}

TEST(SizeClass, ClassesHaveNoHolesAndEachIsTheClassOfItsOwnSize) {
  for (std::uint32_t c = 0; c < 2000; ++c) {
    ASSERT_EQ(class_of(class_bytes(c)), c);
    ASSERT_EQ(class_of(class_bytes(c) + 1), c + 1);
  }
}

}  // namespace
}  // namespace vram::arena
