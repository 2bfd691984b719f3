#include "sim/faults.h"

#include <gtest/gtest.h>

namespace vram::sim {
namespace {

TEST(Faults, OneCallOrEveryNth) {
  std::vector<Fault> faults;
  ASSERT_TRUE(parse_faults("cuMemAlloc_v2:3=2,cuMemCreate:every=10=999", &faults));
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0].name, "cuMemAlloc_v2");
  EXPECT_EQ(faults[0].number, 3u);
  EXPECT_FALSE(faults[0].repeats);
  EXPECT_EQ(faults[0].result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(faults[1].number, 10u);
  EXPECT_TRUE(faults[1].repeats);
  EXPECT_EQ(faults[1].result, CUDA_ERROR_UNKNOWN);
}

TEST(Faults, MalformedListsAreRefusedWhole) {
  std::vector<Fault> faults;
  for (const char* text :
       {"cuMemAlloc_v2", "cuMemAlloc_v2:3", "cuMemAlloc_v2=2", ":3=2", "cuMemAlloc_v2:0=2",
        "cuMemAlloc_v2:3=0", "cuMemAlloc_v2:x=2", "cuMemAlloc_v2:3=2,,", "cuMemAlloc_v2:3=1000"}) {
    EXPECT_FALSE(parse_faults(text, &faults)) << text;
  }
  EXPECT_TRUE(faults.empty());
}

}  // namespace
}  // namespace vram::sim
