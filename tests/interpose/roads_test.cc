// Every road to the driver leads to the same limit, and past it nothing has changed.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

class Road : public ::testing::TestWithParam<const char*> {};

TEST_P(Road, IsGoverned) {
  const Bench bench;
  const Outcome outcome = bench.governed({}, "roads", {GetParam(), built("lib/sim/libcuda.so.1")});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

INSTANTIATE_TEST_SUITE_P(
    All, Road,
    ::testing::Values("soname", "without_number", "absolute", "local", "deepbind",
                      "absolute_deepbind", "global_then_default", "default", "noload",
                      "absolute_noload", "closed_and_reopened", "new_namespace",
                      "absolute_new_namespace", "by_library", "by_deep_library",
                      "by_deep_library_absolute", "by_deep_library_absolute_deep",
                      "needed_by_library", "needed_by_deep_library", "version", "proc_address",
                      "proc_address_legacy", "proc_address_per_thread", "first_proc_address",
                      "variables_gone", "variables_changed"),
    [](const auto& one) { return std::string(one.param); });

TEST(Symbols, LeadToTheFunctionTheDriverWouldChoose) {
  const Bench bench;
  const Words arguments = {VRAM_SOURCE_DIR "/src/driver/exports-cuda.txt"};
  const Outcome bare = bench.bare("symbols", arguments);
  const Outcome governed = bench.governed({}, "symbols", arguments);
  EXPECT_EQ(bare.status, 0) << shown(bare);
  EXPECT_EQ(governed.status, 0) << governed.err;
  EXPECT_EQ(bare.out, governed.out);
}

TEST(Symbols, OfAnotherLibraryAreItsOwn) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({}, "/usr/bin/python3",
                     {"-c",
                      "import ctypes, sys\n"
                      "cuda = ctypes.CDLL('libcuda.so.1')\n"
                      "other = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
                      "print(other.cuMemAlloc_v2(), other.cuDNNLikeCreate(), cuda.cuInit(0))\n",
                      built("tests/programs/liblookalike.so")});
  EXPECT_EQ(outcome.out, "4711 4712 0\n") << shown(outcome);
}

TEST(Symbols, OfTheManagementLibraryAreAllThere) {
  const Bench bench;
  const Words arguments = {"-c",
                           "import ctypes, sys\n"
                           "nvml = ctypes.CDLL('libnvidia-ml.so.1')\n"
                           "names = open(sys.argv[1]).read().split() + ['nvmlNoSuchFunction']\n"
                           "print([name for name in names if hasattr(nvml, name)])\n",
                           VRAM_SOURCE_DIR "/src/driver/exports-nvml.txt"};
  const Outcome bare = bench.bare("/usr/bin/python3", arguments);
  const Outcome governed = bench.governed({}, "/usr/bin/python3", arguments);
  EXPECT_EQ(bare.status, 0) << shown(bare);
  EXPECT_GT(bare.out.size(), 1000u);
  EXPECT_EQ(bare.out, governed.out);
}

constexpr char kAllocateTwice[] =
    "import ctypes, sys\n"
    "for early in sys.argv[2:]: ctypes.CDLL(early, mode=ctypes.RTLD_GLOBAL)\n"
    "cuda = ctypes.CDLL(sys.argv[1])\n"
    "context, block = ctypes.c_void_p(), ctypes.c_uint64()\n"
    "size = ctypes.c_size_t(3 << 30)\n"
    "print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),\n"
    "      cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(block), size),\n"
    "      cuda.cuMemAlloc_v2(ctypes.byref(block), size))\n";

TEST(Python, CtypesIsGoverned) {
  const Bench bench;
  for (const std::string& name :
       {std::string("libcuda.so.1"), std::string("libcuda.so"), built("lib/sim/libcuda.so.1")}) {
    const Outcome outcome = bench.governed({}, "/usr/bin/python3", {"-c", kAllocateTwice, name});
    EXPECT_EQ(outcome.out, "0 0 0 0 2\n") << name << "\n" << shown(outcome);
  }
}

TEST(StandIn, GovernsByLibraryPathWithoutPreload) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({}, "/usr/bin/env",
                     {"-u", "LD_PRELOAD", "LD_LIBRARY_PATH=" + built("lib/vram"),
                      program_path("roads"), "needed_by_library"});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

TEST(StandIn, GovernsWhenAProgramLoadsItFirst) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({}, "/usr/bin/env",
                     {"-u", "LD_PRELOAD", "/usr/bin/python3", "-c", kAllocateTwice, "libcuda.so.1",
                      built("lib/vram/libcuda.so.1")});
  EXPECT_EQ(outcome.out, "0 0 0 0 2\n") << shown(outcome);
}

// Governing is by agreement: a program that leaves its job leaves the limit.
TEST(StandIn, WithoutAJobTheProgramSeesTheDriverItself) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({}, "/usr/bin/env",
                     {"-u", "VRAM_JOB", "LD_LIBRARY_PATH=" + built("lib/sim"), "/usr/bin/python3",
                      "-c", kAllocateTwice, "libcuda.so.1"});
  EXPECT_EQ(outcome.out, "0 0 0 0 0\n") << shown(outcome);
}

TEST(StandIn, WithoutADriverEveryCallSaysSo) {
  const Bench bench;
  const Outcome outcome = bench.command(
      {"/usr/bin/env", "LD_PRELOAD=" + built("lib/vram/libcuda.so.1"), "/usr/bin/python3", "-c",
       "import ctypes\n"
       "d = ctypes.CDLL(None)\n"
       "print(d.cuInit(0), d.cuMemAlloc_v2(None, 1), d.cuStreamCreate(None, 0))\n"
       "try: ctypes.CDLL('libcuda.so.1')\n"
       "except OSError: print('no file')\n"});
  EXPECT_EQ(outcome.out, "100 100 100\nno file\n") << shown(outcome);
}

}  // namespace
}  // namespace vram::interpose_test
